// Bulk copies to shared memory: each block copies its row and writes it turned round, less the row's first value.
//
// BUG  1: more bytes are expected than copied     2: fewer bytes are expected than copied
//      3: the source is at no multiple of 16      4: the size is no multiple of 16
//      5: the target is at no multiple of 16      6: nobody waits for the copy
//      7: the thread that begins the copy arrives without expecting its bytes
#include "instructions.h"

const int ROWS = 6, COLUMNS = 480, THREADS = 160;

__global__ void turn_rows(const int *x, int *y)
{
    __shared__ alignas(16) int row[COLUMNS + 4];
    __shared__ uint64_t copied;
    const int first = blockIdx.x * COLUMNS;
    int *target = row + (BUG == 5 ? 2 : 0);
    if (threadIdx.x == 0)
        mbarrier_init(&copied, 1);
    __syncthreads();
    if (threadIdx.x == 0) {
        const int *source = x + first + (BUG == 3 ? 3 : 0);
        const unsigned bytes = sizeof(int) * COLUMNS - (BUG == 4 ? 8 : 0);
        if (BUG == 7)
            mbarrier_arrive(&copied);
        else
            mbarrier_arrive_expect_tx(&copied, BUG == 1 ? bytes + 48 : BUG == 2 ? bytes / 2 : bytes);
        cp_async_bulk_in(target, source, bytes, &copied);
    }
    if (BUG != 6)
        wait_for(&copied, 0);
    for (int i = threadIdx.x; i < COLUMNS; i += THREADS)
        y[first + i] = target[COLUMNS - 1 - i] - target[0];
}

int main()
{
    std::vector<int> x(ROWS * COLUMNS + 4), expected(ROWS * COLUMNS);
    for (int i = 0; i < (int)x.size(); i++)
        x[i] = i * 37 % 1009;
    for (int i = 0; i < (int)expected.size(); i++) {
        const int first = i / COLUMNS * COLUMNS;
        expected[i] = x[first + COLUMNS - 1 - i % COLUMNS] - x[first];
    }
    int *y = put(std::vector<int>(expected.size()));
    turn_rows<<<ROWS, THREADS>>>(put(x), y);
    return compare(y, expected);
}
