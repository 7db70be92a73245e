"""Name the unit of a GPU that a kernel keeps busiest, from what the CPU engine counts. No GPU is needed.

All units of a GPU work at the same time, and a kernel cannot end before its busiest unit has done
its share: a roofline (Williams, Waterman and Patterson, CACM 52(4), 2009) of all units instead of
two. Sectors, wavefronts and instructions compare only by the rates at which a GPU serves them,
which are in `CARDS`. From them follows which unit is busiest, and not how long the kernel takes:
kernels whose warps mostly wait keep no unit busy.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from hostcuda.check.instrument import FLOW, WORK
from hostcuda.errors import EngineError
from hostcuda.limits import SECTOR
from hostcuda.runtime.elf import Elf
from hostcuda.tables import HTML, table

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["CARDS", "Card", "Units", "card", "compute_cycles", "merge", "units", "works"]

NEAR = 0.9  # of the busiest unit: a unit that is busier than this may be the busiest on a card
# Of a multiprocessor: instructions of warps per cycle, one by each of its four partitions, and
# cycles per request of the constant cache (Nsight Compute's idc__request_cycles_active over
# idc__requests, recorded on an H200).
_ISSUED_PER_CYCLE, _CONSTANT_CYCLES = 4, 2
_FMA, _MULTIPLY, _ADD, _DOUBLE = map([*WORK].index, ("fma", "multiply", "add", "double"))
_KINDS = {"integer": "integer", "branch": "branches", "divide": "divisions"}


@dataclass(frozen=True)
class Card:
    """A GPU with the rates of its units."""

    name: str
    multiprocessors: int
    clock_ghz: float
    dram_tb_s: float
    l2_tb_s: float
    tags: float  # 128-byte lines that an L1 cache looks up per cycle
    # How many instructions of the GPU stand for one of the host's compiler, by its kind.
    instructions: Mapping[str, float]

    @property
    def bytes_per_cycle(self) -> float:
        """The factor that turns a rate of the whole GPU in TB/s into bytes per cycle and multiprocessor."""
        # 1 TB/s is 1e3 bytes per ns, and a ns has clock_ghz cycles
        return 1e3 / (self.clock_ghz * self.multiprocessors)


CARDS = (
    Card(
        "NVIDIA H200",
        multiprocessors=132,  # as the driver reports it
        clock_ghz=1.98,  # the highest, as the driver reports it
        dram_tb_s=4.8,  # NVIDIA H200 data sheet
        l2_tb_s=5.5,  # in none; of the order that others have measured on an H100
        tags=2.3,  # in none; fitted to the convolution lab's recorded times of rungs 01 to 09
        instructions={
            "arithmetic": 1.0,  # the same in both; a multiplication and an addition are one
            "memory_instructions": 1.0,  # the same in both, if nvcc joins none
            "divisions": 20.0,  # what nvcc makes of a division of integers
            # Fitted to Nsight Compute's smsp__inst_executed of the lab's kernels: nvcc computes
            # addresses in fewer instructions, and a jump stands for what a loop costs.
            "integer": 0.2,
            "branches": 5.3,
        },
    ),
)


def card(name: str) -> Card:
    """Return the card whose name contains `name`, such as "H200"; EngineError if there is none, or several."""
    matches = [known for known in CARDS if name and name.lower() in known.name.lower()]
    if len(matches) != 1:
        known_names = ", ".join(known.name for known in CARDS)
        raise EngineError(
            f"no rates of {name!r}: the busiest unit is known for {known_names}. Name one of these"
        )
    return matches[0]


def compute_cycles(work: Mapping[str, float], card: Card) -> dict[str, float]:
    """Map the name of each unit ("DRAM", "L1 tags") to the cycles that it needs to serve a launch.

    `work` is an item of `works`. The cycles are summed over all blocks, as if one multiprocessor ran
    them, so only their quotients mean something: the unit with the largest number is the busiest.
    """
    # bytes per cycle and multiprocessor, of a rate of 1 TB/s of the whole GPU
    scale = card.bytes_per_cycle
    # `card.instructions`: kind, such as "integer" -> instructions of this GPU per counted one
    issued = sum(number * work[kind] for kind, number in card.instructions.items())
    return {
        "DRAM": work["unique_bytes"] / (card.dram_tb_s * scale),  # [bytes] / [bytes per cycle]
        "L2 reads": SECTOR * work["loaded_sectors"] / (card.l2_tb_s * scale),
        "L2 writes": SECTOR * work["stored_sectors"] / (card.l2_tb_s * scale),
        "L1 tags": work["global_lines"] / card.tags,  # lines that are looked up per cycle
        "L1 data pipe": work["shared_wavefronts"] + work["global_passes"],  # a cycle for each
        "constant cache": _CONSTANT_CYCLES * work["constant_requests"],
        "instruction issue": issued / _ISSUED_PER_CYCLE,
    }


def works(records: Iterable[Mapping]) -> list[dict]:
    """Compute what each launch asks of the units of a GPU.

    Parameters
    ----------
    records : iterable of mapping
        The CPU engine's records of launches, with the tool ``profile``, as
        `hostcuda.profile.recorded` returns them.

    Returns
    -------
    list of dict
        One per launch: ``kernel``; ``why_none``, why no unit is named, or empty; and totals.
        Of global memory these are ``unique_bytes`` (each counted once), ``loaded_sectors`` (new to
        their block), ``stored_sectors``, and, over all requests, ``global_lines`` of 128 bytes and
        ``global_passes`` over 32 banks. Of other memory: ``shared_wavefronts`` (less those that
        nvcc is expected to join) and ``constant_requests``, one per word. Of the instructions of
        warps they are ``memory_instructions``, ``arithmetic``, ``integer``, ``branches`` and
        ``divisions``; ``matrices`` are the operations on matrices.
    """
    rows = []
    known = {}  # record without its number -> its row: a program may make the same launch a thousand times
    for record in records:
        names = "module", "kernel", "grid", "block", "error", "matrices", "sites", "plays"
        key = json.dumps([record[name] for name in names])
        if key not in known:
            known[key] = _compute_work(record, _read_flow(record["module"]))
        rows.append(known[key])
    return rows


@cache
def _read_flow(module: str) -> list[dict]:
    """Return the blocks of a compiled file's code, which its section `FLOW` lists; see `_count_instructions`.

    The list is empty off x86-64, for a program of several files, and if the file is gone.
    """
    # gone is a second copy of a module, which a process makes to load it twice
    return json.loads(Elf(module).content(FLOW) or "[]") if Path(module).is_file() else []


def _compute_work(record: Mapping, flow: Sequence[Mapping]) -> dict:
    """Return the item of `works` for a record; `flow` lists the blocks of its module's code."""
    # (space, operation) to sums over the lines of the source
    sites: dict = defaultdict(lambda: defaultdict(float))
    # {"file": "a.cu", "line": 3, "space": "global", "op": "ld", "size": 4, ...}
    for site in record["sites"]:
        for name, value in site.items():
            if isinstance(value, int):
                sites[site["space"], site["op"]][name] += value
    loads, stores = sites["global", "ld"], sites["global", "st"]
    shared_wavefronts = sum(sites["shared", op]["wavefronts"] for op in ("ld", "st", "atom"))
    requests = sum(own["requests"] for (space, _), own in sites.items() if space != "local")
    return {
        "kernel": record["kernel"],
        "why_none": _explain_none(record, flow),
        "unique_bytes": record["counts"].get("lab__unique_bytes_global.sum", 0),
        "loaded_sectors": loads["loaded"],
        "stored_sectors": stores["sectors"],
        "global_lines": loads["lines"] + stores["lines"],
        "global_passes": loads["passes"] + stores["passes"],
        "shared_wavefronts": shared_wavefronts - _count_joined(record),
        "constant_requests": sites["constant", "ld"]["wavefronts"],
        "memory_instructions": requests,
        "matrices": record["matrices"],
        **_count_instructions(record, flow),
    }


