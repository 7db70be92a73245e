// 05 pixel major: u is stored with a row per pixel, not a column.
//
// Wanted    The window of a pixel in one piece: im2col writes C*K*K values in a row, and the product reads rows of both
//           matrices. But the lanes of a warp of im2col are now C*K*K words apart.
// Launch    As rung 05, both kernels.

extern "C" __global__
void im2col(const float *__restrict__ x, const float *__restrict__ k, float *__restrict__ u,
            int B, int C, int H, int W, int M, int)
{
    constexpr int K = FIXED_K;                              // the last argument, known to the compiler
    const int Ho = H - K + 1, Wo = W - K + 1;
    const int pixels = Ho * Wo;
    const int n = blockIdx.x * blockDim.x + threadIdx.x;    // the output pixel: a column of u
    const int c = blockIdx.y;
    const int b = blockIdx.z;
    if (n >= pixels) return;

    // From here on x is channel c of image b and u the part of that channel in the row of pixel n.
    x += ((size_t)b * C + c) * H * W;
    u += (((size_t)b * pixels + n) * C + c) * K * K;

    const int h = n / Wo, w = n % Wo;
    #pragma unroll
    for (int p = 0; p < K; ++p)
        #pragma unroll
        for (int q = 0; q < K; ++q)
            u[p * K + q] = x[(h + p) * W + w + q];
}

extern "C" __global__
void gemm(const float *__restrict__ u, const float *__restrict__ k, float *__restrict__ y,
          int B, int C, int H, int W, int M, int)
{
    constexpr int K = FIXED_K;                              // the last argument, known to the compiler
    __shared__ float k_tile[TILE][TILE], u_tile[TILE][TILE + 1];    // u_tile is read along its columns
    const int Ho = H - K + 1, Wo = W - K + 1;
    const int pixels = Ho * Wo, depth = C * K * K;          // y [M,pixels] = k [M,depth] times u [pixels,depth]
    const int n = blockIdx.x * TILE + threadIdx.x;
    const int m = blockIdx.y * TILE + threadIdx.y;
    const int b = blockIdx.z;

    // From here on u and y are the matrices of image b.
    u += (size_t)b * depth * pixels;
    y += (size_t)b * M * pixels;

    float sum = 0;
    for (int step = 0; step < depth; step += TILE) {
        const int column = step + threadIdx.x;              // of k, and of u
        const int pixel = blockIdx.x * TILE + threadIdx.y;
        k_tile[threadIdx.y][threadIdx.x] = m < M && column < depth ? k[m * depth + column] : 0;
        u_tile[threadIdx.y][threadIdx.x] = pixel < pixels && column < depth ? u[pixel * depth + column] : 0;
        __syncthreads();                                    // both tiles are complete
        #pragma unroll
        for (int i = 0; i < TILE; ++i)
            sum += k_tile[threadIdx.y][i] * u_tile[threadIdx.x][i];
        __syncthreads();                                    // all threads have read them: next step
    }
    if (m < M && n < pixels)
        y[m * pixels + n] = sum;
}
