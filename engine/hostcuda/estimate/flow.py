"""How often warps execute each block of nvcc's machine code, from what the CPU engine has counted.

The two compilers unroll and order a kernel differently, so blocks cannot be matched one to one. But both know the
source's lines. A warp's requests to memory and its floating-point operations are the same in both, line by line, and
so is how often a loop is entered. These are linear equations in the executions of the machine code's blocks, together
with the conservation of flow: a block is executed as often as it is entered. They are solved by non-negative least
squares (Lawson and Hanson, Solving Least Squares Problems, 1974), weighted again in each round towards relative
errors. """

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath

import numpy as np

from hostcuda.check.instrument import WORK, components
from hostcuda.gpu.sass import USERS_CONSTANT, Block, Instruction
from hostcuda.limits import WARP

_FMA, _MULTIPLY, _ADD, _BRANCH = (list(WORK).index(kind) for kind in ("fma", "multiply", "add", "branch"))
# Of the equations: counts of the engine and the conservation of flow hold, the others are hints.
_EXACT, _ENTRY, _LOOP, _OUTERMOST, _CONSTANT, _UNLESS = 3, 10, 1, 0.3, 0.5, 0.02
_DIVERGES = 0.15  # a warp whose lanes diverge executes both ways
_ROUNDS = 7


@dataclass
class Line:
    """What warps do at a line of the source: by (space, operation), the bytes that their requests move per lane; and
    floating-point operations."""

    moved: dict
    arithmetic: float = 0.0


def operations(work: Sequence[float]) -> float:
    """The floating-point operations among amounts of `WORK`: a multiplication and an addition are one."""
    return work[_FMA] + max(work[_MULTIPLY], work[_ADD])


def lines(record: Mapping, flow: Sequence[Mapping], plays: Sequence[float]) -> dict[tuple[str, int], Line]:
    """The engine's counts of a launch by (file, line).

    `record` is a `hostcuda.check.records.LaunchRecord`, as a dict, `flow` the section `hostcuda.check.instrument.FLOW`
    of its module, `plays` the `executions` of its blocks.
    """
    found: dict = defaultdict(lambda: Line(defaultdict(float)))
    for site in record["sites"]:
        if site["line"]:
            line = found[PurePath(site["file"]).name, site["line"]]
            line.moved[site["space"], site["op"]] += site["requests"] * site["size"]
    for block, times in zip(flow, plays, strict=True):
        for place, work in block["work"].items():
            if times and place and (number := operations(work)):
                found[_place(place)].arithmetic += number * times
    return dict(found)


def _place(text: str) -> tuple[str, int]:
    file, _, line = text.rpartition(":")
    return file, int(line)


def executions(record: Mapping, flow: Sequence[Mapping]) -> list[float]:
    """How often warps have executed each block of the engine's code; 0 for blocks of which this is not known."""
    plays = dict(record["plays"])
    times = [max((plays.get(piece, 0) for piece in block["pieces"]), default=None) for block in flow]
    before = _before([block["next"] for block in flow])
    for _ in range(5):  # a block without a piece is one that the compiler has split off
        for i, known in enumerate(times):
            if known is None and before[i] and all(times[each] is not None for each in before[i]):
                times[i] = sum(times[each] for each in before[i])
    return [each or 0 for each in times]


def _before(following: Sequence[Sequence[int]]) -> list[list[int]]:
    """Of each node, those that lead to it."""
    before: list[list[int]] = [[] for _ in following]
    for node, those in enumerate(following):
        for to in those:
            before[to].append(node)
    return before


@dataclass
class Loop:
    """A loop of a control-flow graph: its blocks, the one that it is entered at, and those that jump back to it."""

    blocks: frozenset
    head: int
    latches: list


def loops(following: Sequence[Sequence[int]]) -> list[Loop]:
    """The loops of a graph, the outer ones first."""
    found, work = [], [(frozenset(range(len(following))), None)]
    before = _before(following)
    while work:
        nodes, cut = work.pop()
        edges = {node: [to for to in following[node] if to in nodes and to != cut] for node in sorted(nodes)}
        for part in map(frozenset, components(list(edges), edges.__getitem__)):
            if not any(to in part for node in part for to in edges[node]):  # one block, without a jump to itself
                continue
            entered = [node for node in sorted(part) if any(each not in part for each in before[node])]
            head = entered[0] if entered else min(part)
            found.append(Loop(part, head, [node for node in sorted(part) if head in following[node]]))
            if len(part) > 1:
                work.append((part, head))
    return found


