"""The report about a kernel or a program: verdict, findings, results, counts that moved, the busiest unit, what next.

The verdict is that of `hostcuda.sanitize.Findings`, and then of the results. A kernel runs in a
process of its own (`hostcuda.agent.child`), in a sandbox if it is somebody else's
(`hostcuda.sandbox`).
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import hostcuda
from hostcuda import checking, sandbox, sanitize, stepping
from hostcuda.agent import repair
from hostcuda.agent.advice import say_next
from hostcuda.agent.cases import describe_case_fault
from hostcuda.agent.run import (
    CASES,
    MEMORY,
    REFERENCE,
    SOURCE,
    TOOLS,
    Run,
    build_job,
    choose_tools,
    run_job,
)
from hostcuda.metrics import COUNTERS
from hostcuda.source import code_only, get_line
from hostcuda.tables import escape_controls
from hostcuda.waste import find_waste

MOST_JSON, MOST_TEXT = 8000, 2000  # bytes of a report
# The most findings, results and lines in a report, and the most characters of what a program printed.
_FINDINGS, _RESULTS, _LINES, _PRINTED = (5, 8, 8, 600)
_RESULTS_IN_TEXT, _CHANGES_IN_TEXT, _PRINTED_IN_TEXT = 3, 6, 300
_TEXT, _SHORT_TEXT = 160, 80  # characters of a line of the source
# of the time, for the run before repairs; left for another run
_FIRST_SHARE, _LEAST_SECONDS = (0.7, 2)
# line, column, message
_ERROR = re.compile(r"(?m)^(?:.*/)?[\w.-]+:(\d+):(?:(\d+):)? (?:fatal )?error: (.*)$")
# Addresses and masks, folders before a file's name, "LaunchError: ", and "memcheck, racecheck: ".
_NOT_SAID = re.compile(
    r"[,:]? (?:at )?(?:address )?0x[0-9a-fA-F]+|(?:/[\w.+-]+)+/(?=[\w.-])|^\w*Error: "
    r"|^(?:\w+check(?:, |: ))+"
)
# "* 100000" or "100000 *"
_PRODUCT = re.compile(r"[*]\s*(\d{5,10})\b(?![.\w])|(?<![\w.])(\d{5,10})\s*[*]")
# a quotient of two literals
_QUOTIENT = re.compile(r"(?<![\w.])(\d{1,9})\s*/\s*(\d{1,9})(?![\w.])")
# flags of such warnings
_NOT_TELLING = re.compile(r"\[-Wunused-(?!parameter)|(?:float|double|half).*onversion\]")
_WARNED = re.compile(r":(\d+): warning: (.*?)( \[-W.*\])?$")  # column, message, flag
# What to add to a warning, by a part of its flag, such as [-Wunused-parameter]; "/": to one about a
# quotient.
_ADVICE = {
    "unused-par": ": the launch passes it, so use it",
    "onversion": ": take a type that holds every value",
    "/": ": a quotient of integers has no fraction, so convert one of them to float first",
}
_REMEDIES = {  # kind of a finding -> what to do, where the finding itself does not say it
    "exited lanes": "let all lanes of the warp reach it: take it out of the branch, or let no lane return before, "
    "and give lanes without an element a value that changes nothing, such as 0 for a sum",
}
_FIGURES = {"requests": ("requests",), "units": ("sectors", "wavefronts"), "extra": ("conflicts",)}


def check(
    source: str,
    kernel: str = "",
    cases: Sequence[Mapping] = (),
    reference: str = "",
    *,
    rtol: float | None = None,
    atol: float | None = None,
    options: str = "",
    previous: Mapping | None = None,
    repairs: bool = True,
    seconds: int = 60,
    walled: bool = False,
) -> dict:
    """Check a kernel on its cases, or a program with its ``main``; return one report.

    Parameters
    ----------
    source : str
        CUDA C++: kernels alone, or a program, which gets no cases.
    kernel : str
        The kernel's name; not needed if there is one.
    cases : sequence of mapping
        ``grid``, ``block``, ``arguments`` by the parameters' names, optionally ``name`` and
        ``shared_bytes``: docs/agents.md says what an argument is. For a source without ``main`` whose host
        code launches the kernels, only the ``arguments`` of its function (`hostcuda.source.host_entry`).
        A ``__constant__`` array has ``role`` "constant".
    reference : str
        Python: ``def reference(**arguments)`` returns a dict of arrays, or the array that the
        kernel writes.
    rtol, atol : float, optional
        A result is right within `atol` + `rtol` |what is right|. By default `rtol` is 1e-4 for float32,
        1e-2 for float16, 1e-10 for float64 and 0 for integers, and `atol` is `rtol` times the root of
        the mean square of what is right.
    options : str
        nvcc's: -D, -U, -std, -arch, -use_fast_math, --extended-lambda.
    previous : mapping, optional
        An earlier report, with which counts are compared.
    repairs : bool
        Try repairs of what is found.
    seconds : int
        The time for the launches with their reference, or for the program's ``main``, without
        compilations: 5 to 300.
    walled : bool
        Run the kernel in a sandbox.

    Returns
    -------
    dict
        ``verdict``, ``findings``, ``results``, ``next`` and further keys: docs/agents.md lists them.

    Raises
    ------
    EngineError
        The request is malformed, or there is no sandbox.
    """
    program = not cases and bool(re.search(r"\bmain\s*\(", code_only(source)))
    job = build_job(
        "check",
        source,
        kernel,
        cases,
        options,
        seconds,
        reference=reference,
        rtol=rtol,
        atol=atol,
        program=program,
    )
    # compile the engine's own files before the time begins to count; a sandbox does so itself
    if not walled:
        sanitize.prepare(TOOLS, job["options"], program or bool(job["entry"]))
    # repairs get the rest of the time
    first_run = run_job(job, _FIRST_SHARE * seconds if repairs else seconds, walled)
    # counted from here: the first run began with a compilation, maybe also of the engine, which does not count
    deadline = time.monotonic() + (1 - _FIRST_SHARE) * seconds
    report = _build_report(first_run, job, previous)

    def run_source(text: str, cases: Sequence[Mapping]) -> Run | None:
        """Run an edited source on cases; return None if there is no time left for it."""
        left = deadline - time.monotonic()
        edited = {**job, "source": text, "cases": [*cases]}
        return run_job(edited, left, walled) if left > _LEAST_SECONDS else None

    if (
        repairs
        and cases
        and report["verdict"] == "unsafe"
        and (found := repair.search(first_run, job, run_source))
    ):
        report["repair"] = {"kind": found.kind, "diff": found.diff, "verified": not found.doubt}
        report["next"] = (
            f"Try the edit ({found.kind}): with it nothing is found, but {found.doubt}."
            if found.doubt
            else f"Apply the repair ({found.kind}): it was run, and with it nothing is found and all results of "
            f"{len(cases)} case{'s' * (len(cases) > 1)} are right."
        )
    return _shorten(report)


def look(
    what: str,
    source: str,
    kernel: str,
    case: Mapping,
    *,
    options: str = "",
    thread: Sequence[int] = (0, 0, 0),
    block: Sequence[int] = (0, 0, 0),
    start: int = 0,
    seconds: int = 60,
    walled: bool = False,
) -> dict:
    """Return, as a dict, the counts of one launch's lines with their worst requests, or the steps of one thread.

    These are its ``lines`` or ``steps``, a list of dicts. It also has ``omitted``, how many more there
    are behind the last, with a sentence ``next`` on how to get them; and ``why_none`` if the list is empty.

    Parameters
    ----------
    what : {"lines", "step"}
    source, kernel, case, options, seconds, walled
        As for `check`.
    thread, block : sequence of int
        Index (x, y, z) of the thread to follow in its block, and of the block.
    start : int
        Leave out so many lines or steps before the first.
    """
    job = build_job(
        what,
        source,
        kernel,
        [case],
        options,
        seconds,
        program=False,
        thread=[*thread],
        block=[*block],
        start=max(0, start),
    )
    if not walled:
        sanitize.prepare(choose_tools(what), job["options"], bool(job["entry"]))
    run = run_job(job, seconds, walled)
    # "lines" answers {"site": row}, "step" answers with the rows themselves, which have a "line"
    rows = [answer.get("site", answer) for answer in run.select("site") + run.select("line")]
    source_lines = source.splitlines()
    for row in rows:
        row["text"] = get_line(row["line"], source_lines).strip()[:_SHORT_TEXT]
    count = sum(answer["ran"] for answer in run.select("ran"))  # of rows, also before `start`
    result: dict = {"steps" if what == "step" else "lines": rows}
    if not rows:
        verdict, reason = run.findings.outcome
        if count:
            reason = f"start is {start} of {count}"
        elif what == "step" and verdict == "pass":
            place = f"thread {tuple(thread)} of block {tuple(block)}"
            reason = f"the launch has no {place}, or it runs no line of the kernel"
        result["why_none"] = _clean(reason.splitlines()[0])
    while rows and len(json.dumps(result)) > MOST_TEXT - 100:  # 100: for `omitted` and `next`
        rows.pop()
    result["omitted"] = max(0, count - job["start"] - len(rows))
    if result["omitted"]:
        result["next"] = (
            f"{result['omitted']} more were cut: ask again with start = {job['start'] + len(rows)}"
        )
    return result


def capabilities() -> dict:
    """Return what this machine can check, as a dict: version, sandbox, tools, what is not seen or not run, limits."""
    return {
        "version": hostcuda.__version__,
        "sandbox": sandbox.why_not() or sandbox.describe_walls(),  # why there is none, or its walls
        "tools": [*sanitize.TOOLS],
        "steps_of_a_thread": stepping.why_not() or "yes",  # or why they cannot be followed
        "not_seen": [] if checking.fills_variables() else ["uninitialized variables in registers"],
        "not_run": [
            "texture references",
            "kernels that launch kernels",
            "cuBLAS and the like",
        ],
        "limits": {
            "seconds": [5, 300],
            "cases": CASES,
            "source_bytes": SOURCE,
            "reference_bytes": REFERENCE,
            "memory_bytes": MEMORY,
        },
    }


def _identify(job: Mapping) -> str:
    """Return eight hexadecimal digits that tell a check from one with another source, cases, reference or options."""
    names = "source", "cases", "kernel", "options", "reference", "rtol", "atol"
    return hashlib.sha256(json.dumps([job[name] for name in names]).encode()).hexdigest()[:8]


def _build_report(run: Run, job: Mapping, previous: Mapping | None) -> dict:
    """Return the report of a run, a dict that docs/agents.md describes; add what changed since the `previous` one."""
    verdict, reason = run.decide_verdict(job)
    lines, child = run.source.splitlines(), run.findings.ended
    unseen = [run.findings.note] if run.findings.note else []
    unseen += ["uninitialized variables in registers"] * any(
        not answer["filled"] for answer in run.select("filled")
    )
    unchecked_arrays = sorted({name for answer in run.select("ended") for name in answer["left"]})
    if unchecked_arrays or not (job["reference"] or job["program"]):
        unseen.append(
            f"results: no reference says what is right in {', '.join(unchecked_arrays) or 'the arrays'}"
        )
    report: dict = {
        "report": "r" + _identify(job),
        "cases": hashlib.sha256(json.dumps(job["cases"], sort_keys=True).encode()).hexdigest()[:8],
        "verdict": verdict.replace(" ", "_"),
        "checked": {
            "cases": len(run.select("ended")),
            "launches": run.findings.launches or 0,
            "complete": run.findings.whole
            and not child.stopped
            and bool(run.records)
            and not any(record["error"] for record in run.records),
            "tools": [*sanitize.TOOLS],
            "not_seen": [*map(_clean, unseen)],
        },
        "findings": [
            {name: fact for name, fact in finding.items() if fact}
            for finding in _list_findings(run, verdict, reason, lines, job["kernel"])
        ],
        "results": [
            {name: fact for name, fact in answer.items() if fact}
            for answer in run.wrong
            if "not checked to the end" not in run.findings.note
        ],  # else blocks may not have run
    }
    first = reason.partition("\n")[0]
    if job["program"] and (
        printed := [line for line in child.output.splitlines() if not first or first not in line]
    ):
        report["printed"] = _clean("\n".join(printed), _PRINTED)
    report["counts"], report["lines"] = _count_accesses(run.records, lines)
    if verdict == "pass" and (named := [answer["busiest"] for answer in run.select("busiest")]):
        report["busiest"] = named[-1]
    if run.records and (waste := find_waste(run.records, run.source)):
        text = _shorten_line(get_line(waste.line, lines))
        facts = {"line": waste.line, "text": text}
        report["slow"] = {**(facts if waste.line else {}), "says": f"{waste.says}: {waste.remedy}"}
    if previous:
        _add_changes(report, previous)
    report["next"] = describe_case_fault(run, job) or say_next(
        report, _clean(first), run.source, job["kernel"]
    )
    if verdict == "not checked" and (examples := run.select("example")):
        case = json.dumps({"cases": [examples[0]["example"]]})
        report["next"] = (
            f"No case says how to launch it. Give one with your sizes, in the .json file of its name: {case}"
        )
    return report


def _list_findings(
    run: Run, verdict: str, reason: str, lines: Sequence[str], kernel: str
) -> list[dict]:
    """Return the report's findings, each a dict as from `_locate`: the compiler's errors, or those of the tools.

    The latter also have "other" (the other access of a race), "thread", "accesses", "cases" and "remedy". `verdict`
    and `reason` are of `Run.decide_verdict`. `_list_doubts` are added where they may be the cause.
    """
    if verdict == "compile error":
        # of equal messages the first
        errors = {match[3]: match for match in reversed([*_ERROR.finditer(reason)])}
        findings = [
            _locate("compile error", int(match[1]), lines, message, column=int(match[2] or 0))
            for message, match in reversed(errors.items())
        ]
        return findings or [{"kind": "compile error", "says": _clean(reason.splitlines()[-1])}]
    findings, tool_findings = [], run.findings.rows
    if verdict == "hang":
        # "memcheck: nothing found; the program did not end within 60 s …": say the end. A loop's
        # message is said whole.
        findings.append(
            _locate(
                "hang",
                _find_stop(run, reason),
                lines,
                _clean(reason.rpartition("; the program ")[2]),
            )
        )
    names = [answer["launching"] for answer in run.select("launching")]
    for finding in tool_findings:
        array = finding["buffer"].get("name", "") if isinstance(finding["buffer"], dict) else ""
        other = (
            finding["other"]
            if isinstance(finding["other"], dict) and finding["other"]["line"]
            else None
        )
        message = _clean(re.sub(f"^{finding['kind']}[:,] ", "", finding["message"]))
        findings.append(
            {
                **_locate(finding["kind"], finding["line"], lines, message, array, finding["op"]),
                "other": other
                and {
                    field: fact
                    for field, fact in _locate(
                        "", other["line"], lines, "", array, other.get("op", "")
                    ).items()
                    if fact
                },
                "thread": sanitize._format_thread(finding),
                "accesses": finding["count"],
                "cases": [names[case] for case in run.find_cases(finding)],
                "remedy": finding["remedy"] or _REMEDIES.get(finding["kind"], ""),
            }
        )
    doubtful = verdict == "wrong result" or any(
        finding["tool"] == "memcheck" for finding in tool_findings
    )
    return [*findings, *(_list_doubts(run.findings.events, lines, kernel) if doubtful else ())]


def _list_doubts(events: Sequence[Mapping], lines: Sequence[str], kernel: str) -> Iterator[dict]:
    """Yield a finding per place that may explain a wrong result, although no tool found an error there.

    They are quotients of literals that are 0 (``1 / 2``), telling warnings of the compiler among `events`, and
    products that may overflow an int. `lines` are the source's.
    """
    texts = code_only("\n".join(lines)).splitlines()
    for number, text in enumerate(texts, 1):
        for match in _QUOTIENT.finditer(text):
            if 0 < int(match[1]) < int(match[2]):
                message = (
                    f"{match[0]} is 0, a quotient of integers: write {match[1]}.0f / {match[2]}"
                )
                yield _locate("integers divided", number, lines, message, column=match.start() + 1)
    warnings = [event for event in events if event["kind"] == "warning" and event.get("line")]
    for event in sorted(warnings, key=lambda event: event["line"]):
        if warned := _WARNED.search(event["message"]):
            (column, message, flag), text = warned.groups(""), get_line(event["line"], lines)
            if int(column or 0) > len(text):  # in what the engine has added there
                continue
            divides = "to 'float'" in message and text[int(column) - 1 :][:1] == "/"
            if divides or not (
                _NOT_TELLING.search(event["message"]) or ("unused" in flag and kernel not in text)
            ):
                advice = "/" if divides else next((part for part in _ADVICE if part in flag), "")
                yield _locate(
                    "compiler's warning",
                    event["line"],
                    lines,
                    message + _ADVICE.get(advice, ""),
                    column=int(column or 0),
                )
    for number, text in enumerate(texts, 1):
        if (product := _PRODUCT.search(text)) and 0 < (
            factor := int(product[1] or product[2])
        ) < 2**31:
            message = f"a product with {factor} overflows 32 bits if the other factor is an int over {2**31 // factor}"
            yield _locate("possible overflow", number, lines, message)


def _find_stop(run: Run, reason: str) -> int:
    """Return the line where a launch that hangs was stopped, or which accessed memory most often; 0: unknown."""
    named_line = re.search(
        r"\w\.cu:(\d+)", " ".join([reason, *(record["error"] for record in run.records)])
    )
    sites = run.records[-1]["sites"] if run.records else []
    busiest_site = max(
        (site for site in sites if site["line"]),
        key=lambda site: site["requests"],
        default={"line": 0},
    )
    return int(named_line[1]) if named_line else busiest_site["line"]


def _clean(text: str, most: int = 300) -> str:
    """Return at most `most` characters of a text, without addresses, folders and the names of Python's exceptions."""
    return _NOT_SAID.sub("", text).strip()[:most]


