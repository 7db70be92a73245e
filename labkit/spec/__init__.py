"""What is given: layers, devices, and the convolution itself."""
