// __global__, __device__ and their like. Its contents are in labkit_cuda.h, which is included in front of every kernel source.
#pragma once
#ifndef LABKIT_CPU
#include "labkit_cuda.h"
#endif
