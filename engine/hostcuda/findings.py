"""The findings of check mode: one for all accesses with the same error at the same place."""

from __future__ import annotations

import re
from collections.abc import Sequence

from hostcuda.build.messages import NAME
from hostcuda.frontend.scan import Scan, find_function_name
from hostcuda.frontend.tokens import walk

__all__ = ["from_warnings", "list_findings"]

_UNSET = re.compile(
    r"(?m)^(.+):(\d+):\d+: warning: '(\w+)(\.[^'[]+)?(?:\[.*\])?' (is|may be) used uninitialized"
)
_GONE = re.compile(
    r"(?m)^(.+):(\d+):\d+: warning: (?:function returns address of local variable|"
    r"(?:address of|reference to) local variable '\w+' returned)"
)
# An engine's own function, into which a kernel was inlined, has no name here.
_FUNCTION = re.compile(
    r"[Ii]n (?:static )?(?:member )?function '(?:[^'(]*\bhostcuda::|[^'(]*?(\w+)(?: *<.*>)?\()"
)


def from_warnings(warnings: str, source: str) -> list[dict]:
    """Return the findings in a compiler's warnings about a source, from `hostcuda.source.warnings_about`.

    They are variables that are read before they are set, and returned addresses of local variables.
    Added are the local arrays of the source whose elements are only updated (``sums[i] += x``), of
    which a compiler does not warn.
    Where g++ says "may be used uninitialized", there is a finding only if each statement that sets
    the variable, or the member of a struct, also reads it, as ``sum += x`` does: otherwise a
    condition may set it first.

    Returns
    -------
    list of dict
        With the fields of a row of `list_findings`, one per variable, at the line of its
        declaration, or per returned address.
    """
    scan = Scan(source)
    lines = scan.masked.splitlines()
    rows: dict[tuple, dict] = {}
    for warning in _UNSET.finditer(warnings):
        file, line, name, member, how = warning.groups()  # how: "is" or "may be" used
        declared = re.compile(
            rf"^{re.escape(file)}:(\d+):\d+: note: '{name}\b[^']*' (?:was )?declared here", re.M
        )
        note = declared.search(warnings, warning.end())
        next_warning = _UNSET.search(warnings, warning.end())
        is_own_note = note and (not next_warning or note.start() < next_warning.start())
        number = int(note[1] if is_own_note else line)  # of the declaration, if the note tells it
        member = re.sub(r"\w+::", "", member or "")  # of ".P::a.In::x" it is ".a.x"
        is_read = _is_member_always_read if member else _is_always_read
        if how != "is" and not is_read(name + member, lines, number):
            continue
        name += member
        functions = _FUNCTION.findall(warnings[: warning.start()])
        if not functions or not functions[-1]:  # g++ 13 names the engine's own function
            functions = [_function_around(scan, number, name.partition(".")[0])]
        used = f"line {line} uses it" if int(line) != number else "it is used"
        # of several warnings about a variable, the first that names its function stays
        if rows.get((file, number, name), {}).get("kernel"):
            continue
        message = f"the variable {name} has no value when {used}: give it one where it is declared"
        rows[file, number, name] = _make_row(
            "initcheck", "uninitialized variable", functions, file, number, message
        )
    for warning in _GONE.finditer(warnings):
        message = "the function returns the address of a local variable, which ends with it: use an array of the caller"
        file, number = warning[1], int(warning[2])
        functions = _FUNCTION.findall(warnings[: warning.start()])
        rows[file, number] = _make_row(
            "memcheck", "address of a local variable", functions, file, number, message
        )
    for file, number, name, kernel in _list_updated_arrays(scan):
        message = (
            f"the elements of {name} have no value when they are updated: set them where the array "
            f"is declared, as in {name}[4] = {{}}"
        )
        # unless a warning names it: such a row has the key (file, number, name)
        if not any((number, name) == place[1:] for place in rows):
            rows[file, number, name] = _make_row(
                "initcheck", "uninitialized variable", [kernel], file or NAME, number, message
            )
    return list(rows.values())


