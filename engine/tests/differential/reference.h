// What CUDA says about a kernel, as plain C++ that shares nothing with the engine. The kernel is not rewritten: each
// thread of a block is a coroutine that runs up to its next barrier. CUDA leaves open which thread runs first, so each
// launch is repeated in three orders, with other garbage in shared memory: a kernel whose results differ has a race or
// reads what nobody wrote. What CUDA leaves undefined otherwise, such as barriers in some threads only, is an error.
#pragma once
#include <link.h>
#include <setjmp.h>
#include <signal.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <cfloat>
#include <climits>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <type_traits>
#include <vector>

#define __global__
#define __device__
#define __host__
#define __constant__
#define __shared__ static thread_local  // one segment of memory, which is found and filled before each block
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __align__(n) alignas(n)

typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;

#define REFERENCE_VECTOR(name, T, align)                                                            \
    struct name##1 { T x; };                                                                        \
    struct alignas(sizeof(T) * 2) name##2 { T x, y; };                                              \
    struct name##3 { T x, y, z; };                                                                  \
    struct alignas(align) name##4 { T x, y, z, w; };                                                \
    constexpr name##1 make_##name##1(T x) { return {x}; }                                           \
    constexpr name##2 make_##name##2(T x, T y) { return {x, y}; }                                   \
    constexpr name##3 make_##name##3(T x, T y, T z) { return {x, y, z}; }                           \
    constexpr name##4 make_##name##4(T x, T y, T z, T w) { return {x, y, z, w}; }
REFERENCE_VECTOR(char, signed char, 4)
REFERENCE_VECTOR(uchar, unsigned char, 4)
REFERENCE_VECTOR(short, short, 8)
REFERENCE_VECTOR(ushort, unsigned short, 8)
REFERENCE_VECTOR(int, int, 16)
REFERENCE_VECTOR(uint, unsigned, 16)
REFERENCE_VECTOR(longlong, long long, 16)
REFERENCE_VECTOR(ulonglong, unsigned long long, 16)
REFERENCE_VECTOR(float, float, 16)
REFERENCE_VECTOR(double, double, 16)

struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
    constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
    constexpr operator uint3() const { return {x, y, z}; }
};
inline dim3 gridDim, blockDim;
inline uint3 blockIdx;
constexpr int warpSize = 32;

// ---------------------------------------------------------------------------------------------------------------------
// Threads, barriers and meetings of a warp

namespace reference {

constexpr int WORDS = 4096, GUARD = 1024, MAX_THREADS = 1024, ORDERS = 3;
constexpr size_t STACK = 64 << 10, DYNAMIC = 48 << 10;

enum State { READY, AT_BARRIER, AT_MEETING, ENDED };

struct Thread {
    uint3 index;
    unsigned lane, warp;
    State state;
    bool started;
    jmp_buf resume;
    int line;           // of the barrier at which it waits
    int predicate;      // that it brought to the barrier
    int count;          // of the threads whose predicate holds, and of all, when the barrier opened
    int all;
    unsigned mask;      // of the meeting of lanes at which it waits
    uint64_t offered;   // that it brought to the meeting
    unsigned present;   // lanes that met
    uint64_t taken[32]; // what each of them brought
};

inline std::vector<Thread> threads;
inline Thread *here;  // the thread that runs
inline jmp_buf scheduler, launch_start;
inline const char *wrong;  // what the kernel did that CUDA leaves undefined
inline std::function<void()> body;
inline int order;
inline unsigned seed;
alignas(64) inline char dynamic_memory[DYNAMIC];

[[noreturn]] inline void fail(const char *why) {
    wrong = why;
    _longjmp(launch_start, 1);
}
inline void too_long(int) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGALRM);
    sigprocmask(SIG_UNBLOCK, &set, nullptr);
    fail("it does not end");
}

inline char *stacks() {
    static char *const memory = static_cast<char *>(malloc(MAX_THREADS * STACK));
    return memory;
}
__attribute__((noinline)) inline void wait(State state) {
    here->state = state;
    if (!_setjmp(here->resume)) _longjmp(scheduler, 1);
}
inline void thread_main() {
    body();
    here->state = ENDED;
    _longjmp(scheduler, 1);
}
__attribute__((noinline)) inline void run(Thread &thread) {
    here = &thread;
    if (_setjmp(scheduler)) return;
    if (here->started) _longjmp(here->resume, 1);
    here->started = true;
    ucontext_t start;
    getcontext(&start);
    start.uc_stack.ss_sp = stacks() + (here - threads.data()) * STACK;
    start.uc_stack.ss_size = STACK;
    start.uc_link = nullptr;
    makecontext(&start, thread_main, 0);
    setcontext(&start);
}

