"""The CPU engine's counts against Nsight Compute's, kernel by kernel, in data/counters.md.

The kernels are those of `recording.jobs`. ncu's counters are recorded on a GPU, in
data/counters/exact/. nvcc joins neighbouring accesses, so that some counters of shared memory have
to differ: the loads and stores in its machine code, recorded in data/counters/instructions/, say
which, why, and by how much.
"""

import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from pathlib import Path
from typing import Annotated

import numpy as np
import pandas as pd
from typer import Option

from hostcuda.gpu import nvcc
from hostcuda.metrics import COUNTED, MEASURED
from hostcuda.profile import watch
from labkit import LabError, Layer, device
from labkit.base import manifest
from labkit.base.paths import data_dir
from labkit.evidence import resources
from labkit.exercises.exercise import exercise
from labkit.ladder.source import NVCC_OPTIONS, cell_arguments
from labkit.ladder.variants import Variant
from labkit.records import store
from recording import jobs, machine_code
from recording.counters import count_launches
from recording.keep import merge_rows, record_evidence
from recording.options import Device, Rungs, choose_rungs
from recording.readme import replace_marked

EXACT = data_dir() / "counters" / "exact"
ARCH = "sm_90"  # the architecture of the device whose counters are recorded
INSTRUCTIONS = data_dir() / "counters" / "instructions" / f"{ARCH}.csv"
REPORT = data_dir() / "counters.md"
ALLOWED = 0.01  # the largest error of a count that agrees
# likewise, of what the machine code predicts: a loop's last round may differ from the others
PREDICTED = 0.05
SHOWN = ["program", "shape", "kernel"]
KEYS = ["program", "shape", "source", "kernel"]
# The wavefronts that the addresses of shared accesses need: ncu counts them per instruction. The
# pipe adds others, whose number changes from run to run; they are in `COUNTED`'s wavefronts and in
# its conflicts.
_NEEDED = "smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_{}.sum"
NEEDED = {"load": (_NEEDED.format("ld"), _NEEDED.format("ldsm")), "store": (_NEEDED.format("st"),)}
MATRIX_LOADS = MEASURED["matrix_load_instructions"]
METRICS = [
    *COUNTED.values(),
    MATRIX_LOADS,
    *(metric for metrics in NEEDED.values() for metric in metrics),
]
NO_LANE = "executed also by warps without an active lane"
# The least wavefronts of a warp's instruction, by bytes per lane: the number if all lanes read the
# same words. If half of the lanes take no part, one wavefront is enough.
LEAST = {1: 1, 2: 1, 4: 1, 8: 1, 16: 2}
GROUPS = {
    "Global memory": ("global",),
    "Atomics": ("atomic", "reduction"),
    "Shared memory": ("shared",),
}


# ----------------------------------------------------------------------------------------- counting
def count_on_gpu(counted_jobs: Sequence[jobs.Job]) -> pd.DataFrame:
    """Count with Nsight Compute (ncu); return a row per launch: KEYS, and the counters by their names in COUNTED."""
    launches = count_launches(counted_jobs, METRICS)  # (job, what it returned, ncu's counters)
    rows = pd.DataFrame([row for *_, row in launches])
    table = _label_rows([job for job, *_ in launches], rows)
    # the engine counts LDSM, the loads of matrices, among the loads; ncu has a counter of its own for it
    table["shared_load_instructions"] += rows[MATRIX_LOADS]
    # "load", "store" -> ncu's counters of the wavefronts that the addresses of a warp need
    for op, metrics in NEEDED.items():
        table[f"shared_{op}_needed"] = rows[list(metrics)].sum(axis=1)
    return table


