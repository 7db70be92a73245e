// P7b from a queue: a block that is free takes the next row, so that blocks with short rows take more of them.
//
// Row r has the elements begin[r] to begin[r + 1] - 1 of x. Launch: any number of blocks, of whole warps. All totals are
// 0 before it. *next is the first row that nobody has taken: the rows before it have been, and their totals stay 0.

__global__ void sums(const int *x, const int *begin, int rows, int *total, int *next)
{
#ifdef SKELETON
    // begin with your kernel of P7a: who takes the next row, and how do the other threads of the block learn it?

#else
    __shared__ int row;
    while (true) {
        if (threadIdx.x == 0) row = atomicAdd(next, 1);
        __syncthreads();                                    // all threads of the block see the row
        if (row >= rows) return;                            // all of them, or none
        const int end = begin[row + 1];
        int mine = 0;
        for (int i = begin[row] + threadIdx.x; i < end; i += blockDim.x) mine += x[i];
        atomicAdd(&total[row], mine);
        __syncthreads();                                    // nobody needs this row's number any more
    }
#endif
}
