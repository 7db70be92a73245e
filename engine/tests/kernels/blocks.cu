#define KERNEL extern "C" __global__ void
#define FIRST if (threadIdx.x == 0)
__device__ unsigned arrived, arrived_too;
__device__ int lock, lock_too;

// Right.
KERNEL last_block_sums(float *x, float *part) {
    FIRST part[blockIdx.x] = x[blockIdx.x];
    __threadfence();
    __shared__ bool last;
    FIRST last = atomicInc(&arrived, gridDim.x - 1) == gridDim.x - 1;
    __syncthreads();
    if (last && threadIdx.x == 0) for (int i = 0; i < gridDim.x; i++) x[0] += part[i];
}
KERNEL one_thread_fences_for_all(float *x, float *part) {
    part[blockIdx.x * 32 + threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    __shared__ bool last;
    FIRST { __threadfence(); last = atomicAdd(&arrived_too, 1) == gridDim.x - 1; }
    __syncthreads();
    if (!last) return;
    for (int i = threadIdx.x; i < 32 * gridDim.x; i += 32) x[threadIdx.x] += part[i];
    FIRST arrived_too = 0;
}
KERNEL one_after_the_other(float *x, volatile float *part) {
    FIRST part[blockIdx.x + 1] = x[blockIdx.x] + (blockIdx.x ? part[blockIdx.x] : 0);
}
KERNEL flag_and_fence(float *x, float *part) {
    volatile float *flag = part + 128;
    FIRST {
        while (blockIdx.x && flag[blockIdx.x - 1] == 0) {}
        __threadfence();
        float sum = 0;
        for (int i = 0; i < blockIdx.x; i++) sum += part[i];
        part[blockIdx.x] = sum + x[blockIdx.x];
        __threadfence();
        flag[blockIdx.x] = 1;
    }
}
KERNEL histogram(const float *x, float *part) { atomicAdd(&part[(int)x[blockIdx.x * 32 + threadIdx.x] % 8], 1); }
KERNEL tickets_for_slots(const float *x, float *part) {
    int slot = atomicAdd((int *)part, 1);
    part[1 + slot] = x[blockIdx.x * 32 + threadIdx.x];
}
KERNEL sum_in_double(float *x, double *part) {
    unsigned long long *word = (unsigned long long *)part, old = *word, seen;
    do {
        seen = old;
        old = atomicCAS(word, seen, __double_as_longlong(x[threadIdx.x] + __longlong_as_double(seen)));
    } while (seen != old);
}
KERNEL looks_before_it_updates(const float *x, int *part) {
    int mine = x[blockIdx.x * 32 + threadIdx.x];
    if (mine > part[0]) atomicMax(part, mine);
}
KERNEL locked(float *x, float *part) {
    FIRST {
        while (atomicCAS(&lock, 0, 1)) {}
        __threadfence();
        part[0] += x[blockIdx.x];
        __threadfence();
        atomicExch(&lock, 0);
    }
}
KERNEL all_set_the_flag(float *x, float *part) { if (x[blockIdx.x * 32 + threadIdx.x] >= 0) part[0] = 1; }
KERNEL reads_what_others_read(float *x, float *part) { part[blockIdx.x * 32 + threadIdx.x] = x[threadIdx.x]; }
KERNEL neighbours_sectors(float *x, float *part) { FIRST part[blockIdx.x] = x[blockIdx.x]; }

// Wrong, in the lines that end in a number: those that race with each other.
KERNEL two_write_one_word(float *x, float *part) { FIRST part[blockIdx.x / 2] = x[blockIdx.x]; } // 1
KERNEL halo_in_place(float *x, float *part) {
    int i = blockIdx.x * 32 + threadIdx.x;
    float right = x[i + 1]; // 2
    __syncthreads();
    x[i] += right; // 2
}
KERNEL no_fence(float *x, float *part) {
    FIRST {
        part[blockIdx.x] = x[blockIdx.x]; // 3
        if (atomicInc((unsigned *)part + 128, gridDim.x - 1) == gridDim.x - 1)
            for (int i = 0; i < gridDim.x; i++) x[0] += part[i]; // 3
    }
}
KERNEL fence_too_early(float *x, float *part) {
    __shared__ bool last;
    FIRST {
        __threadfence();
        last = atomicInc((unsigned *)part + 128, gridDim.x - 1) == gridDim.x - 1;
    }
    part[blockIdx.x * 32 + threadIdx.x] = x[threadIdx.x]; // 4
    __syncthreads();
    if (last) x[threadIdx.x] = part[threadIdx.x]; // 4
}
KERNEL fence_too_late(float *x, float *part) {
    FIRST {
        part[blockIdx.x] = x[blockIdx.x]; // 5
        bool last = atomicInc((unsigned *)part + 128, gridDim.x - 1) == gridDim.x - 1;
        __threadfence();
        if (last) for (int i = 0; i < gridDim.x; i++) x[0] += part[i]; // 5
    }
}
KERNEL nobody_waits(float *x, float *part) {
    FIRST part[blockIdx.x] = x[blockIdx.x]; // 6
    __threadfence();
    if (blockIdx.x == 0 && threadIdx.x < gridDim.x) x[threadIdx.x] = part[threadIdx.x]; // 6
}
KERNEL share_of_a_total(float *x, float *part) {
    int i = blockIdx.x * 32 + threadIdx.x;
    atomicAdd(part, x[i]); // 7
    __syncthreads();
    x[i] /= part[0]; // 7
}
KERNEL cleared_in_the_same_launch(float *x, float *part) {
    if (blockIdx.x == 0 && threadIdx.x == 0) part[0] = 0; // 8
    __syncthreads();
    atomicAdd(part, x[threadIdx.x]); // 8
}
KERNEL locked_without_fences(float *x, float *part) {
    FIRST {
        while (atomicCAS(&lock_too, 0, 1)) {}
        part[0] += x[blockIdx.x]; // 9
        atomicExch(&lock_too, 0);
    }
}
KERNEL atomics_elsewhere(const float *x, float *part) {
    int bin = (int)x[blockIdx.x * 32 + threadIdx.x] % 8;
    FIRST part[bin] += 1; // 10
    __threadfence_block();
    atomicAdd(&part[64 + bin], 1);
}
