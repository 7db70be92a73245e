"""Find how often warps execute each block of nvcc's machine code, from what the CPU engine has counted.

The two compilers unroll and order a kernel differently, so blocks cannot be matched one to one. But
both know the source's lines. A warp's requests to memory and its floating-point operations are the
same in both, line by line, and so is how often a loop is entered. These are linear equations in the
executions of the machine code's blocks, together with the conservation of flow: a block is executed
as often as it is entered. They are solved by non-negative least squares (Lawson and Hanson, Solving
Least Squares Problems, 1974), with new weights per round, for relative errors.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath

import numpy as np

from hostcuda.check.instrument import WORK, find_components
from hostcuda.gpu.sass import USERS_CONSTANT, Block, Instruction
from hostcuda.limits import WARP

_FMA, _MULTIPLY, _ADD, _BRANCH = (
    list(WORK).index(kind) for kind in ("fma", "multiply", "add", "branch")
)
# Weights of the equations: the engine's counts and the conservation of flow are exact, the others
# are hints.
_EXACT, _ENTRY, _LOOP, _OUTERMOST, _CONSTANT, _WEAK = 3, 10, 1, 0.3, 0.5, 0.02
_DIVERGES = 0.15  # a warp whose lanes diverge executes both branches
_SMALLEST = 1e-4  # prefers, of several solutions, the smallest
_ROUNDS = 7


@dataclass
class Line:
    """What a launch does in one line of the source, by all its warps together."""

    # (space, operation), such as ("global", "ld"), to requests times the bytes that each moves per
    # lane
    moved: dict
    arithmetic: float = 0.0  # floating-point operations of warps


def count_operations(work: Sequence[float]) -> float:
    """Count floating-point operations in `work`, a number per kind of `WORK`: a multiply and an add are one."""
    return work[_FMA] + max(work[_MULTIPLY], work[_ADD])


def count_by_line(
    record: Mapping, flow: Sequence[Mapping], plays: Sequence[float]
) -> dict[tuple[str, int], Line]:
    """Sum what the CPU engine counted in a launch by line of the source; return a dict: (file, line) to `Line`.

    `record` is a `hostcuda.check.records.LaunchRecord` as a dict. `flow` lists the blocks of the
    engine's code, such as {"pieces": [3], "next": [1, 2], "work": {"a.cu:12": [2, 0, 1, 0, 1, 0,
    3]}}, with the indices of the blocks that may follow and, per line, instructions of each kind of
    `WORK`. `plays` is how often warps have executed each block.
    """
    line_by_place: dict = defaultdict(lambda: Line(defaultdict(float)))
    for site in record["sites"]:
        if site["line"]:
            line = line_by_place[PurePath(site["file"]).name, site["line"]]
            line.moved[site["space"], site["op"]] += site["requests"] * site["size"]
    for block, times in zip(flow, plays, strict=True):
        for place, work in block["work"].items():
            if times and place and (number := count_operations(work)):
                line_by_place[_split_place(place)].arithmetic += number * times
    return dict(line_by_place)


def _split_place(text: str) -> tuple[str, int]:
    """Return ("kernel.cu", 12) for "kernel.cu:12"."""
    file, _, line = text.rpartition(":")
    return file, int(line)


def count_executions(record: Mapping, flow: Sequence[Mapping]) -> list[float]:
    """Return how often warps executed each block of `flow`, the engine's code, in a launch; 0 if it is not known."""
    # the number of a *piece*, a group of accesses in a block, to its executions
    plays = dict(record["plays"])
    # None: no piece
    times = [
        max((plays.get(piece, 0) for piece in block["pieces"]), default=None) for block in flow
    ]
    before = _find_predecessors([block["next"] for block in flow])
    # a block without accesses runs as often as those before it; chains of them need more rounds
    for _ in range(5):
        for i, count in enumerate(times):
            if (
                count is None
                and before[i]
                and all(times[source] is not None for source in before[i])
            ):
                times[i] = sum(times[source] for source in before[i])
    return [count or 0 for count in times]


def _find_predecessors(following: Sequence[Sequence[int]]) -> list[list[int]]:
    """Return, for each node of a graph, a list of the nodes before it; `following` lists those after it."""
    before: list[list[int]] = [[] for _ in following]
    for node, targets in enumerate(following):
        for target in targets:
            before[target].append(node)
    return before


@dataclass
class Loop:
    """A loop of a control-flow graph: its blocks, the block where it is entered, and those that jump back to it."""

    blocks: frozenset
    head: int
    latches: list


