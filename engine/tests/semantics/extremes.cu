// Prints what a device makes of inline PTX, intrinsics, atomics and textures at the edges of their values, as hexadecimal
// numbers. extremes.txt has what an H200 prints (CUDA 13.0). To compare with another card:
// nvcc -arch=sm_90 -std=c++17 extremes.cu && ./a.out | diff - extremes.txt
#include <cstdio>
#include <cstring>
#include <type_traits>

typedef unsigned long long ull;

__managed__ ull results[1000];
__managed__ int used;

template <class T> __device__ void put(T value) {
    ull bits = 0;
    memcpy(&bits, &value, sizeof value);
    if constexpr (std::is_floating_point_v<T>)
        if (value != value) bits = ~0ull;   // any NaN
    results[used++] = bits;
}

// ---- Conversions between integers: a 32-bit register is read with the source's sign ----
__global__ void conversions(int x, long long wide) {
    ull u;
    long long s;
    unsigned w;
    int i;
    asm("cvt.u64.u32 %0, %1;" : "=l"(u) : "r"(x)); put(u);
    asm("cvt.s64.s32 %0, %1;" : "=l"(s) : "r"(x)); put(s);
    asm("cvt.u32.u64 %0, %1;" : "=r"(w) : "l"(wide)); put(w);
    asm("cvt.s32.s64 %0, %1;" : "=r"(i) : "l"(wide)); put(i);
    asm("cvt.s32.s8 %0, %1;" : "=r"(i) : "r"(x)); put(i);
    asm("cvt.u32.u8 %0, %1;" : "=r"(w) : "r"(x)); put(w);
    asm("cvt.s32.s16 %0, %1;" : "=r"(i) : "r"(x)); put(i);
}

// ---- .ftz: subnormal inputs and results are zeros with their sign ----
#define ONE(instruction, a) asm(instruction " %0, %1;" : "=f"(r) : "f"(a)); put(r)
#define TWO(instruction, a, b) asm(instruction " %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b)); put(r)
__global__ void flushes(float small, float least, float zero) {
    float r;
    TWO("add.ftz.f32", small, small); TWO("add.f32", small, small); TWO("add.ftz.f32", -small, zero); TWO("sub.ftz.f32", least, small);
    TWO("mul.ftz.f32", least, 0.5f); TWO("mul.f32", least, 0.5f); TWO("mul.ftz.f32", -least, 0.5f); TWO("mul.ftz.f32", small, 1e30f);
    TWO("max.ftz.f32", small, -1.0f); TWO("max.f32", small, -1.0f); TWO("min.ftz.f32", small, 1.0f); TWO("min.ftz.f32", -small, zero);
    TWO("max.f32", zero, -zero); TWO("max.f32", -zero, zero); TWO("min.f32", zero, -zero); TWO("min.f32", -zero, zero);
    TWO("max.f32", NAN, 1.0f); TWO("min.f32", 1.0f, NAN);
    ONE("abs.ftz.f32", -small); ONE("neg.ftz.f32", small);
    ONE("sqrt.approx.ftz.f32", small); ONE("sqrt.approx.ftz.f32", -small); ONE("rcp.approx.ftz.f32", small); ONE("rcp.approx.ftz.f32", -small);
    ONE("rcp.approx.ftz.f32", 0x1p127f); ONE("rsqrt.approx.ftz.f32", small); ONE("lg2.approx.ftz.f32", small);
    ONE("ex2.approx.ftz.f32", -127.0f); ONE("ex2.approx.f32", -127.0f); ONE("ex2.approx.ftz.f32", small); ONE("ex2.approx.ftz.f32", -126.0f);
    asm("fma.rn.ftz.f32 %0, %1, %2, %3;" : "=f"(r) : "f"(least), "f"(0.5f), "f"(zero)); put(r);
    int below;
    asm("{ .reg .pred p; setp.lt.ftz.f32 p, %1, %2; selp.s32 %0, 1, 0, p; }" : "=r"(below) : "f"(zero), "f"(small)); put(below);
}