def _explain_none(record: Mapping, flow: Sequence[Mapping]) -> str:
    """Return why no unit is named for a launch, as a clause; "" if one is."""
    if record["error"]:
        return f"the launch was abandoned: {record['error']}"
    if record["matrices"]:
        return "products of matrices are not in the counts of instructions"
    if not flow:
        return "instructions are counted only on x86-64, and only in a program of one file"
    return ""


def _count_joined(record: Mapping) -> float:
    """Return how many wavefronts of shared memory nvcc is expected to save by joining loads into wider ones.

    nvcc joins loads of neighbouring words into one load of 16 bytes, which takes two wavefronts. So
    16 / size wavefronts become 2, and each load saves 1 - size / 8 wavefronts. Only requests of one or
    two addresses (``broadcast``) are joined: others may not be aligned.
    """
    loads = [site for site in record["sites"] if (site["space"], site["op"]) == ("shared", "ld")]
    return sum(site["broadcast"] * max(0.0, 1 - site["size"] / 8) for site in loads)


def _count_instructions(record: Mapping, flow: Sequence[Mapping]) -> dict[str, float]:
    """Count the instructions of the host's compiler by kind, all warps together.

    A block of `flow` is ``{"pieces": [3], "next": [1, 2], "work": {"a.cu:12": [2, 0, 1, 0, 1, 0,
    3]}}``: a number per kind of `WORK`, by line of the source.
    """
    counts = {"arithmetic": 0.0, **dict.fromkeys(_KINDS.values(), 0.0)}
    for block, times in zip(flow, count_executions(record, flow), strict=True):
        for amounts in block["work"].values():
            counts["arithmetic"] += times * count_operations(amounts)
            for kind, amount in zip(WORK, amounts, strict=True):
                if kind in _KINDS:
                    counts[_KINDS[kind]] += times * amount
    return counts


