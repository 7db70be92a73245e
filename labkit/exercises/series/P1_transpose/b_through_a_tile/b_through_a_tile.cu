// P1b through a tile: a block loads rows of `in`, turns them in shared memory, and stores rows of `out`.
//
// A warp reads a column of the tile. With 33 words per row the words of a column lie in 32 different banks.

__global__ void transpose(const float *in, float *out, int rows, int columns)
{
#ifdef SKELETON
    // begin with your kernel of P1a: what does a thread store, and where, if a tile lies between load and store?

#else
    __shared__ float tile[32][33];
    const int row = blockIdx.y * blockDim.y + threadIdx.y, column = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < rows && column < columns) tile[threadIdx.y][threadIdx.x] = in[row * columns + column];
    __syncthreads();                                        // the tile is complete
    const int to_row = blockIdx.x * 32 + threadIdx.y, to_column = blockIdx.y * 32 + threadIdx.x;
    if (to_row < columns && to_column < rows) out[to_row * rows + to_column] = tile[threadIdx.x][threadIdx.y];
#endif
}
