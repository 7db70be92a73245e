"""Variants in a process of their own: their counters and errors; what nvcc makes of their kernels."""
