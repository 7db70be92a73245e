// A ring of three stages: a producer's thread fills them with pieces of two arrays, three warps of consumers add up products.
//
// BUG  1: the producer does not wait until a stage is empty       2: the consumers never say that a stage is empty
//      3: the producer's first wait is for the phase that runs    4: the consumers wait for the same parity in each lap
//      5: the consumers say that a stage is empty before they read it
//      6: no mistake: all threads of the consumers arrive, not one of each warp
#include "instructions.h"

const int STAGES = 3, PIECES = 11, LENGTH = 96, CONSUMERS = 96, BLOCKS = 2;

struct Stage {
    int x[LENGTH], y[LENGTH];
};

__global__ void add_products(const int *x, const int *y, int *sums)
{
    __shared__ alignas(128) Stage stages[STAGES];
    __shared__ uint64_t full[STAGES], empty[STAGES];
    const int t = threadIdx.x;
    const bool arrives = BUG == 6 || t % 32 == 0;
    if (t == 0)
        for (int s = 0; s < STAGES; s++) {
            mbarrier_init(&full[s], 1);
            mbarrier_init(&empty[s], BUG == 6 ? CONSUMERS : CONSUMERS / 32);
        }
    __syncthreads();
    if (t == CONSUMERS) {
        for (int piece = 0; piece < PIECES; piece++) {
            const int s = piece % STAGES, lap = piece / STAGES;
            const int from = (blockIdx.x * PIECES + piece) * LENGTH;
            if (BUG != 1)
                wait_for(&empty[s], (BUG == 3 ? lap : lap + 1) % 2);    // in the first lap for a phase before the first
            mbarrier_arrive_expect_tx(&full[s], sizeof(Stage));
            cp_async_bulk_in(stages[s].x, x + from, sizeof(stages[s].x), &full[s]);
            cp_async_bulk_in(stages[s].y, y + from, sizeof(stages[s].y), &full[s]);
        }
    } else if (t < CONSUMERS) {
        int sum = 0;
        for (int piece = 0; piece < PIECES; piece++) {
            const int s = piece % STAGES, lap = piece / STAGES;
            wait_for(&full[s], BUG == 4 ? 0 : lap % 2);
            if (BUG == 5 && arrives)
                mbarrier_arrive(&empty[s]);
            sum += stages[s].x[t] * stages[s].y[LENGTH - 1 - t];
            __syncwarp();
            if (BUG != 2 && BUG != 5 && arrives)
                mbarrier_arrive(&empty[s]);
        }
        sums[blockIdx.x * CONSUMERS + t] = sum;
    }
}

int main()
{
    const int n = BLOCKS * PIECES * LENGTH;
    std::vector<int> x(n), y(n), expected(BLOCKS * CONSUMERS);
    for (int i = 0; i < n; i++) {
        x[i] = i * 11 % 251 - 90;
        y[i] = i * 29 % 83;
    }
    for (int i = 0; i < n; i++) {
        const int first = i / LENGTH * LENGTH, t = i % LENGTH;
        expected[i / (PIECES * LENGTH) * CONSUMERS + t] += x[i] * y[first + LENGTH - 1 - t];
    }
    int *sums = put(std::vector<int>(expected.size()));
    add_products<<<BLOCKS, CONSUMERS + 32>>>(put(x), put(y), sums);
    return compare(sums, expected);
}
