"""Errors that a variant's kernels do not report: invalid addresses, races, uninitialized memory, divergent barriers.

`hostcuda.sanitize` finds them, in a process of its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import hostcuda.sanitize
from hostcuda.sanitize import watch
from labkit.evidence import child
from labkit.evidence.modules import sanitize_module
from labkit.ladder.variants import Variant, as_variants
from labkit.spec.layers import Layer

# Two tiles of 16 x 16 outputs each way, and channels enough that a kernel uses its tile again.
SMALL = Layer("small", C=3, H=23, W=24, M=4, K=7)


@dataclass(repr=False)
class VariantFindings(hostcuda.sanitize.Findings):
    """The findings in variants.

    Attributes
    ----------
    table, launches, tools, ended, note, whole
        As those of `hostcuda.sanitize.Findings`.
    sources : dict of str to str
        The text of each variant's own file, by the file's name.
    """

    sources: dict[str, str] = field(default_factory=dict)


def sanitize(
    variants: Variant | int | Iterable[Variant | int] | Any,
    layer: Layer | str = SMALL,
    batch: int = 1,
    tool: str = "all",
    engine: str | None = None,
    timeout: float | None = 600,
) -> hostcuda.sanitize.Findings:
    """Check the memory accesses and barriers of variants on one layer, in a process of their own; return the findings.

    Of a module, the name in ``%%cuda NAME``, the last launch is repeated; `layer` and `batch` then
    have no effect.

    Parameters
    ----------
    variants : Variant, rung number, or iterable of these; or a module of ``%%cuda``
    layer : Layer or its name
        By default a small one, on which mistakes show.
    batch : int
        Images.
    tool : {"all", "memcheck", "racecheck", "initcheck", "synccheck"}
    engine : {"cpu", "gpu"}, optional
        By default the engine in use.
    timeout : float, optional
        Seconds, for each run.

    Raises
    ------
    LabError
        If a variant does not support the layer, or the batch is not a positive integer.
    EngineError
        If the process failed without a finding.
    CompileError
        If a variant does not compile.
    """
    if hasattr(variants, "get_function"):  # a module
        return sanitize_module(variants, tool, engine, timeout)
    findings, runs = child.watch_variants(
        "sanitizing", watch, variants, layer, batch, engine=engine, timeout=timeout, tool=tool
    )
    if findings.launches is None:  # compute-sanitizer, on a GPU, does not count them
        findings.launches = sum(run["launches"] for run in runs)
    # a finding explains why the process failed; Ctrl-C is raised even so
    if not findings.rows or findings.ended.interrupted:
        findings.ended.require("sanitizing", findings.note)
    # for the text of the lines that the findings name
    sources = {variant.file_name: variant.source for variant in as_variants(variants)}
    return VariantFindings(**vars(findings), sources=sources)
