"""LeNet with any convolution inside: images, weights, accuracy."""
