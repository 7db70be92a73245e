// Intrinsics, by the name of older toolkits. All in labkit_cuda.h, in front of every kernel source.
#pragma once
#ifndef LABKIT_CPU
#include "labkit_cuda.h"
#endif
