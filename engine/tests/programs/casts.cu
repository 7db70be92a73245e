// Halves, bfloat16 and characters become each other.
#include <cstdio>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
template <typename To, typename From>
__global__ void cast(To *to, const From *from) { to[threadIdx.x] = static_cast<To>(from[threadIdx.x]); }
template <typename To, typename From>
void print()
{
    From *from;
    To *to;
    cudaMallocManaged(&from, 4 * sizeof *from), cudaMallocManaged(&to, 4 * sizeof *to);
    const float values[4] = {2.5f, -1.75f, 1000.0f, NAN};
    for (int i = 0; i < 4; i++) from[i] = static_cast<From>(values[i]);
    cast<To, From><<<1, 4>>>(to, from);
    cudaDeviceSynchronize();
    for (int i = 0; i < 4; i++) printf("%g ", (float)to[i]);
    printf("\n");
}
int main()
{
    print<__half, __nv_bfloat16>();
    print<__nv_bfloat16, __half>();
    print<char, __nv_bfloat16>();
    print<signed char, __nv_bfloat16>();
    print<unsigned char, __nv_bfloat16>();
}
