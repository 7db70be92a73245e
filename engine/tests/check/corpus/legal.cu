// Right kernels that resemble a mistake: nothing is found in them.
struct Particle { double x; float w; char alive; };
struct Node { int key; Node *next; };
struct Mixed { char c; double d; short s; };
struct __align__(8) Flagged { char kind; int value; };
struct __align__(16) Point { float x, y, z; };
struct Outer { char kind; Particle inner; short last; };
struct Bits { unsigned low : 4, high : 12; short rest; };
union Number { int whole; double real; char letter; };
struct Tagged { int tag; Number number; };
template <class T> __device__ void pass_on(T *p, T *shared) {
  __syncthreads();
  p[threadIdx.x] = shared[31 - threadIdx.x];
  T mine = p[threadIdx.x];
  p[threadIdx.x + 32] = mine;
}
__device__ void sort_two(float *v) { if (v[0] > v[1]) { float t = v[0]; v[0] = v[1]; v[1] = t; } }

//: kind="atomics" grid=1 block=128 args=i256,i64
extern "C" __global__ void warp_hist(const int *in, int *out) {
  __shared__ unsigned h[4][32];
  int w = threadIdx.x / 32, l = threadIdx.x % 32;
  h[w][l] = 0;
  __syncwarp();
  atomicAdd(&h[w][in[threadIdx.x] % 32], 1u);
  __syncwarp();
  unsigned mine = h[w][l];
  __syncthreads();
  atomicAdd(&out[l], (int)mine);
}

//: kind="last arrival" grid=4 block=64 args=f256,u4,i4,u4
extern "C" __global__ void last_block(const float *in, float *part, int *ticket, float *out) {
  __shared__ float s[64]; __shared__ bool last;
  int t = threadIdx.x; s[t] = in[blockIdx.x * 64 + t];
  if (blockIdx.x == 0 && t == 0) ticket[1] = 0;
  __syncthreads();
  for (int d = 32; d; d /= 2) { if (t < d) s[t] += s[t + d]; __syncthreads(); }
  if (t == 0) { part[blockIdx.x] = s[0]; __threadfence(); last = atomicInc((unsigned *)&ticket[0], 3) == 3; }
  __syncthreads();
  if (last && t == 0) { float v = 0; for (int i = 0; i < 4; i++) v += ((volatile float *)part)[i]; out[0] = v; ticket[0] = 0; }
}

//: kind="last arrival" grid=1 block=128 args=i128,i128
extern "C" __global__ void last_thread(const int *in, int *o) {
  __shared__ int done; __shared__ int part[128];
  if (threadIdx.x == 0) done = 0;
  __syncthreads();
  part[threadIdx.x] = in[threadIdx.x];
  __threadfence_block();
  if (atomicAdd(&done, 1) == 127) { __threadfence_block(); int s = 0; for (int i = 0; i < 128; i++) s += ((volatile int *)part)[i]; o[0] = s; }
}

//: kind="look before an update" grid=1 block=64 args=i64,i64
extern "C" __global__ void relax(const int *w, int *dist) {
  int i = threadIdx.x, d = w[i] + 1;
  if (d < dist[i / 4]) atomicMin(&dist[i / 4], d);
}

//: kind="atomics" grid=1 block=64 args=i64,i64
extern "C" __global__ void push_front(int *next, int *head) {
  int i = threadIdx.x;
  next[i] = atomicExch(&head[0], i);
}

//: kind="equal values" grid=1 block=64 args=f64,f64
extern "C" __global__ void same_value_then(const float *in, float *out) {
  __shared__ int n;
  n = 7;
  __syncthreads();
  atomicAdd(&n, 1);
  __syncthreads();
  out[threadIdx.x] = n;
}

//: kind="padding" grid=1 block=64 args=u512,u512,f64
extern "C" __global__ void structs(Particle *p, Particle *q, float *out) {
  __shared__ Particle s[64];
  int i = threadIdx.x;
  p[i].x = i; p[i].w = 1; p[i].alive = 1;
  Particle mine = p[i];
  s[i] = mine;
  __syncthreads();
  q[i] = s[63 - i];
  Particle back = q[i];
  out[i] = back.x + back.w + back.alive;
}

//: kind="padding" grid=1 block=64 args=u512,f64
extern "C" __global__ void mixed(Mixed *p, float *out) {
  __shared__ Mixed s[2][64];
  int i = threadIdx.x;
  s[0][i].c = 1; s[0][i].d = 2; s[0][i].s = 3;
  __syncthreads();
  Mixed m = s[0][63 - i];
  p[i] = m;
  Mixed k = p[i];
  out[i] = k.c + k.d + k.s;
}

//: kind="padding" grid=1 block=64 args=u512,f64
extern "C" __global__ void nodes(Node *p, float *out) {
  int i = threadIdx.x;
  p[i].key = i; p[i].next = i < 63 ? &p[i + 1] : nullptr;
  __syncthreads();
  Node n = p[i];
  int sum = n.key;
  for (int k = 0; k < 3 && n.next; k++) { n = *n.next; sum += n.key; }
  out[i] = sum;
}

//: kind="own variables" grid=1 block=64 args=f64,f64
extern "C" __global__ void callee(const float *in, float *out) {
  float v[2] = {in[threadIdx.x], in[63 - threadIdx.x]};
  sort_two(v);
  __syncthreads();
  sort_two(v);
  out[threadIdx.x] = v[0];
}

