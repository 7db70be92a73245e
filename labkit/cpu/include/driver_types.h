// Part of CUDA's runtime. Defined in labkit_cuda.h, and for whole programs in labkit/host.h.
#pragma once