// The lanes that the thread waits for, if all of them that live have come with the same mask; else 0.
inline unsigned met(const Thread &thread) {
    unsigned lanes = 0;
    for (const Thread &other : threads) {
        if (other.warp != thread.warp || other.state == ENDED || !(thread.mask >> other.lane & 1)) continue;
        if (other.state != AT_MEETING || other.mask != thread.mask) return 0;
        lanes |= 1u << other.lane;
    }
    return lanes;
}
inline bool hold_meetings() {
    bool any = false;
    for (Thread &thread : threads) {
        const unsigned lanes = thread.state == AT_MEETING ? met(thread) : 0;
        if (!lanes) continue;
        any = true;
        Thread *const first = &threads[thread.warp * 32];
        for (int to = 0; to < 32; ++to)
            if (lanes >> to & 1) {
                first[to].state = READY;
                first[to].present = lanes;
                for (int from = 0; from < 32; ++from)
                    if (lanes >> from & 1) first[to].taken[from] = first[from].offered;
            }
    }
    return any;
}
inline bool open_barrier() {
    int count = 0, all = 0, line = 0;
    for (const Thread &thread : threads) {
        if (thread.state == ENDED) continue;
        if (thread.state != AT_BARRIER) fail("some lanes wait for others of their warp that do not come");
        if (line && line != thread.line) fail("threads wait at different barriers");
        line = thread.line;
        count += thread.predicate != 0;
        ++all;
    }
    for (Thread &thread : threads) {
        if (thread.state == ENDED) continue;
        thread.state = READY;
        thread.count = count;
        thread.all = all;
    }
    return all > 0;
}

inline int fill_segment(dl_phdr_info *program, size_t, void *byte) {
    for (int i = 0; i < program->dlpi_phnum; ++i)
        if (program->dlpi_phdr[i].p_type == PT_TLS && program->dlpi_tls_data)
            memset(program->dlpi_tls_data, *static_cast<int *>(byte), program->dlpi_phdr[i].p_memsz);
    return 1;  // the program itself comes first; its libraries are left alone
}
inline void run_block() {
    int garbage = order == 0 ? 0xa5 : order == 1 ? 0x5a : 0xc3;
    dl_iterate_phdr(fill_segment, &garbage);
    memset(dynamic_memory, garbage, DYNAMIC);
    const unsigned count = blockDim.x * blockDim.y * blockDim.z;
    threads.assign(count, Thread());
    std::vector<unsigned> turn(count);
    for (unsigned i = 0; i < count; ++i) {
        threads[i].index = {i % blockDim.x, i / blockDim.x % blockDim.y, i / blockDim.x / blockDim.y};
        threads[i].lane = i % 32;
        threads[i].warp = i / 32;
        turn[i] = order == 0 ? i : count - 1 - i;
    }
    do {
        if (order == 2)
            for (unsigned i = count; i > 1; --i) {
                seed = seed * 1664525u + 1013904223u;
                std::swap(turn[i - 1], turn[seed / 65536 % i]);
            }
        for (unsigned i : turn)
            if (threads[i].state == READY) run(threads[i]);
    } while (hold_meetings() || open_barrier());
}
inline void run_grid() {
    const unsigned count = gridDim.x * gridDim.y * gridDim.z;
    for (unsigned k = 0; k < count; ++k) {
        const unsigned i = order == 1 ? count - 1 - k : k;
        blockIdx = {i % gridDim.x, i / gridDim.x % gridDim.y, i / gridDim.x / gridDim.y};
        run_block();
    }
}

// Runs a kernel in all orders and writes a word, 1 if something was wrong, and its output or a sentence.
template <class Kernel> void compare_orders(dim3 grid, dim3 block, Kernel kernel, int n, const unsigned *in) {
    static unsigned buffer[GUARD + WORDS + GUARD], first[GUARD + WORDS + GUARD];
    wrong = nullptr;
    if (!_setjmp(launch_start)) {
        alarm(10);
        gridDim = grid, blockDim = block, seed = 1;
        for (order = 0; order < ORDERS; ++order) {
            memset(buffer, 0, sizeof buffer);
            body = [=] { kernel(buffer + GUARD, in, n); };
            run_grid();
            if (!order) memcpy(first, buffer, sizeof buffer);
            else if (memcmp(first, buffer, sizeof buffer))
                fail("its results depend on the order of threads or on garbage");
        }
        for (int i = 0; i < GUARD; ++i)
            if (buffer[i] || buffer[GUARD + WORDS + i]) fail("it writes outside of its output");
    }
    alarm(0);
    unsigned bad = wrong != nullptr, told[WORDS] = {};
    if (bad) strncpy(reinterpret_cast<char *>(told), wrong, sizeof told - 1);
    fwrite(&bad, 4, 1, stdout);
    fwrite(bad ? told : first + GUARD, 4, WORDS, stdout);
}
inline const unsigned *input() {
    static unsigned words[WORDS];
    signal(SIGALRM, too_long);
    if (fread(words, 4, WORDS, stdin) != WORDS) exit(3);
    return words;
}

