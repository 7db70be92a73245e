// Intrinsics, by the name of older toolkits. Defined in labkit_cuda.h, which is included before every kernel source.
#pragma once
#ifndef LABKIT_CPU
#include "labkit_cuda.h"
#endif
