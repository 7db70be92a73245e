"""``pycuda.driver`` itself on a GPU, else the CPU engine's module of that name: importing it chooses the engine."""

import sys

from hostcuda import engine_module

sys.modules[__name__] = engine_module("driver")
