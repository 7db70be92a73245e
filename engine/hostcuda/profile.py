"""Counters of the memory accesses of each kernel launch, with or without a GPU, under the same names.

The CPU engine counts every access; on a GPU Nsight Compute counts. The program runs in a process of
its own. If a GPU's counters are not available, its rows have event times and the compiler's figures
instead, and say so.
"""

from __future__ import annotations

import html
import math
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import numpy as np
import pandas as pd

from hostcuda import processes, temporary
from hostcuda.errors import EngineError
from hostcuda.gpu import nsight
from hostcuda.gpu.nvcc import ARCH, compile_modules, nvcc_available, nvcc_version, occupancy_of
from hostcuda.limits import MULTIPROCESSOR, REGISTER_UNIT, WARP
from hostcuda.metrics import NAMES, NOT_ADDITIVE, QUOTIENTS, SUMS, TRAFFIC
from hostcuda.tables import HTML, table

ABANDONED = "CPU engine, counted until it was abandoned"
_ON_GPU = {"HOSTCUDA_ENGINE": "gpu"}
# in `source`, before the name of the compiler that the registers come from
_REGISTERS = "; registers: "
COUNTED, NCU, EVENTS = "CPU engine, counted", "ncu", "events, no counters"

_TAKEN = NAMES["local_requests_address_taken"]
# Sentences that explain a table's columns.
_WORDS = {
    "local_requests_address_taken": "Local requests (address taken): of a thread's own variables that a pointer or a "
    "computed index reaches. A GPU's compiler keeps some of them in registers; spills are not counted.",
    "constant_serialized": "Constant requests, of these repeated: lanes of a warp that read other words of constant "
    "memory wait for one another.",
}
_BLIND = re.compile(r"__restrict__|#\s*pragma\s+unroll|__launch_bounds__|__ldg\s*\(")
_FIRST = ("launch", "kernel", "grid", "block")
_LAST = ("blocks", "blocks_counted", "source")