def count_operations(work: Sequence[float]) -> float:
    """Return the number of floating-point operations in `work`, a number per kind of `WORK`.

    A multiplication and an addition count as one operation: nvcc would join them into an FMA.
    """
    return work[_FMA] + max(work[_MULTIPLY], work[_ADD]) + work[_DOUBLE]


def count_executions(record: Mapping, flow: Sequence[Mapping]) -> list[float]:
    """Return how often the warps of a launch executed each basic block of its code, in the order of `flow`.

    `flow` is what `_read_flow` returns for the launch's module: a dict per basic block, with its pieces and
    with the blocks that may be next. A number that is not known is 0.
    """
    # the number of a *piece*, a group of accesses in a block -> how often warps executed it
    plays = dict(record["plays"])
    # A block runs as often as the most frequent of its pieces. None: a block without a piece; its number
    # may follow from the blocks before it.
    times = [
        max((plays.get(piece, 0) for piece in block["pieces"]), default=None) for block in flow
    ]
    before: list[list[int]] = [[] for _ in flow]  # the blocks from which each one is reached
    for i, block in enumerate(flow):
        for target in block["next"]:
            before[target].append(i)
    # A block without accesses runs as often as all those that lead to it together. Chains of such
    # blocks may need several rounds.
    for _ in range(5):
        for i, count in enumerate(times):
            if (
                count is None
                and before[i]
                and all(times[source] is not None for source in before[i])
            ):
                times[i] = sum(times[source] for source in before[i])
    return [count or 0 for count in times]


def merge(launch_works: Sequence[Mapping]) -> dict:
    """Add up the work of several launches of a kernel, items of `works`; return one such item.

    Its ``launches`` is their number, and its texts are those of the first.
    """
    return {
        **{
            name: value if isinstance(value, str) else sum(work[name] for work in launch_works)
            for name, value in launch_works[0].items()
        },
        # an item of `works` is one launch
        "launches": sum(work.get("launches", 1) for work in launch_works),
    }


