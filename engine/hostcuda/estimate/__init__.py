"""Estimate the time of kernels on a GPU from what the CPU engine counts. No GPU is needed.

With nvcc and nvdisasm, which need no GPU either, the estimate is *fine*: the machine code is known.
A time is an interval, which held 9 of 10 times of kernels that the model had not seen. Kernels
unlike those that were timed get no time: see `why_not`. Without the machine code the estimate is
*coarse*: it names the busiest unit, and gives no time.
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
from hostcuda.estimate.model import (
    Card,
    busiest_unit,
    card,
    count_launches,
    filled_share,
    interval_ms,
    unit_times,
)
from hostcuda.estimate.work import CODE, merged, without_code, work
from hostcuda.gpu import nsight
from hostcuda.gpu.nvcc import compile_modules, nvcc_available
from hostcuda.limits import SECTOR
from hostcuda.runtime.elf import Elf
from hostcuda.tables import HTML, table

__all__ = [
    "Card",
    "Estimate",
    "card",
    "estimate",
    "estimated",
    "fine",
    "lacking",
    "why_not",
    "why_unlike",
    "works",
]

# The limits of `why_unlike`, as shares of all instructions, of those for memory, and of the counts:
# `flow.Executions`.
_DOUBLES, _MOST_UNIFORM, _MOST_LOCAL, _MOST_MISSED = 0.01, 0.01, 0.02, 0.35
# instructions of the GPU per instruction of the host: no kernel that was matched well has fewer
_LEAST_CODE = 0.25
_LEAST_FILL = 0.15  # of a card's places for warps
# of a warp's lanes, in an access; among the kernels that were predicted well the least is 0.48
_LEAST_LANES = 0.45
_MOST_SHARED = 1.25  # loaded by all blocks over what is read once: with more, blocks share it
_NEAR = (
    0.9  # of the busiest unit's time: a unit that needs more than this may be the busiest on a card
)


def lacking() -> str:
    """Return what this machine lacks to estimate from a GPU's machine code, and how to get it; "" if it has all."""
    if not nvcc_available():
        return 'nvcc is missing: pip install "hostcuda[nvcc]"'
    if nsight.find("nvdisasm") is None:
        return "nvdisasm is missing: pip install nvidia-cuda-nvdisasm (4 MB)"
    return "" if importlib.util.find_spec("scipy") else "SciPy is missing: pip install scipy"


def fine() -> bool:
    """Return whether this machine can estimate from a GPU's machine code: fine estimates."""
    return not lacking()


@dataclass(repr=False)
class Estimate:
    """Estimated times of launches.

    Attributes
    ----------
    card : Card
    kind : {"fine", "coarse"}
        With machine code, or without.
    table : DataFrame
        A row per kernel and launch geometry: ``kernel``, ``launches``, ``low_ms``, ``high_ms`` of
        all of them (NaN if there is no time), ``busiest``, ``near`` (it and the units within 10 %
        of it, separated by commas), ``why_not`` (empty if there is a time).
    units : DataFrame
        A row per kernel as in `table`: the time that each unit needs [ms].
    """

    card: Card
    kind: str
    table: pd.DataFrame
    units: pd.DataFrame = field(repr=False)

    @property
    def interval(self) -> tuple[float, float]:
        """The interval (low, high) of the time of all launches together [ms]; NaN if one of them has no time."""
        return tuple(float(self.table[name].sum(skipna=False)) for name in ("low_ms", "high_ms"))

    @property
    def busiest(self) -> str:
        """The name of the busiest unit of the kernel that takes the longest, such as "DRAM"."""
        return self.near[0]

    @property
    def near(self) -> list[str]:
        """The names of the busiest unit of the longest kernel and of those within 10 % of it, the busiest first."""
        longest = self.units.max(axis=1).to_numpy().argmax()
        return str(self.table["near"].iloc[longest]).split(", ")

    @property
    def why_not(self) -> str:
        """The first kernel without a time and the reason, "KERNEL: REASON"; empty if all kernels have a time."""
        return next(
            (f"{row.kernel}: {row.why_not}" for row in self.table.itertuples() if row.why_not), ""
        )

    @property
    def note(self) -> str:
        """A sentence that says for which card the times are, from which data, and that they are not measured."""
        how = (
            "counts and nvcc's machine code"
            if self.kind == "fine"
            else f"counts alone ({why_coarse()})"
        )
        return f"Estimated for the {self.card.name} from {how}; not measured."

    @property
    def time(self) -> str:
        """The interval as text, "1.2 to 1.5 ms", or "no time (REASON)"; the reason is left out if `note` says it."""
        if self.kind == "coarse":
            return "no time"
        if self.why_not:
            return f"no time ({self.why_not})"
        low, high = map(_format_ms, self.interval)
        return f"{low} to {high} ms"

    def against(self, before: Estimate) -> str:
        """Return a sentence that compares this estimate with that of an earlier version of the kernel.

        Where one of the two has no time, it compares the times of their busiest units, summed over
        the kernels.
        """
        earlier_units = (
            f"; before: {', '.join(before.near)}"
            if {*before.near} != {*self.near}
            else ", as before"
        )
        if self.why_not or before.why_not:
            now, then = (float(version.units.max(axis=1).sum()) for version in (self, before))
            change = (
                "less time than"
                if now < _NEAR * then
                else ("more time than" if then < _NEAR * now else "about as much time as")
            )
            earlier = f"its busiest unit needs {change} before"
        else:
            earlier = f"before {before.time}"
        return f"{self.time}; {earlier}. Busiest: {', '.join(self.near)}{earlier_units}"

    def __str__(self) -> str:
        return f"{self.time}. Busiest: {', '.join(self.near)}"

    def __repr__(self) -> str:
        return f"{self}. {self.note}"

    def launches(self) -> HTML:
        """Return the estimate as a table with a row per kernel, for a page or a terminal."""
        rows = self.table.copy()
        rows.attrs["note"] = self.note
        for name in ("low_ms", "high_ms"):
            rows[name] = ["" if math.isnan(ms) else _format_ms(ms) for ms in rows[name]]
        headings = {
            "kernel": "kernel",
            "launches": "launches",
            "low_ms": "from (ms)",
            "high_ms": "to (ms)",
            "near": "busiest units",
            "why_not": "why no time",
        }
        return table(rows, "Estimated times", headings)