# A declaration of local arrays without values, "float sums[4], more[2][2];": the group `type` is "float ", the group
# `list` is "sums[4], more[2][2]".
_LOCAL_ARRAYS = re.compile(
    r"(?<=[;{}])\s*(?!return\b|delete\b|goto\b)(?P<type>(?:[A-Za-z_]\w*\s+){1,3})"
    r"(?P<list>[A-Za-z_]\w*\s*(?:\[[^][;={}]*\]\s*)+(?:,\s*[A-Za-z_]\w*\s*(?:\[[^][;={}]*\]\s*)+)*);"
)
_SHARED = re.compile(r"__shared__ array|\bshared memory\b")  # in the message of a finding
# A declaration with one of these words declares no local array of a thread.
_NOT_LOCAL = {"extern", "static", "typedef", "using", "__shared__", "__constant__", "__device__"}
_INDICES = re.compile(r"\s*\[((?:[^][]|\[[^][]*\])*)\]")
_UPDATE = re.compile(r"\s*(?:(?:[-+*/%&|^]|<<|>>)=|\+\+|--)")
# functions that take numbers by value
_OF_NUMBERS = re.compile(r"\b(?:f?(?:max|min|abs)f?|fmaf?|__\w+_r[nzud])\s*\((?:[^();]*,)?\s*$")


def _list_updated_arrays(scan: Scan) -> list[tuple[str, int, str, str]]:
    """Return (file, line, name, function) of each local array of a kernel whose elements are updated and never set.

    An update reads what it writes, as ``sums[i] += x`` does. An array is left out if a use may set an
    element in another way, e.g. as an argument that may be a reference.
    """
    found = []
    for match in _LOCAL_ARRAYS.finditer(scan.code):
        brace = scan.function(match.start("list"))
        if (
            brace is None
            or not scan.on_device(match.start("list"))
            or set(match["type"].split()) & _NOT_LOCAL
        ):
            continue
        end = _find_scope_end(scan.code, match.end())
        for name in re.findall(r"([A-Za-z_]\w*)\s*\[", re.sub(r"\[[^][]*\]", "[]", match["list"])):
            if _is_only_updated(name, scan, match.end(), end):
                at = match.start("list") + re.search(rf"\b{name}\b", match["list"]).start()
                kernel = find_function_name(scan.code, scan.declaration_start(brace))
                found.append((*scan.place(at), name, kernel))
    return found


def _find_scope_end(code: str, at: int) -> int:
    """Return the position of the ``}`` that ends the block around a position, or the end of the text."""
    depth = 0
    for brace in re.compile(r"[{}]").finditer(code, at):
        depth += 1 if brace[0] == "{" else -1
        if depth < 0:
            return brace.start()
    return len(code)


def _is_only_updated(name: str, scan: Scan, start: int, end: int) -> bool:
    """Return whether code[start:end] updates elements of the array `name`, and has no use that may set one."""
    code = scan.code
    macros = (each["rest"] for each in scan.directives if each["word"] == "define")
    if any(re.search(rf"\b{name}\b", macro) for macro in macros):
        return False
    updated = False
    for use in re.compile(rf"(?<![.\w])(?<!->){name}\b").finditer(code, start, end):
        before, at = code[max(start, use.start() - 200) : use.start()], use.end()
        if not _INDICES.match(code, at):
            return False  # the array as a whole
        while index := _INDICES.match(code, at):
            at = index.end()
        after = code[at : at + 2].lstrip()
        if _UPDATE.match(code, at) or re.search(r"(?:\+\+|--)\s*$", before):
            updated = True
        elif re.match(r"\s*=(?!=)", code[at : at + 3]):
            value = code[at : code.find(";", at)]
            if not re.search(rf"\b{name}\b", value) or "?" in value:
                return False
            updated = True
        elif after[:1] not in "+-*/%;)],<>!&|^?:=" or re.search(
            r"(?:&|>>)\s*(?:\w+\s*=\s*)?$", before
        ):
            return False  # a member, an address, a reference
        elif (
            after[:1] in "),:?"
            and re.search(r"[(,?:]\s*$", before)
            and not _OF_NUMBERS.search(before)
        ):
            return False  # an argument, which may be a reference
    return updated


def _function_around(scan: Scan, line: int, name: str) -> str:
    """Return the name of the function in which a line, numbered from 1, declares the variable `name`; "" if none."""
    start = sum(map(len, scan.masked.splitlines(keepends=True)[: line - 1]))
    declared = re.compile(rf"\b{name}\b").search(scan.masked, start)
    brace = scan.function(declared.start()) if declared else None
    return "" if brace is None else find_function_name(scan.code, scan.declaration_start(brace))


