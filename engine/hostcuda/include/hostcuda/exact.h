// What C++ leaves open and a GPU does not: a float that is out of the range of an integer, and shifts by the width or more.
//
// hostcuda/frontend/exact.py writes `(int)x` as `hostcuda_cast<int>(x)` and `a << n` as `a << hostcuda::shift << n`, which
// C++ reads as `(a << hostcuda::shift) << n`. tests/semantics/values.txt has what an H100 gives.
#pragma once
#include <limits.h>
#include <type_traits>

#define HOSTCUDA_EXACT inline constexpr __attribute__((always_inline, artificial))

namespace hostcuda {

// The other operand if one is NaN. -0 is less than 0: equal values differ at most in their sign. Without a branch: behind one
// that depends on data, compilers copy what follows, and the loads of one line are no longer those of one instruction.
template <class R, class Bits> HOSTCUDA_EXACT R chosen(bool first, bool equal, R a, R b, Bits of_equal) {
    Bits is_first = -(Bits)first, is_equal = -(Bits)equal;
    return __builtin_bit_cast(R, (__builtin_bit_cast(Bits, a) & is_first) | (of_equal & is_equal) |
                                     (__builtin_bit_cast(Bits, b) & ~(is_first | is_equal)));
}
template <class R> using BitsOf = std::conditional_t<sizeof(R) == 4, unsigned int, unsigned long long>;
template <class R> HOSTCUDA_EXACT R lesser(R a, R b) {
    return chosen((a < b) | (b != b), a == b, a, b, __builtin_bit_cast(BitsOf<R>, a) | __builtin_bit_cast(BitsOf<R>, b));
}
template <class R> HOSTCUDA_EXACT R greater(R a, R b) {
    return chosen((a > b) | (b != b), a == b, a, b, __builtin_bit_cast(BitsOf<R>, a) & __builtin_bit_cast(BitsOf<R>, b));
}

// The nearest value of integer type I to x, rounded towards 0. NaN gives 0 from float to 32 bits, otherwise only the top bit
// is set. Smaller types take the low bits of an int or unsigned int.
template <class I, class F> HOSTCUDA_EXACT I saturate_to(F x) {
    constexpr bool is_signed = (I)-1 < (I)0;
    if constexpr (sizeof(I) < sizeof(int)) {
        return (I)saturate_to<std::conditional_t<is_signed, int, unsigned int>>(x);
    } else {
        constexpr int bits = 8 * sizeof(I);
        constexpr I lowest = is_signed ? (I)(1ull << (bits - 1)) : 0, highest = (I)~lowest;
        constexpr F limit = (F)(1ull << (bits - 1)) * (is_signed ? 1 : 2);   // highest + 1, exactly
        constexpr I of_nan = sizeof(F) == 4 && sizeof(I) <= 4 ? (I)0 : (I)(1ull << (bits - 1));
        if (is_signed && x > (F)-1 && x <= (F)0) return 0;   // g++ makes trunc(x), which may be -0, of (float)(int)x
        return x >= limit ? highest : x > (F)lowest ? (I)x : x != x ? of_nan : lowest;
    }
}

}  // namespace hostcuda

// (T)x
template <class T, class F> HOSTCUDA_EXACT T hostcuda_cast(F &&x) {
    using From = std::remove_cv_t<std::remove_reference_t<F>>;
    if constexpr (std::is_integral_v<T> && !std::is_same_v<std::remove_cv_t<T>, bool> && std::is_floating_point_v<From>)
        return hostcuda::saturate_to<std::remove_cv_t<T>>((From)x);
    else return (T)static_cast<F &&>(x);
}

namespace hostcuda {

template <class T> constexpr bool counts = std::is_integral_v<T> || (std::is_enum_v<T> && std::is_convertible_v<T, int>);

template <class T> struct Shifted { T value; };   // a value that is to be shifted
template <class N> struct Count { N value; };
struct Shift {
    template <class N> constexpr Count<N> operator=(N n) const { return {n}; }
};
inline constexpr Shift shift;

template <class T, class = std::enable_if_t<counts<T>>> HOSTCUDA_EXACT auto operator<<(T a, Shift) {
    return Shifted<decltype(+a)>{+a};
}
template <class T, class = std::enable_if_t<counts<T>>> HOSTCUDA_EXACT auto operator>>(T a, Shift) {
    return Shifted<decltype(+a)>{+a};
}
template <class T, class = std::enable_if_t<!counts<std::remove_cv_t<std::remove_reference_t<T>>>>, class = void>
HOSTCUDA_EXACT Shifted<T &&> operator<<(T &&a, Shift) { return {static_cast<T &&>(a)}; }
template <class T, class = std::enable_if_t<!counts<std::remove_cv_t<std::remove_reference_t<T>>>>, class = void>
HOSTCUDA_EXACT Shifted<T &&> operator>>(T &&a, Shift) { return {static_cast<T &&>(a)}; }

// The hardware takes the low 32 bits of the count, and shifts everything out from the width on.
template <class T, class N> HOSTCUDA_EXACT decltype(auto) operator<<(Shifted<T> a, N &&n) {
    if constexpr (std::is_integral_v<T> && counts<std::remove_cv_t<std::remove_reference_t<N>>>) {
        const auto count = (unsigned int)n;
        return (T)(count < 8 * sizeof(T) ? (std::make_unsigned_t<T>)a.value << count : 0);
    } else {
        return static_cast<T>(a.value) << static_cast<N &&>(n);
    }
}
template <class T, class N> HOSTCUDA_EXACT decltype(auto) operator>>(Shifted<T> a, N &&n) {
    if constexpr (std::is_integral_v<T> && counts<std::remove_cv_t<std::remove_reference_t<N>>>) {
        constexpr unsigned int most = 8 * sizeof(T) - 1;
        const auto count = (unsigned int)n;
        return (T)(std::is_signed_v<T> ? a.value >> (count < most ? count : most) : count <= most ? a.value >> count : 0);
    } else {
        return static_cast<T>(a.value) >> static_cast<N &&>(n);
    }
}
// `i += hostcuda::shift = x` with a float x and an integer i.
#define HOSTCUDA_COMPOUND(sign)                                                                         \
    template <class T, class N> HOSTCUDA_EXACT decltype(auto) operator sign##=(T &a, Count<N> n) {      \
        return a = hostcuda_cast<std::remove_cv_t<T>>(a sign n.value);                                  \
    }
HOSTCUDA_COMPOUND(+) HOSTCUDA_COMPOUND(-) HOSTCUDA_COMPOUND(*) HOSTCUDA_COMPOUND(/)
#undef HOSTCUDA_COMPOUND
template <class T, class N> HOSTCUDA_EXACT decltype(auto) operator<<=(T &a, Count<N> n) {
    if constexpr (counts<std::remove_cv_t<T>>) return a = (std::remove_cv_t<T>)(a << shift << n.value);
    else return a <<= n.value;
}
template <class T, class N> HOSTCUDA_EXACT decltype(auto) operator>>=(T &a, Count<N> n) {
    if constexpr (counts<std::remove_cv_t<T>>) return a = (std::remove_cv_t<T>)(a >> shift >> n.value);
    else return a >>= n.value;
}

}  // namespace hostcuda
