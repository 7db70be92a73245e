// Prints what a device makes of arithmetic that C++ leaves open, as hexadecimal numbers. values.txt has what an H100
// printed:  nvcc -arch=sm_90 values.cu && ./a.out
#include <cstdio>
#include <cstring>
#include <cuda_fp16.h>
#include <type_traits>

typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned long long ull;
typedef long long ll;

__managed__ ull results[20000];
__managed__ int used;

template <class T> __device__ void put(T value) {
    ull bits = 0;
    memcpy(&bits, &value, sizeof value);
    if constexpr (std::is_floating_point_v<T>)
        if (value != value) bits = ~0ull;   // any NaN
    results[used++] = bits;
}

// ---- Floats as integers: how C-style casts, constructors, static_cast, assignments, arguments and results convert ----

const double FLOATS[] = {-0.5, -1.5, 255.9, 300.5, -129.5, 32768.5, 65537.5, 2147483647.0, 3e9, 4294967295.0, 5e9, -2147483649.0,
                         -3e9, 9.3e18, 1e20, -1e300, INFINITY, NAN};
const int COUNT = sizeof FLOATS / sizeof *FLOATS;
__managed__ double inputs[COUNT];

template <class I, class F> __device__ void cast(F x) {
    put((I)x), put(static_cast<I>(x)), put(I(x));
}

template <class F> __device__ void casts(F x) {
    cast<signed char>(x), cast<uchar>(x), cast<short>(x), cast<ushort>(x);
    cast<int>(x), cast<unsigned>(x), cast<ll>(x), cast<ull>(x);
}

__global__ void convert(int n) {
    for (int i = 0; i < n; ++i) casts<float>(inputs[i]);
    for (int i = 0; i < n; ++i) casts<double>(inputs[i]);
}

__global__ void convert_halves(int n) {
    for (int i = 0; i < n; ++i) {
        __half x = __float2half((float)inputs[i]);
        put((signed char)x), put((uchar)x), put((short)x), put((ushort)x), put((int)x), put((unsigned)x), put((ll)x), put((ull)x);
        put(__half2int_rn(x)), put(__half2uint_rz(x)), put(__half2short_rd(x)), put(__half2ushort_ru(x)), put(__half2ll_rn(x));
    }
}

__global__ void convert_by_name(int n) {
    for (int i = 0; i < n; ++i) {
        float x = inputs[i];
        double d = inputs[i];
        put(__float2int_rn(x)), put(__float2int_rz(x)), put(__float2int_ru(x)), put(__float2int_rd(x));
        put(__float2uint_rn(x)), put(__float2uint_rz(x)), put(__float2uint_ru(x)), put(__float2uint_rd(x));
        put(__float2ll_rn(x)), put(__float2ll_rz(x)), put(__float2ull_rn(x)), put(__float2ull_rz(x));
        put(__double2int_rn(d)), put(__double2int_rz(d)), put(__double2uint_rn(d)), put(__double2uint_rz(d));
        put(__double2ll_rn(d)), put(__double2ll_rz(d)), put(__double2ull_rn(d)), put(__double2ull_rz(d));
        put((int)lrintf(x)), put((int)lroundf(x)), put(llrintf(x)), put(llround(d));
    }
}

// Conversions without a cast.
#define CONVERT(I)                                                                                      \
    __device__ I returned_##I(float x) { return x; }                                                   \
    __device__ ll widened_##I(I x) { return x; }                                                        \
    __device__ void convert_##I(float x, double y) {                                                    \
        struct { I value; } cell;                                                                       \
        I initialized = x, assigned;                                                                    \
        assigned = y, cell.value = x;                                                                   \
        put(initialized), put(assigned), put(cell.value), put(returned_##I(x)), put(widened_##I(x)), put(widened_##I(y)); \
    }
CONVERT(char) CONVERT(uchar) CONVERT(short) CONVERT(ushort) CONVERT(int) CONVERT(unsigned) CONVERT(ll) CONVERT(ull)
__global__ void convert_silently(int n) {
    for (int i = 0; i < n; ++i) {
        float x = inputs[i];
        double y = inputs[i];
        convert_char(x, y), convert_uchar(x, y), convert_short(x, y), convert_ushort(x, y);
        convert_int(x, y), convert_unsigned(x, y), convert_ll(x, y), convert_ull(x, y);
    }
}

