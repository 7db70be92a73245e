// Right programs of C++ after 2017: groups, votes, barriers in memory, pipelines, scopes, textures, local arrays, threads of the
// host. Nothing is found.
#include <cstdio>
#include <algorithm>
#include <chrono>
#include <thread>
#include <vector>
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
#include <cuda/atomic>
#include <cuda/barrier>
#include <cuda/pipeline>
#include <cuda_fp16.h>
#include <cuda_pipeline.h>
namespace cg = cooperative_groups;
struct Best { float v; int i; };
struct alignas(16) Q { float x, y, z; };
struct Node { double v; char k; };
__global__ void argmax(const float *x, Best *y) {
    __shared__ Best s[64];
    int t = threadIdx.x;
    s[t].v = x[t];
    s[t].i = t;
    __syncthreads();
    for (int d = 32; d; d /= 2) {
        if (t < d && s[t + d].v > s[t].v) s[t] = s[t + d];
        __syncthreads();
    }
    if (!t) *y = s[0];
}
__global__ void warp_argmax(const float *x, Best *y) {
    auto w = cg::tiled_partition<32>(cg::this_thread_block());
    Best b{x[threadIdx.x], (int)threadIdx.x};
    for (int d = 16; d; d /= 2) {
        Best o = w.shfl_down(b, d);
        if (o.v > b.v) b = o;
    }
    if (w.thread_rank() == 0) y[w.meta_group_rank()] = b;
}
__global__ void vote_then_sync(const int *x, int *y) {
    __shared__ int s[32];
    int t = threadIdx.x;
    s[t] = x[t];
    unsigned b = __ballot_sync(~0u, x[t] > 3);
    __syncwarp();
    y[t] = s[31 - t] + __popc(b);
}
__global__ void early_out(const int *x, int *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned m = __ballot_sync(__activemask(), x[i] > 0);
    y[i] = __popc(m);
}
__global__ void aggregate(const int *x, int *n, int *y) {
    if (x[threadIdx.x] >= 0) {
        auto g = cg::coalesced_threads();
        int at = 0;
        if (g.thread_rank() == 0) at = atomicAdd(n, (int)g.size());
        at = g.shfl(at, 0);
        y[at + g.thread_rank()] = x[threadIdx.x];
    }
}
__global__ void bar2(const float *x, float *y) {
    __shared__ cuda::barrier<cuda::thread_scope_block> b;
    __shared__ float s[64];
    if (threadIdx.x == 0) init(&b, 64);
    __syncthreads();
    for (int r = 0; r < 3; r++) {
        s[threadIdx.x] = x[threadIdx.x] + r;
        auto t = b.arrive();
        b.wait(std::move(t));
        y[threadIdx.x] = s[63 - threadIdx.x];
        b.arrive_and_wait();
    }
}
__global__ void reinit(const float *x, float *y) {
    __shared__ cuda::barrier<cuda::thread_scope_block> b;
    for (int r = 0; r < 2; r++) {
        if (threadIdx.x == 0) init(&b, blockDim.x);
        __syncthreads();
        b.arrive_and_wait();
        y[threadIdx.x] = x[threadIdx.x];
        __syncthreads();
    }
}
__global__ void pipe2(const float *x, float *y) {
    __shared__ float s[2][64];
    auto p = cuda::make_pipeline();
    int t = threadIdx.x;
    p.producer_acquire();
    cuda::memcpy_async(&s[0][t], x + t, 4, p);
    p.producer_commit();
    float v = 0;
    for (int q = 0; q < 4; q++) {
        if (q < 3) {
            p.producer_acquire();
            cuda::memcpy_async(&s[(q + 1) % 2][t], x + (q + 1) * 64 + t, 4, p);
            p.producer_commit();
        }
        else {
            p.producer_acquire();
            p.producer_commit();
        }
        cuda::pipeline_consumer_wait_prior<1>(p);
        __syncthreads();
        v += s[q % 2][63 - t];
        __syncthreads();
        p.consumer_release();
    }
    y[t] = v;
}
__global__ void pipe_shared(const float *x, float *y) {
    __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> st;
    __shared__ float s[2][64];
    auto g = cg::this_thread_block();
    auto p = cuda::make_pipeline(g, &st);
    float v = 0;
    for (int q = 0; q < 2; q++) {
        p.producer_acquire();
        cuda::memcpy_async(g, s[q], x + q * 64, 256, p);
        p.producer_commit();
    }
    for (int q = 0; q < 2; q++) {
        p.consumer_wait();
        v += s[q][63 - threadIdx.x];
        p.consumer_release();
    }
    y[threadIdx.x] = v;
}
__global__ void prim(const float4 *x, float4 *y) {
    __shared__ float4 s[2][32];
    int t = threadIdx.x;
    for (int q = 0; q < 2; q++) {
        __pipeline_memcpy_async(&s[q][t], x + q * 32 + t, 16);
        __pipeline_commit();
    }
    __pipeline_wait_prior(1);
    __syncwarp();
    float4 a = s[0][31 - t];
    __pipeline_wait_prior(0);
    __syncwarp();
    s[1][t].x += a.x;
    __syncwarp();
    y[t] = s[1][31 - t];
}
__global__ void block_atomics(const int *x, int *y) {
    __shared__ int h[8];
    if (threadIdx.x < 8) h[threadIdx.x] = 0;
    __syncthreads();
    atomicAdd_block(&h[x[threadIdx.x] & 7], 1);
    __syncthreads();
    if (threadIdx.x < 8) atomicAdd(&y[threadIdx.x], h[threadIdx.x]);
}
__global__ void block_atomics_own(int *y) {
    atomicAdd_block(&y[blockIdx.x], 1);
    cuda::atomic_ref<int, cuda::thread_scope_block> r(y[blockIdx.x + 8]);
    r.fetch_add(2);
}
__global__ void local_mix(const float *x, float *y, int n) {
    float a[4], b[4];
    for (int i = 0; i < 4; i++) a[i] = 0;
    for (int i = 0; i < 4; i++) b[i] = x[i];
    for (int i = 0; i < n; i++) {
        a[i & 3] += x[i];
        b[i & 3] = fmaxf(b[i & 3], x[i]);
    }
    y[threadIdx.x] = a[threadIdx.x & 3] + b[threadIdx.x & 3];
}
__global__ void topk(const float *x, float *y, int n) {
    float best[4];
    int have = 0;
    for (int i = 0; i < n; i++) {
        float v = x[i];
        int p = have < 4 ? have++ : 3;
        if (p == 3 && have == 4 && i >= 4 && v <= best[3]) continue;
        best[p] = v;
        for (; p > 0 && best[p] > best[p - 1]; p--) {
            float t = best[p];
            best[p] = best[p - 1];
            best[p - 1] = t;
        }
    }
    y[threadIdx.x] = best[threadIdx.x & 3];
}
__global__ void halves(const half2 *x, half *y) {
    __shared__ half s[64];
    *(half2 *)&s[2 * threadIdx.x] = x[threadIdx.x];
    __syncwarp();
    y[threadIdx.x] = __hadd(s[threadIdx.x], s[63 - threadIdx.x]);
}
__global__ void structs(Q *q, Node *n) {
    __shared__ Q s[32];
    __shared__ Node m[32];
    int t = threadIdx.x;
    s[t].x = 1;
    s[t].y = 2;
    s[t].z = 3;
    m[t].v = 1;
    m[t].k = 2;
    __syncthreads();
    q[t] = s[31 - t];
    n[t] = m[31 - t];
}
__global__ void last(const float *x, float *part, unsigned *n, float *y) {
    __shared__ bool is;
    auto w = cg::tiled_partition<32>(cg::this_thread_block());
    float s = cg::reduce(w, x[blockIdx.x * 32 + threadIdx.x], cg::plus<float>());
    if (threadIdx.x == 0) {
        part[blockIdx.x] = s;
        cuda::atomic_ref<unsigned, cuda::thread_scope_device> r(*n);
        is = r.fetch_add(1, cuda::memory_order_acq_rel) == gridDim.x - 1;
    }
    __syncthreads();
    if (is && threadIdx.x == 0) {
        float v = 0;
        for (int i = 0; i < gridDim.x; i++) v += ((volatile float *)part)[i];
        *y = v;
    }
}
__global__ void scan32(const int *x, int *y) {
    auto w = cg::tiled_partition<32>(cg::this_thread_block());
    y[threadIdx.x] = cg::exclusive_scan(w, x[threadIdx.x]);
}
__global__ void tex(cudaTextureObject_t t, float *y) {
    y[threadIdx.x] = tex2D<float>(t, threadIdx.x + 0.5f, 0.5f);
}
__global__ void paint(cudaSurfaceObject_t s) {
    surf2Dwrite(float(threadIdx.x), s, threadIdx.x * 4, 0);
}
__global__ void match(const int *x, int *y) {
    unsigned m = __match_any_sync(~0u, x[threadIdx.x] & 3);
    int leader = __ffs(m) - 1;
    y[threadIdx.x] = __shfl_sync(m, x[threadIdx.x], leader);
}
__global__ void two_warps(const int *x, int *y) {
    __shared__ int s[64];
    s[threadIdx.x] = x[threadIdx.x];
    __syncwarp();
    int v = __reduce_add_sync(~0u, s[threadIdx.x ^ 1]);
    __syncthreads();
    y[threadIdx.x] = v + s[63 - threadIdx.x];
}
__global__ void wait_for_the_host(volatile int *flag, int *y) {
    while (!*flag) {}
    y[threadIdx.x] = *flag;
}
int main() {
    std::vector<float> h(512);
    for (int i = 0; i < 512; i++) h[i] = i % 7;
    std::vector<int> hi(512);
    for (int i = 0; i < 512; i++) hi[i] = i % 7;
    float *x, *y;
    int *xi, *yi;
    void *p;
    unsigned *n;
    cudaMalloc(&x, 2048);
    cudaMalloc(&y, 4096);
    cudaMalloc(&xi, 2048);
    cudaMalloc(&yi, 4096);
    cudaMalloc(&p, 4096);
    cudaMalloc(&n, 64);
    cudaMemset(n, 0, 64);
    cudaMemset(yi, 0, 4096);
    cudaMemcpy(x, h.data(), 2048, cudaMemcpyHostToDevice);
    cudaMemcpy(xi, hi.data(), 2048, cudaMemcpyHostToDevice);
    argmax<<<1, 64>>>(x, (Best *)y);
    warp_argmax<<<1, 64>>>(x, (Best *)y);
    vote_then_sync<<<1, 32>>>(xi, yi);
    early_out<<<2, 64>>>(xi, yi, 100);
    aggregate<<<1, 64>>>(xi, (int *)n, yi);
    bar2<<<1, 64>>>(x, y);
    reinit<<<1, 64>>>(x, y);
    pipe2<<<1, 64>>>(x, y);
    pipe_shared<<<1, 64>>>(x, y);
    prim<<<1, 32>>>((float4 *)x, (float4 *)y);
    block_atomics<<<2, 64>>>(xi, yi);
    block_atomics_own<<<4, 64>>>(yi);
    local_mix<<<1, 32>>>(x, y, 100);
    topk<<<1, 32>>>(x, y, 100);
    halves<<<1, 32>>>((half2 *)x, (half *)y);
    structs<<<1, 32>>>((Q *)y, (Node *)p);
    cudaMemset(n, 0, 64);
    last<<<4, 32>>>(x, y, n, y + 100);
    scan32<<<1, 64>>>(xi, yi);
    match<<<1, 32>>>(xi, yi);
    two_warps<<<1, 64>>>(xi, yi);
    volatile int *flag;
    cudaHostAlloc((void **)&flag, 4, cudaHostAllocMapped);
    *flag = 0;
    std::thread other([&] {  // its accesses are not the kernel's, which runs meanwhile
        std::this_thread::sleep_for(std::chrono::milliseconds(200));
        Best copied[4] = {}, more[4];
        std::copy(copied, copied + 4, more);
        *flag = 1 + more[3].i;
    });
    wait_for_the_host<<<1, 32>>>(flag, yi);
    other.join();
    cudaArray_t a;
    auto f = cudaCreateChannelDesc<float>();
    cudaMallocArray(&a, &f, 32, 1, cudaArraySurfaceLoadStore);
    cudaResourceDesc r = {};
    r.resType = cudaResourceTypeArray;
    r.res.array.array = a;
    cudaSurfaceObject_t s;
    cudaCreateSurfaceObject(&s, &r);
    cudaTextureDesc td = {};
    cudaTextureObject_t t;
    cudaCreateTextureObject(&t, &r, &td, 0);
    paint<<<1, 32>>>(s);
    tex<<<1, 32>>>(t, y);
    std::vector<float> out(64);
    cudaMemcpy(out.data(), y, 256, cudaMemcpyDeviceToHost);
    printf("%d %g\n", cudaDeviceSynchronize(), out[31]);
}
