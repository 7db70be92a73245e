// A barrier of some threads of a block; the runtime uses it, too.
#pragma once

namespace hostcuda {

// In memory that the threads share. A phase ends when as many have arrived as are expected.
struct Phase {
    unsigned expected, arrived, number;   // number: of the current phase
};

// Barriers that have a number instead: those of PTX, those of tiles of several warps, and that of the block's arrive.
constexpr unsigned first_tile_phase = 16, block_arrival = 47, block_phases = 48;

}  // namespace hostcuda
