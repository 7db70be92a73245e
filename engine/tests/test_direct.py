"""Direct kernels: which ones change their loops with their threads, and that this shows in nothing but the time."""

import re

import numpy as np
import pytest

from hostcuda.api import compiler, driver
from hostcuda.source import rewritten

pytestmark = pytest.mark.thorough("modes against each other: minutes")

ROW = "const int i = blockIdx.x * blockDim.x + threadIdx.x; float s = 0;"
SUM = "for (int j = 0; j < n; ++j) s += x[j * n + i] * k[j]; y[i] = s;"
DIRECT = {
    "return": f"{ROW} if (i >= n) return; {SUM}",
    "around": f"{ROW} if (i < n) {{ {SUM} }}",
    "in_memory": "const int i = threadIdx.x; for (int j = 0; j < n; ++j) y[i] = y[i] + x[i + j] * k[j];",
    "by_row": f"{ROW} for (int j = 0; j < int(threadIdx.y); ++j) s -= x[j * n + i] * k[j]; y[i] = s;",
    "named": f"{ROW} for (int j = 0; j < n; ++j) {{ const int at = j * n; s += x[at + i] * __ldg(&k[at]); }} y[i] = s;",
    "largest": f"{ROW} for (int j = 0; j < n; ++j) s = fmaxf(s, x[j * n + i]); y[i] = s > 1 ? s : 1;",
}
AS_BEFORE = {
    "no_loop": "y[threadIdx.x] = x[threadIdx.x];",
    "own_rounds": f"{ROW} for (int j = 0; j < i; ++j) s += x[j + i]; y[i] = s;",
    "memory_rounds": f"{ROW} for (int j = 0; j < k[0]; ++j) s += x[j + i]; y[i] = s;",
    "breaks": f"{ROW} for (int j = 0; j < n; ++j) {{ if (x[j]) break; s += x[j + i]; }} y[i] = s;",
    "far_apart": f"{ROW} for (int j = 0; j < n; ++j) s += x[i * n + j] * k[j]; y[i] = s;",
    "condition": f"{ROW} for (int j = 0; j < n; ++j) s += j > 2 ? x[j + i] : 0; y[i] = s;",
    "atomic": "for (int j = 0; j < n; ++j) atomicAdd(&y[j], x[j + threadIdx.x]);",
    "volatile": f"{ROW} for (int j = 0; j < n; ++j) s += ((volatile const float *)x)[j + i]; y[i] = s;",
    "own_function": f"{ROW} for (int j = 0; j < n; ++j) s += twice(x[j + i]); y[i] = s;",
    "address": f"{ROW} float *p = &s; for (int j = 0; j < n; ++j) s += x[j + i]; y[i] = *p;",
    "array": f"{ROW} float t[2] = {{}}; for (int j = 0; j < n; ++j) t[0] += x[j + i]; y[i] = t[0];",
    "late_return": f"{ROW} {SUM} if (s > 1) return; for (int j = 0; j < n; ++j) y[i] += x[j + i];",
    "product_before": f"{ROW} s = k[0] * x[i]; for (int j = 0; j < n; ++j) s += x[j + i]; y[i] = s;",
    "same_product": f"{ROW} for (int j = 0; j < n; ++j) s += k[j] * k[j + n]; y[i] = s;",
    "product_of_each_round": f"{ROW} for (int j = 0; j < n; ++j) s += x[i] * k[0]; y[i] = s;",
    "two_products": f"{ROW} for (int j = 0; j < n; ++j) s += x[j + i] * k[j] + x[j + i] * k[0]; y[i] = s;",
}


def source(bodies):
    head = "const float *x, const float *k, float *y, int n"
    kernels = "\n".join(
        f"__global__ void {name}_({head}) {{ {body} }}" for name, body in bodies.items()
    )
    return f"__device__ float twice(float v) {{ return 2 * v; }}\n{kernels}\n"


