"""Repairs that are tried: a barrier, a guard, an initial value or an atomic operation, put into a copy of the source.

`search` proposes edits for the first finding, one after the other, and runs the copy on all cases,
and on one more of unequal, odd sizes: a wrong guard may be right where two sizes are equal. So an
edit may be a guess: what is reported has been run.
"""

from __future__ import annotations

import difflib
import itertools
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from hostcuda.agent.run import Run
from hostcuda.frontend.scan import Scan
from hostcuda.frontend.tokens import apply_edits, find_statement_end, skip_bracket

_MOST_STEPS = 4  # edits of one repair
_MOST_EDITS = 24  # proposals per finding
_MOST_LINES = 60  # of the diff
_SMALL = 9  # sizes up to this one, such as that of a filter, stay in the case of unequal sizes
_UNEQUAL = "a case of unequal sizes"  # its name
_MOST_PRODUCTS = 5000  # ways to write a dimension that are tried, for each number of factors
_BARRIER = "__syncthreads();"
Edits = list[tuple[int, int, str]]  # start, end, new text


@dataclass(frozen=True)
class Repair:
    """A repair that was run: its kind, its unified diff, and why its results are in doubt ("" if they are right)."""

    kind: str
    diff: str
    doubt: str


def search(failed: Run, job: Mapping, run_source: Callable) -> Repair | None:
    """Search edits of a kernel that repair it, by running each one; return the repair, or None.

    `failed` is the kernel's run on the cases of `job`. `run_source(source, cases)` returns the
    `Run` of a source on cases, or None when no time is left. An edit that removes the first finding
    is kept, and the next one is searched on top of it. A repair whose results cannot be judged is
    returned only if no other is found.
    """
    run = failed  # the run with the edits that were kept
    kinds: list[str] = []  # of the edits that were kept
    tried = {failed.source}
    unequal = make_unequal_case(job["cases"][0])
    unjudged = None  # the first repair whose results are in doubt
    for _ in range(_MOST_STEPS):
        for kind, repaired in _generate_repairs(run, job):
            if repaired in tried:
                continue
            tried.add(repaired)
            new_run = run_source(repaired, job["cases"])
            if new_run is None:
                return unjudged
            names = list(dict.fromkeys([*kinds, kind]))  # each kind once
            # None: the edit is no repair; "": it is one; else why its results are in doubt
            doubt = _judge(new_run, job, job["cases"])
            if doubt == "" and unequal:
                second_run = run_source(repaired, [unequal])
                if second_run is None:
                    return unjudged
                doubt = _judge(second_run, job, [unequal])
                if doubt is None:
                    if _blames(second_run, names):  # edits of these kinds may be at fault
                        continue
                    doubt = ""  # the kernel is not made for such sizes, with or without the edit
            # An edit of the kind "index" replaces the factor in y * width: the array may be too small
            # instead, and only results tell which factor is right.
            if doubt and "index" in names:
                continue
            if doubt is not None:
                lines = difflib.unified_diff(
                    failed.source.splitlines(), repaired.splitlines(), n=1, lineterm=""
                )
                # without the first 2 lines, the names of the files
                diff = "\n".join(itertools.islice(lines, 2, _MOST_LINES))
                repair = Repair(" and ".join(names), diff, doubt)
                if not doubt:
                    return repair
                unjudged = unjudged or repair
            elif _is_better(new_run, run):  # keep it, and search the next edit
                kinds, run = [*kinds, kind], new_run
                break
        else:  # no edit is a repair, or makes it better
            return unjudged
    return unjudged


def _judge(run, job: Mapping, cases: Sequence[Mapping]) -> str | None:
    """Return "" if a run on cases is right, the reason if it cannot be judged, or None if it is wrong.

    It cannot be judged if the tools find nothing, and no reference says what is right.
    """
    verdict, reason = run.decide_verdict({**job, "cases": cases})
    if verdict == "pass":
        return ""
    if verdict != "not checked" or run.findings.rows or run.wrong:
        return None
    if len(run.select("ended")) == len(cases):
        return "no reference says whether all results are right"
    if cases[0].get("name") == _UNEQUAL and "reference" in reason:
        return "the reference does not say what is right for unequal sizes"
    return None


