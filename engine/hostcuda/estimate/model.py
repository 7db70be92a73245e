"""The time of a launch from the work of its units: the busiest unit's time, the last wave of blocks, and the launch
itself.

Every unit of the GPU works at the same time as the others. So a kernel takes at least as long as its busiest unit
needs for its share of the work: a roofline (Williams, Waterman and Patterson, CACM 52(4), 2009) of all units in place
of two. """

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
PARTITIONS = 4  # of a multiprocessor: each issues one instruction per cycle
# Instructions of warps per cycle of a multiprocessor, from its lanes: CUDA C++ Programming Guide, "Arithmetic
# Instructions" (compute capability 9.0: results per cycle of a multiprocessor, divided by the 32 lanes of a warp).
# Tensor cores: NVIDIA H100 white paper, 2048 multiplications and additions per cycle; one m16n8k16 has as many.
RATES = {"fma": 4.0, "half": 4.0, "imad": 2.0, "alu": 2.0, "fp64": 2.0, "xu": 0.5, "tensor": 1.0}
WARPS = MULTIPROCESSOR["sm_90"]["warps"]
_CONSTANT_CYCLES = 2.0  # of the constant cache, per request: Nsight Compute's request cycles over its requests


@dataclass(frozen=True)
class Card:
    """A GPU, with the rates that were fitted to times recorded on it."""

    name: str  # "NVIDIA H200"
    arch: str  # "sm_90"
    multiprocessors: int
    clock_ghz: float
    dram_tb_s: float  # this and the next two: measured bandwidths
    l2_read_tb_s: float
    l2_write_tb_s: float  # of whole sectors; a sector that is written in part takes up to twice as long
    pipes: float  # the share of its peak that a busy pipe reaches
    issue: float  # and of the issue slots
    tags: float  # lines that the L1 cache looks up per cycle of a multiprocessor
    miss_cycles: float  # what a miss in the constant cache adds to a request
    misses_apart: float  # how many cycles apart misses are at least
    launch_ms: float  # of an empty kernel
    # without machine code: a GPU's instructions per instruction of each kind in the host's code
    coarse: Mapping[str, float]
    # "fine" and "coarse": the quotients of recorded and estimated time between which 8 of 10 were
    intervals: Mapping[str, tuple[float, float]]

    @property
    def cycles(self) -> float:
        """Cycles of all multiprocessors together in a millisecond."""
        return self.multiprocessors * self.clock_ghz * 1e6


@cache
def cards() -> dict[str, Card]:
    """The cards with fitted rates, by their names."""
    with open(CARDS, "rb") as file:
        return {each["name"]: Card(**each) for each in tomllib.load(file)["card"]}


def card(name: str) -> Card:
    """The card whose name contains this one: "H200".

    Raises
    ------
    EngineError
        There is none: no times of it were recorded.
    """
    found = [each for each in cards().values() if name.lower() in each.name.lower()]
    if len(found) != 1:
        raise EngineError(f"no estimate for {name!r}: times were recorded on {', '.join(cards())}")
    return found[0]


def units(work: Mapping[str, float], of: Card) -> dict[str, float]:
    """The time that each unit of a card needs for a launch [ms], whose work is as `hostcuda.estimate.work.work` gives
    it.
    """
    cycles = of.cycles

    def known(name):
        """As the machine code has it; without that, as the source."""
        return work.get(f"{CODE}{name}", work.get(name, 0.0))

    requests = known("constant_requests")
    misses = requests * known("constant_misses")
    of_operands = known("operands") * known("constant_misses")
    found = {
        "DRAM": work["unique_bytes"] / (of.dram_tb_s * 1e9),
        "L2 reads": work["loaded_sectors"] * SECTOR / (of.l2_read_tb_s * 1e9),
        "L2 writes": work["stored_sectors"] * (2 - _fill(work)) * SECTOR / (of.l2_write_tb_s * 1e9),
        "L1 tags": work["global_lines"] / (cycles * of.tags),
        "L1 data pipe": (known("shared_wavefronts") + work["global_passes"]) / (cycles * of.pipes),
        "constant cache": max(
            (_CONSTANT_CYCLES * requests + of.miss_cycles * misses) / (cycles * of.pipes),
            of.misses_apart * (misses + of_operands) / cycles,
        ),
    }
    if f"{CODE}instructions" not in work:
        issued = sum(of.coarse[kind] * work[kind] for kind in of.coarse)
        found["instruction issue"] = issued / (cycles * PARTITIONS * of.issue)
        return found
    queue = sum(known(pipe) for pipe in ("global", "local", "shared", "constant", "mio"))
    fma = max((known("fma") + known("half") + known("imad")) / RATES["fma"], known("imad") / RATES["imad"])
    return found | {
        "instruction issue": known("instructions") / (cycles * PARTITIONS * of.issue),
        "memory instructions": queue / cycles,  # one per cycle
        "FMA pipe": fma / cycles,
        "integer pipe": known("alu") / (RATES["alu"] * cycles),
        "FP64 pipe": known("fp64") / (RATES["fp64"] * cycles),
        "slow functions": known("xu") / (RATES["xu"] * cycles),
        "tensor cores": known("tensor") / (RATES["tensor"] * cycles),
        "latency": _latency(work, of),
    }


def _fill(work: Mapping[str, float]) -> float:
    """The share of the stored sectors' bytes that are written."""
    return min(1.0, work["stored_bytes"] / (SECTOR * work["stored_sectors"])) if work["stored_sectors"] else 1.0


def _latency(work: Mapping[str, float], of: Card) -> float:
    """The warps take turns on as many places as a multiprocessor has for them; each waits for its own instructions."""
    far = min(1.0, work["loaded_sectors"] / 4 / max(work["global_passes"], 1.0))  # loads that wait for the L2 cache
    near = work[f"{CODE}warp_cycles"]
    cycles = near + far * (work[f"{CODE}warp_cycles_l2"] - near)
    there = work["blocks"] * work["block_warps"] / of.multiprocessors / launches(work)
    return work["warps"] * cycles / (max(1.0, min(_places(work) * work["block_warps"], there)) * of.cycles)


def _places(work: Mapping[str, float]) -> float:
    """The blocks that are resident on a multiprocessor."""
    return max(1.0, work.get(f"{CODE}occupancy", 1.0) * WARPS // work["block_warps"])


def launches(work: Mapping[str, float]) -> float:
    """How many launches the work is of."""
    return max(work.get("launches", 1.0), 1.0)


def time_ms(work: Mapping[str, float], of: Card) -> float:
    """The estimated time of a launch, or of several equal ones [ms]."""
    busy = max(units(work, of).values())
    waves = work["blocks"] / launches(work) / (_places(work) * of.multiprocessors)
    # The last wave is half full on average.
    return busy * (1 + 0.5 / waves if waves > 1 else 1.0) + launches(work) * of.launch_ms
