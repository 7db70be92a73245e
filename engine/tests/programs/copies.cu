// What the host copies although nothing has set it; the argument is the case.
#include <cstdio>
#include <cstdlib>
#include <vector>
__global__ void fill(float *y, int first, int end) {
    int i = first + blockIdx.x * blockDim.x + threadIdx.x;
    if (i < end) y[i] = i;
}
struct Item { double value; int count; };
__global__ void items(Item *y) { y[threadIdx.x].value = 1; y[threadIdx.x].count = 2; }
struct Shape { __device__ virtual float area() const { return 1; } };
struct Square : Shape { float side; __device__ float area() const override { return side * side; } };
__global__ void shapes(float *y, cudaSurfaceObject_t surface) {
    Square *square = new Square;
    square->side = threadIdx.x;
    Shape *shape = square;
    y[threadIdx.x] = shape->area();
    surf2Dwrite(y[threadIdx.x], surface, threadIdx.x * 4, 0);
    delete square;
}
void sum_rows(float *d, float *h, float &sum) {
    cudaArray_t array;
    cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
    cudaMallocArray(&array, &format, 32, 1, cudaArraySurfaceLoadStore);
    cudaResourceDesc resource = {};
    resource.res.array.array = array;
    cudaSurfaceObject_t surface;
    cudaCreateSurfaceObject(&surface, &resource);
    shapes<<<1, 32>>>(d, surface);
    cudaMemcpy2DFromArray(h, 128, array, 0, 0, 128, 1, cudaMemcpyDeviceToHost);
    for (int i = 0; i < 32; i++) sum += h[i];
}
int main(int, char **words) {
    int n = 1000, way = atoi(words[1]);
    float *d, *copy, sum = 0;
    Item *s;
    cudaMalloc(&d, n * 4);
    cudaMalloc(&copy, n * 4);
    cudaMalloc(&s, 32 * sizeof(Item));
    std::vector<float> h(n);
    std::vector<Item> list(32);
    if (way == 0) fill<<<n / 256, 256>>>(d, 0, n);                    // a block too few
    if (way == 1 || way == 2) fill<<<4, 256>>>(d, 1, n - 1);          // an interior
    if (way == 3) cudaMemset(d, 0, n), fill<<<1, 32>>>(d, 0, 32);     // a quarter, in bytes
    if (way == 9) fill<<<1, 32>>>(d, 0, 32);                          // a few, which the host uses alone
    if (way == 4 || way == 6) items<<<1, 32>>>(s);                    // 6: d is as it was allocated
    if (way == 5) fill<<<4, 256>>>(d, 0, n);
    if (way == 8) {
        sum_rows(d, h.data(), sum);
    } else if (way == 7) {
        fill<<<1, 32>>>(d, 0, 32);
        cudaMemcpy2D(h.data(), 200, d, 200, 200, 20, cudaMemcpyDeviceToHost);  // found: cudaMemcpy2D
        for (int i = 0; i < n; i++) sum += h[i];
    } else if (way == 4) {
        cudaMemcpy(list.data(), s, 32 * sizeof(Item), cudaMemcpyDeviceToHost);
        for (Item &each : list) sum += each.value + each.count;
    } else {
        cudaMemcpy(copy, d, n * 4, cudaMemcpyDeviceToDevice);
        for (int pass = way == 1 ? 0 : 1; pass < 2; pass++)  // a note is for a place, not for a pass
            cudaMemcpy(h.data(), copy, n * 4, cudaMemcpyDeviceToHost);  // found: cudaMemcpy
        for (int i = way == 1; i < (way == 9 ? 32 : n - (way == 1)); i++) sum += h[i];
    }
    printf("%g\n", sum);
}
