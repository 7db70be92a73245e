"""Errors that a variant's kernels do not report: invalid addresses, races, uninitialized memory, divergent barriers.

`hostcuda.sanitize` finds them, in a process of its own.
"""

from __future__ import annotations

from collections.abc import Iterable

from hostcuda.sanitize import Findings, watch
from labkit.evidence import child
from labkit.ladder.variants import Variant
from labkit.spec.layers import Layer


def sanitize(variants: Variant | int | Iterable[Variant | int], layer: Layer, batch: int = 1, tool: str = "all",
             engine: str | None = None, timeout: float | None = 600) -> Findings:
    """Check the memory accesses and barriers of variants on one layer, in a process of their own.

    Parameters
    ----------
    variants : Variant, rung number, or iterable of these
    layer : Layer
    batch : int
    tool : {"all", "memcheck", "racecheck", "initcheck", "synccheck"}
    engine : {"cpu", "gpu"}, optional
        By default the engine in use.
    timeout : float, optional
        Seconds, for each run.

    Raises
    ------
    EngineError
        If a variant does not support the layer, the batch is not a positive integer, or the process failed without a
        finding.
    CompileError
        If a variant does not compile.
    """
    found, ran = child.watched(watch, variants, layer, batch, engine=engine, timeout=timeout, tool=tool)
    if found.launches is None:
        found.launches = sum(each["launches"] for each in ran)
    if found.table.empty or found.ended.interrupted:
        found.ended.require("sanitizing", found.note)
    return found
