"""Counters of the memory accesses of each kernel launch, with or without a GPU, under the same names.

The CPU engine counts every access; on a GPU Nsight Compute counts. The program runs in a process of its own. If a GPU's
counters are not available, its rows have event times and the compiler's figures instead, and say so.
"""

from __future__ import annotations

import html
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd

from labkit.base import temporary
from labkit.base.errors import LabError
from labkit.base.tables import HTML, table
from labkit.evidence import child, nsight
from labkit.evidence.nvcc import ARCH, nvcc_available, nvcc_version, occupancy_of, of_modules
from labkit.ladder.variants import Variant
from labkit.spec.layers import Layer
from labkit.spec.metrics import NAMES, NOT_ADDITIVE, QUOTIENTS, SUMS, TRAFFIC

ABANDONED = "CPU engine, counted until it was abandoned"
ON_THE_CPU = 'engine="cpu"'
_ON_GPU = {"LABKIT_ENGINE": "gpu"}
_REGISTERS = "; registers: "  # in a source, before the compiler that they come from
COUNTED, NCU, EVENTS = "CPU engine, counted", "ncu", "events, no counters"

_TAKEN = NAMES["local_requests_address_taken"]
_FIRST = ("variant", "rung", "launch", "kernel", "grid", "block")
_LAST = ("blocks", "blocks_counted", "source")


@dataclass(repr=False)
class Profile:
    """The counters of a program's launches.

    Attributes
    ----------
    table : DataFrame
        A row per launch: ``launch`` (its number), ``kernel``, ``grid``, ``block``, the counters under Nsight Compute's
        names, ``blocks`` and ``blocks_counted`` (fewer if a launch was abandoned), ``source``; `labkit.profile` adds
        ``variant`` and ``rung``. A counter that the source does not have is NaN.
    sites : DataFrame
        From the CPU engine, a row per launch and source line with memory accesses: ``launch``, ``kernel``, file, line,
        space, op and the counts.
    note : str
        Where the counters come from, what is missing and why.
    ended : Ended
        How the program ended.
    layer, batch
        From `labkit.profile`: what the variants computed.
    """

    table: pd.DataFrame
    sites: pd.DataFrame
    note: str
    ended: child.Ended = field(default_factory=lambda: child.Ended(0, 0.0))
    layer: Layer | None = None
    batch: int | None = None

    @property
    def counts(self) -> pd.DataFrame:
        """The counters under readable names: a row per variant, or per kernel of a script.

        Each is the sum over the launches, or a quotient of such sums; for figures that do not add up (registers, hit
        rates), the mean over the launches.
        """
        by = "variant" if "variant" in self.table else "kernel"
        rows = []
        for name, launches in self.table.groupby(by, sort=False):
            row = {by: name, **({"rung": launches["rung"].iloc[0]} if "rung" in launches else {})}
            row["launches"] = len(launches)
            for friendly, column in NAMES.items():
                if column in launches and launches[column].notna().any():
                    values = launches[column]
                    row[friendly] = values.mean() if friendly in NOT_ADDITIVE else values.sum()
            for friendly, parts in SUMS.items():
                there = [row[part] for part in parts if part in row]
                if there:
                    row[friendly] = sum(there)
            for friendly, (over, under) in QUOTIENTS.items():
                if over in row and under in row:
                    row[friendly] = row[over] / row[under] if row[under] else np.nan
            rows.append(row)
        return pd.DataFrame(rows)

    def value(self, name: str, which: int | str | None = None) -> float:
        """One figure: ``value("global_sectors", 3)`` is that of rung 03, summed over its launches.

        Parameters
        ----------
        name : str
            A column of `counts`, or Nsight Compute's name.
        which : int or str, optional
            A rung's number, which among several variants of the rung means the one with default options; a variant's
            label; or a kernel's name. It may be omitted if there is only one row.

        Raises
        ------
        LabError
            If there is no such counter, no such row, or more than one; the message lists those there are.
        """
        counts = self.counts
        name = next((friendly for friendly, column in NAMES.items() if column == name), name)
        if name not in counts or name in ("variant", "kernel", "rung"):
            raise LabError(f"no counter {name!r} in this profile; it has {', '.join(map(str, counts.columns[1:]))}. "
                           f"{self.note}")  # fmt: skip
        by = counts.columns[0]
        rows = counts
        if which is not None:
            of_rung = isinstance(which, int) and "rung" in counts
            rows = counts[counts["rung" if of_rung else by] == which]
            if of_rung and len(rows) > 1:  # not its sub-steps: the rung with default options
                rows = rows[~rows[by].str.contains(",")]
        if len(rows) != 1:
            known = ", ".join(f"{each}" for each in counts[by])
            raise LabError(f"{len(rows)} rows of this profile are {which!r}; it has {known}")
        return float(rows[name].iloc[0])

    def ratio(self, name: str, a: int | str, b: int | str) -> float:
        """The counter of a over that of b: ``ratio("global_sectors", 3, 4) >= 8`` means that 03 requests at least 8
        times as many sectors as 04. Infinite if that of b is zero."""
        over, under = self.value(name, a), self.value(name, b)
        if under == 0:
            return float("inf") if over else float("nan")
        return over / under

    def traffic(self) -> HTML:
        """The traffic of each variant or kernel, level by level, as a table for a page."""
        shown = self.summary()
        unused = [name for name in shown.columns[1:] if (shown[name] == 0).all()]
        return table(shown, "Traffic", {name: TRAFFIC[name] for name in shown if name not in unused})

    def summary(self) -> pd.DataFrame:
        """The columns of `counts` that `traffic` shows."""
        counts = self.counts
        if len(counts):
            counts = counts[[name for name in TRAFFIC if name in counts]].copy()
        compilers = sorted(set(self.table["source"].str.partition(_REGISTERS)[2]) - {""}) if len(counts) else ()
        counts.attrs["note"] = " ".join([self.note, *(f"Registers and occupancy: {each}." for each in compilers)])
        return counts

    def __repr__(self) -> str:
        return repr(self.traffic()) if len(self.table) else self.note

    def _repr_html_(self) -> str:
        return self.traffic()._repr_html_() if len(self.table) else f"<p>{html.escape(self.note)}</p>"


