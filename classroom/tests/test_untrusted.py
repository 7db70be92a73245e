"""The limits of a submitted kernel: sources that are refused, modules that are not loaded."""

import csv
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from hostcuda import untrusted
from hostcuda.api import compiler
from hostcuda.check import mode as checkmode
from hostcuda.errors import CompileError, EngineError
from hostcuda.host import toolchain
from hostcuda.runtime import elf, native
from labkit.base.paths import cuda_src
from labkit.cli import app
from labkit.exercises.exercise import exercises
from labkit_classroom import sandbox

pytestmark = pytest.mark.thorough("a class of hand-ins: minutes")

KERNEL = 'extern "C" __global__ void conv(const float *x, float *y) { y[threadIdx.x] = 2 * x[threadIdx.x]; }\n'

OTHER_FILES = {
    "a file of the machine": '#include "/etc/passwd"',
    "a file beside it": '#include "solution.cu"',
    "a folder above": "#include <../../etc/passwd>",
    "an engine's header": '#include "hostcuda/sync.h"',
    "a header of the host": "#include <dlfcn.h>",
    "a name from a macro": '#define FILE "/etc/passwd"\n#include FILE',
    "space and a comment": '#/* */ include/**/"/etc/passwd"',
    "a spliced line": '#incl\\\nude "/etc/passwd"',
    "a splice with a space": '#incl\\ \nude "/etc/passwd"',
    "a branch not taken here": '#if 0\n#include "/etc/passwd"\n#endif',
    "the next header": "#include_next <stdio.h>",
    "an import": '#import "/etc/passwd"',
    "a file's bytes": 'const unsigned char file[] = {\n#embed "/etc/passwd"\n};',
    "whether a file exists": '#if __has_include("/root/.ssh/id_rsa")\n#endif',
    "after a quote in a comment": '// don\'t\n#include "/etc/passwd"',
    "after a quote in a number": "int n = 1'0;\n#include \"/etc/passwd\"  // '",
    "after a comment in a string": 'const char *s = "/*";\n#include "/etc/passwd"\n// */',
    "after a splice in a comment": '// \\\\\n\n#include "/etc/passwd"',
    "after a comment's end in another": '/* /* */\n#include "/etc/passwd"\n/* */',
    "in another spelling of #": '%:include "/etc/passwd"',
    "in a trigraph": '??=include "/etc/passwd"',
    "behind a carriage return": '//\r#include "/etc/passwd"',
    "behind a raw string": 'const char *s = R"(\n";\n#include "/etc/passwd"\n//)";',
    "behind a comment in a raw string": 'auto r = R"x(/*)x";\n#include "/etc/passwd"\n/* */',
    "behind a comment whose end is spliced": '/* \\\n*\\\n/ #include "/etc/passwd"',
    "behind a trigraph that splices": '// ??/\n#include "/etc/passwd"',
    "behind a quote as a character": "auto a = '\"';\n#include \"/etc/passwd\"\nauto b = '\"';",
    "behind a form feed": '\x0c#\x0binclude "/etc/passwd"',
    "behind the end of starting code": '#ifdef SKELETON\n#endif\n#include "/etc/passwd"',
    "a name from a macro with an argument": "#define Q(x) #x\n#define I(x) Q(x)\n#include I(/etc/passwd)",
    "whether a file is newer": '#pragma GCC dependency "/etc/passwd"',
    "a precompiled header": '#pragma GCC pch_preprocess "/etc/passwd"',
}
ASSEMBLER = {
    "a file's bytes": 'asm(".section .rodata\\nsecret: .incbin \\"/etc/hostname\\"\\n.text");',
    "in a namespace": 'namespace { __asm__("nop"); }',
    "another function's name": 'extern "C" int run(const char *) asm("system");',
    "inline, which is not rewritten": '__device__ void f() { asm inline ("nop"); }',
    "goto": '__device__ void f() { asm goto ("jmp %l0" : : : : end); end:; }',
    "by a macro": '#define A asm\nA("nop");',
    "by joined words": '#define A as##m("nop");\nA',
    "by joined arguments": '#define C(a, b) a##b\nC(a, sm)(".global main");',
    "by the C library's macro": '__CONCAT(as, m)("nop");',
}
COMPILER = {
    "options": '#pragma GCC optimize("O0")',
    "options by an operator": '_Pragma("GCC poison x")',
    "another name for a function": "#pragma redefine_extname conv system",
    "another name for a kernel": '__attribute__((alias("conv"))) void other();',
    "a kernel that gives way": "#pragma weak conv = abort",
    "a file's name and line": '#line 7 "other.cu"',
    "a line alone": "#line 2147483647",
    "line 0": "#line 0",
    "a line that no number holds": '#line 99999999999999999999 "x"',
    "a line as the preprocessor writes it": '# 7 "other.cu"',
    "a constructor": "__attribute__((constructor)) void before() {}",
    "a constructor among others": "__attribute__((unused, constructor)) void before() {}",
    "a C++ attribute": "[[gnu::constructor]] void before() {}",
    "a C++ attribute with a space": "[ [using gnu: constructor] ] void before() {}",
    "another meaning of an attribute": "#define unused constructor\n__attribute__((unused)) void before() {}",
    "another meaning of a C++ attribute": "#define maybe_unused gnu::constructor\n[[maybe_unused]] void before() {}",
    "no check": '__attribute__((no_sanitize("thread"))) __device__ void f(float *x) { *x = 0; }',
    "code as data": '__attribute__((section(".text"))) const char code[] = "\\xc3";',
    "whether it is checked": "#ifdef __SANITIZE_THREAD__\n#endif",
    "an atomic of the host": "__device__ void f(int *x) { __sync_fetch_and_add(x, 1); }",
    "a frame": "__device__ void *f() { return __builtin_frame_address(0); }",
    "copies that are not watched": "__device__ void f(void *x, void *y) { memcpy(x, y, 64); }",
    "a value to an address": "__device__ float f(float x, long at) { return modff(x, (float *)at); }",
    "the engine": "__device__ void f() { hostcuda::fail(0); }",
    "the engine's macros": "#undef HOSTCUDA_KERNEL",
    "the engine's name in another": "__device__ int my_hostcuda_register_x() { return 1; }",
    "the engine's name as a text": '__device__ float x asm("hostcuda_dynamic_shared");',
    "a name of the sanitizer in another": "__device__ void my__tsan_write4(void *) {}",
    "a letter that looks like one": "int \u0430sm;",
}


