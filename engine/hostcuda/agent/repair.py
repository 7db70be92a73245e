"""Repairs that are tried: a barrier, a guard, an initial value or an atomic operation, put into a copy of the source.

`search` proposes edits for the first finding, one after the other, and runs the copy on all cases. A repair counts only
if then nothing is found and all results are right. So an edit may be a guess: what is reported has been run.
"""

from __future__ import annotations

import difflib
import itertools
import math
import re
from collections.abc import Callable, Iterator, Mapping

from hostcuda.frontend.brackets import apply_edits, find_statement_end, skip_bracket
from hostcuda.frontend.scan import Scan

_MOST_STEPS, _MOST_EDITS = 4, 8  # edits of one repair; proposals per finding
_BARRIER = "__syncthreads();"
Edits = list[tuple[int, int, str]]  # start, end, new text


def search(first, job: Mapping, attempt: Callable) -> tuple[str, str] | None:
    """Search for a repair of a run; return its kind and the difference, or None.

    `attempt(source)` runs a source on all cases, and returns None when there is no time left.
    """
    run, kinds, tried = first, [], {first.source}
    for _ in range(_MOST_STEPS):
        better = None
        for kind, text in _propose(run, job):
            if text in tried:
                continue
            tried.add(text)
            after = attempt(text)
            if after is None:
                return None
            if after.outcome(job)[0] == "pass":
                lines = difflib.unified_diff(first.source.splitlines(), text.splitlines(), n=1, lineterm="")
                return " and ".join(dict.fromkeys([*kinds, kind])), "\n".join(itertools.islice(lines, 2, 60))
            if _is_better(after, run):
                better = kind, after
                break
        if better is None:
            return None
        kinds, run = [*kinds, better[0]], better[1]
    return None


def _is_better(after, run) -> bool:
    """Return whether an edit removed the first finding, and added no kind; a fault may have hidden more of one."""
    before, now = ([(row["kind"], dict(enumerate(map(str.strip, one.source.splitlines()), 1)).get(row["line"]))
                    for row in one.findings.table.to_dict("records")] for one in (run, after))  # line numbers move
    return (before[0] not in now and {row[0] for row in now} <= {row[0] for row in before}
            and len(now) <= len(before) and bool(after.of("compiled")) and after.findings.ended.status is not None)


def _propose(run, job: Mapping) -> Iterator[tuple[str, str]]:
    """Yield repaired sources for the first finding that has any, the likeliest first, each with its kind."""
    source = _Source(run.source)
    for row in run.findings.table.to_dict("records"):
        if not 0 < row["line"] < len(source.starts):
            continue
        name = row["buffer"].get("name", "") if isinstance(row["buffer"], dict) else ""
        propose = {"racecheck": _order, "memcheck": _guard, "initcheck": _initialize, "synccheck": _join}[row["tool"]]
        edits = propose(source, row, name, job)
        proposals = [(kind, apply_edits(source.text, edit)) for kind, edit in edits]
        yield from proposals[:_MOST_EDITS]
        if proposals:
            return


class _Source:
    """A source with its lines, blocks and statements."""

    def __init__(self, text: str):
        self.text, self.scan = text, Scan(text)
        self.code = self.scan.code
        self.starts = [0, *(match.end() for match in re.finditer("\n", text)), len(text) + 1]

    def line(self, number: int) -> tuple[int, int]:
        """Return where a line's code begins and ends."""
        start, end = self.starts[number - 1], self.starts[number] - 1
        body = self.code[start:end]
        return start + len(body) - len(body.lstrip()), start + len(body.rstrip())

    def indent(self, at: int) -> str:
        """Return the line's end and the spaces before the code of the line with a position."""
        return "\n" + re.compile(r"[ \t]*").match(self.text, self.text.rfind("\n", 0, at) + 1)[0]

    def blocks(self, at: int) -> list[tuple[int, int]]:
        """Return the blocks around a position, the outermost first."""
        return sorted((start, end) for start, end in self.scan.closing.items() if start < at < end)

    def head(self, at: int) -> int:
        """Return the start of the statement that a position is in, with the `for` or `if` that it belongs to."""
        while True:
            start = max(self.code.rfind(sign, 0, at) for sign in "{};") + 1
            opening = (place for place in range(start) if self.code[place] == "(")
            around = [place for place in opening if skip_bracket(self.code, place) >= start]
            if not around:  # else the sign is in a `for (…; …; …)`
                return start + len(self.code[start:]) - len(self.code[start:].lstrip())
            at = around[0]

    def before(self, at: int, text: str) -> tuple[int, int, str]:
        """Return the edit that puts a line before the statement at a position."""
        return at, at, text + self.indent(at)