// One type in plain code, without templates: an image's pixel, in the ways that kernels write it.
__device__ int taken(int x) { return x; }
__device__ uchar pixel(float x) { return x; }
__global__ void pixels(uchar *out, int n) {
    for (int i = 0; i < n; ++i) {
        float x = inputs[i];
        out[0] = x, out[1] = x * 2 + 0.5f, out[2] = pixel(x), out[3] = (uchar)(x + 1.0f);
        int histogram = x, sum = 3;
        sum += x;
        uchar4 four = make_uchar4(x, 0.5f * x, -x, 255);
        uchar2 two = {(uchar)x, uchar(x)};
        put(out[0]), put(out[1]), put(out[2]), put(out[3]), put(histogram), put(sum), put(taken(x)), put(four), put(two);
        put(x > 0 ? (int)x : 7), put((uchar)(int)x), put((int)(uchar)x), put(-(int)x), put((float)(int)x), put(~(unsigned)x);
        out[4] = 10;
        out[4] *= x;
        put(out[4]);
        put(min(255, max(0, (int)x))), put((unsigned)x & 15u), put((short)(x / 3)), put((int)floorf(x) / 2);
    }
}

__global__ void constants() {
    put((int)3e9f), put((unsigned)-1.5f), put((uchar)300.5f), put((uchar)-1.5f), put((ll)1e20), put((ull)-1.0), put((short)70000.5f);
    put((int)-1e20), put((unsigned)5e9);
    const float big = 3e9f;
    int i = big;
    unsigned u = -big;
    uchar c = -1.5f;
    put(i), put(u), put(c), put((int)NAN), put((int)INFINITY), put((unsigned)NAN);
}

// ---- Shifts ----------------------------------------------------------------------------------------------------------

const ll SHIFTS[] = {0, 5, 31, 32, 33, 40, 63, 64, 256, 257, -1, -32, 4294967296LL, 4294967297LL};
const int SHIFTED = sizeof SHIFTS / sizeof *SHIFTS;
__managed__ ll amounts[SHIFTED];

template <class T, class N> __device__ void shift(T x, N n) {
    put(x << n), put(x >> n);
    T left = x, right = x;
    left <<= n, right >>= n;
    put(left), put(right);
    put((x << n) >> n), put(x << n >> 1), put(1 + x >> n + 0);
}

__global__ void shifts(int n) {
    for (int i = 0; i < n; ++i) {
        const ll amount = amounts[i];
        shift(-123456789, (int)amount), shift(0xdeadbeefu, (int)amount), shift(-1234567890123LL, (int)amount);
        shift(0xdeadbeefcafef00dULL, (int)amount), shift((uchar)200, (int)amount), shift((short)-200, (int)amount);
        shift(0xdeadbeefu, (unsigned)amount), shift(-123456789, (uchar)amount), shift(-123456789, (signed char)amount);
        shift(-123456789, amount), shift(0xdeadbeefcafef00dULL, (ull)amount), shift(5, (short)amount);
        put(1u << amount), put(1 << (amount & 31)), put(0xffffffffu >> (32 - (int)amount)), put((ll)1 << (int)amount);
        put(__funnelshift_l(1u, 0xf0000000u, (unsigned)amount)), put(__funnelshift_rc(1u, 0xf0000000u, (unsigned)amount));
    }
}

// ---- Integers --------------------------------------------------------------------------------------------------------

const ll NUMBERS[] = {0, 1, -1, -7, 100, 65535, 2147483647LL, -2147483648LL,
                      9223372036854775807LL, -9223372036854775807LL - 1};
const int NUMBERED = sizeof NUMBERS / sizeof *NUMBERS;
__managed__ ll numbers[NUMBERED];

// Not by 0: for 7 / 0 in bytes nvcc gives 0xffff, and 0xffffffff with -G; for 7 % 0 it gives 7, and 0xffffffff with -G.
template <class T> __device__ void divide(T a, T b) {
    if (b == 0) return;
    put(a / b), put(a % b), put(100 / b);
    T quotient = a, rest = a;
    quotient /= b, rest %= b;
    put(quotient), put(rest);
}

__global__ void integers(int n) {
    for (int i = 0; i < n; ++i)
        for (int j = 0; j < n; ++j) {
            const ll a = numbers[i], b = numbers[j];
            divide<int>(a, b), divide<unsigned>(a, b), divide<ll>(a, b), divide<ull>(a, b), divide<uchar>(a, b), divide<short>(a, b);
            const ushort x = a, y = b;   // what compares or divides such results differs between nvcc -O3 and -G
            put((int)a + (int)b), put((int)a * (int)b), put((int)a - (int)b), put(a * b), put(a + b), put(x * y), put((int)a << 1);
        }
    for (int i = 0; i < n; ++i) {
        const int a = numbers[i];
        put(abs(a)), put(labs(numbers[i])), put(llabs(numbers[i])), put(-a), put(__sad(a, 1, 2u)), put(__mul24(a, a));
        int up = a, down = a;
        up++, --down;
        put(up), put(down), put(__dp4a(a, a, a)), put(__dp2a_lo(a, a, a)), put(__hadd(a, 1)), put(__rhadd(a, 1));
    }
}

