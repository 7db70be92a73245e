#define JOINED(a, b) a##_##b
#define MADE(name) __global__ void name(int *x) { x[0] = 5; }
#define MMA(d, a, b)                                                \
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 " \
                 "{%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"     \
                 : "+f"(d[0]), "+f"(d[1]),                          \
                   "+f"(d[2]), "+f"(d[3])                           \
                 : "r"(a[0]),                                       \
                   "r"(a[1]), "r"(b))

template <class T> __global__ void deduced(T *x) { x[0] = sizeof(T); }
template __global__ void deduced(double *);
template __global__ void deduced(char *x);

template <int N> __global__ void __launch_bounds__(N / 2) bounded(int *x) { x[threadIdx.x] = N; }
template __global__ void bounded<64>(int *);
template __global__ void bounded<128>(int *);

namespace inner { MADE(of_namespace) }
extern "C" __global__ void JOINED(made, of)(int *x) { x[0] = 6; }
template <class T> __device__ void nobody_calls(T x) { asm("cp.async.wait_all;"); }

static __device__ int only_host_writes = 2;
namespace { __device__ int nameless = 3; }
extern "C" __global__ void variables(int *x) { x[0] = only_host_writes; x[1] = nameless; }

struct Pair { float x, y; Pair() {} __host__ __device__ Pair(const Pair &o) : x(o.x), y(o.y) {} };
extern "C" __global__ void copied(Pair pair, float *y) { y[0] = pair.x - pair.y; }

struct Number { int value; __device__ Number(int value) : value(value) {} };
extern "C" __global__ void placed(int *x) {
    __shared__ alignas(sizeof(Number) * 8)
        unsigned char raw[sizeof(Number) * 32];
    Number *number = new (raw + threadIdx.x * sizeof(Number)) Number(threadIdx.x);
    x[threadIdx.x] = (size_t)raw % 32 ? -1 : number->value;
}
extern "C" __global__ void multiplied(float *x) {
    float d[4] = {};
    unsigned a[2] = {0x3c003c00, 0x3c003c00};
    MMA(d, a, 0x3c003c00u); x[threadIdx.x] = d[0] + 100 * __LINE__;
}
extern "C" __global__ void waits(int *flag, int *x) {
    if (threadIdx.x == 0) { while (atomicAdd(flag, 0) == 0) ; x[0] = 7; }
    if (threadIdx.x == 32) atomicExch(flag, 1);
}