def test_submissions_are_compiled_with_gcc_alone(monkeypatch):
    """Its assembler text is checked: a grader says so at once, and a process that compiles a submission, too."""
    monkeypatch.setattr(toolchain, "find", lambda: ["some-clang++"])
    monkeypatch.setattr(toolchain, "is_clang", lambda command: command == ["some-clang++"])
    for begin in (lambda: sandbox.require(unsafe=True), untrusted.guard):
        with pytest.raises(
            EngineError, match=r"with g\+\+ alone, .* not with some-clang\+\+: install g\+\+"
        ):
            begin()


@pytest.mark.parametrize(
    "attack",
    [*OTHER_FILES.values(), *ASSEMBLER.values(), *COMPILER.values()],
    ids=[*OTHER_FILES, *ASSEMBLER, *COMPILER],
)
def test_a_source_that_is_more_than_a_kernel_is_refused(attack):
    with pytest.raises(EngineError, match=r"line \d+: a submitted kernel \w+"):
        untrusted.refuse(KERNEL + attack + "\n" + KERNEL.replace("conv", "other"))
    untrusted.refuse(KERNEL + KERNEL.replace("conv", "other"))


def test_the_message_names_the_line_as_submitted():
    source = f'#define LONG \\\n  1\n/* two\nlines */ int n = LONG;\n#inc\\\nlude "/etc/passwd"\n{KERNEL}'
    with pytest.raises(
        EngineError, match="line 5: a submitted kernel must not include /etc/passwd: allowed are"
    ):
        untrusted.refuse(source)