def find_loops(following: Sequence[Sequence[int]]) -> list[Loop]:
    """Return the loops of a control-flow graph, the outer ones first; `following` has each block's successors."""
    graph_loops, pending = [], [(frozenset(range(len(following))), None)]
    before = _find_predecessors(following)
    # a loop is a strongly connected component; without jumps to its head, its inner loops are
    while pending:
        nodes, outer_head = pending.pop()
        edges = {
            node: [to for to in following[node] if to in nodes and to != outer_head]
            for node in sorted(nodes)
        }
        for part in map(frozenset, find_components(list(edges), edges.__getitem__)):
            # one block, without a jump to itself
            if not any(to in part for node in part for to in edges[node]):
                continue
            entry_nodes = [
                node for node in sorted(part) if any(source not in part for source in before[node])
            ]
            head = entry_nodes[0] if entry_nodes else min(part)
            graph_loops.append(
                Loop(part, head, [node for node in sorted(part) if head in following[node]])
            )
            if len(part) > 1:
                pending.append((part, head))
    return graph_loops


def count_trips(flow: Sequence[Mapping], times: Sequence[float]) -> tuple[dict, dict]:
    """Count how often the loops of the engine's code are entered, and how often the blocks in them are executed.

    `flow` lists the blocks, `times` how often warps executed each. Return two dicts with keys
    (file, line): for lines that jump back to a loop's head, how often the loop is entered; for
    lines whose arithmetic is in one block only, the tuple (entries of its innermost loop,
    executions of the block, floating-point operations of the line in it).
    """
    following = [block["next"] for block in flow]
    before = _find_predecessors(following)
    back: dict = defaultdict(float)
    # of the innermost loop: inner loops come later, and replace the outer one's
    entries_by_block: dict = {}
    for loop in find_loops(following):
        entries = sum(times[source] for source in before[loop.head] if source not in loop.blocks)
        entries_by_block.update(dict.fromkeys(loop.blocks, entries))
        for latch in loop.latches:
            for place, work in flow[latch]["work"].items():
                if work[_BRANCH] and place:  # place: "" in the engine's headers
                    back[_split_place(place)] += entries
    rows_by_place: dict = defaultdict(list)
    for i, block in enumerate(flow):
        for place, work in block["work"].items():
            if (
                times[i]
                and place
                and entries_by_block.get(i)
                and (number := count_operations(work))
            ):
                rows_by_place[_split_place(place)].append((entries_by_block[i], times[i], number))
    return dict(back), {place: rows[0] for place, rows in rows_by_place.items() if len(rows) == 1}


class _Equations:
    """Weighted linear equations. The first unknowns are the executions of the blocks, per warp."""

    def __init__(self, unknowns: int):
        self.unknowns, self.rows = unknowns, []  # their number; the arguments of `add`, for `solve`

    def add_unknown(self) -> int:
        """Add an unknown and return its index."""
        self.unknowns += 1
        return self.unknowns - 1

    def add(
        self,
        terms: Iterable[tuple[int, float]],
        value: float,
        weight: float,
        scale: float,
        block: int | None = None,
    ):
        """Add the row: the sum of coefficient · unknown over `terms`, (unknown, coefficient) pairs, is `value`.

        Errors count relative to `scale`, or to the executions of `block`, and the more the larger
        `weight` is.
        """
        self.rows.append((list(terms), value, weight, scale, block))

    def solve(self, blocks: int, after_round: Callable[[np.ndarray], None]) -> np.ndarray:
        """Return the first `blocks` unknowns, the blocks' executions; `after_round` gets them and may add rows."""
        from scipy.optimize import nnls

        times, damping = np.ones(blocks), np.ones(0)
        for round_number in range(_ROUNDS):
            matrix, values = np.zeros((len(self.rows), self.unknowns)), np.zeros(len(self.rows))
            for i, (terms, value, weight, scale, block) in enumerate(self.rows):
                # not 0, by which it divides
                size = scale if block is None else max(times[block], 1e-2)
                # a row may be new in this round
                factor = weight / size / (damping[i] if i < len(damping) else 1)
                for unknown, coefficient in terms:
                    matrix[i, unknown] += coefficient * factor
                values[i] = value * factor
            try:
                solution, _ = nnls(matrix, values, maxiter=20 * self.unknowns)
            except RuntimeError:  # it does not converge: keep the last round's solution
                break
            times = solution[:blocks]
            # rows off by more than 5 % count less in the next round: few may be far off, most hold
            if round_number:
                residuals = np.abs(matrix @ solution - values)
                residuals[: len(damping)] *= damping[: len(residuals)]
                damping = np.sqrt(np.clip(residuals / 0.05, 1, 1e3))
            after_round(times)
        return times