def _make_row(
    tool: str, kind: str, functions: Sequence[str], file: str, line: int, message: str
) -> dict:
    """Return a finding of the compiler with the fields of a row of `list_findings`; a compiler knows no threads.

    Its kernel is the last of `functions`, the names in the compiler's output up to the warning; "" if
    there is none.
    """
    return {
        "tool": tool,
        "kind": kind,
        "kernel": functions[-1] if functions else "",
        "file": file,
        "line": line,
        "block": None,
        "thread": None,
        "other": None,
        "address": 0,
        "size": 0,
        "buffer": None,
        "count": 1,
        "launches": None,
        "op": "",
        "source": "compiler",
        "message": message,
    }


def _cut_scope(name: str, lines: Sequence[str], number: int) -> str:
    """Return the text from a variable's name, declared in the line `number` (from 1), to the end of its block."""
    scope = re.split(rf"\b{name}\b", "\n".join(lines[number - 1 :]), maxsplit=1)[-1]
    # the first bracket behind which more are closed than opened closes the block
    ends = (bracket.start() for bracket, depth, _ in walk(scope, "[{}]") if depth < 0)
    return scope[: next(ends, None)]


def _is_always_read(name: str, lines: Sequence[str], number: int) -> bool:
    """Return whether all statements that set the variable `name`, declared in line `number` (from 1), also read it."""
    scope = _cut_scope(name, lines, number)
    # ``name[…].member = value``; taking its address, or reading a stream into it, may set it, too.
    sets = re.finditer(rf"\b{name}\b\s*(?:\[[^]]*\]\s*)*(?:\.\w+\s*)*=(?!=)([^;]*)", scope)
    return not re.search(rf"(?:&|>>)\s*{name}\b", scope) and all(
        re.search(rf"\b{name}\b", match[1]) for match in sets
    )


# What takes a number by its value; a function of the reader's may take a reference.
_BY_VALUE = re.compile(r"\b__(?:float2|half2|f(?:add|sub|mul|div)_)\w*\(\s*$")


def _is_member_always_read(path: str, lines: Sequence[str], number: int) -> bool:
    """Return whether "variable.member", of which g++ warns, is read and certainly never set.

    Whatever may set it, such as a reference to the variable, makes that uncertain. The line
    `number` declares it. Accepted are ``v.x += …``, ``v.x = … v.x …``, operands, and
    arguments of intrinsics.
    """
    name, _, member = path.partition(".")
    scope = _cut_scope(name, lines, number)
    if "." in member or any(re.search(rf"#\s*define\b.*\b{name}\b", line) for line in lines):
        return False
    for use in re.finditer(rf"\b{name}\b(\s*\.\s*(\w+))?", scope):
        before, after = scope[: use.start()].rstrip(), scope[use.end() :].lstrip()
        if not use[1] or after.startswith("("):  # the variable as a whole, or a call of its method
            return False
        # another member, or ``v.x += …``
        if use[2] != member or re.match(r"(?:[-+*/%&|^]|<<|>>)=", after):
            continue
        if assigned := re.match(r"=(?!=)([^;?]*);", after):  # ``v.x = …;``, which has to read v.x
            if not re.search(rf"\b{name}\s*\.\s*{member}\b", assigned[1]) or not re.search(
                r"[;{})]$", before
            ):
                return False
        elif re.match("[,)]", after):  # an argument
            if not _BY_VALUE.search(before):
                return False
        # no operand, or bound to a reference: ``float &a = v.x``
        elif (
            not re.match(r"[-+*/;\]]", after)
            or not re.search(r"[-+*/=\[]$|\breturn$", before)
            or re.search(r"&\s*\w+\s*=$", before)
        ):
            return False
    return True


