// HOSTCUDA_KERNEL(f), after the definition of the kernel f, makes f launchable.
//
// It registers with the runtime the layout of f's arguments (like a struct of the parameters) and a function that calls f
// for the current thread with arguments in that layout. The runtime's loop over the threads of a block calls this function
// through a pointer, so that the compiler never optimizes across two threads; words.h relies on that.
#pragma once
#include <stddef.h>
#include <type_traits>
#include <utility>
#include "words.h"

struct __half;

namespace hostcuda {

// Layout and values of hc_parameter in the runtime's abi.h.
struct Parameter {
    int kind, size, align, offset;
};

struct Kernel {
    const char *name;                      // as written in the source
    const void *function;
    void (*call)(const char *arguments);   // run the current thread
    const Parameter *parameters;
    int parameter_count, packed_bytes;
    int max_threads;                       // per block
    void (*loops)(const char *arguments);  // run a block as thread loops (loops.h), or null
    const void *loops_function;
    const char *why_fibers;                // the reason for which there are no loops
    int blocks;                            // which the loops are for: 0 all, 1 with each warp in one row, 2 with long rows
    bool flushes;                          // subnormal numbers are zeros: nvcc -ftz=true
    struct { unsigned x, y, z; } cluster;  // blocks that run together
};

// Bounds of a kernel as one constant: threads per block, and if the highest bit but the sign is set, the blocks of its clusters
// along each axis, 10 bits for each. A launch refuses 0 of them, and so many that they do not fit here.
constexpr long long fit_blocks(long long blocks) { return blocks < 0 ? 0 : blocks > 1023 ? 1023 : blocks; }
constexpr long long cluster_bounds(unsigned max_threads, long long x = 1, long long y = 1, long long z = 1) {
    return 1ll << 62 | fit_blocks(z) << 52 | fit_blocks(y) << 42 | fit_blocks(x) << 32 | max_threads;
}

#ifndef HOSTCUDA_FLUSHES
#define HOSTCUDA_FLUSHES false
#endif

// Called while the module is loaded.
HOSTCUDA_API void add_kernel(const Kernel *kernel);

template <class T> constexpr int parameter_kind() {
    using plain = std::remove_cv_t<T>;
    static_assert(!std::is_reference_v<T>, "a __global__ function takes no references: pass a pointer or a value");
    static_assert(!std::is_polymorphic_v<T>, "a kernel argument is copied byte by byte: its type cannot have virtual functions");
    if (std::is_pointer_v<T> || std::is_same_v<plain, decltype(nullptr)>) return 'P';
    if (std::is_floating_point_v<T> || std::is_same_v<plain, __half>) return 'f';
#if defined(__FLT16_MAX__) && (defined(__x86_64__) || defined(__clang__) || __GNUC__ >= 13)   // g++ 12 has no _Float16 on aarch64
    if (std::is_same_v<plain, _Float16>) return 'f';
#endif
    if constexpr (std::is_enum_v<T>) return parameter_kind<std::underlying_type_t<T>>();
    if (std::is_integral_v<T>) return std::is_signed_v<T> ? 'i' : 'u';
    return 's';
}

template <class... P> struct Parameters {
    Parameter of[sizeof...(P) + 1];
    int packed_bytes;

    constexpr Parameters()
        : of{Parameter{parameter_kind<P>(), (int)sizeof(P), (int)alignof(P), 0}..., Parameter{}}, packed_bytes(0) {
        int widest = 1;
        for (size_t i = 0; i < sizeof...(P); i++) {
            int align = of[i].align;
            of[i].offset = (packed_bytes + align - 1) / align * align;
            packed_bytes = of[i].offset + of[i].size;
            if (align > widest) widest = align;
        }
        packed_bytes = (packed_bytes + widest - 1) / widest * widest;
    }
};

template <auto function> struct Launchable {
    static_assert(sizeof(function) < 0, "a __global__ function returns void");
};

// An argument of a kernel. It is copied byte by byte and never destroyed, as on a GPU. C++ passes a class with constructors
// or a destructor of its own by its address, so that such a copy can be handed over as a reference.
template <class P, bool plain = std::is_trivially_copy_constructible_v<P> && std::is_trivially_move_constructible_v<P> &&
                                std::is_trivially_destructible_v<P>>
struct Argument {
    using Passed = P;
    const P &value;
    Argument(const char *from) : value(*(const P *)from) {}
};
template <class P> struct Argument<P, false> {
    using Passed = P &&;
    union { P value; };
    Argument(const char *from) { __builtin_memcpy((void *)&value, from, sizeof value); }
    ~Argument() {}
};

template <class... P, void (*function)(P...)> struct Launchable<function> {
    static constexpr Parameters<P...> parameters{};

    template <size_t... i> static void call_with(const char *arguments, std::index_sequence<i...>) {
        ((void (*)(typename Argument<P>::Passed...))function)(
            static_cast<typename Argument<P>::Passed>(Argument<P>(arguments + parameters.of[i].offset).value)...);
    }
    static void call(const char *arguments) { call_with(arguments, std::index_sequence_for<P...>()); }

    template <class Second>
    static void add(Kernel &kernel, const char *name, long long bounds, Second, const char *why_fibers,
                    int blocks = 0) {
        auto of_cluster = [=](int first_bit) { return bounds >> 62 & 1 ? (unsigned)(bounds >> first_bit) & 1023 : 1u; };
        kernel = {name,          (const void *)function, call,         parameters.of,    sizeof...(P), parameters.packed_bytes,
                  (int)bounds,   Second::call,           Second::function(), why_fibers, blocks,       HOSTCUDA_FLUSHES,
                  {of_cluster(32), of_cluster(42), of_cluster(52)}};
        add_kernel(&kernel);
    }
};

// The pointer to a kernel, which may share its name with a function of the C library: that one returns something.
template <class Function> constexpr Function kernel_of(Function f) { return f; }
template <class... P> constexpr auto kernel_of(void (*f)(P...)) { return f; }

// A kernel's second version, or none.
template <auto... second> struct Loops {
    static constexpr void (*call)(const char *) = nullptr;
    static const void *function() { return nullptr; }
};
template <auto second> struct Loops<second> : Launchable<second> {
    static const void *function() { return (const void *)second; }
};

}  // namespace hostcuda

