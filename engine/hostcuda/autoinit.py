"""Makes a context current when it is imported, as ``pycuda.autoinit`` does.

See `hostcuda.ensure_context`.
"""

from hostcuda import ensure_context

context = ensure_context()
device = context.get_device()
