"""Start the CPU engine on import, as ``pycuda.autoinit`` makes a context."""

from labkit.cpu.device import Device

device = Device(0)
context = device.make_context()