def count_on_cpu(counted_jobs: Sequence[jobs.Job]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Run the jobs on the CPU engine; return its counters and its accesses, two tables.

    The first table has a row per launch: KEYS (program, shape, source, kernel) and the counters of
    `count_on_gpu`, except for the *_needed. The second, `Profile.sites`, has a row per launch,
    kernel and access in the source. Raises LabError if the program fails.
    """
    with jobs.write_program(counted_jobs) as (command, find_owners):
        # nvcc=False: the profile needs no registers and occupancy, which nvcc would tell
        counted = watch(command, "cpu", nvcc=False)
        if counted.ended.problem:
            raise LabError(f"the kernels' program {counted.ended.problem}. {counted.note}")
        return _label_rows(
            [job for job, _ in find_owners(len(counted.table))], counted.table
        ), counted.sites


def _label_rows(owners: list[jobs.Job], rows: pd.DataFrame) -> pd.DataFrame:
    """Return a row per launch: the KEYS of its job and kernel, and its counters, renamed.

    `rows` has the counters of each launch under ncu's names, also those that the engine counted.
    COUNTED maps the new names, such as "global_sectors", to ncu's.
    """
    table = pd.DataFrame([(job.program, job.shape, job.source) for job in owners], columns=KEYS[:3])
    return table.assign(
        kernel=rows["kernel"], **{name: rows[key] for name, key in COUNTED.items() if key in rows}
    )


def record_counters(wanted_jobs: Iterable[jobs.Job]) -> None:
    """Record ncu's counters of those jobs that are new or have changed, group by group.

    Counters of kernels that are no longer there, or have another source now, are removed.
    """
    path = EXACT / f"{device().slug}.csv"
    if path.is_file():
        table = store.read(path)
        current_keys = {(job.program, job.shape, job.source) for job in jobs.list_all_jobs()}
        recorded_keys = pd.MultiIndex.from_frame(table[KEYS[:3]])  # program, shape, source
        if not recorded_keys.isin(current_keys).all():
            merge_rows(
                path,
                # files have the names of rungs without their numbers, which `store.read` has added
                store.remove_rung_numbers(table[recorded_keys.isin(current_keys)]),
                None,  # no key: the whole file is replaced
                digits=10,
            )
        wanted_jobs = [
            job for job in wanted_jobs if (job.program, job.shape, job.source) not in recorded_keys
        ]
    if not wanted_jobs:
        print("nothing is missing")
        return
    start = time.perf_counter()
    jobs.compile_all(wanted_jobs)
    print(f"{len(wanted_jobs)} jobs compiled, {time.perf_counter() - start:.0f} s", flush=True)
    # `groupby` joins neighbors only: `jobs.list_all_jobs` has the jobs of a group side by side
    for group, members in groupby(wanted_jobs, lambda job: job.group):
        table = count_on_gpu(list(members))
        # replaces the rows with the same program and shape (KEYS[:2]), also those of an older source
        record_evidence(table, EXACT, by=KEYS[:2])
        print(
            f"{group}: {len(table)} launches counted, {time.perf_counter() - start:.0f} s",
            flush=True,
        )


def memory_instructions(variant: Variant, layer: Layer) -> pd.DataFrame:
    """Compile a variant for a layer; return the loads, stores and atomics of its machine code.

    The columns are `machine_code.COLUMNS`: a row per source line and kind of instruction, with their number.
    The architecture is ARCH, or one with more instructions ("sm_90a") if the variant needs them.
    """
    # `prepare` returns (source, file name, options)
    return machine_code.disassemble(
        *resources.prepare(variant, layer), resources.choose_arch(variant, ARCH)
    )


def record_instructions() -> Path:
    """Record the loads and stores of all kernels in nvcc's machine code, to explain differences of counts.

    A row has the KEYS of its kernel: program, shape, source (a digest) and kernel. Returns the file
    INSTRUCTIONS, which is written anew.
    """
    ladder_jobs = [*jobs.list_ladder_jobs(), jobs.make_network_job()]
    practice_jobs = jobs.list_practice_jobs()
    with ThreadPoolExecutor() as pool:
        tables = list(
            pool.map(lambda job: memory_instructions(job.variant, job.layer), ladder_jobs)
        )
    for job in practice_jobs:
        # compiled as the engine compiles it, so that the kernels have the same names
        arguments = cell_arguments(exercise(job.exercise).solution, "attempt")
        text = arguments["source"]
        if not arguments["no_extern_c"]:  # the engine puts the source into extern "C"
            text = f'extern "C" {{\n{text}}}'
        tables.append(machine_code.disassemble(text, "attempt.cu", NVCC_OPTIONS, ARCH))
    tables = [
        table.assign(program=job.program, shape=job.shape, source=job.source)
        for job, table in zip((*ladder_jobs, *practice_jobs), tables, strict=True)
    ]
    textbook = machine_code.disassemble(jobs.TEXTBOOK.read_text(), jobs.TEXTBOOK.name, arch=ARCH)
    # the shape of a textbook's job is its kernel's name
    sources = {job.shape: job.source for job in jobs.list_textbook_jobs()}
    tables.append(
        textbook.assign(
            program="textbook", shape=textbook["kernel"], source=textbook["kernel"].map(sources)
        )
    )
    table = store.remove_rung_numbers(
        pd.concat(tables, ignore_index=True).assign(compiler=f"{nvcc.nvcc_version()}, {ARCH}")
    )
    rest = ["line", "instruction", "space", "op", "bytes", "predicated", "count"]
    return manifest.write(
        INSTRUCTIONS, table[["compiler", *KEYS, *rest]].to_csv(index=False, lineterminator="\n")
    )


# ----------------------------------------------------------------------------------- the comparison
def separate_extra_wavefronts(theirs: pd.DataFrame) -> pd.DataFrame:
    """Return ncu's table with columns for the wavefronts of shared memory that the addresses do not need.

    A wavefront is one pass of a warp's access through the 32 banks. ncu counts all wavefronts, and those
    that the addresses need: the columns shared_load_needed and shared_store_needed. The difference is
    put into shared_load_added and shared_store_added, and subtracted from the wavefronts and the
    conflicts, which are then comparable with the engine's.
    """
    table = theirs.copy()
    for op in NEEDED:
        extra = table[f"shared_{op}_wavefronts"] - table[f"shared_{op}_needed"]
        table[f"shared_{op}_added"] = extra
        table[f"shared_{op}_wavefronts"] -= extra
        # clip: no count is negative
        table[f"shared_{op}_conflicts"] = (table[f"shared_{op}_conflicts"] - extra).clip(lower=0)
    return table


def compare_tables(ours: pd.DataFrame, theirs: pd.DataFrame) -> pd.DataFrame:
    """Put the engine's counters (`ours`) beside ncu's (`theirs`); return a row per launch and counter.

    Rows belong together by KEYS: program, shape, source and kernel.
    Counters that are 0 in both are left out. The columns: launch (its number), program, shape,
    source, kernel, counter, counted (the engine's count), ncu, error (relative; infinite where ncu
    counts none). `attrs["left_out"]` names the programs that were not recorded with the source they
    have now. Raises LabError if that is true of all.
    """
    # A job may launch a kernel several times: the n-th launch here belongs to the n-th under ncu.
    ours, theirs = (table.assign(nth=table.groupby(KEYS).cumcount()) for table in (ours, theirs))
    names = [name for name in COUNTED if name in ours and name in theirs]
    # launches that are in both tables; ncu's columns get the suffix
    both = ours.reset_index(names="launch").merge(theirs, on=[*KEYS, "nth"], suffixes=("", " ncu"))
    if both.empty:
        raise LabError("the recorded counters are of other sources: record them again on that GPU")
    both = both.set_index(["launch", *KEYS])
    sides = {
        "counted": both[names],
        "ncu": both[[f"{name} ncu" for name in names]].set_axis(names, axis=1),
    }
    # from a column per counter to a row per counter
    table = pd.DataFrame(
        {side: columns.rename_axis(columns="counter").stack() for side, columns in sides.items()}
    )
    table = table[table.any(axis=1)].reset_index()  # without those that are 0 in both
    table["error"] = (table["counted"] - table["ncu"]).abs() / table["ncu"]
    # `ours` has the launch numbers as its index: what remains has no recorded counters
    missing = ours.drop(both.index.get_level_values("launch"))[
        ["program", "shape"]
    ].drop_duplicates()
    shapes = missing.groupby("program", sort=False)["shape"].agg(", ".join)
    table.attrs["left_out"] = [f"{program} ({shape})" for program, shape in shapes.items()]
    return table


class Code:
    """The instructions that nvcc made of each launch's accesses, line by line, beside the engine's counts.

    nvcc joins a lane's neighbouring accesses to shared memory into one of 8 or 16 bytes, and splits
    accesses to global memory whose values are not in registers side by side. Where a line's n
    instructions move b bytes per lane together, each byte that the line moves takes n / b
    instructions, however often the line runs. `sites` is the engine's `Profile.sites`;
    `instructions` are those that `record_instructions` wrote.
    """

    def __init__(self, sites: pd.DataFrame, instructions: pd.DataFrame):
        """Keep both tables, and in `known` the keys of all kernels that have instructions."""
        self.sites, self.code = sites, instructions
        self.known = set(instructions[KEYS].itertuples(index=False, name=None))

    def list_lines(self, launch: int, keys: list[str], space: str, op: str) -> list[dict]:
        """Compare, for each source line that loads or stores, the accesses in the source with nvcc's instructions.

        `launch` is the launch's number. `keys`, the values of KEYS, say which compiled kernel it
        is. `space` is "shared" or "global", `op` "ld" (load) or "st" (store). Returns a dict per
        line:

        - line: its number
        - requests, and wavefronts (shared) or sectors (global): the engine's counts
        - sizes: the sizes of the accesses in the source [bytes], a set
        - as_written: whether nvcc's instructions have the same sizes
        - made: a table of nvcc's instructions; its column "executed" says how often each must be
          executed for the line to move as many bytes as in the source
        """
        sites, code = (
            table[(table["space"] == space) & (table["op"] == op)]
            for table in (self.sites, self.code)
        )
        sites, code = sites[sites["launch"] == launch], code[(code[KEYS] == keys).all(axis=1)]
        units = "sectors" if space == "global" else "wavefronts"
        lines = []
        for line, rows in sites.groupby("line"):
            compiled = code[code["line"] == line]
            # both in bytes per lane: over all times that the line runs; each time that it runs
            total_bytes = (rows["size"] * rows["requests"]).sum()
            bytes_per_run = (compiled["bytes"] * compiled["count"]).sum()
            # how often the line runs; NaN if it has no machine code
            runs = total_bytes / bytes_per_run if bytes_per_run else np.nan
            lines.append(
                {
                    "line": int(line),
                    "requests": rows["requests"].sum(),
                    units: rows[units].sum(),
                    "sizes": set(rows["size"]),
                    "as_written": set(compiled["bytes"]) == set(rows["size"]),
                    "made": compiled.assign(executed=compiled["count"] * runs),
                }
            )
        return lines

    def explain(self, row) -> dict:
        """Explain why ncu's count of a row of `compare_tables` differs from the engine's, if nvcc's instructions tell.

        `row.counter` is a counter of loads or stores: "global_load_sectors". Returns a dict:
        as_written (whether nvcc left the accesses as they are in the source), expected (the count
        that follows from nvcc's accesses; the least for wavefronts; NaN if none follows), why (the
        reason of the difference as a text, or "").
        """
        space, op, unit = row.counter.split("_")
        lines = self.list_lines(
            row.launch,
            [getattr(row, key) for key in KEYS],
            space,
            {"load": "ld", "store": "st"}[op],
        )
        if space == "global":  # nvcc may have split wide accesses
            return _explain_split(lines, unit, row.ncu)
        if any(line["made"].empty for line in lines):  # a line without machine code
            return {"as_written": False, "expected": np.nan, "why": ""}
        if all(line["as_written"] for line in lines):  # then only predicates can make a difference
            why = "" if unit == "conflicts" else _explain_predicated(lines, row)
            return {"as_written": not why, "expected": np.nan, "why": why}
        return _explain_joined(lines, unit, row)


def _explain_predicated(lines: list[dict], row) -> str:
    """Return why ncu counts more than the engine, though nvcc left the accesses as they are written, or "".

    ncu also counts the warps of which no lane accesses memory in a predicated instruction.
    """
    predicated = [line for line in lines if line["made"]["predicated"].any()]
    if predicated and row.ncu > row.counted * (1 + ALLOWED):
        return f"{_list_instructions(predicated)} {NO_LANE}"
    return ""


def _explain_joined(lines: list[dict], unit: str, row) -> dict:
    """Explain a count of shared memory, as `Code.explain` does, by accesses that nvcc joins into wider ones."""
    joined = [line for line in lines if not line["as_written"]]
    executed = [
        (made.bytes, made.executed) for line in joined for made in line["made"].itertuples()
    ]
    expected, fits = np.nan, False
    if unit == "instructions":
        expected = sum(times for _, times in executed)
        expected += sum(line["requests"] for line in lines if line["as_written"])
        fits = abs(row.ncu - expected) <= PREDICTED * expected
    elif unit == "wavefronts":
        # at least those of a broadcast, at most those of the accesses one by one
        expected = sum(LEAST[size] * times for size, times in executed)
        expected += sum(line["wavefronts"] for line in lines if line["as_written"])
        one_each = expected - sum((LEAST[size] - 1) * times for size, times in executed)
        fits = one_each * (1 - ALLOWED) <= row.ncu <= row.counted * (1 + ALLOWED)
        expected += sum(_count_kept_conflicts(line) for line in joined)
    return {
        "as_written": False,
        "expected": expected,
        "why": _list_instructions(joined) if fits else "",
    }


def _explain_split(lines: list[dict], unit: str, ncu: float) -> dict:
    """Explain "requests" or "sectors" of global memory, as `Code.explain` does, by accesses that nvcc splits.

    A lane's 8 or 16 bytes are then accessed 4 or 8 at a time, and each of these instructions
    accesses all sectors of the wide one.
    """
    unexplained = {"as_written": True, "expected": np.nan, "why": ""}
    if any(line["made"].empty for line in lines):
        return unexplained
    split = [line for line in lines if min(line["made"]["bytes"]) < min(line["sizes"])]
    numbers = {line["line"] for line in split}
    expected = sum(
        line[unit]
        * (line["made"]["executed"].sum() / line["requests"] if line["line"] in numbers else 1)
        for line in lines
    )
    if not split or abs(ncu - expected) > PREDICTED * expected:
        return unexplained
    return {"as_written": False, "expected": expected, "why": _list_instructions(split)}


def _count_kept_conflicts(line: dict) -> float:
    """Return the conflicts of accesses that nvcc leaves as they are beside joined ones; `line` is of `list_lines`."""
    # Joined accesses had no conflicts: they are a thread's neighbors, which the lanes mostly share.
    has_unjoined = line["made"]["bytes"].isin(line["sizes"]).any()
    return line["wavefronts"] - line["requests"] if has_unjoined else 0


def explain_rows(table: pd.DataFrame, code: Code) -> pd.DataFrame:
    """Return the rows of `compare_tables` with the reasons of their differences, as far as nvcc's code tells them.

    The new columns are those of `Code.explain` (as_written, expected, why) and "unknown", the text
    that the report has where `why` is "".
    """
    no_explanation = {"as_written": True, "expected": np.nan, "why": ""}
    explanations = [
        code.explain(row)
        if row.counter.startswith(("shared_load", "shared_store", "global_load", "global_store"))
        else no_explanation
        for row in table.itertuples()
    ]
    explained = table.join(pd.DataFrame(explanations, index=table.index))
    explained["unknown"] = [
        "unknown" if keys in code.known else "unknown: its machine code has not been recorded"
        for keys in table[KEYS].itertuples(index=False, name=None)
    ]
    explained.attrs = table.attrs  # "left_out", for `write_report`
    # what ncu counts beyond what nvcc's code leads to, or beyond the engine's count if that is unknown
    surplus = explained["ncu"] - explained["expected"].fillna(explained["counted"])
    surplus_by_counter = dict(
        zip(zip(explained["launch"], explained["counter"], strict=True), surplus, strict=True)
    )
    # The reason NO_LANE says that ncu also counts instructions without an active lane. Each of them
    # adds one wavefront at most: more wavefronts have another reason, which is unknown.
    for row in explained[explained["error"] > ALLOWED].itertuples():
        if row.why.endswith(NO_LANE) and row.counter.endswith("wavefronts"):
            more_instructions = surplus_by_counter.get(
                (row.launch, row.counter.replace("wavefronts", "instructions")), 0
            )
            if surplus_by_counter[row.launch, row.counter] > more_instructions:
                explained.loc[row.Index, "why"] = ""
    return explained


def _list_instructions(lines: list[dict]) -> str:
    """Return the instructions of some lines as a text: "line 64: 16 LDS, 4 LDS.128"."""
    texts = []
    for line in lines:
        counts = line["made"].groupby("instruction", sort=False)["count"].sum()
        texts.append(
            f"line {line['line']}: "
            + ", ".join(f"{count} {name}" for name, count in counts.items())
        )
    return "; ".join(texts)


# --------------------------------------------------------------------------------------- the report
def write_report(table: pd.DataFrame, theirs: pd.DataFrame, compiler: str) -> dict[str, str]:
    """Return the texts of data/counters.md in Markdown, by the names of their markers.

    `table` is what `explain_rows` returns: a row per launch and counter, with the engine's count
    (counted), ncu's (ncu), the count that nvcc's instructions lead to (expected), and the reason of
    a difference (why; without one, unknown). `theirs` is what `separate_extra_wavefronts` returns.
    """
    where, date = theirs["device"].iloc[0], theirs["date"].max()
    close, explained = table["error"] <= ALLOWED, table["why"] != ""
    shared = table["counter"].str.startswith("shared")
    parts = {  # name -> which rows of `table` belong to it
        "global loads and stores": table["counter"].str.startswith(GROUPS["Global memory"]),
        "atomics": table["counter"].str.startswith(GROUPS["Atomics"]),
        "shared memory, accesses as written": shared & table["as_written"],
        "shared memory, accesses joined by nvcc": shared & ~table["as_written"],
    }
    summary = (  # a table under it has a row for each of `parts`
        f"Nsight Compute (ncu) counted on {where}, {date}. The machine code is that of {compiler}.\n\n"
        "The tables compare counts of three groups of kernels: the lab's kernels, the exercises' solutions, "
        "and textbook kernels. "
        f"The lab's kernels compute {jobs.BATCH} images. `python -m recording compare-counters` writes the tables.\n\n"
    ) + _format_table(
        ["counters", "", f"agree within {ALLOWED:.0%}", "others"],
        "-rr-",  # r: a column that is right-aligned
        (
            (
                name,
                rows.sum(),
                (rows & close).sum(),
                ", ".join(
                    f"{count} {what}"
                    for count, what in (
                        ((rows & ~close & explained).sum(), "with a reason"),
                        ((rows & ~close & ~explained).sum(), "without"),
                    )
                    if count
                ),
            )
            for name, rows in parts.items()
            if rows.any()
        ),
    )
    if table.attrs.get("left_out"):
        left_out = "; ".join(table.attrs["left_out"])
        summary += (
            f"\nNot compared, because they are new or have changed since ncu counted: {left_out}.\n"
        )
    differences = _format_table(
        ["program", "shape", "kernel", "counter", "counted", "expected", "ncu", "why"],
        "----rrr-",
        (
            (
                row.program,
                row.shape,
                row.kernel,
                row.counter.replace("_", " "),
                f"{row.counted:,.0f}",
                "" if np.isnan(row.expected) else f"{row.expected:,.0f}",
                f"{row.ncu:,.0f}",
                row.why or row.unknown,
            )
            for row in table[~close].itertuples()
        ),
    )
    return {
        "summary": summary,
        "differences": differences,
        "added": format_extra_wavefronts(theirs),
        "counts": _format_counts(table),
    }


def _format_counts(table: pd.DataFrame) -> str:
    """Return a table in Markdown per entry of GROUPS, a row per launch: "40", or "40 / 42" where ncu counts 42."""
    text = ""
    for title, starts in GROUPS.items():
        rows = table[table["counter"].str.startswith(starts)]
        names = [name for name in COUNTED if name in set(rows["counter"])]
        heads = [
            name.removeprefix("global_").removeprefix("shared_").replace("_", " ") for name in names
        ]
        lines = []
        for _, launch in rows.groupby("launch"):
            cells = {
                row.counter: f"{row.counted:,.0f}" + (f" / {row.ncu:,.0f}" if row.error else "")
                for row in launch.itertuples()
            }
            # both 0: no row
            lines.append([*launch[SHOWN].iloc[0], *(cells.get(name, "0") for name in names)])
        text += (
            f"\n### {title}\n\n{_format_table([*SHOWN, *heads], '---' + 'r' * len(heads), lines)}"
        )
    return text


def format_extra_wavefronts(theirs: pd.DataFrame) -> str:
    """Return a table in Markdown of the wavefronts of shared memory that the addresses do not need.

    It has the kernels with more of them than ALLOWED, as a share of those needed. `theirs` is what
    `separate_extra_wavefronts` returns.
    """
    return _format_table(
        [*SHOWN, "", "needed", "added"],
        "----rr",  # the last two columns are right-aligned
        (
            (
                *(row[name] for name in SHOWN),
                f"{op}s",
                f"{row[f'shared_{op}_needed']:,.0f}",
                f"{row[f'shared_{op}_added']:,.0f}",
            )
            for row in theirs.to_dict("records")
            for op in NEEDED
            if row[f"shared_{op}_added"] > ALLOWED * row[f"shared_{op}_needed"]
        ),
    )


def _format_table(heads: list[str], sides: str, rows: Iterable) -> str:
    """Return a table in Markdown; `sides` has an "r" for each column of numbers and a "-" for each other one."""
    rule = "|".join("---:" if side == "r" else "---" for side in sides)
    return f"| {' | '.join(heads)} |\n|{rule}|\n" + "".join(
        f"| {' | '.join(map(str, row))} |\n" for row in rows
    )


def compare_counters(
    rungs: Rungs = None,
    missing: Annotated[
        bool, Option("--missing", help="Record ncu's that are new or have changed, on a GPU.")
    ] = False,
    instructions: Annotated[
        bool, Option("--instructions", help="Record what nvcc makes of the kernels.")
    ] = False,
    device: Device = "nvidia-h200",
) -> None:
    """Compare counters, ours and ncu's: data/counters.md.

    The comparison of some rungs alone, or of "practice", is printed. With --missing or
    --instructions only data/counters/exact/ or data/counters/instructions/ is written.
    """
    # the groups of jobs that these names stand for
    groups = {name if name == "practice" else choose_rungs([name])[0].label for name in rungs or ()}
    wanted_jobs = [job for job in jobs.list_all_jobs() if not rungs or job.group in groups]
    if missing:
        record_counters(wanted_jobs)
    if instructions:
        print(record_instructions())
    if missing or instructions:
        return
    path = EXACT / f"{device}.csv"
    for file, option in ((path, "--missing"), (INSTRUCTIONS, "--instructions")):
        if not file.is_file():
            raise LabError(f"there is no {file.name} in {file.parent}: record it with {option}")
    theirs, code = separate_extra_wavefronts(store.read(path)), store.read(INSTRUCTIONS)
    ours, sites = count_on_cpu(wanted_jobs)
    # only the programs that ran here: `rungs` may have left some out
    theirs = theirs[theirs["program"].isin(ours["program"])]
    table = explain_rows(compare_tables(ours, theirs), Code(sites, code))
    for name, text in write_report(table, theirs, code["compiler"].iloc[0]).items():
        print(
            text
            if rungs
            else f"{name}: {'written' if replace_marked(name, text, REPORT) else 'was up to date'}"
        )
    close = table["error"] <= ALLOWED
    print(
        f"{close.sum()} of {len(table)} counters agree within {ALLOWED:.0%}, {(~close & (table['why'] == '')).sum()} "
        "differ without a known reason"
    )
