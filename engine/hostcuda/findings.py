"""The findings of check mode: one for all accesses with the same error at the same place."""

from __future__ import annotations

import re
from collections.abc import Sequence

from hostcuda.frontend.scan import Scan, find_function_name

__all__ = ["of", "of_warnings"]

_UNSET = re.compile(r"(?m)^(.+):(\d+):\d+: warning: '(\w+)(\.[^'[]+)?(?:\[.*\])?' (is|may be) used uninitialized")
_GONE = re.compile(r"(?m)^(.+):(\d+):\d+: warning: (?:function returns address of local variable|"
                   r"(?:address of|reference to) local variable '\w+' returned)")
# An engine's own function, into which a kernel was inlined, has no name here.
_FUNCTION = re.compile(r"[Ii]n (?:static )?(?:member )?function '(?:[^'(]*\bhostcuda::|[^'(]*?(\w+)(?: *<.*>)?\()")


def of_warnings(warnings: str, source: str) -> list[dict]:
    """Return the findings in a compiler's warnings (`hostcuda.source.warnings_about`): unset variables, and gone ones.

    g++ is sure of some. Where it says "may be", a condition that it does not see may set the variable first. It is sure
    then, too, if each statement that sets the variable also reads it, as ``sum += x`` does. So is a member of a struct
    that is never named without a member.

    Returns
    -------
    list of dict
        Like those of `of`, one per variable, at the line of its declaration.
    """
    scan = Scan(source)
    lines = scan.masked.splitlines()
    rows: dict[tuple, dict] = {}
    for warning in _UNSET.finditer(warnings):
        file, line, name, member, how = warning.groups()
        declared = re.compile(rf"^{re.escape(file)}:(\d+):\d+: note: '{name}\b[^']*' (?:was )?declared here", re.M)
        note, after = declared.search(warnings, warning.end()), _UNSET.search(warnings, warning.end())
        number = int(note[1] if note and (not after or note.start() < after.start()) else line)
        member = re.sub(r".*\W", ".", member or "")
        if how != "is" and not _is_always_read(name, member, lines[number - 1 :]):
            continue
        name += member
        functions = _FUNCTION.findall(warnings[: warning.start()])
        if not functions or not functions[-1]:  # g++ 13 names the engine's own function
            functions = [_function_around(scan, number, name.partition(".")[0])]
        used = f"line {line} uses it" if int(line) != number else "it is used"
        if rows.get((file, number, name), {}).get("kernel"):
            continue
        message = f"the variable {name} has no value when {used}: give it one where it is declared"
        rows[file, number, name] = _make_row("initcheck", "uninitialized variable", functions, file, number, message)
    for warning in _GONE.finditer(warnings):
        message = "the function returns the address of a local variable, which ends with it: use an array of the caller"
        where, functions = (warning[1], int(warning[2])), _FUNCTION.findall(warnings[: warning.start()])
        rows[where] = _make_row("memcheck", "address of a local variable", functions, *where, message)
    return list(rows.values())


def _function_around(scan: Scan, line: int, name: str) -> str:
    """Return the name of the function in which a line declares a variable; empty if there is none."""
    start = sum(map(len, scan.masked.splitlines(keepends=True)[: line - 1]))
    declared = re.compile(rf"\b{name}\b").search(scan.masked, start)
    brace = scan.function(declared.start()) if declared else None
    return "" if brace is None else find_function_name(scan.code, scan.declaration_start(brace))


def _make_row(tool: str, kind: str, functions: Sequence[str], file: str, line: int, message: str) -> dict:
    """Return the finding in a compiler's warning, which is in the last of these functions."""
    return {
        "tool": tool, "kind": kind, "kernel": functions[-1] if functions else "", "file": file, "line": line,
        "block": None, "thread": None, "other": None, "address": 0, "size": 0, "buffer": None, "count": 1,
        "launches": None, "op": "", "source": "compiler", "message": message,
    }


