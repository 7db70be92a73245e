"""What several recorders need of a GPU, and of PyTorch, which nothing else in the lab needs."""

from collections.abc import Callable

from labkit.base.errors import LabError
from labkit.spec import devices
from labkit.spec.devices import Device

WAIT_CYCLES = 2_000_000  # about a millisecond: longer than the host takes to launch what is timed


def require_gpu(rule: str) -> Device:
    """Return the device in use.

    Raises LabError if it is no GPU. The message begins with `rule`, such as "streams are recorded
    on a GPU".
    """
    here = devices.device()
    if here.engine != "gpu":
        raise LabError(f"{rule}; the engine here is the CPU's ({here.name})")
    return here


def require_torch():
    """Return PyTorch's module. Raises LabError if it is not installed, or cannot use a GPU."""
    try:
        import torch
    except ModuleNotFoundError:
        raise LabError(
            "this is measured through PyTorch: https://pytorch.org/get-started/locally"
        ) from None
    if not torch.cuda.is_available():
        raise LabError(
            "this needs an NVIDIA GPU that PyTorch can use; torch.cuda.is_available() is False"
        )
    return torch


def find_torch():
    """Return PyTorch's module, or None if it is not installed or cannot use a GPU."""
    try:
        return require_torch()
    except LabError:
        return None


def describe_torch(torch) -> str:
    """Return the versions in use as a text: "PyTorch 2.11.0, cuDNN 9.19.0, CUDA 13.0"."""
    version = torch.backends.cudnn.version()  # 91900 for 9.19.0
    return (
        f"PyTorch {torch.__version__}, cuDNN {version // 10_000}.{version // 100 % 100}.{version % 100}, "
        f"CUDA {torch.version.cuda}"
    )


def find_memory_format(torch, layout: str):
    """Return PyTorch's memory format of a layout, "NCHW" or "NHWC"."""
    return torch.contiguous_format if layout == "NCHW" else torch.channels_last


def copy_to_gpu(torch, array, dtype, layout: str):
    """Return a NumPy array [B, C, H, W] as a GPU tensor of a PyTorch dtype, in the layout "NCHW" or "NHWC"."""
    # Not `contiguous`: with one channel it confuses the two layouts, and leaves the strides.
    return torch.from_numpy(array).to(
        "cuda", dtype, memory_format=find_memory_format(torch, layout)
    )


def make_wait(torch) -> Callable[[], object]:
    """Return a function that keeps the device waiting for WAIT_CYCLES of its clock, to be called before a timed launch.

    Meanwhile the host puts the events and the launch into the queue. So the time between the events
    is the kernel's alone, without the time that the host needs for a launch.
    """
    return lambda: torch.cuda._sleep(WAIT_CYCLES)


def make_l2_flush(torch) -> tuple[Callable[[], object], int]:
    """Return a function that overwrites the L2 cache, so that the next kernel finds none of its data there.

    Also returns how many bytes it writes: twice the size of the cache. Before it writes, the device
    waits (`make_wait`), while the host queues the kernel to be timed: else its time would include
    the launch.
    """
    size = 2 * torch.cuda.get_device_properties(0).L2_cache_size
    written, wait = torch.empty(size, dtype=torch.uint8, device="cuda"), make_wait(torch)

    def flush():
        """Let the device wait, then write; the host does not wait for either."""
        wait()
        written.zero_()

    return flush, size


def time_torch(
    torch, run: Callable[[], object], prepare: Callable[[], object] = lambda: None
) -> float:
    """Return the time of `run` between two CUDA events of PyTorch [ms]; `prepare` is called before the first one."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    prepare()
    start.record()
    run()
    end.record()
    end.synchronize()
    return start.elapsed_time(end)
