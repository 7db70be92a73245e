"""Where C++ leaves a result open, the engine gives the GPU's: programs, and what an H100 printed."""

from pathlib import Path

import numpy as np
import pytest
from running import run_program

import hostcuda.autoinit  # noqa: F401
import hostcuda.driver as cuda
from hostcuda.compiler import SourceModule
from hostcuda.frontend.exact import make_exact

pytestmark = pytest.mark.thorough("breadth of CUDA's API")

FOLDER = Path(__file__).parent / "semantics"


@pytest.mark.parametrize(
    ("program", "options", "recorded"),
    [
        ("values", (), "values"),
        ("subnormals", (), "subnormals"),
        ("subnormals", ("-ftz=true",), "flushed"),
        ("extremes", ("-std=c++17",), "extremes"),
    ],
)
def test_a_program_prints_what_it_prints_on_a_gpu(program, options, recorded):
    done = run_program(FOLDER / f"{program}.cu", options=options)
    assert done.stdout.splitlines() == (FOLDER / f"{recorded}.txt").read_text().splitlines(), (
        done.stderr
    )


WRAPPED = """
__global__ void k(unsigned *o, int n)
{
    __shared__ unsigned s[32];
    unsigned short a = n + threadIdx.x, b = a;
    s[threadIdx.x] = a * b >> 3;
    __syncthreads();
    o[threadIdx.x] = s[31 - threadIdx.x];
    o[32 + threadIdx.x] = n + 0x7fff0100 > n;
}
"""


@pytest.mark.usefixtures("cpu_engine")  # the option is the host compiler's
@pytest.mark.parametrize("mode", ["loops", "fibers"])
def test_signed_integers_wrap_if_asked(mode, monkeypatch):
    monkeypatch.setenv("HOSTCUDA_EXECUTION_MODE", mode)
    kernel = SourceModule(WRAPPED, options=["-Xcompiler", "-fwrapv"]).get_function("k")
    assert kernel.execution_mode == mode
    out = np.zeros(64, np.uint32)
    kernel(cuda.Out(out), np.int32(65504), block=(32, 1, 1))
    assert out[0] == 0xFFFFC000 and not out[32:].any()


@pytest.mark.parametrize(
    ("text", "rewritten"),
    [
        ("a << 3", "a << 3"),
        ("a << 3 - n", "a << hostcuda::shift << 3 - n"),
        ("a >> n >> 1", "a >> hostcuda::shift >> n >> 1"),
        ("a <<= b ? 1 : 2", "a <<= hostcuda::shift = b ? 1 : 2"),
        ("A<B<int>> x; f(A<B<3>>(y))", "A<B<int>> x; f(A<B<3>>(y))"),
        (
            "i < n >> k && x < y >> k",
            "i < n >> hostcuda::shift >> k && x < y >> hostcuda::shift >> k",
        ),
        ("T &operator<<(T &a, int n)", "T &operator<<(T &a, int n)"),
        ("kernel<<<1, 2>>>(x)", "kernel<<<1, 2>>>(x)"),
        ("(int)x[i].y * 2", "hostcuda_cast<int>(x[i].y) * 2"),
        ("(unsigned char)(x + 1)", "hostcuda_cast<unsigned char>((x + 1))"),
        ("(float)(int)-x", "(float)hostcuda_cast<int>(-x)"),
        (
            "(int)(unsigned char)p->f(1, 2)[3]",
            "hostcuda_cast<int>(hostcuda_cast<unsigned char>(p->f(1, 2)[3]))",
        ),
        ("(int)a::f<3>(x) < 4", "hostcuda_cast<int>(a::f<3>(x)) < 4"),
        ("(int)a < b", "hostcuda_cast<int>(a) < b"),
        ("sizeof(int) * 3; int f(int); (int *)p", "sizeof(int) * 3; int f(int); (int *)p"),
        ("y = uint8_t(x) + int(z)", "y = hostcuda_cast<uint8_t>(x) + hostcuda_cast<int>(z)"),
        ("static_cast<short>(x)", "hostcuda_cast<short>(x)"),
        (
            "int (*f)(int) = g; F<int(float)> h; auto l = [](int) -> int { return 1; };",
            "int (*f)(int) = g; F<int(float)> h; auto l = [](int) -> int { return 1; };",
        ),
    ],
)
def test_casts_and_shifts_are_found(text, rewritten):
    assert make_exact(text, True) == rewritten
    assert make_exact(f"void f() {{ {text}; }}", False) == f"void f() {{ {text}; }}"
    assert (
        make_exact(f"__device__ void f() {{ {text}; }}", False)
        == f"__device__ void f() {{ {rewritten}; }}"
    )
