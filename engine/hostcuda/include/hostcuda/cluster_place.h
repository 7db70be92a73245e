// The place of a block in its cluster; the runtime uses it, too.
#pragma once
#include "fiber.h"

namespace hostcuda {

struct ClusterPlace {
    Index size, at;                // of the cluster in blocks; of the block in its cluster
    unsigned rank, blocks;
};

}  // namespace hostcuda
