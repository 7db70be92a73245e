"""Records of kernels, copies and API calls: `hostcuda.gpu.cupti` on a GPU, else `hostcuda.api.activity`."""

import sys

from hostcuda import engine_module

sys.modules[__name__] = engine_module("activity")
