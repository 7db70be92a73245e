// lenet86 training: one step of gradient descent on a batch, forward and backward.
//
// Idea      Max-pooling passes a gradient to one element of each window. A convolution therefore keeps, per window,
//           only the maximum and where it was, and its output is never stored. Backward, the two gradients of the
//           convolution visit windows in place of outputs: 4 or 16 times fewer. No kernel needs a barrier or an
//           atomic operation: each sum has one thread and one order, so that a training repeats bit for bit.
// Shapes    Row-major float32. x [B,C,H,W], k [M,C,K,K]; Ho = H-K+1, Wo = W-K+1; windows of WINDOW x WINDOW outputs,
//           Hp = Ho/WINDOW and Wp = Wo/WINDOW rounded up: a last window may extend beyond the edge. y [B,M,Hp,Wp] is
//           the pooled map, winner [B,M,Hp,Wp] (bytes) the maximum's place in its window, row by row.
//           A prefix d_ means the derivative of the mean loss of the batch by that array.
// Launch    1-D grid and blocks of any size, with as many threads as the comment of a kernel says, or more: the tail
//           is guarded. Compiled once per convolution layer: -DFIXED_C, -DFIXED_K, -DWINDOW, and -DACROSS, the windows
//           per thread of the first kernel.
// Requires  WINDOW <= 16, so that a byte holds a place. Fewer than 2^31 elements per array.

__device__ int my_element() { return blockIdx.x * blockDim.x + threadIdx.x; }
__device__ int rounded_up(int n, int by) { return (n + by - 1) / by; }

// ------------------------------------------------------------------------------------------------------- the images
// x [B,1,H,W] from images [N,h,w]: image chosen[b], bilinear, as seen through the affine map maps[b] [2,3] from the
// offsets of a pixel from the center, in units of the output's height and width, to those in the image. 0 beyond the
// image; within half a pixel of its edge, the edge's value. One thread per pixel of x.
extern "C" __global__ void sample(const float *__restrict__ images, const int *__restrict__ chosen,
                                  const float *__restrict__ maps, float *__restrict__ x,
                                  int B, int h, int w, int H, int W)
{
    const int i = my_element();
    if (i >= B * H * W) return;
    const int b = i / W / H;
    const float down = (i / W % H + 0.5f) / H - 0.5f, across = (i % W + 0.5f) / W - 0.5f;
    const float *map = maps + 6 * b;
    const float r = (map[0] * down + map[1] * across + map[2] + 0.5f) * h - 0.5f;      // row and column in the image
    const float s = (map[3] * down + map[4] * across + map[5] + 0.5f) * w - 0.5f;
    if (!(r >= -0.5f && r <= h - 0.5f && s >= -0.5f && s <= w - 0.5f)) {
        x[i] = 0;
        return;
    }
    const float inner_r = fminf(fmaxf(r, 0), h - 1), inner_s = fminf(fmaxf(s, 0), w - 1);
    const int top = inner_r, left = inner_s, bottom = min(top + 1, h - 1), right = min(left + 1, w - 1);
    const float below = inner_r - top, beside = inner_s - left;
    images += (size_t)chosen[b] * h * w;
    const float upper = images[top * w + left] * (1 - beside) + images[top * w + right] * beside;
    const float lower = images[bottom * w + left] * (1 - beside) + images[bottom * w + right] * beside;
    x[i] = upper * (1 - below) + lower * below;
}

