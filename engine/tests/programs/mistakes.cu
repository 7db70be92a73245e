// Calls that fail and what nvcc or g++ warns of. A comment has what is to be said of its line; of the others nothing is.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>
#define CHECK(call)                                                              \
    do {                                                                         \
        cudaError_t error = (call);                                              \
        if (error != cudaSuccess) printf("%d %s\n", __LINE__, cudaGetErrorName(error)); \
    } while (0)

__constant__ float weights[4];
__constant__ const int fixed = 4;
__device__ int counter, hits[8];
__device__ __align__(16) float tile[4];
static __device__ int *list;
__managed__ int shown;
struct Shape {
    virtual ~Shape() {}
    int sides = 3;
};
struct Point {
    float x, y;
    Point() : x(1), y(2) {}
    Point(const Point &other) : x(other.x), y(other.y) {}
};

__global__ void fill(float *x) { x[threadIdx.x] = weights[threadIdx.x % fixed] + counter + hits[0] + tile[0] + shown; }
__global__ void sum(float *x) {
    float v = x[threadIdx.x];
    v += __shfl_down(v, 16);                    // told: __shfl_down without _sync is removed since compute capability 7.0
    v += __shfl_down_sync(0xffffffff, v, 8);
    if (__any(v > 3)) x[threadIdx.x] = v;       // told: write __any_sync
}
static cudaError_t release(void *p) {
    return cudaFree(p);                         // told: cudaMalloc gave no
}
float read_weights() {
    float sum = 0;
    for (int i = 0; i < 4; i++) sum += weights[i];  // told: a __constant__ variable "weights" cannot be directly read
    return sum;
}

void symbols(const float *h) {
    cudaMemcpyToSymbol(weights, h, sizeof weights + 4);      // told: 20 bytes at offset 0 of a variable that has 16
    float back[8];
    CHECK(cudaMemcpyFromSymbol(back, weights, 16, 4));       // told: 16 bytes at offset 4 of a variable that has 16
    cudaMemcpy(weights, h, 16, cudaMemcpyHostToDevice);      // told: but the variable weights
    CHECK(cudaMemcpyToSymbol(weights, h, sizeof(weights)));
    {
        float weights[16];
        cudaMemcpyToSymbol(weights, h, 16);                  // told: its symbol is a local variable of the host
        float *pointer = weights;
        cudaMemcpyToSymbol(pointer, h, 4);                   // told: no pointer of the host
    }
    void *address;
    cudaGetSymbolAddress(&address, counter);
    cudaMemset(address, 0, sizeof(counter));
    decltype(counter) size = sizeof hits / sizeof(hits[0]);
    printf("%d %p %p\n", size, (void *)hits, (void *)&tile[1]);
    printf("%d\n", counter);                    // told: a __device__ variable "counter" cannot be directly read
    counter = 1;                                // told: a __device__ variable "counter" cannot be directly written
    tile[1] += 2;                               // told: a __device__ variable "tile" cannot be directly
    ++hits[2];                                  // told: a __device__ variable "hits" cannot be directly
    list = nullptr;                             // told: a __device__ variable "list" cannot be directly written
    std::vector<int> copies(fixed);
    shown = 3;
    printf("%d %g %d\n", shown, read_weights(), std::max(copies[0], fixed));
}

void copies(float *d, float *other, float *h) {
    cudaMemcpy(d, h, 256, cudaMemcpyDeviceToHost);           // told: no device memory
    CHECK(cudaMemcpy(h, d, 256,                              // told: no device memory
                     cudaMemcpyHostToDevice));
    cudaMemcpy(d, h, 260, cudaMemcpyHostToDevice);           // told: 260 bytes were asked for, and its destination has 256
    cudaMemcpy(h, d + 1, 256, cudaMemcpyDeviceToHost);       // told: 256 bytes were asked for, and its source has 252
    cudaMemcpy(other, d, 256, cudaMemcpyDeviceToDevice);     // told: and its destination has 128
    cudaMemcpyAsync(d, nullptr, 16, cudaMemcpyHostToDevice); // told: a null pointer
    CHECK(cudaMemcpy(d, h, 16, (cudaMemcpyKind)7));          // told: 7 is no direction of a copy
    cudaMemset(d, 0, 257);                                   // told: 257 bytes were asked for
    cudaMemset(h, 0, 16);                                    // told: no device memory
    std::vector<float> vector(64);
    cudaMemcpy(d, &vector, sizeof vector, cudaMemcpyHostToDevice);   // told: copies the bytes of an object
    cudaMemcpy(d, vector.data(), sizeof vector, cudaMemcpyHostToDevice);
    Shape shape;
    cudaMemcpyAsync(d, &shape, sizeof shape, cudaMemcpyHostToDevice);  // told: virtual functions
    Point point, *points = (Point *)d;
    cudaMemcpy(points, &point, sizeof point, cudaMemcpyHostToDevice);
}

