"""What the packages above share, and what knows nothing of CUDA: files, variables, tables, the processor."""
