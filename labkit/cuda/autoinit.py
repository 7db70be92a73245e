"""Make a context current on import, as ``pycuda.autoinit`` does; `labkit.cuda.ensure_context` is the explicit way."""

from labkit.cuda import ensure_context

context = ensure_context()
device = context.get_device()
