__device__ inline float reduce_max(float value) {
  value = fmaxf(value, __shfl_down_sync(0xffffffff, value, 16));
  value = fmaxf(value, __shfl_down_sync(0xffffffff, value, 8));
  value = fmaxf(value, __shfl_down_sync(0xffffffff, value, 4));
  value = fmaxf(value, __shfl_down_sync(0xffffffff, value, 2));
  value = fmaxf(value, __shfl_down_sync(0xffffffff, value, 1));
  return __shfl_sync(0xffffffff, value, 0);
}

__device__ inline float reduce_sum(float value) {
  int step = 16;
  do {
    value += __shfl_down_sync(0xffffffff, value, step);
    step >>= 1;
  } while (step > 0);
  return __shfl_sync(0xffffffff, value, 0);
}

__global__ void softmax(const float *x, float *y, int rows, int columns) {
  const int warp = blockIdx.x * blockDim.y + threadIdx.y;
  if (warp >= rows) { return; }
  float local = -INFINITY;
  for (int col = threadIdx.x; col < columns; col += 32) {
    local = fmaxf(local, x[warp * columns + col]);
  }
  const float peak = reduce_max(local);
  float part = 0.0f;
  for (int col = threadIdx.x; col < columns; col += 32) {
    const float e = expf(x[warp * columns + col] - peak);
    part += e;
    y[warp * columns + col] = e;
  }
  const float denominator = reduce_sum(part);
  for (int col = threadIdx.x; col < columns; col += 32) {
    y[warp * columns + col] /= denominator;
  }
}