@dataclass(repr=False)
class Profile:
    """The counters of a program's launches.

    Attributes
    ----------
    table : DataFrame
        A row per launch: ``launch`` (its number), ``kernel``, ``grid``, ``block``, the counters
        under Nsight Compute's names, ``blocks`` and ``blocks_counted`` (fewer if a launch was
        abandoned), ``source``. A counter that the source does not have is NaN.
    sites : DataFrame
        From the CPU engine, a row per launch and source line with memory accesses: ``launch``,
        ``kernel``, file, line, space, op and the counts.
    note : str
        Where the counters come from, what is missing and why.
    ended : Ended
        How the program ended.
    """

    table: pd.DataFrame
    sites: pd.DataFrame
    note: str
    ended: processes.Ended = field(default_factory=lambda: processes.Ended(0, 0.0))

    by: ClassVar[str] = "kernel"  # the column of `table` whose values are the rows of `counts`

    @property
    def counts(self) -> pd.DataFrame:
        """The counters under readable names: a row per kernel (per value of the column `by`).

        The columns are `by`, ``launches`` (their number) and the counters that the profile has. Each is
        the sum over the launches, or a quotient of such sums; for figures that do not add up
        (registers, hit rates), the mean over the launches.
        """
        rows = []
        for name, launches in self.table.groupby(self.by, sort=False):
            row = {self.by: name, "launches": len(launches)}
            # readable name -> Nsight Compute's, the column of `table`
            for friendly, column in NAMES.items():
                if column in launches and launches[column].notna().any():
                    values = launches[column]
                    row[friendly] = values.mean() if friendly in NOT_ADDITIVE else values.sum()
            # then those that are computed from the ones above: sums, and quotients (over, under)
            for friendly, parts in SUMS.items():
                values = [row[part] for part in parts if part in row]
                if values:
                    row[friendly] = sum(values)
            for friendly, (over, under) in QUOTIENTS.items():
                if over in row and under in row:
                    row[friendly] = row[over] / row[under] if row[under] else np.nan
            rows.append(row)
        return pd.DataFrame(rows)

    def value(self, name: str, which: str | None = None) -> float:
        """Return one figure: ``value("global_sectors", "copy")`` is the sum over the launches of the kernel `copy`.

        Parameters
        ----------
        name : str
            A column of `counts`, or Nsight Compute's name.
        which : str, optional
            A kernel's name. It may be omitted if there is only one row.

        Raises
        ------
        EngineError
            If there is no such counter, no such row, or more than one; the message lists what the
            profile has.
        """
        counts = self.counts
        # the readable name for Nsight Compute's
        name = next((friendly for friendly, column in NAMES.items() if column == name), name)
        if name not in counts or not pd.api.types.is_numeric_dtype(counts[name]):
            raise EngineError(
                f"no counter {name!r} in this profile; it has {', '.join(map(str, counts.columns[1:]))}. "
                f"{self.note}"
            )
        rows = counts if which is None else self._find_rows(counts, which)
        if len(rows) != 1:
            names = ", ".join(map(str, counts[self.by]))
            found = f"{len(rows)} rows of this profile are {which!r}"
            if which is None:
                found = f"this profile has {len(rows)} rows: name one of them"
            raise EngineError(f"{found}; it has {names}")
        return float(rows[name].iloc[0])

    def _find_rows(self, counts: pd.DataFrame, which: str) -> pd.DataFrame:
        """Return the rows of `counts` with the name `which`; a subclass may accept other names."""
        return counts[counts[self.by] == which]

    def ratio(self, name: str, a: str, b: str) -> float:
        """Return the counter of row `a` over that of `b`: ``ratio("time_ns", "a", "b")``.

        It is infinite if only b's counter is 0, and NaN if both are.
        """
        over, under = self.value(name, a), self.value(name, b)
        if under == 0:
            return float("inf") if over else float("nan")
        return over / under

    def lines(self) -> pd.DataFrame:
        """Return the counts of each source line with memory accesses, summed over the launches of a kernel.

        A row per kernel, file, line, space, operation and size of an access [bytes]. The other
        columns are the counts of `sites`, such as ``requests`` and ``sectors``. A profile without
        sites gives a table without rows and columns.
        """
        if self.sites.empty:
            return self.sites
        keys = ["kernel", "file", "line", "space", "op", "size"]
        # `launch` and `worst` are no counts; few profiles have `worst`
        counts = self.sites.drop(columns=["launch", "worst"], errors="ignore").groupby(
            keys, sort=False, dropna=False
        )
        return counts.sum(min_count=1).reset_index()  # a count that is not known stays NaN

    def traffic(self) -> HTML:
        """Return the columns of `summary` that are not all zero, as a table for a page or a terminal."""
        counts = self.summary()
        # the first column has the kernels' names
        unused = [name for name in counts.columns[1:] if (counts[name] == 0).all()]
        return table(
            counts, "Traffic", {name: TRAFFIC[name] for name in counts if name not in unused}
        )

    def summary(self) -> pd.DataFrame:
        """Return the columns of `counts` about memory traffic, with notes that explain them in ``attrs["note"]``."""
        counts = self.counts
        if len(counts):
            counts = counts[[name for name in TRAFFIC if name in counts]].copy()
        # the compiler that gave the registers: its name ends the column "source", behind `_REGISTERS`
        compilers = (
            sorted(set(self.table["source"].str.partition(_REGISTERS)[2]) - {""})
            if len(counts)
            else ()
        )
        words = [
            text for name, text in _WORDS.items() if name in counts and (counts[name] > 0).any()
        ]
        origin = (f"Registers and occupancy: {compiler}." for compiler in compilers)
        counts.attrs["note"] = " ".join([self.note, *words, *origin])
        return counts

    def __repr__(self) -> str:
        return repr(self.traffic()) if len(self.table) else self.note

    def _repr_html_(self) -> str:
        return (
            self.traffic()._repr_html_() if len(self.table) else f"<p>{html.escape(self.note)}</p>"
        )


def profile_script(
    script: str,
    arguments: Sequence[str] = (),
    engine: str | None = None,
    timeout: float | None = None,
    capture: bool = False,
    nvcc: bool = True,
    options: Sequence[str] = (),
) -> Profile:
    """Count the launches of a Python program that uses `hostcuda`, or of a ``.cu`` program with its host code.

    Parameters
    ----------
    script : str
        Its path.
    arguments : sequence of str
    engine : {"cpu", "gpu"}, optional
        By default the engine in use; "cpu" counts on the CPU engine even if there is a GPU.
    timeout : float, optional
        Seconds, after which the program is stopped.
    nvcc : bool
        Add registers, spills and occupancy to the CPU engine's counts, if nvcc is installed. It
        takes about a second per kernel.
    capture : bool
        Keep what the program prints in `Profile.ended` instead of printing it.
    options : sequence of str
        nvcc's options, for a ``.cu`` program.

    Returns
    -------
    Profile
        All launches until the program ended, also if it failed: see `Profile.ended`.
    """
    command = processes.program(script, arguments, processes.engine(engine), options)
    return watch(command, engine, timeout, capture, nvcc)


