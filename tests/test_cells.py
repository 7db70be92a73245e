"""Kernel cells: compiled when they run, with messages at the cell's own lines."""

import shutil
import subprocess
import sys

import numpy as np
import pytest
from IPython.core.error import UsageError
from IPython.testing.globalipapp import start_ipython

import hostcuda
import labkit
from labkit import LENET86
from labkit.base.errors import LabError
from labkit.exercises.exercise import exercise
from labkit.ladder.messages import Message, find_unclosed_brace, parse_messages
from labkit.ladder.source import cell_arguments, find_functions
from labkit.ladder.variants import Variant, variant
from labkit.page.cells import CompileFailed

pytestmark = pytest.mark.core("what a reader's kernel passes through")

REGISTERS = variant("registers").source


@pytest.fixture(scope="module")
def shell():
    """Return an IPython shell that has loaded labkit's magics."""
    hostcuda.ensure_context()
    shell = start_ipython()
    shell.run_line_magic("load_ext", "labkit")
    return shell


def run(shell, magic, line, text):
    return shell.run_cell_magic(magic, line, text)


@pytest.mark.skipif(hostcuda.engine() == "gpu", reason="grades are counted by the CPU engine")
def test_the_cell_of_an_exercise_is_compiled_as_it_is_graded_and_in_no_other_way(
    shell, monkeypatch, capsys
):
    own, compile_module = [], Variant.compile
    monkeypatch.setattr(
        Variant,
        "compile",
        lambda self, *defines, **how: own.append(self.own) or compile_module(self, *defines, **how),
    )
    run(shell, "kernel", "4 --exercise 04a", exercise("04a").start)
    assert not any(own)
    assert "block (16, 16, 1), 1,936 bytes of shared memory" in capsys.readouterr().out
    with pytest.raises(CompileFailed, match="line 2: error: 'zero' was not declared"):
        run(shell, "kernel", "4 --exercise 04a", f"int one = zero;\n{exercise('04a').start}")


def test_options_of_the_rung_are_given_by_name(shell):
    assert run(shell, "kernel", "4 tile=8", variant(4).source).options["tile"] == 8
    after = run(shell, "kernel", "4 --name mine tile=8", variant(4).source)
    assert after.options["tile"] == 8 and shell.user_ns["mine"] is after


@pytest.mark.parametrize(
    ("magic", "line", "text", "error", "message"),
    [
        (
            "cuda",
            "whole",
            "__global__ void k() {}\nint main(void) { k<<<1, 1>>>(); }\n",
            UsageError,
            "has a main.*begin it with %%program first.cu",
        ),
        ("kernel", "4 8", variant(4).source, UsageError, "8 is not an option: write name=value"),
        ("kernel", "²", variant(4).source, LabError, "no rung '²'"),
        ("kernel", "4 tile=²", variant(4).source, LabError, "tile"),
        ("kernel", "4 tiles=8", variant(4).source, LabError, "has no option 'tiles'"),
        *(
            (
                "kernel",
                f"4 --name {name}",
                variant(4).source,
                UsageError,
                f"--name {name} is not a name of Python",
            )
            for name in ("4x", "class")
        ),
        (
            "kernel",
            "1",
            "x = 3\n",
            LabError,
            "the cell has no kernel: write a function that begins with __global__ void",
        ),
        (
            "kernel",
            "1",
            "__global__ void a(float *x) {}\n__global__ void b(float *x) {}\n",
            LabError,
            "has to define conv; it defines a, b",
        ),
        ("kernel", "99", REGISTERS, LabError, "there is no rung 99"),
        (
            "kernel",
            "10 --part",
            "__device__ int other() { return 1; }\n",
            LabError,
            "has to define one of the kernel's functions, arrange, .*defines other",
        ),
        ("cuda", "", "__global__ void k() {}\n", UsageError, "%%cuda needs a name"),
        ("cuda", "class", "__global__ void k() {}\n", UsageError, "%%cuda needs a name"),
        ("cuda", "vectors -DX='a", "__global__ void k() {}\n", UsageError, "No closing quotation"),
        *(
            (
                "program",
                name,
                "int main() {}\n",
                UsageError,
                r"give the file a name that ends with \.cu or \.py",
            )
            for name in ("", "first", "../first.cu", "a b.cu")
        ),
    ],
)
def test_a_cell_that_is_refused_says_why(
    shell, tmp_path, monkeypatch, magic, line, text, error, message
):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(error, match=message):
        run(shell, magic, line, text)
    assert not list(tmp_path.rglob("*.cu"))


