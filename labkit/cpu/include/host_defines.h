// __global__, __device__ and their like. All in labkit_cuda.h, in front of every kernel source.
#pragma once
#ifndef LABKIT_CPU
#include "labkit_cuda.h"
#endif
