"""A run of a kernel or a program for a report: the request, the child process, and what the run leaves."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hostcuda import processes, sandbox, sanitize, temporary
from hostcuda.check.records import TIME_UP
from hostcuda.errors import EngineError
from hostcuda.source import host_entry

COMPILING = 120  # seconds for the compilation of a kernel or program
CASES, SOURCE, REFERENCE = 8, 1 << 17, 1 << 14  # limits of a request: cases, bytes of texts
TOOLS = ",".join(("profile", *sanitize.TOOLS))
MEMORY = 2 << 30  # bytes of all processes of a run together
_KILLED = "was ended by SIGKILL"  # by `timeout`: SIGINT did not end it
_OPTION = re.compile(
    r"-[DU]\w+(?:=[\w.+-]*)?|-std=[\w+]+|--?use_fast_math|-arch=\w+|--?extended-lambda"
)


@dataclass
class Run:
    """What one run of a kernel or program has left: findings, the launches' records, and the child's answers.

    A program gives no answers. Answers about cases: ``filled`` (whether initcheck sees variables in
    registers), then ``compiled``, then of each case ``launching``, ``ended`` (its name, with the
    arrays ``left`` uncompared) and, of each array that the reference returns, ``wrong`` (how many
    elements). ``busiest`` comes last. `stopped` is a sentence if the sandbox has stopped the run, or
    does not read what it has left.
    """

    findings: sanitize.Findings
    records: list[dict]
    answers: list[dict]
    source: str
    compiled: bool = True  # whether the compilation came to its end, with or without errors
    stopped: str = ""

    def select(self, key: str) -> list[dict]:
        """Return the child process's answers that have this key: "launching", "ended", "wrong", ..."""
        return [answer for answer in self.answers if key in answer]

    @property
    def wrong(self) -> list[dict]:
        """The child's answers about arrays with wrong elements: ``case``, ``array``, ``wrong``, ``pattern``, ..."""
        return [answer for answer in self.select("wrong") if answer["wrong"]]

    def list_launches(self) -> list[tuple[int, dict]]:
        """Return (position of the case that made it, record) of each launch, in order; [] for a program without cases.

        After each case the child process answers "ended" with the number of its launches. If a case was
        stopped, it is the last one: it has records and no such answer.
        """
        ended = self.select("ended")
        # of each launch the position of its case
        owners = [i for i, answer in enumerate(ended) for _ in range(answer["launches"])]
        if len(self.select("launching")) > len(ended):
            owners += [len(ended)] * (len(self.records) - len(owners))
        # not strict: a program has records, and no case to which they belong
        return list(zip(owners, self.records, strict=False))

    def find_cases(self, finding: Mapping) -> list[int]:
        """Return the positions of the cases that have the same finding: of its kind, at its line."""
        place = (finding["kind"], finding["line"])
        return sorted(
            {
                case
                for case, record in self.list_launches()
                if any((row["kind"], row["line"]) == place for row in record["findings"])
            }
        )

    def list_right_cases(self) -> list[int]:
        """Return the positions of the cases that have ended without a finding and with right results."""
        found = {case for case, record in self.list_launches() if record["findings"]}
        # `found` has positions of cases, `wrong` and `right` have their names
        wrong = {answer["case"] for answer in self.wrong}
        # every compared array has an answer: the number of wrong elements, or 0
        right = {answer["case"] for answer in self.select("wrong")} - wrong
        return [
            i
            for i, answer in enumerate(self.select("ended"))
            if i not in found and answer["ended"] in right
        ]

    def decide_verdict(self, job: Mapping) -> tuple[str, str]:
        """Return the verdict, one of `hostcuda.sanitize.STATUS`, and its reason, a sentence.

        It is "pass" only if all cases of `job` were checked and their results compared. If several
        verdicts apply, it is the first of them in the order below: a run that was stopped says least.
        """
        # by what the tools have found, and how the run has ended
        verdict, reason = self.findings.outcome
        if self.stopped:
            return "not checked", self.stopped
        if not self.compiled and job["program"]:
            return "not checked", "neither the compilation nor the program that it made has ended"
        if not self.compiled:
            return "not checked", f"the compilation did not end within {COMPILING} s"
        if job["program"]:
            return verdict, reason
        ended_cases = [answer["ended"] for answer in self.select("ended")]
        status = self.findings.ended.status  # negative: a signal; None: stopped at the time limit
        # stopped while no case was running
        if status is None and len(self.select("launching")) == len(ended_cases):
            return "not checked", (
                "the reference did not end in time: take smaller cases, or more seconds"
            )
        # a fault that no tool has found; with host code (`entry`), that code may have made it
        if verdict == "unsafe" and not self.findings.rows and not job["entry"]:
            return (
                verdict,
                "the kernel destroyed memory of the process that ran it, and no tool saw the access",
            )
        if verdict in ("pass", "not checked") and self.wrong:
            return "wrong result", "the tools found nothing, and the results are wrong"
        # a signal has ended the child, often for its memory; or the child itself has failed
        if ((status or 0) < 0 and verdict == "not checked") or (
            status and verdict == "wrong result"
        ):
            return (
                "not checked",
                f"the run {self.findings.ended.problem}; it may use {MEMORY >> 30} GB",
            )
        if verdict == "pass" and len(ended_cases) < len(job["cases"]):
            return "not checked", "not all cases were run"
        # a case of which no array was compared
        if verdict == "pass" and set(ended_cases) - {
            answer["case"] for answer in self.select("wrong")
        }:
            return "not checked", "the tools found nothing, but no reference says what is right"
        return verdict, reason


