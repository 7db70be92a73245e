// 17a one addition: the gradients of y = relu(x + b), with one atomic addition per warp.
//
// dx is dy where y is positive, db[c] is the sum of dx over all images and pixels of channel c. dy, y and dx [B,C,area],
// float32; db [C] is zero before. Launch: a block per map of an image, B * C of them; block 256.

extern "C" __global__
void gradients(const float *dy, const float *y, float *dx, float *db, int C, int area)
{
    const size_t first = (size_t)blockIdx.x * area;         // the block's map
#ifdef SKELETON
#else
    float sum = 0;
#endif
    for (int i = threadIdx.x; i < area; i += blockDim.x) {
        const float g = dy[first + i], d = y[first + i] <= 0 ? 0 : g;
        dx[first + i] = d;
#ifdef SKELETON
        atomicAdd(&db[blockIdx.x % C], d);
#else
        sum += d;
#endif
    }
#ifdef SKELETON
#else
    for (int apart = 16; apart > 0; apart /= 2)             // a tree over the lanes of a warp
        sum += __shfl_down_sync(0xffffffff, sum, apart);
    if (threadIdx.x % 32 == 0)
        atomicAdd(&db[blockIdx.x % C], sum);
#endif
}