def profile(variants: Variant | int | Iterable[Variant | int], layer: Layer, batch: int = 1, engine: str | None = None,
            timeout: float | None = 600, nvcc: bool = False) -> Profile:  # fmt: skip
    """Count the memory accesses of variants on one layer, in a process of their own.

    Parameters
    ----------
    variants : Variant, rung number, or iterable of these
    layer : Layer
    batch : int
        Images. Requests and sectors are proportional to it, so one image is enough to compare kernels.
    engine : {"cpu", "gpu"}, optional
        By default the engine in use; "cpu" counts on the CPU engine even if there is a GPU.
    timeout : float, optional
        Seconds.
    nvcc : bool
        Add registers, spills and occupancy to the CPU engine's counts, if nvcc is installed. It takes about a second
        per kernel; `labkit.resources` has them, too.

    Raises
    ------
    LabError
        If a variant does not support the layer, the batch is not a positive integer, or the process failed; the message
        has its last output.
    CompileError
        If a variant does not compile.
    """
    with temporary.folder() as folder:
        found = watch(child.plans(folder, variants, layer, batch), engine, timeout, capture=True, nvcc=nvcc)
        ran = child.ran(folder)
    found.ended.require("profiling")
    owners = [each for each in ran for _ in range(each["launches"])]
    if len(owners) != len(found.table):
        raise LabError(
            f"{len(owners)} launches were made, but {len(found.table)} counted: they cannot be matched. {found.note}"
        )
    found.layer, found.batch = layer, batch
    found.table.insert(0, "variant", [each["label"] for each in owners])
    found.table.insert(1, "rung", [each["rung"] for each in owners])
    if len(found.sites):
        found.sites.insert(0, "variant", [owners[launch]["label"] for launch in found.sites["launch"]])
    return found


