// P9a one buffer: a warp loads tiles, and three warps compare with them, which meet at named barriers.
//
// rank[i] is the number of elements of x that are smaller than x[i]. Launch: blocks of (32, 4) threads, one block per 96
// numbers. The warp threadIdx.y == 0 is the producer, the other three are the consumers.

// Wait until `threads` threads of the block have arrived at barrier `number`, from 1 to 15.
// %0, %1: number and threads, in registers ("r"). "memory": the compiler moves no load and no store across it.
__device__ void wait(int number, int threads)
{
    asm volatile("bar.sync %0, %1;" :: "r"(number), "r"(threads) : "memory");
}

__global__ void ranks(const float *x, int n, int *rank)
{
#ifdef SKELETON
    // one warp loads tiles of 96 numbers into shared memory, the others count: who waits for whom, and where?

#else
    constexpr int T = 96, FULL = 1, EMPTY = 2, ALL = 128;
    __shared__ float tile[T];
    const int lane = threadIdx.x;
    if (threadIdx.y == 0) {
        for (int first = 0; first < n; first += T) {
            if (first > 0)
                wait(EMPTY, ALL);                           // the tile before is no longer read
            for (int j = lane; j < T && first + j < n; j += 32)
                tile[j] = x[first + j];
            wait(FULL, ALL);                                // the tile is complete
        }
    } else {
        const int me = blockIdx.x * T + (threadIdx.y - 1) * 32 + lane;
        const float mine = me < n ? x[me] : 0;
        int smaller = 0;
        for (int first = 0; first < n; first += T) {
            wait(FULL, ALL);
            for (int j = 0; j < min(T, n - first); ++j)
                smaller += tile[j] < mine;
            if (first + T < n)
                wait(EMPTY, ALL);
        }
        if (me < n)
            rank[me] = smaller;
    }
#endif
}
