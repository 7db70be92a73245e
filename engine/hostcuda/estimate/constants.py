"""Simulate a multiprocessor's constant cache on the requests that warps have made.

The first level has 2 KB in lines of 64 bytes (Jia et al., "Dissecting the NVIDIA Volta GPU Architecture via
Microbenchmarking", 2018, table 3.1). The warps of a multiprocessor share it. They are at different places of the
kernel, so a table that is larger than the cache is loaded again and again.

Which lines displace each other, and how warps take turns, is not documented. `_LINES`, `_BURST` and `_OLDER` were
chosen by comparison with the misses that Nsight Compute counted on an H200 (`data/counters` of the lab, 150 kernels):
with them a request costs as much as with the counted misses, to 0.5 % in the median and 3 % on average.

"""

from __future__ import annotations

import random
from collections.abc import Sequence

_LINES = 24  # of a cache in which any line can displace any other
_BURST = 2  # loads that a warp makes before another runs, together with the requests that belong to them
_OLDER = 4  # the next warp to run is the oldest of this many, drawn at random
_TURNS = 40_000  # simulated bursts, at most; the first third fills the cache


def miss_rate(traces: Sequence[Sequence[Sequence[int]]], warps: int, blocks: int, per_load: float = 1.0) -> float:
    """Return the share of the requests whose line is not in the cache.

    The warps of a block begin together and drift apart. When the last has ended, another block takes their place.
    `traces` are `hostcuda.check.records.LaunchRecord.constant_traces`, `warps` is the number of warps per block, and
    `blocks` the number of blocks that are resident on a multiprocessor. `per_load` is the number of a warp's requests
    per load from global or shared memory, for which it waits.
    """
    burst = max(_BURST, round(_BURST * per_load))
    bursts = [groups for groups in (_split_bursts(trace, burst) for trace in traces) if groups]
    if not bursts:
        return 0.0
    draw = random.Random(1)
    running = [draw.choice(bursts) for _ in range(blocks)]
    positions = [[draw.randrange(len(own))] * warps for own in running]  # blocks have begun at different times
    cache: dict[int, None] = {}  # in the order in which the lines were loaded
    requests = misses = 0
    turns = min(3 * max(map(len, bursts)) * blocks * warps, _TURNS)
    for turn in range(turns):
        block = draw.randrange(blocks)
        warp = min(draw.randrange(warps) for _ in range(_OLDER))
        own, position = running[block], positions[block][warp]
        if position == len(own):
            if min(positions[block]) == len(own):
                running[block], positions[block] = draw.choice(bursts), [0] * warps
            continue
        if not own[position] and min(positions[block]) < position:  # a barrier that others have not reached
            continue
        positions[block][warp] += 1
        counted = 3 * turn >= turns
        for line, times in own[position]:
            requests += times * counted
            if line not in cache:
                misses += counted
                cache[line] = None
                if len(cache) > _LINES:
                    del cache[next(iter(cache))]
    return misses / requests if requests else 0.0


def _split_bursts(trace: Sequence[Sequence[int]], most: int) -> list[list[tuple[int, int]]]:
    """Split a warp's requests into groups of at most `most`: (line, how often); a barrier is an empty group."""
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
                taken = min(times, left)
                bursts[-1].append((line, taken))
                times, left = times - taken, left - taken
    return bursts
