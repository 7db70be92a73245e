// Inline PTX: the instructions that source.py makes calls of, by the registers of their operands.
//
// mma.sync multiplies as WMMA does (wmma.h): the warp's lanes meet, and the last to arrive computes for all 32. PTX says
// which elements a lane holds: with g = lane / 4 and t = lane % 4, rows g and g + 8 of a and of the sums, column g of b,
// and of these the elements 2t and 2t + 1 of every 8, a pair of halves in one register.
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

// A lane's sums, two of row g and two of row g + 8, in its registers: T is float or __half.
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

    unsigned a_pairs[16][k / 2], b_pairs[k / 2][8];
    T elements[16][8];
    for (int lane = 0; lane < 32; lane++) {
        const Slot *slot = (const Slot *)lanes[lane];
        const int g = lane / 4, t = lane % 4;
        for (int i = 0; i < k / 4; i++) a_pairs[g + i % 2 * 8][t + i / 2 * 4] = slot->a[i];
        for (int i = 0; i < k / 8; i++) b_pairs[t + i * 4][g] = slot->b[i];
        for (int i = 0; i < 2; i++)
            memcpy((void *)&elements[g + i * 8][t * 2], (const char *)slot->sums.x + i * 2 * sizeof(T), 2 * sizeof(T));
    }
    uint16_t b_rows[k][8];
    for (int p = 0; p < k / 2; p++) {
        for (int j = 0; j < 8; j++) b_rows[2 * p][j] = (uint16_t)b_pairs[p][j];
        for (int j = 0; j < 8; j++) b_rows[2 * p + 1][j] = (uint16_t)(b_pairs[p][j] >> 16);
    }
    alignas(64) float a[16][k], b[k][8], sums[16][8];
    widen_piece<__half>(a[0], (const __half *)a_pairs, 16 * k);
    widen_piece<__half>(b[0], (const __half *)b_rows, k * 8);
    widen_piece<T>(sums[0], (const T *)elements, 16 * 8);

    multiply_add(sums, a, b);

    for (int i = 0; i < 16; i++)
        for (int j = 0; j < 8; j++) elements[i][j] = (T)sums[i][j];
    for (int lane = 0; lane < 32; lane++) {
        Slot *slot = (Slot *)lanes[lane];
        for (int i = 0; i < 2; i++)
            memcpy((char *)slot->sums.x + i * 2 * sizeof(T), (const void *)&elements[lane / 4 + i * 8][lane % 4 * 2],
                   2 * sizeof(T));
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