def profile_script(script: str, arguments: Sequence[str] = (), engine: str | None = None,
                   timeout: float | None = None, capture: bool = False, nvcc: bool = True,
                   on_the_cpu: str = ON_THE_CPU, options: Sequence[str] = ()) -> Profile:  # fmt: skip
    """Count the launches of a Python program that uses `labkit.cuda`, or of a ``.cu`` program with its host code.

    Parameters
    ----------
    script : str
        Its path.
    arguments : sequence of str
    engine, timeout, nvcc
        As for `profile`.
    capture : bool
        Keep what the program prints in `Profile.ended` instead of printing it.
    on_the_cpu : str
        For the note: how to ask for the CPU engine.
    options : sequence of str
        nvcc's, for a ``.cu`` program.

    Returns
    -------
    Profile
        Of all launches until the program ended, also if it failed: see `Profile.ended`.
    """
    command = child.program(script, arguments, child.engine(engine), options)
    return watch(command, engine, timeout, capture, nvcc, on_the_cpu)


def watch(command: Sequence[str], engine: str | None = None, timeout: float | None = None,
          capture: bool = False, nvcc: bool = True, on_the_cpu: str = ON_THE_CPU) -> Profile:  # fmt: skip
    """Run a command, and return the counters of its launches."""
    with temporary.folder() as folder:
        if child.engine(engine) == "cpu":
            out = folder / "launches"
            return counted(*_records(command, out, timeout, capture), _modules(out) if nvcc else ())
        return _measure(command, folder, timeout, capture, on_the_cpu)


def _records(command, out: Path, timeout, capture) -> tuple[list[dict], child.Ended]:
    """The CPU engine's record of each launch, and how the program ended."""
    environment = {"LABKIT_ENGINE": "cpu", "LABKIT_CHECK": "profile", "LABKIT_CHECK_OUT": str(out)}
    ended = child.run(command, environment, timeout, capture)
    return child.lines(out), ended


def _modules(out: Path) -> list[dict]:
    """The CPU engine's records of the modules that were loaded."""
    return child.lines(out.with_name(f"{out.name}.modules"))


def counted(records: Sequence[dict], ended: child.Ended, modules: Sequence[dict] = ()) -> Profile:
    """The profile in the CPU engine's records, a dict per launch, with nvcc's figures for the modules."""
    rows, sites = [], []
    decided, compiler, remark = _decided(records, () if ended.interrupted else modules)
    for number, record in enumerate(records):
        rows.append({
            "launch": number, "kernel": record["kernel"], "grid": tuple(record["grid"]),
            "block": tuple(record["block"]), **record["counts"], **decided[number], "blocks": record["blocks"],
            "blocks_counted": record["blocks_watched"], "source": COUNTED,
        })  # fmt: skip
        if record.get("error"):
            rows[-1]["source"] = ABANDONED
        if decided[number]:
            rows[-1]["source"] += f"{_REGISTERS}{compiler}"
        rows[-1][_TAKEN] = rows[-1].get(_TAKEN) or np.nan  # 0 seen: the host's compiler may have removed some
        sites += [{"launch": number, "kernel": record["kernel"], **site} for site in record.get("sites", ())]
    note = f"Source: {COUNTED}.{remark}"
    failed = [f"launch {number}, {record['error']}" for number, record in enumerate(records) if record.get("error")]
    if failed:
        note += f" Not counted to the end: {'; '.join(failed[:3])}{f'; {len(failed) - 3} more' * (len(failed) > 3)}."
    return Profile(_frame(rows), pd.DataFrame(sites), _with_launches(note, rows), ended)


