// 05b skip: threads without a map leave the product out.
//
// Of 05, as the step skip. A tile has TILE rows and layer 1 has four maps, so six of a block's eight warps
// multiply zeros. They still load their part of u_tile, and they reach both barriers.

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

    // From here on x is channel c of image b and u starts at that channel's first row.
    x += ((size_t)b * C + c) * H * W;
    u += ((size_t)b * C + c) * K * K * pixels;

    const int h = n / Wo, w = n % Wo;
    #pragma unroll
    for (int p = 0; p < K; ++p)
        #pragma unroll
        for (int q = 0; q < K; ++q)
            u[(p * K + q) * pixels + n] = x[(h + p) * W + w + q];
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
#ifdef SKELETON
        #pragma unroll
        for (int i = 0; i < TILE; ++i)
            sum += k_tile[threadIdx.y][i] * u_tile[i][threadIdx.x];
#else
        if (m < M) {                                        // otherwise the row does not exist
            #pragma unroll
            for (int i = 0; i < TILE; ++i)
                sum += k_tile[threadIdx.y][i] * u_tile[i][threadIdx.x];
        }
#endif
        __syncthreads();                                    // all threads have read them: next step
    }
    if (m < M && n < pixels)
        y[m * pixels + n] = sum;
}