@dataclass(repr=False)
class Units:
    """How busy each kernel keeps the units of a GPU.

    Attributes
    ----------
    card : Card
    table : DataFrame
        A row per kernel: ``kernel``, ``launches``, ``busiest`` (the names of the busiest unit and
        of those within 10 % of it, the busiest first, separated by commas), ``why_none`` (why none
        is named, or empty), and a column per unit: per cent of the busiest one, or NaN.
    """

    card: Card
    table: pd.DataFrame

    @classmethod
    def from_works(cls, kernel_works: Iterable[Mapping], card: Card) -> Units:
        """Make the table of units from the work of each kernel, which `merge` returns."""
        import pandas as pd  # loads slowly, and each kernel that runs in a process of its own imports this module

        return cls(card, pd.DataFrame([describe_kernel(work, card) for work in kernel_works]))

    @property
    def shares(self) -> pd.DataFrame:
        """How busy each unit is, in per cent of the busiest: a row per kernel, a column per unit."""
        return self.table.set_index("kernel").drop(columns=["launches", "busiest", "why_none"])

    @property
    def note(self) -> str:
        """A sentence that says what the units were computed from."""
        return f"Per cent of the busiest unit, by the counts and the rates of the {self.card.name}."

    def __str__(self) -> str:
        texts = [
            row.busiest or f"none is named, because {row.why_none}"
            for row in self.table.itertuples()
        ]
        if len(texts) == 1:
            return f"Busiest: {texts[0]}"
        kernels = zip(self.table["kernel"], texts, strict=True)
        return f"Busiest: {'; '.join(f'{kernel}: {text}' for kernel, text in kernels)}"

    def __repr__(self) -> str:
        return f"{self}. {self.note}"

    def summary(self) -> HTML:
        """Return the table of how busy each unit is, a row per kernel, for a page or a terminal."""
        rows = self.table.copy()
        rows.attrs["note"] = self.note  # `table` shows it under the caption
        for name in self.shares:
            # NaN: no unit is named for this kernel
            rows[name] = ["" if math.isnan(share) else f"{share:.0f}" for share in rows[name]]
        if not rows["why_none"].any():
            rows = rows.drop(columns="why_none")
        headings = {name: "why none is named" if name == "why_none" else name for name in rows}
        return table(rows, "How busy each unit is", headings)


def describe_kernel(work: Mapping, card: Card) -> dict:
    """Return a row of `Units.table`: how busy a kernel keeps each unit of a card, in per cent of the busiest unit.

    `work` is what `merge` returns for the kernel. Units that are nearly as busy are named, too.
    """
    cycles = compute_cycles(work, card)
    most = max(cycles.values())
    if work["why_none"] or not most:
        most = math.nan  # then all shares are NaN, and no unit is named
    shares = {name: 100 * value / most for name, value in cycles.items()}
    # `NEAR`: a part of the busiest unit
    near = [name for name, share in shares.items() if share >= 100 * NEAR]
    return {
        "kernel": work["kernel"],
        "launches": work.get("launches", 1),
        "busiest": ", ".join(sorted(near, key=shares.__getitem__, reverse=True)),
        "why_none": work["why_none"] or ("" if near else "nothing was counted"),
        **shares,
    }


def units(records: Sequence[Mapping], device: str = "H200") -> Units:
    """Name the busiest unit of a GPU for each kernel and launch geometry: its memory, a cache, or another one.

    Parameters
    ----------
    records : sequence of mapping
        As `works` takes them.
    device : str
        A part of a card's name: one of `CARDS`.

    Raises
    ------
    EngineError
        The card is not known, or there are no launches.
    """
    gpu = card(device)
    if not records:
        raise EngineError("no kernel was launched, so no unit is busy")
    groups = defaultdict(list)
    for record, work in zip(records, works(records), strict=True):
        key = (record["module"], record["kernel"], *record["grid"], *record["block"])
        # launches for which no unit is named get rows of their own
        groups[key, work["why_none"]].append(work)
    return Units.from_works(map(merge, groups.values()), gpu)