@dataclass
class Executions:
    """How often the warps of a launch execute each block of the machine code."""

    blocks: list[Block]
    times: np.ndarray  # for each block, by all warps together
    warps: int
    # the share of the engine's requests and operations that `times` misses: the less, the better
    missed: float


def _find_place(
    instruction: Instruction, line_by_place: Mapping[tuple[str, int], Line]
) -> tuple[str, int] | None:
    """Return the innermost (file, line) of an instruction that the engine knows: functions may be inlined in others."""
    return next((place for place in instruction.places if place in line_by_place), None)


def solve(blocks: list[Block], record: Mapping, flow: Sequence[Mapping]) -> Executions:
    """Find how often a launch executes each of `blocks`, a kernel's machine code from `hostcuda.gpu.sass.read`.

    `record` has what the CPU engine counted, `flow` the blocks of the engine's own code: see
    `count_by_line`. The unknowns, per warp, are the executions of the blocks, then those of the
    edges between them, then slack variables.
    """
    warps = math.prod(record["grid"]) * math.ceil(math.prod(record["block"]) / WARP)
    plays = count_executions(record, flow)
    line_by_place = count_by_line(record, flow, plays)
    count = len(blocks)
    edges = [(i, to) for i, block in enumerate(blocks) for to in block.next]
    leaving, entering = defaultdict(list), defaultdict(list)
    for number, (i, to) in enumerate(edges):
        leaving[i].append(count + number)
        entering[to].append(count + number)
    equations = _Equations(count + len(edges))
    _add_conservation(equations, blocks, leaving, entering)
    arithmetic = _count_arithmetic(blocks, line_by_place)
    rows = _equate_lines(equations, blocks, line_by_place, arithmetic, warps)
    # most executions
    limits = _add_hints(equations, blocks, arithmetic, count_trips(flow, plays), warps, edges)

    def apply_limits(times):
        """Add an equation for each block whose solution exceeds its limit: it then equals the limit."""
        for block, most in [*limits.items()]:
            if times[block] > most * 1.001:  # by more than rounding errors
                equations.add([(block, 1.0)], most, _ENTRY, most)
                del limits[block]

    times = equations.solve(count, apply_limits)
    missed = sum(
        abs(sum(n * times[b] for b, n in terms.items()) - value) * factor
        for terms, value, factor in rows
    )
    total = sum(value * factor for _, value, factor in rows)  # in requests and operations
    return Executions(blocks, times * warps, warps, missed / total if total else 0.0)


def _add_conservation(
    equations: _Equations,
    blocks: Sequence[Block],
    leaving: Mapping[int, list[int]],
    entering: Mapping[int, list[int]],
) -> None:
    """Add the equations of conservation of flow: a block is executed as often as it is entered and as it is left.

    `leaving` and `entering` map a block's index to the unknowns of the edges from and to it. Three
    slack variables per block, which are small if possible, allow warps that end there, diverge
    behind it, or converge before it.
    """
    equations.add([(0, 1.0)], 1.0, _ENTRY, 1.0)  # each warp executes the first block once
    for i, block in enumerate(blocks):
        ends, diverges, converges = (
            equations.add_unknown(),
            equations.add_unknown(),
            equations.add_unknown(),
        )
        left = [*((edge, 1.0) for edge in leaving[i]), (ends, 1.0), (diverges, -1.0)]
        equations.add([(i, -1.0), *left], 0.0, _EXACT, 1.0, i)
        if i:
            equations.add(
                [(i, -1.0), *((edge, 1.0) for edge in entering[i]), (converges, -1.0)],
                0.0,
                _EXACT,
                1.0,
                i,
            )
        may_exit = block.code[-1].name in ("EXIT", "RET")
        for unknown, weight in (
            (ends, _WEAK if may_exit else _EXACT),
            (diverges, _DIVERGES if len(block.next) > 1 else _EXACT),
            (converges, _DIVERGES if len(entering[i]) > 1 else _EXACT),
            (i, _SMALLEST),
        ):
            equations.add([(unknown, 1.0)], 0.0, weight, 1.0, i)


def _count_arithmetic(
    blocks: Sequence[Block], line_by_place: Mapping[tuple[str, int], Line]
) -> dict:
    """Count the machine code's floating-point instructions; return a dict: (file, line) to {block's index: number}."""
    counts: dict = defaultdict(lambda: defaultdict(float))
    for i, block in enumerate(blocks):
        for instruction in block.code:
            # FFMA, FMUL, FADD
            if instruction.pipe == "fma" and (place := _find_place(instruction, line_by_place)):
                counts[place][i] += 1
    return counts