def _blames(run, kinds: Sequence[str]) -> bool:
    """Return whether a run on unequal sizes that fails may fail because of edits of these kinds.

    A guard decides for which sizes a kernel is right. A barrier that was added may be one that some
    threads of a block do not reach: then synccheck has a finding. Other kinds do not depend on sizes.
    """
    return "guard" in kinds or any(row["tool"] == "synccheck" for row in run.findings.rows)


def make_unequal_case(case: Mapping) -> dict | None:
    """Return a case like `case`, but with smaller sizes, odd and all different, on which repairs are tested.

    A wrong guard may be right where two sizes are equal. A size is an integer argument larger than
    `_SMALL`; smaller ones, such as a filter's width, stay. The dimensions of arrays follow: each is
    such an integer, the difference of two plus 1 (a convolution's output), or a product of these; of
    several ways to write one, the first counts. None is returned without sizes, or if a dimension is
    neither that nor small.
    """
    # an argument is a number, or an array as a dict with its "shape" or its "values"
    sizes = {
        name: value
        for name, value in case["arguments"].items()
        if type(value) is int and value > _SMALL
    }
    constants = {
        name: value
        for name, value in case["arguments"].items()
        if type(value) is int and 0 < value <= _SMALL
    }
    smaller: dict[str, int] = {}
    for name, value in sizes.items():
        size = value - 1 - value % 2  # the next smaller odd number
        while size in smaller.values():
            size -= 2
        smaller[name] = max(1, size)
    if not smaller:
        return None
    values, changed = {**sizes, **constants}, {**constants, **smaller}
    # (names, what they give in `case`, what they give in the new case): (("H", "K"), H - K + 1, ...)
    factors = [((name,), values[name], changed[name]) for name in values]
    factors += [
        (pair, values[pair[0]] - values[pair[1]] + 1, changed[pair[0]] - changed[pair[1]] + 1)
        for pair in itertools.permutations(values, 2)
        if values[pair[0]] > values[pair[1]]
    ]

    def resize(length: int, taken: set[str]) -> int | None:
        """Return the dimension for the smaller sizes that was `length` for the original ones; None if it is unknown.

        Sizes that another dimension of the array has used (`taken`) are tried last; the new ones are
        added to `taken`.
        """
        ordered = sorted(factors, key=lambda factor: (len(taken & {*factor[0]}), len(factor[0])))
        for count in range(1, 5):  # the number of factors of the dimension
            for chosen in itertools.islice(itertools.combinations(ordered, count), _MOST_PRODUCTS):
                if math.prod(before for _, before, _ in chosen) == length:
                    taken.update(
                        name for names, _, _ in chosen for name in names if name in smaller
                    )
                    return math.prod(after for _, _, after in chosen)
        return length if length <= _SMALL else None

    arguments: dict = {**case["arguments"], **smaller}
    for name, spec in case["arguments"].items():
        # a __constant__ array keeps its shape, which the source declares
        if isinstance(spec, dict) and spec.get("role") != "constant":
            taken: set[str] = set()
            # without a shape, the values are a vector
            shape = [
                resize(length, taken) for length in spec.get("shape", [len(spec.get("values", ()))])
            ]
            if None in shape:
                return None
            arguments[name] = {**spec, "shape": shape}
    return {**case, "name": _UNEQUAL, "arguments": arguments}


