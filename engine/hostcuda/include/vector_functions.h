// make_float4 and its like. Defined in hostcuda.h, which is included before every kernel source.
#pragma once
#ifndef HOSTCUDA_CPU
#include "hostcuda.h"
#endif