//: kind="names" grid=1 block=64 args=f64,f64
extern "C" __global__ void names(const float *in, float *out) {
  __shared__ float tile[4][16];
  tile[0][threadIdx.x] = in[threadIdx.x];
  __syncthreads();
  float r[4] = {};
  for (int i = 0; i < 4; i++) { float tile[4] = {1, 2, 3, 4}; r[i] = tile[i]; }
  out[threadIdx.x] = tile[0][63 - threadIdx.x] + r[threadIdx.x & 3];
}

//: kind="atomics" grid=3 block=64 args=i192,i4,u192
extern "C" __global__ void compact(const int *in, int *n, int *out) {
  __shared__ int count, base;
  if (threadIdx.x == 0) count = 0;
  __syncthreads();
  int v = in[blockIdx.x * 64 + threadIdx.x], at = -1;
  if (v % 5 == 0) at = atomicAdd(&count, 1);
  __syncthreads();
  if (threadIdx.x == 0) base = atomicAdd(n, count);
  __syncthreads();
  if (at >= 0) out[base + at] = v;
}

//: kind="lock" grid=1 block=64 args=i64,i64
extern "C" __global__ void ticket_lock(int *lock, int *x) {
  bool done = false;
  int mine = atomicAdd(&lock[1], 1) - 1;
  while (!done) if (atomicAdd(&lock[0], 0) == mine) { __threadfence(); x[0] = x[0] + 1; __threadfence(); atomicAdd(&lock[0], 1); done = true; }
}

//: kind="last arrival" grid=1 block=64 args=i64,i64
extern "C" __global__ void reset_by_last(int *count, int *x) {
  if (threadIdx.x == 0) count[3] = 0;
  int old = atomicAdd(&count[0], 1);
  if (old == 63) count[0] = 0;
}

//: kind="discarded" grid=1 block=32 args=f64,f64
extern "C" __global__ void active(const float *in, float *out) {
  float v = in[threadIdx.x];
  if (threadIdx.x < 20) {
    unsigned m = __activemask();
    float t = __shfl_down_sync(m, v, 4);
    if (threadIdx.x + 4 < 20) v += t;
  }
  out[threadIdx.x] = v;
}

//: kind="discarded" grid=1 block=32 args=f64,f64
extern "C" __global__ void active2(const float *in, float *out) {
  float v = in[threadIdx.x];
  if (threadIdx.x < 20) {
    unsigned m = __ballot_sync(__activemask(), 1);
    float t = __shfl_up_sync(m, v, 2), u = __shfl_xor_sync(m, v, 16);
    v = threadIdx.x >= 2 ? v + t : v;
    if (threadIdx.x < 4) v += u;
  }
  out[threadIdx.x] = v;
}

//: kind="discarded" grid=1 block=32 args=f64,f64
extern "C" __global__ void one_line(const float *in, float *out) {
  float v = in[threadIdx.x];
  unsigned m = __ballot_sync(0xffffffff, threadIdx.x < 20);
  if (threadIdx.x < 20)
    for (int d = 16; d > 0; d /= 2) { float t = __shfl_down_sync(m, v, d); if (threadIdx.x + d < 20) v += t; }
  out[threadIdx.x] = v;
}

//: kind="single bytes" grid=2 block=33 args=i17,i17
extern "C" __global__ void bytes_beside_each_other(const unsigned char *in, unsigned char *out) {
  int i = blockIdx.x * 33 + threadIdx.x;
  out[i] = in[i] / 2;
  __syncthreads();
  out[i] += in[i + 1] > 99;
}

//: kind="turns" grid=4 block=32 args=i2
extern "C" __global__ void blocks_take_turns(volatile int *turn) {
  if (threadIdx.x) return;
  while (*turn != blockIdx.x) {}
  (*turn)++;
}

//: kind="turns" grid=4 block=32 args=i2,f4
extern "C" __global__ void blocks_number_themselves(volatile int *turn, float *out) {
  if (threadIdx.x) return;
  while (*turn != blockIdx.x) {}
  *turn = blockIdx.x + 1;
  out[blockIdx.x] = 1;
}

//: kind="lock" grid=1 block=64 args=i64,i64
extern "C" __global__ void lock_per_bin(int *locks, int *bins) {
  int b = threadIdx.x % 2;
  for (bool done = false; !done;)
    if (atomicCAS(&locks[b], b, -1) == b) {
      bins[b] += 1;
      atomicExch(&locks[b], b);
      done = true;
    }
}

//: kind="padding" grid=1 block=32 args=u512,u2048,u2048,u1024,u2048
extern "C" __global__ void members_set_one_by_one(Flagged *a, Point *b, Outer *c, Bits *d, Tagged *e) {
  __shared__ Flagged flagged[32]; __shared__ Point points[32]; __shared__ Outer outer[32]; __shared__ Bits bits[32]; __shared__ Tagged tagged[32];
  int i = threadIdx.x;
  flagged[i].kind = 1; flagged[i].value = 2;
  points[i].x = 1; points[i].y = 2; points[i].z = 3;
  outer[i].kind = 1; outer[i].inner.x = 2; outer[i].inner.w = 3; outer[i].inner.alive = 1; outer[i].last = 4;
  bits[i].low = 1; bits[i].high = 2; bits[i].rest = 3;
  tagged[i].tag = 1;
  if (i % 2) tagged[i].number.whole = 2; else tagged[i].number.letter = 3;
  pass_on(a, flagged); pass_on(b, points); pass_on(c, outer); pass_on(d, bits); pass_on(e, tagged);
}