def _is_better(new_run, run) -> bool:
    """Return whether the edit of `new_run` is worth a second one: `run`'s first finding is gone, others are left.

    It also has to compile and end, and must not have findings of a new kind, or more of them.
    """
    # A finding is known by its kind and its line's text, because the edit moves line numbers.
    before, now = (
        [
            (
                row["kind"],
                dict(enumerate(map(str.strip, version.source.splitlines()), 1)).get(row["line"]),
            )
            for row in version.findings.rows
        ]
        for version in (run, new_run)
    )
    added_kinds = {kind for kind, _ in now} - {kind for kind, _ in before}
    return (
        bool(now)  # else only the results are wrong, and there is nothing to search on top of it
        and before[0] not in now
        and not added_kinds
        and len(now) <= len(before)
        and bool(new_run.select("compiled"))
        and new_run.findings.ended.status is not None
    )


def _generate_repairs(run, job: Mapping) -> Iterator[tuple[str, str]]:
    """Yield (kind, repaired source) for the first finding of a run for which there are edits, the likeliest first.

    A kind is "barrier", "guard", "initial value" and so on, as the report names it.
    """
    source = _Source(run.source)
    for finding in run.findings.rows:
        other = finding["other"]["line"] if isinstance(finding["other"], dict) else 0
        named = map(int, re.findall(r"\.cu:(\d+)", finding["message"]))
        # a #line directive may give lines that the source does not have
        if not all(0 < line < len(source.starts) for line in (finding["line"], other or 1, *named)):
            continue
        array = finding["buffer"].get("name", "") if isinstance(finding["buffer"], dict) else ""
        generate_edits, *more = {
            "racecheck": (_synchronize_accesses, array),
            "initcheck": (_initialize_memory, array),
            "memcheck": (_guard_access, array, job["cases"][0]["arguments"]),
            "synccheck": (_move_barrier,),
        }[finding["tool"]]
        texts = [
            (kind, apply_edits(source.text, edits))
            for kind, edits in generate_edits(source, finding, *more)
        ]
        yield from texts[:_MOST_EDITS]
        if texts:
            return


class _Source:
    """A source with its lines, blocks and statements. A position is an index of `text`, and of `code`.

    `code` has spaces instead of comments, strings and directives. `starts` has the position of each
    line, from line 1 at index 0, and at last that behind the text.
    """

    def __init__(self, text: str):
        self.text, self.scan = text, Scan(text)
        self.code = self.scan.code
        self.starts = [0, *(match.end() for match in re.finditer("\n", text)), len(text) + 1]

    def line(self, number: int) -> tuple[int, int]:
        """Return the (start, end) of the code in the line `number`, from 1, without blanks around it; end excluded."""
        start, end = self.starts[number - 1], self.starts[number] - 1  # without the newline
        body = self.code[start:end]
        return start + len(body) - len(body.lstrip()), start + len(body.rstrip())

    def indent(self, at: int) -> str:
        """Return a newline and the indentation of the line at a position, to begin another line like it."""
        return "\n" + re.compile(r"[ \t]*").match(self.text, self.text.rfind("\n", 0, at) + 1)[0]

    def blocks(self, at: int) -> list[tuple[int, int]]:
        """Return the (opening, closing) positions of the braces around a position, the outermost first."""
        return sorted((start, end) for start, end in self.scan.closing.items() if start < at < end)

    def head(self, at: int) -> int:
        """Return the start of the statement that a position is in, with the `for` or `if` that it belongs to."""
        while True:
            # behind what ends the statement before
            start = max(self.code.rfind(sign, 0, at) for sign in "{};") + 1
            opening = (place for place in range(start) if self.code[place] == "(")
            # parentheses around `start`: the sign before it is in a `for (…; …; …)`, which is taken whole
            around = [place for place in opening if skip_bracket(self.code, place) >= start]
            if not around:
                return start + len(self.code[start:]) - len(self.code[start:].lstrip())
            at = around[0]

    def before(self, at: int, text: str) -> tuple[int, int, str]:
        """Return the edit, (start, end, new text), that puts a line with `text` before the statement at a position."""
        return at, at, text + self.indent(at)


