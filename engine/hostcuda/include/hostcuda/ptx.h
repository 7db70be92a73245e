// Inline PTX: ptx.py replaces the instructions by calls of these functions, with the registers of their operands; and the
// addresses of shared memory that PTX uses.
//
// mma.sync multiplies like WMMA (wmma.h): the lanes of the warp wait for each other, and the last one to arrive computes
// for all 32. PTX defines the elements of each lane: with g = lane / 4 and t = lane % 4, they are in rows g and g + 8 of a
// and of the sums, and in column g of b. Of every 8 elements of 16 bits there, a lane has 2t and 2t + 1, a pair in one
// register; of every 4 of tf32 it has element t.
#pragma once
#include <time.h>
#include "async.h"
#include "cluster.h"
#include "wmma.h"

// An address of shared memory is a distance from the block's dynamic memory, or, less than zero, from the end of the static
// memory, so that 18 bits tell them apart.
inline size_t __cvta_generic_to_shared(const void *p) {
    const char *at = (const char *)p, *dynamic = (const char *)hostcuda_dynamic_shared;
    const ptrdiff_t distance = at - (at >= dynamic ? dynamic : hostcuda_shared_end);
    if (__builtin_expect((size_t)(distance + (64 << 20)) > 65 << 20, 0)) return hostcuda::cluster_window_address(p);
    return (unsigned)distance;
}
inline void *__cvta_shared_to_generic(size_t address) {
    if (__builtin_expect(hostcuda::in_cluster_window((unsigned)address), 0)) return hostcuda::of_cluster_window((unsigned)address);
    return ((int)(unsigned)address < 0 ? hostcuda_shared_end : (char *)hostcuda_dynamic_shared) + (int)(unsigned)address;
}
inline size_t __cvta_generic_to_global(const void *p) { return (size_t)p; }
inline void *__cvta_global_to_generic(size_t address) { return (void *)address; }

inline unsigned int __isShared(const void *p) { return hostcuda::space_of(p) == 's'; }
inline unsigned int __isLocal(const void *p) { return hostcuda::space_of(p) == 'l'; }
inline unsigned int __isGlobal(const void *p) { return hostcuda::space_of(p) == 'g'; }