def watch(
    command: Sequence[str],
    engine: str | None = None,
    timeout: float | None = None,
    capture: bool = False,
    nvcc: bool = True,
) -> Profile:
    """Run a command, such as `processes.program` returns, and return the counters of its launches.

    The other parameters are those of `profile_script`.
    """
    if processes.engine(engine) == "cpu":
        records, modules, ended = recorded(command, timeout, capture)
        return counted(records, ended, modules if nvcc else ())
    with temporary.folder() as folder:
        return _measure(command, folder, timeout, capture)


def recorded(
    command: Sequence[str], timeout: float | None = None, capture: bool = True
) -> tuple[list[dict], list[dict], processes.Ended]:
    """Run a command on the CPU engine; return (launches, modules, how it ended).

    The first is a list with the fields of a `hostcuda.checking.LaunchRecord` per launch. The second is
    a list with ``module`` (its file), ``source``, ``options`` and ``include_dirs`` per compiled
    module. The engine writes both as lines of JSON.
    """
    with temporary.folder() as folder:
        out = folder / "launches"
        environment = {
            "HOSTCUDA_ENGINE": "cpu",
            "HOSTCUDA_CHECK": "profile",
            "HOSTCUDA_CHECK_OUT": str(out),
        }
        ended = processes.run(command, environment, timeout, capture)
        return processes.lines(out), processes.lines(out.with_name(f"{out.name}.modules")), ended


def counted(
    records: Sequence[dict], ended: processes.Ended, modules: Sequence[dict] = ()
) -> Profile:
    """Make a profile from the records of launches on the CPU engine.

    `records` and `modules` are the lists that `recorded` returns. If nvcc is installed, it compiles the
    modules, and the profile has registers and occupancy, too; without modules it has none.
    """
    rows, sites = [], []
    # after Ctrl-C nothing more is compiled
    figures, compiler, remark = _find_compiler_figures(
        records, () if ended.interrupted else modules
    )
    for number, record in enumerate(records):
        rows.append(
            {
                "launch": number,
                "kernel": record["kernel"],
                "grid": tuple(record["grid"]),
                "block": tuple(record["block"]),
                **record["counts"],
                **figures[number],
                "blocks": record["blocks"],
                "blocks_counted": record["blocks_watched"],
                "source": ABANDONED if record.get("error") else COUNTED,
            }
        )
        if figures[number]:
            # `Profile.summary` reads the compiler from there
            rows[-1]["source"] += f"{_REGISTERS}{compiler}"
        # `_TAKEN` counts accesses to a thread's own variables whose address is taken. A count of 0
        # becomes "not known": the host's compiler may have removed such accesses.
        rows[-1][_TAKEN] = rows[-1].get(_TAKEN) or np.nan
        sites += [
            {"launch": number, "kernel": record["kernel"], **site}
            for site in record.get("sites", ())
        ]
    note = f"Source: {COUNTED}.{remark}{_explain_register_refusals(rows)}"
    # words of the sources, such as #pragma unroll, that change a GPU's instructions and not the counts
    if blind := sorted(
        {" ".join(word.split()) for module in modules for word in _BLIND.findall(module["source"])}
    ):
        note += f" These counts cannot judge {', '.join(blind)}: what changes instructions shows in times."
    failed = [
        f"launch {number}, {record['error']}"
        for number, record in enumerate(records)
        if record.get("error")
    ]
    if failed:
        more = f"; {len(failed) - 3} more" if len(failed) > 3 else ""
        note += f" Not counted to the end: {'; '.join(failed[:3])}{more}."
    return _build_profile(rows, note, ended, sites)


def _explain_register_refusals(rows: Sequence[dict]) -> str:
    """Return, as one text, a sentence per kernel of the launches `rows` whose block needs more registers than exist."""
    sentences, available = {}, MULTIPROCESSOR[ARCH]["registers"]
    for row in rows:
        threads, used = math.prod(row["block"]), row.get(NAMES["registers"], 0)
        needed = math.ceil(threads / WARP) * math.ceil(used * WARP / REGISTER_UNIT) * REGISTER_UNIT
        if needed > available:
            sentences[row["kernel"]] = (
                f" A GPU refuses launch {row['launch']} with error 701 (too many resources requested): {row['kernel']} "
                f"has {used} registers per thread (ptxas), so {threads:,} threads need {needed:,}, and a block has "
                f"at most {available:,}. Take smaller blocks, or write __launch_bounds__({threads})."
            )
    return "".join(sentences.values())


