// Calls between host and device: those that CUDA allows, and with WRONG those that it does not.
#include <cstdlib>
#include <string>
int square(int x) { return x + 1; }
template <class T> T twice(T x) { return 2 * x; }
__device__ int dev(int x) { return x; }
__host__ __device__ int both(int x) { return square(x); }
int counter; __device__ struct { int v; } state;
static float table[4];
const float weights[2] = {1, 2};
int overloaded(int x) { return x; }
__device__ int overloaded(float x) { return 1; }
__host__ __device__ int declared(int x); int declared(int x) { return x; } constexpr int three() { return 3; }
int max(int a, int b, int c) { return a > b ? a : c; }
struct Own {
    int v;
    int size() const { return v; }
};
__global__ void legal(int *p)
{
    p[0] = both(dev(1)) + declared(4) + three() + overloaded(2.0f) + max(p[0], 3) + weights[p[1]] + state.v;
    int *q = new int[3];
    memcpy(q, p, 12);
    delete[] q;
}
#ifdef WRONG
__global__ void k(int *p)
{
    p[0] = rand();
    p[1] = square(1);
    p[2] = twice(2);
    p[3] = counter;
    p[4] = table[p[0]];
    std::string text = "x";
    if (p[0]) throw 1;
}
#endif
int main()
{
#ifdef WRONG
    dev(1);
    legal((int *)0);
    __syncthreads();
#endif
    legal<<<1, 1>>>((int *)0);
    return square(counter) + both(3) + max(1, 2) + max(1, 2, 3) + Own{1}.size();
}
