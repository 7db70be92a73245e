// P9b a ring: a warp loads tiles into a ring of three stages, and three warps add up what lies in all of them.
//
// y[i] is the sum of x[i] to x[i + 191], for i below n - 191. Launch: one block of (32, 4) threads; the warp
// threadIdx.y == 0 is the producer, the other three are the consumers. An output needs three tiles of 96 numbers.

// Wait until so many threads of the block have arrived at this barrier: a number from 1 to 15.
__device__ void wait(int number, int threads)
{
    asm volatile("bar.sync %0, %1;" :: "r"(number), "r"(threads) : "memory");
}

// Arrive there, and go on.
__device__ void arrive(int number, int threads)
{
    asm volatile("bar.arrive %0, %1;" :: "r"(number), "r"(threads) : "memory");
}

__global__ void sums(const int *x, int n, int *y)
{
#ifdef SKELETON
    // three stages, each with a barrier that says "full" and one that says "empty"

#else
    constexpr int T = 96, STAGES = 3, FULL = 1, EMPTY = FULL + STAGES, ALL = 128;
    __shared__ int ring[STAGES][T];
    const int tiles = (n + T - 1) / T;
    if (threadIdx.y == 0) {
        for (int i = 0; i < tiles; ++i) {
            if (i >= STAGES)
                wait(EMPTY + i % STAGES, ALL);              // tile i - 3 is no longer read
            for (int j = threadIdx.x; j < T && i * T + j < n; j += 32)
                ring[i % STAGES][j] = x[i * T + j];
            arrive(FULL + i % STAGES, ALL);                 // tile i is complete
        }
    } else {
        const int place = (threadIdx.y - 1) * 32 + threadIdx.x;
        for (int i = 0; i < tiles; ++i) {                   // outputs that begin in tile i
            for (int next = i ? i + 2 : 0; next < min(i + 3, tiles); ++next)
                wait(FULL + next % STAGES, ALL);
            const int first = i * T + place;
            if (first + 2 * T <= n) {
                int sum = 0;
                for (int j = first; j < first + 2 * T; ++j)
                    sum += ring[j / T % STAGES][j % T];
                y[first] = sum;
            }
            if (i + STAGES < tiles)
                arrive(EMPTY + i % STAGES, ALL);
        }
    }
#endif
}
