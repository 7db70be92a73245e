"""Errors that a kernel does not report: invalid addresses, races, uninitialized memory, divergent barriers.

They are found by the CPU engine's check mode or, on a GPU, by compute-sanitizer, with the same kind
of table. Only the CPU engine finds races in global memory: compute-sanitizer's racecheck covers
shared memory.
"""

from __future__ import annotations

import html
import re
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hostcuda import findings, processes, temporary
from hostcuda.errors import EngineError
from hostcuda.gpu import nsight
from hostcuda.tables import table

if TYPE_CHECKING:
    import pandas as pd

TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
_STUCK = "repeats a loop in which nothing changes"  # as in runtime/spins.cpp
_WARNING = re.compile(r"^(.+?):(\d+):.*\bwarning: .*", re.MULTILINE)
# the exit statuses of a program that was ended by a fault of its host code
_FAULTS = [-number for number in (signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL)]
COLUMNS = (
    "tool",
    "kind",
    "kernel",
    "file",
    "line",
    "block",
    "thread",
    "other",
    "address",
    "size",
    "buffer",
    "count",
    "launches",
    "message",
    "op",
    "remedy",
)
# The verdicts with their exit statuses. Ctrl-C makes it 130.
STATUS = {
    "pass": 0,
    "unsafe": 1,
    "wrong result": 3,
    "compile error": 4,
    "refused": 5,
    "not checked": 6,
    "hang": 124,
}


@dataclass(repr=False)
class Findings:
    """The findings of the tools.

    Attributes
    ----------
    rows : list of dict
        One per finding: ``tool``, ``kind``, ``kernel``, ``file`` and ``line`` of the user's
        source, ``block`` and ``thread`` (x, y, z), ``other`` (the other access of a race: file,
        line, thread, op), ``address``, ``size`` of the access [bytes], ``op`` of a race ("ld",
        "st", "atom"; None if the tool does not report it), ``buffer`` (the nearest: base, bytes,
        name, offset, missed_by), ``count`` (accesses with this error), ``launches`` with it (None
        if the tool does not report it), ``message``, ``remedy`` of a race, ``source``.
    launches : int or None
        Number of launches that were checked; None if the tool does not report it.
    tools : tuple of str
        The tools that ran.
    ended : Ended
        How the program ended under the last tool.
    note : str
        What was not checked, if anything.
    whole : bool
        Whether every launch up to the program's end was checked.
    events : sequence of dict
        What happened outside of the launches, on the CPU engine: ``kind`` and ``message``.
    """

    rows: list[dict]
    launches: int | None
    tools: tuple[str, ...]
    ended: processes.Ended
    note: str = ""
    whole: bool = True
    events: Sequence[dict] = ()

    @property
    def table(self) -> pd.DataFrame:
        """The findings as a DataFrame, a row for each."""
        import pandas as pd  # loads slowly, and a table that is only printed does without

        return pd.DataFrame(self.rows, columns=[*COLUMNS, "source"]).astype(
            {"line": int, "count": int}
        )

    @property
    def clean(self) -> bool:
        """Whether everything was checked and nothing was found."""
        return not self.rows and self.whole

    @property
    def outcome(self) -> tuple[str, str]:
        """The verdict, such as "pass" or "unsafe" (see `STATUS`), and a sentence with the reason.

        If several verdicts apply, it is the first of them in the order below. An event is something that
        happened outside of the launches, such as a call that was refused.
        """
        # kind of event -> the first message of this kind (reversed: the first one is written last)
        messages = {event["kind"]: event["message"] for event in reversed(self.events)}
        if self.ended.interrupted:
            return "not checked", f"the program {self.ended.problem}"
        if "compile error" in messages:
            return "compile error", messages["compile error"]
        if self.ended.status is None:  # stopped at the time limit
            return "hang", self.verdict()
        # the engine has ended a loop that would never end
        if stuck := next(
            (event["message"] for event in self.events if _STUCK in event["message"]), None
        ):
            return "hang", stuck
        if self.rows:
            return "unsafe", self.verdict()
        if self.ended.status in _FAULTS:  # SIGSEGV and the like, in the program's host code
            fault = messages.get("host fault", "its host code accessed an invalid address")
            return "unsafe", f"the program {self.ended.problem}: {fault}"
        if "refused" in messages:
            return "refused", messages["refused"]
        # no launch, or one that was not checked to its end ("failed": the kind of a call's error)
        if self.launches == 0 or not self.whole:
            return "not checked", messages.get("failed") or self.verdict()
        if self.ended.status:
            return "wrong result", f"{self.verdict()}, but the program {self.ended.problem}"
        return "pass", self.verdict()

    @property
    def status(self) -> int:
        """The exit status of `hostcuda sanitize`: that of the verdict, or 130, the shells' status for Ctrl-C."""
        return 130 if self.ended.interrupted else STATUS[self.outcome[0]]

    def as_dict(self) -> dict:
        """Return what ``hostcuda sanitize --json`` prints, as a dict."""
        verdict, reason = self.outcome
        return {
            "verdict": verdict.replace(" ", "_"),
            "status": self.status,
            "reason": reason,
            "checked": {"launches": self.launches, "complete": self.whole, "tools": self.tools},
            "program": {"status": self.ended.status, "seconds": round(self.ended.seconds, 2)},
            "events": list(self.events),
            "findings": self.rows,
        }

    def __repr__(self) -> str:
        return "\n".join([*self.lines(), *self.notes(), self.verdict()])

    def lines(self) -> list[str]:
        """Return a text per finding, of a few lines: the error, its place and threads, the memory, a remedy."""
        return [_format_finding(row) for row in self.rows]

    def notes(self) -> list[str]:
        """Return a line per note: about something that is legal, but may be a mistake."""
        return [
            f"note at {_format_place(event)}: {event['message']}"
            for event in self.events
            if event["kind"] == "note"
        ]

    def verdict(self) -> str:
        """Return the last line of the output, a sentence: the tools, how many findings, and what was not checked."""
        n = len(self.rows)
        result = f"{n} finding{'s' * (n != 1)}" if n else "nothing found"
        if not n and self.launches == 0:
            result = "no kernel was launched, so nothing was checked"
        elif self.launches:  # None: compute-sanitizer does not tell their number
            result += f" in {_format_launches(self.launches)}"
        stopped = (
            f"the program {self.ended.problem}: the rest was not checked"
            if self.ended.stopped
            else ""
        )
        return f"{', '.join(self.tools)}: {'; '.join(filter(None, (result, self.note, stopped)))}"

    def _repr_html_(self) -> str:
        if not self.rows:
            return f"<p>{html.escape(self.verdict())}</p>"
        frame = self.table.assign(
            where=[*map(_format_place, self.rows)], thread=[*map(_format_thread, self.rows)]
        )
        columns = {
            "kind": "error",
            "kernel": "kernel",
            "where": "place",
            "thread": "thread",
            "message": "message",
            "count": "count",
        }
        return table(frame, self.verdict(), columns)._repr_html_()


