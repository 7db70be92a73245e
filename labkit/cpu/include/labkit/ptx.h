// Inline PTX: source.py replaces the instructions by calls of these functions, with the registers of their operands.
//
// mma.sync multiplies like WMMA (wmma.h): the lanes of the warp wait for each other, and the last one to arrive computes
// for all 32. PTX defines the elements of each lane: with g = lane / 4 and t = lane % 4, they are in rows g and g + 8 of a
// and of the sums, and in column g of b; of every 8 elements there, a lane has 2t and 2t + 1, a pair of halves in one
// register.
#pragma once
#include "wmma.h"

namespace labkit {
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

// A lane's sums in its registers, two of row g and two of row g + 8. T is float or __half.
template <class T> struct mma_sums {
    std::conditional_t<std::is_same_v<T, float>, float, unsigned> x[sizeof(T)];

    template <class... Register> void to(Register &...registers) const {
        int i = 0;
        ((registers = x[i++]), ...);
    }
};

template <int k, class T> struct mma_slot {
    call_site site;
    unsigned a[k / 4], b[k / 8];
    mma_sums<T> sums;
};

template <int k, class T> inline void mma_combine(void *const *lanes, unsigned arrived) {
    typedef mma_slot<k, T> Slot;
    require_whole_warp(arrived, ((const Slot *)lanes[__builtin_ctz(arrived)])->site);

    // Vectors are assembled in registers: a load of a vector just stored in parts would stall the processor.
    typedef unsigned words_x4 __attribute__((vector_size(16)));
    typedef unsigned words_x8 __attribute__((vector_size(32)));
    typedef uint16_t bits_x8 __attribute__((vector_size(16)));
    alignas(64) float a[16][k], b[k][8], sums[16][8];
    auto slot = [&](int lane) { return (const Slot *)lanes[lane]; };
    auto widen8 = [](float *to, const auto &halves) { widen_piece<__half>(to, (const __half *)&halves, 8); };
    for (int g = 0; g < 8; g++) {
        auto row = [&](auto word) { return words_x4{word(4 * g), word(4 * g + 1), word(4 * g + 2), word(4 * g + 3)}; };
        for (int i = 0; i < 2; i++) {
            if constexpr (std::is_same_v<T, float>)
                for (int t = 0; t < 4; t++) memcpy(&sums[g + i * 8][t * 2], &slot(4 * g + t)->sums.x[i * 2], 8);
            else
                widen8(sums[g + i * 8], row([&](int lane) { return slot(lane)->sums.x[i]; }));
        }
        for (int i = 0; i < k / 4; i++)
            widen8(&a[g + i % 2 * 8][i / 2 * 8], row([&](int lane) { return slot(lane)->a[i]; }));
    }
    for (int p = 0; p < k / 2; p++) {
        auto pair = [&](int g) { return slot(4 * g + p % 4)->b[p / 4]; };
        words_x8 pairs = {pair(0), pair(1), pair(2), pair(3), pair(4), pair(5), pair(6), pair(7)};
        widen8(b[2 * p], __builtin_convertvector(pairs & 0xffff, bits_x8));
        widen8(b[2 * p + 1], __builtin_convertvector(pairs >> 16, bits_x8));
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
template <int k, class T>
inline mma_sums<T> mma(const unsigned (&a)[k / 4], const unsigned (&b)[k / 8], const mma_sums<T> &c, LABKIT_HERE) {
    mma_slot<k, T> slot{{"mma.sync", file, line}, {}, {}, c};
    memcpy(slot.a, a, sizeof a);
    memcpy(slot.b, b, sizeof b);
    warp_collective(0xffffffffu, &slot, mma_combine<k, T>, slot.site.what, file, line);
    return slot.sums;
}

}  // namespace ptx
}  // namespace labkit
