// CUDA for a C++ compiler: included before every kernel source.
//
// A kernel is compiled as C++17. This header defines what CUDA adds: qualifiers and built-in variables (words.h),
// launchable functions (launch.h), barriers (sync.h), printf (print.h) and the device library. They use the runtime;
// runtime/runtime.h explains how a block runs.
#pragma once

#include "hostcuda/words.h"
#include "hostcuda/launch.h"
#include "hostcuda/loops.h"
#include "hostcuda/sync.h"
#include "hostcuda/print.h"

#include "hostcuda/math.h"
#include "hostcuda/half.h"
#include "hostcuda/bfloat16.h"
#include "hostcuda/atomic.h"
#include "hostcuda/warp.h"
#include "hostcuda/lanes.h"
#include "hostcuda/wmma.h"
#include "hostcuda/cluster.h"
#include "hostcuda/ptx.h"
#include "hostcuda/ptx_async.h"
#include "hostcuda/wgmma.h"
#include "hostcuda/groups.h"
#include "hostcuda/texture.h"
