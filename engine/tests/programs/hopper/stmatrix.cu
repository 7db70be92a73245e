// Two warps exchange matrices of 16 x 16: each stores its own transposed by stmatrix, and loads the other's by ldmatrix.
//
// BUG  1: the rows are at no multiple of 16 bytes     2: no barrier between the store and the load
//      3: the store forgets to transpose
#include "instructions.h"

const int SIDE = 16, PITCH = 24;    // rows of 48 bytes: no two of eight in the same banks

__global__ void exchange(const unsigned short *x, unsigned short *y)
{
    __shared__ alignas(16) unsigned short stored[2][SIDE * PITCH + 8];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int row = lane / 4, column = lane % 4 * 2;
    const int at = lane % 16 * PITCH + lane / 16 * 8;    // the lane's row: of matrix lane / 8
    unsigned r[4];
    for (int quarter = 0; quarter < 4; quarter++) {    // its rows from 8 (quarter % 2), columns from 8 (quarter / 2)
        const unsigned short *two = x + warp * SIDE * SIDE + (row + quarter % 2 * 8) * SIDE + column + quarter / 2 * 8;
        r[BUG == 3 ? quarter : quarter / 2 + quarter % 2 * 2] = two[0] | (unsigned)two[1] << 16;
    }
    unsigned short *target = stored[warp] + at + (BUG == 1 ? 2 : 0);
    if (BUG == 3)
        stmatrix_x4(target, r);
    else
        stmatrix_x4_trans(target, r);
    if (BUG != 2)
        __syncthreads();
    ldmatrix_x4(r, stored[1 - warp] + at);
    for (int quarter = 0; quarter < 4; quarter++) {
        unsigned short *two = y + warp * SIDE * SIDE + (row + quarter % 2 * 8) * SIDE + column + quarter / 2 * 8;
        two[0] = r[quarter];
        two[1] = r[quarter] >> 16;
    }
}

int main()
{
    std::vector<unsigned short> x(2 * SIDE * SIDE), expected(x.size());
    for (int i = 0; i < (int)x.size(); i++)
        x[i] = i * 13 % 4093;
    for (int i = 0; i < (int)x.size(); i++) {
        const int warp = i / (SIDE * SIDE), row = i / SIDE % SIDE, column = i % SIDE;
        expected[i] = x[(1 - warp) * SIDE * SIDE + column * SIDE + row];
    }
    unsigned short *y = put(std::vector<unsigned short>(x.size()));
    exchange<<<1, 64>>>(put(x), y);
    return compare(y, expected);
}
