#ifdef SKELETON
// y = A x: A has `rows` rows of `columns` elements, row after row. A block has 4 warps, each of them one row.
//
// Here lane 0 of each warp does all the work. Share it among the lanes.

#else
// A warp per row: lanes take neighbouring columns, and their sums are added by shuffles.

#endif
__global__ void matvec(const float *a, const float *x, float *y, int rows, int columns)
{
    const int row = blockIdx.x * blockDim.y + threadIdx.y;
    if (row >= rows) return;
    float sum = 0;
#ifdef SKELETON
    if (threadIdx.x > 0) return;
    for (int i = 0; i < columns; ++i) sum += a[row * columns + i] * x[i];
    y[row] = sum;
#else
    for (int i = threadIdx.x; i < columns; i += 32) sum += a[row * columns + i] * x[i];
    for (int apart = 16; apart > 0; apart /= 2) sum += __shfl_down_sync(0xffffffff, sum, apart);
    if (threadIdx.x == 0) y[row] = sum;
#endif
}
