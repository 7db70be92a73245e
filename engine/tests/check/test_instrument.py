"""The calls that a compiler inserts for check mode, in every form in which compilers write them."""

import pytest
from running import ALL_TOOLS, run_script

from hostcuda.check import instrument
from hostcuda.errors import CompileError

pytestmark = pytest.mark.core("the calls that every check relies on")

FORMS = {
    "g++": "\tcall\t{}@PLT",
    "g++ -fno-plt": "\tcall\t*{}@GOTPCREL(%rip)",
    "clang++": "\tcallq\t{}@PLT",
    "clang++ -fno-plt": "\tcallq\t*{}@GOTPCREL(%rip)",
    "not position independent": "\tcall\t{}",
}
KERNEL = """\t.text
\t.type\tf, @function
f:
{first}
{read}
\tmovl\t(%rdi), %eax
{write}
\tmovl\t%eax, (%rsi)
\tret
"""


def assembly(form):
    calls = {
        "first": "__sanitizer_cov_trace_pc",
        "read": "__tsan_read4",
        "write": "__tsan_volatile_write8",
    }
    return KERNEL.format(**{name: form.format(call) for name, call in calls.items()})


@pytest.mark.parametrize("compiler", FORMS)
def test_every_form_of_the_calls_is_seen(compiler):
    text = instrument.instrument(assembly(FORMS[compiler]), checks=False)
    assert "__tsan" not in text and "__sanitizer" not in text
    assert text.count("\t.byte\t0, 4, 0, 4") == 1 and text.count("\t.byte\t1, 8, 1, 8") == 1


@pytest.mark.parametrize("form", ["\tjmp\t{}@PLT", "\tcall\t*%rax # {}", "\tmovabsq\t${}, %rax"])
def test_an_unknown_form_is_an_error_and_not_a_count_of_zero(form):
    with pytest.raises(
        CompileError, match=r"check mode does not know the call .* of this compiler"
    ):
        instrument.instrument(assembly(form), checks=False)


def test_blocks_of_clang_are_blocks():
    """Two pieces, the second one behind clang's label and its comment."""
    lines = [
        "\t.type\tf,@function",
        "f:",
        "\tcallq\t__tsan_read4@PLT",
        "\tjne\t.LBB0_2",
        "\t#APP",
        "\tnop",
        "1:",
        "\t#NO_APP",
        "\tcallq\t__tsan_read4@PLT",
        "\tretq",
        ".LBB0_2:      # %exit",
        "\tcallq\t__tsan_write4@PLT",
        "\tretq",
        ".Lfunc_end0:",
    ]
    text = instrument.instrument("\n".join(lines), checks=False)
    assert text.count("\t.long\t.Llk_piece") == 3


# Block b makes b accesses before its lanes meet: their logs become full at each place of the loop
# in some block.
FULL_LOGS = """
module = SourceModule('''
__global__ void meet(int *o) {
    int sum = 0, lane = threadIdx.x;
    for (int i = 0; i < blockIdx.x; i++) sum += ((volatile int *)o)[lane];
    for (int i = 0; i < 2000; i++) sum += __shfl_xor_sync(0xffffffff, lane + i, 1);
    o[32 + blockIdx.x * 32 + lane] = sum;
}''')
o = cuda.to_device(np.zeros(32 * 41, np.int32))
module.get_function("meet")(o, block=(32, 1, 1), grid=(40, 1))
cuda.Context.synchronize()
found = cuda.from_device(o, 32 * 41, np.int32)[32:].reshape(40, 32)
lanes = np.arange(32)
assert (found == 2000 * (lanes ^ 1) + sum(range(2000))).all()
assert not [finding for record in checking.launches() for finding in record.findings]
"""


@pytest.mark.thorough("five seconds or more")
def test_logs_that_are_full_when_lanes_meet_stop_the_right_thread():
    run_script(FULL_LOGS, tools=ALL_TOOLS)
