// lenet28, deterministic: mini-batches without atomics.
//
// Idea      Float addition is not associative, and atomics come in any order: two runs differ in the last bits, and
//           after many steps in more. Here each row of blocks has a gradient of its own, and `update` adds these in
//           their order: every run gives the same bits.
// Delta     from minibatch: SUMS and ADD.
// Requires  gradient has gridDim.y parts, all zero.

#define SUMS gradient[blockIdx.y]
#define ADD(sum, value) (sum) += value
#include "minibatch.cu"
