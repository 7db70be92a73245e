// Cooperative groups: scans. Defined in labkit_cuda.h, which is included before every kernel source.
#pragma once
#ifndef LABKIT_CPU
#include "../labkit_cuda.h"
#endif
