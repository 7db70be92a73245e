// Random numbers of both generators, their subsequences, and the distributions.
#include <curand_kernel.h>

template <class State>
__device__ void draw(State s, unsigned *integers, float *uniform, float *normal, double *wide, int n)
{
    State a = s, b = s, c = s, d = s;
    for (int i = 0; i < n; i++) {
        integers[i] = curand(&a);
        uniform[i] = curand_uniform(&b);
        normal[i] = curand_normal(&c);
        wide[i] = i % 2 ? curand_normal_double(&d) : curand_uniform_double(&d);
    }
}

extern "C" {

__global__ void xorwow(unsigned long long seed, unsigned long long offset, unsigned *integers, float *uniform,
                       float *normal, double *wide, int n)
{
    curandState s;
    curand_init(seed, threadIdx.x, offset, &s);
    int at = threadIdx.x * n;
    draw(s, integers + at, uniform + at, normal + at, wide + at, n);
}

__global__ void philox(unsigned long long seed, unsigned long long offset, unsigned *integers, float *uniform,
                       float *normal, double *wide, int n)
{
    curandStatePhilox4_32_10_t s;
    curand_init(seed, threadIdx.x, offset, &s);
    int at = threadIdx.x * n;
    draw(s, integers + at, uniform + at, normal + at, wide + at, n);
}

__global__ void fours(unsigned long long offset, uint4 *integers, float4 *uniform)
{
    curandStatePhilox4_32_10_t s;
    curand_init(7, 3, offset, &s);
    integers[0] = curand4(&s);
    integers[1] = curand4(&s);
    uniform[0] = curand_uniform4(&s);
}

__global__ void block_cipher(const uint4 *counter, const uint2 *key, uint4 *out)
{
    out[threadIdx.x] = curand_Philox4x32_10(counter[threadIdx.x], key[threadIdx.x]);
}

__global__ void ahead(unsigned long long n, unsigned *out)
{
    curandState s;
    curand_init(1, 0, 0, &s);
    skipahead(n, &s);
    skipahead_sequence(2, &s);
    out[0] = curand(&s);
}

}
