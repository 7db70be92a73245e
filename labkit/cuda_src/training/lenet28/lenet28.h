// lenet28: sizes, weights and values, for all files of this folder.
//
//     image [SIDE,SIDE] -> c1 [MAPS,C1,C1]: a mask of K x K and a bias per map, sigmoid
//                       -> s1 [MAPS,S1,S1]: one filter of POOL x POOL for all maps, stride POOL, one bias, sigmoid
//                       -> f [CLASSES]: fully connected, a bias per class, sigmoid
//
// The loss of an image is the sum over the classes of the binary cross-entropy between f and the target, 1 for the
// image's class and 0 for the others. Its derivative with respect to the value before the last sigmoid is f - target.
//
// SIDE, K, MAPS, POOL and CLASSES are given to the compiler; C1 has to be a multiple of POOL.
#pragma once

constexpr int C1 = SIDE - K + 1, S1 = C1 / POOL;            // sides of the maps
constexpr int PIXELS = SIDE * SIDE, POSITIONS = C1 * C1;    // of an image, of a map of c1
constexpr int OUTPUTS = MAPS * POSITIONS, FEATURES = MAPS * S1 * S1;    // values of c1, of s1
static_assert(C1 > 0 && C1 % POOL == 0, "POOL has to divide SIDE - K + 1");
static_assert(1 <= K && 1 <= MAPS && 1 <= POOL && 1 <= CLASSES);

// The parameters, and in the same form the gradient: the loss's derivative with respect to each, summed over a batch.
struct Weights {
    float c1[MAPS][K][K], c1_bias[MAPS];
    float s1[POOL][POOL], s1_bias;
    float f[CLASSES][FEATURES], f_bias[CLASSES];
};
constexpr int PARAMETERS = sizeof(Weights) / sizeof(float);

// What the passes compute for an image: the values after each sigmoid, and the loss's derivatives (d_) with respect to
// the values before it.
struct Values {
    float c1[MAPS][C1][C1], s1[MAPS][S1][S1], f[CLASSES];
    float d_c1[MAPS][C1][C1], d_s1[MAPS][S1][S1], d_f[CLASSES];
};

__device__ inline float sigmoid(float z) { return 1 / (1 + expf(-z)); }

// The derivative of the sigmoid, from its result.
__device__ inline float slope(float y) { return y * (1 - y); }

// The sum of a value over the 32 lanes of a warp; lane 0 has it.
__device__ inline float warp_sum(float value)
{
    for (int offset = 16; offset > 0; offset /= 2)
        value += __shfl_down_sync(0xffffffff, value, offset);
    return value;
}