def sanitize_script(
    script: str,
    arguments: Sequence[str] = (),
    tool: str = "all",
    engine: str | None = None,
    timeout: float | None = None,
    capture: bool = False,
    options: Sequence[str] = (),
    strict: bool = False,
) -> Findings:
    """Return the findings in a Python program that uses `hostcuda`, or in a ``.cu`` program with its host code.

    `tool` is one of `TOOLS` or "all"; `engine` "cpu", "gpu" or None (what `hostcuda` chooses); `timeout`
    in seconds. On a GPU each tool is a run of its own, and `timeout` holds for each. With `capture` the
    program's output is kept instead of printed. `options` are nvcc's, for a ``.cu`` program. If `strict`,
    a copy to the host of memory that is partly unset is a finding, not a note.
    """
    on, tools = processes.engine(engine), _choose_tools(tool)
    command = processes.program(script, arguments, on, options)
    # the time that the engine needs to compile its own files does not count
    if timeout and on == "cpu":
        prepare(",".join(tools), options)
    return watch(command, tool, engine, timeout, capture, strict)


def watch(
    command: Sequence[str],
    tool: str = "all",
    engine: str | None = None,
    timeout: float | None = None,
    capture: bool = False,
    strict: bool = False,
) -> Findings:
    """Run a command, such as `processes.program` returns, under a tool of `TOOLS` or "all"; return the findings.

    The other parameters are those of `sanitize_script`.
    """
    tools = _choose_tools(tool)
    with temporary.folder() as folder:
        if processes.engine(engine) == "gpu":
            return _check_on_gpu(command, tools, folder, timeout, capture)
        out = folder / "launches"
        environment = {
            "HOSTCUDA_ENGINE": "cpu",
            "HOSTCUDA_CHECK": ",".join(tools),
            "HOSTCUDA_CHECK_OUT": str(out),
            **({"HOSTCUDA_STRICT": "1"} if strict else {}),
        }
        if "initcheck" in tools:  # the compiler warns of variables without a value
            environment["HOSTCUDA_WARNINGS"] = "1"
        # the engine writes both files, of launches and of events, line by line while the program runs
        ended = processes.run(command, environment, timeout, capture)
        return checked(
            processes.lines(out), tools, ended, processes.lines(out.with_name(f"{out.name}.events"))
        )


