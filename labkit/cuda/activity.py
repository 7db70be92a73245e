"""Records of kernels, copies and API calls: `labkit.cuda.cupti` on a GPU, else `labkit.cpu.activity`."""

import sys

from labkit.cuda import engine_module

sys.modules[__name__] = engine_module("activity")
