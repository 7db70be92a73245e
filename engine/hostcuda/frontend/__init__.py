"""Read CUDA C++ text, and rewrite it for a host compiler."""
