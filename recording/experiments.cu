// experiments: kernels with one thing to vary each, for the page that measures by hand.

// Computes and touches no memory until the end: `times` multiply-adds per thread, each waiting for the one before it.
extern "C" __global__ void compute(float *y, int times)
{
    float v = threadIdx.x;
    for (int i = 0; i < times; ++i)
        v = fmaf(v, 0.999f, 1.0f);
    y[blockIdx.x * blockDim.x + threadIdx.x] = v;
}

// Loads and computes nothing: the address of a load is the value of the load before it.
extern "C" __global__ void chase(int *y, const int *next, int times)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    int place = next[i];
    for (int n = 1; n < times; ++n)
        place = next[place];
    y[i] = place;
}

// Counts the cycles of a multiprocessor in `ns` nanoseconds.
extern "C" __global__ void clocks(long long *cycles, int place, int ns)
{
    long long start, now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(start));
    const long long first = clock64();
    do
        asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    while (now - start < ns);
    cycles[2 * place] = clock64() - first;
    cycles[2 * place + 1] = now - start;
}
