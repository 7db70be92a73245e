"""The device that the lab runs on, a GPU or the CPU, with two kinds of rates.

*Peaks* are theoretical. No kernel exceeds them, so a time that would need more is an error of the
measurement. *Reference rates* are near what programs reach on the device. A reference time is
computed from them: a yardstick for "time over reference", not a bound.
"""

from __future__ import annotations

import functools
import html
import math
import os
import platform
import re
import time
import tomllib
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path

import numpy as np
from numpy.typing import DTypeLike

import hostcuda
from hostcuda import processor
from hostcuda.limits import DRIVER_BYTES, SHARED_OPT_IN_BYTES, SHARED_UNIT
from labkit.base import manifest
from labkit.base.errors import LabError
from labkit.base.paths import data_dir

TERA, GIGA = 1e12, 1e9

# FP32 lanes of one multiprocessor by compute capability: CUDA C++ Programming Guide, arithmetic
# instructions.
_LANES = {
    (5, 0): 128,
    (5, 2): 128,
    (5, 3): 128,
    (6, 0): 64,
    (6, 1): 128,
    (6, 2): 128,
    (7, 0): 64,
    (7, 2): 64,
    (7, 5): 64,
    (8, 0): 64,
    (8, 6): 128,
    (8, 7): 128,
    (8, 9): 128,
    (9, 0): 128,
    (10, 0): 128,
    (10, 3): 128,
    (11, 0): 128,
    (12, 0): 128,
    (12, 1): 128,
}

# Operations per clock of one multiprocessor with half2: twice the largest number of results in the
# same table.
_HALF2 = 512

# Dense FP16 operations per clock of one multiprocessor's tensor cores, from NVIDIA's architecture
# white papers.
_TENSOR = {
    (7, 0): 1024,
    (7, 2): 1024,
    (7, 5): 1024,
    (8, 0): 2048,
    (8, 6): 1024,
    (8, 7): 2048,
    (8, 9): 1024,
    (9, 0): 4096,
    (10, 0): 8192,
    (10, 3): 8192,
    (11, 0): 8192,
    (12, 0): 1024,
    (12, 1): 1024,
}

# FP32 operations per clock of one core with an FMA on every vector unit: generous, because it is
# used as a bound.
_VECTOR_FLOPS = {"avx512f": 64, "avx": 32, "sse2": 16}
# four 128-bit units (Apple), two 256-bit ones (Neoverse V), two 512-bit ones (A64FX)
_OTHER_FLOPS = 64
# no processor boosts higher; a virtual machine does not report its host's boost clock
_FASTEST_CLOCK = 6.5e9
_MULTIPROCESSORS = 132  # of an H200
# the devices of `assume`'s open `with` blocks, the innermost last: `device` returns it
_assumed: list[Device] = []


