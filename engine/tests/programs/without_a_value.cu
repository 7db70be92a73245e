// Variables without a value, where the compiler or the text is sure, and where it is not; variables that are gone.
struct Total { float sum; int count; };
__global__ void accumulated(const float *x, float *y, int n) {
  float acc;
  for (int i = 0; i < n; i++) acc += x[i];
  y[0] = acc;
}
__global__ void written_out(const float *x, float *y, int n) {
  float acc;
  for (int i = 0; i < n; i++) acc = x[i] + acc;
  y[0] = acc;
}
__global__ void own_index(const float *x, float *y, int n) {
  int i;
  if (i < n) y[i] = x[i];
}
__global__ void table(const float *x, float *y, int n) {
  float r[2][2];
  for (int i = 0; i < n; i++) for (int j = 0; j < 2; j++) for (int k = 0; k < 2; k++) r[j][k] += x[i];
  for (int j = 0; j < 2; j++) for (int k = 0; k < 2; k++) y[2 * j + k] = r[j][k];
}
__global__ void guarded_twice(const float *x, float *y, int n) {
  float v;
  if (threadIdx.x < n) v = x[threadIdx.x];
  __syncthreads();
  if (threadIdx.x < n) y[threadIdx.x] = v;
}
__global__ void set_in_the_first_round(const float *x, float *y, int n) {
  float before;
  for (int i = 0; i < n; i++) {
    if (x[i] > 0) y[i] = before;
    before = x[i];
  }
}
__global__ void three_of_four(const float *x, float4 *y, int n) {
  float4 v;
  v.x = v.y = v.z = x[0];
  y[0] = v;
}
__global__ void member(const float *x, float *y, int n) {
  Total t;
  t.sum = x[0];
  y[0] = t.sum / t.count;
}
__global__ void member_set_in_a_branch(const float *x, float *y, int n) {
  Total t;
  if (n > 3) t.count = n;
  __syncthreads();
  if (n > 3) y[0] = x[0] / t.count;
}
__device__ float *squares(float x) {
  float list[2] = {x, x * x};
  return list;
}
__device__ float *cubes(float x) {
  float list[2] = {x, x * x * x}, *first = list;
  return first;
}
__global__ void two_sums(const float *x, float *y, int n) {
  float2 sum;
  for (int i = 0; i < n; i++) { sum.x += x[i]; sum.y = sum.x + sum.y; }
  y[0] = __fadd_rn(sum.x, 1) + sum.y;
}
struct Sums { float a, b; __device__ void begin() { a = b = 0; } };
__device__ void set(float &v) { v = 1; }
__global__ void set_elsewhere(const float *x, float *y, int n) {
  float2 by_call, by_reference, whole;
  Sums own;
  float &r = by_reference.x;
  if (n > 3) { set(by_call.x); r = 1; whole = make_float2(1, 2); own.begin(); }
  for (int i = 0; i < n; i++) { by_call.x += x[i]; by_reference.x += x[i]; whole.x += x[i]; own.a += x[i]; }
  if (n > 3) y[0] = by_call.x + by_reference.x + whole.x + own.a;
}
__global__ void in_turn(const float *x, float *y, int n) {
  float acc[4], largest[2];
  for (int i = 0; i < n; i++) acc[i % 4] += x[i];
  for (int i = 0; i < n; i++) largest[i & 1] = fmaxf(largest[i & 1], x[i]);
  y[threadIdx.x] = acc[threadIdx.x % 4] + largest[0];
}
template <class T> __device__ void put(T &to, T value) { to = value; }
__global__ void set_in_turn(const float *x, float *y, int n) {
  float by_call[4], by_loop[4], by_pointer[4], by_index[4], by_output[4], *p = by_pointer;
  for (int i = 0; i < 4; i++) put(by_call[i], 0.0f), p[i] = 0;
  for (float &each : by_loop) each = 0;
  for (int i = 0; i < 4; i++) { by_index[i] = 0; asm("mov.f32 %0, 0f00000000;" : "=f"(by_output[i])); }
  for (int i = 0; i < n; i++) { int k = i % 4; by_call[k] += x[i]; by_loop[k] += x[i]; by_pointer[k] += x[i]; by_index[k] += x[i]; by_output[k] += x[i]; }
  y[threadIdx.x] = by_call[0] + by_loop[1] + by_pointer[2] + by_index[3] + by_output[0];
}
__global__ void counted(const float *x, float *y, int n) {
  int counts[8];
  for (int i = 0; i < n; i++) counts[i & 7]++;
  y[threadIdx.x] = counts[threadIdx.x & 7];
}
