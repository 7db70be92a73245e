"""lenet86 and lenet28: their images, weights, forward passes and training, and the same in NumPy."""
