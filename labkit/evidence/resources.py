"""Figures from nvcc for each variant, without a GPU: registers, spills, shared memory, occupancy."""

from __future__ import annotations

from collections.abc import Iterable

import pandas as pd

from hostcuda.gpu import nvcc
from hostcuda.gpu.nvcc import ARCH
from hostcuda.limits import MULTIPROCESSOR
from labkit.base.errors import LabError
from labkit.ladder.source import NVCC_OPTIONS, header_folders
from labkit.ladder.variants import Variant, as_variants
from labkit.spec.layers import Layer


def resources(
    variants: Variant | int | Iterable[Variant | int], layer: Layer | str, arch: str = ARCH
) -> pd.DataFrame:
    """Compile variants with nvcc, for a GPU that need not be in this machine.

    Parameters
    ----------
    variants : Variant, rung number, or iterable of these
    layer : Layer or its name
    arch : str
        One of `hostcuda.limits.MULTIPROCESSOR`: the H200 is sm_90.

    Returns
    -------
    DataFrame
        A row per kernel: variant, kernel, registers (per thread), stack_bytes (per thread: arrays
        that do not fit into registers), spill_store_bytes, spill_load_bytes, shared_bytes (per
        block, static and dynamic), occupancy (share of a multiprocessor's warps), source.

    Raises
    ------
    LabError
        `arch` is unknown.
    EngineError
        There is no nvcc, or it refuses the source; the message has nvcc's.
    """
    if arch not in MULTIPROCESSOR:
        raise LabError(f"arch = {arch!r}: it must be one of {', '.join(MULTIPROCESSOR)}")
    rows = []
    for variant in as_variants(variants):
        target = choose_arch(variant, arch)  # `arch`, or "sm_90a" for instructions of that alone
        # kernel -> its figures
        used = nvcc.read_ptxas(nvcc.compile(*prepare(variant, layer), target, "-Xptxas", "-v"))
        for launch in variant.launches(layer):
            # ptxas counts static shared memory only; `launch.shared` of other variants is static,
            # and counted.
            facts = used[launch.kernel]
            dynamic = launch.shared if variant.dynamic_shared else 0
            rows.append(
                {
                    "variant": variant.label,
                    "kernel": launch.kernel,
                    **facts,
                    "shared_bytes": facts["shared_bytes"] + dynamic,
                    "occupancy": nvcc.occupancy_of(facts, launch.block, dynamic, arch),
                    "source": f"nvcc, {target}",
                }
            )
    return pd.DataFrame(rows)


def prepare(variant: Variant, layer: Layer) -> tuple[str, str, list[str]]:
    """Return what nvcc needs to compile a variant for a layer: the source, the file's name, the options."""
    includes = [f"-I{folder}" for folder in header_folders(variant.path)]
    defines = [f"-D{name}={value}" for name, value in variant.defines(layer).items()]
    return variant.source, variant.file_name, [*NVCC_OPTIONS, *includes, *defines]


def choose_arch(variant: Variant, arch: str) -> str:
    """Return `arch`, or "sm_90a" if it is "sm_90" and the variant uses instructions that only this architecture has."""
    return f"{arch}a" if variant.architecture_specific and arch == "sm_90" else arch
