// Two warps write, two others read: named barriers say which of two halves of shared memory is written and which is read.
//
// BUG  1: the readers' barrier counts too few threads     2: one of the writers' warps does not arrive
//      3: the readers arrive and do not wait              4: a count that is no multiple of 32
//      5: no mistake: the readers wait where it is enough to arrive
#include "instructions.h"

const int TEAM = 64, BOTH = 2 * TEAM, ROUNDS = 6, WRITTEN = 1, READ = 3;    // the first of a barrier per half

__global__ void hand_over(const int *x, int *y)
{
    __shared__ int halves[2][TEAM];
    const int t = threadIdx.x % TEAM;
    const bool writes = threadIdx.x < TEAM;
    int sum = 0;
    for (int round = 0; round < ROUNDS; round++) {
        const int half = round % 2;
        if (writes) {
            if (round >= 2)
                bar_sync(READ + half, BOTH);
            halves[half][t] = x[round * TEAM + t] + blockIdx.x;
            if (BUG != 2 || t < 32)
                bar_arrive(WRITTEN + half, BOTH);
        } else {
            if (BUG == 3)
                bar_arrive(WRITTEN + half, BOTH);
            else
                bar_sync(WRITTEN + half, BUG == 1 ? BOTH - 32 : BUG == 4 ? BOTH - 8 : BOTH);
            sum = sum * 2 + halves[half][TEAM - 1 - t];
            if (round + 2 < ROUNDS) {
                if (BUG == 5)
                    bar_sync(READ + half, BOTH);
                else
                    bar_arrive(READ + half, BOTH);
            }
        }
    }
    if (!writes)
        y[blockIdx.x * TEAM + t] = sum;
}

int main()
{
    const int blocks = 2;
    std::vector<int> x(ROUNDS * TEAM), expected(blocks * TEAM);
    for (int i = 0; i < (int)x.size(); i++)
        x[i] = i * 17 % 307;
    for (int round = 0; round < ROUNDS; round++)
        for (int i = 0; i < (int)expected.size(); i++)
            expected[i] = expected[i] * 2 + x[round * TEAM + TEAM - 1 - i % TEAM] + i / TEAM;
    int *y = put(std::vector<int>(expected.size()));
    hand_over<<<blocks, BOTH>>>(put(x), y);
    return compare(y, expected);
}