def _find_compiler_figures(
    records: Sequence[dict], modules: Sequence[dict]
) -> tuple[list[dict], str, str]:
    """Return nvcc's figures for launches: (a dict per launch, the compiler's name and target, a remark).

    `records` and `modules` are those of `recorded`. The remark names kernels that nvcc refuses. Without
    modules or nvcc, all of it is empty.
    """
    rows = [{} for _ in records]
    if not modules or not nvcc_available():
        return rows, "", ""
    launched = {record["module"] for record in records}
    try:  # kernels: file of a module -> name of a kernel -> nvcc's figures; refused: sentences
        kernels, refused = compile_modules(
            module for module in modules if module["module"] in launched
        )
    except KeyboardInterrupt:
        return rows, "", " nvcc was interrupted, so there are no registers."
    for row, record in zip(rows, records, strict=True):
        facts = kernels.get(record["module"], {}).get(record["kernel"])
        if facts:
            share = occupancy_of(facts, record["block"], record["shared"])
            row |= {name: facts[name] for name in ("spill_store_bytes", "spill_load_bytes")}
            row |= {
                NAMES["registers"]: facts["registers"],
                NAMES["static_shared_bytes"]: facts["shared_bytes"],
                "local_bytes": facts["stack_bytes"],
                NAMES["occupancy_pct"]: 100 * share,
            }
    remark = (
        f" Kernels without registers were refused by nvcc: {'; '.join(refused)}" if refused else ""
    )
    return rows, f"{nvcc_version()}, {ARCH}", remark


def _measure(command: Sequence[str], folder: Path, timeout: float | None, capture: bool) -> Profile:
    """Profile a command on a GPU with ncu, whose log goes into `folder`, or with events if ncu has no counters.

    EngineError if it has none and the command starts no Python, because events are measured from there.
    For `timeout` and `capture` see `profile_script`.
    """
    log, note, ended, launches = folder / "ncu.csv", f"Source: {NCU}.", None, []
    try:
        ended = processes.run(nsight.ncu_command(command, log), _ON_GPU, timeout, capture)
        text = log.read_text(errors="replace") if log.is_file() else ""
        launches = nsight.read_ncu(text, nsight.METRICS)
    except EngineError as error:
        if processes.is_compiled(command):  # events are measured from Python
            raise
        if ended is None or not ended.stopped:  # a stopped program is not run again
            why = f"{error}; the engine 'cpu' counts without a GPU"
            return _time_launches(command, folder, timeout, capture, why)
        note += f" There are no counters because {error}."
    rows = [
        {
            "launch": row.pop("index"),
            **row,
            "blocks": int(np.prod(row["grid"])),
            "blocks_counted": int(np.prod(row["grid"])),
            "source": NCU,
        }
        for row in launches
    ]
    return _build_profile(rows, note, ended)


def _time_launches(
    command: Sequence[str], folder: Path, timeout: float | None, capture: bool, why: str
) -> Profile:
    """Measure the times of a command's launches on a GPU with events; `why` says why there are no counters."""
    print(f"hostcuda: no counters, event times instead: {why}", file=sys.stderr)
    out = folder / "launches"
    python, program = processes.split_python(command)
    timed = [*python, "-m", "hostcuda.gpu.launches", str(out), *program]
    ended = processes.run(timed, _ON_GPU, timeout, capture)
    rows = []
    # kernel, grid, block, time and figures, by friendly names
    for number, record in enumerate(processes.lines(out)):
        row = {NAMES.get(name, name): value for name, value in record.items()}
        rows.append(
            {
                "launch": number,
                **row,
                "grid": tuple(row["grid"]),
                "block": tuple(row["block"]),
                "blocks": int(np.prod(row["grid"])),
                "blocks_counted": 0,
                "source": EVENTS,
            }
        )
    return _build_profile(rows, f"Source: {EVENTS}. There are no counters because {why}.", ended)


def _build_profile(
    rows: list[dict], note: str, ended: processes.Ended, sites: Sequence[dict] = ()
) -> Profile:
    """Return the profile of launches: `rows` become its table, with the columns in order, and `sites` its `sites`."""
    frame = pd.DataFrame(rows, columns=None if rows else [*_FIRST, *NAMES.values(), *_LAST])
    columns = [*_FIRST, *NAMES.values()]
    more = [name for name in frame if name not in columns and name not in _LAST]
    frame = frame[[name for name in (*columns, *more, *_LAST) if name in frame]]
    return Profile(
        frame, pd.DataFrame(sites), note if rows else f"{note} No kernel was launched.", ended
    )
