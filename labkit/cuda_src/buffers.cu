// Finds the images of a buffer that hold a NaN: a benchmark fills the output with NaN before it runs a kernel.
//
// nan_images: found[b] = 1 if image b of y holds a NaN: all bits of the exponent are set, and others below them.
// n elements of `bytes` bytes (4: float, 2: half), `image` elements per image; one thread per element. The host
// clears found [B] before.

extern "C" __global__ void nan_images(const void *y, int *found, long long n, long long image, int bytes)
{
    const size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const bool nan = bytes == 4 ? (((const unsigned *)y)[i] & 0x7fffffff) > 0x7f800000
                                : (((const unsigned short *)y)[i] & 0x7fff) > 0x7c00;
    if (nan) found[i / image] = 1;
}
