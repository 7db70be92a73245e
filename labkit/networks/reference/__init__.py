"""The networks in NumPy: forward pass, loss and gradients.

The kernels are checked against this package.
"""
