// Products of a warpgroup (PTX: wgmma): frontend/ptx_async.py replaces the instructions by calls of these functions.
//
// Each warp multiplies its 16 of the 64 rows: the last of its lanes to arrive begins the product for all. Like a bulk copy it is
// computed as late as it may be, when the warp waits for its group (runtime/bulk.cpp). Until then the sums stay as they were.
//
// A descriptor has where the operand begins in shared memory, and two distances. An operand consists of pieces of 16 bytes,
// which are 8 elements along one of its sides, its contiguous one. A swizzle exchanges pieces within 1024 bytes: bits of the
// address from 16 on become the exclusive or with those from 128 on.
#pragma once
#include "mbarrier.h"
#include "wmma.h"

namespace hostcuda {

HOSTCUDA_API char *shared_of_bits(unsigned address);   // the address in shared memory with these 18 bits
// A product of the warp, which run(record) computes; the addresses of its sums. And its groups.
HOSTCUDA_API void begin_product(void (*run)(void *), const void *record, size_t bytes, void *const *sums, unsigned count, unsigned watched,
                                HOSTCUDA_PLACE);
HOSTCUDA_API void commit_products();
// With the other threads of its warpgroup; all but the last groups.
HOSTCUDA_API Switch await_products(unsigned prior, const char *what, const char *file, int line) noexcept;
HOSTCUDA_API void note_product_fence();
// Give the thread so many registers. If it takes more than others have given, return false: it waits for more.
HOSTCUDA_API bool change_registers(unsigned count, bool takes, const char *file, int line);
HOSTCUDA_API Switch wait_for_registers(const char *file, int line) noexcept;

namespace ptx {

// An operand in shared memory, by its descriptor.
struct Operand {
    const char *start;
    long leading, stride;      // bytes
    unsigned swizzle;          // bits of the address that it changes
    bool turned;               // its contiguous side is along the rows of a, the columns of b, not along the depth