inline Thread &barrier(int predicate, int line) {
    here->line = line;
    here->predicate = predicate;
    wait(AT_BARRIER);
    return *here;
}
template <class T> void meet(unsigned mask, T value) {
    static_assert(sizeof(T) <= 8, "a value of a shuffle has 8 bytes at most");
    if (!(mask >> here->lane & 1)) fail("a lane calls a warp function without being in its mask");
    here->mask = mask;
    here->offered = 0;
    memcpy(&here->offered, &value, sizeof value);
    wait(AT_MEETING);
}
template <class T> T of_lane(unsigned lane) {
    if (!(here->present >> lane & 1)) fail("a shuffle reads a lane that does not take part");
    T value;
    memcpy(&value, &here->taken[lane], sizeof value);
    return value;
}
template <class T, class F> T reduced(unsigned mask, T value, F f) {
    meet(mask, value);
    T sum{};
    bool any = false;
    for (int i = 0; i < 32; ++i)
        if (here->present >> i & 1) sum = any ? f(sum, of_lane<T>(i)) : of_lane<T>(i), any = true;
    return sum;
}
template <class To, class From> To bits(From from) {
    static_assert(sizeof(To) == sizeof(From));
    To to;
    memcpy(&to, &from, sizeof to);
    return to;
}

}  // namespace reference

#define threadIdx (static_cast<const uint3 &>(reference::here->index))

// ---------------------------------------------------------------------------------------------------------------------
// CUDA's functions

inline void __syncthreads(int line = __builtin_LINE()) { reference::barrier(0, line); }
inline int __syncthreads_count(int p, int line = __builtin_LINE()) { return reference::barrier(p, line).count; }
inline int __syncthreads_or(int p, int line = __builtin_LINE()) { return reference::barrier(p, line).count > 0; }
inline int __syncthreads_and(int p, int line = __builtin_LINE()) {
    const reference::Thread &thread = reference::barrier(p, line);
    return thread.count == thread.all;
}
inline void __syncwarp(unsigned mask = 0xffffffff) { reference::meet(mask, 0); }
inline void __threadfence() {}
inline void __threadfence_block() {}

template <class T> T __shfl_sync(unsigned mask, T value, int source, int width = 32) {
    reference::meet(mask, value);
    return reference::of_lane<T>((reference::here->lane & -width) + (source & (width - 1)));
}
template <class T> T __shfl_up_sync(unsigned mask, T value, unsigned by, int width = 32) {
    reference::meet(mask, value);
    const unsigned lane = reference::here->lane;
    return by > lane % width ? value : reference::of_lane<T>(lane - by);
}
template <class T> T __shfl_down_sync(unsigned mask, T value, unsigned by, int width = 32) {
    reference::meet(mask, value);
    const unsigned lane = reference::here->lane;
    return lane % width + by >= unsigned(width) ? value : reference::of_lane<T>(lane + by);
}
template <class T> T __shfl_xor_sync(unsigned mask, T value, int by, int width = 32) {
    reference::meet(mask, value);
    const unsigned lane = reference::here->lane, other = lane ^ by;
    return other / width > lane / width ? value : reference::of_lane<T>(other);
}
inline unsigned __ballot_sync(unsigned mask, int predicate) {
    reference::meet(mask, predicate != 0);
    unsigned votes = 0;
    for (int i = 0; i < 32; ++i)
        if (reference::here->present >> i & 1) votes |= unsigned(reference::of_lane<int>(i)) << i;
    return votes;
}
inline int __any_sync(unsigned mask, int predicate) { return __ballot_sync(mask, predicate) != 0; }
inline int __all_sync(unsigned mask, int predicate) { return __ballot_sync(mask, !predicate) == 0; }
template <class T> unsigned __match_any_sync(unsigned mask, T value) {
    reference::meet(mask, value);
    unsigned same = 0;
    for (int i = 0; i < 32; ++i)
        if (reference::here->present >> i & 1) same |= unsigned(reference::of_lane<T>(i) == value) << i;
    return same;
}
inline unsigned __activemask() { reference::fail("__activemask() is whatever the hardware likes"); }

#define REFERENCE_REDUCE(name, T, f)                                            \
    inline T __reduce_##name##_sync(unsigned mask, T value) {                   \
        return reference::reduced(mask, value, [](T a, T b) -> T { return f; }); \
    }
REFERENCE_REDUCE(add, unsigned, a + b)
REFERENCE_REDUCE(add, int, int(unsigned(a) + unsigned(b)))
REFERENCE_REDUCE(min, unsigned, a < b ? a : b)
REFERENCE_REDUCE(min, int, a < b ? a : b)
REFERENCE_REDUCE(max, unsigned, a > b ? a : b)
REFERENCE_REDUCE(max, int, a > b ? a : b)
REFERENCE_REDUCE(and, unsigned, a & b)
REFERENCE_REDUCE(or, unsigned, a | b)
REFERENCE_REDUCE(xor, unsigned, a ^ b)