def test_the_ladders_kernels_are_allowed():
    paths = [path for path in cuda_src().rglob("*.cu") if "training" not in path.parts]
    assert len(paths) > 30
    own_headers = [path.name for path in cuda_src().rglob("*.cuh")]
    for path in paths:
        untrusted.refuse(path.read_text(), own_headers)


def test_ordinary_cuda_is_allowed():
    untrusted.refuse(
        "#include <cuda_fp16.h>\n#include <mma.h>\n# include <cooperative_groups/reduce.h> // groups\n"
        "#include <type_traits>\n#include <cuda/std/limits>\n#include <cuda/std/span>\n"
        "#pragma once\n#define LONG(a) do { \\\n    a; \\\n  } while (0)\n"
        "#ifdef HOSTCUDA_CPU\n#endif\n#if __CUDA_ARCH__ >= 800\n#endif\n"
        "struct alignas(16) __attribute__((aligned(16))) Pair { [[maybe_unused]] float a[4]; };\n"
        "__device__ __forceinline__ float twice(float x) { return __fmul_rn(2.f, x); }  // naïve; don't\n"
        'extern "C" __global__ void __launch_bounds__(256) conv(const float *__restrict__ x, float *y)\n'
        "{\n    extern __shared__ float tile[];\n    const int big = 1'000;\n#pragma unroll 4\n"
        '    for (int i = 0; i < 4; i++) { asm volatile("" ::: "memory"); tile[i] = twice(x[i]); }\n'
        '    __syncthreads(); if (big < 0) printf("asm \\"%d\\" #include\\n", __LINE__); y[0] = tile[threadIdx.x];\n}\n'
    )


def test_an_exercises_own_header_is_allowed():
    untrusted.refuse('#include "lenet28.h"\n' + KERNEL, ["lenet28.h"])
    with pytest.raises(EngineError, match=r"line 1: .* must not include lenet28.h"):
        untrusted.refuse('#include "lenet28.h"\n' + KERNEL)


# --------------------------------------------------------------------------------------------------


CALLS = {
    "shell": (
        'extern "C" __device__ int execl(const char *, const char *, ...);',
        'if (!x) execl("/bin/id", "");',
        "line 1: the kernel calls execl,",
    ),
    "exit": ("#include <cstdlib>", "exit(0);", "line 2: the kernel calls exit,"),
    "write": (
        'extern "C" long write(int, const void *, unsigned long);',
        'write(1, "PASS", 4);',
        "calls write,",
    ),
    "a symbol": (
        'extern "C" void *dlsym(void *, const char *);',
        'y[0] = !dlsym(0, "PyRun_SimpleString");',
        "dlsym,",
    ),
    "a file": (
        'extern "C" __device__ int unlink(const char *);',
        'y[0] = unlink("/etc/passwd");',
        "calls unlink,",
    ),
    "an undeclared call": (
        "#include <cstdio>",
        'y[0] = fopen("/etc/passwd", "r") != nullptr;',
        'calling a __host__ function("fopen")',
    ),
    "a pointer": ("#include <cstdlib>", 'auto f = &getenv; y[0] = *f("HOME");', "calls getenv,"),
    "atexit": (
        "struct After { ~After(); float v; }; After::~After() { v = 1; }",
        "static After after; y[0] = after.v;",
        "the kernel has a static variable with a destructor",
    ),
    "throw": ("", "throw 1;", "device code does not support exception handling"),
    "a constructor": (
        "struct Before { Before() { v = clock(); } long v; }; static __device__ Before before;",
        "y[0] = before.v;",
        "runs code while it is loaded",
    ),
    "a call": (
        "__device__ float f(float x) { return x + clock(); } static __device__ float v = f(1);",
        "y[0] = v;",
        "runs code ",
    ),
    "an ifunc": (
        '__attribute__((target_clones("avx2", "default"))) float f(float x) { return x + 1; }',
        "y[0] = f(*x);",
        "is chosen while it is loaded",
    ),
    "a barrier anywhere": (
        "#include <cuda_pipeline.h>",
        "init((cuda::barrier<cuda::thread_scope_block> *)y, 7);",
        "calls hostcuda::make_mbarrier, for clusters, bulk copies or another part of CUDA",
    ),
}


