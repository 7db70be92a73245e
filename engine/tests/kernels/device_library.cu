// Math, vectors, atomics, warp functions, groups and complex numbers; see test_device_library.py.
#include <math_constants.h>
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cuComplex.h>
namespace cg = cooperative_groups;

extern "C" __global__ void special(float *f, double *d, long long *l) {
    float s, c;
    sincosf(1.0f, f + 0, f + 1);
    __sincosf(1.0f, f + 2, f + 3);
    sincospif(0.5f, f + 4, f + 5);
    sincos(1.0f, &s, &c); f[6] = s; f[7] = c;
    f[8] = sinpif(3.0f); f[9] = cospif(1.5f); f[10] = sinpif(CUDART_INF_F);
    f[11] = max(CUDART_NAN_F, 2.0f); f[12] = min(2.0f, CUDART_NAN_F); f[13] = fmaxf(CUDART_NAN_F, 3.0f);
    f[14] = __saturatef(CUDART_NAN_F);
    f[15] = normcdfinvf(0.0f); f[16] = erfcinvf(2.0f); f[17] = erfinvf(1.0f);
    float v[3] = {2.0f, 3.0f, 6.0f};
    f[18] = normf(3, v); f[19] = rnormf(3, v);
    f[20] = CUDART_PI_F; f[21] = norm3df(3e30f, 4e30f, 0.0f);
    d[0] = max(1.5f, 2.5); d[1] = min(1.5, 2.5f); d[2] = CUDART_PI; d[3] = CUDART_INF;
    double ds, dc; sincospi(0.25, &ds, &dc); d[4] = ds; d[5] = dc;
    unsigned int u = 3000000000u; size_t big = 1ull << 40, small = 7;
    l[0] = max(u, 5); l[1] = min(-1, 5); l[2] = max(-1, u); l[3] = min(big, small);
    l[4] = max(1ll << 50, -3ll); l[5] = abs(-7); l[6] = llmax(3, -4); l[7] = umin(3u, 4u); l[8] = abs(-7ll);
    l[9] = isnan(CUDART_NAN_F) + 2 * isinf(CUDART_INF_F) + 4 * isfinite(1.0f) + 8 * signbit(-0.0f);
}

extern "C" __global__ void move(const float *x, float *y, const double2 *d, double2 *e, const int *i, int *j)
{
    __shared__ float4 tile[2][32];
    int t = threadIdx.x;
    tile[t % 2][t] = reinterpret_cast<const float4 *>(x)[t];
    __syncthreads();
    float4 v = tile[(31 - t) % 2][31 - t];
    v.w += 1.0f;
    reinterpret_cast<float4 *>(y)[31 - t] = v;
    __stcs(&e[t], __ldg(&d[t]));
    __stcg(j + t, __ldcg(i + t) + __ldca(i + t) + __ldcs(i + t));
}

extern "C" __global__ void ranks(int *counter, int *y)
{
    y[atomicAdd(counter, 1)] = blockIdx.x * blockDim.x + threadIdx.x;
}
extern "C" __global__ void wrap(unsigned *up, unsigned *down) { atomicInc(up, 6u); atomicDec(down, 6u); }
extern "C" __global__ void chain(float *cell, float *got)
{
    got[threadIdx.x] = atomicExch(cell, (float)threadIdx.x);
}
__device__ float atomicMaxFloat(float *address, float value)   // the usual loop around atomicCAS
{
    int *bits = (int *)address, old = *bits, assumed;
    do {
        assumed = old;
        old = atomicCAS(bits, assumed, __float_as_int(fmaxf(value, __int_as_float(assumed))));
    } while (assumed != old);
    return __int_as_float(old);
}
extern "C" __global__ void largest(const float *x, float *y)
{
    atomicMaxFloat(y, x[blockIdx.x * blockDim.x + threadIdx.x]);
}
extern "C" __global__ void shorts(unsigned short *y)
{
    unsigned short seen;
    do seen = *(volatile unsigned short *)y;
    while (atomicCAS(y, seen, (unsigned short)(seen + 1)) != seen);
}
extern "C" __global__ void pile(float *f, double *d, int *i)    // long enough for blocks to get in each other's way
{
    for (int n = 0; n < 400; n++) {
        atomicAdd(f, 1.0f);
        atomicAdd(d, 1.0);
        atomicMax(i + 1, atomicAdd(i, 1));
    }
}
extern "C" __global__ void vectors(float2 *a, float4 *b)
{
    atomicAdd(a, make_float2(1, 2));
    atomicAdd(b, make_float4(1, 2, 3, 4));
}

