// Thread loops: the words of the second versions of kernels that loops writes.
//
// Such a version is called once per block. HOSTCUDA_BLOCK begins it; HOSTCUDA_THREADS { HOSTCUDA_THREAD ... } runs what follows
// for each thread, with threadIdx and hostcuda_t, the thread's number. threadIdx and the other indices are local variables
// here, which the compiler can keep in registers. lanes.h has the words for warps.
#pragma once
#include <stddef.h>
#include <string.h>
#include <type_traits>
#include "words.h"

using hostcuda_size = size_t;   // no name that a kernel or its namespace has

#define HOSTCUDA_BLOCK                                                                                  \
    [[maybe_unused]] const ::uint3 blockIdx = ::blockIdx;                                             \
    [[maybe_unused]] const ::dim3 blockDim = ::blockDim, gridDim = ::gridDim;                         \
    if (::hostcuda::impossible(blockDim)) __builtin_unreachable();                                      \
    const hostcuda_size hostcuda_width = blockDim.x, hostcuda_height = blockDim.y, hostcuda_depth = blockDim.z; \
    [[maybe_unused]] const hostcuda_size hostcuda_threads = hostcuda_width * hostcuda_height * hostcuda_depth;

#define HOSTCUDA_THREADS                                                                                \
    for (hostcuda_size hostcuda_z = 0, hostcuda_row = 0; hostcuda_z < hostcuda_depth; ++hostcuda_z)               \
        for (hostcuda_size hostcuda_y = 0; hostcuda_y < hostcuda_height; ++hostcuda_y, hostcuda_row += hostcuda_width) \
            for (hostcuda_size hostcuda_x = 0; hostcuda_x < hostcuda_width; ++hostcuda_x)

#define HOSTCUDA_THREAD                                                                                 \
    [[maybe_unused]] const ::uint3 threadIdx = {(unsigned)hostcuda_x, (unsigned)hostcuda_y, (unsigned)hostcuda_z}; \
    [[maybe_unused]] const hostcuda_size hostcuda_t = hostcuda_row + hostcuda_x;

// A block whose numbers are larger than the loops take them to be begins again, on fibers.
HOSTCUDA_WORD bool hostcuda_unfit;
#define HOSTCUDA_LIMIT(number, most)                                                                    \
    if ((number) > (most) || (number) < -(most)) {                                                    \
        hostcuda_unfit = true;                                                                          \
        return;                                                                                       \
    }

// Of kernels whose threads can return before a barrier: the threads that are left.
#define HOSTCUDA_MASK                                                                                   \
    bool hostcuda_live[hostcuda_threads];                                                                 \
    __builtin_memset(hostcuda_live, true, hostcuda_threads);
#define HOSTCUDA_RETURN_IF_NONE_LEFT                                                                    \
    if (!__builtin_memchr(hostcuda_live, true, hostcuda_threads)) return;

// Words of loops/rows.py. HOSTCUDA_ROW is a condition that is the same for all threads of a row.
#ifdef __clang__
#define HOSTCUDA_UNROLL(n) _Pragma(HOSTCUDA_TEXT(unroll n))
#define HOSTCUDA_ROW(...) (__VA_ARGS__)
#else
#define HOSTCUDA_ROW(...) (threadIdx.x < -(unsigned)(bool)(__VA_ARGS__))
#define HOSTCUDA_UNROLL(n) _Pragma(HOSTCUDA_TEXT(GCC unroll n))
#endif

// Of two branches, inline.py takes the type to be that of the one.
#define hostcuda_require_same(type, value)                                                              \
    static_assert(::std::is_same_v<type, ::std::decay_t<decltype(value)>>, "this argument needs fibers")

// What the rewriter takes for granted, proved by the compiler where it is used: a constant; a type whose variables are
// numbers, pointers or the like, so that built-in operators apply to them.
#define hostcuda_constant(...) ::hostcuda::constant<((__VA_ARGS__) == (__VA_ARGS__))>(__VA_ARGS__)
#define hostcuda_require_plain(...) static_assert(::hostcuda::is_plain<__VA_ARGS__>, "this type needs fibers");

namespace hostcuda {

template <bool holds, class T> constexpr T constant(T value) {
    static_assert(holds, "this constant needs fibers");
    return value;
}

template <class T> constexpr bool is_plain_value = std::is_scalar_v<T>;
#define HOSTCUDA_PLAIN(name) template <> constexpr bool is_plain_value<name> = true;
#define HOSTCUDA_PLAINS(name) HOSTCUDA_PLAIN(name##2) HOSTCUDA_PLAIN(name##3) HOSTCUDA_PLAIN(name##4)
HOSTCUDA_PLAINS(int) HOSTCUDA_PLAINS(uint) HOSTCUDA_PLAINS(float) HOSTCUDA_PLAINS(double)
#undef HOSTCUDA_PLAINS
#undef HOSTCUDA_PLAIN
template <class T>
constexpr bool is_plain = !std::is_reference_v<T> && is_plain_value<std::remove_cv_t<std::remove_all_extents_t<T>>>;

// The limits of a launch, for the compiler: an index does not overflow.
inline bool impossible(dim3 block) {
    return block.x - 1 >= 1024 || block.y - 1 >= 1024 || block.z - 1 >= 64;
}

// A term that is subtracted.
template <class T> struct Minus {
    T term;
};
template <class T> inline __attribute__((always_inline)) Minus<T> minus(T term) { return {term}; }
template <class N, class T> inline __attribute__((always_inline)) auto as(T term) { return (N)term; }
template <class N, class T> inline __attribute__((always_inline)) auto as(Minus<T> minus) { return -(N)minus.term; }
template <class A, class T> inline __attribute__((always_inline)) auto operator+(A sum, Minus<T> minus) {
    return sum - minus.term;  // not sum + -term: an unsigned term is negated in its own width, and then widened
}
template <class T> constexpr bool is_int = std::is_same_v<T, int> || std::is_same_v<T, Minus<int>>;
template <class T> constexpr bool is_narrow = std::is_integral_v<T> && sizeof(T) <= sizeof(int);
template <class T> constexpr bool is_narrow<Minus<T>> = is_narrow<T>;

// A sum of which no part overflows (rows.py has shown it), as an int or, if all terms are int, as an index.
template <class... T> inline __attribute__((always_inline)) auto sum(T... terms) {
    if constexpr ((is_narrow<T> && ...)) return (... + as<int>(terms));
    else return (... + terms);
}
template <class... T> inline __attribute__((always_inline)) auto index(T... terms) {
    if constexpr ((is_int<T> && ...)) return (... + as<ptrdiff_t>(terms));  // of int, an overflow is undefined
    else return (... + terms);
}

// The first value of an array, or of a variable whose address is taken, that lives across a barrier.
template <class T> inline __attribute__((always_inline)) T &keep(T &kept, const std::remove_cv_t<T> &first) {
    static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= 8192, "this variable needs fibers");
    memcpy((void *)&kept, (const void *)&first, sizeof kept);
    return kept;
}

// The value of a variable that lives across a barrier. half.h has another one.
template <class T> inline __attribute__((always_inline)) const T &fetch(const T &kept) { return kept; }

// Between a variable that lives across a barrier and the thread's copy of it.
template <class T, class U> inline __attribute__((always_inline)) void copy(T &to, const U &from) {
    if constexpr (std::is_array_v<T>) {
        static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= 8192, "this variable needs fibers");
        HOSTCUDA_UNROLL(64)
        for (size_t i = 0; i < std::extent_v<T>; ++i) copy(to[i], from[i]);
    } else {
        to = from;
    }
}

}  // namespace hostcuda
