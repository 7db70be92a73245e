"""A source is preprocessed first: what macros make is found, lines and columns stay, other headers are held back."""

import re
import sys

import numpy as np
import pytest
from running import run_program

from hostcuda import processes as child
from hostcuda.api import compiler, driver
from hostcuda.build import unit
from hostcuda.errors import CompileError, EngineError
from hostcuda.source import rewritten

pytestmark = pytest.mark.thorough("breadth of CUDA's API")


@pytest.fixture
def run(write_program):
    """Return a function that runs a program, given as its text, with further files, and returns what it printed."""

    def run(text, *options, **files):
        for name, other in files.items():
            write_program(other, name.replace("_", "."))
        ended = run_program(write_program(text), options=options)
        return ended.stdout + ended.stderr

    return run


START = """#include <cstdio>
#include <type_traits>
int *x;
int shown() { cudaDeviceSynchronize(); return printf("%d\\n", *x); }
__global__ void set(int *x, int n) { *x = n; }
__global__ void one(int *x) { *x = 1; }
__global__ void two(int *x) { *x = 2; }
typedef void (*Kernel)(int *);
Kernel pick(bool first) { return first ? one : two; }
struct Table { Kernel kernel; Kernel get() { return kernel; } } table[] = {{one}, {two}};
"""


@pytest.mark.parametrize(
    ("before", "launch", "printed"),
    [
        ("#define LAUNCH(kernel, ...) kernel<<<1, 1>>>(__VA_ARGS__)", "LAUNCH(set, x, 3)", 3),
        (
            "#define CHECK(call) do { call; if (cudaGetLastError()) return 1; } while (0)",
            "CHECK((set<<<1, 1>>>(x, 4)))",
            4,
        ),
        (
            "#define MADE(a, b) __global__ void a##_##b(int *x) { *x = 5; }\nMADE(f, g)",
            "f_g<<<1, 1>>>(x)",
            5,
        ),
        (
            "__global__ void f(int *x,\n#ifdef NOTHING\nint, int n\n#else\nint n\n#endif\n) { *x = n; }",
            "f<<<1, 1>>>(x, 6)",
            6,
        ),
        ('#define HEADER "add.cuh"\n#include HEADER', "add<<<1, 1>>>(x, 7)", 7),
        (
            "#define SHARED(T, s) extern __shared__ T s[]\n__global__ void f(int *x) { "
            "SHARED(int, s); s[0] = 8; *x = s[0]; }",
            "f<<<1, 1, 4>>>(x)",
            8,
        ),
        (
            '#define LANE(x) asm("mov.u32 %0, %%laneid;" : "=r"(x))\n'
            "__global__ void f(int *x) { unsigned n; LANE(n); x[n] = 9; }",
            "f<<<1, 1>>>(x)",
            9,
        ),
        (
            "template <class T, typename = std::enable_if_t<(sizeof(T) > 2)>> __global__ void f(T *x) { *x = 10; }",
            "f<<<1, 1>>>(x)",
            10,
        ),
        (
            "template <class T, std::enable_if_t<std::is_integral<T>::value, int> = 0> "
            "__global__ void f(T *x) { *x = 11; }\n"
            "template <class T, std::enable_if_t<!std::is_integral<T>::value, int> = 0> "
            "__global__ void f(T *x) { *x = 0; }",
            "f<<<1, 1>>>(x)",
            11,
        ),
        (
            "template <bool B = (3 < 4), int N = (5 > 4) ? 12 : 0> __global__ void f(int *x) { *x = B ? N : 0; }",
            "f < (3 < 4) > <<< 2 >> 1, dim3(1) >>> (x)",
            12,
        ),
        (
            "template <bool B = (3 < 4), int N = (5 > 4) ? 12 : 0> __global__ void f(int *x) { *x = B ? N : 0; }",
            "f<><<<1, 1>>>(x)",
            12,
        ),
        ("__global__ void f(int *f) { *f = 13; }", "f<<<1, 1>>>(x)", 13),
        ("", "pick(true)<<<1, 1>>>(x)", 1),
        ("", "if (x) (*pick(false))<<<1, 1>>>(x)", 2),
        ("", "table[1].get()<<<1, 1>>>(x)", 2),
        ("", "(x ? one : two)<<<1, 1>>>(x)", 1),
        ("", "set<<<1, 1, 0, NULL>>>(x, int{INT32_MAX})", 2**31 - 1),
        ("#undef NULL\nconst int NULL = 13;", "set<<<1, 1>>>(x, NULL)", 13),
        (
            "#define __forceinline__ inline\n#ifndef __global__\n#define __global__\n#endif\n"
            "__global__ void f(int *x) { *x = 15; }",
            "f<<<1, 1>>>(x)",
            15,
        ),
        (
            'const char *text = R"(\n#define two 2\n# 1 "nowhere.cu" 1 3\n)";',
            "set<<<1, 1>>>(x, text[1] + __LINE__)",
            ord("#") + 15,
        ),
    ],
)
def test_what_the_compiler_sees_is_found(run, before, launch, printed):
    text = f"{START}{before}\nint main() {{ cudaMallocManaged(&x, 4); {launch}; shown(); }}\n"
    assert run(text, add_cuh="__global__ void add(int *x, int n) { *x = n; }\n") == f"{printed}\n"


@pytest.mark.parametrize(
    ("kernel", "printed"),
    [
        (
            "template <class T> requires (sizeof(T) > 2) && std::integral<T> __global__ void f(T *x) { *x = 1; }",
            1,
        ),
        ("template <class T> __global__ void f(T *x) requires std::integral<T> { *x = 2; }", 2),
        ("template <std::integral T> __global__ void f(T *x) { *x = 3; }", 3),
    ],
)
def test_kernels_can_have_requirements(run, kernel, printed):
    main = "int main() { cudaMallocManaged(&x, 4); f<<<1, 1>>>(x); shown(); }\n"
    assert run(f"#include <concepts>\n{START}{kernel}\n{main}", "-std=c++20") == f"{printed}\n"


