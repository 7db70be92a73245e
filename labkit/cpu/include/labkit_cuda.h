// Everything a CUDA kernel may say, for a C++ compiler: included in front of every kernel source.
//
// A kernel is compiled as plain C++17. This header gives CUDA's words a meaning: qualifiers and built-in
// variables (words.h), what makes a function launchable (launch.h), barriers (sync.h), printf (print.h) and
// the device library. They are served by the runtime (runtime/runtime.h explains how a block runs).
#pragma once

#include "labkit/words.h"
#include "labkit/launch.h"
#include "labkit/sync.h"
#include "labkit/print.h"

#include "labkit/math.h"
#include "labkit/half.h"
#include "labkit/bfloat16.h"
#include "labkit/atomic.h"
#include "labkit/warp.h"
#include "labkit/wmma.h"
#include "labkit/ptx.h"
#include "labkit/groups.h"