template <class T> struct Buffer {
    T *d;
    void set() { cudaMemset(d, 1, 8 * sizeof(T)); }          // told: each byte to this value
    operator T *() { return d; }
};
void sizes(float *d, float *h) {
    const int n = 16, w = 4;
    int *counts;
    char *text, **names;
    void *any = d;
    float few[8], *none = nullptr;
    static float rows[w][w];
    std::vector<float> vector(n);
    cudaMalloc(&counts, n * sizeof(int));
    cudaMalloc((void **)&names, n * sizeof(names));
    cudaMalloc(&text, n);
    cudaMalloc(&none, n);                                    // told: a number of bytes
    cudaMemset(counts, 1, n * sizeof(int));                  // told: each byte to this value
    cudaMemset(d, 2.0f, n * sizeof(float));                  // told: each byte to this value
    cudaMemset((void *)counts, 10, n * sizeof(int));         // told: each byte to this value
    for (int value : {1, 5}) cudaMemset(counts, value, 8);
    cudaMemset(counts, 0, sizeof(counts));                   // told: sizeof a pointer is the 8 bytes
    cudaMemset(counts, -1, n * sizeof *counts);
    cudaMemset(counts, 0x3f, n * sizeof(int));
    cudaMemset(text, 1, n);
    cudaMemset(any, 1, n);
    cudaMemcpy(d, h, n, cudaMemcpyHostToDevice);             // told: a number of bytes
    cudaMemcpy(h, d,
               sizeof(h), cudaMemcpyDeviceToHost);           // told: sizeof a pointer is the 8 bytes
    cudaMemcpy(d, few, w * w, cudaMemcpyHostToDevice);
    cudaMemcpy(d, few, sizeof(few), cudaMemcpyHostToDevice);
    cudaMemcpy(few, d, 64, cudaMemcpyDeviceToHost);          // told: its destination has 32 bytes, and 64 were asked for
    cudaMemcpyAsync(few + 4, d, 20, cudaMemcpyDeviceToHost); // told: its destination has 16 bytes, and 20 were asked for
    cudaMemcpy(rows[1], d, 48, cudaMemcpyDeviceToHost);
    cudaMemcpy(vector.data(), d, 65, cudaMemcpyDeviceToHost);   // told: its destination has 64 bytes
    cudaMemcpy(d, vector.data(), 65, cudaMemcpyHostToDevice);   // told: its source has 64 bytes
    int side = 30000;
    cudaMalloc(&none, side * side * 3 * sizeof(float));      // told: a negative number, such as a product of ints
    int blocks = ceil(n / 3) + std::ceil(side / w);          // told: rounded down before ceil gets it
    printf("%d %g %g\n", blocks, ceil(n / 3.0), ceilf((n + w - 1) / w));
    Buffer<float>{d}.set();
    Buffer<char>{text}.set();
    cudaMemset(Buffer<float>{d}, 1, 8);
}

void launches(float *d) {
    fill<<<1, 32>>>(d);
    fill<<<1,                                   // told: block.x is 2048
           2048>>>(d);
    fill<<<1, 0>>>(d);                          // told: block.x is 0
    fill<<<dim3(1, 70000), 32>>>(d);            // told: grid.y is 70000
    sum<<<1, 32, 1 << 20>>>(d);                 // told: 1048576 bytes of dynamic shared memory
    void (*kernel)(float *) = fill;
    kernel<<<1, dim3(32, 64)>>>(d);             // told: 2048 threads
    void *arguments[] = {&d};
    cudaLaunchKernel(fill, dim3(1), dim3(4096), arguments);  // told: block.x is 4096
    cudaDeviceSynchronize();
}

int main() {
    float *d, *other, *h = (float *)malloc(256);
    std::fill(h, h + 64, 1);
    CHECK(cudaMalloc(&d, 256));
    cudaMalloc(&other, 128);
    void *huge;
    if (cudaMalloc(&huge, (size_t)1 << 60) != cudaSuccess) printf("no memory\n");   // told: out of memory
    symbols(h);
    launches(d);
    copies(d, other, h);
    sizes(d, h);
    cudaEvent_t event;
    cudaEventCreate(&event);
    cudaEventDestroy(event);
    cudaEventRecord(event);                     // told: is no event
    cudaFree(d + 1);                            // told: it is 4 bytes behind the start of an allocation of 256 bytes
    cudaFree(h);                                // told: cudaMalloc gave no
    cudaFree(other);
    cudaFree(other);                            // told: or it was freed
    release(d);
    release(d);
    cudaFreeHost(h);                            // told: cudaFreeHost
    free(h);
    return 0;
}
