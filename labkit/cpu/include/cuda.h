// CUDA's driver header. Its contents are in labkit_cuda.h, which is included in front of every kernel source.
#pragma once
#ifndef LABKIT_CPU
#include "labkit_cuda.h"
#endif
