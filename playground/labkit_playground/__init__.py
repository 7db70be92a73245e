"""Build the playground: a page on which kernels are compiled, run, checked and graded in the reader's browser."""

__version__ = "2.0.0"