def test_a_cell_that_does_not_compile_leaves_no_older_kernel_behind(shell):
    run(shell, "kernel", "3 --name mine", REGISTERS)
    with pytest.raises(CompileFailed):
        run(shell, "kernel", "3 --name mine", REGISTERS.replace("float sum = 0;", "float sum = 0"))
    assert "did not compile" in repr(shell.user_ns["mine"])
    shell.user_ns["other"] = 3
    with pytest.raises(UsageError, match="this name has another value already"):
        run(shell, "kernel", "3 --name other", REGISTERS)
    assert shell.user_ns["other"] == 3


@pytest.mark.parametrize(
    "use",
    [
        labkit.check,
        labkit.show,
        lambda mine: labkit.bench(mine, LENET86[0]),
        lambda mine: labkit.grade("04a", mine),
        lambda mine: labkit.diff(3, mine),
        lambda mine: labkit.grade("00a", mine),
        lambda mine: labkit.profile(mine, LENET86[0], 1),
        lambda mine: labkit.sanitize(mine, LENET86[0], 1),
        lambda mine: mine.get_function("conv"),
    ],
)
def test_a_use_of_a_cell_that_did_not_compile_says_so_until_it_does(shell, use):
    shell.user_ns.pop("fresh", None)
    for magic, line in (("kernel", "3 --name fresh"), ("cuda", "fresh")):
        with pytest.raises(CompileFailed):
            run(shell, magic, line, "__global__ void conv(float *x) { x[0] = }\n")
        with pytest.raises(
            LabError, match="the cell of `fresh` did not compile: see its messages above"
        ):
            use(shell.user_ns["fresh"])
    run(shell, "cuda", "fresh", "__global__ void conv(float *x) {}\n")
    assert shell.user_ns["fresh"].get_function


def test_the_shared_memory_of_ones_own_kernel_is_that_of_its_arrays(shell, capsys):
    run(
        shell, "kernel", "4", variant(4).source.replace("tile[SIDE][SIDE]", "tile[SIDE][SIDE + 26]")
    )
    assert " 4,224 bytes of shared memory per block" in capsys.readouterr().out


def test_an_error_has_the_cells_own_line_and_its_text(shell):
    broken = REGISTERS.replace("float sum = 0;", "float sum = zero;")
    line = 2 + broken.split("\n").index("    float sum = zero;")  # %%kernel is line 1
    with pytest.raises(CompileFailed) as raised:
        run(shell, "kernel", "3", broken)
    message = str(raised.value).split("\n")
    assert message[1].startswith(f"line {line}: error: ") and "zero" in message[1]
    assert message[2] == "    float sum = zero;"
    assert message[3] == "                ^"
    assert len(message) == 4


def test_many_errors_are_cut_short(shell):
    with pytest.raises(CompileFailed, match=r"(?s)line 4: .*line 8: .*and \d+ more"):
        run(
            shell,
            "kernel",
            "1",
            "__global__ void conv()\n{\n" + "".join(f"    a{i} = 0;\n" for i in range(9)) + "}\n",
        )


@pytest.mark.skipif(not shutil.which("g++"), reason="clang++ has other warnings")
def test_a_sum_that_does_not_start_at_zero_is_warned_of(shell, capsys):
    forgotten = REGISTERS.replace("float sum = 0;", "float sum;")
    run(shell, "kernel", "3", forgotten)
    declared = 2 + forgotten.split("\n").index("    float sum;")
    message = capsys.readouterr().out  # at the declaration or at the use, by the compiler's version
    assert ": warning: 'sum' may be used uninitialized\n" in message
    assert f"line {declared}: " in message and "\n    float sum;\n          ^\n" in message


@pytest.mark.skipif(hostcuda.engine() == "gpu", reason="nvcc has other messages")
def test_a_quotient_of_integers_that_is_rounded_up_too_late_is_warned_of(shell, capsys):
    text = "__global__ void k(float *x, int n, float f)\n{\n    x[0] = ceil(n / 32);\n    x[1] = ceil(n / f);\n}\n"
    run(shell, "cuda", "rounds", text)
    out = capsys.readouterr().out
    assert "line 4: warning: a quotient of integers is rounded down before ceil gets it" in out
    assert "line 5" not in out


