// __nv_bfloat16 and __nv_bfloat162. A whole source may stand in an extern "C" block, which cannot hold overloads.
#pragma once
#ifndef LABKIT_CPU
#include "labkit_cuda.h"
#endif
extern "C++" {
#include "labkit/bfloat16.h"
}
