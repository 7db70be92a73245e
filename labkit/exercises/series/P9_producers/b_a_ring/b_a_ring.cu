// P9b a ring: a warp loads tiles into a ring of three stages, and three warps add up what lies in two of them.
//
// y[i] is the sum of x[i] to x[i + 95], for i below n - 95. Launch: one block of (32, 4) threads; the warp
// threadIdx.y == 0 is the producer, the other three are the consumers. An output needs two tiles of 96 numbers. So the
// producer fills the third stage while the consumers add.

// Wait until `threads` threads of the block have arrived at barrier `number`, from 1 to 15.
// %0, %1: number and threads, in registers ("r"). "memory": the compiler moves no load and no store across it.
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
            for (int next = i ? i + 1 : 0; next < min(i + 2, tiles); ++next)
                wait(FULL + next % STAGES, ALL);
            const int first = i * T + place;
            if (first + T <= n) {
                int sum = 0;
                for (int j = first; j < first + T; ++j)
                    sum += ring[j / T % STAGES][j % T];
                y[first] = sum;
            }
            if (i + STAGES < tiles)
                arrive(EMPTY + i % STAGES, ALL);
        }
    }
#endif
}