def test_a_variable_by_which_a_loop_is_unrolled_is_used(shell, capsys):
    run(shell, "kernel", "7", variant(7).source)
    assert "unused variable" not in capsys.readouterr().out
    run(shell, "kernel", "7", variant(7).source.replace("#pragma unroll Q", "#pragma unroll"))
    assert "warning: unused variable 'Q'" in capsys.readouterr().out


def test_magics_and_completions_are_there_as_soon_as_labkit_is_imported():
    """The notebook's first cell is `import labkit`, without `setup`; the second cell has the magic."""
    code = (
        "from IPython.testing.globalipapp import start_ipython\nshell = start_ipython()\n"
        "shell.run_cell('import labkit', store_history=False)\n"
        "print('cells' in str(__import__('sys').modules.get('labkit.page.cells')))\n"
        "print(*(matcher.__module__ for matcher in shell.Completer.custom_matchers))\n"
        "print(shell.run_cell('%%cuda twice\\n__global__ void twice(float *x) { x[0] *= 2; }\\n').success)\n"
    )
    process = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert process.stdout.split() == ["False", "labkit.page.completion", "twice:", "twice", "True"]


def test_shift_tab_shows_a_line_about_a_name_of_cuda():
    """As the notebook's kernel asks: for the name at the cursor, in an own shell, as `import labkit` registers it."""
    from IPython.core.interactiveshell import InteractiveShell
    from IPython.utils.tokenutil import token_at_cursor

    from labkit.page import completion

    other = InteractiveShell()
    completion.register(other)
    cell = "%%cuda a\n__global__ void k(int *x) {\n    atomicAdd(x + threadIdx.x, 1);\n}\n"
    shown = {
        word: other.object_inspect_mime(token_at_cursor(cell, cell.index(word) + 3))["text/plain"]
        for word in ("atomicAdd", "threadIdx")
    }
    assert shown["atomicAdd"] == "atomicAdd(p, v): *p += v as one step; returns the old value"
    assert shown["threadIdx"].startswith("threadIdx: the thread's index in its block")
    # Python's own stay
    assert "int([x]) -> integer" in other.object_inspect_mime("int")["text/plain"]
    with pytest.raises(KeyError):
        other.object_inspect_mime("atomicNothing")


def part(*names):
    text = variant(10).source
    return "\n\n".join(text[slice(*find_functions(text)[name])] for name in names) + "\n"


@pytest.mark.thorough("five seconds or more")
def test_a_cell_may_have_a_part_of_the_kernel(shell):
    mine = run(shell, "kernel", "10 --part", part("multiply"))
    assert mine.source.replace("// %%kernel 10 --part\n", "") == variant(10).source
    swapped = part("multiply").replace("b0, b1);", "b1, b0);")
    with pytest.raises(LabError, match="is wrong on"):
        labkit.check(run(shell, "kernel", "10 --part", swapped), LENET86[0])
    constant = (
        "constexpr int NOTHING = 0;\n\n__device__ inline int nothing() { return NOTHING; }\n\n"
    )
    text = constant + part("copy", "conv").replace("first = 0;", "first = nothing();")
    labkit.check(run(shell, "kernel", "10 --part", text), LENET86[1], quiet=True)
    one = variant(11, step="one").source  # the other functions are those of the same step
    conv = one[slice(*find_functions(one)["conv"])]
    part_of_one = run(shell, "kernel", "11 step=one --part", conv)
    assert part_of_one.source.replace("// %%kernel 11 step=one --part\n", "") == one


def test_messages_about_a_part_have_the_lines_of_the_cell(shell):
    broken = part("store", "conv").replace("h0 + 2 * row;", "h0 + 2 * rows;")
    line = 2 + next(i for i, text in enumerate(broken.split("\n")) if "2 * rows;" in text)
    with pytest.raises(CompileFailed, match=f"(?s)line {line}: error: .*rows.*2 \\* rows;"):
        run(shell, "kernel", "10 --part", broken)
    renamed = part("store").replace("int column, int count)", "int column)")
    with pytest.raises(CompileFailed, match="in the part of the kernel that is not in the cell"):
        run(shell, "kernel", "10 --part", renamed)


