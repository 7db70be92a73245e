// Atomic functions of compute capability 6.0. All in labkit_cuda.h, in front of every kernel source.
#pragma once
#ifndef LABKIT_CPU
#include "labkit_cuda.h"
#endif