@pytest.fixture
def compiled(tmp_path):
    """Return a function that compiles a source to a library, and returns its path."""

    def make(source):
        """Compile a source."""
        path = tmp_path / "kernel.so"
        path.write_bytes(compiler.compile(source, options=["-std=c++17"], no_extern_c=True))
        return path

    return make


@pytest.mark.parametrize(("before", "body", "sentence"), CALLS.values(), ids=CALLS)
def test_a_module_that_calls_the_host_is_refused(compiled, before, body, sentence):
    source = f'{before}\nextern "C" __global__ void conv(const float *x, float *y) {{ {body} }}\n'
    with pytest.raises((EngineError, CompileError), match=re.escape(sentence)):
        untrusted.refuse_symbols(compiled(source), source)


def test_a_module_of_cuda_alone_is_allowed(compiled):
    untrusted.refuse_symbols(
        compiled(
            "#include <cooperative_groups.h>\n#include <cuda_fp16.h>\n"
            "struct Many { float a[99]; };\n__constant__ float mask[4];\n"
            "template <int n> __global__ void scale(Many *x) { x[0] = x[n]; }\n"
            "template __global__ void scale<3>(Many *);\n"
            "__global__ void math(float *y) { __shared__ float tile[32]; tile[threadIdx.x] = sinf(y[0]) * mask[1];\n"
            "cooperative_groups::tiled_partition<64>(cooperative_groups::this_thread_block()).sync();\n"
            "__syncthreads(); atomicAdd(y, expf(tile[0]) + __shfl_down_sync(0xffffffff, powf(y[1], 3), 1));\n"
            'assert(y[0] > 0); float *more = (float *)malloc(4); free(more); printf("%f", y[0]); }\n'
        )
    )


def test_only_the_functions_that_the_front_end_has_registered_run_while_a_module_is_loaded(
    compiled,
):
    path = compiled(KERNEL + KERNEL.replace("conv", "other"))
    untrusted.refuse_symbols(path, registered=2)
    for number in (0, 1, 3):
        with pytest.raises(EngineError, match="runs code while it is loaded"):
            untrusted.refuse_symbols(path, registered=number)


def test_a_loaded_modules_tables_are_read_only():
    """Check that no kernel can write to its module's table of addresses, .got.

    It holds the addresses of the engine's functions and the entries of the shared arrays, which the engine sets.
    A second table, .got.plt, would stay writable, so that there must be none.
    """
    source = KERNEL.replace(
        "{", "{ __shared__ float tile[32]; tile[threadIdx.x] = sinf(*x); __syncthreads(); "
    )
    module = compiler.SourceModule(source, no_extern_c=True).module
    file = elf.Elf(module._path)
    table = next(section for section in file.sections if section.name == ".got")
    begin = next(s.address for s in file.segments if s.kind == elf.PT_LOAD and s.flags & elf.PF_X)
    at = module._loaded.layout.text[0] - begin + table.address  # the base and the table
    for line in Path("/proc/self/maps").read_text().splitlines():
        low, high = (int(word, 16) for word in line.split()[0].split("-"))
        if low < at + table.bytes and at < high:
            assert line.split()[1] == "r--p", line
    assert not [section for section in file.sections if section.name == ".got.plt"]


@pytest.mark.parametrize("call", ["__tsan_memcpy", "__tsan_memmove", "__tsan_memset"])
def test_copies_of_structs_are_allowed_because_check_mode_watches_them(tmp_path, call):
    code = f'extern "C" void *{call}(...); void f(void *to, void *from) {{ {call}(to, from, 99); }}'
    (tmp_path / "kernel.cpp").write_text(code)
    command = [*toolchain.find(), "-shared", "-fPIC", "-o", "kernel.so", "kernel.cpp"]
    assert toolchain.run(command, tmp_path)[0] == 0
    untrusted.refuse_symbols(tmp_path / "kernel.so")


