// y = relu(x + b) for x [B,C,H,W] in float: what follows a convolution, in one pass over memory.
//
// Launch: a block per map of an image, B * C of them, so that a thread needs no division to find its channel.

extern "C" __global__
void bias_relu(const float *x, const float *b, float *y, int C, int area)
{
    const size_t first = (size_t)blockIdx.x * area;         // the block's map
    const float bias = b[blockIdx.x % C];
    for (int i = threadIdx.x; i < area; i += blockDim.x) {
        const float v = x[first + i] + bias;
        y[first + i] = v < 0 ? 0 : v;                       // NaN stays NaN, as in torch.relu
    }
}
