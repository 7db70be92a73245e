// One thread per element: vectors, images, cellular automata.

extern "C" {

__global__ void vector_add(const float *a, const float *b, float *c, int n)
{
    int i = blockDim.x * blockIdx.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}

__global__ void saxpy(int n, float a, const float *__restrict__ x, float *__restrict__ y)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) y[i] = a * x[i] + y[i];
}

__global__ void add_float4(const float *a, const float *b, float *c, int n)
{
    int i = 4 * (blockIdx.x * blockDim.x + threadIdx.x);
    if (i + 3 < n) {
        float4 x = *reinterpret_cast<const float4 *>(a + i), y = __ldg(reinterpret_cast<const float4 *>(b + i));
        *reinterpret_cast<float4 *>(c + i) = make_float4(x.x + y.x, x.y + y.y, x.z + y.z, x.w + y.w);
    } else {
        for (; i < n; i++) c[i] = a[i] + b[i];
    }
}

__global__ void matrix_add(const float *a, const float *b, float *c, int rows, int columns)
{
    int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row < rows && column < columns) c[row * columns + column] = a[row * columns + column] + b[row * columns + column];
}

__global__ void rgb_to_gray(const uchar3 *rgb, unsigned char *gray, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    uchar3 p = rgb[i];
    gray[i] = (unsigned char)((77 * p.x + 150 * p.y + 29 * p.z) >> 8);
}

__global__ void box_blur(const float *in, float *out, int width, int height, int radius)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height) return;
    float sum = 0.0f;
    int count = 0;
    for (int dy = -radius; dy <= radius; dy++)
        for (int dx = -radius; dx <= radius; dx++)
            if (x + dx >= 0 && x + dx < width && y + dy >= 0 && y + dy < height) {
                sum += in[(y + dy) * width + x + dx];
                count++;
            }
    out[y * width + x] = sum / count;
}

__global__ void sobel(const float *in, float *out, int width, int height)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < 1 || y < 1 || x >= width - 1 || y >= height - 1) return;
    auto at = [=](int dx, int dy) { return in[(y + dy) * width + x + dx]; };
    float gx = at(1, -1) + 2 * at(1, 0) + at(1, 1) - at(-1, -1) - 2 * at(-1, 0) - at(-1, 1);
    float gy = at(-1, 1) + 2 * at(0, 1) + at(1, 1) - at(-1, -1) - 2 * at(0, -1) - at(1, -1);
    out[y * width + x] = sqrtf(gx * gx + gy * gy);
}

__global__ void mandelbrot(int *steps, int width, int height, float left, float top, float pixel, int most)
{
    int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
    if (column >= width || row >= height) return;
    double cx = left + column * (double)pixel, cy = top - row * (double)pixel, x = 0.0, y = 0.0;
    int n = 0;
    while (n < most && x * x + y * y <= 4.0) {
        double next = __dadd_rn(__dsub_rn(__dmul_rn(x, x), __dmul_rn(y, y)), cx);
        y = __dadd_rn(__dmul_rn(2.0 * x, y), cy);
        x = next;
        n++;
    }
    steps[row * width + column] = n;
}

__global__ void game_of_life(const unsigned char *now, unsigned char *next, int width, int height)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height) return;
    int alive = 0;
    for (int dy = -1; dy <= 1; dy++)
        for (int dx = -1; dx <= 1; dx++)
            if (dx || dy) alive += now[(y + dy + height) % height * width + (x + dx + width) % width];
    next[y * width + x] = alive == 3 || (alive == 2 && now[y * width + x]);
}

__global__ void activations(const float *x, float *relu, float *gelu, float *silu, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float v = x[i];
    relu[i] = fmaxf(v, 0.0f);
    gelu[i] = 0.5f * v * (1.0f + tanhf(0.7978845608f * (v + 0.044715f * v * v * v)));
    silu[i] = v / (1.0f + __expf(-v));
}

__global__ void xor_cipher(const char *text, char *out, int n, unsigned key)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = text[i] ^ (char)(key >> 8 * (i & 3));
}

__global__ void crc32(const unsigned char *data, int bytes, unsigned *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned crc = ~0u;
    for (int b = 0; b < bytes; b++) {
        crc ^= data[i * bytes + b];
        for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0u);
    }
    out[i] = ~crc;
}

}
