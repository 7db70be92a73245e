// The functions of <cuda/barrier> and <cuda/ptx> for boxes of tensors and for clusters: a box of a matrix goes to shared memory,
// is changed there and is written to two places; and blocks of clusters of two by two pass a number on.
#include <cstdio>
#include <cuda.h>
#include <cuda/barrier>
#include <cuda/ptx>
#include <cuda_runtime.h>

namespace ptx = cuda::ptx;
namespace device = cuda::device::experimental;
using Barrier = cuda::barrier<cuda::thread_scope_block>;

const int N = 32, ROWS = 8, COLUMNS = 16;

__global__ void increase_box(const __grid_constant__ CUtensorMap in, const __grid_constant__ CUtensorMap out)
{
    __shared__ alignas(128) int box[ROWS][COLUMNS];
    __shared__ Barrier barrier;
    if (threadIdx.x == 0) {
        init(&barrier, blockDim.x);
        device::fence_proxy_async_shared_cta();
    }
    __syncthreads();
    Barrier::arrival_token token;
    if (threadIdx.x == 0) {
        device::cp_async_bulk_tensor_2d_global_to_shared(box, &in, 16, 8, barrier);
        token = cuda::device::barrier_arrive_tx(barrier, 1, sizeof box);
    } else {
        token = barrier.arrive();
    }
    barrier.wait(std::move(token));
    for (int i = threadIdx.x; i < ROWS * COLUMNS; i += blockDim.x)
        box[i / COLUMNS][i % COLUMNS] += 1;
    device::fence_proxy_async_shared_cta();
    __syncthreads();
    if (threadIdx.x == 0) {
        const int at[2] = {0, 0};
        device::cp_async_bulk_tensor_2d_shared_to_global(&out, 16, 8, box);
        ptx::cp_async_bulk_tensor(ptx::space_global, ptx::space_shared, &out, at, box);
        device::cp_async_bulk_commit_group();
        device::cp_async_bulk_wait_group_read<0>();
    }
}

__global__ void __cluster_dims__(2, 2, 1) pass_on(int *y)
{
    __shared__ int number;
    __shared__ uint64_t barrier;
    const unsigned rank = ptx::get_sreg_cluster_ctarank(), next = (rank + 1) % 4;
    if (threadIdx.x == 0) {
        ptx::mbarrier_init(&barrier, 1);
        ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster);
        ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &barrier, sizeof number);
    }
    ptx::barrier_cluster_arrive(ptx::sem_relaxed);
    ptx::barrier_cluster_wait();
    if (threadIdx.x == 0)
        ptx::st_async(ptx::mapa(ptx::space_cluster, &number, next), (int)(rank * 10 + blockIdx.x + 100 * blockIdx.y),
                      ptx::mapa(ptx::space_cluster, &barrier, next));
    while (!ptx::mbarrier_try_wait_parity(&barrier, 0));
    y[(blockIdx.y * gridDim.x + blockIdx.x) * 32 + threadIdx.x] = number;
    ptx::barrier_cluster_arrive();
    ptx::barrier_cluster_wait();
}

CUtensorMap encode(int *matrix)
{
    CUtensorMap map;
    cuuint64_t shape[] = {N, N}, pitch[] = {N * sizeof(int)};
    cuuint32_t box[] = {COLUMNS, ROWS}, steps[] = {1, 1};
    void *function;
    cudaDriverEntryPointQueryResult found;
    cudaGetDriverEntryPoint("cuTensorMapEncodeTiled", &function, cudaEnableDefault, &found);
    ((decltype(&cuTensorMapEncodeTiled))function)(
        &map, CU_TENSOR_MAP_DATA_TYPE_INT32, 2, matrix, shape, pitch, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
        CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    return map;
}

int main()
{
    int values[N * N], got[N * N], *x, *y, bad = 0;
    for (int i = 0; i < N * N; i++)
        values[i] = i;
    cudaMalloc(&x, sizeof values);
    cudaMalloc(&y, sizeof values);
    cudaMemcpy(x, values, sizeof values, cudaMemcpyHostToDevice);
    cudaMemset(y, 0, sizeof values);
    increase_box<<<1, 64>>>(encode(x), encode(y));
    cudaMemcpy(got, y, sizeof got, cudaMemcpyDeviceToHost);
    for (int i = 0; i < ROWS * COLUMNS; i++) {
        const int row = i / COLUMNS, column = i % COLUMNS, expected = (8 + row) * N + 17 + column;
        bad += got[(8 + row) * N + 16 + column] != expected || got[row * N + column] != expected;
    }
    pass_on<<<dim3(4, 2), 32>>>(y);
    cudaMemcpy(got, y, 8 * 32 * sizeof(int), cudaMemcpyDeviceToHost);
    for (int i = 0; i < 8 * 32; i++) {
        const int x = i / 32 % 4, y = i / 32 / 4, before = (y * 2 + x % 2 + 3) % 4;
        bad += got[i] != before * 10 + x / 2 * 2 + before % 2 + 100 * (before / 2);
    }
    printf("%s %s\n", bad ? "FAIL" : "PASS", cudaGetErrorString(cudaGetLastError()));
    return bad > 0;
}