def _synchronize_accesses(
    source: _Source, finding: dict, array: str
) -> Iterator[tuple[str, Edits]]:
    """Yield (kind, edits) for a race: barriers between its accesses or at a loop's end, or atomic operations.

    `array` is the name of the array, or "" if it is not known.
    """
    line, other = finding["line"], finding["other"]
    if "blocks" in finding["kind"]:
        yield from _stride_by_grid(source)
    early, late = sorted((line, (isinstance(other, dict) and other["line"]) or line))
    early_start, late_start = source.line(early)[0], source.line(late)[0]
    common = [block for block in source.blocks(early_start) if block in source.blocks(late_start)]
    if finding["kind"] == "race":
        between: Edits = []
        if early != late:
            inner = [block for block in source.blocks(late_start) if block not in common]
            between = [source.before(source.head(inner[0][0] if inner else late_start), _BARRIER)]
            yield "barrier", between
        elif array:  # two threads run the same line, such as a[i] = a[i + 1]
            # the finding says so if a barrier of the warp is enough
            barrier = "__syncwarp();" if "__syncwarp" in finding["message"] else _BARRIER
            yield from _separate_read_and_write(source, late_start, array, barrier)
        loops = [
            block
            for block in common
            if re.match(r"for\b|while\b|do\b", source.code[source.head(block[0]) :])
        ]
        for start, end in loops[-1:]:  # the innermost, if there is one
            last, inside = len(source.code[:end].rstrip()), source.code[start + 1 : end]
            at_loop_end = [(last, last, source.indent(end - len(inside.lstrip())) + _BARRIER)]
            yield "barrier", at_loop_end
            if between:
                yield "barrier", [*between, *at_loop_end]
            yield "barrier", [source.before(source.head(start), _BARRIER), *at_loop_end]
        late_statement = source.head(late_start)
        loop = re.compile(r"(?:for|while)\s*(?=\()").match(source.code, late_statement)
        body = skip_bracket(source.code, loop.end()) if loop else 0
        if body and source.code[body:].lstrip()[:1] != "{":  # a loop without braces
            end, tab = find_statement_end(source.code, body), source.indent(late_statement)
            braces = [(body, body, " {"), (end, end, f"{tab}  {_BARRIER}{tab}}}")]
            yield "barrier", braces
            yield "barrier", [source.before(late_statement, _BARRIER), *braces]
    # `*a` or `a[…]`, and below `a[…] += value;` or `a[…]++;`
    element = (
        rf"(\*\s*{re.escape(array)}\b|\b{re.escape(array)}\s*\[.*?\])"
        if array
        else r"(\*\s*\w+|\b\w+\s*\[.*?\])"
    )
    for line_number in dict.fromkeys((late, early)):
        update = re.compile(rf"{element}\s*(?:\+=\s*(.+?)|\+\+)\s*;").search(
            source.code, *source.line(line_number)
        )
        if update:
            address = update[1][1:].strip() if update[1].startswith("*") else f"&{update[1]}"
            yield "atomic operation", [(*update.span(), f"atomicAdd({address}, {update[2] or 1});")]


def _stride_by_grid(source: _Source) -> Iterator[tuple[str, Edits]]:
    """Yield ("stride", edits) that let a loop over all elements step by the threads of the grid, not of a block."""
    loops = re.finditer(
        r"\+=\s*(blockDim\.x|gridDim\.x)(?=\s*[);])(?!\s*\*)|"
        r"\b(?P<name>\w+)\s*=\s*(?P=name)\s*\+\s*(blockDim\.x|gridDim\.x)(?=\s*[);])",
        source.code,
    )
    for loop in loops:
        step = loop[1] or loop[3]
        other = "gridDim.x" if step == "blockDim.x" else "blockDim.x"
        yield "stride", [(loop.end(), loop.end(), f" * {other}")]


