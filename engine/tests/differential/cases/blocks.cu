// Blocks of several dimensions and odd sizes, several blocks, dynamic shared memory, early returns.

// case plane: block 8 4, grid 2 3
__global__ void plane(unsigned *out, const unsigned *in, int n) {
    __shared__ unsigned s[4][8];
    s[threadIdx.y][threadIdx.x] = in[threadIdx.y * 8 + threadIdx.x + blockIdx.x];
    __syncthreads();
    const unsigned block = blockIdx.y * gridDim.x + blockIdx.x;
    out[(block * 4 + threadIdx.y) * 8 + threadIdx.x] = s[3 - threadIdx.y][threadIdx.x ^ 1] + block;
}
// case space: block 3 5 2, grid 2 1 2
__global__ void space(unsigned *out, const unsigned *in, int n) {
    __shared__ unsigned s[30];
    const unsigned t = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    s[t] = in[t] + blockIdx.z;
    __syncthreads();
    unsigned v = s[29 - t];
    __syncthreads();
    s[t] = v * threadIdx.z;
    __syncthreads();
    out[(blockIdx.z * gridDim.x + blockIdx.x) * 30 + t] = v + s[(t + 7) % 30];
}
// case odd: block 33
__global__ void odd(unsigned *out, const unsigned *in, int n) {
    __shared__ unsigned s[33];
    s[threadIdx.x] = in[threadIdx.x];
    __syncthreads();
    out[threadIdx.x] = s[32 - threadIdx.x] + s[threadIdx.x / 2];
}
// case alone: block 1, grid 3
__global__ void alone(unsigned *out, const unsigned *in, int n) {
    unsigned v = in[blockIdx.x];
    __syncthreads();
    v += n;
    __syncthreads();
    out[blockIdx.x] = v;
}
// case full: block 1024
__global__ void full(unsigned *out, const unsigned *in, int n) {
    __shared__ unsigned s[1024];
    unsigned v = in[threadIdx.x];
    s[threadIdx.x] = v;
    __syncthreads();
    v += s[1023 - threadIdx.x];
    __syncthreads();
    out[threadIdx.x] = v;
}
// case carved: shared 768
__global__ void carved(unsigned *out, const unsigned *in, int n) {
    extern __shared__ unsigned carved_memory[];
    unsigned *a = carved_memory, *b = a + 64;
    float *c = reinterpret_cast<float *>(&b[64]);
    a[threadIdx.x] = in[threadIdx.x];
    b[63 - threadIdx.x] = threadIdx.x;
    c[threadIdx.x] = 0.5f * n;
    __syncthreads();
    out[threadIdx.x] = a[b[threadIdx.x]] + b[threadIdx.x ^ 1] + __float_as_uint(c[threadIdx.x ^ 2]);
}
// case carved_bytes: shared 320
__global__ void carved_bytes(unsigned *out, const unsigned *in, int n) {
    extern __shared__ char carved_bytes_memory[];
    unsigned *words = (unsigned *)carved_bytes_memory;
    char *bytes = carved_bytes_memory + 4 * blockDim.x;
    words[threadIdx.x] = in[threadIdx.x];
    bytes[threadIdx.x] = threadIdx.x;
    __syncthreads();
    out[threadIdx.x] = words[bytes[63 - threadIdx.x]] + bytes[threadIdx.x ^ 5];
}
// case dynamic_struct: shared 512
struct Entry { unsigned key, value; };
__global__ void dynamic_struct(unsigned *out, const unsigned *in, int n) {
    extern __shared__ Entry dynamic_struct_memory[];
    Entry &mine = dynamic_struct_memory[threadIdx.x];
    mine.key = in[threadIdx.x];
    mine.value = threadIdx.x;
    __syncthreads();
    const Entry other = dynamic_struct_memory[63 - threadIdx.x];
    __syncthreads();
    mine.value += other.key;
    __syncthreads();
    out[threadIdx.x] = dynamic_struct_memory[threadIdx.x ^ 1].value + other.value;
}
// case returns_early
__global__ void returns_early(unsigned *out, const unsigned *in, int n) {
    __shared__ unsigned s[64];
    s[threadIdx.x] = in[threadIdx.x];
    if (threadIdx.x >= 50) return;
    __syncthreads();
    const unsigned v = s[(threadIdx.x + 1) % 50];
    __syncthreads();
    s[threadIdx.x] = v;
    __syncthreads();
    out[threadIdx.x] = s[49 - threadIdx.x];
}
// case returns_one_by_one
__global__ void returns_one_by_one(unsigned *out, const unsigned *in, int n) {
    unsigned v = threadIdx.x;
    if (in[threadIdx.x] % 5 == 0) { out[threadIdx.x] = 1; return; }
    __syncthreads();
    v += 3;
    if (in[threadIdx.x] % 5 == 1) { out[threadIdx.x] = v; return; }
    __syncthreads();
    {
        unsigned v = n;
        v *= threadIdx.x;
        if (in[threadIdx.x] % 5 == 2) return;
        __syncthreads();
        out[threadIdx.x + 64] = v;
    }
    out[threadIdx.x] = v * 2;
}
// case returns_in_a_loop
__global__ void returns_in_a_loop(unsigned *out, const unsigned *in, int n) {
    unsigned v = in[threadIdx.x];
    for (int i = 0; i < n; ++i) {
        if ((v >> i & 7) == 5) return;
        __syncthreads();
        v = v * 3 + i;
    }
    out[threadIdx.x] = v;
}
// case all_return: grid 4
__global__ void all_return(unsigned *out, const unsigned *in, int n) {
    if (blockIdx.x == 2) return;
    unsigned v = in[threadIdx.x];
    __syncthreads();
    if (n == static_cast<int>(blockIdx.x)) return;
    __syncthreads();
    out[blockIdx.x * 64 + threadIdx.x] = v;
}
// case guarded_by_size
__global__ void guarded_by_size(unsigned *out, const unsigned *in, int n) {
    __shared__ unsigned s[64];
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x, size = 10 * n;
    s[threadIdx.x] = i < size ? in[i] : 0;
    __syncthreads();
    if (i < size) out[i] = s[threadIdx.x] + (threadIdx.x > 0 ? s[threadIdx.x - 1] : 0);
}
// case matrix: block 16 16
__global__ void matrix(unsigned *out, const unsigned *in, int n) {
    __shared__ float a[16][17], b[16][17];
    float sum = 0;
    for (int tile = 0; tile < n; ++tile) {
        a[threadIdx.y][threadIdx.x] = in[tile * 256 + threadIdx.y * 16 + threadIdx.x];
        b[threadIdx.y][threadIdx.x] = in[tile * 256 + threadIdx.x * 16 + threadIdx.y];
        __syncthreads();
        for (int k = 0; k < 16; ++k) sum += a[threadIdx.y][k] * b[k][threadIdx.x];
        __syncthreads();
    }
    out[threadIdx.y * 16 + threadIdx.x] = __float_as_uint(sum);
}
// case transposed: block 8 8, grid 2 2
__global__ void transposed(unsigned *out, const unsigned *in, int n) {
    __shared__ unsigned tile[8][9];
    unsigned x = blockIdx.x * 8 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y;
    tile[threadIdx.y][threadIdx.x] = in[y * 16 + x];
    __syncthreads();
    x = blockIdx.y * 8 + threadIdx.x;
    y = blockIdx.x * 8 + threadIdx.y;
    out[y * 16 + x] = tile[threadIdx.x][threadIdx.y];
}
// case histogram: block 96, grid 2
__global__ void histogram(unsigned *out, const unsigned *in, int n) {
    __shared__ unsigned bins[16];
    if (threadIdx.x < 16) bins[threadIdx.x] = 0;
    __syncthreads();
    for (int i = threadIdx.x; i < 500; i += blockDim.x) atomicAdd(&bins[in[i] >> 12], 1u);
    __syncthreads();
    if (threadIdx.x < 16) atomicAdd(&out[threadIdx.x], bins[threadIdx.x]);
}
// case dimensions_as_values: block 6 3 2
__global__ void dimensions_as_values(unsigned *out, const unsigned *in, int n) {
    const dim3 size = blockDim;
    const uint3 at = threadIdx;
    __shared__ unsigned s[36];
    const unsigned t = (at.z * size.y + at.y) * size.x + at.x;
    s[t] = at.x * 100 + at.y * 10 + at.z;
    __syncthreads();
    out[t] = s[size.x * size.y * size.z - 1 - t];
}
