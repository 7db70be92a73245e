// Part of CUDA's runtime. Defined in hostcuda.h, and for whole programs in hostcuda/host.h.
#pragma once
