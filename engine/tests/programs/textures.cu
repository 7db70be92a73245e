// Samples textures in every mode and writes what it read as floats to the file argv[1]; test_textures.py has the formulas.
#include <cstdio>
#include <vector>
#include <cuda_runtime.h>

#define CHECK(call)                                                                                              \
    do {                                                                                                         \
        cudaError_t error = (call);                                                                              \
        if (error != cudaSuccess) printf("%s:%d %s\n", __FILE__, __LINE__, cudaGetErrorString(error)), exit(1);  \
    } while (0)

const int W = 8, H = 4, D = 2, N = 96;
struct Place { float x, y, z; };

// Multiples of 1/8192 from 3 texels before to 3 texels behind the texture: exact in float, also over a power of two.
__host__ __device__ Place place(int i, bool normalized)
{
    Place p = {(i * 1201 % 114688 - 24576) / 8192.0f, (i * 907 % 81920 - 24576) / 8192.0f, (i * 541 % 65536 - 24576) / 8192.0f};
    if (normalized) p.x /= W, p.y /= H, p.z /= D;
    return p;
}
__global__ void lines(cudaTextureObject_t t, float *out, bool normalized)
{
    out[threadIdx.x] = tex1D<float>(t, place(threadIdx.x, normalized).x);
}
template <class T> __global__ void planes(cudaTextureObject_t t, T *out, bool normalized)
{
    const Place p = place(threadIdx.x, normalized);
    out[threadIdx.x] = tex2D<T>(t, p.x, p.y);
}
__global__ void boxes(cudaTextureObject_t t, float *out, bool normalized)
{
    const Place p = place(threadIdx.x, normalized);
    out[threadIdx.x] = tex3D<float>(t, p.x, p.y, p.z);
}
template <class T> __global__ void fetched(cudaTextureObject_t t, T *out) { out[threadIdx.x] = tex1Dfetch<T>(t, (int)threadIdx.x - 8); }
__global__ void turned(cudaSurfaceObject_t from, cudaSurfaceObject_t to)
{
    const int x = threadIdx.x - 1, y = threadIdx.y - 1;   // a place beyond each edge
    float value = surf2Dread<float>(from, x * sizeof value, y, cudaBoundaryModeClamp), beyond;
    surf2Dread(&beyond, from, x * sizeof value, y, cudaBoundaryModeZero);
    surf2Dwrite(value + 100 * beyond, to, (W - 1 - x) * sizeof value, H - 1 - y, cudaBoundaryModeZero);
}

FILE *file;
std::vector<float> floats(W * H * D * 4);
std::vector<unsigned char> bytes(W * H * D * 4);

template <class T> void keep(const T *device, int n)
{
    std::vector<T> host(n);
    CHECK(cudaMemcpy(host.data(), device, n * sizeof(T), cudaMemcpyDeviceToHost));
    fwrite(host.data(), sizeof(T), n, file);
}
template <class T> cudaArray_t array(const void *data, int width, int height, int depth)
{
    cudaArray_t a;
    const cudaChannelFormatDesc desc = cudaCreateChannelDesc<T>();
    CHECK(cudaMalloc3DArray(&a, &desc, make_cudaExtent(width, height, depth), cudaArraySurfaceLoadStore));
    cudaMemcpy3DParms copy = {};
    copy.srcPtr = make_cudaPitchedPtr((void *)data, width * sizeof(T), width, height ? height : 1);
    copy.dstArray = a, copy.kind = cudaMemcpyHostToDevice;
    copy.extent = make_cudaExtent(width, height ? height : 1, depth ? depth : 1);
    CHECK(cudaMemcpy3D(&copy));
    return a;
}

