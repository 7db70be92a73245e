"""PyCUDA's modules for the CPU engine: `driver`, `compiler` and `activity` have the names of theirs.

`hostcuda` chooses between them and PyCUDA. `device`, `memory`, `pitched`, `streams` and `kernels`
are the parts of `driver`. ``engine/docs/architecture.md`` says what the other packages do.
"""
