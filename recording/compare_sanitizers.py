"""Compare which of the planted bugs in engine/tests/check/corpus the CPU engine and compute-sanitizer find.

Both also check all kernels of the lab, where every finding is a false alarm.
"""

import functools
import importlib.util
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated

import pandas as pd
from tqdm import tqdm
from typer import Option

from hostcuda import files
from hostcuda.sanitize import sanitize_script
from labkit.base.errors import LabError
from labkit.base.paths import PACKAGE, data_dir
from labkit.evidence import sanitize
from labkit.records import store
from recording import jobs
from recording.keep import record_evidence
from recording.options import Device

PLANTED = PACKAGE.parent / "engine" / "tests" / "check" / "corpus" / "planted.py"
RECORDED = data_dir() / "findings"
REPORT = data_dir().parent / "engine" / "docs" / "findings.md"
LAB = "all kernels of the lab"  # a row beside those of the bugs
# of the lab's kernels on a GPU, each in its own process: compute-sanitizer takes minutes for all in
# one
PARTS = 12


@functools.cache
def load_bugs() -> list:
    """Return the bugs of planted.py, each with kernel, kind, tool, lines; LabError if there is no such file.

    A bug is an object with these attributes: the name of a kernel that was made wrong on purpose, what is
    wrong, the tool that should find it, and the lines at which it counts as found.
    """
    if not PLANTED.is_file():
        raise LabError(f"there is no {PLANTED}: run this in a checkout of the repository")
    spec = importlib.util.spec_from_file_location("planted", PLANTED)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.corpus()


def check_bugs(engine: str) -> pd.DataFrame:
    """Return a row per bug: kernel, found (at a line that belongs to it), false_alarm (a finding on its repair).

    planted.py, run with a bug's kernel, launches it; with --fixed it launches the repair.
    """

    def make_row(bug) -> dict:
        """Check a bug and its repair, each in a process of its own, which a fault ends on a GPU."""
        findings, on_repair = (
            sanitize_script(
                str(PLANTED), [bug.kernel, *fixed], bug.tool, engine, timeout=300, capture=True
            ).table
            for fixed in ((), ("--fixed",))
        )
        hit = findings["line"].isin(bug.lines).any()
        return {"kernel": bug.kernel, "found": hit, "false_alarm": not on_repair.empty}

    bugs = load_bugs()
    # each thread waits for one process of a tool at a time
    with ThreadPoolExecutor(2 * PARTS if engine == "gpu" else os.cpu_count()) as pool:
        return pd.DataFrame(tqdm(pool.map(make_row, bugs), "planted bugs", len(bugs), leave=False))


def check_kernels(engine: str) -> pd.DataFrame:
    """Return a table of one row for all kernels of the lab: kernel (LAB), found, false_alarm, sources.

    There are no planted bugs, so "found" is False; "false_alarm" says whether a tool found
    something. "sources" has the digests of the kernels that ran, joined by blanks. Raises LabError
    if a program fails without a finding.
    """

    def has_finding(checked_jobs: Sequence[jobs.Job]) -> bool:
        """Return whether one of the sanitizer's tools finds something in a program that runs the jobs."""
        # the second value, which tells the job of each launch, is not needed
        with jobs.write_program(checked_jobs) as (command, _):
            checked = sanitize.watch(command, "all", engine, timeout=500, capture=True)
        if (ended := checked.ended).problem and checked.clean:
            raise LabError(
                f"{LAB} {ended.problem} ({', '.join(checked.tools)}): {ended.output[-600:]}"
            )
        return not checked.clean

    # on a GPU PARTS programs side by side, each with a share of the jobs
    all_jobs, programs = jobs.list_all_jobs(), PARTS if engine == "gpu" else 1
    with ThreadPoolExecutor(programs) as pool:
        # a share is every `programs`-th job
        shares = [all_jobs[first::programs] for first in range(programs)]
        alarms = list(tqdm(pool.map(has_finding, shares), LAB, programs, leave=False))
    sources = " ".join(sorted({job.source for job in all_jobs}))
    return pd.DataFrame(
        [{"kernel": LAB, "found": False, "false_alarm": any(alarms), "sources": sources}]
    )


