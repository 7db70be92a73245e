// Neighbours: stencils, convolutions, relaxations.

#define RADIUS 3
#define TILE 16
__constant__ float weights[2 * RADIUS + 1];
__constant__ float mask2d[5][5];

extern "C" {

__global__ void stencil_1d(const int *in, int *out, int n)
{
    __shared__ int s[256 + 2 * RADIUS];
    int i = blockIdx.x * blockDim.x + threadIdx.x, at = threadIdx.x + RADIUS;
    s[at] = i < n ? in[i] : 0;
    if (threadIdx.x < RADIUS) {
        s[at - RADIUS] = i - RADIUS >= 0 ? in[i - RADIUS] : 0;
        s[at + blockDim.x] = i + blockDim.x < n ? in[i + blockDim.x] : 0;
    }
    __syncthreads();
    int sum = 0;
    for (int d = -RADIUS; d <= RADIUS; d++) sum += s[at + d];
    if (i < n) out[i] = sum;
}

__global__ void convolution_1d(const float *in, float *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float sum = 0.0f;
    for (int d = -RADIUS; d <= RADIUS; d++)
        if (i + d >= 0 && i + d < n) sum += in[i + d] * weights[d + RADIUS];
    out[i] = sum;
}

// The threads of a block load a tile with its halo; the inner ones compute.
__global__ void convolution_2d(const float *in, float *out, int height, int width)
{
    __shared__ float tile[TILE][TILE];
    int x = blockIdx.x * (TILE - 4) + threadIdx.x - 2, y = blockIdx.y * (TILE - 4) + threadIdx.y - 2;
    tile[threadIdx.y][threadIdx.x] = x >= 0 && x < width && y >= 0 && y < height ? in[y * width + x] : 0.0f;
    __syncthreads();
    int tx = threadIdx.x - 2, ty = threadIdx.y - 2;
    if (x < 0 || x >= width || y < 0 || y >= height || tx < 0 || tx >= TILE - 4 || ty < 0 || ty >= TILE - 4) return;
    float sum = 0.0f;
    for (int i = 0; i < 5; i++)
        for (int j = 0; j < 5; j++) sum += mask2d[i][j] * tile[ty + i][tx + j];
    out[y * width + x] = sum;
}

__global__ void convolution_rows(const float *in, float *out, int height, int width)
{
    extern __shared__ float row[];
    const float *from = in + blockIdx.x * width;
    for (int x = threadIdx.x; x < width + 2 * RADIUS; x += blockDim.x)
        row[x] = x >= RADIUS && x < width + RADIUS ? from[x - RADIUS] : 0.0f;
    __syncthreads();
    for (int x = threadIdx.x; x < width; x += blockDim.x) {
        float sum = 0.0f;
        #pragma unroll
        for (int d = 0; d <= 2 * RADIUS; d++) sum += row[x + d] * weights[d];
        out[blockIdx.x * width + x] = sum;
    }
}

__global__ void heat_step(const float *now, float *next, int width, int height, float speed)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height) return;
    int i = y * width + x, left = x > 0 ? i - 1 : i, right = x < width - 1 ? i + 1 : i;
    int up = y > 0 ? i - width : i, down = y < height - 1 ? i + width : i;
    next[i] = now[i] + speed * (now[up] + now[down] + now[left] + now[right] - 4.0f * now[i]);
}

// Each thread walks along z and keeps its column in registers.
__global__ void laplace_3d(const float *in, float *out, int nx, int ny, int nz)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x + 1, y = blockIdx.y * blockDim.y + threadIdx.y + 1;
    if (x >= nx - 1 || y >= ny - 1) return;
    int plane = nx * ny, i = y * nx + x;
    float below = in[i], here = in[i + plane], above;
    for (int z = 1; z < nz - 1; z++) {
        i += plane;
        above = in[i + plane];
        out[i] = below + above + in[i - 1] + in[i + 1] + in[i - nx] + in[i + nx] - 6.0f * here;
        below = here;
        here = above;
    }
}

__global__ void jacobi(const float *A, const float *b, const float *x, float *next, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float sum = b[i];
    for (int j = 0; j < n; j++)
        if (j != i) sum -= A[i * n + j] * x[j];
    next[i] = sum / A[i * n + i];
}

__global__ void red_black(float *u, const float *f, int width, int height, int colour)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x + 1, y = blockIdx.y * blockDim.y + threadIdx.y + 1;
    if (x >= width - 1 || y >= height - 1 || (x + y) % 2 != colour) return;
    int i = y * width + x;
    u[i] = 0.25f * (u[i - 1] + u[i + 1] + u[i - width] + u[i + width] - f[i]);
}

__global__ void median_3x3(const unsigned char *in, unsigned char *out, int width, int height)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < 1 || y < 1 || x >= width - 1 || y >= height - 1) return;
    unsigned char v[9];
    for (int i = 0; i < 9; i++) v[i] = in[(y + i / 3 - 1) * width + x + i % 3 - 1];
    for (int i = 0; i < 5; i++) {
        int least = i;
        for (int j = i + 1; j < 9; j++)
            if (v[j] < v[least]) least = j;
        unsigned char swap = v[i];
        v[i] = v[least];
        v[least] = swap;
    }
    out[y * width + x] = v[4];
}

}
