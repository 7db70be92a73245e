// P7a dealt out: fewer blocks than rows, so each block takes every gridDim.x-th row, whatever the lengths are.
//
// Row r has the elements begin[r] to begin[r + 1] - 1 of x. Launch: any number of blocks, of whole warps. All totals are 0
// before it.

__global__ void sums(const int *x, const int *begin, int rows, int *total)
{
#ifdef SKELETON
    // total[r] is the sum of the elements begin[r] to begin[r + 1] - 1 of x; all totals are 0 before the launch

#else
    for (int row = blockIdx.x; row < rows; row += gridDim.x) {
        const int end = begin[row + 1];
        int mine = 0;
        for (int i = begin[row] + threadIdx.x; i < end; i += blockDim.x) mine += x[i];
        atomicAdd(&total[row], mine);
    }
#endif
}
