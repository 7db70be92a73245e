// Atomic functions of compute capability 2.0. All in labkit_cuda.h, in front of every kernel source.
#pragma once
#ifndef LABKIT_CPU
#include "labkit_cuda.h"
#endif