def build_job(
    what: str,
    source: str,
    kernel: str,
    cases: Sequence[Mapping],
    options: str,
    seconds: float,
    **more: Any,
) -> dict:
    """Return a job for the child process, a dict; EngineError for a request that is malformed or too large.

    `what` is the kind of job, "check", "lines" or "step", and `more` are entries that only this kind
    has. The job has these arguments; its ``options`` are a list of words, and ``entry`` is the host
    function that the cases call, or "".
    """
    for name in ("rtol", "atol"):
        if (value := more.get(name)) is not None and not (
            type(value) in (int, float) and 0 <= value < float("inf")
        ):
            raise EngineError(f"{name} is a number from 0, not {value!r:.40}")
    if not (isinstance(kernel, str) and isinstance(options, str) and isinstance(cases, Sequence)):
        raise EngineError("cases is a list, and kernel and options are texts")
    if (
        not 5 <= seconds <= 300
        or len(cases) > CASES
        or len(source) > SOURCE
        or len(more.get("reference", "")) > REFERENCE
    ):
        raise EngineError(
            f"a check takes 5 to 300 seconds, at most {CASES} cases, {SOURCE >> 10} KB of source and "
            f"{REFERENCE >> 10} KB of reference"
        )
    words = processes.split_options(options)
    if wrong := [word for word in words if not _OPTION.fullmatch(word)]:
        raise EngineError(
            f"the option {wrong[0]} is not taken here: only -D, -U, -std, -arch, -use_fast_math and "
            "--extended-lambda"
        )
    entry, _ = host_entry(source)
    # not if the request names one of the kernels
    calls_host = bool(entry) and kernel in ("", entry)
    if calls_host and not cases:
        raise EngineError(
            f"the source has no main: give cases with the arguments of {entry}, which launches the kernels, and so "
            "without grid and block"
        )
    needed = {"arguments"} if calls_host else {"grid", "block", "arguments"}
    for number, case in enumerate(cases, 1):
        _require_case(case, number, needed)
    return {
        "what": what,
        "source": source,
        "kernel": kernel,
        "entry": entry if calls_host else "",
        "cases": [*cases],
        "options": words,
        **more,
    }


def _require_case(case: Any, number: int, needed: Set[str]) -> None:
    """Raise EngineError, which says why, if a case of a request is malformed; `needed` are the keys that it must have.

    `number` counts the request's cases from 1.
    """
    if not isinstance(case, Mapping):
        raise EngineError(f"a case is an object with grid, block and arguments, not {case!r:.40}")
    if not isinstance(name := case.get("name") or f"case {number}", str):
        raise EngineError(f"the name of case {number} is a text, not {name!r:.40}")
    if missing := needed - case.keys():
        raise EngineError(f"{name} has no {', '.join(sorted(missing))}")
    if unknown := case.keys() - {"grid", "block", "arguments", "name", "shared_bytes"}:
        raise EngineError(
            f"{name} may have grid, block, arguments, name, shared_bytes, and no {min(unknown)}"
        )
    sizes = case.get("grid", [1]), case.get("block", [1]), [case.get("shared_bytes", 0)]
    if not all(
        isinstance(size, (list, tuple)) and size and all(type(side) is int for side in size)
        for size in sizes
    ) or not isinstance(case["arguments"], Mapping):
        raise EngineError(
            f"{name}: grid and block are lists of integers, shared_bytes an integer, and arguments "
            "an object"
        )