def _shorten_line(text: str) -> str:
    """Return a line of the source without its indent; a long one ends after a word, with an ellipsis."""
    text = text.strip()
    return text if len(text) <= _TEXT else f"{text[:_TEXT].rpartition(' ')[0]} …"


def _locate(
    kind: str,
    line: int,
    lines: Sequence[str],
    message: str,
    array: str = "",
    op: str = "",
    column: int = 0,
) -> dict:
    """Return a finding as a dict: its kind, line, message, the line's text, and the text "^~~~" to print below it.

    The caret marks the last access to `array` (the first if `op` is "st"), or the word at `column`, or the line.
    """
    text = get_line(line, lines)
    start, end = len(text) - len(text.lstrip()), len(text.rstrip())
    # `a[…]…`, whose indices may have brackets of their own
    accesses = (
        [*re.finditer(rf"\b{re.escape(array)}\s*(?:\[[^][]*(?:\[[^]]*\][^][]*)*\]\s*)+", text)]
        if array
        else []
    )
    if accesses:
        start, end = accesses[0 if op == "st" else -1].span()
    elif column:
        start, end = (
            column - 1,
            column - 1 + len((re.compile(r"\w+").match(text, column - 1) or " ")[0]),
        )
    caret = " " * start + "^" + "~" * (len(text[start:end].rstrip()) - 1) if text else ""
    return {
        "kind": kind,
        "line": line,
        "text": text[:_TEXT],
        "caret": caret[:_TEXT],
        "array": array,
        "says": message,
    }