#define HOSTCUDA_JOIN_(a, b) a##b
#define HOSTCUDA_JOIN(a, b) HOSTCUDA_JOIN_(a, b)

// HOSTCUDA_KERNEL(f), HOSTCUDA_KERNEL(f<16, float>), HOSTCUDA_KERNEL_BOUNDS(256, f): also inside extern "C" and
// namespaces. Each kernel has a constructor of its own, so that a module that runs other code while it is loaded can be
// told from its symbols. The bounds are constants, which no code computes then.
#define HOSTCUDA_KERNEL(...) HOSTCUDA_KERNEL_BOUNDS(1024, __VA_ARGS__)
#define HOSTCUDA_KERNEL_BOUNDS(max_threads, ...) HOSTCUDA_KERNEL_LOOPS(max_threads, (), HOSTCUDA_WHY_FIBERS, __VA_ARGS__)
// Also its second version, in parentheses, or else the reason for which it has none.
#define HOSTCUDA_INSIDE(...) __VA_ARGS__
#define HOSTCUDA_KERNEL_LOOPS(...) HOSTCUDA_KERNEL_GEARS(0, __VA_ARGS__)
#define HOSTCUDA_KERNEL_WARPS(...) HOSTCUDA_KERNEL_GEARS(1, __VA_ARGS__)
#define HOSTCUDA_KERNEL_GROUPS(...) HOSTCUDA_KERNEL_GEARS(2, __VA_ARGS__)
#define HOSTCUDA_KERNEL_GEARS(blocks, max_threads, second, why_fibers, ...)                            \
    extern "C++" {                                                                                    \
    namespace {                                                                                       \
    __attribute__((constructor)) void HOSTCUDA_JOIN(hostcuda_register_, __COUNTER__)() {                  \
        static ::hostcuda::Kernel hostcuda_kernel;   /* no name that a kernel may have */                 \
        ::hostcuda::Launchable<::hostcuda::kernel_of(&__VA_ARGS__)>::add(                                 \
            hostcuda_kernel, #__VA_ARGS__,                                                                \
            ::std::integral_constant<long long, (long long)(max_threads)>::value,                         \
            ::hostcuda::Loops<HOSTCUDA_INSIDE second>(),                                                  \
            why_fibers, blocks);                                                                          \
    }                                                                                                 \
    }                                                                                                 \
    }