def choose_tools(what: str) -> str:
    """Return the tools of check mode, separated by commas, for a job of the kind "check", "lines" or "step"."""
    return {"step": "step", "lines": "profile"}.get(what, TOOLS)


def run_job(job: Mapping, seconds: float, walled: bool) -> Run:
    """Run a job in a child process, in the sandbox if `walled`; return its findings, records and answers as a `Run`.

    The child stops itself `seconds` after its compilation, which may take `COMPILING` seconds more.
    """
    most = seconds + COMPILING
    with temporary.folder() as folder:
        (folder / "job.json").write_text(json.dumps({**job, "seconds": seconds}))
        (folder / "kernel.cu").write_text(job["source"])
        # added to that of this process, or of the sandbox
        environment = {
            "HOSTCUDA_ENGINE": "cpu",
            "HOSTCUDA_CHECK": choose_tools(job["what"]),
            # "all": the compiler's warnings of doubtful code, too
            "HOSTCUDA_WARNINGS": "1" if job["program"] else "all",
            "HOSTCUDA_CHECK_OUT": str(folder / "launches"),
        }
        command = [sys.executable, "-m", "hostcuda.agent.child", str(folder)]
        if job["program"]:
            file = str(folder / "kernel.cu")
            # (): the program gets no arguments
            command = processes.program(file, (), "cpu", job["options"], seconds)
        files = [folder / name for name in ("launches", "launches.events", "answers")]
        stopped = ""
        if walled:
            ended, stopped = _run_walled(command, folder, job, most, environment)
            try:
                records, events, answers = map(sandbox.read_records, files)
            except sandbox.NoResultError as error:
                records, events, answers, stopped = [], [], [], str(error)
        else:
            # as in the sandbox: NumPy's libraries start no threads, and no module is the working folder's
            environment |= processes.ONE_THREAD | processes.OWN_MODULES
            ended = processes.run(command, environment, most, capture=True, memory=MEMORY)
            records, events, answers = map(processes.lines, files)
    # If the child has ended by itself, or has answered "compiled", the time was not up during the compilation.
    compiled = ended.status is not None or any("compiled" in answer for answer in answers)
    # If the child has stopped itself at its time limit, it looks as if it had ended with a status.
    if len(others := [event for event in events if event["kind"] != TIME_UP]) < len(events):
        compiled, ended = True, replace(ended, status=None, seconds=seconds)
    findings = sanitize.checked(records, sanitize.TOOLS, ended, others)
    return Run(findings, records, answers, job["source"], compiled, stopped)


def _run_walled(
    command: Sequence[str],
    folder: Path,
    job: Mapping,
    seconds: float,
    environment: Mapping[str, str],
) -> tuple[processes.Ended, str]:
    """Run a command in the sandbox for at most `seconds`; return how it ended, and why it was stopped.

    The latter is a sentence about a limit other than time, or "". `environment` is added to the
    sandbox's own.
    """
    # After SIGINT the child keeps its records. It has 3 s to end, and the sandbox 5 s to start.
    ended = sandbox.run(
        ["timeout", "-s", "INT", "-k", "3", f"{seconds:.0f}", *command],
        folder,
        check=choose_tools(job["what"]),
        options=job["options"],
        environment=environment,
        limits=sandbox.Limits(seconds + 8, 4 * int(seconds + 8), MEMORY),
    )
    printed = ended.stdout + ended.stderr
    is_late = ended.seconds >= seconds and (
        ended.status in (None, 124, 137) or ended.problem == _KILLED
    )
    if is_late or ended.status is not None:
        return processes.Ended(None if is_late else ended.status, ended.seconds, printed), ""
    return processes.Ended(1, ended.seconds, printed), f"the run was stopped: it {ended.problem}"