def _separate_read_and_write(
    source: _Source, at: int, array: str, barrier: str
) -> Iterator[tuple[str, Edits]]:
    """Yield ("barrier", edits) that turn `array[…] = …` or `if (…) array[…] = …` at `at` into read, barrier, write."""
    head = start = source.head(at)
    end, tab, condition = find_statement_end(source.code, head), source.indent(head), ""
    if branch := re.compile(r"if\s*(?=\()").match(source.code, head):
        start = skip_bracket(source.code, branch.end())
        condition = source.code[branch.end() : start]
    # element, sign, value
    assignment = rf"\s*({re.escape(array)}\s*\[[^;={{}}]*\])\s*([-+*/]?=)(?!=)([^;{{}}]+);"
    writes = re.compile(assignment).match(source.code, start, end)
    if writes:
        read = f"{condition} ? {writes[3].strip()} : 0" if condition else writes[3].strip()
        write = f"{f'if {condition} ' * bool(condition)}{writes[1]} {writes[2]} value;"
        lines = f"{{{tab}  const auto value = {read};{tab}  {barrier}{tab}  {write}{tab}  {barrier}{tab}}}"
        yield "barrier", [(head, end, lines)]


def _move_barrier(source: _Source, finding: dict) -> Iterator[tuple[str, Edits]]:
    """Yield ("barrier", edits) that move a divergent barrier behind, or before, a branch or loop around it."""
    # The message names the barriers at which threads wait: "… 3 threads wait at __syncthreads
    # (kernel.cu:5)".
    numbers = dict.fromkeys(
        (finding["line"], *map(int, re.findall(r"\.cu:(\d+)", finding["message"])))
    )
    around = {
        number: source.head(source.blocks(source.line(number)[0])[-1][0]) for number in numbers
    }
    # barriers in a branch first, then those in a loop
    for number in sorted(
        numbers, key=lambda number: not source.code.startswith("if", around[number])
    ):
        start, end = source.line(number)
        barrier = re.compile(r"__syncthreads\s*\(\s*\)\s*;").search(source.code, start, end)
        # from inside, without the function's
        for opening, closing in source.blocks(start)[:0:-1] if barrier else ():
            is_whole_line = barrier.span() == (start, end)
            removed = source.starts[number - 1 : number + 1] if is_whole_line else barrier.span()
            head = source.head(opening)
            yield (
                "barrier",
                [(*removed, ""), (closing + 1, closing + 1, source.indent(head) + _BARRIER)],
            )
            yield "barrier", [source.before(head, _BARRIER), (*removed, "")]


