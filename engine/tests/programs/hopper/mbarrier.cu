// Threads pass numbers on in rounds: in each a thread writes its number, arrives at an mbarrier, waits, and takes another's.
//
// BUG  1: they wait for the phase before the one at which they have arrived    2: the last thread does not arrive
//      3: no barrier between mbarrier.init and the first use
#include "instructions.h"

const int THREADS = 96, ROUNDS = 5, BLOCKS = 3, STEP = 37;

__global__ void pass_on(unsigned *numbers)
{
    __shared__ unsigned passed[2][THREADS];
    __shared__ uint64_t barrier;
    const int t = threadIdx.x;
    if (t == 0)
        mbarrier_init(&barrier, THREADS);
    if (BUG != 3)
        __syncthreads();
    unsigned number = numbers[blockIdx.x * THREADS + t];
    for (int round = 0; round < ROUNDS; round++) {
        passed[round % 2][t] = number;
        if (BUG != 2 || t < THREADS - 1)
            mbarrier_arrive(&barrier);
        wait_for(&barrier, (BUG == 1 ? round + 1 : round) % 2);
        number = number * 3 + passed[round % 2][(t + STEP) % THREADS];
    }
    numbers[blockIdx.x * THREADS + t] = number;
}

int main()
{
    std::vector<unsigned> numbers(BLOCKS * THREADS);
    for (int i = 0; i < (int)numbers.size(); i++)
        numbers[i] = i * i % 401;
    unsigned *on_device = put(numbers);
    for (int round = 0; round < ROUNDS; round++) {
        const std::vector<unsigned> before = numbers;
        for (int i = 0; i < (int)numbers.size(); i++)
            numbers[i] = before[i] * 3 + before[i / THREADS * THREADS + (i + STEP) % THREADS];
    }
    pass_on<<<BLOCKS, THREADS>>>(on_device);
    return compare(on_device, numbers);
}
