"""Whole programs in CUDA C++: their host code, their launches, their errors, and the commands that take them."""

import signal
from dataclasses import dataclass
from pathlib import Path

import pytest
from running import run_program

from hostcuda.profile import profile_script
from hostcuda.sanitize import sanitize_script

pytestmark = pytest.mark.thorough("whole programs: a process each")

PROGRAMS = Path(__file__).parent / "programs"
ILLEGAL = "an illegal memory access was encountered"


@dataclass
class Expected:
    """What a program of the folder `programs` prints, what is said on its standard error output, and its status."""

    name: str
    printed: str
    words: tuple[str, ...] = ()  # nothing at all if there are none
    status: int = 0
    options: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()


@pytest.mark.parametrize(
    "program",
    [
        Expected(
            "everything",
            """\
deduced: 5050, 250
special functions of C++17: 2
managed, struct: 3 3
header: 9
overload, dynamic: 126 0 timed
symbols: 4 4 42
thread 0 of 2
thread 1 of 2
argument one
pitch: 1 15
device: 1, warps of 32, 1024 threads per block
the host's clock: seconds
by pointers: 9
error: cudaErrorInvalidValue, then no error
""",
            ("block.x is 2000",),
            3,
            arguments=("one",),
        ),
        Expected(
            "warp_prints",
            """\
row 0: 0 1 2 3;
row 1: 1 2 3 4;
0-1-2-0 1 2 3 \n0123456\
""",
        ),
        Expected(
            "grid_sync",
            "1 32 cudaSuccess 10080 0\ncudaErrorCooperativeLaunchTooLarge\n0\n",
            ("too many blocks in cooperative launch: sum has 100000",),
        ),
        Expected(
            "textbook",
            """\
told 0 1
called 1
default arguments: 3 3 2 1
a box: 4 23 0
managed: 1, elsewhere: 10
cudaErrorCooperativeLaunchTooLarge
hello from 0
lambda: 0 0
a lock: 5
""",
            ("too many blocks in cooperative launch: fill<int> has 1048576, and all of them have",),
            3,
            (str(PROGRAMS / "textbook_main.cpp"),),
        ),
        Expected(
            "textbook", "", ('has no main: name the file that has it (--options "FILE.cpp")',), 1
        ),
        Expected(
            "faulty",
            f"1\n1\n1\n{ILLEGAL}\n{ILLEGAL}\n",
            ("1048576 bytes were asked for", "is no device memory", "cudaMalloc gave no"),
            options=("-DSIZE=100", "-DOFFSET=-(1ll<<40)"),
        ),
        Expected(
            "host_memory",
            f"aligned: {20 * (2 * 28 + 8)}, fresh: {(256 << 10) // 8}\nattributes: 1 1 1\n"
            "2 1 1 0 kinds of memory\npools: 1 0 801\n",
            ("does not count the memory of a pool",),
        ),
        *(
            Expected("openmp", "10\n", options=(*options, *files))
            for options in (
                ("-fopenmp",),
                ("-Xcompiler", "-Wall,-fopenmp"),
                ("-Xcompiler=-fopenmp",),
            )
            for files in ((), (str(PROGRAMS / "openmp_other.cpp"),))
        ),
        Expected("destroyed_texture", "0 5\n", ("there is no such object",)),
        Expected(
            "casts",
            "2.5 -1.75 1000 nan \n2.5 -1.75 1000 nan \n2 -1 127 0 \n2 -1 127 0 \n2 0 255 0 \n",
        ),
        Expected("overload", "62"),
        Expected("library_names", "30 3"),
        Expected(
            "called",
            f"{'cudaErrorMissingConfiguration, ' * 2}20202020",
            ("kernel sum was called without <<<grid, block>>>: it did not run",),
        ),
        Expected("host_accesses", f"100 100 {sum(range(1 << 20))} no error\n"),
        Expected(
            "host_accesses",
            "",
            ("the host writes byte 96 of an allocation of 100 bytes from cudaMalloc", "cudaMemcpy"),
            -signal.SIGSEGV,
            ("-DWRONG",),
        ),
        Expected("templates", "213 10 0\n5 no error 0\n"),
        Expected("products", "0 0\n13 7\n", ("A needs 324 bytes, with 9 columns of 9 numbers",)),
        Expected(
            "remedies",
            "",
            (
                "the variable m: if it is __constant__ or __device__, use cudaMemcpyToSymbol(m, ...)",
                "use cudaMemcpyFromSymbol(..., n, ...)",
                "or cudaFree what",
                "after cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes)",
            ),
        ),
        Expected("plain", "kernel\n", status=6, options=(str(PROGRAMS / "plain.cpp"),)),
    ],
    ids=lambda program: program.name,
)
def test_a_program(program):
    ended = run_program(
        PROGRAMS / f"{program.name}.cu", *program.arguments, options=program.options
    )
    assert (ended.stdout, ended.returncode) == (program.printed, program.status), ended.stderr
    assert all(sentence in ended.stderr for sentence in program.words) and bool(
        program.words
    ) == bool(ended.stderr)


