// P1a rows in: a thread per element. Loads go along the rows of `in`, stores down the columns of `out`.

__global__ void transpose(const float *in, float *out, int rows, int columns)
{
#ifdef SKELETON
    // out[column][row] = in[row][column], for all elements

#else
    const int row = blockIdx.y * blockDim.y + threadIdx.y, column = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < rows && column < columns) out[column * rows + row] = in[row * columns + column];
#endif
}
