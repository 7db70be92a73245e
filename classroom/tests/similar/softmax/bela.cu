__global__ void softmax(const float *x, float *y, int rows, int columns)
{
    const int lane = threadIdx.x;
    const int row = threadIdx.y + blockIdx.x * blockDim.y;
    if (row >= rows)
        return;

    // first pass: maximum, gathered by lane 0 and sent back
    float biggest = -INFINITY;
    int i = lane;
    while (i < columns) {
        float value = x[row * columns + i];
        if (value > biggest)
            biggest = value;
        i += 32;
    }
    for (int offset = 16; offset >= 1; offset = offset / 2) {
        float other = __shfl_down_sync(0xffffffff, biggest, offset);
        if (other > biggest)
            biggest = other;
    }
    biggest = __shfl_sync(0xffffffff, biggest, 0);

    // second pass: y holds the powers already
    float total = 0;
    i = lane;
    while (i < columns) {
        float power = expf(x[row * columns + i] - biggest);
        y[row * columns + i] = power;
        total += power;
        i += 32;
    }
    for (int offset = 16; offset >= 1; offset = offset / 2)
        total += __shfl_down_sync(0xffffffff, total, offset);
    total = __shfl_sync(0xffffffff, total, 0);

    i = lane;
    while (i < columns) {
        y[row * columns + i] = y[row * columns + i] / total;
        i += 32;
    }
}
