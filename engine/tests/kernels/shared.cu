struct alignas(64) Cell { float value[3]; int count; Cell() {} };
template <class T, int N> __device__ T *scratch() { __shared__ T room[N]; return room; }
__shared__ short outside[5];

extern "C" __global__ void write_at(const float *x, int at) {
    __shared__ float s[128];
    s[threadIdx.x] = 0;
    __syncthreads();
    if (threadIdx.x == 0) s[at] = x[0];
    __syncthreads();
    if (s[threadIdx.x] == 5) __trap();
}
extern "C" __global__ void read_at(const float *x, float *y, int at) {
    __shared__ float s[128];
    s[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    y[threadIdx.x] = s[threadIdx.x + at];
}
extern "C" __global__ void odd_sizes(int which, int past) {
    __shared__ char first[33];
    __shared__ double second[3][7];
    __shared__ char last[3];
    char *arrays[] = {first, (char *)second, last};
    unsigned bytes[] = {sizeof first, sizeof second, sizeof last};
    for (int i = threadIdx.x; i < bytes[which]; i += blockDim.x) arrays[which][i] = 1;
    __syncthreads();
    if (threadIdx.x == 0 && blockIdx.x == 2) arrays[which][past < 0 ? past : (int)bytes[which] + past] = 1;
    __syncthreads();
}
extern "C" __global__ void sized(int at) {
    extern __shared__ char bytes[];
    bytes[threadIdx.x] = 1;
    __syncthreads();
    if (threadIdx.x == 0) bytes[at] = 1;
}
extern "C" __global__ void all_kinds(int *y) {
    __shared__ Cell cells[32];
    __shared__ __align__(1024) float line[32];
    __shared__ dim3 size;
    extern __shared__ int more[];
    int t = threadIdx.x, *small = scratch<int, 32>();
    long long *large = scratch<long long, 32>();
    cells[t].count = t;
    line[t] = t;
    small[t] = t;
    large[t] = t;
    more[t] = t;
    if (t < 5) outside[t] = t;
    __syncthreads();
    int u = 31 - t;
    bool aligned = (size_t)cells % 64 == 0 && (size_t)line % 1024 == 0 && (size_t)more % 256 == 0;
    int sum = cells[u].count + (int)line[u] + small[u] + (int)large[u] + more[u] + (t < 5 ? outside[4 - t] : 0);
    y[t] = aligned ? sum : -1;
}
extern "C" __global__ void as_float4(float *y) {
    __shared__ float odd[7], four[64];
    odd[threadIdx.x % 7] = 0;
    ((float4 *)four)[threadIdx.x] = make_float4(1, 2, 3, 4);
    __syncthreads();
    y[threadIdx.x] = four[4 * threadIdx.x + 3] + odd[0];
}
