// A barrier of some threads of a block, and a copy of some bytes; the runtime uses them, too.
#pragma once
#include <stddef.h>

namespace hostcuda {

// In memory that the threads share. A phase ends when as many have arrived as are expected.
struct Phase {
    unsigned expected, arrived, number;   // number: of the current phase
};

// Barriers that have a number instead: those of PTX, those of tiles of several warps, that of the block's arrive, and those at which
// warpgroups wait for their products.
constexpr unsigned first_tile_phase = 16, block_arrival = 47, first_product_phase = 48, block_phases = 56;

// Some bytes of a copy; from null: they become zero.
struct Piece {
    char *to;
    const char *from;
    size_t bytes;
};

// How a thread arrives at an mbarrier: as usual, without ending the phase, or also for all later phases.
enum class Arrival { once, relaxed, incomplete, drop };

}  // namespace hostcuda
