// lenet28, one_launch: one block trains on one image after the other.
//
// Idea      A step's kernels are short, and each has to be launched. A single block can do all of them: barriers take
//           the place of launches, and weights and values stay in shared memory. One multiprocessor works; on one
//           image the others had little to do.
// Delta     from together: barriers between the passes, updates in place, a loop over the images.
// Launch    One block of whole warps. count images, one update after each.
// Requires  Weights, Values and an image fit into 48 KB. values gets those of the last image.

#include "lenet28.h"

extern "C" __global__ void train(const float *images, const int *labels, const int *order, Weights *weights,
                                 Values *values, float rate, int count)
{
    __shared__ Weights net;
    __shared__ Values v;
    __shared__ float image[SIDE][SIDE];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    float *const s1 = &v.s1[0][0][0], *const d_s1 = &v.d_s1[0][0][0];

    for (int i = threadIdx.x; i < PARAMETERS; i += blockDim.x)
        ((float *)&net)[i] = ((float *)weights)[i];
    for (int step = 0; step < count; ++step) {
        for (int n = threadIdx.x; n < PIXELS; n += blockDim.x)
            (&image[0][0])[n] = images[(size_t)order[step] * PIXELS + n];
        const int label = labels[order[step]];
        __syncthreads();                                        // the image and the weights are complete

        for (int i = threadIdx.x; i < OUTPUTS; i += blockDim.x) {
            const int m = i / POSITIONS, h = i / C1 % C1, w = i % C1;
            float sum = net.c1_bias[m];
            #pragma unroll
            for (int p = 0; p < K; ++p)
                #pragma unroll
                for (int q = 0; q < K; ++q)
                    sum += image[h + p][w + q] * net.c1[m][p][q];
            v.c1[m][h][w] = sigmoid(sum);
        }
        __syncthreads();
        for (int i = threadIdx.x; i < FEATURES; i += blockDim.x) {
            const int m = i / (S1 * S1), h = i / S1 % S1, w = i % S1;
            float sum = net.s1_bias;
            #pragma unroll
            for (int p = 0; p < POOL; ++p)
                #pragma unroll
                for (int q = 0; q < POOL; ++q)
                    sum += v.c1[m][h * POOL + p][w * POOL + q] * net.s1[p][q];
            s1[i] = sigmoid(sum);
        }
        __syncthreads();
        for (int o = warp; o < CLASSES; o += warps) {
            float sum = 0;
            for (int j = lane; j < FEATURES; j += 32)
                sum += s1[j] * net.f[o][j];
            sum = warp_sum(sum);
            if (lane == 0) {
                v.f[o] = sigmoid(sum + net.f_bias[o]);
                v.d_f[o] = v.f[o] - (label == o);
            }
        }
        __syncthreads();
        for (int j = threadIdx.x; j < FEATURES; j += blockDim.x) {
            float sum = 0;
            #pragma unroll
            for (int o = 0; o < CLASSES; ++o) {
                sum += net.f[o][j] * v.d_f[o];
                net.f[o][j] -= rate * (v.d_f[o] * s1[j]);       // read above, by this thread alone
            }
            d_s1[j] = sum * slope(s1[j]);
        }
        for (int o = threadIdx.x; o < CLASSES; o += blockDim.x)
            net.f_bias[o] -= rate * v.d_f[o];
        __syncthreads();
        for (int i = threadIdx.x; i < OUTPUTS; i += blockDim.x) {
            const int m = i / POSITIONS, h = i / C1 % C1, w = i % C1;
            v.d_c1[m][h][w] = v.d_s1[m][h / POOL][w / POOL] * net.s1[h % POOL][w % POOL] * slope(v.c1[m][h][w]);
        }
        __syncthreads();
        for (int t = warp; t <= POOL * POOL; t += warps) {      // t = POOL * POOL: the bias
            const int p = t / POOL, q = t % POOL;
            float sum = 0;
            for (int j = lane; j < FEATURES; j += 32)
                sum += d_s1[j] * (t < POOL * POOL ? v.c1[j / (S1 * S1)][j / S1 % S1 * POOL + p][j % S1 * POOL + q] : 1);
            sum = warp_sum(sum);
            if (lane == 0) *(t < POOL * POOL ? &net.s1[p][q] : &net.s1_bias) -= rate / (t < POOL * POOL ? 1 : FEATURES) * sum;
        }
        for (int i = warp; i < MAPS * (K * K + 1); i += warps) {
            const int m = i / (K * K + 1), t = i % (K * K + 1), p = t / K, q = t % K;   // t = K * K: the bias
            float sum = 0;
            for (int n = lane; n < POSITIONS; n += 32)
                sum += v.d_c1[m][n / C1][n % C1] * (t < K * K ? image[n / C1 + p][n % C1 + q] : 1);
            sum = warp_sum(sum);
            if (lane == 0) *(t < K * K ? &net.c1[m][p][q] : &net.c1_bias[m]) -= rate / POSITIONS * sum;
        }
        __syncthreads();                                        // the image is no longer read
    }
    for (int i = threadIdx.x; i < PARAMETERS; i += blockDim.x)
        ((float *)weights)[i] = ((float *)&net)[i];
    for (int i = threadIdx.x; i < (int)(sizeof(Values) / sizeof(float)); i += blockDim.x)
        ((float *)values)[i] = ((float *)&v)[i];
}
