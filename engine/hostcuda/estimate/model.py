"""Estimate a launch's time from its work: the busiest unit's time, the last wave of blocks, and the launch itself.

All units of the GPU work at the same time. So a kernel takes at least as long as its busiest unit
needs for its share of the work: a roofline (Williams, Waterman and Patterson, CACM 52(4), 2009) of
all units instead of two.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from hostcuda.errors import EngineError
from hostcuda.estimate.work import CODE
from hostcuda.limits import MULTIPROCESSOR, SECTOR

CARDS = Path(__file__).with_name("cards.toml")
PARTITIONS = 4  # of a multiprocessor; a partition issues one instruction per cycle
# Instructions of warps per cycle of a multiprocessor, from its lanes: CUDA C++ Programming Guide,
# "Arithmetic Instructions" (compute capability 9.0: results per cycle of a multiprocessor, divided
# by the 32 lanes of a warp). Tensor cores: NVIDIA H100 white paper, 2048 multiplications and
# additions per cycle; one m16n8k16 has as many.
RATES = {"fma": 4.0, "half": 4.0, "imad": 2.0, "alu": 2.0, "fp64": 2.0, "xu": 0.5, "tensor": 1.0}
WARPS = MULTIPROCESSOR["sm_90"]["warps"]
_CONSTANT_CYCLES = (
    2.0  # of the constant cache, per request: Nsight Compute's request cycles over its requests
)


@dataclass(frozen=True)
class Card:
    """A GPU, with the rates that were fitted to times recorded on it."""

    name: str  # "NVIDIA H200"
    arch: str  # "sm_90"
    multiprocessors: int
    clock_ghz: float
    dram_tb_s: float  # this and the next two: measured bandwidths
    l2_read_tb_s: float
    l2_write_tb_s: (
        float  # of whole sectors; a sector that is written in part takes up to twice as long
    )
    pipes: float  # the share of its peak rate that a busy pipe reaches
    issue: float  # the share of the issue slots that a busy kernel uses
    tags: float  # lines that the L1 cache looks up per cycle of a multiprocessor
    miss_cycles: float  # what a miss in the constant cache adds to a request
    misses_apart: float  # the least number of cycles between two misses
    launch_ms: float  # of an empty kernel
    # Without machine code: how many instructions of a GPU stand for one of the host's, by its kind.
    coarse: Mapping[str, float]
    # By busiest unit: the interval that holds 9 of 10 quotients of recorded and estimated time. A
    # kernel with another busiest unit gets no time.
    intervals: Mapping[str, tuple[float, float]]

    @property
    def cycles(self) -> float:
        """Cycles of all multiprocessors together in a millisecond."""
        return self.multiprocessors * self.clock_ghz * 1e6


@cache
def cards() -> dict[str, Card]:
    """Return the cards that have fitted rates, by name."""
    with open(CARDS, "rb") as file:
        return {entry["name"]: Card(**entry) for entry in tomllib.load(file)["card"]}


def card(name: str) -> Card:
    """Return the card whose name contains `name`, such as "H200".

    Raises EngineError if no card has such a name, or several have: only cards with recorded times
    are known.
    """
    matches = [
        known_card
        for known_card in cards().values()
        if name and name.lower() in known_card.name.lower()
    ]
    if len(matches) != 1:
        raise EngineError(f"no estimate for {name!r}: times were recorded on {', '.join(cards())}")
    return matches[0]


def unit_times(work: Mapping[str, float], gpu: Card) -> dict[str, float]:
    """Return the time [ms] that each unit of a GPU works for a launch; for its totals, see `hostcuda.estimate.work`."""
    cycles = gpu.cycles  # per millisecond, of all multiprocessors

    def figure(name):
        """Return a total of the machine code, which is more exact, or else the one of the source, or 0."""
        return work.get(f"{CODE}{name}", work.get(name, 0.0))

    requests = figure("constant_requests")
    misses = requests * figure("constant_misses")
    operand_misses = figure("operands") * figure("constant_misses")
    stored = SECTOR * work["stored_sectors"]  # bytes
    # share of the stored sectors
    written = min(1.0, work["stored_bytes"] / stored) if stored else 1.0
    times = {  # 1 TB/s is 1e9 bytes per millisecond
        "DRAM": work["unique_bytes"] / (gpu.dram_tb_s * 1e9),
        "L2 reads": work["loaded_sectors"] * SECTOR / (gpu.l2_read_tb_s * 1e9),
        "L2 writes": (2 - written)
        * stored
        / (gpu.l2_write_tb_s * 1e9),  # a sector written in part takes up to twice
        "L1 tags": work["global_lines"] / (cycles * gpu.tags),
        "L1 data pipe": (figure("shared_wavefronts") + work["global_passes"])
        / (cycles * gpu.pipes),
        "constant cache": max(
            (_CONSTANT_CYCLES * requests + gpu.miss_cycles * misses) / (cycles * gpu.pipes),
            gpu.misses_apart * (misses + operand_misses) / cycles,
        ),
    }
    # no machine code: the host's instructions, with the GPU's share of each kind
    if f"{CODE}instructions" not in work:
        issued = sum(gpu.coarse[kind] * work[kind] for kind in gpu.coarse)
        times["instruction issue"] = issued / (cycles * PARTITIONS * gpu.issue)
        return times
    # of memory instructions
    queue = sum(figure(pipe) for pipe in ("global", "local", "shared", "constant", "mio"))
    # Cycles: integer multiplications take the FMA pipe, too, which makes them at half its rate.
    fma = max(
        (figure("fma") + figure("half") + figure("imad")) / RATES["fma"],
        figure("imad") / RATES["imad"],
    )
    return times | {
        "instruction issue": figure("instructions") / (cycles * PARTITIONS * gpu.issue),
        "memory instructions": queue / cycles,  # one per cycle
        "FMA pipe": fma / cycles,
        "integer pipe": figure("alu") / (RATES["alu"] * cycles),
        "FP64 pipe": figure("fp64") / (RATES["fp64"] * cycles),
        "slow functions": figure("xu") / (RATES["xu"] * cycles),
        "tensor cores": figure("tensor") / (RATES["tensor"] * cycles),
        "latency": _compute_latency(work, gpu),
    }


def busiest_unit(work: Mapping[str, float], gpu: Card) -> str:
    """Return the name of the unit that needs the most time for a launch, such as "DRAM"."""
    times = unit_times(work, gpu)
    return max(times, key=times.__getitem__)


def interval_ms(work: Mapping[str, float], gpu: Card) -> tuple[float, float]:
    """Return the interval (low, high) of the time of a launch, or of several equal ones together [ms].

    `gpu.intervals` has two factors for each busiest unit. The low end leaves out the time of the
    launches themselves, which is hidden while an earlier kernel runs.
    """
    low, high = gpu.intervals[busiest_unit(work, gpu)]
    return low * (time_ms(work, gpu) - count_launches(work) * gpu.launch_ms), high * time_ms(
        work, gpu
    )


def _compute_latency(work: Mapping[str, float], gpu: Card) -> float:
    """Return how long [ms] a launch takes if each warp waits only for the results of its own instructions."""
    # of loads; 4 sectors per pass
    share_l2 = min(1.0, work["loaded_sectors"] / 4 / max(work["global_passes"], 1.0))
    cycles_l1 = work[f"{CODE}warp_cycles"]
    cycles = cycles_l1 + share_l2 * (work[f"{CODE}warp_cycles_l2"] - cycles_l1)
    blocks_at_once = min(
        _count_resident(work) * gpu.multiprocessors, work["blocks"] / count_launches(work)
    )
    # Cycles of a warp, times how often the card is filled with warps; GHz * 1e6 are cycles per
    # millisecond.
    return work["warps"] * cycles / (blocks_at_once * work["block_warps"]) / (gpu.clock_ghz * 1e6)


def filled_share(work: Mapping[str, float], gpu: Card) -> float:
    """Return the share of the GPU's places for resident warps that a launch fills, 0 to 1: few blocks fill little."""
    warps_per_multiprocessor = (
        work["blocks"] / count_launches(work) * work["block_warps"] / gpu.multiprocessors
    )
    return min(work.get(f"{CODE}occupancy", 1.0), warps_per_multiprocessor / WARPS)


def _count_resident(work: Mapping[str, float]) -> float:
    """Return how many blocks are resident on a multiprocessor at a time; without machine code, as if it were full."""
    return max(1.0, work.get(f"{CODE}occupancy", 1.0) * WARPS // work["block_warps"])


def count_launches(work: Mapping[str, float]) -> float:
    """Return how many launches the totals in `work` come from: at least 1."""
    return max(work.get("launches", 1.0), 1.0)


def time_ms(work: Mapping[str, float], gpu: Card) -> float:
    """Return the estimated time of a launch, or of several equal ones together [ms]."""
    busy = max(unit_times(work, gpu).values())
    waves = work["blocks"] / count_launches(work) / (_count_resident(work) * gpu.multiprocessors)
    # The last wave of blocks is half full on average, so half of its time is lost.
    return busy * (1 + 0.5 / waves if waves > 1 else 1.0) + count_launches(work) * gpu.launch_ms