@dataclass
class Trips:
    """Of the engine's loops: `back`, by the line of the jump back to a loop's head, how often the loop is entered;
    `inside`, by lines with arithmetic in one block only, (entries of its innermost loop, its executions, operations in
    the block)."""

    back: dict
    inside: dict


def trips(flow: Sequence[Mapping], times: Sequence[float]) -> Trips:
    """How often the engine's loops have been entered, and their blocks executed; `times` are the `executions`."""
    following = [block["next"] for block in flow]
    before = _before(following)
    back: dict = defaultdict(float)
    innermost: dict = {}
    for loop in loops(following):
        entries = sum(times[each] for each in before[loop.head] if each not in loop.blocks)
        innermost.update(dict.fromkeys(loop.blocks, entries))
        for latch in loop.latches:
            for place, work in flow[latch]["work"].items():
                if work[_BRANCH] and place:
                    back[_place(place)] += entries
    alone: dict = defaultdict(list)
    for i, block in enumerate(flow):
        for place, work in block["work"].items():
            if times[i] and place and innermost.get(i) and (number := operations(work)):
                alone[_place(place)].append((innermost[i], times[i], number))
    return Trips(dict(back), {place: rows[0] for place, rows in alone.items() if len(rows) == 1})


class _Equations:
    """Weighted linear equations. `scale` is the size of a row's numbers: a number, or a block, whose executions it
    is."""

    def __init__(self, unknowns: int):
        self.unknowns, self.rows = unknowns, []

    def more(self) -> int:
        """Another unknown."""
        self.unknowns += 1
        return self.unknowns - 1

    def add(
        self, terms: Iterable[tuple[int, float]], value: float, weight: float, scale: float, block: int | None = None
    ):
        self.rows.append((list(terms), value, weight, scale, block))

    def solve(self, blocks: int, after) -> np.ndarray:
        """The executions of the blocks; `after` may add rows after each round."""
        from scipy.optimize import nnls

        times, less = np.ones(blocks), np.ones(0)
        for turn in range(_ROUNDS):
            matrix, values = np.zeros((len(self.rows), self.unknowns)), np.zeros(len(self.rows))
            for i, (terms, value, weight, scale, block) in enumerate(self.rows):
                size = scale if block is None else max(times[block], 1e-2)
                factor = weight / size / (less[i] if i < len(less) else 1)
                for unknown, coefficient in terms:
                    matrix[i, unknown] += coefficient * factor
                values[i] = value * factor
            try:
                solution, _ = nnls(matrix, values, maxiter=20 * self.unknowns)
            except RuntimeError:  # it does not converge: keep the last round's
                break
            times = solution[:blocks]
            if turn:  # towards absolute residuals: a few equations may be far off, most hold
                left = np.abs(matrix @ solution - values)
                left[: len(less)] *= less[: len(left)]
                less = np.sqrt(np.clip(left / 0.05, 1, 1e3))
            after(times)
        return times


@dataclass
class Executions:
    """How often the warps of a launch execute each block of the machine code."""

    blocks: list[Block]
    times: np.ndarray  # for each block, by all warps together
    warps: int
    missed: float  # the share of the engine's requests and operations that `times` misses: how far to trust them


def place_of(each: Instruction, known: Mapping[tuple[str, int], Line]) -> tuple[str, int] | None:
    """The innermost place of an instruction that the engine knows."""
    return next((place for place in each.places if place in known), None)