def _guard_access(
    source: _Source, finding: dict, array: str, arguments: Mapping
) -> Iterator[tuple[str, Edits]]:
    """Yield (kind, edits) that avoid an access beyond the end of `array`, or before its start.

    A "guard" replaces `<=` by `<`, returns early, or puts `if (index < n)` before the access. Its
    condition compares the index or the thread's indices with the integers among `arguments`, which maps
    each parameter to a number or to the dict of an array. `array` "" stands for the first array in the
    line. If the kernel has a condition already, the edits of `_change_pitch` come first. Before a guard
    for a negative index, the index is computed in 64 bits: the guard would hide that a product
    overflows.
    """
    start, end = source.line(finding["line"])
    is_below = " before " in finding["message"]  # "x[-1], one before its …"
    access = re.compile(rf"\b{re.escape(array) or '[A-Za-z_]+'}\s*(?=\[)").search(
        source.code, start, end
    )
    if not access:
        return
    access_end = skip_bracket(source.code, access.end())
    index, element = (
        source.code[access.end() + 1 : access_end - 1].strip(),
        source.text[access.start() : access_end],
    )
    if is_below:
        yield from _widen_index(source, access.end() + 1, access_end - 1)
    blocks = source.blocks(start)  # outermost first: the function's
    if blocks and re.search(r"\b(?:if|while)\b", source.code[slice(*blocks[0])]):  # it has a guard
        yield from _change_pitch(source, access.end() + 1, access_end - 1, arguments)
    for statement_start in (
        source.head(start),
        *(source.head(block[0]) for block in blocks[:0:-1]),
    ):
        if comparison := re.compile("<=").search(source.code, statement_start, end):
            yield "guard", [(*comparison.span(), "<")]
    spec = arguments.get(array)
    shape = spec.get("shape", [len(spec.get("values", ()))]) if isinstance(spec, dict) else []
    limits = [parameter for parameter, value in arguments.items() if type(value) is int]
    limits.sort(
        key=lambda parameter: (
            arguments[parameter] != math.prod(shape),
            arguments[parameter] not in shape,
        )
    )
    function = source.code[slice(*blocks[0])] if blocks else source.code
    indices = [*re.finditer(r"\b(\w+)\s*=[^;,]*(?:threadIdx|blockIdx)[^;,]*", function)]
    # Those that the access names; an index that names none may follow from the first two.
    indices = [match for match in indices if re.search(rf"\b{match[1]}\b", index)] or indices[:2]
    by_size = [f"{index} < {limit}" for limit in limits if arguments[limit] == math.prod(shape)]
    by_index = [
        " && ".join(f"{match[1]} < {limit}" for match, limit in zip(chosen, bounds, strict=True))
        for count in range(len(indices), 0, -1)
        for chosen in itertools.combinations(indices, count)
        for bounds in itertools.permutations(limits, count)
    ]
    # A guard that the kernel already has says which index belongs to which limit.
    known = {f"{name} < {limit}" for name, limit in re.findall(r"\b(\w+)\s*<\s*(\w+)", function)}
    known |= {f"{name} < {limit}" for name, limit in re.findall(r"\b(\w+)\s*>=\s*(\w+)", function)}
    by_index.sort(key=lambda condition: -len(known & {*condition.split(" && ")}))
    conditions = (
        [f"{index} >= 0", *(f"{index} >= 0 && {one}" for one in by_size)]
        if is_below
        else by_size + by_index
    )
    for condition in dict.fromkeys(conditions):
        if blocks and indices and "__syncthreads" not in function and condition in by_index:
            insert_at = blocks[0][0] + function.index(";", indices[-1].end()) + 1
            exit_condition = " || ".join(
                part.replace("<", ">=") for part in condition.split(" && ")
            )
            yield (
                "guard",
                [
                    (
                        insert_at,
                        insert_at,
                        f"{source.indent(insert_at)}if ({exit_condition}) return;",
                    )
                ],
            )
        elif re.compile(r"\s*[-+*/|&^]?=(?!=)").match(source.code, access_end):
            insert_at = start if source.head(start) == start else access.start()
            yield "guard", [(insert_at, insert_at, f"if ({condition}) ")]
        else:
            yield "guard", [(access.start(), access_end, f"({condition} ? {element} : 0)")]


def _widen_index(source: _Source, start: int, end: int) -> Iterator[tuple[str, Edits]]:
    """Yield ("64-bit index", edits) that compute the products of the index at `start` in 64 bits, if it has any.

    Products are also those in the definitions of the index's `int` variables.
    """
    names = "|".join(map(re.escape, {*re.findall(r"[A-Za-z_]\w*", source.code[start:end])}))
    defined = re.compile(rf"\bint(?=\s+(?:{names})\s*=([^;]*);)").finditer(source.code, 0, start)
    definitions = [match for match in defined if names]
    edits = []
    for first, last in [(start, end), *(match.span(1) for match in definitions)]:
        # of two names, the first without a dot: blockIdx.x * blockDim.x stays small
        product = re.compile(r"(?<![\w.])[A-Za-z_]\w*\s*\*\s*(?=[A-Za-z_])")
        casts = [
            (factor.start(), factor.start(), "(long long)")
            for factor in product.finditer(source.code, first, last)
        ]
        edits += casts
        edits += [
            (*match.span(), "long long")
            for match in definitions
            if casts and match.start(1) == first
        ]
    if edits:
        yield "64-bit index", sorted(edits)