def _is_always_read(name: str, member: str, lines: Sequence[str]) -> bool:
    """Return whether all statements that set a variable, or its ".member", also read it; the first line declares it."""
    scope, depth = "", 0
    for sign in "\n".join(lines).partition(name)[2]:
        depth += (sign == "{") - (sign == "}")
        if depth < 0:
            break
        scope += sign
    if member:
        variable = rf"\b{name}\s*\{member}\b"
        # It is set whole or by its function, or a reference or a call that is no intrinsic's may set the member.
        elsewhere = (rf"\b{name}\b(?!\s*\.)", rf"\b{name}\s*\.\s*\w+\s*\(",
                     rf"\b(?!__|if\b|while\b|return\b)\w+\s*\(\s*{variable}\s*[,)]", rf",\s*{variable}\s*[,)]",
                     rf"&\s*\w+\s*=\s*{variable}")
        if any(re.search(pattern, scope) for pattern in elsewhere):
            return False
    else:
        variable = rf"\b{name}\b"
    places = r"\s*(?:\[[^]]*\]\s*)*(?:\.\w+\s*)*"
    sets = re.finditer(rf"{variable}{places}=(?!=)([^;]*)", scope)
    return not re.search(rf"(?:&|>>)\s*{name}\b", scope) and all(re.search(variable, match[1]) for match in sets)


def of(records: Sequence[dict]) -> list[dict]:
    """Return the findings in the CPU engine's records, a dict per launch.

    Returns
    -------
    list of dict
        The fields of `hostcuda.checking.Finding`; ``count``; ``launches``, the number of those with it; and ``source``.
    """
    rows: dict[tuple, dict] = {}
    for record in records:
        seen = set()
        for finding in record["findings"]:
            other = finding["other"] or {}
            key = (*(finding[name] for name in ("tool", "kind", "kernel", "file", "line")),
                   other.get("file"), other.get("line"))
            row = rows.setdefault(key, {**finding, "count": 0, "launches": 0, "source": "CPU engine"})
            row["count"] += finding["count"]
            row["launches"] += key not in seen
            seen.add(key)
    return _fold(list(rows.values()))


def _follows(row: dict, what: tuple, races: dict[tuple, set], exited: list[tuple]) -> bool:
    """Return whether a finding follows from another: a read from a race there, an absent lane from an ended one."""
    place = (row["file"], row["line"])
    early = row["kind"] == "uninitialized" and place in races.get(what[1:], ())
    return early or (row["kind"] == "absent lane" and (row["kernel"], *place) in exited)


def _fold(rows: Sequence[dict]) -> list[dict]:
    """Return the rows, with one for all races on an array that share lines: often one barrier prevents all of them."""
    groups: list[tuple[tuple, set, list]] = []  # kind, kernel and array; the places; the rows
    for row in rows:
        ends = [row, row["other"]] if row["tool"] == "racecheck" and row["other"] and row["buffer"] else []
        places = {(end["file"], end["line"]) for end in ends if end["line"]}
        what = (row["kind"], row["kernel"], (row["buffer"] or {}).get("base"))
        joined = [group for group in groups if group[0] == what and group[1] & places]
        if not joined:
            groups.append((what, places, [row]))
            continue
        for _, others, members in joined[1:]:
            joined[0][1].update(others)
            joined[0][2].extend(members)
        joined[0][1].update(places)
        joined[0][2].append(row)
        groups = [group for group in groups if all(group is not other for other in joined[1:])]
    races = {what[1:]: places for what, places, members in groups if members[0]["tool"] == "racecheck"}
    exited = [(row["kernel"], row["file"], row["line"]) for row in rows if row["kind"] == "exited lanes"]
    groups = [group for group in groups if not _follows(group[2][0], group[0], races, exited)]
    for _, places, (first, *others) in groups:
        if not others:
            continue
        first["count"] += sum(row["count"] for row in others)
        first["launches"] = max(row["launches"] for row in (first, *others))
        lines = sorted({line for _, line in places})
        more = f"{len(others)} more pair{'s' * (len(others) > 1)}"
        first["message"] += f"; the same in {more} of accesses, lines {', '.join(map(str, lines))}"
    return [members[0] for _, _, members in groups]