def _order(source: _Source, row: dict, name: str, job: Mapping) -> Iterator[tuple[str, Edits]]:
    """Yield barriers between the accesses of a race, and at the end of their loop; then an atomic operation."""
    other = row["other"]["line"] if isinstance(row["other"], dict) and row["other"]["line"] else row["line"]
    early, late = sorted((row["line"], other))
    a, b = source.line(early)[0], source.line(late)[0]
    common = [block for block in source.blocks(a) if block in source.blocks(b)]
    if row["kind"] == "race":
        between: Edits = []
        if early != late:
            deeper = [block for block in source.blocks(b) if block not in common]
            between = [source.before(source.head(deeper[0][0] if deeper else b), _BARRIER)]
            yield "barrier", between
        elif name:
            yield from _separate(source, b, name, "__syncwarp();" if "__syncwarp" in row["message"] else _BARRIER)
        loops = [block for block in common if re.match(r"for\b|while\b|do\b", source.code[source.head(block[0]) :])]
        for start, end in loops[-1:]:
            last, inside = len(source.code[:end].rstrip()), source.code[start + 1 : end]
            closing = [(last, last, source.indent(end - len(inside.lstrip())) + _BARRIER)]
            yield "barrier", closing
            if between:
                yield "barrier", [*between, *closing]
            yield "barrier", [source.before(source.head(start), _BARRIER), *closing]
        head = source.head(b)
        loop = re.compile(r"(?:for|while)\s*(?=\()").match(source.code, head)
        body = skip_bracket(source.code, loop.end()) if loop else 0
        if body and source.code[body:].lstrip()[:1] != "{":  # a loop without braces
            end, tab = find_statement_end(source.code, body), source.indent(head)
            braces = [(body, body, " {"), (end, end, f"{tab}  {_BARRIER}{tab}}}")]
            yield "barrier", braces
            yield "barrier", [source.before(head, _BARRIER), *braces]
    place = rf"(\*\s*{re.escape(name)}\b|\b{re.escape(name)}\s*\[.*?\])" if name else r"(\*\s*\w+|\b\w+\s*\[.*?\])"
    for number in dict.fromkeys((late, early)):
        match = re.compile(rf"{place}\s*(?:\+=\s*(.+?)|\+\+)\s*;").search(source.code, *source.line(number))
        if match:
            address = match[1][1:].strip() if match[1].startswith("*") else f"&{match[1]}"
            yield "atomic operation", [(*match.span(), f"atomicAdd({address}, {match[2] or 1});")]


def _separate(source: _Source, at: int, name: str, barrier: str) -> Iterator[tuple[str, Edits]]:
    """Yield `name[…] = …` at a position, with or without an `if`, as a read, a barrier and a write."""
    head = start = source.head(at)
    end, tab, condition = find_statement_end(source.code, head), source.indent(head), ""
    if branch := re.compile(r"if\s*(?=\()").match(source.code, head):
        start = skip_bracket(source.code, branch.end())
        condition = source.code[branch.end() : start]
    place = rf"\s*({re.escape(name)}\s*\[[^;={{}}]*\])\s*([-+*/]?=)(?!=)([^;{{}}]+);"
    writes = re.compile(place).match(source.code, start, end)
    if writes:
        read = f"{condition} ? {writes[3].strip()} : 0" if condition else writes[3].strip()
        write = f"{f'if {condition} ' * bool(condition)}{writes[1]} {writes[2]} value;"
        lines = f"{{{tab}  const auto value = {read};{tab}  {barrier}{tab}  {write}{tab}  {barrier}{tab}}}"
        yield "barrier", [(head, end, lines)]


def _join(source: _Source, row: dict, name: str, job: Mapping) -> Iterator[tuple[str, Edits]]:
    """Yield a barrier before and after each branch or loop that one of the barriers is in, in place of that barrier."""
    numbers = dict.fromkeys((row["line"], *map(int, re.findall(r"\.cu:(\d+)", row["message"]))))
    around = {number: source.head(source.blocks(source.line(number)[0])[-1][0]) for number in numbers}
    for number in sorted(numbers, key=lambda number: not source.code.startswith("if", around[number])):
        start, end = source.line(number)
        barrier = re.compile(r"__syncthreads\s*\(\s*\)\s*;").search(source.code, start, end)
        for opening, closing in source.blocks(start)[:0:-1] if barrier else ():
            alone = barrier.span() == (start, end)
            old = slice(source.starts[number - 1], source.starts[number]) if alone else slice(*barrier.span())
            head = source.head(opening)
            yield "barrier", [(old.start, old.stop, ""), (closing + 1, closing + 1, source.indent(head) + _BARRIER)]
            yield "barrier", [source.before(head, _BARRIER), (old.start, old.stop, "")]