#define REFERENCE_ATOMIC(name, f)                                             \
    template <class T, class V> T atomic##name(T *place, V given) {           \
        const T old = *place, v = static_cast<T>(given);                      \
        *place = f;                                                           \
        return old;                                                           \
    }
REFERENCE_ATOMIC(Add, old + v)
REFERENCE_ATOMIC(Sub, old - v)
REFERENCE_ATOMIC(Min, old < v ? old : v)
REFERENCE_ATOMIC(Max, old > v ? old : v)
REFERENCE_ATOMIC(And, old &v)
REFERENCE_ATOMIC(Or, old | v)
REFERENCE_ATOMIC(Xor, old ^ v)
REFERENCE_ATOMIC(Exch, v)
REFERENCE_ATOMIC(Inc, old >= v ? 0 : old + 1)
REFERENCE_ATOMIC(Dec, old == 0 || old > v ? v : old - 1)
template <class T, class A, class B> T atomicCAS(T *place, A expected, B value) {
    const T old = *place;
    if (old == static_cast<T>(expected)) *place = static_cast<T>(value);
    return old;
}

template <class A, class B>
using REFERENCE_COMMON = std::enable_if_t<std::is_arithmetic_v<A> && std::is_arithmetic_v<B>, std::common_type_t<A, B>>;
template <class A, class B> constexpr REFERENCE_COMMON<A, B> min(A a, B b) {
    using T = std::common_type_t<A, B>;
    if constexpr (std::is_floating_point_v<T>) return std::fmin(T(a), T(b));
    else return T(b) < T(a) ? T(b) : T(a);
}
template <class A, class B> constexpr REFERENCE_COMMON<A, B> max(A a, B b) {
    using T = std::common_type_t<A, B>;
    if constexpr (std::is_floating_point_v<T>) return std::fmax(T(a), T(b));
    else return T(a) < T(b) ? T(b) : T(a);
}
using std::abs;
template <class T> T __ldg(const T *place) { return *place; }
inline int __popc(unsigned v) { return __builtin_popcount(v); }
inline int __popcll(unsigned long long v) { return __builtin_popcountll(v); }
inline int __clz(int v) { return v ? __builtin_clz(v) : 32; }
inline int __clzll(long long v) { return v ? __builtin_clzll(v) : 64; }
inline int __ffs(int v) { return __builtin_ffs(v); }
inline int __ffsll(long long v) { return __builtin_ffsll(v); }
inline unsigned __brev(unsigned v) {
    unsigned reversed = 0;
    for (int i = 0; i < 32; ++i) reversed = reversed << 1 | (v >> i & 1);
    return reversed;
}
inline unsigned __umulhi(unsigned a, unsigned b) { return uint64_t(a) * b >> 32; }
inline int __mulhi(int a, int b) { return int64_t(a) * b >> 32; }
inline unsigned __umul24(unsigned a, unsigned b) { return (a & 0xffffff) * (b & 0xffffff); }
inline int __mul24(int a, int b) {
    return int(unsigned(int(unsigned(a) << 8) >> 8) * unsigned(int(unsigned(b) << 8) >> 8));
}
inline unsigned __usad(unsigned a, unsigned b, unsigned c) { return (a > b ? a - b : b - a) + c; }
inline unsigned __sad(int a, int b, unsigned c) { return (a > b ? unsigned(a) - b : unsigned(b) - a) + c; }
inline unsigned __byte_perm(unsigned a, unsigned b, unsigned selector) {
    const uint64_t both = uint64_t(b) << 32 | a;
    unsigned result = 0;
    for (int i = 0; i < 4; ++i) result |= unsigned(both >> 8 * (selector >> 4 * i & 7) & 255) << 8 * i;
    return result;
}
inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned by) {
    return (uint64_t(high) << 32 | low) << (by & 31) >> 32;
}
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned by) {
    return (uint64_t(high) << 32 | low) >> (by & 31);
}
inline unsigned __float_as_uint(float v) { return reference::bits<unsigned>(v); }
inline int __float_as_int(float v) { return reference::bits<int>(v); }
inline float __uint_as_float(unsigned v) { return reference::bits<float>(v); }
inline float __int_as_float(int v) { return reference::bits<float>(v); }
inline float __saturatef(float v) { return v > 1 ? 1 : v > 0 ? v : 0; }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
inline int __float2int_rz(float v) { return int(v); }
inline int __float2int_rn(float v) { return int(nearbyintf(v)); }
inline float __int2float_rn(int v) { return float(v); }
inline float __uint2float_rn(unsigned v) { return float(v); }
