"""Warp-synchronous code is told at compile time: it relies on lanes in step, and its result here is wrong."""

import warnings

import numpy as np
import pytest

import hostcuda.api.driver as cuda
from hostcuda.api.compiler import SourceModule
from hostcuda.frontend.lockstep import find_unsynchronized
from hostcuda.source import warnings_about

pytestmark = pytest.mark.thorough("modes against each other: minutes")

# As Harris's last warp: 64 values, summed by 32 lanes.
REDUCTION = """#line 1 "reduction.cu"
__device__ void warp_reduce(volatile int *sums, int i) {
    sums[i] += sums[i + 32]; SYNC
    sums[i] += sums[i + 16]; SYNC
    sums[i] += sums[i + 8]; SYNC
    sums[i] += sums[i + 4]; SYNC
    sums[i] += sums[i + 2]; SYNC
    sums[i] += sums[i + 1];
}
__global__ void sum(const int *x, int *y) {
    __shared__ int sums[64 + 32];
    for (int i = threadIdx.x; i < 96; i += 64) sums[i] = i < 64 ? x[i] : 0;
    __syncthreads();
    if (threadIdx.x < 32) warp_reduce(sums, threadIdx.x);
    if (threadIdx.x == 0) y[0] = sums[0];
}
"""


def test_a_reduction_that_needs_lanes_in_step_is_told_with_its_line():
    says = (
        r"reduction.cu:3: sums\[i\+16\] is read after sums\[i\] was written, without a __syncwarp"
    )
    with pytest.warns(UserWarning, match=says):
        module = SourceModule(REDUCTION.replace("SYNC", ""))
    y = np.zeros(1, np.int32)
    module.get_function("sum")(cuda.In(np.ones(64, np.int32)), cuda.Out(y), block=(64, 1, 1))
    assert y[0] != 64


def test_with_syncwarp_it_is_right_and_silent():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        module = SourceModule(REDUCTION.replace("SYNC", "__syncwarp();"))
    y = np.zeros(1, np.int32)
    module.get_function("sum")(cuda.In(np.ones(64, np.int32)), cuda.Out(y), block=(64, 1, 1))
    assert y[0] == 64


@pytest.mark.parametrize(
    "body",
    [
        "volatile __shared__ int s[64]; for (int k = 32; k; k /= 2) if (t < k) s[t] += s[t + k];",
        "__shared__ int a[64]; volatile int *s = a; s[t] = OP(s[t], s[t + 32]); s[t] = OP(s[t], s[t + 16]);",
        "extern __shared__ volatile int s[]; s[t] = x[t]; s[t] += s[t - 1];",
        "__shared__ volatile int s[32][2]; s[t][0] = x[t]; x[t] = s[t ^ 1][0];",
    ],
)
def test_each_form_is_found(body):
    (place,) = find_unsynchronized(f"__global__ void f(int *x) {{ int t = threadIdx.x;\n{body} }}")
    assert place[1] == 2


@pytest.mark.parametrize(
    "body",
    [
        "__shared__ volatile int s[64]; s[t] = x[t]; s[t] += 1; x[t] = s[t];",  # a lane's own word
        "__shared__ volatile int s[64]; s[t] = x[t]; __syncthreads(); x[t] = s[63 - t];",
        "__shared__ volatile int s[64]; for (int k = 32; k; k /= 2) { s[t] += s[t + k]; tile.sync(); }",
        # global memory
        "volatile int *flag = x; x[t + 9] = 1; flag[0] = 1; while (flag[1] == 0) {}",
        # not volatile
        "__shared__ volatile int ready; __shared__ int s[64]; s[t] = ready; x[t] = s[t + 1];",
        "/* volatile __shared__ int s[64]; s[t] = 1; s[t] = s[t + 1]; */",
    ],
)
def test_what_is_in_order_or_not_shared_is_silent(body):
    assert find_unsynchronized(f"__global__ void f(int *x) {{ int t = threadIdx.x; {body} }}") == []


SHARED = """__global__ void two(float *x) {
    extern __shared__ float a[];
    extern __shared__ int b[];
    a[threadIdx.x] = b[threadIdx.x] = x[0];
}
template <class T> __global__ void apart(T *x) {
    extern __shared__ float c[];
    if (x[0] > 0) { extern __shared__ T d[]; d[0] = x[0]; } else { extern __shared__ int d[]; d[0] = x[1]; }
    c[0] = x[2];
}
template <class T> struct Memory {
    __device__ operator T *() { extern __shared__ int e[]; return (T *)e; }
    __device__ operator const T *() const { extern __shared__ int e[]; return (T *)e; }
};
"""


def test_a_second_dynamic_array_of_a_block_is_told_to_begin_where_the_first_does():
    (warning,) = [
        line
        for line in warnings_about(SHARED, no_extern_c=True).splitlines()
        if "begins where" in line
    ]
    assert (
        warning.startswith("kernel.cu:3:")
        and "deprecated" not in warning
        and "hostcuda" not in warning
    )
