// CUDA for a C++ compiler: included before every kernel source.
//
// A kernel is compiled as C++17. This header defines what CUDA adds: qualifiers and built-in variables (words.h),
// launchable functions (launch.h), barriers (sync.h), printf (print.h) and the device library. They use the runtime;
// runtime/runtime.h explains how a block runs.
#pragma once

#include "labkit/words.h"
#include "labkit/launch.h"
#include "labkit/loops.h"
#include "labkit/sync.h"
#include "labkit/print.h"

#include "labkit/math.h"
#include "labkit/half.h"
#include "labkit/bfloat16.h"
#include "labkit/atomic.h"
#include "labkit/warp.h"
#include "labkit/lanes.h"
#include "labkit/wmma.h"
#include "labkit/ptx.h"
#include "labkit/groups.h"
#include "labkit/texture.h"