// ---- Zeros ----------------------------------------------------------------------------------------

const float SMALL[] = {0.0f, -0.0f, 1e-40f, -1e-40f, 1.1754944e-38f, 3e-39f, 1.0f, NAN};
const int SMALLS = sizeof SMALL / sizeof *SMALL;
__managed__ float smalls[SMALLS];

__global__ void zeros(int n) {
    for (int i = 0; i < n; ++i)
        for (int j = 0; j < n; ++j) {
            const float a = smalls[i], b = smalls[j];
            const double x = a, y = b;
            const __half h = __float2half(a), k = __float2half(b);
            put(fminf(a, b)), put(fmaxf(a, b)), put(min(a, b)), put(max(a, b)), put(fmin(x, y)), put(fmax(x, y)), put(min(a, y));
            put(max(x, b)), put(fmin(a, b)), put(fmax(a, b)), put(__half2float(__hmin(h, k))), put(__half2float(__hmax(h, k)));
            put(__saturatef(a)), put(fdimf(a, b)), put(a < b ? a : b);
        }
}

// ---- The API ---------------------------------------------------------------------------------------------------------

__device__ int table[4] = {9, 8, 7, 6};
__constant__ int fixed[4] = {5, 4, 3, 2};
__global__ void read_tables() {
    for (int i = 0; i < 4; ++i) put(table[i]), put(fixed[i]);
}
__global__ void say() {
    put(printf("printed\n")), put(printf("%d %d\n", 1, 2)), put(printf("%s %f %c\n", "text", 1.5, 'c')), put(printf("%%\n"));
}
__global__ void store(int *address) { *address = 1; }

static void show(const char *what) {
    cudaDeviceSynchronize();
    printf("%s", what);
    for (int i = 0; i < used; ++i) printf("%c%llx", i % 20 ? ' ' : '\n', results[i]);
    puts("");
    used = 0;
}

int main() {
    memcpy(inputs, FLOATS, sizeof inputs), memcpy(amounts, SHIFTS, sizeof amounts);
    memcpy(numbers, NUMBERS, sizeof numbers), memcpy(smalls, SMALL, sizeof smalls);
    uchar *bytes;
    cudaMalloc(&bytes, 16);
    convert<<<1, 1>>>(COUNT), show("convert");
    convert_silently<<<1, 1>>>(COUNT), show("silently");
    convert_halves<<<1, 1>>>(COUNT), show("halves");
    convert_by_name<<<1, 1>>>(COUNT), show("by_name");
    pixels<<<1, 1>>>(bytes, COUNT), show("pixels");
    constants<<<1, 1>>>(), show("constants");
    shifts<<<1, 1>>>(SHIFTED), show("shifts");
    integers<<<1, 1>>>(NUMBERED), show("integers");
    zeros<<<1, 1>>>(SMALLS), show("zeros");
    say<<<1, 1>>>(), show("print");

    void *address;
    int two[2] = {1, 2};
    size_t value;
    printf("symbol %d", cudaGetSymbolAddress(&address, table));
    printf(" %d %d", cudaMemset(address, 0, 4), cudaMemcpy((int *)address + 2, two, 8, cudaMemcpyHostToDevice));
    printf(" %d", cudaGetSymbolAddress(&address, fixed));
    printf(" %d\n", cudaMemset((int *)address + 1, 0, 8));
    read_tables<<<1, 1>>>(), show("tables");
    printf("limit %d", cudaDeviceSetLimit(cudaLimitMallocHeapSize, 32 << 20));
    printf(" %d", cudaDeviceGetLimit(&value, cudaLimitMallocHeapSize));
    printf(" %d", (int)value);
    printf(" %d", cudaDeviceSetLimit(cudaLimitStackSize, 32 << 10));
    printf(" %d", cudaDeviceGetLimit(&value, cudaLimitStackSize));
    printf(" %d\n", (int)value);
    cudaEvent_t untimed, start;
    float ms;
    cudaEventCreateWithFlags(&untimed, cudaEventDisableTiming), cudaEventCreate(&start);
    printf("elapsed %d", cudaEventElapsedTime(&ms, start, start));
    cudaEventRecord(start), cudaEventRecord(untimed), cudaDeviceSynchronize();
    printf(" %d %d %d", cudaEventElapsedTime(&ms, start, untimed), cudaEventElapsedTime(&ms, untimed, start), cudaEventElapsedTime(&ms, start, start));
    printf(" %d\n", cudaGetLastError());
    store<<<1, 1>>>(nullptr);
    printf("null %d", cudaDeviceSynchronize());
    printf(" %d %d\n", cudaGetLastError(), cudaMalloc(&address, 4));
}
