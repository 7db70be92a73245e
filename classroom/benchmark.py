"""Measure `labkit grade` on a generated class: seconds, rate per core, memory, and a run that is killed half-way.

    .venv/bin/python classroom/benchmark.py --count 1000

The class hands in solutions (30 of 100), untouched starting code (16), typical wrong answers of the
exercises' ``wrong.toml`` (40), malicious code (8), and files that cannot be graded (6). A share of
them, `--same`, is the same text for several students; all others differ by a comment. The first run
is ended with SIGKILL when half of the results are there, and the same command goes on. Then it runs
once more, with nothing to grade.

`--poisoned` grades another class: 90 students hand in one of four texts, and ten hand in texts that
exhaust a grader without limits, or make it run their own code. All get the right verdict, the ten
with its reason, within 1 GB.

Processor time and memory are those of the grader and of all processes that it starts, sampled five
times per second.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from datetime import date
from pathlib import Path
from typing import IO

from labkit.exercises.exercise import Exercise, exercise, exercises
from labkit.exercises.subjects import Numbers
from labkit.exercises.trial import SOLUTION, START, list_trials
from labkit.ladder.source import read
from labkit_classroom import grading
from labkit_classroom.submissions import submissions

KINDS = {"right": 30, "untouched": 16, "wrong": 40, "malicious": 8, "damaged": 6}
# Texts to put before a kernel, and at the start of its body.
ATTACKS = (
    ('#include "/etc/passwd"\n', ""),
    ('asm(".incbin \\"/etc/passwd\\"");\n', ""),
    (
        'extern "C" int system(const char *);\nstruct Attack { Attack() { system("id > /tmp/attack"); } } attack;\n',
        "",
    ),
    ('#include <cstdio>\nextern "C" void exit(int);\n', ' printf("goal met\\n"); exit(0);'),
    ("", " for (volatile int i = 0; i < 1; i *= 2) {}"),
)
DAMAGED = (
    b"",
    b"\xff\xfe\x00kernel",
    b"\x7fELF\x02",
    b"PK\x03\x04",
    b"{" * 100_000,
    b'{"nbformat": 4, "cells": 3}',
)


def generate(folder: Path, count: int, asked: list[Exercise], same: float, seed: int) -> Counter:
    """Write the hand-ins of a made-up class to `folder`; return how many there are of each kind.

    The kinds are those of KINDS: "right", "wrong", "malicious" and so on.
    There are `count` hand-ins; each student hands in one to each of the exercises `asked`. The
    share `same` of the texts is left as it is; all others get a comment, so that they differ.
    """
    rng, written = random.Random(seed), Counter()
    texts = {asked_exercise.number: [*list_trials(asked_exercise)] for asked_exercise in asked}
    for index in range(count):
        asked_exercise, student = asked[index % len(asked)], f"s{index // len(asked):04}"
        # KINDS maps a kind to its weight: {"right": 30, "untouched": 16, ...}
        kind = rng.choices([*KINDS], [*KINDS.values()])[0]
        path = folder / student / f"{asked_exercise.number}.cu"
        path.parent.mkdir(parents=True, exist_ok=True)
        written[kind] += 1
        if kind == "damaged":
            data = rng.choice(DAMAGED)
            path.with_suffix(".ipynb" if data.startswith(b"{") else ".cu").write_bytes(data)
            continue
        # trials: the exercise's starting code, its solution, and its known wrong answers
        trials = texts[asked_exercise.number]
        wrong = [trial for trial in trials if trial.about not in (START, SOLUTION)] or trials
        usual = {"right": asked_exercise.solution, "untouched": asked_exercise.start}
        # `attempt` is what is handed in, as a tuple: of a kernel its text, or its file's Path
        text = usual.get(kind) or rng.choice(wrong).attempt[0]
        text = read(text) if isinstance(text, Path) else text
        if kind == "malicious":
            before, in_body = rng.choice(ATTACKS)
            # the last kernel of the solution is the one that is attacked
            head, mark, kernel = asked_exercise.solution.rpartition("__global__")
            text = before + head + mark + kernel.replace("{", "{" + in_body, 1)
        path.write_text(text if rng.random() < same else f"// {student}\n{text}")
    return written


def measure_processes(pid: int, used: dict[int, float]) -> tuple[int, int, set[int]]:
    """Return (bytes of a process, bytes of it and its descendants, ids of the descendants).

    Sets in `used`, by the id of a process, its processor seconds so far.
    """
    own, total, waiting, descendants = 0, 0, [pid], set()
    while waiting:
        process = waiting.pop()
        try:
            lines = Path(f"/proc/{process}/status").read_text().splitlines()
            # the process's clock ticks in user mode and in the kernel, after its name in parentheses
            ticks = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[11:13]
            for task in Path(f"/proc/{process}/task").iterdir():
                children = {int(child) for child in (task / "children").read_text().split()}
                waiting += children
                descendants |= children
        except OSError:  # it has just ended
            continue
        used[process] = sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")
        # the memory that is this process's own: pages of files, as of libraries, are shared
        memory = sum(
            1024 * int(line.split()[1])
            for line in lines
            if line.startswith(("RssAnon:", "RssShmem:"))
        )
        own, total = memory if process == pid else own, total + memory
    return own, total, descendants


def run(
    command: list[str], out: Path, kill_at: int | None = None, stdout: IO | int = subprocess.DEVNULL
) -> str:
    """Run the grader, or kill it as soon as `kill_at` results are there; return what it took, as a sentence.

    `out` is the folder of its results, `stdout` gets what it prints. Raises AssertionError if a
    process that it has started outlives it by 10 s.
    """
    began, used, started = time.monotonic(), {}, set()
    results_before = len([*(out / "results").glob("*.json")])
    process = subprocess.Popen(command, stdout=stdout, stderr=subprocess.DEVNULL)
    peak = peak_with_children = 0
    while process.poll() is None:
        own, total, started = measure_processes(process.pid, used)
        peak, peak_with_children = max(peak, own), max(peak_with_children, total)
        if kill_at and len([*(out / "results").glob("*.json")]) >= kill_at:
            os.kill(process.pid, signal.SIGKILL)
            break
        time.sleep(0.2)
    process.wait()
    seconds = time.monotonic() - began
    if kill_at:
        until = time.monotonic() + 10  # without bubblewrap, a running compiler ends by itself
        while (
            left := [pid for pid in started if Path(f"/proc/{pid}").exists()]
        ) and time.monotonic() < until:
            time.sleep(0.2)
        assert not left, f"these processes outlived the grader: {left}"
    results = len([*(out / "results").glob("*.json")])
    return (
        f"{results - results_before} results in {seconds:.0f} s, {sum(used.values()):.0f} s of processor time; "
        f"{peak / 1e6:.0f} MB at most in the grader, {peak_with_children / 1e6:.0f} MB with its children"
        + (f"; killed, {results} results are there and no process is left" if kill_at else "")
    )


def make_poisoned(start: str) -> dict[str, tuple[str, str, str]]:
    """Return ten hand-ins by their authors: (file name, text, what the summary has to say of it).

    `start` is the starting code of exercise 00a, from which some of them are made.
    """

    def make_notebook(*sources: str) -> str:
        """Return a notebook with these code cells, as JSON."""
        return json.dumps(
            {
                "cells": [{"cell_type": "code", "source": source} for source in sources],
                "nbformat": 4,
            }
        )

    first, hoard = start.index("{") + 1, "__device__ volatile char hoard[1 << 30];\n"
    body = "for (int i = 0; i < 1 << 30; i += 4096) hoard[i] = 1;"
    # B is ten times A, C ten times B, and so on: J becomes a thousand million letters
    grown = "".join(
        f"#define {b} {' '.join([a] * 10)}\n" for a, b in itertools.pairwise("ABCDEFGHIJ")
    )
    return {
        "path": ("n.ipynb", make_notebook("lab.grade('in/path/evil', 1)"), "has no kernel cell"),
        "cells": (
            "n.ipynb",
            make_notebook(*["lab.grade('12a', 1)"] * 5000),
            "has more than 1,000 cells",
        ),
        "list": (
            "n.ipynb",
            make_notebook("x = [" + "1," * 9_500_000 + "]"),
            "has more than 500,000 values",
        ),
        "long": (
            "n.ipynb",
            make_notebook("\n".join(f"a{i} = 1" for i in range(40_000))),
            "has more than 65,536 characters",
        ),
        "deep": ("n.ipynb", '{"cells": ' + "[" * 1_000_000, "is not a notebook"),
        "names": (
            "n.ipynb",
            make_notebook(*[f"%%cuda x --exercise z{i}" for i in range(1000)]),
            "more than 100 exercises",
        ),
        "text": ("00a.cu", start + "//" * 5_000_000, "has more than 65,536 characters"),
        "renamed": (
            "00a.cu",
            re.sub(r"(void )\w+\(", r"\1other(", start, count=1),
            "the kernel must be called",
        ),
        "memory": ("00a.cu", hoard + start[:first] + body + start[first:], "memory"),
        "macros": ("00a.cu", f"{grown}__device__ int n = sizeof(#J);\nJ\n{start}", "memory"),
    }


def make_command(handed_in: Path, out: Path, jobs: int) -> list[str]:
    """Return the command that grades the hand-ins of a folder into the folder `out`, `jobs` at a time."""
    options = ["--out", str(out), "--jobs", str(jobs)]
    return [sys.executable, "-m", "labkit", "grade", str(handed_in), *options]


def grade_poisoned(jobs: int) -> None:
    """Grade a class of 100 with ten poisoned hand-ins, `jobs` at a time; print what it took.

    Raises AssertionError if a hand-in gets another verdict than it should.
    """
    asked = exercise("00a")
    texts = [asked.solution, asked.start, f"// mine\n{asked.solution}", f"// mine\n{asked.start}"]
    with tempfile.TemporaryDirectory(prefix="labkit-class-") as folder:
        handed_in, out = Path(folder, "in"), Path(folder, "out")
        bad = make_poisoned(asked.start)
        # half of the other 90 hand in a right kernel
        files = {f"s{index:02}": ("00a.cu", texts[index % 4]) for index in range(90)}
        for name, (file, text, *_) in (files | bad).items():
            (handed_in / name).mkdir(parents=True)
            (handed_in / name / file).write_text(text)
        command = make_command(handed_in, out, jobs)
        # the second run has nothing new to grade, and has to say the same of each hand-in
        for name in ("100 hand-ins, ten poisoned:", "again:"):
            with Path(folder, "stdout").open("w") as stdout:
                print(name, run(command, out, stdout=stdout), flush=True)
            lines = Path(folder, "stdout").read_text().splitlines()
            for author, (*_, says) in bad.items():
                own_lines = [
                    line.strip() for line in lines if line.split()[:1] in ([author], [f"{author}:"])
                ]
                assert any(says in line for line in own_lines), (
                    f"{author} is not told that it {says}: {own_lines[:3]}"
                )
                print(f"    {next(line for line in own_lines if says in line)[:150]}")
        met = sum(result.passed for result in grading.read_results(out))
        assert met == 45, f"{met} of 45 right kernels met their goal"


def main(count: int, numbers: str, same: float, jobs: int, seed: int) -> None:
    """Generate a class, grade it, and print what it took; the parameters are the command's options.

    `numbers` are the exercises to use, such as "04a,05b"; "" for all. `same` is the share of equal texts.

    The first grading is killed when half of the results are there; a second one goes on; a third
    one has nothing to grade.
    """
    # an exercise whose subject is Numbers asks for numbers, not for a kernel
    with_kernels = [
        asked for asked in exercises().values() if not isinstance(asked.subject, Numbers)
    ]
    asked = [asked for asked in with_kernels if not numbers or asked.number in numbers.split(",")]
    with tempfile.TemporaryDirectory(prefix="labkit-class-") as folder:
        handed_in, out = Path(folder, "in"), Path(folder, "out")
        written = generate(handed_in, count, asked, same, seed)
        print(
            f"{date.today()}: {count} submissions to {len(asked)} exercises, {dict(written)}; {jobs} at a time on "
            f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}",
            flush=True,
        )
        command = make_command(handed_in, out, jobs)
        print("until it is killed:", run(command, out, count // 2), flush=True)
        times_written = {path: path.stat().st_mtime_ns for path in (out / "results").glob("*.json")}
        began = time.monotonic()
        print("going on:", run(command, out), flush=True)
        seconds = time.monotonic() - began
        results, expected = [*grading.read_results(out)], len(submissions([handed_in]))
        rewritten = sum(path.stat().st_mtime_ns != at for path, at in times_written.items())
        # equal texts are graded once: `answer` is the text's digest; 0 seconds: it was not graded
        graded = len(
            {
                (result.exercise, result.answer or result.student)
                for result in results
                if result.seconds
            }
        )
        assert len(results) == expected, f"{len(results)} results of {expected} submissions"
        print(
            f"{graded} different texts, {sum(result.seconds for result in results) / max(1, count):.1f} s in the "
            f"mean; after the kill {(expected - len(times_written)) / seconds / jobs:.3f} submissions per second and "
            f"core; {rewritten} results from before it were written again; load {os.getloadavg()[0]:.1f}"
        )
        for verdict, number in Counter(
            result.verdict.split(":")[0] for result in results
        ).most_common():
            print(f"{number:6}  {verdict}")
        print("nothing to grade:", run(command, out))
    assert not Path("/tmp/attack").exists()  # which malicious code tries to write


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--count", type=int, default=1000, help="submissions (1000)")
    parser.add_argument(
        "--exercises", default="", metavar="00a,04a", help="all that kernels answer"
    )
    parser.add_argument(
        "--same", type=float, default=0.3, help="share of texts that several hand in (0.3)"
    )
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="at a time (one per core)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--poisoned", action="store_true", help="a class of 100 with ten poisoned hand-ins"
    )
    chosen = parser.parse_args()
    if chosen.poisoned:
        grade_poisoned(chosen.jobs)
    else:
        main(chosen.count, chosen.exercises, chosen.same, chosen.jobs, chosen.seed)
