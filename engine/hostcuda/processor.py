"""The processor of this computer, as far as the operating system describes it."""

import functools
import platform
from pathlib import Path

_CPU = Path("/sys/devices/system/cpu/cpu0")


@functools.cache
def facts() -> dict[str, list[str]]:
    """Return the distinct values of each key in Linux's ``/proc/cpuinfo``, sorted; empty on other systems."""
    try:
        lines = Path("/proc/cpuinfo").read_text(errors="replace").splitlines()
    except OSError:
        return {}
    rows: dict[str, set[str]] = {}
    for line in lines:
        key, _, value = (part.strip() for part in line.partition(":"))
        rows.setdefault(key, set()).add(" ".join(value.split()))
    return {key: sorted(values) for key, values in rows.items()}


def name() -> str:
    """Return the processor's model, else its architecture, else "CPU"."""
    return facts().get("model name", [platform.processor() or platform.machine() or "CPU"])[0]


def instruction_sets() -> set[str]:
    """Return the instruction sets, by Linux's names: "avx2", "asimd"."""
    return {
        word
        for key in ("flags", "Features")  # on x86-64, on aarch64
        for value in facts().get(key, ())
        for word in value.split()
    }


def clock_hz() -> float:
    """Return the highest clock rate that is reported, in Hz; 0 if none is."""
    clocks = [1e6 * float(value) for value in facts().get("cpu MHz", ())]
    highest = _CPU / "cpufreq" / "cpuinfo_max_freq"  # in kHz
    if highest.is_file():
        clocks.append(1e3 * float(highest.read_text()))
    return max(clocks, default=0.0)


def cache_bytes() -> dict[int, int]:
    """Map Linux's index of each cache of the first processor to its size in bytes; empty if not reported.

    For example {0: 32768, 1: 32768, 2: 1048576}: index 2 is the file ``cache/index2/size``.
    """
    units = {"K": 2**10, "M": 2**20, "G": 2**30}  # Linux writes "32K"
    sizes = {
        int(file.parent.name.removeprefix("index")): file.read_text().strip()
        for file in _CPU.glob("cache/index*/size")
    }
    return {
        index: int(size[:-1]) * units[size[-1]]
        for index, size in sizes.items()
        if size[-1:] in units
    }
