// contention: what atomicAdd costs when many threads add to one address.
//
// Idea      Every thread adds 1, `times` times. `share` threads have an address together: neighbours (so lanes of one
//           warp meet), or threads far apart (so every lane of a warp has an address of its own, until there are
//           fewer addresses than lanes).
// Launch    1-D grid and blocks. x holds a float per address: the number of threads / share, a whole number.

extern "C" __global__ void neighbours(float *x, int share, int times)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    for (int n = 0; n < times; ++n)
        atomicAdd(&x[i / share], 1.0f);
}

extern "C" __global__ void apart(float *x, int share, int times)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x, addresses = gridDim.x * blockDim.x / share;
    for (int n = 0; n < times; ++n)
        atomicAdd(&x[i % addresses], 1.0f);
}
