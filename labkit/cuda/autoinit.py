"""Makes a context current when it is imported, as ``pycuda.autoinit`` does. See `labkit.cuda.ensure_context`."""

from labkit.cuda import ensure_context

context = ensure_context()
device = context.get_device()