def _change_pitch(
    source: _Source, start: int, end: int, arguments: Mapping
) -> Iterator[tuple[str, Edits]]:
    """Yield ("index", edits) that replace a factor in an index, ``y * width``, by another size, ``y * height``.

    The index is source.code[start:end]; sizes are the integers among `arguments`.
    """
    sizes = [name for name, value in arguments.items() if type(value) is int]
    for factor in re.finditer(r"\b\w+(?=\s*\*)|(?<=\*)\s*\w+", source.code[start:end]):
        name = factor[0].strip()
        for size in sizes if name in sizes else ():
            if size != name:
                yield "index", [(start + factor.end() - len(name), start + factor.end(), size)]


def _initialize_memory(source: _Source, finding: dict, array: str) -> Iterator[tuple[str, Edits]]:
    """Yield (kind, edits) for a read of unset memory: an initial value, a barrier, or both.

    `array` is the name of the array, or "" if it is not known.
    """
    start, end = source.line(finding["line"])
    if finding["kind"] == "uninitialized variable":
        variable = re.search(r"variable (\w+)", finding["message"])[1]
        declared = re.compile(rf"\b{variable}\b\s*(\[[^;,]*\])?(?=\s*[;,])").search(
            source.code, start, end
        )
        if declared:
            yield (
                "initial value",
                [(declared.end(), declared.end(), " = {}" if declared[1] else " = 0")],
            )
        return
    if "shared" in finding["message"]:
        yield from _complete_branch(source, array)
    shared = array and re.search(
        rf"__shared__\s+[^;]*?\b{re.escape(array)}\b\s*((?:\[[^\]]*\]\s*)*);", source.code
    )
    if shared:
        barrier = source.before(source.head(start), _BARRIER)
        # line_start: a newline and the indentation
        at, line_start = (shared.end(), source.indent(shared.end()))
        # the first element: "[0][0]" of an array of two dimensions
        first = "[0]" * shared[1].count("[")
        rank = "threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)"
        fill = (
            f"for (int k = {rank}; k < sizeof({array}) / sizeof({array}{first}); k += blockDim.x * blockDim.y * "
            f"blockDim.z){line_start}  (&{array}{first})[k] = 0;"
            if first
            else f"if ({rank} == 0) {array} = 0;"
        )
        value = (at, at, f"{line_start}{fill}{line_start}{_BARRIER}")
        yield "barrier", [barrier]
        yield "initial value", [value]
        yield "initial value and barrier", [value, barrier]


def _complete_branch(source: _Source, array: str) -> Iterator[tuple[str, Edits]]:
    """Yield ("initial value", edits) that let `if (…) array[…] = …;` write a value in the other threads, too.

    Without a name, the array is one of dynamic shared memory.
    """
    names = (
        [array]
        if array.isidentifier()
        else re.findall(r"extern\s+__shared__[^;]*?(\w+)\s*\[", source.code)
    )
    for name in names:
        declared = re.search(
            rf"__shared__[^;]*\b(float|double|__half|half)\b[^;]*\b{re.escape(name)}\b", source.code
        )
        # for a maximum, a minimum, and last a sum: 0 is also right for a maximum of positive values only
        values = ["-INFINITY", "INFINITY", "0"] if declared else ["-2147483647", "2147483647", "0"]
        for branch in re.finditer(r"\bif\s*(?=\()", source.code):
            after = skip_bracket(source.code, branch.end())
            body = re.compile(
                rf"\s*(\{{)?\s*({re.escape(name)}\s*\[[^;=]*\])\s*=(?!=)[^;{{}}]*;(?(1)\s*\}})(?!\s*else\b)"
            ).match(source.code, after)
            for value in values if body else ():
                yield (
                    "initial value",
                    [(body.end(), body.end(), f" else {body[2].strip()} = {value};")],
                )