@dataclass(frozen=True)
class Device:
    """A device and its rates.

    Attributes
    ----------
    engine : {"gpu", "cpu"}
    name : str
        As the driver or the operating system reports it.
    compute_capability : tuple of int or None
        (9, 0) on an H100 or H200; None on a CPU.
    multiprocessors : int
        Streaming multiprocessors of a GPU, worker threads of the CPU engine.
    clock_hz : float
        Highest clock [1/s].
    memory_bytes, l2_bytes : int
    peak_flops, peak_half2_flops, peak_tensor_flops : float
        Theoretical rates of FP32 outside the tensor cores, of half2, and of FP16 on the tensor
        cores [FLOP/s]: each at least as high as the one before, infinite where it is not known.
    peak_bandwidth : float
        Theoretical bandwidth [B/s]: of the memory on a GPU; of the cores' load and store units on a
        CPU, where a layer may stay in the caches.
    measured : mapping of str to float or None
        Rates measured on a device of this name (`data/devices.toml`), in SI units:
        "reference_bandwidth", "reference_float32", "copy", "to_device_pinned", …
    source : str
        Where the numbers come from.
    software : str
        Driver and bindings, or operating system: what else a recorded time depends on.
    peak_link : float
        Theoretical rate of the link to the host, each way [B/s]; infinite where it is not known.
    shared_opt_in : int
        Bytes of shared memory that a block can have at most; with more than 48 KB a kernel has to
        opt in to it.
    """

    engine: str
    name: str
    compute_capability: tuple[int, int] | None
    multiprocessors: int
    clock_hz: float
    memory_bytes: int
    l2_bytes: int
    peak_flops: float
    peak_half2_flops: float
    peak_tensor_flops: float
    peak_bandwidth: float
    measured: Mapping[str, float] | None = field(default=None, compare=False, hash=False)
    source: str = ""
    software: str = ""
    peak_link: float = math.inf
    shared_opt_in: int = SHARED_OPT_IN_BYTES

    @property
    def slug(self) -> str:
        """The name as a file name: "nvidia-h200"."""
        return slug(self.name)

    @property
    def note(self) -> str:
        """The note that goes with every time measured here; empty on a GPU."""
        if self.engine == "gpu":
            return ""
        return f"Not GPU times: measured on the CPU engine ({self.name}, {self.multiprocessors} workers)."

    @property
    def ceilings(self) -> Mapping[str, float]:
        """The rates reached in practice, and the two reference rates: {"reference_float32": 6e13, …} [B/s, FLOP/s].

        From `data/devices.toml` if the device is listed there. On a CPU they are measured once per
        process, in about half a second. On a GPU that is not listed they are the theoretical peaks.
        """
        if self.measured is not None:
            return self.measured
        if self.engine == "cpu":
            return _measure_host(self.multiprocessors)
        return {"reference_bandwidth": self.peak_bandwidth, "reference_float32": self.peak_flops}

    def reference_s(
        self, moved: float, flops: float, dtype: DTypeLike = np.float32, products: str = ""
    ) -> float:
        """Return the longer time, of `moved` bytes or of `flops` operations, at the reference rates [s].

        The roofline of Williams, Waterman and Patterson (CACM 52(4), 2009). On an H200 it assumes
        4.3 TB/s, 60 TFLOP/s in float32 and 729 TFLOP/s in half. The float32 rate is one of the FP32
        units (their measured peak is 66.9), the others are those of matrix products on the tensor
        cores. It is a yardstick, not a bound: a kernel can take less.

        `products` names the operations of a kernel that computes floats on tensor cores: "TF32", or
        "3×FP16", three products of halves for one of floats.
        """
        rates, rate = self.ceilings, self.ceilings["reference_float32"]
        if self.engine == "gpu":  # of tensor cores no rate is measured on a CPU
            products = products or ("FP16" if np.dtype(dtype).itemsize < 4 else "FP32")
            if products == "TF32":
                rate = rates.get("tf32_gemm", self.peak_tensor_flops / 2)  # FP16's: twice TF32's
            elif products != "FP32":
                rate = rates.get("float16_gemm", self.peak_tensor_flops)
                rate /= 3 if products == "3×FP16" else 1
        return max(moved / rates["reference_bandwidth"], flops / rate)

    def shortest_s(self, read: float, written: float, flops: float, unit: str = "FP32") -> float:
        """Return the time that no kernel on this device can be faster than, from the theoretical peaks [s].

        Parameters
        ----------
        read, written : float
            Bytes. What is written may stay in the L2 cache after the kernel has ended: only what
            does not fit there has to reach the memory. What is read is in memory before (`bench`
            empties the L2 cache).
        flops : float
            Operations.
        unit : {"FP32", "half2", "tensor cores"}
            The fastest unit that the kernel uses.
        """
        peaks = {
            "FP32": self.peak_flops,
            "half2": self.peak_half2_flops,
            "tensor cores": self.peak_tensor_flops,
        }
        return max(
            (read + max(0.0, written - self.l2_bytes)) / self.peak_bandwidth, flops / peaks[unit]
        )

    def link(self, pinned: bool = True) -> tuple[float, float]:
        """Return (rate to the device, rate from it) of copies with `pinned` or ordinary memory, as measured [B/s].

        Raises LabError if they were not measured on this device.
        """
        kind = "pinned" if pinned else "pageable"
        # "to_device_pinned" -> rate; in the file, the name ends with its unit there, "_gb_s"
        measured = self.measured or {}
        there, back = (measured.get(f"{way}_device_{kind}") for way in ("to", "from"))
        if there is None or back is None:
            raise LabError(
                f"the link between {self.name} and its host was not measured: data/devices.toml has no "
                f"to_device_{kind}_gb_s and from_device_{kind}_gb_s for it; give a device that has, such as "
                '"H200"'
            )
        return there, back

    def _list_facts(self) -> list[tuple[str, str]]:
        """Return pairs (label, value) that describe the device, as it is printed."""
        gpu = self.engine == "gpu"
        lines = [("engine", self.engine), ("name", self.name)]
        if self.compute_capability:
            lines.append(("compute capability", "{}.{}".format(*self.compute_capability)))
        lines += [
            ("multiprocessors" if gpu else "workers", str(self.multiprocessors)),
            ("clock", f"{self.clock_hz / GIGA:.2f} GHz" if self.clock_hz else "not reported"),
            ("memory", f"{self.memory_bytes / 2**30:.0f} GiB"),
            ("L2 cache" if gpu else "last cache", f"{self.l2_bytes / 2**20:.0f} MiB"),
            ("peak FP32", _write_rate(self.peak_flops, "FLOP/s")),
            (
                "peak bandwidth",
                _write_rate(self.peak_bandwidth, "B/s") + ("" if gpu else " (of the caches)"),
            ),
        ]
        if self.measured is not None:
            lines.append(
                (
                    "reference rates",
                    ", ".join(
                        f"{key.removeprefix('reference_')} "
                        f"{_write_rate(value, 'B/s' if 'bandwidth' in key else 'FLOP/s')}"
                        for key, value in self.measured.items()
                        if key.startswith("reference_")
                    ),
                )
            )
        if self.software:
            lines.append(("software", self.software))
        return lines + [("source", self.source)]

    def __str__(self) -> str:
        return "\n".join(f"{key:18}  {value}" for key, value in self._list_facts())

    def _repr_html_(self) -> str:
        """Return the facts as a table in HTML, which Jupyter shows."""
        cells = ((html.escape(key), html.escape(value)) for key, value in self._list_facts())
        rows = "".join(f"<tr><th>{key}</th><td>{value}</td></tr>" for key, value in cells)
        return f'<table class="lab-table">{rows}</table>'


