// 05a scatter: im2col reads each input once, and writes it to every place where it is needed.
//
// Of 05. A thread handles an input, not an output: element (row, column) of x is element (p, q) of the window
// at (row - p, column - q), for each p and q, if there is such a window.

extern "C" __global__
void im2col(const float *__restrict__ x, const float *__restrict__ k, float *__restrict__ u,
            int B, int C, int H, int W, int M, int)
{
    constexpr int K = FIXED_K;                              // the last argument, known to the compiler
    const int Ho = H - K + 1, Wo = W - K + 1;
    const int pixels = Ho * Wo;
#ifdef SKELETON
    const int n = blockIdx.x * blockDim.x + threadIdx.x;    // the output pixel: a column of u
#endif
    const int c = blockIdx.y;
    const int b = blockIdx.z;
#ifdef SKELETON
    if (n >= pixels) return;
#endif

    // From here on x is channel c of image b and u starts at that channel's first row.
    x += ((size_t)b * C + c) * H * W;
    u += ((size_t)b * C + c) * K * K * pixels;

#ifdef SKELETON
    const int h = n / Wo, w = n % Wo;
    #pragma unroll
    for (int p = 0; p < K; ++p)
        #pragma unroll
        for (int q = 0; q < K; ++q)
            u[(p * K + q) * pixels + n] = x[(h + p) * W + w + q];
#else
    // There are more inputs than outputs: each thread takes inputs that lie one whole grid apart.
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < H * W; i += gridDim.x * blockDim.x) {
        const float value = x[i];                           // read once
        const int row = i / W, column = i % W;
        #pragma unroll
        for (int p = 0; p < K; ++p)
            #pragma unroll
            for (int q = 0; q < K; ++q) {
                const int h = row - p, w = column - q;      // the window in which it is element (p, q)
                if (0 <= h && h < Ho && 0 <= w && w < Wo)
                    u[(p * K + q) * pixels + h * Wo + w] = value;
            }
    }
#endif
}

extern "C" __global__
void gemm(const float *__restrict__ u, const float *__restrict__ k, float *__restrict__ y,
          int B, int C, int H, int W, int M, int)
{
    constexpr int K = FIXED_K;                              // the last argument, known to the compiler
    __shared__ float k_tile[TILE][TILE], u_tile[TILE][TILE];
    const int Ho = H - K + 1, Wo = W - K + 1;
    const int pixels = Ho * Wo, depth = C * K * K;          // y [M,pixels] = k [M,depth] u [depth,pixels]
    const int n = blockIdx.x * TILE + threadIdx.x;
    const int m = blockIdx.y * TILE + threadIdx.y;
    const int b = blockIdx.z;

    // From here on u and y are the matrices of image b.
    u += (size_t)b * depth * pixels;
    y += (size_t)b * M * pixels;

    float sum = 0;
    for (int step = 0; step < depth; step += TILE) {
        const int column = step + threadIdx.x;              // of k
        k_tile[threadIdx.y][threadIdx.x] = m < M && column < depth ? k[m * depth + column] : 0;
        const int row = step + threadIdx.y;                 // of u
        u_tile[threadIdx.y][threadIdx.x] = row < depth && n < pixels ? u[row * pixels + n] : 0;
        __syncthreads();                                    // both tiles are complete
        #pragma unroll
        for (int i = 0; i < TILE; ++i)
            sum += k_tile[threadIdx.y][i] * u_tile[i][threadIdx.x];
        __syncthreads();                                    // all threads have read them: next step
    }
    if (m < M && n < pixels)
        y[m * pixels + n] = sum;
}
