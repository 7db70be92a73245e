// Rungs 01, 03, 04 and 06 in OpenCL C: labkit/cuda_src, with the words of OpenCL for those of CUDA. FIXED_K and TILE
// are defined by the host. Shapes: x [B,C,H,W], k [M,C,K,K], y [B,M,Ho,Wo], float32, row-major; Ho = H-K+1, Wo = W-K+1.
#define SIZES int B, int C, int H, int W, int M, int K_argument

// The output of this work-item, as in rung 01; from there on x is image b and y its output map m.
#define OUTPUT                                                           \
    const int Ho = H - K + 1, Wo = W - K + 1;                            \
    const int tiles = (Wo + get_local_size(0) - 1) / get_local_size(0);  \
    const int h = get_group_id(0) / tiles * get_local_size(1) + get_local_id(1); \
    const int w = get_group_id(0) % tiles * get_local_size(0) + get_local_id(0); \
    const int m = get_group_id(1);                                       \
    const int b = get_group_id(2);

kernel void baseline(global const float *x, global const float *k, global float *y, SIZES)
{
    const int K = K_argument;
    OUTPUT
    if (h >= Ho || w >= Wo) return;
    x += (size_t)b * C * H * W;
    y += ((size_t)b * M + m) * Ho * Wo;
    y[h * Wo + w] = 0;
    for (int c = 0; c < C; ++c)
        for (int p = 0; p < K; ++p)
            for (int q = 0; q < K; ++q)
                y[h * Wo + w] += x[(c * H + h + p) * W + w + q] * k[((m * C + c) * K + p) * K + q];
}

#define K FIXED_K

kernel void registers(global const float *restrict x, constant float *restrict mask, global float *restrict y, SIZES)
{
    OUTPUT
    if (h >= Ho || w >= Wo) return;
    x += (size_t)b * C * H * W;
    y += ((size_t)b * M + m) * Ho * Wo;
    float sum = 0;
    for (int c = 0; c < C; ++c)
        #pragma unroll
        for (int p = 0; p < K; ++p)
            #pragma unroll
            for (int q = 0; q < K; ++q)
                sum += x[(c * H + h + p) * W + w + q] * mask[((m * C + c) * K + p) * K + q];
    y[h * Wo + w] = sum;
}

#define SIDE (TILE + K - 1)

kernel void tiling(global const float *restrict x, constant float *restrict mask, global float *restrict y, SIZES)
{
    local float tile[SIDE][SIDE];
    const int tx = get_local_id(0), ty = get_local_id(1);
    OUTPUT
    x += (size_t)b * C * H * W;
    y += ((size_t)b * M + m) * Ho * Wo;
    float sum = 0;
    for (int c = 0; c < C; ++c) {
        for (int i = 0; i < SIDE; i += TILE)
            for (int j = 0; j < SIDE; j += TILE)
                if (ty + i < SIDE && tx + j < SIDE)
                    tile[ty + i][tx + j] = h + i < H && w + j < W ? x[(c * H + h + i) * W + w + j] : 0;
        barrier(CLK_LOCAL_MEM_FENCE);
        #pragma unroll
        for (int p = 0; p < K; ++p)
            #pragma unroll
            for (int q = 0; q < K; ++q)
                sum += tile[ty + p][tx + q] * mask[((m * C + c) * K + p) * K + q];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (h < Ho && w < Wo) y[h * Wo + w] = sum;
}

kernel void fusion(global const float *restrict x, global const float *restrict k, global float *restrict y, SIZES)
{
    local float k_tile[TILE][TILE], u_tile[TILE][TILE];
    const int Ho = H - K + 1, Wo = W - K + 1;
    const int pixels = Ho * Wo, depth = C * K * K;
    const int tx = get_local_id(0), ty = get_local_id(1);
    const int n = get_group_id(0) * TILE + tx;
    const int m = get_group_id(1) * TILE + ty;
    const int b = get_group_id(2);
    x += (size_t)b * C * H * W;
    y += (size_t)b * M * pixels;
    const int h = n / Wo, w = n % Wo;
    float sum = 0;
    for (int step = 0; step < depth; step += TILE) {
        const int column = step + tx;
        k_tile[ty][tx] = m < M && column < depth ? k[m * depth + column] : 0;
        const int row = step + ty;
        const int c = row / (K * K), p = row / K % K, q = row % K;
        u_tile[ty][tx] = row < depth && n < pixels ? x[(c * H + h + p) * W + w + q] : 0;
        barrier(CLK_LOCAL_MEM_FENCE);
        #pragma unroll
        for (int i = 0; i < TILE; ++i)
            sum += k_tile[ty][i] * u_tile[i][tx];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (m < M && n < pixels) y[m * pixels + n] = sum;
}
