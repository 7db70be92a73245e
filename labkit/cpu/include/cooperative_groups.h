// Cooperative groups: thread blocks, tiles of a warp, coalesced threads, and reduce over them.
//
// A tile's or a coalesced group's operations are the warp functions of labkit/warp.h with the group's lanes as mask.
// Groups that span blocks (grid_group, cluster_group) have no meaning for blocks that run one after another.
#pragma once
#ifndef LABKIT_CPU
#include "labkit_cuda.h"
#endif
extern "C++" {
#include "labkit/groups.h"
}
