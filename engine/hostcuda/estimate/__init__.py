"""Estimate the time of kernels on a GPU from what the CPU engine counts. No GPU is needed.

With nvcc, which needs no GPU either, the estimate is *fine*: the machine code's instructions, registers and occupancy
are known. Without it, it is *coarse*. Both were fitted to times that were recorded on a card. Each estimate states the
interval that held 8 of 10 of these times. Kernels unlike those that were timed get no estimate: see `why_not`.
"""

from __future__ import annotations

import importlib.util
import json
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

from hostcuda.check.instrument import FLOW
from hostcuda.errors import EngineError
from hostcuda.estimate.model import Card, card, launches, time_ms, units
from hostcuda.estimate.work import CODE, merged, without_code, work
from hostcuda.gpu import nsight
from hostcuda.gpu.nvcc import nvcc_available, of_modules
from hostcuda.runtime.elf import Elf
from hostcuda.util.tables import HTML, table

__all__ = ["Card", "Estimate", "card", "estimate", "estimated", "fine", "why_not", "works"]

_LEAST = 0.25  # instructions of the GPU per instruction of the host: no kernel that was matched well has fewer
_NEAR = 0.9  # of the busiest unit's time: a unit that needs more than this may be the busiest on a card


def fine() -> bool:
    """Return whether this machine has nvcc, nvdisasm and SciPy: ``pip install "hostcuda[nvcc]"`` brings them."""
    return nvcc_available() and nsight.find("nvdisasm") is not None and importlib.util.find_spec("scipy") is not None


@dataclass(repr=False)
class Estimate:
    """Estimated times of launches.

    Attributes
    ----------
    card : Card
    kind : {"fine", "coarse"}
        With machine code, or without.
    table : DataFrame
        A row per kernel and launch geometry: ``kernel``, ``launches``, ``ms``, ``low_ms``, ``high_ms`` of all of them
        (NaN if there is no estimate), ``busiest``, ``near`` (it and the units within 10 % of it, separated by commas),
        ``why_not`` (empty if there is an estimate).
    units : DataFrame
        A row per kernel as in `table`: the time that each unit needs [ms].
    """

    card: Card
    kind: str
    table: pd.DataFrame
    units: pd.DataFrame = field(repr=False)

    @property
    def ms(self) -> float:
        """The time of all launches [ms]; NaN if one of them has no estimate."""
        return float(self.table["ms"].sum(skipna=False))

    @property
    def interval(self) -> tuple[float, float]:
        """The interval [ms] that held the recorded time in 8 of 10 comparisons."""
        return float(self.table["low_ms"].sum(skipna=False)), float(self.table["high_ms"].sum(skipna=False))

    @property
    def busiest(self) -> str:
        """The busiest unit of the kernel that takes the longest."""
        return self.near[0]

    @property
    def near(self) -> list[str]:
        """The busiest unit of the longest kernel, and those within 10 % of it, the busiest first."""
        longest = self.units.max(axis=1).to_numpy().argmax()
        return str(self.table["near"].iloc[longest]).split(", ")

    @property
    def why_not(self) -> str:
        """Why the first kernel without a time has none; empty if all have one."""
        return next((f"{row.kernel}: {row.why_not}" for row in self.table.itertuples() if row.why_not), "")

    @property
    def note(self) -> str:
        """Where the figures come from."""
        how = "counts and nvcc's machine code" if self.kind == "fine" else "counts alone (coarse)"
        return f"Estimated for the {self.card.name} from {how}; not measured."

    def against(self, before: Estimate) -> str:
        """Return a sentence that sets this estimate beside that of an earlier version of the kernel."""
        if math.isnan(before.ms):
            return f"{self}; before {before}"
        low, high = before.interval
        earlier_units = f"; before: {', '.join(before.near)}" if {*before.near} != {*self.near} else ", as before"
        time, _, units = str(self).partition(". ")
        return f"{time}; before about {_short(before.ms)} ms ({_short(low)} to {_short(high)}). {units}{earlier_units}"

    def __str__(self) -> str:
        if math.isnan(self.ms):
            return f"no time ({self.why_not}). Busiest: {', '.join(self.near)}"
        low, high = self.interval
        return f"about {_short(self.ms)} ms ({_short(low)} to {_short(high)}). Busiest: {', '.join(self.near)}"

    def __repr__(self) -> str:
        return f"{self}. {self.note}"

    def launches(self) -> HTML:
        """Return a row per kernel, as a table for a page or a terminal."""
        rows = self.table.copy()
        rows.attrs["note"] = self.note
        unchanged = {name: name for name in ("kernel", "launches", "ms")}
        headings = {**unchanged, "low_ms": "from", "high_ms": "to", "near": "busiest units", "why_not": "why no time"}
        return table(rows, "Estimated times", headings)


def _short(ms: float) -> str:
    """Format a time with two significant digits."""
    return f"{ms:.2g}" if ms < 99.5 else f"{round(ms, 1 - math.floor(math.log10(ms))):.0f}"