def _format_ms(ms: float) -> str:
    """Return a time with two significant digits, never as "1e+02": "0.23", "12", "120"."""
    return f"{ms:.2g}" if ms < 99.5 else f"{round(ms, 1 - math.floor(math.log10(ms))):.0f}"


def why_coarse() -> str:
    """Return why an estimate is coarse on this machine: it lacks the machine code."""
    return lacking() or "the machine code was not read: it is too large, or nvcc was left out"


def why_not(work: Mapping[str, float], gpu: Card) -> str:
    """Return why a launch gets no time, as a clause ("its registers spill ..."); "" if it gets one.

    There is no time where the estimate was not compared with recorded times of such kernels, or was
    found to be wrong. `work` has the launch's totals, as an item of `works`; those of machine code
    have names that begin with `CODE`.
    """
    if f"{CODE}instructions" not in work:
        return why_coarse()
    unit = busiest_unit(work, gpu)
    return why_unlike(work, gpu) or (
        ""
        if unit in gpu.intervals
        else (
            f"it is limited by {unit}: times of such kernels were predicted badly, or too few were recorded"
        )
    )


def why_unlike(work: Mapping[str, float], gpu: Card) -> str:
    """Return how a launch differs from the kernels whose times were predicted well, as a clause; "" if it does not."""
    memory = max(work["memory_instructions"], 1.0)
    code = {name.removeprefix(CODE): value for name, value in work.items() if name.startswith(CODE)}
    if work.get("matrices") or code.get("tensor"):
        return "it uses tensor cores, whose times the estimate does not predict well"
    if work["atomic_sectors"] + work["shared_atomics"]:
        return "its atomic operations were not compared with recorded times"
    if (
        work.get("doubles", 0) > _DOUBLES * work["arithmetic"]
        or code.get("fp64", 0) > _DOUBLES * code["instructions"]
    ):
        return "its arithmetic in half or double precision was not compared with recorded times"
    if code.get("local", 0) > _MOST_LOCAL * memory:
        return "its registers spill to local memory, whose accesses the engine does not count"
    host_instructions = sum(
        work[name] for name in ("arithmetic", "integer", "branches", "memory_instructions")
    )
    if (
        code.get("missed", 0) > _MOST_MISSED
        or code["instructions"] < _LEAST_CODE * host_instructions
    ):
        return (
            "its machine code does not fit the counts, so it is not known how often its loops run"
        )
    if (filled := filled_share(work, gpu)) < _LEAST_FILL:
        blocks, least = work["blocks"] / count_launches(work), round(100 * _LEAST_FILL)
        what = (
            "its occupancy is"
            if code["occupancy"] < _LEAST_FILL
            else f"the warps of its {blocks:,.0f} blocks are"
        )
        return f"{what} {100 * filled:.2g} % of what the card holds, and below {least} % no time is predicted well"
    if code.get("uniform_words", 0) > _MOST_UNIFORM * code["instructions"]:
        return "its warps load words of constant memory as a whole, and how long they wait for them is not in the model"
    if work.get("loaded_bytes", 0) + work["stored_bytes"] < _LEAST_LANES * work.get(
        "lane_bytes", 0
    ):
        return "few lanes of its warps take part in an access to memory: how long the others wait is not in the model"
    loaded = SECTOR * work["loaded_sectors"]  # bytes that the blocks load, each for itself
    if loaded and work.get("loaded_bytes", math.inf) < loaded / 2:
        return "it gathers, or reads with a stride: less than half of each loaded sector is used"
    times = unit_times(work, gpu)
    most = max(times.values())
    if times["slow functions"] > most / 2:
        return "its slow functions (exp, sin, square roots, divisions) were not compared with recorded times"
    # bytes of the addresses that any block loads
    read = max(work["unique_bytes"] - work["stored_bytes"], 0)
    if max(times["DRAM"], times["L2 reads"]) > _NEAR * most and loaded > _MOST_SHARED * read:
        return (
            "its blocks load what others load, too, as a stencil's do, or what they overwrite: how much of it "
            "comes from DRAM is not in the model"
        )
    return ""