def lines(text, **options):
    """Return the lines that the compiler gets, without what is before and after the source."""
    new = rewritten(text, no_extern_c=True, **options)
    return re.split(r"HOSTCUDA_IN_LANES.*\n", new)[1].partition('# 1 "kernel.cpp"')[0].splitlines()


def test_lines_without_macros_are_as_written():
    text = "int  a; // one\n#define N 3\nint /* two\n three */\n   b;  int c;\nint   d[N];\n\tint\te  = 1;\n"
    assert lines(text)[1:] == [
        "int  a;",
        "",
        "int",
        "",
        "   b;  int c;",
        "int d[3];",
        "\tint\te  = 1;",
    ]


def test_no_line_moves():
    text = "#define TWO(a, b) a b\nint a; TWO(\nint b;,\n\n  int c;)\n#if 0\nint d;\n#endif\nint e = NULL, f;\n"
    text += "int end;\n"
    for source in (text, text.replace("\n", "\r\n")):
        message = refusal(source.replace("int end;", "int end = wrong;"))
        assert "kernel.cu:10:11: error: " in message and "'wrong'" in message


def refusal(source, **options):
    with pytest.raises(CompileError) as caught:
        compiler.SourceModule(source, no_extern_c=True, **options)
    return str(caught.value)


def test_errors_name_the_line_in_a_header(tmp_path):
    (tmp_path / "a.cuh").write_text('#pragma once\n#include "b.cuh"\nint good = HERE;\n')
    (tmp_path / "b.cuh").write_text("#define HERE 1\n\n  int bad = wrong;\n")
    message = refusal('#include "a.cuh"\n', include_dirs=[tmp_path])
    assert f"{tmp_path}/b.cuh:3:13: error: " in message
    (tmp_path / "b.cuh").write_text("#include <map>\n")
    message = refusal(
        '#line 7 "mine.cu"\n#define E wrong\n#include "b.cuh"\nint x = E;\n',
        include_dirs=[tmp_path],
    )
    assert "mine.cu:9:9: error: " in message


def test_only_the_users_headers_are_read(tmp_path):
    (tmp_path / "mine.h").write_text("#include <complex>\n__device__ int mine;\n")
    source = '#include "mine.h"\n#include <cuda_fp16.h>\n#include <map>\nint a;'
    text = "\n".join(lines(source, include_dirs=[tmp_path]))
    assert text.count("#include") == 2 and "namespace" not in text and "mine" in text
    assert f'# 1 "{tmp_path}/mine.h" 1\n#include "held-0.h"\n# 2 "{tmp_path}/mine.h"\n' in text


def test_macros_in_an_unroll_pragma_are_expanded():
    text = (
        "#define N M\n#define M 4\nvoid f() {\n#pragma unroll N\nfor (int i = 0; i < 9; i++) ;\n}\n"
    )
    assert "#pragma unroll 4" in lines(text)


def test_a_header_that_appears_is_seen(tmp_path):
    source = '#if __has_include("late.h")\n#include "late.h"\n#else\n#define VALUE 1\n#endif\n'
    source += "__global__ void f(int *x) { *x = VALUE; }\n"

    def result():
        x = np.zeros(1, np.int32)
        compiler.SourceModule(source, include_dirs=[tmp_path]).get_function("f")(
            driver.Out(x), block=(1, 1, 1)
        )
        return x[0]

    assert result() == 1
    (tmp_path / "late.h").write_text("#define VALUE 2\n")
    assert result() == 2
    (tmp_path / "late.h").write_text("#define VALUE 3\n")
    assert result() == 3


def test_a_cached_module_knows_its_kernels_parameters_without_preprocessing(monkeypatch):
    source = "#define LIST const float *given, int count\n__global__ void f(LIST) { }\n"
    for _ in range(2):
        function = compiler.SourceModule(source).get_function("f")
        with pytest.raises(TypeError, match="const float \\*given"):
            function(np.float32(1), np.int32(2), block=(1, 1, 1))
        monkeypatch.setattr(unit, "preprocess", None)


def test_a_program_of_another_kind_is_not_run_as_python(tmp_path):
    path = tmp_path / "main.cpp"
    path.write_text("int main() { return 07 + 0x1p3; }\n")
    assert child.program(str(path), (), "cpu")[:4] == [
        *(sys.executable, "-P", "-m"),
        "hostcuda.programs.program",
    ]
    path = path.rename(tmp_path / "main.cuh")
    with pytest.raises(
        EngineError, match=r"main\.cuh is no program: give a Python script \(\.py\), or CUDA C\+\+"
    ):
        child.program(str(path), (), "cpu")


@pytest.mark.parametrize(
    ("text", "is_named"),
    [
        ("y[i] = alpha * sum + beta * y[i];", False),
        ("void gemm(float alpha, float beta, float *c);", False),
        ("cublasSgemm(handle, none, none, n, n, n, &alpha, a, n, b, n, &beta, c, n);", False),
        ("alphabeta(1, 2);", False),
        ("std::cout << std::beta(0.5, 1.0);", True),
        ("using std::beta;", True),
        ("float y = betaf (x, 1);", True),
        ("double y = std::cyl_bessel_j(0, x) + hermitef(1, 2);", True),
    ],
)
def test_a_program_that_names_a_special_function_gets_them_and_a_factor_named_beta_is_none(
    text, is_named
):
    assert bool(unit._SPECIAL.search(text)) == is_named
