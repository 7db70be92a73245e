"""What nvcc gives each kernel: registers, spills, shared memory, and the occupancy that follows. It needs no GPU."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import pandas as pd

from labkit.errors import LabError
from labkit.events import occupancy
from labkit.ladder import NVCC_OPTIONS
from labkit.profiling import as_variants

# A multiprocessor's limits, from the CUDA programming guide's table of compute capabilities.
LIMITS = {
    "sm_80": {"warps": 64, "blocks": 32, "registers": 65536, "shared": 167936},
    "sm_86": {"warps": 48, "blocks": 16, "registers": 65536, "shared": 102400},
    "sm_89": {"warps": 48, "blocks": 24, "registers": 65536, "shared": 102400},
    "sm_90": {"warps": 64, "blocks": 32, "registers": 65536, "shared": 233472},
}
_ENTRY = re.compile(r"Compiling entry function '(\w+)' for '(\w+)'")
_SPILLS = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(r"Used (\d+) registers")
_SHARED = re.compile(r"(\d+) bytes smem")


def resources(variants, layer, arch: str = "sm_90") -> pd.DataFrame:
    """Compile variants with nvcc for a GPU that need not be there.

    Parameters
    ----------
    variants : Variant, rung number, or iterable of these
    layer : Layer
    arch : str
        One of `LIMITS`: the H200 is sm_90.

    Returns
    -------
    DataFrame
        A row a kernel: variant, kernel, registers (of a thread), stack_bytes (of a thread: arrays that do not fit into
        registers), spill_store_bytes, spill_load_bytes, shared_bytes (of a block, static and dynamic), occupancy (share
        of a multiprocessor's warps), source.

    Raises
    ------
    LabError
        If there is no nvcc, `arch` is not one of `LIMITS`, or nvcc refuses the source; the message holds its words.
    """
    if arch not in LIMITS:
        raise LabError(f"arch = {arch!r}: it is one of {', '.join(LIMITS)}")
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        raise LabError("registers and spills come from nvcc, which is not on this machine: install the CUDA toolkit")
    rows = []
    for each in as_variants(variants):
        used = _compile(nvcc, each, layer, arch)
        for launch in each.launches(layer):
            facts = used[launch.kernel]
            threads = launch.block[0] * launch.block[1] * launch.block[2]
            dynamic = launch.shared if each._dynamic_shared else 0
            shared = facts.pop("shared_bytes") + dynamic
            share = occupancy(threads, facts["registers"], shared, LIMITS[arch])
            rows.append({"variant": each.label, "kernel": launch.kernel, **facts, "shared_bytes": shared,
                         "occupancy": share, "source": f"nvcc, {arch}"})  # fmt: skip
    return pd.DataFrame(rows)


def _compile(nvcc: str, variant, layer, arch: str) -> dict[str, dict]:
    """What ptxas says of each kernel."""
    with tempfile.TemporaryDirectory(prefix="labkit-") as folder:
        source = Path(folder) / "kernel.cu"
        source.write_text(f'#line 1 "{variant.file_name}"\n{variant.source}')
        includes = [f"-I{variant.path.parent}"] if variant.path else []
        defines = [f"-D{name}={value}" for name, value in variant.defines(layer).items()]
        command = [nvcc, *NVCC_OPTIONS, *includes, *defines, f"-arch={arch}", "-cubin", "-Xptxas", "-v",
                   "-o", str(source.with_suffix(".cubin")), str(source)]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise LabError(f"nvcc refuses {variant.label}:\n{done.stderr.strip()}")
    return read_ptxas(done.stderr)


def read_ptxas(text: str) -> dict[str, dict]:
    """Of each kernel in what ``-Xptxas -v`` prints: registers, stack and spills, static shared memory."""
    kernels: dict[str, dict] = {}
    facts: dict = {}
    for line in text.splitlines():
        if found := _ENTRY.search(line):
            facts = kernels.setdefault(found[1], {"registers": 0, "stack_bytes": 0, "spill_store_bytes": 0,
                                                  "spill_load_bytes": 0, "shared_bytes": 0})  # fmt: skip
        elif found := _SPILLS.search(line):
            names = ("stack_bytes", "spill_store_bytes", "spill_load_bytes")
            facts.update(zip(names, map(int, found.groups()), strict=True))
        elif found := _USED.search(line):
            facts["registers"] = int(found[1])
            shared = _SHARED.search(line)
            facts["shared_bytes"] = int(shared[1]) if shared else 0
    return kernels
