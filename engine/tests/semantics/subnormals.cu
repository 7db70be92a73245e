// Prints what a device makes of subnormal numbers. An H100 printed subnormals.txt, and, compiled with -ftz=true, flushed.txt.
// (There fabsf(x) and -x of a subnormal number are zeros, too; the engine keeps them.)
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

const float SMALL[] = {0.0f, -0.0f, 1e-40f, -1e-40f, 1.1754944e-38f, 3e-39f, 1.0f, NAN};
const int SMALLS = sizeof SMALL / sizeof *SMALL;
__managed__ float smalls[SMALLS];

__global__ void subnormals(int n) {
    for (int i = 0; i < n; ++i)
        for (int j = 0; j < n; ++j) {
            const float a = smalls[i], b = smalls[j];
            put(a + b), put(a * b), put(a - b), put(a * 0.25f), put(fmaf(a, 0.5f, b)), put((double)a), put((float)((double)a * 0.5));
            put(a == 0.0f), put(a < b), put(a > 0.0f), put(a * 1e10f), put(__fadd_rn(a, b)), put((int)(a * 1e38f));
        }
}

static void show(const char *what) {
    cudaDeviceSynchronize();
    printf("%s", what);
    for (int i = 0; i < used; ++i) printf("%c%llx", i % 20 ? ' ' : '\n', results[i]);
    puts("");
    used = 0;
}

int main() {
    memcpy(smalls, SMALL, sizeof smalls);
    subnormals<<<1, 1>>>(SMALLS), show("subnormals");
}
