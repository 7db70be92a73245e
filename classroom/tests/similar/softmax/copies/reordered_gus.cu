__device__ inline float reduce_sum(float value) {
  int step = 16;
  do {
    value += __shfl_down_sync(0xffffffff, value, step);
    step >>= 1;
  } while (step > 0);
  return __shfl_sync(0xffffffff, value, 0);
}

__device__ inline float reduce_max(float value) {
  value = fmaxf(value, __shfl_down_sync(0xffffffff, value, 16));
  value = fmaxf(value, __shfl_down_sync(0xffffffff, value, 8));
  value = fmaxf(value, __shfl_down_sync(0xffffffff, value, 4));
  value = fmaxf(value, __shfl_down_sync(0xffffffff, value, 2));
  value = fmaxf(value, __shfl_down_sync(0xffffffff, value, 1));
  return __shfl_sync(0xffffffff, value, 0);
}

__global__ void softmax(const float *x, float *y, int rows, int columns) {
  float part = 0.0f;
  float local = -INFINITY;
  const int warp = threadIdx.y + blockDim.y * blockIdx.x;
  if (warp >= rows) { return; }
  for (int col = threadIdx.x; col < columns; col += 32) {
    local = fmaxf(x[col + columns * warp], local);
  }
  const float peak = reduce_max(local);
  for (int col = threadIdx.x; col < columns; col += 32) {
    const float e = expf(x[col + columns * warp] - peak);
    y[col + columns * warp] = e;
    part += e;
  }
  const float denominator = reduce_sum(part);
  for (int col = threadIdx.x; col < columns; col += 32) {
    y[col + columns * warp] /= denominator;
  }
}
