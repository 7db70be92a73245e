"""Mutants of the ladder's kernels: small mistakes, one at a time, and what finds them.

    python tests/mutants.py                   # those that are not in the table yet
    python tests/mutants.py tiling --again    # of one kernel, also if they are in the table

A mutant differs from its kernel in one place: an operator, the bound of a comparison, a constant, a
barrier, a guard or an initialization that is missing. `lab.check` runs on its shapes, the small
ones first, until one shows the mistake; then `lab.check(sanitize=True)` looks at the accesses. Each
mutant has a process of its own, because some do not end. The table is
``data/findings/mutants.csv``. A mutant that nothing finds must have a reason in
``tests/mutants_survivors.csv``, or the tests fail.
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import os
import re
import resource
import signal
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
from tqdm import tqdm

from hostcuda import driver
from hostcuda.frontend.scan import Scan
from labkit.base import manifest
from labkit.base.errors import LabError
from labkit.base.paths import cuda_src, data_dir
from labkit.ladder.rungs import LADDER
from labkit.ladder.variants import variant
from labkit.measure.check import TEST_SHAPES, CheckFailed, check
from labkit.records import store

TABLE = data_dir() / "findings" / "mutants.csv"
REASONS = Path(__file__).with_name("mutants_survivors.csv")
LIMIT_S = 40  # processor time of a mutant, apart from compiling
MOST = 32  # of a kernel
KEY = ["kernel", "line", "kind", "before", "after"]

# Kind, pattern in the code, replacement; in the order of preference if there are more than MOST.
_OPERATORS = [
    ("barrier", r"__sync(?:threads|warp)\(\);", ";"),
    ("guard", r"(?<=\bif \()(?:[^()]|\([^()]*\))*(?=\))", "true"),
    ("guard", r"(?<![\w.)\]])[\w.]+(?: \+ \w+)* (?:<|>|>=) [^?;,=]*(?= \?)", "true"),
    ("initialization", r" = (?:0|\{\}|\{0, 0\})(?=;)(?!; \w+ [<>])", ""),
    ("initialization", r"wmma::fill_fragment\([^;]*;", ";"),
    ("bound", r"(?<= )<(?= )", "<="),
    ("bound", r"(?<= )>(?= )", ">="),
    ("bound", r"(?<= )<=(?= )", "<"),
    ("bound", r"(?<= )>=(?= )", ">"),
    ("logic", r"(?<= )&&(?= )", "||"),
    ("logic", r"(?<= )\|\|(?= )", "&&"),
    ("operator", r"(?<= )\+=(?= )", "-="),
    ("operator", r"(?<= )\+(?= )", "-"),
    ("operator", r"(?<= )-(?= )", "+"),
    ("operator", r"(?<= )\*(?= )", "+"),
    ("operator", r"(?<= )/(?= )", "*"),
    ("operator", r"(?<= )%(?= )", "/"),
    ("constant", r"(?<![\w.'])1(?![\w.'])", "2"),
    ("constant", r"(?<= = )0(?=[;,])", "1"),
]


@dataclass(frozen=True)
class Mutant:
    """A kernel with one mistake."""

    kernel: str  # the name of its rung
    line: int
    kind: str
    before: str  # the line without the mistake
    after: str
    source: str  # the whole file, with the mistake

    @property
    def row(self) -> dict:
        """Return the mutant's columns of the table, without what found it."""
        return {name: getattr(self, name) for name in KEY}


def list_mutants(kernel: str) -> list[Mutant]:
    """Return the mutants of a rung's kernel: at most MOST, of every kind."""
    source = variant(kernel).source
    code = Scan(source).code
    begin = code.index("__global__")
    mutants_by_kind: dict[str, list[Mutant]] = {}
    for kind, pattern, new in _OPERATORS:
        for match in re.compile(pattern).finditer(code, begin):
            text = source[: match.start()] + new + source[match.end() :]
            line = source.count("\n", 0, match.start())
            before, after = (
                " ".join(code.splitlines()[line].partition("//")[0].split())
                for code in (source, text)
            )
            if match[0].strip() != new:
                mutants_by_kind.setdefault(kind, []).append(
                    Mutant(kernel, line + 1, kind, before, after, text)
                )
    return _choose(list(mutants_by_kind.values()))