def write_report(ours: pd.DataFrame, theirs: pd.DataFrame) -> str:
    """Return the comparison in Markdown; the tables have the rows of `check_bugs` and `check_kernels`."""
    device, date = theirs["device"].iloc[0], theirs["date"].max()
    bugs, kinds = load_bugs(), {bug.kind for bug in load_bugs()}
    ours, theirs = ours.set_index("kernel"), theirs.set_index("kernel")
    text = (
        "# Planted bugs: what the engine and compute-sanitizer find\n\n"
        f"The folder `engine/tests/check/corpus` has {len(bugs)} kernels, each with one planted bug: a mistake on "
        f"purpose. There are {len(kinds)} kinds of bugs. Each kernel also has a repaired version.\n\n"
        f"`hostcuda sanitize` checked both versions of each kernel on the CPU. NVIDIA's compute-sanitizer checked them "
        f"on an {device} on {date}. A bug counts as found if the tool reports it at the line of the bug.\n\n"
        "`python -m recording compare-sanitizers` writes this page.\n\n"
        "| | bugs found | repaired versions with a finding | kernels of the lab |\n|---|---:|---:|---|\n"
        f"| CPU engine | {_summarize(ours)} |\n| compute-sanitizer | {_summarize(theirs)} |\n\n"
        'The column "kernels of the lab" is about the kernels of the convolution lab, which have no planted bugs. '
        '"Clean" means that the tool reports nothing about them.\n\n'
        'The words "changed after the run" stand before kernels of the convolution lab whose source has changed since '
        "the tool checked them.\n\n"
        "The next table says how many bugs of each kind a tool finds, and names the kernels whose bugs it misses. Two "
        "kinds need an explanation:\n\n"
        '- "By one": the kernel accesses the first element beyond the end of an array.\n'
        '- "Into the neighbour": the access is further beyond the end, where another array can be.\n\n'
        "| kind of bug | tool | CPU engine | compute-sanitizer |\n|---|---|---|---|\n"
    )
    kernels_by_kind: dict[tuple[str, str], list[str]] = {}
    for bug in bugs:
        kernels_by_kind.setdefault((bug.kind, bug.tool), []).append(bug.kernel)
    for (kind, tool), kernels in kernels_by_kind.items():
        cells = [_count_found(table, kernels) for table in (ours, theirs)]
        text += f"| {' | '.join([kind, tool, *cells])} |\n"
    return text


def _count_found(table: pd.DataFrame, kernels: Sequence[str]) -> str:
    """Return a cell, "2 of 3; misses `one_row_further`", for kernels of a table that is indexed by kernel."""
    missed = [f"`{kernel}`" for kernel in kernels if not table.loc[kernel, "found"]]
    names = f"; misses {', '.join(missed)}" if missed else ""
    return f"{len(kernels) - len(missed)} of {len(kernels)}{names}"


def _summarize(table: pd.DataFrame) -> str:
    """Return the cells of a summary's row, "68 of 70 | 0 | clean", from a table that is indexed by kernel."""
    corpus = table.loc[[bug.kernel for bug in load_bugs()]]
    lab = "not recorded"
    if LAB in table.index:
        # the digests that `check_kernels` joins
        recorded_sources = set(table.loc[LAB, "sources"].split())
        later = dict.fromkeys(
            job.program.split(",")[0]
            for job in jobs.list_all_jobs()
            if job.source not in recorded_sources
        )
        lab = "findings" if table.loc[LAB, "false_alarm"] else "clean"
        lab += f"; changed after the run: {', '.join(later)}" if later else ""
    return f"{corpus['found'].sum()} of {len(corpus)} | {corpus['false_alarm'].sum()} | {lab}"


def compare_sanitizers(
    record: Annotated[
        bool, Option("--record", help="Record compute-sanitizer's findings on this GPU.")
    ] = False,
    device: Device = "nvidia-h200",
) -> None:
    """Compare two sanitizers: engine/docs/findings.md.

    With --record only data/findings/ is written: those of the bugs, then those of the lab's
    kernels.
    """
    if record:
        for name, find in (("bugs", check_bugs), ("kernels", check_kernels)):
            print(f"{name}: in {record_evidence(find('gpu'), RECORDED, by=['kernel'])}", flush=True)
        return
    path = RECORDED / f"{device}.csv"
    if not path.is_file():
        raise LabError(
            f"there is no {path.name} in {RECORDED}: record it on that GPU with --record"
        )
    theirs, kernels = store.read_as_stored(path), {bug.kernel for bug in load_bugs()}
    if not kernels <= set(theirs["kernel"]):  # it lacks a bug of today
        raise LabError(f"{path} is of another corpus: record it again with --record")
    ours = pd.concat([check_bugs("cpu"), check_kernels("cpu")], ignore_index=True)
    print(files.write(REPORT, write_report(ours, theirs)))
    print(
        f"CPU engine {ours['found'].sum()}, compute-sanitizer {theirs['found'].sum()} of {len(kernels)}"
    )
