// Tensor cores: nvcuda::wmma. A whole source may stand in an extern "C" block, where templates need to be let out.
#pragma once
#ifndef LABKIT_CPU
#include "labkit_cuda.h"
#endif
extern "C++" {
#include "labkit/wmma.h"
}
