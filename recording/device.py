"""The GPU in use as an entry of data/devices.toml: what its driver reports, and the rates of copies and products on it.

Copies are those of the driver: within the device, and to and from the host, in page-locked and in
ordinary memory. Matrix products are PyTorch's, where it is installed. The reference rates are a
copy's bandwidth, and nine tenths of the theoretical FP32 rate, as of the H200. The link's
theoretical rate, `link_gb_s`, is added by hand.
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np

import hostcuda
from labkit.base import manifest
from labkit.base.errors import LabError
from labkit.base.paths import data_dir
from labkit.ladder.buffers import Buffers
from labkit.measure.bench import time_run
from labkit.spec import devices
from labkit.spec.devices import Device
from recording.gpu import find_torch, require_gpu
from recording.options import Dry, Folder

REPEAT, BYTES, SIDE = 10, 1 << 28, 8192  # timed runs; bytes per copy; rows and columns of a matrix


def _measure_best_s(run: Callable[[], object]) -> float:
    """Return the least time of REPEAT runs [s], after one that warms up."""
    return min([time_run(run) for _ in range(REPEAT + 1)][1:]) / 1e3


def measure_copies(size: int = BYTES) -> dict[str, float]:
    """Measure copies and writing of `size` bytes; return their rates under their names in devices.toml.

    Those within the device are in TB/s, those of the link to the host in GB/s.
    """
    driver, rates = hostcuda.driver, {}
    with Buffers() as memory:
        a, b = memory.new((size,), np.uint8), memory.new((size,), np.uint8)
        # 2: each byte is read and written; bytes per second / 1e12 = TB/s
        rates["copy_tb_s"] = (
            2 * size / _measure_best_s(lambda: driver.memcpy_dtod(a, b, size)) / 1e12
        )
        rates["write_tb_s"] = (
            # it writes words of 4 bytes
            size / _measure_best_s(lambda: driver.memset_d32(a, 0, size // 4)) / 1e12
        )
        for kind, host in (
            ("pinned", driver.pagelocked_zeros(size, np.uint8)),
            ("pageable", np.zeros(size, np.uint8)),
        ):
            for way, copy in (
                ("to", lambda host=host: driver.memcpy_htod(a, host)),
                ("from", lambda host=host: driver.memcpy_dtoh(host, a)),
            ):
                rates[f"{way}_device_{kind}_gb_s"] = size / _measure_best_s(copy) / 1e9
    return rates


def measure_products() -> dict[str, float]:
    """Measure PyTorch's matrix products [TFLOP/s]; return no rates if PyTorch is not installed or has no GPU."""
    torch, rates = find_torch(), {}
    for name, dtype in (  # name of the rate, type of the matrices
        (("float32", "float32"), ("tf32", "float32"), ("float16", "float16")) if torch else ()
    ):
        torch.backends.cuda.matmul.allow_tf32 = name == "tf32"
        a, b = (
            torch.rand((SIDE, SIDE), device="cuda", dtype=getattr(torch, dtype)) for _ in range(2)
        )
        # a product has SIDE^3 multiplications and as many additions
        rates[f"{name}_gemm_tflop_s"] = 2 * SIDE**3 / _measure_best_s(lambda a=a, b=b: a @ b) / 1e12
    return rates


def write_entry(
    here: Device, measured: dict[str, float], memory_clock_hz: float, bus_bits: int
) -> str:
    """Return a GPU's entry for data/devices.toml, as TOML.

    `measured` maps the names of rates there to their values: {"copy_tb_s": 4.2, ...}. The rate of
    float32 in reference times is set to 90 % of the theoretical peak.
    """
    major, minor = here.compute_capability or (0, 0)
    rates = "\n".join(f"{name} = {value:.3g}" for name, value in measured.items())
    return f"""
[[device]]
name = "{here.name}"
compute_capability = [{major}, {minor}]
multiprocessors = {here.multiprocessors}
clock_mhz = {here.clock_hz / 1e6:.0f}
memory_clock_mhz = {memory_clock_hz / 1e6:.0f}
memory_bus_bits = {bus_bits}
memory_mib = {here.memory_bytes >> 20}
l2_mib = {here.l2_bytes >> 20}

[device.reference]
bandwidth_tb_s = {measured["copy_tb_s"]:.3g}
float32_tflop_s = {0.9 * here.peak_flops / 1e12:.3g}

[device.measured]
{rates}
"""


def device(dry: Dry = False, out: Folder = None) -> None:
    """Add the GPU in use to data/devices.toml.

    The rates of its memory, of its link to the host and of matrix products are measured. With `dry`, only print
    the entry.
    """
    here = require_gpu("devices.toml lists GPUs")
    if here.name in devices._read_listed():  # the entries of data/devices.toml, by name
        raise LabError(
            f"data/devices.toml lists {here.name} already: remove its entry to measure it again"
        )
    get, kind = hostcuda.driver.Context.get_device().get_attribute, hostcuda.driver.device_attribute
    rates = measure_copies() | measure_products()
    memory_clock_khz, bus_bits = get(kind.MEMORY_CLOCK_RATE), get(kind.GLOBAL_MEMORY_BUS_WIDTH)
    text = write_entry(here, rates, memory_clock_khz * 1e3, bus_bits)
    print(text.strip())
    if not dry:
        path = Path(out or data_dir()) / "devices.toml"
        manifest.write(path, (path.read_text() if path.is_file() else "") + text)
        print(
            f'\nkept in {path}; next `python -m recording times`, and lab.recorded("{here.name}") has them'
        )