def test_a_compilers_message_has_the_line_of_a_relative_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("wrong.cu").write_text("int main()\n{\n\treturn unknown;\n}\n")
    done = run_program("wrong.cu")
    assert done.returncode == 1
    assert "\n    3 |         return unknown;\n      |                ^~~~~~~\n" in done.stderr


def test_sanitize_and_profile_take_a_program():
    path = str(PROGRAMS / "faulty.cu")
    findings = sanitize_script(
        path, (), "memcheck", "cpu", capture=True, options=["-DSIZE=128", "-DOFFSET=0"]
    )
    (row,) = findings.table.to_dict("records")
    assert (row["kind"], row["kernel"], row["line"]) == ("out of bounds", "fill", 3)
    profile = profile_script(
        path, (), "cpu", capture=True, nvcc=False, options=["-DSIZE=100", "-DOFFSET=0"]
    )
    assert profile.value("global_store_requests", "fill") == 4


def test_managed_memory_that_the_host_has_written_is_not_called_uninitialized():
    findings = sanitize_script(
        str(PROGRAMS / "managed.cu"), tool="initcheck", engine="cpu", capture=True
    )
    assert findings.clean and findings.launches == 1


FAULTS = PROGRAMS / "host_faults.cu"


@pytest.mark.parametrize(
    ("which", "words"),
    [
        *enumerate(
            [
                "the host reads byte 0 of an allocation of 400 bytes from cudaMalloc",
                "the host reads byte 20 of an allocation",
                "the host writes byte 0 of an allocation",
                "the host reads byte 0 of an allocation",
                "the host writes 0x8, a null pointer",
                "the host divides an integer by zero",
                "the host uses a pointer to an address that does not exist",
                "the host writes byte 8 of an allocation",
            ]
        )
    ],
)
def test_a_fault_of_the_host_is_told_with_its_line(which, words):
    line = next(
        n
        for n, text in enumerate(FAULTS.read_text().splitlines(), 1)
        if text.endswith(f"// {which}")
    )
    done = run_program(FAULTS, str(which))
    assert words in done.stderr and done.stderr.endswith(f" ({FAULTS}:{line})\n")
    assert done.returncode == -(signal.SIGFPE if which == 5 else signal.SIGSEGV)


def test_a_fault_of_the_host_is_the_reason_of_a_verdict():
    verdict, reason = sanitize_script(
        str(FAULTS), ["4"], tool="memcheck", engine="cpu", capture=True
    ).outcome
    assert verdict == "unsafe" and reason.endswith(
        f"the host writes 0x8, a null pointer ({FAULTS}:24)"
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("__global__ void f() {}", "has no main"),
        (
            "int main() { cudaGraph_t g; cudaGraphCreate(&g, 0); }",
            "the CPU engine has no cudaGraph",
        ),
        (
            '__global__ void f() {}\nextern "C" void solve(int n) { f<<<n, 1>>>(); }',
            "has no main, but the function solve: `hostcuda check ",
        ),
        (
            "#include <helper_cuda.h>\nint main() {}",
            "there is no helper_cuda.h: it belongs to the program's project",
        ),
        ("#include <thrust/sort.h>\nint main() {}", "the CPU engine has no header thrust/sort.h"),
        ("#include <cublasXt.h>\nint main() {}", "the CPU engine has no header cublasXt.h"),
        (
            "#include <cublasLt.h>\nint main() { cublasLtMatmulDesc_t d; }",
            "the CPU engine has no cublasLtMatmulDesc_t",
        ),
        (
            "__global__ void g() {}\n__global__ void f() { g<<<1, 1>>>(); }\nint main() {}",
            "dynamic parallelism",
        ),
        ("__global__ void f(int *x) {}\nint main() { f<<<1, 1>>>(2.5); }", "program.cu:2:"),
        (
            "int elsewhere(int x);\nint main() { return elsewhere(2); }",
            "elsewhere(int) is declared and used, but not "
            "defined in the source. If another file or a library defines it, name that: --options",
        ),
    ],
)
def test_what_is_not_supported_is_named(write_program, text, words):
    ended = run_program(write_program(text))
    assert ended.returncode == 1
    assert words in ended.stderr


