"""The engine against NumPy over random grids, blocks, shapes, shared sizes and streams."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import hostcuda.autoinit  # noqa: F401
import hostcuda.driver as cuda

pytestmark = pytest.mark.thorough("modes against each other: minutes")

quick = settings(
    deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture]
)

SOURCE = r"""
// Every thread writes who it is.
__global__ void identify(int *y) {
    int block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    int thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    int size = blockDim.x * blockDim.y * blockDim.z;
    y[block * size + thread] = block * 1024 + thread;
}

// A block rotates its segment by `by` through dynamic shared memory, `rounds` times.
__global__ void rotate(int *y, int n, int by, int rounds) {
    extern __shared__ int s[];
    int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    int live = min((int)blockDim.x, n - (int)(blockIdx.x * blockDim.x));
    if (t >= live) return;
    for (int r = 0; r < rounds; r++) {
        s[t] = y[i];
        __syncthreads();
        y[i] = s[(t + by) % live];
        __syncthreads();
    }
}

__global__ void affine(long long *x, int n, long long a, long long b) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) x[i] = a * x[i] + b;
}
"""


@st.composite
def blocks(draw):
    """Draw a block shape of at most 1024 threads."""
    x = draw(st.integers(1, 1024))
    y = draw(st.integers(1, 1024 // x))
    return x, y, draw(st.integers(1, min(64, 1024 // x // y)))


@quick
@given(grid=st.tuples(*[st.integers(1, 5)] * 3), block=blocks())
def test_every_thread_of_every_block_runs_once(module, grid, block):
    blocks_, threads = int(np.prod(grid)), int(np.prod(block))
    y = np.full(blocks_ * threads, -1, np.int32)
    module.get_function("identify")(cuda.Out(y), grid=grid, block=block)
    assert (
        y.reshape(blocks_, threads) == np.arange(blocks_)[:, None] * 1024 + np.arange(threads)
    ).all()


@quick
@given(
    n=st.integers(1, 2000),
    threads=st.integers(1, 1024),
    by=st.integers(0, 2000),
    rounds=st.integers(0, 4),
    spare=st.integers(0, 100),
)
def test_barriers_and_dynamic_shared_memory(module, n, threads, by, rounds, spare):
    y = np.arange(n, dtype=np.int32)
    module.get_function("rotate")(
        cuda.InOut(y),
        *map(np.int32, (n, by, rounds)),
        grid=(-(-n // threads), 1),
        block=(threads, 1, 1),
        shared=4 * (threads + spare),
    )
    expected = np.arange(n)
    for start in range(0, n, threads):
        expected[start : start + threads] = np.roll(expected[start : start + threads], -by * rounds)
    assert (y == expected).all()


@quick
@given(
    sizes=st.lists(st.integers(1, 3000), min_size=1, max_size=5),
    steps=st.lists(
        st.tuples(
            st.integers(0, 4),
            st.integers(-3, 3),
            st.integers(-5, 5),
            st.integers(1, 4),
            st.integers(1, 300),
        ),
        max_size=25,
    ),
)
def test_streams_keep_their_own_order(module, sizes, steps):
    """Affine maps, which do not commute, on buffers that each belong to a stream."""
    affine = module.get_function("affine").prepare("Piqq")
    expected = [np.arange(n, dtype=np.int64) for n in sizes]
    streams = [cuda.Stream() for _ in sizes]
    buffers = [cuda.to_device(x) for x in expected]
    for which, a, b, grid, threads in steps:
        s = which % len(sizes)
        affine.prepared_async_call(
            (grid, 1), (threads, 1, 1), streams[s], buffers[s], sizes[s], a, b
        )
        expected[s] = a * expected[s] + b
    results = [cuda.pagelocked_empty(n, np.int64) for n in sizes]
    for stream, buffer, result in zip(streams, buffers, results, strict=True):
        cuda.memcpy_dtoh_async(result, buffer, stream)
    cuda.Context.synchronize()
    for result, wanted in zip(results, expected, strict=True):
        assert (result == wanted).all()


@quick
@given(data=st.data(), size=st.integers(1, 500))
def test_copies_and_fills_at_any_offset(data, size):
    memory = np.full(size, 255, np.uint8)
    d = cuda.mem_alloc(size)
    cuda.memset_d8(d, 255, size)
    for _ in range(data.draw(st.integers(0, 6))):
        start, stop = sorted(data.draw(st.tuples(*[st.integers(0, size)] * 2)))
        if data.draw(st.booleans()):
            value = data.draw(st.integers(0, 255))
            cuda.memset_d8(int(d) + start, value, stop - start)
            memory[start:stop] = value
        elif start < stop:
            part = np.random.default_rng(start).integers(0, 256, stop - start, dtype=np.uint8)
            cuda.memcpy_htod(int(d) + start, part)
            memory[start:stop] = part
    assert (cuda.from_device_like(d, memory) == memory).all()