def device(name: str | Device | None = None) -> Device:
    """Return the device that `hostcuda` runs on, or one that the lab has figures of.

    Parameters
    ----------
    name : str or Device, optional
        A device of `data/devices.toml`, by its name or a part of it: `device("H200")`. A `Device`
        is returned as it is. By default the device in use.

    Raises
    ------
    EngineError
        If no listed device, or more than one, has that name; or if HOSTCUDA_ENGINE names an engine
        that this machine does not have.
    """
    if isinstance(name, Device):
        return name
    if name is None:  # within `assume`, the device in use is the one assumed
        return _assumed[-1] if _assumed else _describe_device_in_use()
    return _find_listed(name)


@contextmanager
def assume(gpu: Device) -> Iterator[None]:
    """Let `device` return `gpu` in a `with` block, to learn what would be launched or refused there; nothing runs."""
    _assumed.append(gpu)
    try:
        yield
    finally:
        _assumed.pop()


def read_launch_limits() -> tuple[int, int]:
    """Return (multiprocessors, bytes of shared memory that a block can have) of the GPU that launches are sized for.

    That is the GPU in use, or the one of `assume`. On the CPU engine it is an H200, so launches are
    the recorded ones.
    """
    # inside of `assume`, the CPU engine only stands in for that GPU
    if not _assumed and hostcuda.engine() == "cpu":
        return _MULTIPROCESSORS, SHARED_OPT_IN_BYTES
    here = device()
    return here.multiprocessors, here.shared_opt_in


