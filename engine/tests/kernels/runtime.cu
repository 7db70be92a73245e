// How the threads of a block take turns, and variables of every kind.
struct Pair { float low; int high[2]; };
__constant__ const int three[3] = {1, 2, 3};
static __constant__ float hidden[5];
__constant__ Pair pairs[2];
__device__ int counter = 40;

__device__ int shared_total(int *shared, int thread, int value)      // a barrier in a device function
{
    shared[thread] = value;
    __syncthreads();
    int total = 0;
    for (int i = 0; i <= thread; ++i)
        total += shared[i];
    __syncthreads();
    return total;
}

extern "C" {

// Thread i takes part in `rounds[i]` rounds, then leaves. A round's answer is how many were still there.
__global__ void leaving(const int *rounds, int *seen, int most)
{
    int block = blockDim.x * blockDim.y * blockDim.z;
    int thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    seen += blockIdx.x * block * most;
    for (int round = 0; round < rounds[thread]; ++round)
        seen[thread * most + round] = __syncthreads_count(1);
}

__global__ void running_totals(const int *in, int *out)
{
    __shared__ int shared[1024];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = shared_total(shared, threadIdx.x, in[i]);
    out[i] += shared_total(shared, threadIdx.x, -1);
}

__global__ void votes(const int *in, int *out)
{
    int i = threadIdx.x, n = blockDim.x;
    out[i] = __syncthreads_count(in[i]);
    out[n + i] = __syncthreads_and(in[i]) != 0;
    out[2 * n + i] = __syncthreads_or(in[i]) != 0;
}

// Each half warp sums itself, with as many rounds as its number says; the other warps do the same meanwhile.
__global__ void half_warps(int *out)
{
    unsigned mask = 0xffffu << (threadIdx.x & 16);
    int rounds = threadIdx.x / 16 + 1, sum = 0;
    for (int round = 0; round < rounds; ++round) {
        int value = threadIdx.x + round;
        for (int step = 8; step; step /= 2)
            value += __shfl_xor_sync(mask, value, step);
        sum += value;
        __syncwarp(mask);
    }
    out[threadIdx.x] = sum;
}

// Lanes leave one after the other; those left still meet under the full mask.
__global__ void thinning(unsigned *out)
{
    unsigned ballot = 0;
    for (int i = 0; i < (int)threadIdx.x % 32; ++i)
        ballot = __ballot_sync(0xffffffffu, 1);
    out[threadIdx.x] = ballot;
}

__global__ void diverged(unsigned *out)
{
    if (threadIdx.x % 3 == 0)
        out[threadIdx.x] = __activemask();
    else
        out[threadIdx.x] = __activemask();
}

__global__ void lock(int *lock, int *count, int times)
{
    for (int i = 0; i < times; ++i) {
        while (atomicCAS(lock, 0, 1) != 0) {}
        int seen = *(volatile int *)count;
        if (threadIdx.x % 7 == 0)
            __nanosleep(20);                      // others get their turn while the lock is held
        *(volatile int *)count = seen + 1;
        __threadfence();
        atomicExch(lock, 0);
    }
}

// Between two barriers each warp has its errand. Counts threads that find another one late after the next barrier.
__global__ void errands(const int *errand, int *answer, int *late, int rounds)
{
    __shared__ int at[1024];
    int t = threadIdx.x, lane = t % 32, warps = blockDim.x / 32, sum = 0;
    at[t] = 0;
    for (int r = 1; r <= rounds; ++r) {
        int what = errand[(r - 1) * warps + t / 32];
        if (what == 1) sum += __shfl_xor_sync(~0u, t + r, 5);
        if (what == 2) for (int i = 0; i <= lane % 3; ++i) __syncwarp(0x49249249u << lane % 3);
        if (what == 3) __nanosleep(1);
        if (what == 4) sum += lane < 16 ? __popc(__ballot_sync(0xffffu, lane < r)) : __popc(__activemask());
        if (what == 5 && lane > 20) break;
        if (what == 7) asm volatile("bar.sync %0, 32;" :: "r"(t / 32 + 1));
        if (what == 8 && lane == 31) break;
        if (what == 8) __syncwarp();
        at[t] = r;
        if (r % 2) __syncthreads();
        else sum += __syncthreads_or(what == 6);
        for (int i = t % 32; i < blockDim.x; i += 32) if (i % 32 <= 20 && at[i] != r) atomicAdd(late, 1);
        __syncthreads();
    }
    answer[t] = sum;
}

__global__ void fresh_shared(float *out)
{
    __shared__ float fixed[64];
    extern __shared__ float sized[];
    out[threadIdx.x] = fixed[threadIdx.x];
    out[64 + threadIdx.x] = sized[threadIdx.x];
    __syncthreads();
    fixed[threadIdx.x] = sized[threadIdx.x] = 1;
}

__global__ void constants(float *out)
{
    out[0] = three[2];
    out[1] = hidden[4];
    out[2] = pairs[1].low + pairs[1].high[1];
    out[3] = atomicAdd(&counter, 1);
}

__global__ void long_thread_local_array(int *out)
{
    volatile int big[65536];                      // 256 KB a thread
    for (int i = 0; i < 65536; i += 512)
        big[i] = threadIdx.x + i;
    __syncthreads();
    int sum = 0;
    for (int i = 0; i < 65536; i += 512)
        sum += big[i] - i;
    out[threadIdx.x] = sum;
}
}
