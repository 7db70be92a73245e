// lenet28, deterministic: mini-batches without atomics.
//
// Idea      Float addition is not associative, and atomics come in any order: two runs differ in the last bits, and
//           after many steps in more. Here each row of blocks has a gradient of its own, and `update` adds these in
//           their order: every run gives the same bits.
// Delta     from minibatch: ADD.
// Requires  gradient has gridDim.y parts, all zero.

// At the place in this row's part that `sum` has in the first one.
#define ADD(sum, value) *(float *)((char *)(gradient + blockIdx.y) + ((char *)&(sum) - (char *)gradient)) += value
#include "minibatch.cu"
