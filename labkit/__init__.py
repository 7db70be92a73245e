"""The CUDA convolution lab."""
