"""A multiprocessor's constant cache, simulated on what warps have asked for.

The first level has 2 KB in lines of 64 bytes (Jia et al., "Dissecting the NVIDIA Volta GPU Architecture via
Microbenchmarking", 2018, table 3.1). The warps of a multiprocessor share it. Each is at another place of the kernel,
so a table that is larger than the cache is loaded again and again.

Which lines displace each other, and how warps take turns, is not documented. `_LINES`, `_BURST` and `_OLDER` were
chosen by comparison with the misses that Nsight Compute counted on an H200 (`data/counters` of the lab, 150 kernels):
with them a request costs as much as with the counted misses, to 0.5 % in the median and 3 % on average. """

from __future__ import annotations

import random
from collections.abc import Sequence

_LINES = 24  # of a cache in which any line can displace any other
_BURST = 2  # loads that a warp makes before another runs, with the requests that go with each
_OLDER = 4  # the warp that runs next is the oldest of so many, chosen at random
_TURNS = 40_000  # simulated bursts, at most; the first third fills the cache


def miss_rate(traces: Sequence[Sequence[Sequence[int]]], warps: int, blocks: int, per_load: float = 1.0) -> float:
    """The share of the requests whose line is not in the cache.

    The warps of a block begin together, and drift apart. When the last one has ended, another block takes their place.
    `traces` are those of `hostcuda.check.records.LaunchRecord.constant_traces`, `warps` those of a block, `blocks` are
    resident on a multiprocessor; `per_load` are the requests of a warp per load from global or shared memory: it waits
    for loads.
    """
    burst = max(_BURST, round(_BURST * per_load))
    bursts = [found for found in (_bursts(trace, burst) for trace in traces) if found]
    if not bursts:
        return 0.0
    draw = random.Random(1)
    running = [draw.choice(bursts) for _ in range(blocks)]
    at = [[draw.randrange(len(mine))] * warps for mine in running]  # blocks have begun at different times
    cache: dict[int, None] = {}  # in the order in which lines have come
    requests = misses = 0
    turns = min(3 * max(map(len, bursts)) * blocks * warps, _TURNS)
    for turn in range(turns):
        block = draw.randrange(blocks)
        warp = min(draw.randrange(warps) for _ in range(_OLDER))
        mine, place = running[block], at[block][warp]
        if place == len(mine):
            if min(at[block]) == len(mine):
                running[block], at[block] = draw.choice(bursts), [0] * warps
            continue
        if not mine[place] and min(at[block]) < place:  # a barrier that others have not reached
            continue
        at[block][warp] += 1
        counted = 3 * turn >= turns
        for line, times in mine[place]:
            requests += times * counted
            if line not in cache:
                misses += counted
                cache[line] = None
                if len(cache) > _LINES:
                    del cache[next(iter(cache))]
    return misses / requests if requests else 0.0


def _bursts(trace: Sequence[Sequence[int]], most: int) -> list[list[tuple[int, int]]]:
    """A warp's requests in groups of so many: (line, how often); a barrier is an empty group."""
    bursts, left = [], 0
    for piece in trace:
        if piece == [0, 0]:
            bursts.append([])
            left = 0
            continue
        for line, times in zip(piece[::2], piece[1::2], strict=True):
            while times:
                if not left:
                    bursts.append([])
                    left = most
                now = min(times, left)
                bursts[-1].append((line, now))
                times, left = times - now, left - now
    return bursts
