"""Simulate a multiprocessor's constant cache on the requests that warps have made.

The first level has 2 KB in lines of 64 bytes (Jia et al., "Dissecting the NVIDIA Volta GPU
Architecture via Microbenchmarking", 2018, table 3.1). The warps of a multiprocessor share it. They
are at different places of the kernel, so a table that is larger than the cache is loaded again and
again.

Which lines displace each other, and how warps take turns, is not documented. `_LINES`, `_BURST` and
`_OLDER` were chosen by comparison with the misses that Nsight Compute counted on an H200
(`data/counters` of the lab, 150 kernels): with them a request costs as much as with the counted
misses, to 0.5 % in the median and 3 % on average.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

_LINES = 24  # of a cache in which any line can displace any other
_BURST = (
    2  # loads that a warp makes before another runs, together with the requests that belong to them
)
_OLDER = 4  # the next warp to run is the oldest of this many, drawn at random
_TURNS = 40_000  # simulated bursts, at most; the first third fills the cache


def miss_rate(
    traces: Sequence[Sequence[Sequence[int]]], warps: int, blocks: int, per_load: float = 1.0
) -> float:
    """Simulate the constant cache on `traces` and return the share of the requests that miss it, 0 to 1.

    Each trace lists one warp's requests, as `_split_bursts` reads them. `blocks` are resident on
    the multiprocessor, each of `warps` warps that replay one trace, drawn at random. They begin
    together and drift apart; when the last has ended, a new block takes their place. A warp makes
    `per_load` constant requests per load that it waits for.
    """
    burst = max(_BURST, round(_BURST * per_load))
    bursts = [groups for groups in (_split_bursts(trace, burst) for trace in traces) if groups]
    if not bursts:
        return 0.0
    draw = random.Random(1)
    running = [draw.choice(bursts) for _ in range(blocks)]
    # blocks have begun at different times
    positions = [[draw.randrange(len(groups))] * warps for groups in running]
    cache: dict[
        int, None
    ] = {}  # in the order in which the lines were loaded: the first is displaced first
    requests = misses = 0
    turns = min(3 * max(map(len, bursts)) * blocks * warps, _TURNS)
    for turn in range(turns):
        block = draw.randrange(blocks)
        # older warps, which have lower indices, run first
        warp = min(draw.randrange(warps) for _ in range(_OLDER))
        groups, position = running[block], positions[block][warp]
        if position == len(groups):  # this warp has ended
            # and so have the others of its block: a new one begins
            if min(positions[block]) == len(groups):
                running[block], positions[block] = draw.choice(bursts), [0] * warps
            continue
        # a barrier that other warps have not reached
        if not groups[position] and min(positions[block]) < position:
            continue
        positions[block][warp] += 1
        counted = 3 * turn >= turns  # not the first third of the turns, which fill the cache
        for line, times in groups[position]:
            requests += times * counted
            if line not in cache:
                misses += counted
                cache[line] = None
                if len(cache) > _LINES:
                    del cache[next(iter(cache))]
    return misses / requests if requests else 0.0


def _split_bursts(trace: Sequence[Sequence[int]], most: int) -> list[list[tuple[int, int]]]:
    """Split a warp's requests into groups of (cache line, number of requests), at most `most` requests in a group.

    `trace` is a list of pieces ``[line, requests, line, requests, ...]``. A barrier, ``[0, 0]``,
    gives an empty group.
    """
    bursts, left = [], 0  # `left`: for how many requests the last group has room
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
