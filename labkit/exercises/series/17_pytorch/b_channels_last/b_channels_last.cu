// 17b channels last: y = relu(x + b) of a tensor whose channels lie side by side.
//
// x and y [B,area,C] in memory, float32, which PyTorch calls channels_last; b [C]. Launch: any grid in x, block 256.

extern "C" __global__
void bias_relu(const float *x, const float *b, float *y, int n, int C, int area)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
#ifdef SKELETON
        const int pixel = i % area, c = i / area % C, image = i / (area * C);
        const int at = (image * area + pixel) * C + c;
#else
        const int c = i % C, at = i;
#endif
        const float v = x[at] + b[c];
        y[at] = v < 0 ? 0 : v;
    }
}