def works(
    records: Sequence[Mapping], modules: Iterable[Mapping]
) -> tuple[str, list[dict[str, float]]]:
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
        A launch was abandoned, or its module was compiled in a way that the counts cannot be
        matched with.
    """
    # of nvcc: module to {kernel: figures and blocks}
    code = compile_modules(modules, code=True)[0] if fine() else {}
    flows: dict[str, list] = {}  # of the engine's compiler: module to the blocks of its code
    work_by_launch: dict[str, dict] = {}  # a program may launch a kernel a thousand times
    rows = []
    for record in records:
        if record["error"]:
            raise EngineError(
                f"no estimate: the launch of {record['kernel']} was abandoned: {record['error']}"
            )
        module = record["module"]
        if module not in flows:  # the copy of a module that a process loads twice is removed
            flows[module] = (
                json.loads(Elf(module).content(FLOW) or "[]") if Path(module).is_file() else []
            )
        if not flows[module]:
            raise EngineError(
                f"no estimate of {record['kernel']}: the engine counts its instructions only on x86-64, "
                "and only in a program of one file"
            )
        key = json.dumps(
            [
                record[name]
                for name in ("module", "kernel", "grid", "block", "shared", "sites", "plays")
            ]
        )
        if key not in work_by_launch:
            # {} too where nvcc refuses the source
            facts = code.get(module, {}).get(record["kernel"], {})
            work_by_launch[key] = work(record, flows[module], facts.get("blocks"), facts) | {
                "kernel": record["kernel"]
            }
        rows.append(work_by_launch[key])
    return (
        "fine" if rows and all(f"{CODE}instructions" in row for row in rows) else "coarse"
    ), rows


def estimated(launch_works: Sequence[Mapping], kind: str, gpu: Card) -> Estimate:
    """Return the estimate of launches from what the function `works` returns: their totals, as dicts, and the kind."""
    rows, busy_times = [], []
    for launch_work in launch_works:  # of one launch, or several of a kernel, `merged`
        work = launch_work if kind == "fine" else without_code(launch_work)
        count = count_launches(work)
        # ms that each unit is busy
        times = unit_times(work, gpu) | {"the launch itself": count * gpu.launch_ms}
        # names of units, the busiest first
        ordered = sorted(times, key=times.__getitem__, reverse=True)
        reason = why_not(work, gpu)
        low, high = (math.nan, math.nan) if reason else interval_ms(work, gpu)
        near = ", ".join(name for name in ordered if times[name] >= _NEAR * times[ordered[0]])
        rows.append(
            {
                "kernel": launch_work["kernel"],
                "launches": int(count),
                "low_ms": low,
                "high_ms": high,
                "busiest": ordered[0],
                "near": near,
                "why_not": reason,
            }
        )
        busy_times.append(times)
    return Estimate(gpu, kind, pd.DataFrame(rows), pd.DataFrame(busy_times).fillna(0.0))


def estimate(
    records: Sequence[Mapping], modules: Iterable[Mapping], device: str = "H200"
) -> Estimate:
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
    gpu = card(device)
    if not records:
        raise EngineError("no kernel was launched, so there is nothing to estimate")
    kind, launch_works = works(records, modules)
    groups = defaultdict(list)
    for record, launch_work in zip(records, launch_works, strict=True):
        key = (
            record["module"],
            record["kernel"],
            *record["grid"],
            *record["block"],
            record["shared"],
        )
        groups[key].append(launch_work)
    merged_works = [
        merged(group) | {"kernel": group[0]["kernel"], "launches": len(group)}
        for group in groups.values()
    ]
    return estimated(merged_works, kind, gpu)