def _count_accesses(
    records: Sequence[Mapping], lines: Sequence[str]
) -> tuple[list[dict], list[dict]]:
    """Sum the launches' counters; return two lists of dicts.

    The first is per counter that is not zero: ``counter``, ``value``, and the ``line`` with the largest part. The
    second is per busiest line, at most `_LINES`: ``line``, ``text`` from the source's `lines`, and its ``counts``.
    """
    by_line: dict[int, Counter] = {}
    for site in (site for record in records for site in record["sites"] if site["line"]):
        # it sums one `figure` of all accesses to its `space` with its `op` ("": any)
        for counter in COUNTERS:
            names = _FIGURES.get(counter.figure, ())
            if names and counter.space == site["space"] and counter.op in ("", site["op"]):
                figure = next((site[name] for name in names if name in site), 0)
                by_line.setdefault(site["line"], Counter())[counter.name] += figure
    totals = sum(by_line.values(), Counter())  # of what is not zero
    counts = [
        {
            "counter": name,
            "value": value,
            "line": max(by_line, key=lambda line: by_line[line][name]),
        }
        for name, value in totals.items()
    ]
    busiest = sorted(by_line, key=lambda line: -max(by_line[line].values()))[:_LINES]
    # `+`: without the counters that are zero
    return counts, [
        {"line": line, "text": get_line(line, lines).strip()[:60], "counts": dict(+by_line[line])}
        for line in sorted(busiest)
    ]