// ---------------------------------------------------------------------------------------------------- the convolutions
// y = max-pool(ReLU(conv(x, k))) and winner. A thread computes the WINDOW rows of STRIP outputs under ACROSS windows
// side by side, in registers: B*M*Hp*ceil(Wp/ACROSS) threads. Each row of x that it loads serves WINDOW rows of outputs.
extern "C" __global__ void conv_relu_max_pool(const float *__restrict__ x, const float *__restrict__ k,
                                              float *__restrict__ y, unsigned char *__restrict__ winner,
                                              int B, int H, int W, int M)
{
    constexpr int C = FIXED_C, K = FIXED_K, STRIP = WINDOW * ACROSS;
    const int Ho = H - K + 1, Wo = W - K + 1, Hp = rounded_up(Ho, WINDOW), Wp = rounded_up(Wo, WINDOW);
    const int strips = rounded_up(Wp, ACROSS);
    const int t = my_element();
    if (t >= B * M * Hp * strips) return;
    const int first = t % strips * ACROSS, i = t / strips % Hp, m = t / strips / Hp % M, b = t / strips / Hp / M;
    const int h = i * WINDOW, w = first * WINDOW;           // the strip's first output
    x += (size_t)b * C * H * W;
    k += m * C * K * K;

    float sum[WINDOW][STRIP] = {};
    for (int c = 0; c < C; ++c)
        #pragma unroll 1
        for (int r = 0; r < WINDOW + K - 1 && h + r < H; ++r) {
            float row[STRIP + K - 1];
            #pragma unroll
            for (int s = 0; s < STRIP + K - 1; ++s)
                row[s] = w + s < W ? x[(c * H + h + r) * W + w + s] : 0;
            #pragma unroll
            for (int a = 0; a < WINDOW; ++a) {
                const int p = r - a;                        // the mask's row between output row a and input row r
                if (p < 0 || p >= K) continue;
                const float *weight = k + (c * K + p) * K;
                #pragma unroll
                for (int s = 0; s < STRIP; ++s)
                    #pragma unroll
                    for (int q = 0; q < K; ++q)
                        sum[a][s] += row[s + q] * weight[q];
            }
        }

    const int outputs = ((b * M + m) * Hp + i) * Wp;
    #pragma unroll
    for (int u = 0; u < ACROSS; ++u) {
        float best = -INFINITY;
        int place = 0;
        #pragma unroll
        for (int a = 0; a < WINDOW; ++a)
            #pragma unroll
            for (int s = 0; s < WINDOW; ++s) {
                const float v = sum[a][u * WINDOW + s];
                const bool inside = h + a < Ho && w + u * WINDOW + s < Wo;
                if (inside && (v > best || isnan(v))) {     // of equal ones the first; a NaN stays
                    best = v;
                    place = a * WINDOW + s;
                }
            }
        if (first + u < Wp) {
            y[outputs + first + u] = best < 0 ? 0 : best;
            winner[outputs + first + u] = place;
        }
    }
}

// partial [B,bands,M,C,K,K]: what an image's band of ceil(Hp/bands) rows of windows adds to d_k. d_y is 0 where the
// ReLU cut y off. A thread computes a row of K weights: B*bands*M*C*K threads.
extern "C" __global__ void conv_weight_gradient(const float *__restrict__ x, const float *__restrict__ d_y,
                                                const unsigned char *__restrict__ winner,
                                                float *__restrict__ partial, int B, int H, int W, int M, int bands)
{
    constexpr int C = FIXED_C, K = FIXED_K;
    const int Hp = rounded_up(H - K + 1, WINDOW), Wp = rounded_up(W - K + 1, WINDOW);
    const int t = my_element();
    if (t >= B * bands * M * C * K) return;
    const int p = t % K, c = t / K % C, m = t / K / C % M, band = t / K / C / M % bands, b = t / K / C / M / bands;
    const int rows = rounded_up(Hp, bands), last = min((band + 1) * rows, Hp);
    x += ((size_t)b * C + c) * H * W;
    const int map = (b * M + m) * Hp * Wp;

    float sum[K] = {};
    for (int i = band * rows; i < last; ++i)
        for (int j = 0; j < Wp; ++j) {
            const float d = d_y[map + i * Wp + j];
            const int place = winner[map + i * Wp + j];
            const float *under = x + (i * WINDOW + place / WINDOW + p) * W + j * WINDOW + place % WINDOW;
            #pragma unroll
            for (int q = 0; q < K; ++q)
                sum[q] += d * under[q];
        }
    #pragma unroll
    for (int q = 0; q < K; ++q)
        partial[(size_t)t * K + q] = sum[q];
}

// y [n] = the sum of the rows of x [rows,n], one thread per element: the second stage of a gradient's sum.
extern "C" __global__ void sum_rows(const float *__restrict__ x, float *__restrict__ y, int rows, int n)
{
    const int i = my_element();
    if (i >= n) return;
    float sum = 0;
    for (int r = 0; r < rows; ++r)
        sum += x[(size_t)r * n + i];
    y[i] = sum;
}

// d_x [B,C,H,W], 0 where x is: x is the pooled map of the layer before, whose ReLU passes no gradient there. An
// element collects from the windows whose winner has it under the mask. A thread computes an element of all C
// channels: B*H*W threads.
extern "C" __global__ void conv_data_gradient(const float *__restrict__ x, const float *__restrict__ k,
                                              const float *__restrict__ d_y, const unsigned char *__restrict__ winner,
                                              float *__restrict__ d_x, int B, int H, int W, int M)
{
    constexpr int C = FIXED_C, K = FIXED_K;
    const int Hp = rounded_up(H - K + 1, WINDOW), Wp = rounded_up(W - K + 1, WINDOW);
    const int t = my_element();
    if (t >= B * H * W) return;
    const int w = t % W, h = t / W % H, b = t / W / H;
    // The outputs that read this element: rows h-K+1 to h. The windows in which they lie:
    const int top = max(h - K + 1, 0) / WINDOW, bottom = min(h / WINDOW, Hp - 1);
    const int left = max(w - K + 1, 0) / WINDOW, right = min(w / WINDOW, Wp - 1);

    float sum[C] = {};
    for (int m = 0; m < M; ++m)
        for (int i = top; i <= bottom; ++i)
            for (int j = left; j <= right; ++j) {
                const int window = ((b * M + m) * Hp + i) * Wp + j, place = winner[window];
                const int p = h - i * WINDOW - place / WINDOW, q = w - j * WINDOW - place % WINDOW;
                if (p < 0 || p >= K || q < 0 || q >= K) continue;
                #pragma unroll
                for (int c = 0; c < C; ++c)
                    sum[c] += d_y[window] * k[((m * C + c) * K + p) * K + q];
            }
    #pragma unroll
    for (int c = 0; c < C; ++c) {
        const size_t at = (((size_t)b * C + c) * H + h) * W + w;
        d_x[at] = x[at] > 0 ? sum[c] : 0;
    }
}

