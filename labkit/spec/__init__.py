"""What is given: layers, devices, CUDA limits, metrics, and the convolution itself."""