def _add_changes(report: dict, previous: Mapping) -> None:
    """Add to `report` what changed since an earlier report of the same cases.

    In ``counts``, changed counters come first, with the value ``before`` and the ``line`` that changed most. If the
    two cannot be compared, only ``not_compared`` is added: it says why.
    """
    if previous.get("cases") != report["cases"]:
        report["not_compared"] = "the previous report has other cases"
        return
    if not (report["checked"]["complete"] and previous.get("checked", {}).get("complete", True)):
        report["not_compared"] = (
            "one of the two runs was not complete, so their counts differ anyway"
        )
        return
    old_values = {count["counter"]: count["value"] for count in previous.get("counts", ())}
    new_counts = {count["counter"]: count for count in report["counts"]}
    old_lines = {count["text"]: count["counts"] for count in previous.get("lines", ())}
    changed = []
    for name in {**old_values, **new_counts}:
        count = new_counts.get(name, {"counter": name, "value": 0})
        if count["value"] != old_values.get(name, 0):
            by_line = {
                line["line"]: abs(
                    line["counts"].get(name, 0) - old_lines.get(line["text"], {}).get(name, 0)
                )
                for line in report["lines"]
            }
            most_changed = (
                {"line": max(by_line, key=by_line.__getitem__)} if any(by_line.values()) else {}
            )
            changed.append({**count, "before": old_values.get(name, 0), **most_changed})
    changed_names = {count["counter"] for count in changed}
    report["counts"] = changed + [
        count for count in report["counts"] if count["counter"] not in changed_names
    ]