    HOSTCUDA_UNSEEN Operand(unsigned long long descriptor, bool turned)
        : start(shared_of_bits((unsigned)descriptor << 4 & 0x3ffff)), leading(descriptor >> 16 << 4 & 0x3ffff), stride(descriptor >> 32 << 4 & 0x3ffff),
          swizzle(descriptor >> 62 == 0 ? 0 : 0x70 >> ((descriptor >> 62) - 1) & 0x70), turned(turned) {}
    // The bytes from the first row on that surely belong to the operand, or to its tile: no gap is among them.
    HOSTCUDA_UNSEEN size_t extent(int rows, bool is_turned) const {
        int width = (int)(swizzle + 16);
        if (swizzle) return !is_turned && stride == 8 * width ? rows * width : 8 * width;
        if (leading < 128) return rows / 8 * stride;   // pieces overlap: a tile that is laid out for a swizzle
        return rows / 8 * (stride == 128 ? 128 : stride == 256 && leading == 128 ? 256 : 0);
    }
    // The piece with row `row`, or rows from there on if turned, and terms from `term` on, or that term.
    HOSTCUDA_UNSEEN const char *piece(int row, int term) const {
        int width = (int)(swizzle + 16);   // bytes of contiguous memory within the pattern
        long at;
        if (!turned) at = row / 8 * stride + row % 8 * width + (swizzle ? term / 8 * 16 : term / 8 * leading);
        else if (!swizzle) at = row / 8 * stride + term % 8 * 16 + term / 8 * leading;
        else at = row / 8 % (width / 16) * 16 + row / 8 / (width / 16) * leading + term % 8 * width + term / 8 * stride;
        size_t address = (size_t)start + at;
        return (const char *)(address ^ (address >> 3 & swizzle));
    }
};

template <int n, class Sum> struct product_slot_of_lane {
    call_site site;
    void *sums[std::is_same_v<Sum, float> ? n / 2 : n / 4];   // the lane's registers
    unsigned a[4];
    unsigned long long a_descriptor, b_descriptor;
    bool has_registers, adds, a_turned, b_turned;
    float sign;
};

// What is kept of a product until it is computed.
template <int n, class Element, class Sum> struct product_record {
    product_slot_of_lane<n, Sum> lanes[32];
    int first_row;
};

template <int n, class Element, class Sum> HOSTCUDA_UNSEEN inline void compute_product(void *kept) {
    auto &record = *(product_record<n, Element, Sum> *)kept;
    const auto &first = record.lanes[0];
    alignas(64) float a[16][16], b[16][8], sums[16][8];
    Operand in_a(first.a_descriptor, first.a_turned), in_b(first.b_descriptor, first.b_turned);
    auto element = [](const Operand &operand, int row, int term) HOSTCUDA_UNSEEN {
        Element one;
        const char *piece = operand.turned ? operand.piece(row / 8 * 8, term) + row % 8 * 2 : operand.piece(row, term / 8 * 8) + term % 8 * 2;
        memcpy((void *)&one, piece, sizeof one);
        return (float)one;
    };
    for (int row = 0; row < 16; row++)
        for (int term = 0; term < 16; term++) {
            if (first.has_registers) {
                Element one;
                const unsigned &word = record.lanes[row % 8 * 4 + term % 8 / 2].a[row / 8 + term / 8 * 2];
                memcpy((void *)&one, (const char *)&word + term % 2 * 2, sizeof one);
                a[row][term] = (float)one * first.sign;
            } else {
                a[row][term] = element(in_a, record.first_row + row, term) * first.sign;
            }
        }
    for (int column = 0; column < n; column += 8) {
        for (int term = 0; term < 16; term++)
            for (int c = 0; c < 8; c++) b[term][c] = element(in_b, column + c, term);
        // Of 8 columns a lane has two sums of row lane / 4 and two of 8 rows below.
        auto visit = [&](auto use) HOSTCUDA_UNSEEN {
            for (int lane = 0; lane < 32; lane++)
                for (int i = 0; i < 4; i++) {
                    float &sum = sums[lane / 4 + i / 2 * 8][lane % 4 * 2 + i % 2];
                    if constexpr (std::is_same_v<Sum, float>) use(sum, (char *)record.lanes[lane].sums[column / 2 + i]);
                    else use(sum, (char *)record.lanes[lane].sums[column / 4 + i / 2] + i % 2 * 2);
                }
        };
        visit([&](float &sum, char *in) HOSTCUDA_UNSEEN {
            Sum value;
            memcpy((void *)&value, in, sizeof value);
            sum = first.adds ? (float)value : 0.0f;
        });
        multiply_add(sums, a, b);
        visit([&](float &sum, char *out) HOSTCUDA_UNSEEN {
            Sum value = (Sum)sum;
            memcpy(out, (const void *)&value, sizeof value);
        });
    }
}

// Tell check mode which pieces the warp reads; returns the number for begin_product.
template <class Slot> HOSTCUDA_UNSEEN inline unsigned watch_product(const Slot &first, int first_row, int columns) {
#ifdef HOSTCUDA_CHECK
    Piece pieces[2 * 16 + 2 * 256];
    unsigned count = 0;
    auto add = [&](const Operand &operand, int row, int rows) HOSTCUDA_UNSEEN {
        for (int r = row; r < row + rows; r += operand.turned ? 8 : 1)
            for (int term = 0; term < 16; term += operand.turned ? 1 : 8) pieces[count++] = {nullptr, operand.piece(r, term), 16};
    };
    if (!first.has_registers) add(Operand(first.a_descriptor, first.a_turned), first_row, 16);
    add(Operand(first.b_descriptor, first.b_turned), 0, columns);
    hostcuda_bulk_reads(pieces, count, "a wgmma");
    for (bool of_a : {true, false}) {
        if (of_a && first.has_registers) continue;
        Operand operand(of_a ? first.a_descriptor : first.b_descriptor, false);
        size_t bytes = operand.extent(of_a ? 16 : columns, of_a ? first.a_turned : first.b_turned);
        hostcuda_tile_used(operand.piece(of_a ? first_row : 0, 0), bytes, operand.swizzle, first.site.file, first.site.line);
    }
    return hostcuda_bulk_writes(nullptr, 0, false);
#else
    return 0;
#endif
}

template <int n, class Element, class Sum> HOSTCUDA_UNSEEN inline void wgmma_combine(void *const *lanes, unsigned arrived) {
    typedef product_slot_of_lane<n, Sum> Slot;
    const call_site &site = ((const Slot *)lanes[__builtin_ctz(arrived)])->site;
    require_whole_warp(arrived, site);
    if (hostcuda_turn.thread.number / 128 * 128 + 128 > block_threads())
        fail("%s at %s:%d is of a warpgroup, four warps from a multiple of 128 threads on, and the block ends before, with %u threads",
             site.what, site.file, site.line, block_threads());
    product_record<n, Element, Sum> record;
    for (int lane = 0; lane < 32; lane++) memcpy((void *)&record.lanes[lane], lanes[lane], sizeof(Slot));
    record.first_row = hostcuda_turn.thread.number / 32 % 4 * 16;
    unsigned watched = watch_product(record.lanes[0], record.first_row, n);
    unsigned count = 0;
#ifdef HOSTCUDA_CHECK
    void *sums[32 * n / 2];
    for (const Slot &lane : record.lanes)
        for (void *sum : lane.sums) sums[count++] = sum;
#else
    void **sums = nullptr;
#endif
    begin_product(compute_product<n, Element, Sum>, &record, sizeof record, sums, count, watched, site.what, site.file, site.line);
}

// d = a b + d, or a b, with the lane's registers of d.
template <int n, class Element, class Sum, class... Register>
HOSTCUDA_INLINED void wgmma(const unsigned (&a)[4], unsigned long long a_descriptor, unsigned long long b_descriptor, bool has_registers, bool adds,
                  int a_scale, int b_scale, bool a_turned, bool b_turned, const char *file, int line, Register &...d) {
    static_assert(sizeof...(Register) == sizeof(product_slot_of_lane<n, Sum>::sums) / sizeof(void *), "wgmma has n / 2 registers of float, or n / 4 of half, for the sums");
    product_slot_of_lane<n, Sum> slot{{"wgmma.mma_async", file, line}, {(void *)&d...}, {a[0], a[1], a[2], a[3]}, a_descriptor, b_descriptor,
                                      has_registers, adds, a_turned, b_turned, (float)(a_scale * b_scale)};
    warp_collective(0xffffffffu, &slot, wgmma_combine<n, Element, Sum>, slot.site.what, file, line);
}

// By the last lane of the warp.
inline void wgmma_fence(HOSTCUDA_HERE) {
    warp_collective(0xffffffffu, nullptr, [](void *const *, unsigned) { note_product_fence(); }, "wgmma.fence", file, line);
}
inline void wgmma_commit_group(HOSTCUDA_HERE) {
    warp_collective(0xffffffffu, nullptr, [](void *const *, unsigned) { commit_products(); }, "wgmma.commit_group", file, line);
}
inline void wgmma_wait_group(unsigned prior, HOSTCUDA_HERE) {
    warp_collective(0xffffffffu, nullptr, [](void *const *, unsigned) {}, "wgmma.wait_group", file, line);
    follow(await_products(prior, "wgmma.wait_group", file, line));
}

inline void setmaxnreg(unsigned count, bool takes, HOSTCUDA_HERE) {
    if (count < 24 || count > 256 || count % 8)
        fail("setmaxnreg at %s:%d: the number of registers is a multiple of 8 from 24 to 256, not %u", file, line, count);
    while (!change_registers(count, takes, file, line)) follow(wait_for_registers(file, line));
}

}  // namespace ptx
}  // namespace hostcuda
