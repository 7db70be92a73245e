"""Kernels in both modes of the CPU engine and in an independent reference, bit by bit.

``reference`` runs kernels as plain C++, ``compare`` compares the engine with it, ``generator``
writes random kernels, and ``cases/`` has kernels that were written by hand. ``python -m
tests.differential --help`` is the command.
"""

WORDS = 4096  # of the input and of the output of each kernel
