// What programs of today use beside the common functions: PTX that exchanges, votes, updates and carries; a broadcast of what one
// lane has; a launch with a configuration and addresses of arguments. The argument chooses a mistake.
#include <cstdio>
#include <cstring>
#include <cooperative_groups.h>
#include <cuda/cmath>
#include <cuda/latch>
#include <cuda/ptx>
#include <cuda/semaphore>
namespace cg = cooperative_groups;
namespace ptx = cuda::ptx;

__global__ void instructions(unsigned *out, unsigned *sums, float *total) {
  unsigned t = threadIdx.x, x, all, low, high, old;
  asm volatile("shfl.sync.bfly.b32 %0, %1, 3, 0x1f, 0xffffffff;" : "=r"(x) : "r"(t));
  out[t] = x;
  asm volatile("shfl.sync.up.b32 %0, %1, %2, 0x1000, 0xffffffff;" : "=r"(x) : "r"(t), "r"(1));  // of 16 lanes
  out[t] += 100 * x;
  asm volatile("{ .reg .pred q; setp.gt.u32 q, %1, 29; vote.sync.ballot.b32 %0, q, 0xffffffff; }" : "=r"(all) : "r"(t));
  asm volatile("{ .reg .pred p, q; setp.gt.u32 p, %1, 29; vote.sync.any.pred q, p, 0xffffffff; selp.u32 %0, 1, 0, q; }"
               : "=r"(x) : "r"(t));
  asm("{ add.cc.u32 %0, %2, %3; addc.u32 %1, %4, %5; }" : "=r"(low), "=r"(high) : "r"(~0u), "r"(t), "r"(1u), "r"(2u));
  asm volatile("red.global.add.u32 [%0], %1;" ::"l"(sums), "r"(low + 1) : "memory");
  asm volatile("atom.global.max.u32 %0, [%1], %2;" : "=r"(old) : "l"(sums + 1), "r"(high) : "memory");
  asm("{ sub.cc.u32 %0, %2, %3; subc.u32 %1, %4, 0; }" : "=r"(low), "=r"(high) : "r"(t), "r"(1u), "r"(9u));
  asm volatile("red.relaxed.gpu.global.add.f32 [%0], %1;" ::"l"(total), "f"((float)high) : "memory");
  if (t == 0) sums[2] = all, sums[3] = x;
}
__global__ void positions(unsigned *count, unsigned *out) {
  auto group = cg::coalesced_threads();
  unsigned first;
  if (group.thread_rank() == 0) first = atomicAdd(count, group.size());
  first = group.shfl(first, 0);
  out[first + group.thread_rank()] = 1;
}
__device__ cuda::binary_semaphore<cuda::thread_scope_device> free_to_add{1};
__global__ void waits(unsigned *out, unsigned *sum) {
  __shared__ cuda::latch<cuda::thread_scope_block> made;
  __shared__ unsigned s[32];
  if (threadIdx.x == 0) init(&made, 32);
  __syncthreads();
  s[threadIdx.x] = threadIdx.x;
  made.count_down();
  if (threadIdx.x < 16) {
    made.wait();
    out[threadIdx.x] = s[31 - threadIdx.x];
  }
  if (threadIdx.x) return;
  free_to_add.acquire();
  *sum = *sum + 1;
  free_to_add.release();
}
__global__ void __cluster_dims__(2, 1, 1) arrives(unsigned *out) {
  __shared__ unsigned s[32];
  __shared__ uint64_t bar;
  auto cluster = cg::this_cluster();
  if (threadIdx.x == 0) ptx::mbarrier_init(&bar, 32);
  cluster.sync();
  if (cluster.block_rank()) {
    *cluster.map_shared_rank(&s[threadIdx.x], 0) = threadIdx.x;
    unsigned mine = (unsigned)__cvta_generic_to_shared(&bar), its;
    asm volatile("mapa.shared::cluster.u32 %0, %1, 0;" : "=r"(its) : "r"(mine));
    asm volatile("mbarrier.arrive." ORDER ".cluster.shared::cluster.b64 _, [%0];" ::"r"(its) : "memory");
  } else {
    while (!ptx::mbarrier_try_wait_parity(&bar, 0)) ;
    out[threadIdx.x] = s[31 - threadIdx.x];  // relaxed
  }
  cluster.sync();
}

int main(int count, char **words) {
  unsigned *out, *sums, results[4], h[32];
  float *total, sum;
  cudaMalloc(&out, 128);
  cudaMalloc(&sums, 16);
  cudaMemset(sums, 0, 16);
  cudaMalloc(&total, 4);
  cudaMemset(total, 0, 4);
  void *arguments[] = {&out, &sums, &total};
  cudaLaunchConfig_t config = {};
  config.gridDim = 1;
  config.blockDim = 32;
  if (cudaLaunchKernelExC(&config, (const void *)instructions, arguments)) return 1;
  cudaMemcpy(h, out, 128, cudaMemcpyDeviceToHost);
  cudaMemcpy(results, sums, 16, cudaMemcpyDeviceToHost);
  cudaMemcpy(&sum, total, 4, cudaMemcpyDeviceToHost);
  for (unsigned t = 0; t < 32; t++)
    if (h[t] != (t ^ 3) + 100 * (t % 16 ? t - 1 : t)) return 2;
  if (results[0] != 31 * 32 / 2 || results[1] != 4 || results[2] != 0xc0000000 || results[3] != 1) return 3;
  if (sum != 31 * 9 + 8) return 4;
  cudaMemset(sums, 0, 4);
  positions<<<1, 32>>>(sums, out);
  arrives<<<2, 32>>>(out);
  cudaMemset(sums, 0, 4);
  waits<<<cuda::ceil_div(cuda::round_up(90u, 4), 32u), 32>>>(out, sums);
  cudaMemcpy(h, out, 64, cudaMemcpyDeviceToHost);
  cudaMemcpy(results, sums, 4, cudaMemcpyDeviceToHost);
  if (h[15] != 16 || results[0] != 3) return 5;
  int *x;
  cudaStream_t s;
  cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking);
  cudaMallocAsync(&x, 128, s);
  cudaMemsetAsync(x, 0, 128, s);
  if (count == 1) cudaStreamSynchronize(s);
  cudaFree(x);  // early
  return cudaDeviceSynchronize();
}
