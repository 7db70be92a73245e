"""The CPU engine: CUDA C++ compiled by the host's compiler and run on worker threads, behind PyCUDA's names.

`driver` and `compiler` have the names of ``pycuda.driver`` and ``pycuda.compiler`` that the lab and ordinary PyCUDA
programs use; `labkit.cuda` chooses between them and PyCUDA. The other modules:

=============  ======================================================================================
source         prepares CUDA C++ text for a host compiler
toolchain      finds and runs that compiler, and relates its messages to the user's own lines
cache          the folder of compiled kernels: atomic, locked, checked
native         builds and loads the runtime library (``runtime/``), and wraps its calls
errors         PyCUDA's exceptions
device         Device, Context and the attributes
memory         allocations, copies, fills, page-locked arrays
streams        Stream and Event
layout         where the variables of a compiled file are; ``elf`` reads its tables, ``linkage`` what it calls
kernels        Module and Function: limits, arguments, launches
checkmode      counts and checks every memory access, if LABKIT_CHECK is set
=============  ======================================================================================
"""
