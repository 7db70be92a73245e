template <int KB> __device__ __noinline__ int deep(int n) {
    volatile char local[KB << 10];
    local[n] = n;
    return n ? deep<KB>(n - 1) + local[n] : 0;
}
extern "C" __global__ void fault(int *data, int which)
{
    extern __shared__ int sized[];
    int i = threadIdx.x;
    switch (which) {
    case 0: if (i == 3) *(volatile int *)16 = 1; break;
    case 1: if (i < 5) __syncthreads();
            else __syncthreads(); break;
    case 2: if (i < 5) __syncthreads();
            else if (i < 8) __syncwarp(0xe1); break;
    case 3: assert(i != 7); break;
    case 4: data[i] = 5 / data[i]; break;
    case 5: data[i] = deep<40>(i + 14); break;
    case 6: if (i == 9) __trap(); break;
    case 7: data[i] = *(volatile int *)(data - (1ll << 38)); break;
    case 9: sized[i * 20] = 1; data[i] = sized[i * 20]; break;
    case 10: __shfl_sync(0x0f, i, 0); break;
    case 11: ((volatile float *)0xdead00000000beefull)[0] = 1; break;
    case 12: *(float4 *)(data + i + 1) = make_float4(i, i, i, i); break;
    case 13: for (int r = 0; r < 3; ++r) __syncthreads();
             if (i % 8 < 5) __syncthreads();
             else __syncthreads(); break;
    case 14: for (int r = 0; r < 3; ++r) __syncthreads();
             if (i < 5) __syncthreads();
             else __syncwarp(); break;
    }
}
extern "C" __global__ void fine(int *data) { data[threadIdx.x] = threadIdx.x; }
extern "C" __global__ void endless(int *data, int how)
{
    while (*(volatile int *)data == 0)
        if (how == 1) __syncthreads();
        else if (how == 2) __nanosleep(100);
        else if (how == 3) __syncwarp();
}