def test_functions_are_found_by_their_names():
    text = (
        "#include <a.h>\nconstexpr int f = g(3);\nstruct S { int h() { return 0; } };\n\n// two lines\n// above\n"
        'template <int N> __device__ int one(int (&a)[N], int b = (1 + 2))\n{\n    return "{"[0];   // }\n}\n'
        'extern "C" __global__ __launch_bounds__(32, 1) void two(float *x) {\n    if (x) { }\n}\n'
    )
    texts = {name: text[slice(*span)] for name, span in find_functions(text).items()}
    assert list(texts) == ["one", "two"]
    assert texts["one"].startswith("// two lines\n// above\ntemplate") and texts["one"].endswith(
        "// }\n}"
    )
    assert texts["two"].startswith('extern "C"')


def test_a_cuda_cell_is_a_module(shell, capsys):
    text = "__global__ void twice(float *x)\n{\n    x[threadIdx.x] *= FACTOR;\n}\n"
    run(shell, "cuda", "vectors -DFACTOR=2.0f", text)
    assert capsys.readouterr().out == "vectors: twice\n"
    x = np.arange(32, dtype=np.float32)
    y = x.copy()
    shell.user_ns["vectors"].get_function("twice")(
        hostcuda.driver.InOut(y), grid=(1, 1), block=(32, 1, 1)
    )
    np.testing.assert_array_equal(y, 2 * x)
    for use in (labkit.profile, labkit.draw.accesses, labkit.step):
        with pytest.raises(LabError, match="a module of %%cuda has no launch"):
            use(shell.user_ns["vectors"], layer=LENET86[0])
    for use in (labkit.profile, labkit.units):
        with pytest.raises(
            LabError,
            match=r"cell of %%program NAME\.py, then `%hostcuda profile .*%hostcuda sanitize",
        ):
            use(shell.user_ns["vectors"])
    with pytest.raises(LabError, match=r"no layer is given: take labkit\.LENET86"):
        labkit.profile(1)


@pytest.mark.skipif(hostcuda.engine() == "gpu", reason="a GPU does not notice 96 bytes")
def test_the_last_launch_of_a_module_is_sanitized(shell):
    text = (
        "__global__ void add(const float *a, float *sum, int n)\n{\n"
        "    sum[blockIdx.x * blockDim.x + threadIdx.x] = a[0] + n;\n}\n"
    )
    run(shell, "cuda", "vectors", text)
    module = shell.user_ns["vectors"]
    with pytest.raises(LabError, match="no launch of this module's kernels is known"):
        labkit.sanitize(module)
    sums, first = np.zeros(1000, np.float32), hostcuda.driver.to_device(np.ones(1, np.float32))
    arguments = (first, hostcuda.driver.InOut(sums), np.int32(1000))
    with pytest.raises(hostcuda.driver.LaunchError, match=r"lab\.sanitize\(vectors\) says where"):
        module.get_function("add")(*arguments, grid=(4, 1), block=(256, 1, 1))
    findings = labkit.sanitize(module)
    (finding,) = findings.table.to_dict("records")
    assert (finding["kind"], finding["line"], finding["count"]) == ("out of bounds", 4, 24)
    assert "vectors.cu:4" in repr(findings)
    module.get_function("add")(*arguments, grid=(1, 1), block=(256, 1, 1))
    assert labkit.sanitize(module).clean


def test_a_cuda_cells_error_has_its_line(shell):
    with pytest.raises(CompileFailed, match=r"line 3: error: .*y"):
        run(shell, "cuda", "vectors", "__global__ void twice(float *x) {\n    y[0] = 1;\n}\n")


def test_nvccs_messages_are_understood():
    lines = [
        "// %%cuda a",
        "__global__ void f(float *y) {",
        "    y[0] = z;",
        "    int unused;",
        "}",
    ]
    message = (
        'a.cu(3): error: identifier "z" is undefined\n      y[0] = z;\n             ^\n\n'
        'a.cu(4): warning #177-D: variable "unused" was declared but never referenced\n'
        "      int unused;\n          ^\n\nRemark: The warnings can be suppressed\n1 error detected\n"
    )
    assert list(parse_messages(message, lines)) == [
        Message(3, 12, "error", 'identifier "z" is undefined'),
        Message(4, 9, "warning", 'variable "unused" was declared but never referenced'),
    ]
    assert next(parse_messages(message, lines)).show(lines).endswith("    y[0] = z;\n           ^")