@pytest.mark.parametrize(
    ("which", "kind", "words"),
    [
        ("", "", ""),
        ("early", "divergent barrier", "block (1,0,0) has ended without it"),
        ("races", "race between blocks", "use x[1], one of 32 ints"),
    ],
)
def test_check_mode_knows_what_grid_sync_orders(which, kind, words):
    path = PROGRAMS / "grid_sync.cu"
    findings = sanitize_script(str(path), [which], engine="cpu", capture=True)
    marked = [
        number
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if which and line.endswith(f"// found by {which}")
    ]
    assert [(row["kind"], row["line"]) for row in findings.rows] == [
        (kind, line) for line in marked
    ]
    assert all(words in row["message"] for row in findings.rows)
    assert len(marked) == bool(which) and findings.launches == (1 if which else 2)


def test_nvccs_macros_are_defined(write_program):
    text = "#if !defined(__NVCC__) || !defined(__CUDACC__)\n#include <hip/hip_runtime.h>\n#endif\nint main() {}"
    assert run_program(write_program(text)).returncode == 0


def test_a_file_of_the_options_that_is_not_there(write_program):
    ended = run_program(write_program("int main() {}"), options=["none.cpp"])
    assert (ended.returncode, ended.stderr) == (
        1,
        "hostcuda: none.cpp, one of the options, is no file\n",
    )


def test_a_program_may_bring_its_own_cublas(write_program, tmp_path):
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "cublas_v2.h").write_text("static int cublasCreate() { return 7; }\n")
    path = write_program("#include <cublas_v2.h>\nint main() { return cublasCreate(); }\n")
    assert run_program(path, options=[f"-I{tmp_path / 'own'}"]).returncode == 7


@pytest.mark.parametrize("tools", ["", "memcheck"])
def test_kernels_allocate_up_to_the_limit_of_their_heap(monkeypatch, tools):
    monkeypatch.setenv("HOSTCUDA_CHECK", tools)
    assert run_program(PROGRAMS / "heap.cu").stdout == "8 8192 24 24 no error\n"


def test_a_program_gets_as_much_memory_as_the_variable_says(write_program, monkeypatch):
    monkeypatch.setenv("HOSTCUDA_MEMORY_MB", "100")
    calls = "".join(
        f'for (n = 0; !{call}; n++); printf("%d ", n);'
        for call in (
            "cudaMalloc(&p, 16 << 20)",
            "cudaMallocManaged(&p, 16 << 20)",
            "cudaMallocHost(&p, 16 << 20)",
        )
    )
    ended = run_program(
        write_program(f"#include <cstdio>\nint main() {{ void *p; int n; {calls} }}")
    )
    assert ended.stdout == "6 0 6 ", ended.stderr
    assert "out of memory: 16.0 MiB requested, 4.0 MiB of 100.0 MiB free" in ended.stderr


# -- A program of two files

FIRST, OTHER = PROGRAMS / "two_files" / "first.cu", str(PROGRAMS / "two_files" / "other.cu")


def test_each_file_is_compiled_by_itself():
    ended = run_program(FIRST, options=["-DOWN", OTHER])
    assert ended.stdout.splitlines() == ["3", "2244 100", "2249", "60 5"]
    assert (ended.returncode, ended.stderr) == (0, "")
    findings = sanitize_script(
        str(FIRST), (), "memcheck", "cpu", capture=True, options=["-DOWN", OTHER]
    )
    assert findings.table.empty
    profile = profile_script(
        str(FIRST), (), "cpu", capture=True, nvcc=False, options=["-DOWN", OTHER]
    )
    assert profile.value("global_store_requests", "added") == 1


def test_linked_device_code_has_each_name_once():
    assert run_program(FIRST, options=["-rdc=true", OTHER]).stdout.splitlines()[1] == "2244 100"
    assert (
        "multiple definition of `own'"
        in run_program(FIRST, options=["-rdc=true", "-DOWN", OTHER]).stderr
    )


def test_an_error_in_another_file_has_its_line():
    assert f"{OTHER}:9:13: error: " in run_program(FIRST, options=["-DWRONG", OTHER]).stderr
