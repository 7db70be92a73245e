// Instances of templates are launched by pointers and by deduction.
#include <cstdio>
#include <type_traits>
namespace ns {
template <typename T, int N> __global__ void __launch_bounds__(64) fill(T *x, T v) { x[threadIdx.x] = v * N; }
}
template <class T> __global__ void plain(T *x) { *x += 1; }
template <class T, bool Twice> __global__ void deduced(T *x, std::bool_constant<Twice>) { *x += Twice ? 200 : 100; }
struct Options { int a; };
__global__ void unnamed(float *, const Options, int = 3) {}
template <class F> __global__ void apply(float *x, int, F f) { *x = f(*x); }
template <class T> void inside(T *x)
{
    auto f = plain<T>;
    void *given[] = {&x};
    cudaLaunchKernel((const void *)f, 1, 1, given, 0, 0);
}
template <class Kernel, class... A> void call(Kernel f, A... a) { f<<<1, 1>>>(a...); }
int main()
{
    double *x, r[4], v = 2.5;
    float *y, s;
    cudaMalloc(&x, 32); cudaMalloc(&y, 4);
    auto f = ns::fill<double, 4>;
    void *given[] = {&x, &v};
    cudaLaunchKernel((const void *)f, dim3(1), dim3(4), given, 0, 0);
    void (*g)(double *) = &plain<double>;
    g<<<1, 1>>>(x); call(plain<double>, x); inside(x); deduced<<<dim3(1, 1), 1>>>(x, std::bool_constant<true>{});
    cudaMemcpy(r, x, 32, cudaMemcpyDefault);
    cudaFuncAttributes told;
    printf("%g %g %d\n", r[0], r[3], cudaFuncGetAttributes(&told, plain<short>));
    cudaMemset(y, 0, 4);
    call(plain<float>, y); unnamed<<<1, 1>>>(y, Options{2}); unnamed<<<1, 1>>>(y, {2}, 4);
    apply<<<1, 1>>>(y, 1, [] __device__(float v) { return v + 4; });
    cudaMemcpy(&s, y, 4, cudaMemcpyDefault);
    printf("%g %s %d\n", s, cudaGetErrorString(cudaGetLastError()),
           cudaFuncSetAttribute(f, cudaFuncAttributePreferredSharedMemoryCarveout, cudaSharedmemCarveoutMaxShared));
}