def why_not(found: Mapping[str, float]) -> str:
    """Return why a launch with this work gets no time: an empty text if it gets one.

    There is no time where the estimate was not compared with recorded times of such kernels, or was found to be wrong.
    """
    memory = max(found["memory_instructions"], 1.0)
    code = {name.removeprefix(CODE): value for name, value in found.items() if name.startswith(CODE)}
    if found.get("matrices") or code.get("tensor"):
        return "it uses tensor cores, whose times the estimate does not predict well"
    if found["atomic_sectors"] + found["shared_atomics"]:
        return "its atomic operations were not compared with recorded times"
    if found.get("doubles", 0) > 0.01 * found["arithmetic"] or code.get("fp64", 0) > 0.01 * code.get("instructions", 0):
        return "its arithmetic in half or double precision was not compared with recorded times"
    if code.get("local", 0) > 0.02 * memory:
        return "its registers spill to local memory, whose accesses the engine does not count"
    hosts = sum(found[name] for name in ("arithmetic", "integer", "branches", "memory_instructions"))
    if code.get("missed", 0) > 0.35 or code.get("instructions", hosts) < _LEAST * hosts:
        return "its machine code does not fit the counts, so it is not known how often its loops run"
    if code.get("occupancy", 1) < 0.15:
        return "its occupancy is below 15 %"
    if code.get("uniform_words", 0) > 0.01 * code.get("instructions", 0):
        return "its warps load words of constant memory as a whole, and how long they wait for them is not in the model"
    return ""


def works(records: Sequence[Mapping], modules: Iterable[Mapping]) -> tuple[str, list[dict[str, float]]]:
    """Compute the work of launches.

    Parameters
    ----------
    records : sequence of mapping
        The CPU engine's records of the launches, with the tool ``profile``.
    modules : iterable of mapping
        The engine's records of the modules; if empty, no machine code is used.

    Returns
    -------
    kind : {"fine", "coarse"}
    works : list of dict
        As `hostcuda.estimate.work.work` returns them, with ``kernel``.

    Raises
    ------
    EngineError
        A launch was abandoned, or its module was compiled in a way that the counts cannot be matched with.
    """
    code = of_modules(modules, code=True)[0] if fine() else {}
    flows: dict[str, list] = {}
    work_by_launch: dict[str, dict] = {}  # a program may launch a kernel a thousand times
    rows = []
    for record in records:
        if record["error"]:
            raise EngineError(f"no estimate: the launch of {record['kernel']} was abandoned: {record['error']}")
        module = record["module"]
        if module not in flows:  # the copy of a module that a process loads twice is removed
            flows[module] = json.loads(Elf(module).content(FLOW) or "[]") if Path(module).is_file() else []
        if not flows[module]:
            raise EngineError(f"no estimate of {record['kernel']}: the engine counts its instructions only on x86-64, "
                              "and only in a program of one file")
        key = json.dumps([record[name] for name in ("module", "kernel", "grid", "block", "shared", "sites", "plays")])
        if key not in work_by_launch:
            facts = code.get(module, {}).get(record["kernel"], {})
            work_by_launch[key] = work(record, flows[module], facts.get("blocks"), facts) | {"kernel": record["kernel"]}
        rows.append(work_by_launch[key])
    return ("fine" if rows and all(f"{CODE}instructions" in own for own in rows) else "coarse"), rows


def estimated(found: Sequence[Mapping], kind: str, on: Card) -> Estimate:
    """Estimate the time of launches from their `works`; those of one kernel may be merged, with ``launches``."""
    rows, busy_times = [], []
    low, high = on.intervals[kind]
    for launch_work in found:
        own = launch_work if kind == "fine" else without_code(launch_work)
        times = units(own, on) | {"launch": launches(own) * on.launch_ms}
        ordered = sorted(times, key=times.__getitem__, reverse=True)
        reason = why_not(own)
        ms = math.nan if reason else time_ms(own, on)
        near = ", ".join(name for name in ordered if times[name] >= _NEAR * times[ordered[0]])
        rows.append({
            "kernel": launch_work["kernel"], "launches": int(launches(own)), "ms": ms, "low_ms": ms * low,
            "high_ms": ms * high, "busiest": ordered[0], "near": near, "why_not": reason,
        })
        busy_times.append(times)
    return Estimate(on, kind, pd.DataFrame(rows), pd.DataFrame(busy_times).fillna(0.0))


def estimate(records: Sequence[Mapping], modules: Iterable[Mapping], device: str = "H200") -> Estimate:
    """Estimate the time of launches on a card, from the CPU engine's counts.

    Parameters
    ----------
    records, modules
        As for `works`.
    device : str
        A part of the card's name.

    Raises
    ------
    EngineError
        No times of this card were recorded; there are no launches; or as `works` does.
    """
    on = card(device)
    if not records:
        raise EngineError("no kernel was launched, so there is nothing to estimate")
    kind, launch_works = works(records, modules)
    groups = defaultdict(list)
    for record, own in zip(records, launch_works, strict=True):
        groups[record["module"], record["kernel"], *record["grid"], *record["block"], record["shared"]].append(own)
    merged_works = [merged(group) | {"kernel": group[0]["kernel"], "launches": len(group)} for group in groups.values()]
    return estimated(merged_works, kind, on)