int main(int argc, char **argv)
{
    file = fopen(argv[1], "wb");
    for (int i = 0; i < (int)floats.size(); i++) floats[i] = i * 37 % 101 - 40, bytes[i] = i * 53 % 256;
    float *out, *rows;
    size_t pitch;
    CHECK(cudaMalloc(&out, N * sizeof(float4)));
    CHECK(cudaMallocPitch(&rows, &pitch, W * sizeof(float4), H));
    CHECK(cudaMemcpy2D(rows, pitch, floats.data(), W * sizeof(float4), W * sizeof(float4), H, cudaMemcpyHostToDevice));
    cudaResourceDesc from[5] = {};
    from[0].res.array.array = array<float>(floats.data(), W, 0, 0);
    from[1].res.array.array = array<float>(floats.data(), W, H, 0);
    from[2].resType = cudaResourceTypePitch2D;
    from[2].res.pitch2D = {rows, cudaCreateChannelDesc<float4>(), W, H, pitch};
    from[3].res.array.array = array<uchar4>(bytes.data(), W, H, 0);
    from[4].res.array.array = array<float>(floats.data(), W, H, D);
    for (int mode = 0; mode < 16; mode++) {
        cudaTextureDesc how = {};
        how.filterMode = (cudaTextureFilterMode)(mode & 1), how.normalizedCoords = mode >> 1 & 1;
        for (auto &each : how.addressMode) each = (cudaTextureAddressMode)(mode >> 2);
        for (int i = 0; i < 4; i++) how.borderColor[i] = 0.5f + i;
        for (int i = 0; i < 5; i++) {
            cudaTextureObject_t t;
            how.readMode = i == 3 ? cudaReadModeNormalizedFloat : cudaReadModeElementType;
            CHECK(cudaCreateTextureObject(&t, &from[i], &how, NULL));
            if (i == 0) lines<<<1, N>>>(t, out, how.normalizedCoords);
            if (i == 1) planes<<<1, N>>>(t, out, how.normalizedCoords);
            if (i == 2 || i == 3) planes<<<1, N>>>(t, (float4 *)out, how.normalizedCoords);
            if (i == 4) boxes<<<1, N>>>(t, out, how.normalizedCoords);
            keep(out, i == 2 || i == 3 ? 4 * N : N);
            CHECK(cudaDestroyTextureObject(t));
        }
    }

    cudaTextureDesc how = {};
    cudaTextureObject_t t;
    CHECK(cudaCreateTextureObject(&t, &from[3], &how, NULL));
    planes<<<1, N>>>(t, (uchar4 *)out, false);
    keep((uchar4 *)out, N);

    cudaResourceDesc linear = {};
    linear.resType = cudaResourceTypeLinear;
    linear.res.linear = {rows, cudaCreateChannelDesc<float>(), W * sizeof(float4)};
    CHECK(cudaCreateTextureObject(&t, &linear, &how, NULL));
    fetched<<<1, 64>>>(t, out);
    keep(out, 64);
    signed char *small;
    CHECK(cudaMalloc(&small, 96));
    CHECK(cudaMemcpy(small, bytes.data(), 96, cudaMemcpyHostToDevice));
    linear.res.linear = {small, cudaCreateChannelDesc<char2>(), 96};
    how.readMode = cudaReadModeNormalizedFloat;
    CHECK(cudaCreateTextureObject(&t, &linear, &how, NULL));
    fetched<<<1, 64>>>(t, (float2 *)out);
    keep((float2 *)out, 64);

    cudaResourceDesc target = {};
    target.res.array.array = array<float>(floats.data(), W, H, 0);
    cudaSurfaceObject_t a, b;
    CHECK(cudaCreateSurfaceObject(&a, &from[1]));
    CHECK(cudaCreateSurfaceObject(&b, &target));
    turned<<<1, dim3(W + 2, H + 2)>>>(a, b);
    CHECK(cudaMemcpy2DFromArray(floats.data(), W * sizeof(float), target.res.array.array, 0, 0, W * sizeof(float), H,
                                cudaMemcpyDeviceToHost));
    fwrite(floats.data(), sizeof(float), W * H, file);
    fclose(file);
}