def count_blocks_at_once(shared: int, shared_opt_in: int, most: int) -> int:
    """Return how many blocks, of `shared` bytes each, fit into a multiprocessor at once; at least 1.

    `shared_opt_in` are the bytes that a block can have: from compute capability 8.0 on all but
    `DRIVER_BYTES` of a multiprocessor's. There are registers and threads for `most` blocks.
    """
    # the driver takes DRIVER_BYTES of each block; rounded up to the unit of allocation
    per_block = -(-(shared + DRIVER_BYTES) // SHARED_UNIT) * SHARED_UNIT
    return max(1, min(most, (shared_opt_in + DRIVER_BYTES) // per_block))


@functools.cache
def _describe_device_in_use() -> Device:
    """Return the device that `hostcuda` runs on, GPU or CPU; creates its context."""
    hostcuda.ensure_context()
    return _describe_gpu_in_use() if hostcuda.engine() == "gpu" else _describe_cpu_in_use()


@functools.cache
def _find_listed(name: str) -> Device:
    """Return the device in data/devices.toml whose name is `name`, or else contains it; LabError if none or several."""
    listed = _read_listed()
    matches = [entry for full, entry in listed.items() if full.lower() == name.lower()]
    matches = matches or [entry for full, entry in listed.items() if name.lower() in full.lower()]
    if len(matches) != 1:
        count = f"{len(matches)} devices" if matches else "no device"
        raise LabError(
            f"data/devices.toml has {count} with the name {name!r}; it lists {', '.join(listed) or 'none'}"
        )
    entry = matches[0]
    return _make_gpu(
        name=entry["name"],
        compute_capability=tuple(entry["compute_capability"]),
        multiprocessors=entry["multiprocessors"],
        clock_hz=entry["clock_mhz"] * 1e6,
        memory_hz=entry["memory_clock_mhz"] * 1e6,
        bus_bits=entry["memory_bus_bits"],
        memory_bytes=entry["memory_mib"] * 2**20,
        l2_bytes=entry["l2_mib"] * 2**20,
        source="data/devices.toml",
    )


def _read_listed() -> dict[str, dict]:
    """Return the entries of data/devices.toml, dicts as in the file, by the devices' names."""
    path = data_dir() / "devices.toml"
    if not path.is_file():  # the package without its data: no device is listed
        return {}
    try:
        return {
            entry["name"]: entry for entry in tomllib.loads(manifest.read(path).decode())["device"]
        }
    except (ValueError, KeyError):
        raise LabError(
            f"{path} is damaged: it is not a list of devices in TOML. Restore it with git"
        ) from None


def _read_measured_rates(name: str) -> dict[str, float] | None:
    """Return the measured rates of a listed device, in SI units: {"reference_bandwidth": 4.3e12, …}; else None."""
    entry = _read_listed().get(name)
    if entry is None:
        return None
    # The file has two tables per device: reference = {bandwidth_tb_s = 4.3}, measured =
    # {to_device_pinned_gb_s = 55.4}.
    rates = {f"reference_{key}": value for key, value in entry["reference"].items()} | entry[
        "measured"
    ]
    # a key ends with its unit: "copy_gb_s"
    units = {"_tb_s": TERA, "_tflop_s": TERA, "_gb_s": GIGA}
    return {
        key.removesuffix(unit): value * factor
        for key, value in rates.items()
        for unit, factor in units.items()
        if key.endswith(unit)
    }


def _describe_gpu_in_use() -> Device:
    """Return the GPU of the current context, from the driver's attributes."""
    driver = hostcuda.driver
    gpu = driver.Context.get_device()
    get, kind = gpu.get_attribute, driver.device_attribute
    return _make_gpu(
        name=gpu.name(),
        compute_capability=gpu.compute_capability(),
        multiprocessors=get(kind.MULTIPROCESSOR_COUNT),
        clock_hz=get(kind.CLOCK_RATE) * 1e3,  # from kHz
        memory_hz=get(kind.MEMORY_CLOCK_RATE) * 1e3,
        bus_bits=get(kind.GLOBAL_MEMORY_BUS_WIDTH),
        memory_bytes=gpu.total_memory(),
        l2_bytes=get(kind.L2_CACHE_SIZE),
        shared_opt_in=get(kind.MAX_SHARED_MEMORY_PER_BLOCK_OPTIN),
        source="the driver's device attributes",
        software=_list_gpu_software(driver),
    )


def _list_gpu_software(driver) -> str:
    """Return "CUDA 13.0, driver 580.95.05, PyCUDA 2026.1", as far as the versions are known."""
    version = driver.get_driver_version()
    parts = [f"CUDA {version // 1000}.{version % 1000 // 10}"]  # 13010 is 13.1
    kernel_module = Path("/proc/driver/nvidia/version")
    if kernel_module.is_file():
        # the first one, such as 580.95.05
        number = re.search(r"\b\d+\.\d+(\.\d+)?\b", kernel_module.read_text())
        parts += [f"driver {number[0]}"] if number else []
    return ", ".join([*parts, f"PyCUDA {metadata.version('pycuda')}"])


def _make_gpu(
    *, compute_capability, multiprocessors, clock_hz, memory_hz, bus_bits, source, **facts
) -> Device:
    """Return a GPU with its peaks and, if it is listed, its measured rates; `facts` are further fields of `Device`.

    The peaks are lanes x 2 FLOP (an FMA) x clock, and two transfers per memory clock over the whole
    bus.
    """
    # some boards that share the host's memory report no clock
    peak_bandwidth = 2 * memory_hz * bus_bits / 8 or math.inf
    # of one multiprocessor; `tensor`, `_HALF2`: its operations per clock
    lanes = _LANES.get(compute_capability, 128)
    # A new card's tensor cores are not known; before 7.0 there are none.
    tensor = _TENSOR.get(compute_capability, math.inf if compute_capability >= (7, 0) else _HALF2)
    measured = _read_measured_rates(facts["name"])
    source += "; measured rates from data/devices.toml" if measured else "; no measured rates known"
    if compute_capability not in _LANES:
        source += f"; {lanes} FP32 lanes per multiprocessor are a guess for this compute capability"
    return Device(
        engine="gpu",
        compute_capability=compute_capability,
        multiprocessors=multiprocessors,
        clock_hz=clock_hz,
        peak_flops=multiprocessors * lanes * 2 * clock_hz,
        peak_half2_flops=multiprocessors * _HALF2 * clock_hz,
        peak_tensor_flops=multiprocessors * tensor * clock_hz,
        peak_bandwidth=peak_bandwidth,
        peak_link=_read_listed().get(facts["name"], {}).get("link_gb_s", math.inf) * GIGA,
        measured=measured,
        source=source,
        **facts,
    )


def _describe_cpu_in_use() -> Device:
    """Return this host as a device of the CPU engine, with bounds of what its cores can reach as peaks."""
    driver = hostcuda.driver
    workers = driver.Context.get_device().get_attribute(
        driver.device_attribute.MULTIPROCESSOR_COUNT
    )
    flags, clock_hz = processor.instruction_sets(), processor.clock_hz()
    flops = next((flops for flag, flops in _VECTOR_FLOPS.items() if flag in flags), _OTHER_FLOPS)
    clock = max(clock_hz, _FASTEST_CLOCK)
    return Device(
        engine="cpu",
        name=processor.name(),
        compute_capability=None,
        multiprocessors=workers,
        clock_hz=clock_hz,
        memory_bytes=_read_memory_bytes(),
        l2_bytes=max(processor.cache_bytes().values(), default=0),
        peak_flops=workers * flops * clock,
        peak_half2_flops=2 * workers * flops * clock,
        peak_tensor_flops=2 * workers * flops * clock,
        # At most two vectors loaded and one stored per clock, against two multiplied: 3 x 4 B for 4
        # FLOP.
        peak_bandwidth=workers * 3 * flops * clock,
        source=f"the operating system; the peaks are bounds: {flops} FLOP per clock at {clock / GIGA:.1f} GHz",
        software=f"{platform.system()} {platform.machine()}",
    )


def _read_memory_bytes() -> int:
    """Return the size of this host's memory; 0 where the operating system does not tell it."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return 0


@functools.cache
def _measure_host(workers: int) -> dict[str, float]:
    """Measure this host's rates: a copy by all workers [B/s], and an FP32 matrix product by each of them [FLOP/s].

    The copy is STREAM's (McCalpin): arrays larger than most caches, bytes read plus bytes written.
    The product is that of one core, times the workers: a BLAS does not spread 64 x 64 matrices over
    threads, so a busy neighbouring core does not slow it down. Each rate is the best of ten.
    """
    # a source and a target per worker, 32 MiB each
    copies = [(np.ones(2**22, np.float64), np.empty(2**22)) for _ in range(workers)]
    matrices = np.ones((200, 64, 64), np.float32)
    product = np.empty_like(matrices)
    copy_s = product_s = math.inf
    with ThreadPoolExecutor(workers) as pool:
        for _ in range(10):
            start = time.perf_counter()
            list(pool.map(lambda copy: np.copyto(copy[1], copy[0]), copies))
            copy_s = min(copy_s, time.perf_counter() - start)
            start = time.perf_counter()
            np.matmul(matrices, matrices, out=product)
            product_s = min(product_s, time.perf_counter() - start)
    bandwidth = sum(2 * source.nbytes for source, _ in copies) / copy_s
    rate = workers * 2 * matrices.size * 64 / product_s
    return {
        "reference_bandwidth": bandwidth,
        "reference_float32": rate,
        "copy": bandwidth,
        "float32_gemm": rate,
    }


def slug(name: str) -> str:
    """Return a name as a file name: "NVIDIA H200" becomes "nvidia-h200"."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def _write_rate(value: float, unit: str) -> str:
    """Return a rate with three digits and a prefix of its unit, "FLOP/s" or "B/s": "66.9 TFLOP/s"."""
    for factor, prefix in ((TERA, "T"), (GIGA, "G"), (1e6, "M")):
        if value >= factor:
            return f"{value / factor:.3g} {prefix}{unit}"
    return f"{value:.3g} {unit}"
