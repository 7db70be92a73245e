#!/usr/bin/env python3
"""Which of the planted bugs in tests/check/corpus the CPU engine and compute-sanitizer find: docs/findings.md.

    python -m labkit.recording.compare_sanitizers    check here, compare with data/findings/, write the report
        --record    on a GPU with compute-sanitizer: write data/findings/DEVICE.csv
"""

import argparse
import sys
from concurrent.futures import ThreadPoolExecutor

import pandas as pd

from labkit.base.errors import LabError
from labkit.base.files import write
from labkit.base.paths import PACKAGE, data_dir
from labkit.evidence.sanitize import sanitize_script
from labkit.recording import compare_counters
from labkit.records.store import record_evidence

sys.path.insert(0, str(PACKAGE.parent / "tests" / "check" / "corpus"))
import planted

RECORDED = data_dir() / "findings"
REPORT = data_dir().parent / "docs" / "findings.md"
LAB = "all kernels of the lab"  # stands beside the bugs
PARTS = 12  # of them, each with a process of its own: compute-sanitizer takes minutes for all in one


def find(engine: str) -> pd.DataFrame:
    """A row a bug: kernel, found (at a line that belongs to it), false_alarm (something was found on its repair); and
    one for the kernels of the lab, where all that is found is a false alarm, with sources, the digests of what ran."""

    def one(job):  # on a GPU a fault ends the process, so that each kernel needs one of its own
        bug, fixed = job
        arguments = [bug.kernel, *["--fixed"] * fixed]
        return sanitize_script(planted.__file__, arguments, bug.tool, engine, timeout=300, capture=True).table

    def lab(part):
        program = [compare_counters.__file__, ["--launch", "--part", str(part), str(parts)]]
        found = sanitize_script(*program, "all", engine, timeout=500, capture=True)
        if found.ended.problem and found.clean:
            raise LabError(f"{LAB} {found.ended.problem} ({', '.join(found.tools)}): {found.ended.output[-600:]}")
        return not found.clean

    bugs = planted.corpus()
    parts = PARTS if engine == "gpu" else 1
    with ThreadPoolExecutor(2 * PARTS if engine == "gpu" else 1) as pool:
        alarms = [pool.submit(lab, part) for part in range(parts)]
        found, repaired = (list(pool.map(one, [(bug, fixed) for bug in bugs])) for fixed in (False, True))
    return pd.DataFrame([
        {"kernel": bug.kernel, "found": any(rows["line"].isin(bug.lines)), "false_alarm": not others.empty}
        for bug, rows, others in zip(bugs, found, repaired, strict=True)
    ] + [{"kernel": LAB, "found": False, "false_alarm": any(alarm.result() for alarm in alarms),
          "sources": " ".join(sorted({source for _, _, source, *_ in compare_counters.every()}))}])  # fmt: skip


def report(ours: pd.DataFrame, theirs: pd.DataFrame, device: str, date: str) -> str:
    """The comparison in Markdown."""
    ours, theirs = ours.set_index("kernel"), theirs.set_index("kernel")
    bugs = planted.corpus()
    kinds = len({bug.kind for bug in bugs})
    text = (
        f"# Planted bugs: what the engine and compute-sanitizer find\n\n{len(bugs)} bugs of {kinds} kinds, each with "
        "its repair, in `tests/check/corpus`. A bug counts as found if it is reported at its line. compute-sanitizer "
        f"ran on {device}, {date}. Written by `python -m labkit.recording.compare_sanitizers`.\n\n"
        f"| | found | repairs with a finding | {LAB} |\n|---|---:|---:|---|\n"
        f"| CPU engine | {_sums(ours, len(bugs))} |\n| compute-sanitizer | {_sums(theirs, len(bugs))} |\n\n"
        f"The kernels of the lab are those of [counters.md](counters.md), with all four tools.\n\n"
        "| kind | kernel | tool | CPU engine | compute-sanitizer |\n|---|---|---|---|---|\n"
    )
    words = {True: "found", False: "**missed**"}
    for bug in bugs:
        mine, other = (words[bool(table.loc[bug.kernel, "found"])] for table in (ours, theirs))
        text += f"| {bug.kind} | {bug.kernel.replace('_', ' ')} | {bug.tool} | {mine} | {other} |\n"
    return text


def _sums(table: pd.DataFrame, bugs: int) -> str:
    """The cells of the summary, of a table by kernel."""
    repairs = table.drop(index=LAB, errors="ignore")["false_alarm"].sum()
    lab = "not recorded"
    if LAB in table.index:
        ran = set(table.loc[LAB, "sources"].split())
        later = dict.fromkeys(program.split(",")[0] for program, _, source, *_ in compare_counters.every()
                              if source not in ran)  # fmt: skip
        lab = "findings" if table.loc[LAB, "false_alarm"] else "clean"
        lab += f"; not run with their present source: {', '.join(later)}" if later else ""
    return f"{table['found'].sum()} of {bugs} | {repairs} | {lab}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--record", action="store_true", help="record what compute-sanitizer finds on this GPU")
    parser.add_argument("--device", default="nvidia-h200", help="whose recorded findings to compare with")
    chosen = parser.parse_args()
    if chosen.record:
        print(record_evidence(find("gpu"), RECORDED))
        return 0
    path = RECORDED / f"{chosen.device}.csv"
    if not path.is_file():
        raise LabError(f"there is no {path.name} in {RECORDED}: record it on that GPU with --record")
    theirs = pd.read_csv(path)
    bugs = {bug.kernel for bug in planted.corpus()}
    if set(theirs["kernel"]) - {LAB} != bugs:
        raise LabError(f"{path} is of another corpus: record it again with --record")
    ours = find("cpu")
    print(write(REPORT, report(ours, theirs, theirs["device"].iloc[0], theirs["date"].iloc[0])))
    print(f"CPU engine {ours['found'].sum()}, compute-sanitizer {theirs['found'].sum()} of {len(bugs)}")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except LabError as error:
        sys.exit(f"compare_sanitizers: {error}")