namespace hostcuda {
namespace ptx {

// An operand of an asm statement, by the letter of its constraint.
template <class T> inline unsigned &r(T &operand) {
    static_assert(std::is_same_v<T, unsigned> || std::is_same_v<T, int>, "\"r\" is for an int or an unsigned int");
    return (unsigned &)operand;
}
template <class T> inline float &f(T &operand) {
    static_assert(std::is_same_v<T, float>, "\"f\" is for a float");
    return operand;
}

// An operand as a value of an instruction's type, and back: the same bits, or an integer of another size.
template <class T, class Operand> inline T get(Operand operand) {
    if constexpr (sizeof(T) == sizeof(Operand)) return __builtin_bit_cast(T, operand);
    else return (T)operand;
}
template <class T, class Operand> inline void put(Operand &operand, T value) { operand = get<Operand>(value); }

// Integers wrap around.
template <class T> constexpr auto wrapping() {
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) return std::make_unsigned_t<T>();
    else return T();
}
template <class T> inline bool is_negative(T a) {
    if constexpr (std::is_floating_point_v<T>) return std::signbit(a);
    else return a < T();
}
#define HOSTCUDA_PTX_WRAPPING(name, expression)                                                         \
    template <class T> inline T name(T x, T y) {                                                      \
        typedef decltype(wrapping<T>()) W;                                                            \
        W a = (W)x, b = (W)y;                                                                         \
        return (T)(W)(expression);                                                                    \
    }
#define HOSTCUDA_PTX_PLAIN(name, expression) template <class T> inline T name(T a, T b) { return (T)(expression); }
#define HOSTCUDA_PTX_RELATION(name, relation) template <class T> inline bool name(T a, T b) { return a relation b; }
HOSTCUDA_PTX_WRAPPING(add_, a + b)
HOSTCUDA_PTX_WRAPPING(sub_, a - b)
HOSTCUDA_PTX_WRAPPING(mul_, a * b)
HOSTCUDA_PTX_PLAIN(and_, a & b)
HOSTCUDA_PTX_PLAIN(or_, a | b)
HOSTCUDA_PTX_PLAIN(xor_, a ^ b)
HOSTCUDA_PTX_PLAIN(min_, a < b || b != b || (a == b && is_negative(a)) ? a : b)   // -0 is less than 0
HOSTCUDA_PTX_PLAIN(max_, a > b || b != b || (a == b && is_negative(b)) ? a : b)
HOSTCUDA_PTX_RELATION(is_eq_, ==)
HOSTCUDA_PTX_RELATION(is_lt_, <)
HOSTCUDA_PTX_RELATION(is_le_, <=)
HOSTCUDA_PTX_RELATION(is_gt_, >)
HOSTCUDA_PTX_RELATION(is_ge_, >=)
template <class T> inline bool is_ne_(T a, T b) { return a < b || a > b; }   // false for a NaN, as all relations
#undef HOSTCUDA_PTX_WRAPPING
#undef HOSTCUDA_PTX_PLAIN
#undef HOSTCUDA_PTX_RELATION
// Each bit of the result is the bit of `table` at the three operands' bits.
inline unsigned lop3(unsigned a, unsigned b, unsigned c, unsigned table) {
    unsigned result = 0;
    for (int i = 0; i < 8; i++)
        if (table >> i & 1) result |= (i & 4 ? a : ~a) & (i & 2 ? b : ~b) & (i & 1 ? c : ~c);
    return result;
}
// Each four bits of `selector` choose a byte of the two words; with their highest bit, it is the byte's sign in all bits.
inline unsigned prmt(unsigned a, unsigned b, unsigned selector) {
    unsigned result = 0;
    for (int i = 0; i < 4; i++) {
        unsigned chosen = selector >> 4 * i, byte = ((unsigned long long)b << 32 | a) >> 8 * (chosen & 7) & 0xff;
        result |= (chosen & 8 ? (byte & 0x80 ? 0xff : 0) : byte) << 8 * i;
    }
    return result;
}
// Of position and length, the low 8 bits count. Bits beyond the word are zeros, or the sign.
template <class T> inline T bfe(T a, unsigned position, unsigned length) {
    typedef std::conditional_t<std::is_signed_v<T>, long long, unsigned long long> Wide;
    position &= 0xff, length &= 0xff;
    const unsigned unused = 64 - (length < 64 ? length : 64);
    const Wide bits = (Wide)a >> (position < 63 ? position : 63);
    return length ? (T)((Wide)((unsigned long long)bits << unused) >> unused) : T();
}
inline unsigned bfi(unsigned a, unsigned into, unsigned position, unsigned length) {
    position &= 0xff, length &= 0xff;
    unsigned long long mask = position < 32 ? ((1ull << (length < 32 ? length : 32)) - 1) << position : 0;
    return (unsigned)(((unsigned long long)a << (position & 31) & mask) | (into & ~mask));
}
// Approximations are the accurate functions here.
template <class T> inline T ex2_(T a) { return exp2f(a); }
template <class T> inline T lg2_(T a) { return log2f(a); }
template <class T> inline T rcp_(T a) { return 1 / a; }
template <class T> inline T rsqrt_(T a) { return rsqrtf(a); }
template <class T> inline T sqrt_(T a) { return sqrtf(a); }
template <class T> inline T sin_(T a) { return sinf(a); }
template <class T> inline T cos_(T a) { return cosf(a); }
template <class T> inline T tanh_(T a) { return tanhf(a); }
template <class T> inline T mov_(T a) { return a; }
template <class T> inline T not_(T a) { return std::is_same_v<T, bool> ? (T)!a : (T)~a; }
template <class T> inline T neg_(T a) { return std::is_floating_point_v<T> ? -a : sub_(T(), a); }
template <class T> inline T abs_(T a) {
    if constexpr (std::is_floating_point_v<T>) return std::fabs(a);
    else return a < T() ? neg_(a) : a;
}
template <class T> inline T mad_(T a, T b, T c) { return add_(mul_(a, b), c); }
template <class T> inline T fma_(T a, T b, T c) { return std::fma(a, b, c); }
// By more than the width: no bit is left, or only the sign.
template <class T> inline T shl_(T a, unsigned by) {
    return by < 8 * sizeof(T) ? (T)((decltype(wrapping<T>()))a << by) : T();
}
template <class T> inline T shr_(T a, unsigned by) { return (T)(a >> (by < 8 * sizeof(T) ? by : 8 * sizeof(T) - 1) >> (by >= 8 * sizeof(T) && std::is_unsigned_v<T>)); }

// A register from its parts, the lowest first, and the parts of a register.
template <class T, class... Part> inline T pack(Part... parts) {
    static_assert((sizeof(Part) + ...) == sizeof(T), "the parts of a register must have its size together");
    T whole;
    char *to = (char *)&whole;
    ((memcpy(to, &parts, sizeof parts), to += sizeof parts), ...);
    return whole;
}
template <class T, class Whole, class... Part> inline void unpack(Whole whole, Part &...parts) {
    static_assert(sizeof whole == sizeof(T) && (sizeof(Part) + ...) == sizeof(T), "the parts of a register must have its size together");
    const char *from = (const char *)&whole;
    ((memcpy((void *)&parts, from, sizeof parts), from += sizeof parts), ...);
}

inline unsigned thread_number() { return (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x; }
inline unsigned block_threads() { return blockDim.x * blockDim.y * blockDim.z; }
inline unsigned long long nanoseconds() {
    timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return now.tv_sec * 1000000000ull + now.tv_nsec;
}

// Addresses in brackets.
template <class T> inline char *shared_at(T address, int offset) {
    static_assert(std::is_integral_v<T>, "the address of shared memory is what __cvta_generic_to_shared gives");
    return (char *)__cvta_shared_to_generic(address) + offset;
}
template <class T> inline const char *global_at(T address, int offset) {
    static_assert(sizeof address == 8, "an address of global memory has 64 bits");
    return (const char *)address + offset;
}

// Values of consecutive addresses, as one access.
template <class T, int count> struct alignas(count * sizeof(T)) values {
    T x[count];

    template <class... Register> void to(Register &...registers) const {
        int i = 0;
        (put<T>(registers, x[i++]), ...);
    }
};
template <class T, int count> inline values<T, count> load(const char *from) { return *(const values<T, count> *)from; }
template <class T, class... Register> inline void store(const char *to, Register... registers) {
    *(values<T, sizeof...(Register)> *)to = {{get<T>(registers)...}};
}

// Barrier 0 with all threads is that of __syncthreads.
inline void bar_sync(unsigned number, unsigned threads, HOSTCUDA_HERE) {
    unsigned all = block_threads();
    if (number > 15 || threads % 32 != 0 || threads > (all + 31) / 32 * 32)
        fail("bar.sync at %s:%d: barrier %u with %u threads; there are barriers 0 to 15, each for whole warps of the block",
             file, line, number, threads);
    if (number == 0 && (threads == 0 || threads >= all)) return __syncthreads(file, line);
    follow(meet_at(number, 0, threads && threads < all ? threads : all, nullptr, nullptr, "bar.sync", file, line));
}
inline void bar_arrive(unsigned number, unsigned threads, HOSTCUDA_HERE) {
    arrive_at_number(number & 15, threads, "bar.arrive", file, line);
}

// The first `given` of the bytes are copied, the others become zero.
inline void cp_async(void *to, const void *from, unsigned bytes, unsigned given, HOSTCUDA_HERE) {
    if (!copy_async(to, from, bytes, given)) fail("cp.async at %s:%d copies 4, 8 or 16 bytes, not %u", file, line, bytes);
}
inline void cp_async_commit_group() { hostcuda_copies_committed(); }
inline void cp_async_wait_group(size_t prior) { hostcuda_copies_awaited(prior); }
inline void cp_async_wait_all() {
    hostcuda_copies_committed();
    hostcuda_copies_awaited(0);
}

// ---- ldmatrix, stmatrix -----------------------------------------------------------------------------------

// Matrices of 8 by 8 elements of 16 bits. The first 8 * count lanes have the addresses of their rows.
template <int count> struct matrix_slot {
    call_site site;
    const char *row;
    unsigned x[count];

    template <class... Register> void to(Register &...registers) const {
        int i = 0;
        ((registers = x[i++]), ...);
    }
};

// Refuse rows that are not aligned; tell check mode of the bytes, which are divided among all lanes. Returns the slots' access.
template <int count> HOSTCUDA_UNSEEN auto begin_matrices(void *const *lanes, unsigned arrived) {
    auto slot = [=](int lane) { return (matrix_slot<count> *)lanes[lane]; };
    const call_site &site = slot(__builtin_ctz(arrived))->site;
    require_whole_warp(arrived, site);
    for (int i = 0; i < 8 * count; i++)
        if ((size_t)slot(i)->row % 16 != 0)
            fail("%s at %s:%d: the address of lane %d is no multiple of 16 bytes", site.what, site.file, site.line, i);
    return slot;
}
// The bytes of a lane.
template <int count, class Slot> HOSTCUDA_UNSEEN const char *bytes_of_lane(Slot slot, int lane) {
    int mine = lane % (32 / count) * 4 * count;
    return slot(lane / (32 / count) * 8 + mine / 16)->row + mine % 16;
}

template <int count, bool turned> HOSTCUDA_UNSEEN void ldmatrix_combine(void *const *lanes, unsigned arrived) {
    auto slot = begin_matrices<count>(lanes, arrived);
#ifdef HOSTCUDA_CHECK
    for (int lane = 0; lane < 32; lane++) hostcuda_reads(bytes_of_lane<count>(slot, lane), 4 * count);
#endif
    for (int matrix = 0; matrix < count; matrix++) {
        uint16_t of[8][8];
        for (int i = 0; i < 8; i++) memcpy(of[i], slot(matrix * 8 + i)->row, 16);
        for (int lane = 0; lane < 32; lane++) {
            int g = lane / 4, t = lane % 4 * 2;
            unsigned low = turned ? of[t][g] : of[g][t], high = turned ? of[t + 1][g] : of[g][t + 1];
            slot(lane)->x[matrix] = low | high << 16;
        }
    }
}

template <int count, bool turned> HOSTCUDA_UNSEEN void stmatrix_combine(void *const *lanes, unsigned arrived) {
    auto slot = begin_matrices<count>(lanes, arrived);
#ifdef HOSTCUDA_CHECK
    for (int lane = 0; lane < 32; lane++) hostcuda_writes((void *)bytes_of_lane<count>(slot, lane), 4 * count);
#endif
    for (int matrix = 0; matrix < count; matrix++) {
        uint16_t of[8][8];
        for (int lane = 0; lane < 32; lane++)
            for (int half = 0; half < 2; half++) {
                int g = lane / 4, t = lane % 4 * 2 + half;
                (turned ? of[t][g] : of[g][t]) = slot(lane)->x[matrix] >> 16 * half;
            }
        for (int i = 0; i < 8; i++) memcpy((void *)slot(matrix * 8 + i)->row, of[i], 16);
    }
}

template <int count, bool turned> inline matrix_slot<count> ldmatrix(const char *row, HOSTCUDA_HERE) {
    matrix_slot<count> slot{{"ldmatrix", file, line}, row, {}};
    warp_collective(0xffffffffu, &slot, ldmatrix_combine<count, turned>, slot.site.what, file, line);
    return slot;
}
template <int count, bool turned> inline void stmatrix(const char *row, const unsigned (&words)[count], HOSTCUDA_HERE) {
    matrix_slot<count> slot{{"stmatrix", file, line}, row, {}};
    for (int i = 0; i < count; i++) slot.x[i] = words[i];
    warp_collective(0xffffffffu, &slot, stmatrix_combine<count, turned>, slot.site.what, file, line);
}

// ---- mma.sync ---------------------------------------------------------------------------------------------

// A lane's sums in its registers, two of row g and two of row g + 8. T is float or __half.
template <class T> struct mma_sums {
    std::conditional_t<std::is_same_v<T, float>, float, unsigned> x[sizeof(T)];

    template <class... Register> void to(Register &...registers) const {
        int i = 0;
        ((registers = x[i++]), ...);
    }
};

template <int k, class Element> constexpr int words_of_b = k / (std::is_same_v<Element, nvcuda::wmma::precision::tf32> ? 4 : 8);

template <int k, class Element, class T> struct mma_slot {
    call_site site;
    unsigned a[2 * words_of_b<k, Element>], b[words_of_b<k, Element>];
    mma_sums<T> sums;
};

inline float widen_element(__nv_bfloat16, unsigned word, int half) { return __uint_as_float(half ? word & 0xffff0000u : word << 16); }
inline float widen_element(nvcuda::wmma::precision::tf32, unsigned word, int) { return __uint_as_float(word & 0xffffe000u); }

// The operands of bfloat16 and tf32, element by element.
template <int k, class Element, class Slot> inline void gather_operands(float (&a)[16][k], float (&b)[k][8], Slot slot) {
    constexpr int words = words_of_b<k, Element>, each = k / (4 * words);   // elements of a word
    for (int lane = 0; lane < 32; lane++)
        for (int i = 0; i < words; i++)
            for (int e = 0; e < each; e++) {
                int g = lane / 4, depth = i * 4 * each + lane % 4 * each + e;
                b[depth][g] = widen_element(Element(), slot(lane)->b[i], e);
                for (int row = 0; row < 2; row++) a[g + 8 * row][depth] = widen_element(Element(), slot(lane)->a[2 * i + row], e);
            }
}

template <int k, class Element, class T> inline void mma_combine(void *const *lanes, unsigned arrived) {
    typedef mma_slot<k, Element, T> Slot;
    require_whole_warp(arrived, ((const Slot *)lanes[__builtin_ctz(arrived)])->site);

    // Vectors are assembled in registers: a load of a vector just stored in parts would stall the processor.
    typedef unsigned words_x4 __attribute__((vector_size(16)));
    typedef unsigned words_x8 __attribute__((vector_size(32)));
    typedef uint16_t bits_x8 __attribute__((vector_size(16)));
    alignas(64) float a[16][k], b[k][8], sums[16][8];
    auto slot = [&](int lane) { return (const Slot *)lanes[lane]; };
    check_sums([&](int lane) -> auto & { return slot(lane)->sums.x; }, slot(0)->site);
    auto widen8 = [](float *to, const auto &halves) { widen_piece<__half>(to, (const __half *)&halves, 8); };
    for (int g = 0; g < 8; g++) {
        auto row = [&](auto word) { return words_x4{word(4 * g), word(4 * g + 1), word(4 * g + 2), word(4 * g + 3)}; };
        for (int i = 0; i < 2; i++) {
            if constexpr (std::is_same_v<T, float>)
                for (int t = 0; t < 4; t++) memcpy(&sums[g + i * 8][t * 2], &slot(4 * g + t)->sums.x[i * 2], 8);
            else
                widen8(sums[g + i * 8], row([&](int lane) { return slot(lane)->sums.x[i]; }));
        }
        if constexpr (std::is_same_v<Element, __half>)
            for (int i = 0; i < k / 4; i++)
                widen8(&a[g + i % 2 * 8][i / 2 * 8], row([&](int lane) { return slot(lane)->a[i]; }));
    }
    if constexpr (std::is_same_v<Element, __half>) {
        for (int p = 0; p < k / 2; p++) {
            auto pair = [&](int g) { return slot(4 * g + p % 4)->b[p / 4]; };
            words_x8 pairs = {pair(0), pair(1), pair(2), pair(3), pair(4), pair(5), pair(6), pair(7)};
            widen8(b[2 * p], __builtin_convertvector(pairs & 0xffff, bits_x8));
            widen8(b[2 * p + 1], __builtin_convertvector(pairs >> 16, bits_x8));
        }
    } else {
        gather_operands<k, Element>(a, b, slot);
    }

    multiply_add(sums, a, b);

    for (int lane = 0; lane < 32; lane++) {
        auto &x = ((Slot *)lanes[lane])->sums.x;
        for (int i = 0; i < 2; i++) {
            const float *pair = &sums[lane / 4 + i * 8][lane % 4 * 2];
            T rounded[2] = {(T)pair[0], (T)pair[1]};
            memcpy((char *)x + i * sizeof rounded, (const void *)rounded, sizeof rounded);
        }
    }
}

// a b + c of 16 x k, k x 8 and 16 x 8 elements.
template <int k, class Element, class T>
inline mma_sums<T> mma(const unsigned (&a)[2 * words_of_b<k, Element>], const unsigned (&b)[words_of_b<k, Element>],
                       const mma_sums<T> &c, HOSTCUDA_HERE) {
    mma_slot<k, Element, T> slot{{"mma.sync", file, line}, {}, {}, c};
    memcpy(slot.a, a, sizeof a);
    memcpy(slot.b, b, sizeof b);
    warp_collective(0xffffffffu, &slot, mma_combine<k, Element, T>, slot.site.what, file, line);
    return slot.sums;
}

}  // namespace ptx
}  // namespace hostcuda
