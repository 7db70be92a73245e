// Physics, finance, statistics: N bodies, Monte Carlo, clusters, dynamic programming.
#include <curand_kernel.h>

extern "C" {

__global__ void nbody_forces(const float4 *body, float3 *acceleration, int n, float softening)
{
    extern __shared__ float4 tile[];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float4 me = i < n ? body[i] : make_float4(0, 0, 0, 0);
    float3 a = make_float3(0.0f, 0.0f, 0.0f);
    for (int first = 0; first < n; first += blockDim.x) {
        tile[threadIdx.x] = first + threadIdx.x < n ? body[first + threadIdx.x] : make_float4(0, 0, 0, 0);
        __syncthreads();
        for (int j = 0; j < blockDim.x; j++) {
            float dx = tile[j].x - me.x, dy = tile[j].y - me.y, dz = tile[j].z - me.z;
            float inverse = rsqrtf(dx * dx + dy * dy + dz * dz + softening), s = tile[j].w * inverse * inverse * inverse;
            a.x += dx * s;
            a.y += dy * s;
            a.z += dz * s;
        }
        __syncthreads();
    }
    if (i < n) acceleration[i] = a;
}

__global__ void leapfrog(float4 *position, float4 *velocity, const float3 *acceleration, float step, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float4 v = velocity[i], x = position[i];
    v.x += step * acceleration[i].x, v.y += step * acceleration[i].y, v.z += step * acceleration[i].z;
    x.x += step * v.x, x.y += step * v.y, x.z += step * v.z;
    velocity[i] = v, position[i] = x;
}

__global__ void random_setup(curandState *state, unsigned long long seed)
{
    int id = threadIdx.x + blockIdx.x * blockDim.x;
    curand_init(seed, id, 0, &state[id]);
}

__global__ void monte_carlo_pi(curandState *state, unsigned long long *inside, int samples)
{
    int id = threadIdx.x + blockIdx.x * blockDim.x;
    curandState mine = state[id];
    unsigned long long count = 0;
    for (int i = 0; i < samples; i++) {
        float x = curand_uniform(&mine), y = curand_uniform(&mine);
        count += x * x + y * y <= 1.0f;
    }
    state[id] = mine;
    atomicAdd(inside, count);
}

__global__ void dropout(const float *x, float *y, unsigned char *kept, float keep, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    curandStatePhilox4_32_10_t state;
    curand_init(42, i, 0, &state);
    kept[i] = curand_uniform(&state) <= keep;
    y[i] = kept[i] ? x[i] / keep : 0.0f;
}

__global__ void black_scholes(const float *price, const float *strike, const float *years, float *call, float *put, float rate,
                              float volatility, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float root = sqrtf(years[i]), d1 = (logf(price[i] / strike[i]) + (rate + 0.5f * volatility * volatility) * years[i]) / (volatility * root);
    float d2 = d1 - volatility * root, worth = strike[i] * expf(-rate * years[i]);
    call[i] = price[i] * normcdff(d1) - worth * normcdff(d2);
    put[i] = worth * normcdff(-d2) - price[i] * normcdff(-d1);
}

__global__ void kmeans_assign(const float2 *point, const float2 *centre, int *cluster, float *sum_x, float *sum_y, int *count,
                              int points, int clusters)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= points) return;
    float best = INFINITY;
    int nearest = 0;
    for (int c = 0; c < clusters; c++) {
        float dx = point[i].x - centre[c].x, dy = point[i].y - centre[c].y, d = dx * dx + dy * dy;
        if (d < best) best = d, nearest = c;
    }
    cluster[i] = nearest;
    atomicAdd(&sum_x[nearest], point[i].x);
    atomicAdd(&sum_y[nearest], point[i].y);
    atomicAdd(&count[nearest], 1);
}

// The longest common subsequence: one diagonal of the table after the other.
__global__ void common_subsequence(const char *a, int m, const char *b, int n, int *table)
{
    int pitch = n + 1;
    for (int diagonal = 2; diagonal <= m + n; diagonal++) {
        for (int i = max(1, diagonal - n) + (int)threadIdx.x; i <= min(m, diagonal - 1); i += blockDim.x) {
            int j = diagonal - i;
            table[i * pitch + j] = a[i - 1] == b[j - 1] ? table[(i - 1) * pitch + j - 1] + 1
                                                        : max(table[(i - 1) * pitch + j], table[i * pitch + j - 1]);
        }
        __syncthreads();
    }
}

__global__ void knapsack_row(const int *before, int *after, int weight, int value, int capacity)
{
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    if (c > capacity) return;
    after[c] = c >= weight ? max(before[c], before[c - weight] + value) : before[c];
}

// A filter of the first order as a scan of linear maps, in a warp.
__global__ void recursive_filter(const float *x, float *y, float a, int n)
{
    float carry = 0.0f;
    for (int first = 0; first < n; first += 32) {
        int i = first + threadIdx.x;
        float factor = a, sum = i < n ? x[i] : 0.0f;
        for (int delta = 1; delta < 32; delta *= 2) {
            float f = __shfl_up_sync(~0u, factor, delta), s = __shfl_up_sync(~0u, sum, delta);
            if (threadIdx.x >= delta) {
                sum += factor * s;
                factor *= f;
            }
        }
        sum += factor * carry;
        if (i < n) y[i] = sum;
        carry = __shfl_sync(~0u, sum, 31);
    }
}

}