extern "C" __global__ void votes(const int *x, const unsigned long long *z, unsigned *y)
{
    int t = threadIdx.x, v = x[t], all;
    unsigned full = 0xffffffffu;
    y += 16 * t;
    y[0] = __ballot_sync(full, v & 1);
    y[1] = __any_sync(full, v == 7);
    y[2] = __all_sync(full, v < 1000);
    y[3] = __match_any_sync(full, v % 4);
    y[4] = __match_any_sync(full, z[t]);
    y[5] = __match_all_sync(full, v % 4, &all); y[6] = all;
    y[7] = __match_all_sync(full, 2.5f, &all); y[8] = all;
    y[9] = __reduce_add_sync(full, v);
    y[10] = __reduce_min_sync(full, -v);
    y[11] = __reduce_max_sync(full, (unsigned)v);
    y[12] = __reduce_and_sync(full, (unsigned)v | 64);
    y[13] = __reduce_or_sync(full, (unsigned)v);
    y[14] = __reduce_xor_sync(full, (unsigned)v);
    y[15] = __activemask();
}

__inline__ __device__ int warpReduceSum(int v)
{
    for (int offset = warpSize / 2; offset > 0; offset /= 2) v += __shfl_down_sync(0xffffffff, v, offset);
    return v;
}
extern "C" __global__ void halves(int *y)      // each half of the warp does its own
{
    int t = threadIdx.x;
    if (t < 16) y[t] = __reduce_add_sync(0x0000ffffu, t) + (__ballot_sync(0x0000ffffu, t % 3 == 0) << 8);
    else {
        int v = __shfl_xor_sync(0xffff0000u, t, 1);
        y[t] = __activemask() == 0xffff0000u ? v : -1;
    }
}
extern "C" __global__ void evens(int *y)
{
    int t = threadIdx.x;
    if (t % 2 == 0) y[t] = __shfl_sync(0x55555555u, 10 * t, (t + 2) % 32);
    else y[t] = -1;
}
extern "C" __global__ void ragged(int *y)      // 40 threads: the second warp has 8 lanes
{
    int t = threadIdx.x, sum = warpReduceSum(t < 32 ? t : 0);
    unsigned active = __activemask();
    y[t] = t < 32 ? (t == 0 ? sum : 0) : (int)active + __shfl_sync(active, t, 7);
}

extern "C" __global__ void watch(long long *y)
{
    clock_t c = clock();
    long long t = clock64();
    float x = 1;
    for (int i = 0; i < 1000; i++) x = x * 1.0001f + 0.1f;
    y[2] = x > 0;
    y[0] = clock64() - t;
    y[1] = clock() - c;
}

template <int size> __device__ int tile_sum(cg::thread_block_tile<size> tile, int v)
{
    for (int i = tile.size() / 2; i > 0; i /= 2) v += tile.shfl_down(v, i);
    return tile.shfl(v, 0);
}

extern "C" __global__ void groups(int *y)
{
    cg::thread_block block = cg::this_thread_block();
    __shared__ int s[128];
    int t = block.thread_rank();
    s[t] = t;
    block.sync();
    int v = s[127 - t];
    cg::sync(block);
    auto warp = cg::tiled_partition<32>(block);
    auto eight = cg::tiled_partition<8>(warp);
    y += 12 * t;
    y[0] = v;
    y[1] = tile_sum<8>(cg::tiled_partition<8>(block), t);
    y[2] = cg::reduce(warp, t, cg::plus<int>());
    y[3] = cg::reduce(eight, t % 5, cg::greater<int>());
    y[4] = eight.ballot(t % 3 == 0);
    y[5] = eight.shfl_xor(t, 3);
    y[6] = eight.any(t == 17) + 2 * eight.all(t < 64);
    y[7] = eight.thread_rank() + 100 * eight.meta_group_rank() + 1000 * eight.meta_group_size()
        + 10000 * warp.meta_group_rank() + 100000 * warp.meta_group_size();
    y[8] = -1;
    if (t % 4 == 1) {
        cg::coalesced_group odd = cg::coalesced_threads();
        y[8] = odd.thread_rank() + 100 * odd.size() + 1000 * odd.shfl(t, 1);
        odd.sync();
    }
    y[9] = warp.shfl_up(t, 2);
    y[10] = block.size() + block.group_index().x + block.thread_index().y;
    y[11] = __popc(eight.match_any(t % 4));
}

extern "C" __global__ void mandelbrot(int *count, int n)    // the textbooks' first picture
{
    int i = threadIdx.x, j = blockIdx.x;
    cuFloatComplex c = make_cuFloatComplex(-2.0f + 3.0f * i / n, -1.5f + 3.0f * j / n), z = c;
    int steps = 0;
    while (steps < 50 && cuCabsf(z) <= 2.0f) { z = cuCaddf(cuCmulf(z, z), c); steps++; }
    count[j * n + i] = steps;
}
extern "C" __global__ void ratio(const cuDoubleComplex *a, const cuDoubleComplex *b, cuDoubleComplex *y)
{
    int i = threadIdx.x;
    y[i] = cuCsub(cuCdiv(a[i], b[i]), cuConj(make_cuDoubleComplex(cuCreal(a[i]), cuCimag(b[i]))));
}