def _equate_lines(
    equations: _Equations,
    blocks: Sequence[Block],
    line_by_place: Mapping[tuple[str, int], Line],
    arithmetic: Mapping,
    warps: int,
) -> list[tuple[dict, float, float]]:
    """Add an equation per line of the source for its memory requests, and one for its floating-point operations.

    `line_by_place` has the engine's counts, `arithmetic` the machine code's instructions from
    `_count_arithmetic`. Return the equations that must hold, as tuples: {block's index: bytes or
    operations per execution}, the value per warp, and the factor that turns it into a number of
    requests (of 4 bytes) or operations.
    """
    bytes_by_kind: dict = defaultdict(lambda: defaultdict(float))
    predicated_requests = set()
    for i, block in enumerate(blocks):
        for instruction in block.code:
            place = _find_place(instruction, line_by_place)
            if place is None:
                continue
            if instruction.pipe in ("global", "shared"):
                key = (place, instruction.pipe, instruction.op)
                bytes_by_kind[key][i] += instruction.bytes
                if instruction.predicate:
                    predicated_requests.add(key)
            elif USERS_CONSTANT.search(instruction.arguments) and instruction.pipe in (
                "constant",
                "fma",
            ):
                # A load, or arithmetic with a word of a __constant__ variable as an operand.
                bytes_by_kind[place, "constant", "ld"][i] += (
                    4 if instruction.pipe == "fma" else instruction.bytes
                )
    rows = []
    for key, coefficients in bytes_by_kind.items():
        place, space, operation = key
        value = line_by_place[place].moved.get((space, operation), 0) / warps
        if not value:
            continue
        slack = []  # (unknown, -1): the bytes of executions without a request
        if key in predicated_requests:  # not every execution makes a request
            slack = [(equations.add_unknown(), -1.0)]
            equations.add([(slack[0][0], 1.0)], 0.0, _WEAK, value)
        equations.add(
            [*coefficients.items(), *slack],
            value,
            _CONSTANT if space == "constant" else _EXACT,
            value,
        )
        # nvcc may join constant loads, and slack takes any error
        if space != "constant" and not slack:
            rows.append((coefficients, value, 1 / 4))
    for place, coefficients in arithmetic.items():
        if value := line_by_place[place].arithmetic / warps:
            equations.add(coefficients.items(), value, _EXACT, value)
            rows.append((coefficients, value, 1.0))
    return rows


def _add_hints(
    equations: _Equations,
    blocks: Sequence[Block],
    arithmetic: Mapping,
    engine_trips: tuple[dict, dict],
    warps: int,
    edges: Sequence[tuple[int, int]],
) -> dict[int, float]:
    """Add equations for what the engine's loops suggest: how often loops are entered, and blocks that never run.

    `arithmetic` is from `_count_arithmetic`, `engine_trips` from `count_trips`; `edges` are (block,
    its successor). Return a dict: index of a block in a loop to its largest possible number of
    executions per warp.
    """
    limits: dict[int, float] = {}
    unused = set()  # blocks that make more iterations at once than the loop has: 4 where it has 3
    entries_by_place, rows_by_place = engine_trips
    for place, (entries, times, operations) in rows_by_place.items():
        iterations = times / entries  # of the engine's loop, each time that it is entered
        for block, number in arithmetic[place].items():
            # iterations of the loop that one execution of the block makes
            unrolled = number / operations
            if unrolled <= iterations * 1.01:  # 1 % here and below: rounding errors
                limits[block] = min(
                    limits.get(block, math.inf), entries / warps * int(iterations / unrolled + 0.01)
                )
            elif (
                abs(unrolled / iterations - round(unrolled / iterations)) > 0.01
            ):  # nor whole loops, unrolled together
                unused.add(block)
    for block in unused:
        limits.pop(block, None)
        equations.add([(block, 1.0)], 0.0, 10 * _EXACT, 1.0)
    count = len(blocks)  # the unknowns of the edges come after those of the blocks
    graph_loops = find_loops([block.next for block in blocks])
    for loop in graph_loops:
        entering = [
            (count + n, 1.0)
            for n, (i, to) in enumerate(edges)
            if to in loop.blocks and i not in loop.blocks
        ]
        if not entering or unused & loop.blocks:
            continue
        # The lines of the jumps back to its head: the engine's loops are known by such lines, too.
        back = {
            place for latch in loop.latches for place in blocks[latch].code[-1].places
        } & entries_by_place.keys()
        if value := sum(entries_by_place[place] for place in back) / warps:
            equations.add(entering, value, _LOOP, value)
        elif not back and not any(
            loop.blocks < other.blocks for other in graph_loops
        ):  # unknown, and in no other loop
            equations.add(entering, 1.0, _OUTERMOST, 1.0)
    return limits
