"""Thread loops: kernels that are split at their barriers and where warps meet, and those that stay on fibers."""

import functools
import re
import signal
import threading

import numpy as np
import pytest
from running import kernel_source

from hostcuda.api import compiler, driver
from hostcuda.errors import Interrupted
from hostcuda.frontend.rewrite import rewrite
from hostcuda.loops.versions import add_loops
from hostcuda.source import rewritten

pytestmark = pytest.mark.thorough("modes against each other: minutes")

# kernels that can all be split: the values of `in`, the blocks and the n of their launches
FILES = {
    "barrier_loops": (np.arange(1, 41, dtype=np.float32) ** 1.5, [(16, 1, 1)], (16, 8)),
    "warp_loops": (
        np.random.default_rng(7).integers(1, 100, 4096).astype(np.float32),
        [
            (96, 1, 1),
            (20, 1, 1),
            (75, 1, 1),
            (32, 2, 2),
            (16, 4, 1),
        ],  # whole warps or not; the last one on fibers
        (16, 7),
    ),
}
KERNELS = [
    (file, name)
    for file in FILES
    for name in re.findall(r"__global__ void (\w+)\(float", kernel_source(file))
]


@functools.cache
def functions(file, mode):
    """Map the names of a file's kernels to their functions.

    Without fused operations: docs/execution.md tells why.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOSTCUDA_EXECUTION_MODE", mode)
        module = compiler.SourceModule(
            kernel_source(file), options=["-fmad=false"], no_extern_c=True
        ).module
    return {
        re.match(r"\w+", kernel.name)[0]: module.get_function(kernel.symbol)
        for kernel in module.kernels()
    }


def result(function, values, n, block):
    """Return what a kernel of `FILES` computes."""
    out = np.full((2, *block[::-1]), np.nan, np.float32)
    function(driver.Out(out), driver.In(values), np.int32(n), grid=(2, 1), block=block, shared=256)
    return out


@pytest.mark.parametrize(("file", "name"), KERNELS)
def test_both_modes_give_the_same_bits(file, name):
    values, blocks, numbers = FILES[file]
    fibers, loops = (functions(file, mode)[name] for mode in ("fibers", "loops"))
    assert (fibers.execution_mode, loops.execution_mode, loops.why_fibers) == (
        "fibers",
        "loops",
        "",
    )
    for block in [*blocks, (4, 2, 3)] if name == "numbers_its_threads" else blocks:
        for n in numbers:
            expected = result(fibers, values, n, block)
            assert not np.isnan(expected).any()
            np.testing.assert_array_equal(
                result(loops, values, n, block), expected, err_msg=f"{block}, n={n}"
            )


def test_guarded_loads_of_a_row_are_written_for_the_vectorizer():
    """As g++ reads ``m < n`` and the index, it would make a mask bit by bit and gather neighbors one by one."""
    body = "const int m = threadIdx.y, i = blockIdx.x * 8 + threadIdx.x; __syncthreads(); "
    body += "out[i] = m < n && i < n ? in[m * n + i] : 0;"
    source = f'extern "C" __global__ void f(float *out, const float *in, int n) {{ {body} }}'
    second = add_loops(rewrite(source).text).split("hostcuda_loops_f")[1]
    assert "i = hostcuda::sum(blockIdx.x * 8, threadIdx.x)" in second
    assert "HOSTCUDA_ROW(m < n) && i < n ? in[hostcuda::index(m * n, i)] : 0" in second


@pytest.mark.parametrize("n", [5, 1 << 30, (1 << 30) + 1, (1 << 31) - 10])
def test_a_block_whose_indexes_may_wrap_runs_on_fibers(monkeypatch, n):
    """For the vectorizer, sums are taken to be small: a block checks that before its threads begin."""
    source = """
    extern "C" __global__ void f(unsigned *out, int n) {
        __shared__ int tile[32];
        const int column = n + threadIdx.x;
        tile[threadIdx.x] = column;
        __syncthreads();
        for (int k = n - 3; k < n; ++k) {
            const int next = k + threadIdx.x;
            tile[threadIdx.x] += next > 0;
            __syncthreads();
        }
        out[threadIdx.x] = (unsigned)column + tile[31 - threadIdx.x] + (column < 0) + 2 * (column < n);
    }"""
    monkeypatch.setenv("HOSTCUDA_EXECUTION_MODE", "loops")
    assert "HOSTCUDA_LIMIT(n, 1073741824)" in rewritten(source, no_extern_c=True)
    function = compiler.SourceModule(source, no_extern_c=True).get_function("f")
    assert function.execution_mode == "loops"
    out = np.zeros(32, np.uint32)
    function(driver.Out(out), np.int32(n), grid=(3, 1), block=(32, 1, 1))
    thread = np.arange(32)
    column = (n + thread).astype(np.uint32).view(np.int32)
    tile = column + sum((n - k + thread).astype(np.uint32).view(np.int32) > 0 for k in (1, 2, 3))
    expected = (
        column.view(np.uint32) + tile[::-1].astype(np.uint32) + (column < 0) + 2 * (column < n)
    )
    np.testing.assert_array_equal(out, expected.astype(np.uint32))


def why(body, before=""):
    """Return the reason why a kernel with this body runs on fibers; empty if it does not."""
    source = (
        f'{before}\nextern "C" __global__ void f(float *out, const float *in, int n) {{ {body} }}\n'
    )
    text = rewritten(source, no_extern_c=True)
    return re.search(r'HOSTCUDA_KERNEL_(?:LOOPS|WARPS)\(\d+, \(\w*\), "(.*)", f\)', text)[1]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("out[0] = n;", "no barrier"),
        ("if (threadIdx.x < 4) __syncthreads();", "in the if of line 2"),
        ("for (int i = 0; i < in[0]; i++) __syncthreads();", "in the loop of line 2"),
        ("int k = threadIdx.x; while (k--) __syncthreads();", "in the loop of line 2"),
        ("int k = n; k += threadIdx.x; if (k > 3) { __syncthreads(); }", "in the if of line 2"),
        (
            "int k = n; if (threadIdx.x) k = 2; if (k > 3) { __syncthreads(); }",
            "in the if of line 2",
        ),
        (
            "int k = n, *p = &k; *p += threadIdx.x; if (k > 3) { __syncthreads(); }",
            "in the if of line 2",
        ),
        (
            "int k = n; int &r = k; r += threadIdx.x; if (k > 3) { __syncthreads(); }",
            "r may refer to something",
        ),
        (
            "int k = n; unknown(k); if (k > 3) { __syncthreads(); }",
            "calls unknown, which thread loops do not know",
        ),
        (
            "int k = n; (threadIdx.x ? k : n) = 1; if (k > 3) { __syncthreads(); }",
            "in the if of line 2",
        ),
        ("int k = (int)*in; if (k > 3) { __syncthreads(); }", "in the if of line 2"),
        (
            "for (int i = 0; i < n; i++) { __syncthreads(); if (in[i] > 0) break; }",
            "the jump of line 2",
        ),
        (
            "for (int i = 0; i < n; i++) { __syncthreads(); if (threadIdx.x) continue; out[i] = 1; }",
            "the jump",
        ),
        ("int any = __syncthreads_or(n);", "no barrier"),
        ("__syncthreads(); int any = __syncthreads_or(n);", "it uses __syncthreads_or"),
        ("switch (n) { case 1: __syncthreads(); }", "in a switch"),
        ("again: __syncthreads(); if (n) goto again;", "label again"),
        ("auto f = [&] { out[0] = n; }; __syncthreads(); f();", "lambda"),
        ("__syncthreads(); out[0] = __match_any_sync(-1, n);", "it uses __match_any_sync"),
        ('__syncthreads(); printf("%d", n);', "it uses printf"),
        ("__syncthreads(); while (atomicAdd((int *)out, 1) < n) ;", "result of atomicAdd"),
        ("__syncthreads(); for (;;) if (!atomicCAS((int *)out, 0, 1)) break;", "it uses atomicCAS"),
        ("volatile int k = n; __syncthreads();", "it uses volatile"),
        ("float *volatile p = out; __syncthreads(); *p = n;", "it uses volatile"),
        ("volatile float *p = out; __syncthreads(); *p = *(volatile const float *)in;", ""),
        ("static int k; __syncthreads();", "static"),
        ("auto v = in[threadIdx.x]; __syncthreads(); out[threadIdx.x] = v;", "is not understood"),
        ("float s[2][2] = {}; __syncthreads(); out[0] = s[1][threadIdx.x];", "faster on fibers"),
        ("\n#if 1\n __syncthreads();\n#endif\n", ""),
        ("__syncthreads(); if (int k = n; k > 3) *out = k;", "declares a variable in a condition"),
        ("union { int i; float f; }; i = n; __syncthreads(); *out = f;", "it declares a type"),
        ("struct { int i; } s; __syncthreads();", "it declares a type"),
        (
            "struct S { int me() { return threadIdx.x; } }; S s; __syncthreads();",
            "it declares a type",
        ),
        ("typedef int T; __syncthreads();", "it declares a type"),
        (
            "for (int i = 0; i < 3; i++, in += threadIdx.x) __syncthreads();",
            "in the loop of line 2",
        ),
        (
            "volatile int *p = (int *)out; __syncthreads(); while (!*p) ;",
            "loop that looks at volatile p",
        ),
        (
            "__syncthreads(); while (true) if (__ldcg((int *)out)) break;",
            "loop that looks at volatile __ldcg",
        ),
        (
            "int k = n; __syncthreads(); (int &)k += threadIdx.x; if (k > 3) { __syncthreads(); }",
            "in the if of line 2",
        ),
        ("int k = n; k xor_eq threadIdx.x; if (k > 3) { __syncthreads(); }", "in the if of line 2"),
        (
            "__shared__ int k; k = n; __syncthreads(); if (k > 3) { __syncthreads(); }",
            "in the if of line 2",
        ),
        ("__syncthreads(); out[0] = in[n == 3];", "a comparison as an index"),
        (
            "int late = *in > *out; __syncthreads(); out[0] = in[8 * late];",
            "a comparison as an index",
        ),
        # warp functions
        (
            "if (threadIdx.x < 16) *out = __shfl_xor_sync(~0u, *in, 1);",
            "in the if of line 2 depends on values",
        ),
        ("if (threadIdx.x % 32 == 0) __syncwarp();", "may differ between the lanes of a warp"),
        (
            "for (int i = threadIdx.x; i < n; i += 32) __syncwarp();",
            "in the loop of line 2 depends",
        ),
        (
            "int k = 0; for (int i = 9; i > 0; i--, k += threadIdx.x) __syncwarp();",
            "in the loop of line 2 depends",
        ),
        ("for (int i = 9; i > 0; i--, out[i] = 1) __syncwarp();", "is not understood"),
        (
            "int t = threadIdx.y * blockDim.x + threadIdx.x; if (t / 32) __syncwarp();",
            "in the if of line 2 depends",
        ),
        ("if (-threadIdx.x / 32 > n) __syncwarp();", "in the if of line 2 depends"),
        ("if (threadIdx.x < 0160) __syncwarp();", "in the if of line 2 depends"),  # octal: 112
        (
            "int v = *in; __syncwarp(); { *out = v; int v = threadIdx.x; __syncwarp(); *out = v; }",
            "two variables v",
        ),
        ("int k = *in; while (k--) __syncwarp();", "in the loop of line 2 depends"),
        ("int t = threadIdx.x; t++; if (t / 32 == 0) __syncwarp();", "in the if of line 2 depends"),
        ("if (n + threadIdx.x >> 5) __syncwarp();", "in the if of line 2 depends"),
        ("if (3 * threadIdx.x / 32) __syncwarp();", "in the if of line 2 depends"),
        (
            "int i = blockIdx.x * blockDim.x + threadIdx.x; if (i / 32 < n) __syncwarp();",
            "in the if of line 2 depends",
        ),
        (
            "for (int w = threadIdx.x / 32; w < n; w++) { __syncwarp(); if (in[w] > 1) break; }",
            "the jump of line 2",
        ),
        ("for (int i = 0; i < 9; i++) { __syncwarp(); if (i == n) return; }", ""),
        ("if (threadIdx.x / 32) __syncthreads();", "values that may differ between threads"),
        ("*out = __shfl_sync(__activemask(), *in, 0);", "the mask of __shfl_sync"),
        ("*out = __shfl_sync(0xffff, *in, 0);", "the mask of __shfl_sync"),
        ("unsigned m = n ? ~0u : 1; __syncwarp(m);", "the mask of __syncwarp"),
        ("const unsigned m = ~0u; __syncwarp(m); m = 3;", "the mask of __syncwarp"),
        (
            "int v = threadIdx.x; *out = n > 1 ? __shfl_sync(~0u, v, 0) : 0;",
            "expression whose order matters",
        ),
        (
            "int v = threadIdx.x; if (n && __any_sync(~0u, v)) *out = 1;",
            "expression whose order matters",
        ),
        (
            "int v = threadIdx.x; v = v++ + __shfl_sync(~0u, v, 0);",
            "expression whose order matters",
        ),
        (
            "int v = threadIdx.x; *out = atomicAdd(out, 1) + __shfl_sync(~0u, v, 0);",
            "expression whose order matters",
        ),
        ("*out = *in + __shfl_sync(~0u, n, 0);", ""),
        ("if (__any_sync(~0u, n) && n > 3) n = n >> 1;", ""),
        ("if (in[0] > __shfl_sync(~0u, n, 0)) *out = 1;", "beside an access to memory"),
        (
            "int v = 1; *out = __shfl_sync(~0u, __shfl_sync(~0u, v, 1), 0);",
            "expression whose order matters",
        ),
        ("int v = 3; while (__any_sync(~0u, v > 0)) v--;", "it uses __any_sync"),
        # each warp would
        ("int k = 16; while (k > 0) { __syncwarp(); k /= 2; }", "in the loop of line 2 depends"),
        ("switch (n) { case 1: __syncwarp(); }", "it has a warp function in a switch"),
        ("\n#pragma unroll\nfor (int i = 0; i < n; i++) __syncwarp();", ""),
    ],
)
def test_other_kernels_stay_on_fibers(body, reason):
    assert reason in why(body) if reason else not why(body)


@pytest.mark.parametrize(
    ("before", "body", "reason"),
    [
        (
            "__device__ int me() { return threadIdx.x; }",
            "__syncthreads(); out[me()] = 1;",
            "me uses threadIdx",
        ),
        (
            "__device__ int wait() { __syncthreads(); return 1; }",
            "while (wait()) *out = 1;",
            "wait uses __syncthreads",
        ),
        ("__device__ int wait() { __syncthreads(); return 1; }", "if (wait()) *out = 1;", ""),
        (
            "__device__ void f(int n) { if (n) return; __syncthreads(); }",
            "f(n);",
            "f uses __syncthreads",
        ),
        (
            "__device__ void f(int *p) { __syncthreads(); *p = i; }\nint i;",
            "int i; f(&i);",
            "f uses __syncthreads",
        ),
        (
            "__device__ int f() { __syncthreads(); return 1; }",
            "auto v = f();",
            "f uses __syncthreads",
        ),
        (
            "__device__ void f() { __shared__ int s; __syncthreads(); }",
            "f(); f();",
            "f uses __syncthreads",
        ),
        (
            "__device__ void go(int n) { for (; n; n--) __syncthreads(); }",
            "go(threadIdx.x);",
            "in the loop of line 1",
        ),
        (
            "struct S { __device__ int me() { return threadIdx.x; } };",
            "S s; __syncthreads(); s.me();",
            "S uses",
        ),
        (
            "__device__ int a() { return threadIdx.x; }\n__device__ int b() { return a(); }",
            "__syncthreads(); b();",
            "b uses",
        ),
        ("#define WAIT __syncthreads()", "out[0] = 1; WAIT; out[1] = 1;", ""),
        (
            "#define COUNT(n) atomicAdd(&(n), 1)",
            "__syncthreads(); while (COUNT(*out) < n) ;",
            "result of atomicAdd",
        ),
        (
            "#define OF(n) *&(n)",
            "int k = n; *out = OF((k)); if (k > 3) { __syncthreads(); }",
            "in the if of line 2",
        ),
        (
            "#define SET(v) v = threadIdx.x",
            "int k = 1; SET(k); if (k) { __syncthreads(); }",
            "in the if of line 2",
        ),
        ("#define DEFINE(name) int name;\nDEFINE(before)", "__syncthreads();", ""),
        ("enum { N = 3 };\n__device__ int M;", "if (n > N) { __syncthreads(); }", ""),
        (
            "enum { N = 3 };\n__device__ int M;",
            "if (n > M) { __syncthreads(); }",
            "in the if of line 3",
        ),
        (
            "__device__ int max(int &a, int b) { return a = b; }",
            "if (max(n, 3)) { __syncthreads(); }",
            "in the if",
        ),
        (
            "__device__ void set(int &a) { a = 1; }",
            "set(n); if (n) { __syncthreads(); }",
            "in the if of line 2",
        ),
        (
            "__device__ int get(int a) { return a; }",
            "*out = get(n); if (n) { __syncthreads(); }",
            "",
        ),
        (
            "struct I { int i; };\n__device__ int operator>>(I a, int &b) { return b = a.i; }",
            "I i = {2}; *out = i >> n; if (n) { __syncthreads(); }",
            "I uses operators of the source",
        ),
        (
            "struct I { int i; };\n__device__ int operator>>(I a, int &b) { return b = a.i; }",
            "if (n >> 1) { __syncthreads(); }",
            "",
        ),
        (
            "struct I { int i; };\nusing R = I &;\n__device__ int operator+(R a, int b) { return a.i += b; }",
            "I i = {2}; *out = i + 1; __syncthreads();",
            "I uses operators of the source",
        ),
        (
            "struct I { int &i; I(int &i) : i(i) {} };",
            "I i(n); i.i = *out; if (n) { __syncthreads(); }",
            "it uses the class I",
        ),
        (
            "struct I { int i; int me() { return i; } };",
            "I i = {2}; __syncthreads(); *out = i.me();",
            "it uses the",
        ),
        ("__device__ void f(const float &v) { __syncthreads(); }", "f(n);", "f uses __syncthreads"),
        ("__device__ void f(float const& v) { __syncthreads(); }", "f(n);", "f uses __syncthreads"),
        (
            "using R = const float;\n__device__ void f(R &v) { __syncthreads(); }",
            "f(n);",
            "f uses __syncthreads",
        ),
        (
            "struct I { int n; };",
            "I i = {n}; if (i.n > 3) { __syncthreads(); }",
            "in the if of line 2",
        ),
        (
            "struct I { int n, m; };\n__device__ I one();",
            "I i = one(); __syncthreads(); *out = i.m;",
            "",
        ),
        (
            "using R = int &;",
            "R r = n; r = threadIdx.x; if (n) { __syncthreads(); }",
            "r may refer to something",
        ),
        (
            "__device__ float pick(const float *p, bool second) { return p[second]; }",
            "__syncthreads(); *out = pick(in, n);",
            "pick uses a comparison",
        ),
    ],
)
def test_what_a_kernel_calls_can_need_fibers(before, body, reason):
    assert reason in why(body, before) if reason else not why(body, before)


@pytest.mark.parametrize(
    ("mode", "options", "reason"),
    [
        ("loops", [], ""),
        ("fibers", [], "HOSTCUDA_EXECUTION_MODE=fibers asks for them"),
        ("loops", ["-G"], "it is compiled for a debugger"),
    ],
)
def test_every_kernel_on_fibers_has_a_reason(monkeypatch, mode, options, reason):
    monkeypatch.setenv("HOSTCUDA_EXECUTION_MODE", mode)
    source = "#define BODY { __syncthreads(); }\n#define KERNEL(name) __global__ void name() BODY\n"
    source += "__global__ void f() { __syncthreads(); }\nKERNEL(made)\n"
    module = compiler.SourceModule(source, options=options)
    assert module.get_function("f").why_fibers == reason
    assert module.get_function("made").why_fibers == reason


def test_thread_loops_are_the_default(monkeypatch):
    monkeypatch.delenv("HOSTCUDA_EXECUTION_MODE", raising=False)
    assert (
        compiler.SourceModule("__global__ void f() { __syncthreads(); }")
        .get_function("f")
        .execution_mode
        == "loops"
    )


@pytest.mark.parametrize(("size", "mode"), [(500, "loops"), (3000, "fibers")])
def test_large_arrays_of_each_thread_stay_on_fibers(monkeypatch, size, mode):
    """All threads of a block keep them on one stack."""
    monkeypatch.setenv("HOSTCUDA_EXECUTION_MODE", "loops")
    text = "".join(
        f"int a{i}[{size}]; for (int j = 0; j < {size}; ++j) a{i}[j] = threadIdx.x + j;\n"
        for i in range(7)
    )
    total = "+".join(f"a{i}[threadIdx.x]" for i in range(7))
    source = (
        f"__global__ void f(int *out) {{ {text} __syncthreads(); out[threadIdx.x] = {total}; }}"
    )
    function = compiler.SourceModule(source).get_function("f")
    assert function.execution_mode == mode
    assert function.why_fibers == ("" if mode == "loops" else "its thread loops do not compile")
    out = np.zeros(256, np.int32)
    function(driver.Out(out), block=(256, 1, 1))
    np.testing.assert_array_equal(out, 14 * np.arange(256))


def test_a_fault_in_a_thread_loop_names_its_thread(monkeypatch):
    monkeypatch.setenv("HOSTCUDA_EXECUTION_MODE", "loops")
    source = """
    __global__ void f(float *out, int far) {
        __shared__ float tile[64];
        int i = threadIdx.y * blockDim.x + threadIdx.x;
        tile[i] = i;
        __syncthreads();
        out[blockIdx.x == 2 && i == 13 ? far : i] = tile[63 - i];
    }"""
    function = compiler.SourceModule(source).get_function("f")
    assert function.execution_mode == "loops"
    out = driver.mem_alloc(256)
    function(out, np.int32(1 << 15), grid=(3, 1), block=(8, 8, 1))  # 128 KB further: in the guard
    with pytest.raises(
        driver.LaunchError, match=r"kernel f, block \(2,0,0\), thread \(5,1,0\): a write to"
    ):
        driver.Context.synchronize()


def test_ctrl_c_ends_an_endless_thread_loop(monkeypatch):
    monkeypatch.setenv("HOSTCUDA_EXECUTION_MODE", "loops")
    source = "__global__ void f(int *p, int n) { for (int i = 0; n > 0; i++) { __syncthreads(); p[threadIdx.x] = i; } }"
    function = compiler.SourceModule(source).get_function("f")
    assert function.execution_mode == "loops"
    memory = driver.mem_alloc(256)
    function(memory, np.int32(1), block=(64, 1, 1))
    threading.Timer(
        0.2, signal.pthread_kill, (threading.main_thread().ident, signal.SIGINT)
    ).start()
    with pytest.raises(Interrupted):
        driver.Context.synchronize()
    function(memory, np.int32(0), block=(64, 1, 1))
    driver.Context.synchronize()


def test_a_second_version_that_does_not_compile_is_left_out(monkeypatch):
    monkeypatch.setenv("HOSTCUDA_EXECUTION_MODE", "loops")
    source = """
    const float limit = 2.5f;                      // for the compiler no constant expression
    __global__ void f(float *out, int n) {
        if (n > limit) __syncthreads();
        out[threadIdx.x] = n;
    }
    __global__ void g(float *out, int n) { __syncthreads(); out[threadIdx.x] = n; }"""
    module = compiler.SourceModule(source, cache_dir=False)
    f, g = module.get_function("f"), module.get_function("g")
    assert (f.execution_mode, f.why_fibers) == ("fibers", "its thread loops do not compile")
    assert (g.execution_mode, g.why_fibers) == ("loops", "")
    for function in (f, g):
        out = np.zeros(4, np.float32)
        function(driver.Out(out), np.int32(7), block=(4, 1, 1))
        assert out.tolist() == [7, 7, 7, 7]


def test_an_unknown_mode_is_refused(monkeypatch):
    monkeypatch.setenv("HOSTCUDA_EXECUTION_MODE", "reverse")
    with pytest.raises(
        compiler.CompileError, match="HOSTCUDA_EXECUTION_MODE='reverse' is not an execution mode"
    ):
        compiler.SourceModule("__global__ void f() {}")


def test_a_function_of_a_header_can_have_warp_functions(tmp_path):
    header = "#pragma once\n__device__ inline float swap(float v) { v = __shfl_xor_sync(~0u, v, 1); return v; }\n"
    (tmp_path / "swap.h").write_text(header)
    kernel = "__global__ void f(float *out) { out[threadIdx.x] = swap(out[threadIdx.x]); }"
    source = f'#include "swap.h"\nextern "C" {kernel}'
    text = rewritten(source, no_extern_c=True, include_dirs=[tmp_path])
    assert 'HOSTCUDA_KERNEL_WARPS(1024, (hostcuda_loops_f), "", f)' in text


def test_a_template_must_be_called_with_its_type():
    total = "template <class T> __device__ T total(T v) { v += __shfl_xor_sync(~0u, v, 1) / 2; return v; }"
    assert not why("float v = *in; v = total<float>(v); *out = v;", total)
    assert "total uses __shfl_xor_sync" in why("float v = *in; v = total(v); *out = v;", total)


def test_a_function_that_changes_its_callers_array_is_called(monkeypatch):
    """It runs on fibers, where g++ 12 removed the call unless a null pointer may be an address."""
    monkeypatch.setenv("HOSTCUDA_EXECUTION_MODE", "fibers")
    module = compiler.SourceModule("""
        __device__ void cross(int (&a)[4], int o) {
            for (int i = 0; i < 4; i++) a[i] += __shfl_xor_sync(0xffffffff, a[3 - i], o);
        }
        __global__ void kernel(int *out) {
            int a[4];
            for (int i = 0; i < 4; i++) a[i] = (threadIdx.x + 1) * (i + 1);
            cross(a, 1);
            out[threadIdx.x] = a[0] + a[1] * 3 + a[2] * 5 + a[3] * 7;
        }""")
    kernel, out = module.get_function("kernel"), np.zeros(32, np.int32)
    kernel(driver.Out(out), block=(32, 1, 1))
    a = np.arange(1, 33) * np.arange(1, 5)[:, None]
    for i in range(4):
        a[i] += a[3 - i, np.arange(32) ^ 1]
    assert (
        kernel.execution_mode == "fibers" and (out == a[0] + a[1] * 3 + a[2] * 5 + a[3] * 7).all()
    )


def test_each_kernel_is_registered_once():
    source = "".join(
        f"__global__ void k{i}(int *p) {{ p[0] = 1; {'__syncthreads();' * i} }}\n" for i in range(3)
    )
    text = add_loops(rewrite(source).text)
    assert re.findall(r"HOSTCUDA_KERNEL\w*\(\d+, \((\w*)\), .*, (\w+)\)", text) == [
        ("", "k0"),
        ("hostcuda_loops_k1", "k1"),
        ("hostcuda_loops_k2", "k2"),
    ]
    assert text.count("HOSTCUDA_KERNEL") == 3
