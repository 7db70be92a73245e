"""The calls that a compiler inserts for check mode, in every form in which compilers write them."""

import pytest

from hostcuda.check import instrument
from hostcuda.errors import CompileError

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
    calls = {"first": "__sanitizer_cov_trace_pc", "read": "__tsan_read4", "write": "__tsan_volatile_write8"}
    return KERNEL.format(**{name: form.format(call) for name, call in calls.items()})


@pytest.mark.parametrize("compiler", FORMS)
def test_every_form_of_the_calls_is_seen(compiler):
    text = instrument.instrument(assembly(FORMS[compiler]), checks=False)
    assert "__tsan" not in text and "__sanitizer" not in text
    assert text.count("\t.byte\t0, 4, 0, 0") == 1 and text.count("\t.byte\t1, 8, 1, 0") == 1


@pytest.mark.parametrize("form", ["\tjmp\t{}@PLT", "\tcall\t*%rax # {}", "\tmovabsq\t${}, %rax"])
def test_an_unknown_form_is_an_error_and_not_a_count_of_zero(form):
    with pytest.raises(CompileError, match=r"check mode does not know the call .* of this compiler"):
        instrument.instrument(assembly(form), checks=False)


def test_blocks_of_clang_are_blocks():
    """Two pieces, the second one behind clang's label and its comment."""
    lines = ["\t.type\tf,@function", "f:", "\tcallq\t__tsan_read4@PLT", "\tjne\t.LBB0_2", "\t#APP", "\tnop", "1:",
             "\t#NO_APP", "\tcallq\t__tsan_read4@PLT", "\tretq", ".LBB0_2:      # %exit",
             "\tcallq\t__tsan_write4@PLT", "\tretq", ".Lfunc_end0:"]
    text = instrument.instrument("\n".join(lines), checks=False)
    assert text.count("\t.long\t.Llk_piece") == 3
