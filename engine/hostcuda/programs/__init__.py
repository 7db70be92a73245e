"""Whole programs on the CPU engine: CUDA C++ with its host code, and Python programs that import PyCUDA."""
