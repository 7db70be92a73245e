// The variables of a worker, which kernels and the runtime's files share; those of words.h and sync.h.
#include "fibers.h"

extern "C" {
EXPORT WORD hostcuda::Turn hostcuda_turn;
extern EXPORT WORD hostcuda::Thread threadIdx __attribute__((alias("hostcuda_turn")));
EXPORT WORD Index blockIdx, blockDim, gridDim;
EXPORT WORD void *hostcuda_dynamic_shared;
EXPORT WORD char *hostcuda_shared_end;
EXPORT WORD bool hostcuda_unfit;
EXPORT WORD unsigned hostcuda_spins;
EXPORT WORD int hostcuda_votes, hostcuda_voters;
}
WORD Block *block;
HostCode host_code;