def _shorten(report: dict) -> dict:
    """Return a report of at most `MOST_JSON` bytes; findings and results that were left out are counted."""
    omitted = max(0, len(report["findings"]) - _FINDINGS) + max(
        0, len(report["results"]) - _RESULTS
    )
    report["findings"], report["results"] = (
        report["findings"][:_FINDINGS],
        report["results"][:_RESULTS],
    )
    for name in ("lines", "counts", "results", "findings"):
        while report[name] and len(json.dumps(report)) > MOST_JSON - 20:  # 20: for `omitted`
            report[name].pop()
            omitted += name in ("results", "findings")
    return {**report, **({"omitted": omitted} if omitted else {})}


def as_text(report: Mapping) -> str:
    """Return a report as text of at most `MOST_TEXT` bytes."""
    cases, launches = report["checked"]["cases"], report["checked"]["launches"]
    lines = [
        f"{report['verdict'].replace('_', ' ')} ({f'cases: {cases}, ' if cases else ''}launches: {launches})"
    ]
    lines += [f"not seen: {text}" for text in report["checked"]["not_seen"]]
    for finding in report["findings"]:
        place = f", line {finding['line']}" if "line" in finding else ""
        named = finding.get("cases", ())
        # the cases that have it, unless all do
        some = f", only in {', '.join(named)}" if 0 < len(named) < cases else ""
        lines.append(f"{finding['kind']}{place}{some}: {finding.get('says', '')}")
        lines += [f"  {finding['text']}\n  {finding['caret']}"] if "text" in finding else []
        if other := finding.get("other"):  # the other access of a race
            lines.append(f"  and line {other['line']}: {other['text'].strip()}")
    for result in report["results"][:_RESULTS_IN_TEXT]:
        first = result["first"]
        lines.append(
            f"{result['case']}: {result['array']}: {result['wrong']:,} of {result['of']:,} wrong: "
            f"{result['pattern']}; {first['index']} is {first['got']}, and {first['want']} is right"
        )
    if slow := report.get("slow"):
        place = f", line {slow['line']}" if "line" in slow else ""
        lines.append(f"slow{place}: {slow['says']}")
        lines += [f"  {slow['text']}"] if "text" in slow else []
    changes = [
        f"{row['counter']} {row['before']:,} to {row['value']:,}"
        + f" (line {row.get('line', '?')})"
        for row in report["counts"]
        if "before" in row
    ]
    lines += ["moved: " + ", ".join(changes[:_CHANGES_IN_TEXT])] if changes else []
    lines += [f"it printed: {report['printed'][:_PRINTED_IN_TEXT]}"] if "printed" in report else []
    end = (
        [f"a repair that was tried:\n{report['repair']['diff']}"] if "repair" in report else []
    ) + [report["next"]]
    # What a program prints, and the text of a kernel, must not command a terminal.
    body, last = (escape_controls("\n".join(part), "\n\t").encode() for part in (lines, end))
    room = MOST_TEXT - len(last) - 10  # 10: for " …" and "\n"
    return f"{body[:room].decode(errors='ignore')}{' …' * (len(body) > room)}\n{last.decode()}"