def test_a_program_that_no_cell_has_written_is_not_run(shell, capsys, tmp_path, monkeypatch):
    """The pages run programs."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="there is no program yet"):
        shell.run_line_magic("hostcuda", "run first.cu")
    run(shell, "program", "first.cu", "int main() {}\n")
    shell.run_line_magic("hostcuda", "run other.cu")
    assert "other.cu" in capsys.readouterr().out


@pytest.mark.parametrize("magic", ["cu", "cuda_run", "cuda_group_save", "cuda"])
def test_a_cell_of_another_project_is_told_which_magic_does_it(shell, magic):
    text = "__global__ void k() {}\nint main() { k<<<1, 1>>>(); }\n"
    with pytest.raises(UsageError, match=r"begin it with %%program first\.cu"):
        run(shell, magic, "--name x.cu --compile true", text)


@pytest.mark.parametrize("magic", ["cuda", "kernel", "program"])
def test_a_magic_with_one_percent_sign_is_told_of_the_second(shell, magic):
    with pytest.raises(UsageError, match="two percent signs"):
        shell.run_line_magic(magic, "vectors")
    # the lines below it are not Python's
    cell = f"\n%{magic} vectors\n__global__ void k() {{}}\n"
    assert "k()" not in shell.transform_cell(cell) and "vectors" in shell.transform_cell(cell)
    assert "k()" in shell.transform_cell(cell.replace("%", "%%"))


def test_a_program_that_reads_its_input_is_told_that_there_is_none(
    shell, capsys, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    text = '#include <cstdio>\nint main() { int n = 7; printf("%d", scanf("%d", &n)); }\n'
    run(shell, "program", "reads.cu", text)
    shell.run_line_magic("hostcuda", "run reads.cu")
    assert "in a notebook there is none" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("lines", "brace"),
    [
        (["void k(int *x) {", "    for (int i = 0; i < 3; i++) {", "        x[i] = 1;", "}"], 2),
        (["void k(int *x) {", "    x[0] = 1;"], 1),
        (["void k(int *x) {", "    if (x) { x[0] = 1; }", "}", "void m() {"], 4),
        (["void k(int *x) {", "    x[0] = 1;", "}"], 0),
    ],
)
def test_the_brace_that_nothing_closes_is_found(lines, brace):
    assert find_unclosed_brace("\n".join(lines)) == brace


@pytest.mark.skipif(hostcuda.engine() == "gpu", reason="nvcc has other messages")
def test_a_cell_without_its_last_brace_names_the_first(shell):
    text = "__global__ void k(int *x)\n{\n    if (x) {\n        x[0] = 1;\n}\n"
    with pytest.raises(CompileFailed, match=r"line 4: error: no \} closes the \{ of this line"):
        run(shell, "cuda", "unclosed", text)


def test_a_program_that_the_reader_has_changed_stays(shell, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "programs" / "own.cu"
    for text in ("int main() {}\n", "int main() { return 1; }\n"):  # the cell's own are replaced
        run(shell, "program", "own.cu", text)
        assert path.read_text() == text
    path.write_text("// mine\n")
    for text in ("int main() {}\n", "int main() { return 1; }\n"):
        capsys.readouterr()
        run(shell, "program", "own.cu", text)
        assert "programs/own.cu stays as it is" in capsys.readouterr().out
        assert path.read_text() == "// mine\n"
    run(shell, "program", "own.cu", "// mine\n")
    run(shell, "program", "own.cu", "// both\n")
    assert path.read_text() == "// both\n"
    # What a cell wrote is known in another session, too: the folder keeps its digest.
    (tmp_path / "programs" / ".cells.json").write_text("{")
    run(shell, "program", "own.cu", "// of nobody knows whom\n")
    assert path.read_text() == "// both\n"
    path.unlink()
    run(shell, "program", "own.cu", "// anew\n")
    assert path.read_text() == "// anew\n"


def test_a_header_with_templates_has_no_extern_c_around_it():
    text = (
        "#include <cuda/ptx>\ntemplate <int n>\n__global__ void of(int *x) {}\n"
        '/* __global__ */ __global__ void k(int *x) { x[0] = 1; }\nconst char *t = "__global__";\n'
    )
    arguments = cell_arguments(text, "mine")
    assert arguments["no_extern_c"]
    changed = text.replace("/* __global__ */ ", '/* __global__ */ extern "C" ')
    assert arguments["source"].partition("\n")[2] == changed
    for same in (text.replace("cuda/ptx", "cuda_fp16.h"), changed):
        assert cell_arguments(same, "mine")["source"].partition("\n")[2] == same