def test_kernels_are_direct_or_run_as_before():
    text = rewritten(source=source(DIRECT | AS_BEFORE), no_extern_c=True)
    rows = re.findall(r'HOSTCUDA_KERNEL_(\w+)\(.*"(.*)", (\w+)_\)', text)
    assert {name: why for kind, why, name in rows if kind == "GROUPS"} == dict.fromkeys(DIRECT, "")
    assert {name: why for kind, why, name in rows if kind != "GROUPS"} == dict.fromkeys(
        AS_BEFORE, "it has no barrier"
    )


def launched(monkeypatch, mode, bodies, options=()):
    """Map (name, width of the blocks) to what kernels compute, with rows too short for groups and longer ones."""
    monkeypatch.setenv("HOSTCUDA_EXECUTION_MODE", mode)
    x, k = np.random.default_rng(5).uniform(-1, 1, (2, 4096)).astype(np.float32)
    module = compiler.SourceModule(
        f'extern "C" {{ {source(bodies)} }}', options=list(options), no_extern_c=True
    )
    results = {}
    for name in bodies:
        function = module.get_function(f"{name}_")
        assert function.execution_mode == mode
        for width in (5, 16, 21, 64):
            y = results[name, width] = np.ones(512, np.float32)
            block = (width, 1 + (name == "by_row"), 1)
            function(
                driver.In(x), driver.In(k), driver.InOut(y), np.int32(39), block=block, grid=(2, 1)
            )
    return results


def test_without_fusing_both_modes_give_the_same_bits(monkeypatch):
    np.testing.assert_equal(
        *(launched(monkeypatch, mode, DIRECT, ["-fmad=false"]) for mode in ("loops", "fibers"))
    )


def test_each_product_is_fused_with_its_sum(monkeypatch):
    bodies = {name: DIRECT[name] for name in ("return", "around", "in_memory")}
    fused_by_hand = {
        "s += x[j * n + i] * k[j]": "s = fmaf(x[j * n + i], k[j], s)",
        "y[i] = y[i] + x[i + j] * k[j]": "y[i] = fmaf(x[i + j], k[j], y[i])",
    }
    by_hand = dict(bodies)
    for name in bodies:
        for written, new in fused_by_hand.items():
            by_hand[name] = by_hand[name].replace(written, new)
    assert all(text.count("fmaf") == 1 for text in by_hand.values())
    fused = {key: out for key, out in launched(monkeypatch, "loops", bodies).items() if key[1] != 5}
    right = launched(monkeypatch, "fibers", by_hand)
    np.testing.assert_equal(fused, {key: right[key] for key in fused})


def test_a_fault_names_its_thread(monkeypatch):
    monkeypatch.setenv("HOSTCUDA_EXECUTION_MODE", "loops")
    body = "const int i = threadIdx.x; for (int j = 0; j < 3; ++j) y[i] += x[(j / 2) * n + i];"
    function = compiler.SourceModule(
        f'extern "C" {{ {source({"f": body})} }}', no_extern_c=True
    ).get_function("f_")
    assert function.execution_mode == "loops"
    memory, unmapped = driver.mem_alloc(256), np.uintp(4096)  # an address that no allocation has
    function(unmapped, memory, memory, np.int32(16), block=(16, 2, 1))
    with pytest.raises(driver.LaunchError, match=r"thread \(0,0,0\)"):
        driver.Context.synchronize()


def test_an_unsigned_that_is_subtracted_from_a_long():
    """It is subtracted in 64 bits: negated in its own 32 bits it would be 4294967293, and the address far away."""
    code = """
    __global__ void m(const float *x, float *y, long n, long K, unsigned d) {
        const int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i >= n) return;
        for (long c = 4; c < K; ++c) y[i] += x[c + i - d];
    }"""
    function = compiler.SourceModule(code).get_function("m")
    x, y = np.arange(200, dtype=np.float32), np.zeros(100, np.float32)
    function(
        driver.In(x),
        driver.InOut(y),
        np.int64(100),
        np.int64(9),
        np.uint32(3),
        block=(64, 1, 1),
        grid=(2, 1),
    )
    assert y.tolist() == [sum(x[c + i - 3] for c in range(4, 9)) for i in range(100)]
