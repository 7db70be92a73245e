// What the compiler is to warn of in host code, where it only looks for warnings: as g++ warns of memcpy (-Wclass-memaccess).
#pragma once
#include "host.h"

namespace hostcuda {
template <class T, class = void> constexpr bool is_more = false;   // than its bytes
template <class T> constexpr bool is_more<T, std::enable_if_t<std::is_class_v<T> && sizeof(T)>> =
    !std::is_trivially_destructible_v<T> || std::is_polymorphic_v<T>;
}
#define HOSTCUDA_COPIES_OBJECTS                                                                                 \
    template <class T, class U, std::enable_if_t<hostcuda::is_more<T> || hostcuda::is_more<U>, int> = 0>        \
    [[deprecated("this copies the bytes of an object that is more than these: of a container, copy the elements, "    \
                 "from its data(); virtual functions would be the host's on the device")]]                      \
    cudaError_t
namespace hostcuda {
// Arguments that frontend/sizes.py doubts: the types are those of the call's pointers.
template <class T> constexpr bool is_wide = std::is_arithmetic_v<T> && sizeof(T) > 1;
template <class P, class Q, class = void> struct Wide {
    template <class V> static constexpr V value(V v) { return v; }
    template <class V> static constexpr V count(V v) { return v; }
};
template <class T, class U> struct Wide<T *, U *, std::enable_if_t<is_wide<std::remove_cv_t<T>> && is_wide<std::remove_cv_t<U>>>> {
    template <class V>
    [[deprecated("cudaMemset sets each byte to this value, not each element: of bytes that are 1 an int is 16843009. Set the elements in "
                 "a kernel, or copy them")]]
    static constexpr V value(V v) { return v; }
    template <class V>
    [[deprecated("the size is a number of bytes, and this function has the same number as one of elements: multiply it by sizeof of an "
                 "element")]]
    static constexpr V count(V v) { return v; }
};
template <class P, class = void> struct PointerSize {
    static constexpr size_t of(size_t bytes) { return bytes; }
};
template <class P> using Pointee = std::remove_pointer_t<std::remove_reference_t<P>>;
template <class P> struct PointerSize<P, std::enable_if_t<std::is_pointer_v<std::remove_reference_t<P>> && sizeof(Pointee<P>) != sizeof(void *)>> {
    [[deprecated("sizeof a pointer is the 8 bytes of an address, not the size of the array: write the number of elements * sizeof of one")]]
    static constexpr size_t of(size_t bytes) { return bytes; }
};
}
HOSTCUDA_COPIES_OBJECTS cudaMemcpy(T *to, const U *from, size_t, cudaMemcpyKind);
HOSTCUDA_COPIES_OBJECTS cudaMemcpyAsync(T *to, const U *from, size_t, cudaMemcpyKind, cudaStream_t = 0);