// ---- Fast intrinsics: x to the power of y is 2 to the power of y log2(x); a quotient by more than 2^126 is 0 ----
__global__ void intrinsics(float one, float zero) {
    put(__powf(-2 * one, 3.0f)), put(__powf(zero, zero)), put(__powf(zero, 2.0f)), put(__powf(zero, -2.0f)), put(__powf(2 * one, 3.0f));
    put(__powf(one, INFINITY)), put(__powf(INFINITY * one, zero)), put(__powf(4 * one, 0.5f));
    put(__fdividef(0x1p100f, 0x1p127f * one)), put(__fdividef(-0x1p100f, 0x1.8p126f * one)), put(__fdividef(0x1p100f, 0x1p126f * one));
    put(__fdividef(INFINITY * one, 0x1p127f)), put(__fdividef(one, INFINITY)), put(__fdividef(one, zero));
}

// ---- Float atomics: in global memory subnormal numbers are zeros, in shared memory they are kept ----
__global__ void atomics(float *d, float small, float least) {
    __shared__ float s;
    s = small;
    put(atomicAdd(&d[0], small)), put(d[0]);              // subnormal: 0 + small
    put(atomicAdd(&d[1], small)), put(d[1]);              // small + small
    put(atomicAdd(&d[2], 1.0f)), put(d[2]);               // small + 1
    put(atomicAdd(&d[3], -least)), put(d[3]);             // 1.5 least - least
    put(atomicAdd(&s, small)); put(s);
}

// ---- The nearest texel of a mirrored row of 4: at the edges of texels, and between ----
__global__ void mirror(cudaTextureObject_t t) {
    for (int i = -9; i <= 17; i++) put(tex2D<float>(t, i / 8.0f, 0.5f));
}

__global__ void nothing() {}

int main() {
    const float small = 1e-40f, least = 1.17549435e-38f, at[4] = {0, small, small, 1.5f * least}, texels[4] = {0, 1, 2, 3};
    conversions<<<1, 1>>>(-131, -4294967297ll);
    flushes<<<1, 1>>>(small, least, 0.0f);
    intrinsics<<<1, 1>>>(1.0f, 0.0f);
    float *d;
    cudaMalloc(&d, sizeof at);
    cudaMemcpy(d, at, sizeof at, cudaMemcpyHostToDevice);
    atomics<<<1, 1>>>(d, small, least);
    cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
    cudaResourceDesc row = {};
    row.resType = cudaResourceTypeArray;
    cudaMallocArray(&row.res.array.array, &format, 4, 1);
    cudaMemcpy2DToArray(row.res.array.array, 0, 0, texels, sizeof texels, sizeof texels, 1, cudaMemcpyHostToDevice);
    cudaTextureDesc mirrored = {};
    mirrored.addressMode[0] = cudaAddressModeMirror;
    mirrored.normalizedCoords = 1;
    cudaTextureObject_t texture;
    cudaCreateTextureObject(&texture, &row, &mirrored, nullptr);
    mirror<<<1, 1>>>(texture);
    cudaDeviceSynchronize();
    for (int i = 0; i < used; i++) printf("%llx%c", results[i], i % 8 == 7 ? '\n' : ' ');
    printf("\n");
    // Launches that the device does not have, as CUDA 13 answers them.
    nothing<<<1, 2048>>>();
    printf("2048 threads: %s\n", cudaGetErrorName(cudaGetLastError()));
    nothing<<<dim3(1, 65536), 1>>>();
    printf("65536 rows of blocks: %s\n", cudaGetErrorName(cudaGetLastError()));
    nothing<<<0, 1>>>();
    printf("no block: %s\n", cudaGetErrorName(cudaGetLastError()));
    nothing<<<1, dim3(1, 1, 65)>>>();
    printf("65 layers of threads: %s\n", cudaGetErrorName(cudaGetLastError()));
    nothing<<<1, 1, 1 << 20>>>();
    printf("1 MB of shared memory: %s\n", cudaGetErrorName(cudaGetLastError()));
}
