"""The CPU engine: CUDA C++ compiled by the host's compiler and run on worker threads, behind PyCUDA's names.

`driver` and `compiler` are twins of the subset of ``pycuda.driver`` and ``pycuda.compiler`` that the lab and ordinary
PyCUDA programs use; `labkit.cuda` chooses between them and PyCUDA. The rest of this package is theirs:

=============  ======================================================================================
source         prepares CUDA C++ text for a host compiler
toolchain      finds that compiler, runs it, makes its messages speak of the user's own lines
cache          the folder of compiled kernels: atomic, locked, checked
native         the runtime library (``runtime/``): built once, loaded, its calls wrapped
errors         PyCUDA's exceptions
device         Device, Context and the attributes
memory         allocations, copies, fills, page-locked arrays
streams        Stream and Event
kernels        Module and Function: limits, arguments, launches
elf            reads the sizes of shared arrays out of a compiled kernel
checkmode      every access watched, counted and checked, if LABKIT_CHECK says so
=============  ======================================================================================
"""