def _choose_tools(tool: str) -> tuple[str, ...]:
    """Return the tools that a name, one of `TOOLS` or "all", stands for; raise an EngineError for another name."""
    if tool not in ("all", *TOOLS):
        raise EngineError(f"there is no tool {tool!r}; there are {', '.join(TOOLS)} and all")
    return TOOLS if tool == "all" else (tool,)


def prepare(tools: str, options: Sequence[str] = (), programs: bool = True) -> None:
    """Compile the engine's own files into the cache, so that a later run with a time limit need not do so.

    `tools` are separated by commas: "memcheck,racecheck". `options` are nvcc's options of the later
    run; `programs`: also for programs with a ``main``, not only for kernels. EngineError if it fails.
    """
    call = f"checking.engine_files(sys.argv[1:], {programs})"
    program = f"import sys; from hostcuda import checking; {call}"
    environment = {"HOSTCUDA_ENGINE": "cpu", "HOSTCUDA_CHECK": tools}
    # -P: Python imports no modules from the working folder
    processes.run(
        [sys.executable, "-P", "-c", program, *options], environment, capture=True
    ).require("preparing the engine")


def checked(
    records: Sequence[dict],
    tools: Sequence[str],
    ended: processes.Ended,
    events: Sequence[dict] = (),
) -> Findings:
    """Make the findings of a program from what the CPU engine has recorded about it.

    `records` has a `LaunchRecord`'s dict per launch. `tools` are those that ran; `ended` says how the
    program ended. An event is a dict with ``kind`` and ``message``: a "compile error", the
    "warnings" of a ``source``, a call that was "refused" or "failed", the message of one that the
    program has "handled", a "note". `Findings.outcome` takes its reason from them.
    """
    # Launches that were not checked to their end. If a launch has a finding, all its blocks may have
    # run nevertheless: then `blocks_watched` is `blocks` (-1 differs from None, if a record has neither).
    cut = [
        record
        for record in records
        if record.get("error")
        and not (record["findings"] and record.get("blocks_watched") == record.get("blocks", -1))
    ]
    # the errors of those whose end no finding explains
    unexplained = [record["error"] for record in cut if not record["findings"]]
    note = f"{_format_launches(len(cut))} not checked to the end" if cut else ""
    if unexplained:
        note += f" ({unexplained[0]})"
    unchecked = dict.fromkeys(  # each sentence once, in their order
        sentence for record in records for sentence in record.get("unchecked", ())
    )
    note = "; ".join(filter(None, [note, *unchecked]))
    # A stopped program cuts a launch as well: `Findings.outcome` then says that it was stopped.
    whole = not unchecked and (ended.stopped or not unexplained)
    warnings = [event for event in events if event["kind"] == "warnings"]
    # variables without a value, which the compiler warns of
    unset = [
        row
        for event in warnings
        if "initcheck" in tools
        for row in findings.from_warnings(event["message"], event["source"])
    ]
    # text of a warning -> its match (file, line): the same warning of two compilations counts once
    warned = {line[0]: line for event in warnings for line in _WARNING.finditer(event["message"])}
    # The compiler's warnings come as one event per source; each becomes an event of its own. (`at` is
    # the match: its groups are the file and the line.)
    kept_events = [
        *(
            {"kind": "warning", "message": text, "file": at[1], "line": int(at[2])}
            for text, at in warned.items()
        ),
        *(event for event in events if event["kind"] not in ("warnings", "handled")),
    ]
    # A refused call is no failure of a program that asks for the error, and goes on to a good end.
    handled = [event["message"] for event in events if event["kind"] == "handled"]
    for event in kept_events:
        if event["kind"] == "refused" and event["message"] in handled:
            event |= {"kind": "note", "message": f"{event['message']}; the program has handled it"}
    # records with a negative index are copies of memory, no launches
    launched = sum(record.get("index", 0) >= 0 for record in records)
    return Findings(
        _complete([*unset, *findings.list_findings(records)]),
        launched,
        tuple(tools),
        ended,
        note,
        whole,
        kept_events,
    )


