"""Programs as textbooks and students write them, unmodified, against NumPy. They run on either engine."""

import numpy as np
import pytest

import hostcuda.autoinit  # noqa: F401
import hostcuda.driver as cuda
from hostcuda.compiler import SourceModule

pytestmark = pytest.mark.thorough("breadth of CUDA's API")

RNG = np.random.default_rng(7)


def kernel(source, name, **keywords):
    return SourceModule(source, **keywords).get_function(name)


def test_vector_add():
    add = kernel("""
        __global__ void add(const float *a, const float *b, float *c, int n)
        {
            int i = blockIdx.x * blockDim.x + threadIdx.x;
            if (i < n)
                c[i] = a[i] + b[i];
        }
    """, "add")
    a, b = RNG.random((2, 100_003), np.float32)
    c = np.empty_like(a)
    add(
        cuda.In(a),
        cuda.In(b),
        cuda.Out(c),
        np.int32(a.size),
        grid=((a.size + 255) // 256, 1),
        block=(256, 1, 1),
    )
    assert (c == a + b).all()


def test_grid_stride_loop_in_three_dimensions():
    fill = kernel("""
        __global__ void fill(int *y, int depth, int height, int width) {
            for (int z = blockIdx.z * blockDim.z + threadIdx.z; z < depth; z += gridDim.z * blockDim.z)
                for (int y_ = blockIdx.y * blockDim.y + threadIdx.y; y_ < height; y_ += gridDim.y * blockDim.y)
                    for (int x = blockIdx.x * blockDim.x + threadIdx.x; x < width; x += gridDim.x * blockDim.x)
                        y[(z * height + y_) * width + x] += (z * 100 + y_) * 100 + x;
        }
    """, "fill")
    y = np.zeros((5, 7, 11), np.int32)
    fill(cuda.InOut(y), *map(np.int32, y.shape), grid=(2, 3, 2), block=(4, 2, 2))
    z, h, w = np.indices(y.shape)
    assert (y == (z * 100 + h) * 100 + w).all()


def test_transpose_with_a_padded_shared_tile():
    transpose = kernel("""
        #define TILE 16
        __global__ void transpose(float *out, const float *in, int height, int width) {
            __shared__ float tile[TILE][TILE + 1];
            int x = blockIdx.x * TILE + threadIdx.x;
            int y = blockIdx.y * TILE + threadIdx.y;
            if (x < width && y < height) tile[threadIdx.y][threadIdx.x] = in[y * width + x];
            __syncthreads();
            x = blockIdx.y * TILE + threadIdx.x;
            y = blockIdx.x * TILE + threadIdx.y;
            if (x < height && y < width) out[y * height + x] = tile[threadIdx.x][threadIdx.y];
        }
    """, "transpose")
    x = RNG.random((45, 70), np.float32)
    y = np.empty((70, 45), np.float32)
    transpose(cuda.Out(y), cuda.In(x), *map(np.int32, x.shape), grid=(5, 3), block=(16, 16, 1))
    assert (y == x.T).all()


def test_tiled_matrix_product():
    source = """
        template <int TILE>
        __device__ float dot(const float (&a)[TILE][TILE], const float (&b)[TILE][TILE], int row, int column) {
            float sum = 0;
            #pragma unroll
            for (int k = 0; k < TILE; k++) sum += a[row][k] * b[k][column];
            return sum;
        }
        template <int TILE>
        __device__ void product(float *c, const float *a, const float *b, int m, int n, int l) {
            __shared__ float as[TILE][TILE], bs[TILE][TILE];
            const int tx = threadIdx.x, ty = threadIdx.y, row = blockIdx.y * TILE + ty, column = blockIdx.x * TILE + tx;
            float sum = 0;
            for (int t = 0; t < (l + TILE - 1) / TILE; t++) {
                as[ty][tx] = row < m && t * TILE + tx < l ? a[row * l + t * TILE + tx] : 0;
                bs[ty][tx] = column < n && t * TILE + ty < l ? b[(t * TILE + ty) * n + column] : 0;
                __syncthreads();
                sum += dot<TILE>(as, bs, ty, tx);
                __syncthreads();
            }
            if (row < m && column < n) c[row * n + column] = sum;
        }
        extern "C" {
        __global__ void product8(float *c, const float *a, const float *b, int m, int n, int l) {
            product<8>(c, a, b, m, n, l);
        }
        __global__ void product16(float *c, const float *a, const float *b, int m, int n, int l) {
            product<16>(c, a, b, m, n, l);
        }
        }
    """
    module = SourceModule(source, no_extern_c=True)
    a, b = RNG.random((19, 37), np.float32), RNG.random((37, 23), np.float32)
    for tile in (8, 16):
        c = np.empty((19, 23), np.float32)
        module.get_function(f"product{tile}")(
            cuda.Out(c),
            cuda.In(a),
            cuda.In(b),
            np.int32(19),
            np.int32(23),
            np.int32(37),
            grid=(3, 3),
            block=(tile, tile, 1),
        )
        np.testing.assert_allclose(c, a @ b, rtol=1e-5)


def test_reduction_with_dynamic_shared_memory():
    reduce = kernel("""
        __global__ void reduce(const float *x, float *sums, int n) {
            extern __shared__ float sdata[];
            unsigned int tid = threadIdx.x, i = blockIdx.x * blockDim.x + tid;
            sdata[tid] = i < n ? x[i] : 0.0f;
            __syncthreads();
            for (unsigned int s = blockDim.x / 2; s > 0; s >>= 1) {
                if (tid < s) sdata[tid] += sdata[tid + s];
                __syncthreads();
            }
            if (tid == 0) sums[blockIdx.x] = sdata[0];
        }
    """, "reduce")
    x = RNG.random(5000, np.float32)
    for threads in (32, 128, 512):
        blocks = -(-x.size // threads)
        sums = np.empty(blocks, np.float32)
        reduce(
            cuda.In(x),
            cuda.Out(sums),
            np.int32(x.size),
            grid=(blocks, 1),
            block=(threads, 1, 1),
            shared=4 * threads,
        )
        assert np.isclose(sums.sum(), x.sum())


def test_several_arrays_in_one_dynamic_buffer():
    mix = kernel("""
        extern __shared__ __align__(16) unsigned char buffer[];
        __global__ void mix(double *out, int n) {
            double *d = reinterpret_cast<double *>(buffer);
            int *i = (int *)(d + n);
            float4 *v = (float4 *)(buffer + n * 16);
            int t = threadIdx.x;
            d[t] = t * 0.5; i[t] = 2 * t; v[t] = make_float4(t, t + 1, t + 2, t + 3);
            __syncthreads();
            int o = n - 1 - t;
            out[t] = d[o] + i[o] + v[o].x + v[o].w;
        }
    """, "mix")
    n = 64
    out = np.empty(n)
    mix(cuda.Out(out), np.int32(n), block=(n, 1, 1), shared=n * 32)
    o = n - 1 - np.arange(n)
    assert (out == 0.5 * o + 2 * o + o + o + 3).all()


def test_inclusive_scan():
    scan = kernel("""
        __global__ void scan(const int *x, int *y, int n) {
            extern __shared__ int temp[];
            int t = threadIdx.x, in = 0, out = 1;
            temp[t] = x[t];
            __syncthreads();
            for (int offset = 1; offset < n; offset *= 2) {
                temp[out * n + t] = temp[in * n + t] + (t >= offset ? temp[in * n + t - offset] : 0);
                __syncthreads();
                in = out; out = 1 - out;
            }
            y[t] = temp[in * n + t];
        }
    """, "scan")
    x = RNG.integers(-9, 9, 200, dtype=np.int32)
    y = np.empty_like(x)
    scan(cuda.In(x), cuda.Out(y), np.int32(x.size), block=(x.size, 1, 1), shared=8 * x.size)
    assert (y == np.cumsum(x)).all()


def test_histogram_with_shared_and_global_atomics():
    histogram = kernel("""
        __global__ void histogram(const unsigned char *x, unsigned int *bins, int n) {
            __shared__ unsigned int local[64];
            for (int i = threadIdx.x; i < 64; i += blockDim.x) local[i] = 0;
            __syncthreads();
            for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
                atomicAdd(&local[x[i] & 63], 1u);
            __syncthreads();
            for (int i = threadIdx.x; i < 64; i += blockDim.x) atomicAdd(bins + i, local[i]);
        }
    """, "histogram")
    x = RNG.integers(0, 256, 20_000, dtype=np.uint8)
    bins = np.zeros(64, np.uint32)
    histogram(cuda.In(x), cuda.InOut(bins), np.int32(x.size), grid=(7, 1), block=(96, 1, 1))
    assert (bins == np.bincount(x & 63, minlength=64)).all()


def test_constant_memory_of_several_kernels():
    module = SourceModule("""
        struct Filter { int radius; float weights[7]; };
        __constant__ Filter filter;
        __constant__ float offset;
        __global__ void smooth(const float *x, float *y, int n) {
            int i = blockIdx.x * blockDim.x + threadIdx.x;
            if (i >= n) return;
            float sum = 0;
            for (int k = -filter.radius; k <= filter.radius; k++)
                if (i + k >= 0 && i + k < n) sum += filter.weights[k + filter.radius] * x[i + k];
            y[i] = sum;
        }
        __global__ void shift(float *y, int n) {
            int i = blockIdx.x * blockDim.x + threadIdx.x;
            if (i < n) y[i] += offset * filter.radius;
        }
    """)
    filter_, size = module.get_global("filter")
    assert size == 32
    value = np.zeros(1, np.dtype([("radius", np.int32), ("weights", np.float32, 7)]))
    weights = RNG.random(5, np.float32)
    value["radius"], value["weights"][0, :5] = 2, weights
    cuda.memcpy_htod(filter_, value)
    cuda.memcpy_htod(module.get_global("offset")[0], np.float32(0.25))
    x = RNG.random(100, np.float32)
    d_x, d_y = cuda.to_device(x), cuda.mem_alloc(x.nbytes)
    module.get_function("smooth")(d_x, d_y, np.int32(x.size), grid=(4, 1), block=(32, 1, 1))
    module.get_function("shift")(d_y, np.int32(x.size), grid=(4, 1), block=(32, 1, 1))
    np.testing.assert_allclose(cuda.from_device_like(d_y, x), np.correlate(x, weights, "same") + 0.5, rtol=1e-5)


def test_structs_and_lambdas():
    apply = kernel("""
        struct Affine {
            float scale, shift;
            __device__ float operator()(float x) const { return scale * x + shift; }
        };
        template <typename F> __device__ void each(float *x, int n, F f) {
            for (int i = threadIdx.x; i < n; i += blockDim.x) x[i] = f(x[i]);
        }
        extern "C" __global__ void apply(float *x, int n, Affine g) {
            float bias = 1.0f;
            auto h = [=] __device__ (float v) { return g(v) + bias; };
            each(x, n, h);
        }
    """, "apply", no_extern_c=True, options=["--extended-lambda"])
    x = np.arange(50, dtype=np.float32)
    y = x.copy()
    affine = np.array([(2.0, 3.0)], np.dtype([("scale", np.float32), ("shift", np.float32)]))
    apply(cuda.InOut(y), np.int32(50), affine[0], block=(16, 1, 1))
    assert (y == 2 * x + 4).all()


def test_templates_are_found_by_their_mangled_names():
    module = SourceModule("""
        template <typename T, int N> __global__ void times(T *x) { x[threadIdx.x] *= N; }
        template __global__ void times<int, 3>(int *);
        template __global__ void times<float, 5>(float *);
    """, no_extern_c=True)
    for symbol, dtype, n in (("_Z5timesIiLi3EEvPT_", np.int32, 3), ("_Z5timesIfLi5EEvPT_", np.float32, 5)):
        x = np.arange(8, dtype=dtype)
        module.get_function(symbol)(cuda.InOut(x), block=(8, 1, 1))
        assert (x == n * np.arange(8)).all()


def test_overloads_and_namespaces_are_found_by_their_mangled_names():
    module = SourceModule("""
        __global__ void set(int *x) { x[0] = 1; }
        __global__ void set(float *x, int n) { x[0] = n; }
        namespace lab { namespace inner { __global__ void set(int *x) { x[0] = 3; } } }
    """, no_extern_c=True)
    x, y = np.zeros(1, np.int32), np.zeros(1, np.float32)
    module.get_function("_Z3setPi")(cuda.Out(x), block=(1, 1, 1))
    module.get_function("_Z3setPfi")(cuda.Out(y), np.int32(2), block=(1, 1, 1))
    assert (x[0], y[0]) == (1, 2)
    module.get_function("_ZN3lab5inner3setEPi")(cuda.Out(x), block=(1, 1, 1))
    assert x[0] == 3


def test_early_return_before_a_barrier():
    reverse = kernel("""
        __global__ void reverse(int *x, int n) {
            __shared__ int s[128];
            if (threadIdx.x >= n) return;
            s[threadIdx.x] = x[threadIdx.x];
            __syncthreads();
            x[threadIdx.x] = s[n - 1 - threadIdx.x];
        }
    """, "reverse")
    x = np.arange(128, dtype=np.int32)
    reverse(cuda.InOut(x), np.int32(100), block=(128, 1, 1))
    assert (x == [*range(99, -1, -1), *range(100, 128)]).all()


def test_barriers_that_count():
    vote = kernel("""
        __device__ int inside(int predicate) { return __syncthreads_count(predicate); }
        __global__ void vote(int *y) {
            int t = threadIdx.x;
            int count = inside(t % 3 == 0), all = __syncthreads_and(t < 50), any = __syncthreads_or(t == 49);
            y[t] = count * 100 + all * 10 + any;
        }
    """, "vote")
    y = np.zeros(50, np.int32)
    vote(cuda.Out(y), block=(50, 1, 1))
    assert (y == 1711).all()


def test_warp_shuffle_reduction():
    total = kernel("""
        __inline__ __device__ float warp_sum(float v) {
            for (int offset = warpSize / 2; offset > 0; offset /= 2) v += __shfl_down_sync(0xffffffff, v, offset);
            return v;
        }
        __global__ void total(const float *x, float *y, int n) {
            __shared__ float partial[32];
            float v = 0;
            for (int i = threadIdx.x; i < n; i += blockDim.x) v += x[i];
            v = warp_sum(v);
            int lane = threadIdx.x % warpSize, warp = threadIdx.x / warpSize;
            if (lane == 0) partial[warp] = v;
            __syncthreads();
            v = threadIdx.x < blockDim.x / warpSize ? partial[lane] : 0;
            if (warp == 0) v = warp_sum(v);
            if (threadIdx.x == 0) *y = v;
        }
    """, "total")
    x = RNG.random(3000, np.float32)
    y = np.zeros(1, np.float32)
    total(cuda.In(x), cuda.Out(y), np.int32(x.size), block=(256, 1, 1))
    assert np.isclose(y[0], x.sum())


def test_warp_votes():
    votes = kernel("""
        __global__ void votes(unsigned *y) {
            const unsigned full = 0xffffffffu, t = threadIdx.x, even = __ballot_sync(full, t % 2 == 0);
            y[t] = __any_sync(full, t == 7) + 2 * __all_sync(full, t < 32) + 4 * __popc(even & ((1u << t) - 1));
        }
    """, "votes")
    y = np.zeros(32, np.uint32)
    votes(cuda.Out(y), block=(32, 1, 1))
    assert (y == 3 + 4 * ((np.arange(32) + 1) // 2)).all()


def test_a_block_that_signals_the_next():
    """The last block to finish adds up what the others left, as CUDA's threadFenceReduction sample does."""
    total = kernel("""
        __device__ unsigned int finished = 0;
        __global__ void total(const int *x, volatile int *partial, int *y) {
            __shared__ bool last;
            atomicAdd((int *)&partial[blockIdx.x], x[blockIdx.x * blockDim.x + threadIdx.x]);
            __threadfence();
            __syncthreads();
            if (threadIdx.x == 0) last = atomicInc(&finished, gridDim.x) == gridDim.x - 1;
            __syncthreads();
            if (last && threadIdx.x == 0) {
                int sum = 0;
                for (int b = 0; b < gridDim.x; b++) sum += partial[b];
                *y = sum;
                finished = 0;
            }
        }
    """, "total")
    x = RNG.integers(0, 100, 20 * 64, dtype=np.int32)
    d_x, d_y = cuda.to_device(x), cuda.mem_alloc(4)
    for _ in range(5):
        total(d_x, cuda.In(np.zeros(20, np.int32)), d_y, grid=(20, 1), block=(64, 1, 1))
        assert cuda.from_device(d_y, 1, np.int32)[0] == x.sum()


def test_streams_overlap_and_keep_their_order():
    """Chunks on two streams: copy in, compute, copy out, each stream in its own order."""
    square = kernel(
        "__global__ void square(float *x) { int i = blockIdx.x * blockDim.x + threadIdx.x; x[i] *= x[i]; }",
        "square",
    )
    chunks, n = 6, 1024
    x = cuda.pagelocked_empty((chunks, n), np.float32)
    x[:] = RNG.random((chunks, n))
    y = cuda.pagelocked_zeros((chunks, n), np.float32)
    streams, buffers = [cuda.Stream() for _ in range(2)], [cuda.mem_alloc(4 * n) for _ in range(2)]
    for c in range(chunks):
        s, d = streams[c % 2], buffers[c % 2]
        cuda.memcpy_htod_async(d, x[c], s)
        square(d, grid=(n // 128, 1), block=(128, 1, 1), stream=s)
        cuda.memcpy_dtoh_async(y[c], d, s)
    for s in streams:
        s.synchronize()
    assert (y == x * x).all()


@pytest.mark.usefixtures("cpu_engine", "no_collection")  # CUDA does not promise it, and a GPU would hang
def test_two_kernels_that_wait_for_each_other():
    """Independent streams run side by side: each of these kernels ends only if the other one runs."""
    meet = kernel("""
        __global__ void meet(volatile int *flags, int me) {
            flags[me] = 1;
            __threadfence();
            while (flags[1 - me] == 0) { }
            flags[2 + me] = 1;
        }
    """, "meet")
    flags = cuda.to_device(np.zeros(4, np.int32))
    for me in range(2):
        meet(flags, np.int32(me), block=(1, 1, 1), stream=cuda.Stream())
    cuda.Context.synchronize()
    assert cuda.from_device(flags, 4, np.int32).tolist() == [1, 1, 1, 1]


def test_events_order_streams():
    step = kernel("__global__ void step(int *x, int n) { for (int i = 0; i < n; i++) *x = *x * 3 + i; }", "step")
    x = cuda.to_device(np.ones(1, np.int32))
    first, second = cuda.Stream(), cuda.Stream()
    start, end = cuda.Event(), cuda.Event()
    start.record(first)
    expected = 1
    for n in range(1, 9):
        step(x, np.int32(n), block=(1, 1, 1), stream=first)
        second.wait_for_event(cuda.Event().record(first))
        first, second = second, first
        for i in range(n):
            expected = (expected * 3 + i + 2**31) % 2**32 - 2**31
    end.record(first)
    end.synchronize()
    assert start.query() and end.query() and end.time_since(start) >= 0
    assert cuda.from_device(x, 1, np.int32)[0] == expected


@pytest.mark.usefixtures("cpu_engine")  # a GPU prints to the standard output of C, not of Python
def test_printf(capsys):
    hello = kernel(r"""
        #include <stdio.h>
        __global__ void hello(float x) {
            if (threadIdx.x == 1) printf("block %d: %.2f %s %c %5u%%\n", blockIdx.x, x, "text", 'c', 42u);
        }
    """, "hello")
    hello(np.float32(1.5), grid=(2, 1), block=(2, 1, 1))
    cuda.Context.synchronize()
    lines = sorted(capsys.readouterr().out.splitlines())
    assert lines == ["block 0: 1.50 text c    42%", "block 1: 1.50 text c    42%"]