def list_findings(records: Sequence[dict]) -> list[dict]:
    """Return the findings in the CPU engine's records, equal ones as one.

    Parameters
    ----------
    records : sequence of dict
        One per launch; ``findings`` is the list of its findings.

    Returns
    -------
    list of dict
        One for all accesses of the same kernel and line (of both lines, for a race) with the same
        error. The fields are those of `hostcuda.checking.Finding`, of the first of these accesses;
        ``count``, their number; ``launches``, in how many launches they are; and ``source``, "CPU
        engine". A finding that follows from another one is left out.
    """
    rows: dict[tuple, dict] = {}
    for record in records:
        seen = set()
        for finding in record["findings"]:
            other = finding["other"] or {}
            key = (
                *(finding[name] for name in ("tool", "kind", "kernel", "file", "line")),
                other.get("file"),
                other.get("line"),
            )
            row = rows.setdefault(
                key, {**finding, "count": 0, "launches": 0, "source": "CPU engine"}
            )
            row["count"] += finding["count"]
            row["launches"] += key not in seen  # each launch once
            seen.add(key)
    return _fold(list(rows.values()))


def _find_race(row: dict, key: tuple, groups: Sequence[tuple[tuple, set, list]]) -> tuple | None:
    """Return the group of races from which a read of unset memory follows, or None if there is none.

    It is one on the same array, with the line of the read, which may come too early. A `row`
    that is no read of unset memory follows from no race.

    Parameters
    ----------
    row : dict
        The finding.
    key : tuple
        Its kind, kernel and address of the array.
    groups : sequence of tuple
        Those of `_fold`: each has such a key, its places, (file, line) each, and its rows.
    """
    place = (row["file"], row["line"])
    races = (
        group
        for group in groups
        if group[2][0]["tool"] == "racecheck" and group[0][1:] == key[1:] and place in group[1]
    )
    return next(races, None) if row["kind"] == "uninitialized" else None


def _identify_array(row: dict) -> object:
    """Return what tells the array of a finding from others: its address, or the name and size of a shared one.

    Each worker thread, which runs some of the blocks, has shared arrays at addresses of its own.
    """
    buffer = row["buffer"] or {}
    if _SHARED.search(row["message"]):
        return buffer.get("name"), buffer.get("bytes")
    return buffer.get("base")


def _fold(rows: Sequence[dict]) -> list[dict]:
    """Return the findings without those that follow from others, and with related races as one.

    Races on the same array are related if they share a line, directly or through other races. The
    first of them stands for all; its message names their lines, and those that read unset memory
    (`_find_race`). An absent lane follows from lanes that had exited at the same line.
    """
    # per group: (kind, kernel, address of the array); its places, (file, line) each; its rows
    groups: list[tuple[tuple, set, list]] = []
    for row in rows:
        accesses = (
            [row, row["other"]]
            if row["tool"] == "racecheck" and row["other"] and row["buffer"]
            else []
        )
        places = {(access["file"], access["line"]) for access in accesses if access["line"]}
        key = (row["kind"], row["kernel"], _identify_array(row))
        joined = [group for group in groups if group[0] == key and group[1] & places]
        if not joined:
            groups.append((key, places, [row]))
            continue
        # the row joins the first of these groups, and connects the others with it
        for _, others, members in joined[1:]:
            joined[0][1].update(others)
            joined[0][2].extend(members)
        joined[0][1].update(places)
        joined[0][2].append(row)
        groups = [group for group in groups if all(group is not other for other in joined[1:])]
    exited = {
        (row["kernel"], row["file"], row["line"]) for row in rows if row["kind"] == "exited lanes"
    }
    told, early = [], {}  # early: id of a group of races -> lines that read unset memory
    for group in groups:
        key, _, (row, *_) = group
        if race := _find_race(row, key, groups):
            early.setdefault(id(race), set()).add(row["line"])
        elif (
            row["kind"] != "absent lane" or (row["kernel"], row["file"], row["line"]) not in exited
        ):
            told.append(group)
    for group in told:
        _, places, (first, *others) = group
        if others:
            first["count"] += sum(row["count"] for row in others)
            first["launches"] = max(row["launches"] for row in (first, *others))
            more = f"{len(others)} more pair{'s' * (len(others) > 1)} of accesses"
            first["message"] += f"; the same in {more}, {_name_lines({line for _, line in places})}"
        if lines := early.get(id(group)):
            reads = "reads" if len(lines) == 1 else "read"
            first["message"] += f"; {_name_lines(lines)} {reads} what nothing has written yet"
    return [members[0] for _, _, members in told]


def _name_lines(lines: set[int]) -> str:
    """Return "lines 3, 4", or "line 3" of a single one."""
    return f"line{'s' * (len(lines) > 1)} {', '.join(map(str, sorted(lines)))}"