def _format_launches(count: int) -> str:
    """Return a number of launches as text: "1 launch", "1,200 launches"."""
    return f"{count:,} launch{'es' * (count != 1)}"


def _check_on_gpu(
    command: Sequence[str], tools: Sequence[str], folder: Path, timeout: float | None, capture: bool
) -> Findings:
    """Check a command on a GPU with compute-sanitizer, in one run per tool, with its logs in `folder`."""
    cache, launched = folder / "cache", folder / "launched"
    cache.mkdir()  # not PyCUDA's own, which has kernels that were compiled without line numbers
    environment = {
        "HOSTCUDA_ENGINE": "gpu",
        "NVCC_APPEND_FLAGS": "-lineinfo",
        "PYCUDA_CACHE_DIR": str(cache),
    }
    script = False
    if not processes.is_compiled(command):
        python, program = processes.split_python(command)
        script = program[0] != "-m"
        if script:  # a Python program, whose launches can be counted
            count = ["-m", "hostcuda.gpu.launches", "--count", str(launched)]
            command = [*python, *count, *program]
    rows, finished = [], []
    for tool in tools:
        log = folder / tool
        ended = processes.run(
            nsight.sanitizer_command(command, tool, log), environment, timeout, capture
        )
        finished.append(tool)
        text = log.read_text(errors="replace") if log.is_file() else ""
        rows += [
            {**finding, "source": "compute-sanitizer"}
            for finding in nsight.read_sanitizer(text, tool)
        ]
        if ended.stopped:
            break
    # child processes are not counted
    none = script and not (launched.is_file() and launched.stat().st_size)
    note = "the program itself launched no kernel" if none else ""
    return Findings(_complete(rows), 0 if none else None, tuple(finished), ended, note)


def _complete(rows: list[dict]) -> list[dict]:
    """Return findings with all fields of `Findings.rows`: an unknown file is "", an unknown line 0, the rest None."""
    empty = {**dict.fromkeys((*COLUMNS, "source")), "remedy": ""}
    return [
        {**empty, **row, "file": row["file"] or "", "line": int(row["line"] or 0)} for row in rows
    ]


def _format_place(row: dict) -> str:
    """Return a finding's "file:line", with the path relative to the working directory; of a file elsewhere its name."""
    if not row["file"]:
        return "(no source line)"
    path, here = Path(row["file"]), Path.cwd()
    place = path.relative_to(here) if path.is_relative_to(here) else path.name
    return f"{place}:{row['line']}"


def _format_thread(row: dict) -> str:
    """Return a finding's "thread (x,y,z) of block (x,y,z)", or "" if the thread is not known."""
    if row["thread"] is None:
        return ""
    block, thread = (",".join(map(str, row[name])) for name in ("block", "thread"))
    return f"thread ({thread}) of block ({block})"


def _format_finding(row: dict) -> str:
    """Return a finding in several lines: what and where, the threads, the memory, how often, the remedy."""
    lines = [
        f"{row['kind']} in {row['kernel'] or 'a kernel'} at {_format_place(row)}: {row['message']}"
    ]
    if who := _format_thread(row):
        lines.append(f"  by {who}")
    if isinstance(row["other"], dict):
        other = row["other"]
        also = f", thread ({','.join(map(str, other['thread']))})" if other.get("thread") else ""
        lines.append(f"  and {_format_place(other)}{also}")
    if buffer := row["buffer"] if isinstance(row["buffer"], dict) else None:
        missed, shared = buffer["missed_by"], "dynamic shared memory"
        name = buffer.get("name") or (shared if shared in row["message"] else "")
        side = (
            f"{missed:,} bytes beyond the end of"
            if missed > 0
            else f"{-missed:,} bytes before"
            if missed
            else "in"
        )
        extent = f"{side} the {buffer['bytes']:,} bytes"
        lines += (
            [
                f"  {extent} of {name}"
                if name
                else f"  address {int(row['address']):#x}, {extent} at {buffer['base']:#x}"
            ]
            if missed or not name
            else []
        )
    if row["count"] > 1:
        several = (
            f" in {row['launches']:,} launches" if row["launches"] and row["launches"] > 1 else ""
        )
        lines.append(f"  {row['count']:,} such accesses{several}")
    lines += [f"  remedy: {row['remedy']}"] if row["remedy"] else []
    return "\n".join(lines)