// ------------------------------------------------------------------------------------------ the fully connected layers
// partial [parts,B,O]: the products of ceil(I/parts) inputs, x [B,I] times w [I,O]. parts*B*O threads.
extern "C" __global__ void fully_connected_parts(const float *__restrict__ x, const float *__restrict__ w,
                                                 float *__restrict__ partial, int B, int I, int O, int parts)
{
    const int t = my_element();
    if (t >= parts * B * O) return;
    const int o = t % O, b = t / O % B, each = rounded_up(I, parts), start = t / O / B * each;
    float sum = 0;
    for (int j = start; j < min(start + each, I); ++j)
        sum += x[b * I + j] * w[j * O + o];
    partial[t] = sum;
}

// y [B,O] = the sum of partial [parts,B,O] over its parts + bias [O], then ReLU if asked. B*O threads.
extern "C" __global__ void fully_connected_sum(const float *__restrict__ partial, const float *__restrict__ bias,
                                               float *__restrict__ y, int B, int O, int parts, int relu)
{
    const int i = my_element();
    if (i >= B * O) return;
    float sum = bias[i % O];
    for (int part = 0; part < parts; ++part)
        sum += partial[part * B * O + i];
    y[i] = relu && sum < 0 ? 0 : sum;
}

// d_w [I+1,O]: those of w, then those of the bias, whose input is 1. (I+1)*O threads.
extern "C" __global__ void fully_connected_weight_gradient(const float *__restrict__ x, const float *__restrict__ d_y,
                                                           float *__restrict__ d_w, int B, int I, int O)
{
    const int i = my_element();
    if (i >= (I + 1) * O) return;
    const int o = i % O, j = i / O;
    float sum = 0;
    for (int b = 0; b < B; ++b)
        sum += (j < I ? x[b * I + j] : 1) * d_y[b * O + o];
    d_w[i] = sum;
}

// d_x [B,I], 0 where x is: the ReLU before passes no gradient there. B*I threads.
extern "C" __global__ void fully_connected_data_gradient(const float *__restrict__ x, const float *__restrict__ w,
                                                         const float *__restrict__ d_y, float *__restrict__ d_x,
                                                         int B, int I, int O)
{
    const int i = my_element();
    if (i >= B * I) return;
    const int j = i % I, b = i / I;
    float sum = 0;
    for (int o = 0; o < O; ++o)
        sum += d_y[b * O + o] * w[j * O + o];
    d_x[i] = x[i] > 0 ? sum : 0;
}

// ------------------------------------------------------------------------------------------------- loss and descent
// Softmax and cross-entropy of scores [B,N]: loss [B] of each image, d_scores [B,N] of the mean loss, which is
// (probability - truth) / B. An image per thread. Without the maximum, exp overflows at 89.
extern "C" __global__ void softmax_cross_entropy(const float *__restrict__ scores, const int *__restrict__ labels,
                                                 const int *__restrict__ chosen, float *__restrict__ loss,
                                                 float *__restrict__ d_scores, int B, int N)
{
    const int b = my_element();
    if (b >= B) return;
    scores += b * N;
    d_scores += b * N;
    const int label = labels[chosen[b]];
    float most = scores[0], sum = 0;
    for (int j = 1; j < N; ++j)
        most = fmaxf(most, scores[j]);
    for (int j = 0; j < N; ++j)
        sum += expf(scores[j] - most);
    loss[b] = logf(sum) - (scores[label] - most);
    for (int j = 0; j < N; ++j)
        d_scores[j] = (expf(scores[j] - most) / sum - (j == label)) / B;
}

// Gradient descent with momentum: v = momentum v + g, w = w - rate v. One thread per weight.
extern "C" __global__ void descend(float *__restrict__ w, float *__restrict__ v, const float *__restrict__ g,
                                   float rate, float momentum, int n)
{
    const int i = my_element();
    if (i >= n) return;
    v[i] = momentum * v[i] + g[i];
    w[i] -= rate * v[i];
}