def _choose(kinds: list[list[Mutant]]) -> list[Mutant]:
    """Choose at most MOST: all of each kind, or an equal share, spread over the kernel."""
    chosen, room = [], MOST
    for left, several in zip(range(len(kinds), 0, -1), sorted(kinds, key=len), strict=True):
        take = min(len(several), room // left)
        chosen += [several[i * len(several) // take] for i in range(take)]
        room -= take
    return sorted(chosen, key=lambda mutant: mutant.line)


def found_by(mutant: Mutant, shapes: Iterable = TEST_SHAPES) -> tuple[str, str]:
    """Return what finds a mutant ("compiler", "check", "sanitize" or "") and how, in this process."""
    mine = variant(mutant.kernel, source=mutant.source)
    supported = []
    for shape in shapes:
        with contextlib.suppress(LabError):
            mine.supports(shape[0])
            supported.append(shape)
    try:
        for shape in supported:
            check(mine, [shape], quiet=True)
    except driver.CompileError:
        return "compiler", "it does not compile"
    except CheckFailed as wrong:
        return "check", f"{shape[0].name}: {_shorten(wrong, mine.label)}"
    try:
        check(mine, supported, quiet=True, sanitize=True)
    except CheckFailed as wrong:
        finding = str(wrong).partition("computes what it should")[2].partition(":\n")[2]
        # Without one, the result is wrong now, for a mutant whose result depends on what it reads
        # elsewhere.
        if finding:
            return "sanitize", _shorten(finding)
        return "check", f"the second time: {_shorten(wrong, mine.label)}"
    return "", ""


def _shorten(message: object, label: str = "") -> str:
    """Return the message's first line, without what changes between runs or is in the table's other columns."""
    noise = [
        rf"^{re.escape(label)} ",
        r" on .*?, B = \d+",
        r"cu\w+ failed: kernel .*?\): ",
        r"thread \([\d,]*\): ",
        r", at b .*",
        r"(of )?0x[0-9a-f]+, ",
        re.escape(f"{cuda_src()}{os.sep}"),
    ]
    return re.sub("|".join(noise), "", str(message).splitlines()[0])[:120].strip()


def judge(mutant: Mutant) -> dict:
    """Run a mutant in a process of its own; return its row."""
    ours, theirs = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.get_context("fork").Process(target=_run_child, args=(mutant, theirs))
    process.start()
    theirs.close()
    try:
        finder, how = ours.recv()
    except EOFError:
        finder, how = "check", "it does not end"
    process.join()
    if process.exitcode not in (0, -signal.SIGXCPU):
        finder, how = "error", f"the process ended with status {process.exitcode}"
    return {**mutant.row, "found_by": finder, "how": how}


def _run_child(mutant: Mutant, answer) -> None:
    """Send what `found_by` returns, or ("error", why); the process has a limit of time and prints nothing."""
    resource.setrlimit(resource.RLIMIT_CPU, (LIMIT_S, LIMIT_S + 5))
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(nowhere, stream)
    try:
        answer.send(found_by(mutant))
    except Exception as error:
        answer.send(("error", repr(error)))


def read() -> pd.DataFrame:
    """Read the table: a row per mutant, with ``found_by`` and ``how``."""
    if not TABLE.is_file():
        return pd.DataFrame(columns=[*KEY, "found_by", "how"])
    return store.read_as_stored(TABLE, keep_default_na=False)


def survivors(table: pd.DataFrame) -> pd.DataFrame:
    """Return the mutants that nothing finds, with a reason where there is one."""
    left = table[table["found_by"] == ""].drop(columns=["found_by", "how"])
    return left.merge(
        pd.read_csv(REASONS, keep_default_na=False), how="left", on=["kernel", "before", "after"]
    )


def summary(table: pd.DataFrame) -> str:
    """Return a table as text: how many mutants of each kernel are found by what."""
    counts = pd.crosstab(
        table["kernel"], table["found_by"].replace("", "nothing"), margins=True, margins_name="all"
    )
    return counts.reindex(
        [rung.name for rung in LADDER if rung.name in counts.index] + ["all"]
    ).to_string()


def main() -> None:
    """Judge the mutants that the table lacks, write it, and print the survivors."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "kernels", nargs="*", metavar="KERNEL", help="names of rungs; all by default"
    )
    parser.add_argument("--again", action="store_true", help="also those that the table has")
    asked = parser.parse_args()
    names = [rung.name for rung in LADDER]
    if unknown := set(asked.kernels) - set(names):
        parser.error(f"there is no {', '.join(unknown)}; there are {', '.join(names)}")
    table = read()
    mutants = [mutant for name in asked.kernels or names for mutant in list_mutants(name)]
    present = pd.DataFrame([mutant.row for name in names for mutant in list_mutants(name)])
    table = table.merge(present)  # without those of earlier kernels
    done = set() if asked.again else {*table[KEY].itertuples(index=False, name=None)}
    left = [mutant for mutant in mutants if tuple(mutant.row.values()) not in done]
    for row in map(judge, tqdm(left, "mutants")):
        if row["found_by"] == "error":  # of this script or the machine: not in the table
            tqdm.write(f"{row['kernel']}:{row['line']}: {row['after']}: {row['how']}")
            continue
        table = pd.concat([table, pd.DataFrame([row])]).drop_duplicates(KEY, keep="last")
        order = table["kernel"].map(names.index)
        table = (
            table.assign(order=order)
            .sort_values(["order", "line"], kind="stable")
            .drop(columns="order")
        )
        manifest.write(TABLE, table.to_csv(index=False))
    print(summary(table))
    for row in survivors(table).to_dict("records"):
        print(f"{row['kernel']}:{row['line']}: {row['after']}\n    {row['reason']}")


if __name__ == "__main__":
    sys.exit(main())