def _decided(records: Sequence[dict], modules: Sequence[dict]) -> tuple[list[dict], str, str]:
    """For each launch nvcc's figures for its kernel; the compiler's name and target; a remark for the note."""
    rows = [{} for _ in records]
    if not modules or not nvcc_available():
        return rows, "", ""
    launched = {record["module"] for record in records}
    try:
        kernels, refused = of_modules(each for each in modules if each["module"] in launched)
    except KeyboardInterrupt:
        return rows, "", " nvcc was interrupted, so there are no registers."
    for row, record in zip(rows, records, strict=True):
        facts = kernels.get(record["module"], {}).get(record["kernel"])
        if facts:
            share = occupancy_of(facts, record["block"], record["shared"])
            row |= {
                NAMES["registers"]: facts["registers"],
                NAMES["static_shared_bytes"]: facts["shared_bytes"],
                "local_bytes": facts["stack_bytes"],
                **{name: facts[name] for name in ("spill_store_bytes", "spill_load_bytes")},
                NAMES["occupancy_pct"]: 100 * share,
            }
    remark = f" Kernels without registers were refused by nvcc: {'; '.join(refused)}" if refused else ""
    return rows, f"{nvcc_version()}, {ARCH}", remark


def _measure(command, folder: Path, timeout, capture, on_the_cpu) -> Profile:
    """On a GPU with ncu, or with events if ncu has no counters."""
    log, note, ended, launches = folder / "ncu.csv", f"Source: {NCU}.", None, []
    try:
        ended = child.run(nsight.ncu_command(command, log), _ON_GPU, timeout, capture)
        text = log.read_text(errors="replace") if log.is_file() else ""
        launches = nsight.read_ncu(text, nsight.METRICS)
    except LabError as error:
        if child.is_compiled(command):  # events are measured from Python
            raise
        if ended is None or not ended.stopped:  # a stopped program is not run again
            return _time(command, folder, timeout, capture, f"{error}; {on_the_cpu} counts without a GPU")
        note += f" There are no counters because {error}."
    rows = [
        {"launch": row.pop("index"), **row, "blocks": int(np.prod(row["grid"])),
         "blocks_counted": int(np.prod(row["grid"])), "source": NCU}
        for row in launches
    ]  # fmt: skip
    return Profile(_frame(rows), pd.DataFrame(), _with_launches(note, rows), ended)


def _time(command, folder: Path, timeout, capture, why: str) -> Profile:
    """On a GPU with events instead of counters."""
    print(f"labkit: no counters, event times instead: {why}", file=sys.stderr)
    out = folder / "launches"
    program = [command[0], "-m", "labkit.evidence.launches", str(out), *command[1:]]
    ended = child.run(program, _ON_GPU, timeout, capture)
    rows = []
    for number, record in enumerate(child.lines(out)):
        row = {NAMES.get(name, name): value for name, value in record.items()}
        rows.append({"launch": number, **row, "grid": tuple(row["grid"]), "block": tuple(row["block"]),
                     "blocks": int(np.prod(row["grid"])), "blocks_counted": 0, "source": EVENTS})  # fmt: skip
    note = f"Source: {EVENTS}. There are no counters because {why}."
    return Profile(_frame(rows), pd.DataFrame(), _with_launches(note, rows), ended)


def _with_launches(note: str, rows: list) -> str:
    return note if rows else f"{note} No kernel was launched."


def _frame(rows: list[dict]) -> pd.DataFrame:
    """The rows with their columns in a fixed order: `_FIRST`, the counters in the order of `NAMES`, others, `_LAST`.

    Without rows, all possible columns.
    """
    frame = pd.DataFrame(rows, columns=None if rows else [*_FIRST[2:], *NAMES.values(), *_LAST])
    known = [*_FIRST, *NAMES.values()]
    more = [name for name in frame if name not in known and name not in _LAST]
    return frame[[name for name in (*known, *more, *_LAST) if name in frame]]
