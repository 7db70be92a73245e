// 06 elements: im2col computes every element of u from its row and its column.
//
// Idea      Row (c, p, q) of u holds element (c, p, q) of every window. So the row and the column of an
//           element of u tell which element of x it is: it can be computed without the others.
// Delta     from 05: im2col has a block for 256 elements of one row of u instead of a loop over K*K rows.
// Shapes    x [B,C,H,W], k [M,C,K,K], u [B,C*K*K,Ho*Wo], y [B,M,Ho,Wo], float32, row-major; Ho = H-K+1, Wo
//           = W-K+1.
// Launch    im2col: grid (pixels / 256, C*K*K, B), block (256).   x, k, u
//           gemm:   grid (pixels / TILE, M / TILE, B), block (TILE, TILE).   u, k, y. Shared memory: 8
//                   TILE^2 bytes.
// Requires  C*K*K, M/TILE and B <= 65535. Compiled once for each K and TILE. The host calls both for as many
//           images at a time as u has room for.

extern "C" __global__
void im2col(const float *__restrict__ x, const float *__restrict__ k, float *__restrict__ u,
            int B, int C, int H, int W, int M, int)
{
    constexpr int K = FIXED_K;                              // the last argument, known to the compiler
    const int Ho = H - K + 1, Wo = W - K + 1;
    const int pixels = Ho * Wo;
    const int n = blockIdx.x * blockDim.x + threadIdx.x;    // the output pixel: a column of u
    const int row = blockIdx.y;                             // of u: element (c, p, q) of a window
    const int b = blockIdx.z;
    const int h = n / Wo, w = n % Wo;
    const int c = row / (K * K), p = row / K % K, q = row % K;
    x += (size_t)b * C * H * W;                             // image b
    u += (size_t)b * C * K * K * pixels;                    // its matrix
    if (n < pixels)
        u[row * pixels + n] = x[(c * H + h + p) * W + w + q];
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