def _guard(source: _Source, row: dict, name: str, job: Mapping) -> Iterator[tuple[str, Edits]]:
    """Yield guards of an access beyond an array's end, or before its start."""
    (start, end), before = source.line(row["line"]), " before " in row["message"]
    access = re.compile(rf"\b{re.escape(name) or '[A-Za-z_]+'}\s*(?=\[)").search(source.code, start, end)
    if not access:
        return
    stop = skip_bracket(source.code, access.end())
    index, text = source.code[access.end() + 1 : stop - 1].strip(), source.text[access.start() : stop]
    blocks = source.blocks(start)
    for head in (source.head(start), *(source.head(block[0]) for block in blocks[:0:-1])):
        if upper := re.compile("<=").search(source.code, head, end):
            yield "guard", [(*upper.span(), "<")]
    arguments = job["cases"][0]["arguments"]
    shape = arguments[name]["shape"] if isinstance(arguments.get(name), dict) else []
    limits = [key for key, value in arguments.items() if type(value) is int]
    limits.sort(key=lambda key: (arguments[key] != math.prod(shape), arguments[key] not in shape))
    function = source.code[slice(*blocks[0])] if blocks else source.code
    own = [*re.finditer(r"\b(\w+)\s*=[^;,]*(?:threadIdx|blockIdx)[^;,]*", function)]
    own = [match for match in own if re.search(rf"\b{match[1]}\b", index)] or own[:2]  # else it follows from them
    whole = [f"{index} < {limit}" for limit in limits if arguments[limit] == math.prod(shape)]
    pairs = [" && ".join(f"{match[1]} < {limit}" for match, limit in zip(some, order, strict=True))
             for count in range(len(own), 0, -1) for some in itertools.combinations(own, count)
             for order in itertools.permutations(limits, count)]
    conditions = [f"{index} >= 0", *(f"{index} >= 0 && {one}" for one in whole)] if before else [*whole, *pairs]
    for condition in dict.fromkeys(conditions):
        if own and "__syncthreads" not in function and condition in pairs:
            at = blocks[0][0] + function.index(";", own[-1].end()) + 1
            leave = " || ".join(part.replace("<", ">=") for part in condition.split(" && "))
            yield "guard", [(at, at, f"{source.indent(at)}if ({leave}) return;")]
        elif re.compile(r"\s*[-+*/|&^]?=(?!=)").match(source.code, stop):
            at = start if source.head(start) == start else access.start()
            yield "guard", [(at, at, f"if ({condition}) ")]
        else:
            yield "guard", [(access.start(), stop, f"({condition} ? {text} : 0)")]


def _initialize(source: _Source, row: dict, name: str, job: Mapping) -> Iterator[tuple[str, Edits]]:
    """Yield an initial value of a variable, or of shared memory with a barrier, or a barrier alone."""
    start, end = source.line(row["line"])
    if row["kind"] == "uninitialized variable":
        variable = re.search(r"variable (\w+)", row["message"])[1]
        declared = re.compile(rf"\b{variable}\b\s*(\[[^;,]*\])?(?=\s*[;,])").search(source.code, start, end)
        if declared:
            yield "initial value", [(declared.end(), declared.end(), " = {}" if declared[1] else " = 0")]
        return
    shared = name and re.search(rf"__shared__\s+[^;]*?\b{re.escape(name)}\b\s*((?:\[[^\]]*\]\s*)*);", source.code)
    if shared:
        barrier = source.before(source.head(start), _BARRIER)
        at, tab, first = shared.end(), source.indent(shared.end()), "[0]" * shared[1].count("[")
        rank = "threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)"
        fill = (f"for (int k = {rank}; k < sizeof({name}) / sizeof({name}{first}); k += blockDim.x * blockDim.y * "
                f"blockDim.z){tab}  (&{name}{first})[k] = 0;" if first else f"if ({rank} == 0) {name} = 0;")
        value = (at, at, f"{tab}{fill}{tab}{_BARRIER}")
        yield "barrier", [barrier]
        yield "initial value", [value]
        yield "initial value and barrier", [value, barrier]