@pytest.fixture
def assembly(tmp_path):
    """Return a function that compiles C++ to assembly, and returns its text."""

    def make(code):
        """Compile code, without a source of the engine."""
        (tmp_path / "code.cpp").write_text(code)
        command = [*toolchain.find(), "-O2", "-g", "-fPIC", "-fno-jump-tables", "-S", "code.cpp"]
        status, _, error = toolchain.run(command, tmp_path)
        assert status == 0, error
        return (tmp_path / "code.s").read_text()

    return make


@pytest.mark.parametrize(
    "code",
    [
        'typedef int (*Run)(const char *);\nint f(long at) {\n  return ((Run)at)("id") + 1;\n}',
        'typedef int (*Run)(const char *);\nint f(long at) {\n  return ((Run)at)("id");\n}',
        "void f(long at) {\n  void *to = (void *)at;\n  goto *to;\n}",
        "struct A { virtual int f(); };\nint g(A *a) {\n  return a->f();\n}",
    ],
    ids=["call", "last call", "goto", "virtual"],
)
def test_code_that_computes_where_it_goes_is_refused(assembly, code):
    with pytest.raises(
        EngineError, match="line 3: the kernel calls a function by a pointer, which a submission"
    ):
        untrusted.refuse_calls(assembly(code))


def test_calls_by_name_thread_local_variables_and_switches_are_allowed(assembly):
    code = (
        "thread_local float tile[99]; float g(float *); int h(int);\n"
        'float f(int n) { asm volatile("jmp *%%rax" ::: "memory"); tile[n] = n; switch (h(n)) { case 0: n = h(9);\n'
        "case 1: n += h(4); break; case 2: n = 8; case 3: n += h(5); break; case 4: return 1; } return g(tile) + n; }\n"
    )
    untrusted.refuse_calls(assembly(code))


def test_a_guarded_process_does_not_load_what_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(native, "before_load", None)
    monkeypatch.setattr(checkmode, "before_link", None)
    monkeypatch.setattr(checkmode, "untrusted", False)
    mark = tmp_path / "it ran"
    source = (
        'extern "C" __device__ int creat(const char *, unsigned);\n'
        f'static __device__ int before = creat("{mark}", 0600);\n'
        'extern "C" __global__ void conv(float *y) { y[0] = before; }\n'
    )
    untrusted.guard(source)
    with pytest.raises(
        EngineError, match="line 1: the kernel calls creat, which is no function of CUDA"
    ):
        compiler.SourceModule(source, no_extern_c=True)
    assert not mark.exists()
    compiler.SourceModule(KERNEL, no_extern_c=True).get_function("conv")
    native.before_load = None
    compiler.SourceModule(source, no_extern_c=True)
    assert mark.exists()  # so the source would have done it


@pytest.mark.skipif(not sandbox.available(), reason=sandbox.why_not())
@pytest.mark.parametrize(
    "which", ["some", pytest.param("all", marks=pytest.mark.exhaustive("every exercise: minutes"))]
)
def test_solutions_meet_their_goals_as_hand_ins(tmp_path, which):
    """The sandbox compiles them otherwise, so counts may differ. Names: the engine's `test_allowed_functions.py`."""
    solutions = {number: asked.solution for number, asked in exercises().items() if asked.file}
    assert len(solutions) > 40
    if which == "some":  # one of each kind, and those of which tensor cores and tiles are counted
        kinds = {type(exercises()[number].subject): number for number in solutions}
        solutions = {number: solutions[number] for number in {*kinds.values(), "05b", "09a"}}
    for number, text in solutions.items():
        (tmp_path / f"ada_{number}.cu").write_text(text, encoding="utf-8")
    words = ["grade", str(tmp_path), "--out", str(tmp_path / "grades"), "--jobs", "2"]
    result = CliRunner().invoke(app, words)
    with open(tmp_path / "grades" / "grades.csv", encoding="utf-8") as file:
        graded = {row["exercise"]: (row["verdict"], row["why"]) for row in csv.DictReader(file)}
    assert {*graded} == {*solutions}, result.output
    assert not {number: why for number, (verdict, why) in graded.items() if verdict != "goal met"}