def solve(blocks: list[Block], record: Mapping, flow: Sequence[Mapping]) -> Executions:
    """The executions of a kernel's blocks, from `hostcuda.gpu.sass.read`, in one launch; for the others see `lines`."""
    threads = math.prod(record["block"])
    warps = math.prod(record["grid"]) * -(-threads // WARP)
    plays = executions(record, flow)
    known = lines(record, flow, plays)
    count = len(blocks)
    edges = [(i, to) for i, block in enumerate(blocks) for to in block.next]
    out, into = defaultdict(list), defaultdict(list)
    for number, (i, to) in enumerate(edges):
        out[i].append(count + number)
        into[to].append(count + number)
    equations = _Equations(count + len(edges))
    _conserve(equations, blocks, out, into)
    arithmetic = _arithmetic(blocks, known)
    counted = _count(equations, blocks, known, arithmetic, warps)
    once = _bound(equations, blocks, arithmetic, trips(flow, plays), warps, edges)

    def after(times):
        for block, most in [*once.items()]:
            if times[block] > most * 1.001:
                equations.add([(block, 1.0)], most, _ENTRY, most)
                del once[block]

    times = equations.solve(count, after)
    missed = sum(abs(sum(n * times[b] for b, n in own.items()) - value) * size for own, value, size in counted)
    whole = sum(value * size for _, value, size in counted)
    return Executions(blocks, times * warps, warps, missed / whole if whole else 0.0)


def _conserve(equations: _Equations, blocks, out, into) -> None:
    """A block is executed as often as it is entered, and left as often, apart from exits and from warps whose lanes
    part."""
    equations.add([(0, 1.0)], 1.0, _ENTRY, 1.0)
    for i, block in enumerate(blocks):
        ends, parts, joins = equations.more(), equations.more(), equations.more()
        equations.add([(i, -1.0), *((edge, 1.0) for edge in out[i]), (ends, 1.0), (parts, -1.0)], 0.0, _EXACT, 1.0, i)
        if i:
            equations.add([(i, -1.0), *((edge, 1.0) for edge in into[i]), (joins, -1.0)], 0.0, _EXACT, 1.0, i)
        exits = block.code[-1].name in ("EXIT", "RET")
        for unknown, weight in (
            (ends, _UNLESS if exits else _EXACT),
            (parts, _DIVERGES if len(block.next) > 1 else _EXACT),
            (joins, _DIVERGES if len(into[i]) > 1 else _EXACT),
            (i, 1e-4),  # of several solutions, the smallest
        ):
            equations.add([(unknown, 1.0)], 0.0, weight, 1.0, i)


def _arithmetic(blocks: Sequence[Block], known: Mapping[tuple[str, int], Line]) -> dict:
    """Floating-point instructions by place, and then by the block that has them."""
    found: dict = defaultdict(lambda: defaultdict(float))
    for i, block in enumerate(blocks):
        for each in block.code:
            if each.pipe == "fma" and (place := place_of(each, known)):
                found[place][i] += 1
    return found


def _count(equations: _Equations, blocks, known, arithmetic, warps) -> list[tuple[dict, float, float]]:
    """The requests and operations of each line, per warp; returns (blocks with their coefficients, value, 1 / unit)."""
    moved: dict = defaultdict(lambda: defaultdict(float))
    predicated = set()
    for i, block in enumerate(blocks):
        for each in block.code:
            place = place_of(each, known)
            if place is None:
                continue
            if each.pipe in ("global", "shared"):
                key = (place, each.pipe, each.op)
                moved[key][i] += each.bytes
                if each.predicate:
                    predicated.add(key)
            elif USERS_CONSTANT.search(each.arguments) and each.pipe in ("constant", "fma"):
                moved[place, "constant", "ld"][i] += each.bytes if each.pipe == "constant" else 4
    counted = []
    for key, own in moved.items():
        place, space, operation = key
        value = known[place].moved.get((space, operation), 0) / warps
        if not value:
            continue
        unless = []
        if key in predicated:  # not every execution makes a request
            unless = [(equations.more(), -1.0)]
            equations.add([(unless[0][0], 1.0)], 0.0, _UNLESS, value)
        equations.add([*own.items(), *unless], value, _CONSTANT if space == "constant" else _EXACT, value)
        if space != "constant" and not unless:
            counted.append((own, value, 1 / 4))
    for place, own in arithmetic.items():
        if value := known[place].arithmetic / warps:
            equations.add(own.items(), value, _EXACT, value)
            counted.append((own, value, 1.0))
    return counted


def _bound(equations: _Equations, blocks, arithmetic, engines: Trips, warps, edges) -> dict[int, float]:
    """Hints from loops. Returns blocks that can be executed at most so often per warp."""
    most: dict[int, float] = {}
    never = set()
    for place, (entries, times, copies) in engines.inside.items():
        trip = times / entries
        for block, number in arithmetic[place].items():
            unrolled = number / copies  # iterations of the loop that one execution of the block makes
            if unrolled <= trip * 1.01:
                most[block] = min(most.get(block, math.inf), entries / warps * int(trip / unrolled + 0.01))
            elif (
                abs(unrolled / trip - round(unrolled / trip)) > 0.01
            ):  # more than there are, and no whole number of loops
                never.add(block)
    for block in never:
        most.pop(block, None)
        equations.add([(block, 1.0)], 0.0, 10 * _EXACT, 1.0)
    count = len(blocks)
    found = loops([block.next for block in blocks])
    for loop in found:
        entering = [(count + n, 1.0) for n, (i, to) in enumerate(edges) if to in loop.blocks and i not in loop.blocks]
        if not entering or never & loop.blocks:
            continue
        back = {place for latch in loop.latches for place in blocks[latch].code[-1].places} & engines.back.keys()
        if value := sum(engines.back[place] for place in back) / warps:
            equations.add(entering, value, _LOOP, value)
        elif not back and not any(loop.blocks < other.blocks for other in found):
            equations.add(entering, 1.0, _OUTERMOST, 1.0)
    return most
