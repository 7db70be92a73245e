// 14a lanes apart: neighbouring threads add to neighbouring parameters.
//
// The 26 parameters of a map are the inner index, its positions the outer one. So the lanes of a warp add to up to 26
// addresses side by side: a few sectors, and no lane waits for another one of the same address but at the end of a row.

#include "lenet28.h"    // sizes, Weights and Values

extern "C" __global__ void bp_weight_c1(const float *images, const int *order, const Values *values,
                                        Weights *gradient, int)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x, b = blockIdx.y;
    if (i >= MAPS * (K * K + 1) * POSITIONS) return;
#ifdef SKELETON
    const int m = i / ((K * K + 1) * POSITIONS), t = i / POSITIONS % (K * K + 1), p = t / K, q = t % K;
    const int h = i / C1 % C1, w = i % C1;
#else
    const int m = i / ((K * K + 1) * POSITIONS), t = i % (K * K + 1), p = t / K, q = t % K;
    const int n = i / (K * K + 1), h = n / C1 % C1, w = n % C1;
#endif
    const float x = t < K * K ? images[(size_t)order[b] * PIXELS + (h + p) * SIDE + w + q] : 1;
    atomicAdd(t < K * K ? &gradient->c1[m][p][q] : &gradient->c1_bias[m], values[b].d_c1[m][h][w] * x);
}
