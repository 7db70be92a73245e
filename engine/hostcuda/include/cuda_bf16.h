// __nv_bfloat16 and __nv_bfloat162. Defined in hostcuda.h, which is included before every kernel source.
#pragma once
#ifndef HOSTCUDA_CPU
#include "hostcuda.h"
#endif
