"""Estimated times against recorded ones: the fit of `hostcuda/estimate/cards.toml`, and docs/estimates.md.

``python -m recording estimates --collect`` counts every recorded variant of 01 to 09 and a sample of the swept sizes
of 07 on the CPU engine, and reads nvcc's machine code; no GPU is needed. ``--unseen`` does so for the edits and the
programs of `recording.edits`. What they find is kept in data/estimates/, a row per launch, so that the fit and the page
take seconds. ``--fit`` fits the card's rates to the recorded times of the rungs, and the intervals to what the rates
were not fitted to: the edits, the programs, and each rung, left out in turn and predicted with rates fitted to the
others. The swept sizes, the other batches, and rungs 10 and 11 take no part in any fit.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated

import numpy as np
import pandas as pd
from typer import Option

from hostcuda import processes
from hostcuda.errors import EngineError
from hostcuda.estimate import fine, model, why_not, why_unlike
from hostcuda.estimate import works as works_of_launches
from hostcuda.estimate.model import Card
from hostcuda.estimate.work import without_code
from hostcuda.files import write
from hostcuda.profile import recorded as launched
from labkit.base.paths import PACKAGE, data_dir
from labkit.evidence.profile import BATCH, profile
from labkit.evidence.work import scale_work
from labkit.ladder import tables
from labkit.ladder.rungs import LADDER
from labkit.ladder.variants import Variant, solutions, variant, variants
from labkit.records import store
from labkit.records.recorded import recorded
from labkit.spec import devices
from labkit.spec.layers import LENET72, LENET86, Layer
from recording.edits import every_program, read_edits, size_of
from recording.keep import merge_rows
from recording.readme import replace_marked

LAYERS = {layer.name: layer for layer in (*LENET86, *LENET72)}
FOLDER = data_dir() / "estimates"
PAGE = PACKAGE.parent / "docs" / "estimates.md"
RUNGS = range(1, 10)  # 10 and 11 use tensor cores in ways that the model does not have
DEVICE = "NVIDIA H200"
COUNTED = 2  # images per launch that is counted
SWEPT, SWEPT_BATCH = 45, 1000  # sizes of 07 per layer
# The rates to fit, with first guesses; the others were measured one by one, see the comments in cards.toml.
FITTED = {
    "fine": {"l2_write_tb_s": 4.0, "pipes": 0.9, "issue": 0.85, "tags": 2.5, "miss_cycles": 2.0, "misses_apart": 10.0},
    "coarse": {"memory_instructions": 0.25, "integer": 0.5, "branches": 4.0, "divisions": 20.0},
}
_FAR = math.log(1.1)  # pairs whose times are closer are not ordered
# A unit has an interval if kernels that it limits, and that took part in no fit, were predicted: at least so many
# kernels, and nine of ten cases to within this factor.
LEAST_KERNELS, MOST_OFF = 3, 1.5


# ------------------------------------------------------------------------------------------------------- counting
def map_variants() -> dict[str, Variant]:
    """Map the labels of data/results to the recorded variants and solutions."""
    every = [v for rung in LADDER if rung.number in RUNGS for v in (*variants(rung.number), *solutions(rung.number))]
    return {_shorten_label(v): v for v in every if not (v.library or v.architecture_specific)}


def _shorten_label(variant: Variant) -> str:
    return variant.label.partition(" ")[2]


def choose_swept(layer: Layer) -> list[Variant]:
    """Return some of the swept sizes of 07, evenly spaced in the order of their recorded times."""
    table = store.read_as_stored(data_dir() / "sweeps" / f"{devices.slug(DEVICE)}.csv")
    table = table[(table.batch == SWEPT_BATCH) & (table.layer == layer.name) & table.op_ms.notna()]
    rows = table.sort_values("op_ms").iloc[np.linspace(0, len(table) - 1, SWEPT).astype(int)]
    return [variant("tuning", **tables.as_options(text)) for text in rows.options]


def collect_work(jobs: Iterable[tuple[Variant, Layer]]) -> pd.DataFrame:
    """Return the work of each launch of these variants on `COUNTED` images, a row per launch."""

    def count_job(job):
        variant, layer = job
        try:
            variant.supports(layer)
        except EngineError:
            return []
        kind, works = profile(variant, layer, COUNTED, estimate=DEVICE).works
        if not fine():
            raise EngineError("the fit needs nvcc and nvdisasm: install the CUDA toolkit or its wheels")
        if kind != "fine":
            print(f"{variant.label}, {layer.name}: too much machine code", flush=True)
            return []
        print(f"{variant.label}, {layer.name}", flush=True)
        columns = {"label": _shorten_label(variant), "rung": variant.rung.name, "layer": layer.name}
        return [columns | {"options": variant.options_text, **work} for work in works]

    with ThreadPoolExecutor(2) as pool:
        return pd.DataFrame([row for rows in pool.map(count_job, jobs) for row in rows])


def keep(table: pd.DataFrame, name: str) -> None:
    """Write a table of data/estimates."""
    merge_rows(FOLDER / name, table, None)


def read(name: str) -> pd.DataFrame:
    """Read a table of data/estimates."""
    return store.read_as_stored(FOLDER / name, dtype={"layer": str}).fillna({"options": "", "rung": ""}).fillna(0.0)


# ------------------------------------------------------------------------------------------------------- comparing
@dataclasses.dataclass
class Case:
    """A variant on a layer, with the time that was recorded and the work of each kernel for that batch."""

    label: str
    rung: str
    layer: str
    op_ms: float
    works: list[dict]
    device: str = DEVICE

    def of(self, kind: str) -> list[dict]:
        """Return the works; without machine code if the estimate is coarse."""
        return [without_code(work) for work in self.works] if kind == "coarse" else self.works


def list_cases(
    table: pd.DataFrame, batch: int, times: Mapping[tuple[str, str], float], which: Callable[[pd.Series], Variant]
) -> list[Case]:
    """Return the cases of a table of `collect_work` that have a recorded time; `which` returns a row's variant."""
    memory = devices.device(DEVICE).memory_bytes
    cases = []
    for (label, layer), rows in table.groupby(["label", "layer"], sort=False):
        if (op_ms := times.get((label, layer))) is None:
            continue
        counted_works = rows.drop(columns=["label", "rung", "layer", "options"]).to_dict("records")
        works = scale_work(which(rows.iloc[0]), LAYERS[layer], counted_works, COUNTED, batch, memory)
        cases.append(Case(label, rows.rung.iloc[0], layer, op_ms, works))
    return cases


def read_op_ms(batch: int) -> dict[tuple[str, str], float]:
    """Return the recorded op times [ms] by label and layer."""
    table = recorded(DEVICE).table
    rows = table[(table.batch == batch) & table.layer.notna()]
    return {(label.partition(" ")[2] or label, layer): ms
            for label, layer, ms in zip(rows.label, rows.layer, rows.op_ms, strict=True)}


def list_unseen_cases(table: pd.DataFrame) -> list[Case]:
    """Return the cases of a table of `collect_unseen` that have a recorded time, on each device that has one."""
    edited = {_shorten_label(edit.variant): edit.variant for edit in read_edits()}
    recorded_edits, recorded_programs = (store.read_as_stored(FOLDER / name) for name in ("edits.csv", "programs.csv"))
    columns = (recorded_edits[name] for name in ("label", "layer", "op_ms"))
    edit_times = {(label, layer): ms for label, layer, ms in zip(*columns, strict=True)}
    found_cases = list_cases(table[table.rung != ""], BATCH, edit_times, lambda row: edited[row.label])
    programs = table[table.rung == ""]
    for timed in recorded_programs.itertuples():
        rows = programs[(programs.label == timed.name) & (programs.layer == str(timed.size))]
        if len(rows):
            works = rows.drop(columns=["label", "rung", "layer", "options"]).to_dict("records")
            found_cases.append(Case(timed.name, "", str(timed.size), timed.ms, works, timed.device))
    return found_cases


def _adapt_card(case: Case, card: Card) -> Card:
    """Return the card with the bandwidth of a case's device; its other rates stay."""
    here, there = (devices.device(name).measured["copy"] for name in (card.name, case.device))
    return dataclasses.replace(card, dram_tb_s=card.dram_tb_s * there / here)


def predict(cases: Sequence[Case], kind: str, card: Card) -> pd.DataFrame:
    """Return the estimates: a row per case, also where `why_not` would withhold the time.

    The columns: label, rung, layer, device, op_ms, estimate, low, high (the interval, NaN without one), unit (the
    busiest of the longest kernel), unlike (why the kernel is unlike those that were predicted well, or ""), and
    why_not.
    """
    rows = []
    for case in cases:
        works, case_card = case.of(kind), _adapt_card(case, card)
        # The programs launch in a row, without Python: no launch is waited for.
        timing_card = case_card if case.rung else dataclasses.replace(case_card, launch_ms=0.0)
        times_ms = [model.time_ms(work, timing_card) for work in works]
        longest = works[times_ms.index(max(times_ms))]
        reason = next(filter(None, (why_not(work, case_card) for work in works)), "")
        intervals = [(math.nan, math.nan)] if reason else [model.interval_ms(work, case_card) for work in works]
        unlike = kind == "fine" and next(filter(None, (why_unlike(work, case_card) for work in works)), "")
        rows.append((case.label, case.rung, case.layer, case.device, case.op_ms, sum(times_ms),
                     *np.sum(intervals, axis=0), model.busiest_unit(longest, case_card), unlike, reason))
    return pd.DataFrame(rows, columns=["label", "rung", "layer", "device", "op_ms", "estimate", "low", "high", "unit",
                                       "unlike", "why_not"])


def find_intervals(held_out: pd.DataFrame, unseen: pd.DataFrame) -> dict[str, tuple[float, float]]:
    """Return, by busiest unit, the interval that holds nine of ten quotients of recorded and estimated time.

    Both tables are those of `predict`: the rungs, each left out of the fit, and what took part in no fit. The interval
    holds nine of ten of each. A unit has none if too few kernels were predicted, or too badly.
    """
    intervals = {}
    for unit, rows in unseen[unseen.unlike == ""].groupby("unit"):
        ratios = rows.op_ms / rows.estimate
        if rows.label.nunique() < LEAST_KERNELS or _log_error(rows).quantile(0.9) > math.log(MOST_OFF):
            continue
        held_out_rows = held_out[(held_out.unlike == "") & (held_out.unit == unit)]
        groups = [group for group in (ratios, held_out_rows.op_ms / held_out_rows.estimate) if len(group)]
        low, high = ([float(group.quantile(share)) for group in groups] for share in (0.05, 0.95))
        intervals[unit] = math.floor(100 * min(low)) / 100, math.ceil(100 * max(high)) / 100
    return intervals


def _log_error(table: pd.DataFrame) -> pd.Series:
    """Return per row the error of the estimate: the absolute logarithm of recorded over estimated time."""
    return np.log(table.estimate / table.op_ms).abs()


def fit(cases: Sequence[Case], kind: str, start: Card) -> Card:
    """Fit the card's rates to the cases: robust least squares of the logarithms, weakly held at physical values."""
    from scipy.optimize import least_squares

    names, first = FITTED[kind], np.log([*FITTED[kind].values()])
    works = [(case.of(kind), case.op_ms) for case in cases]

    def compute_residuals(x):
        """Return the log errors with rates exp(x), and the distances from the physical values."""
        card = _replace_rates(start, names, x)
        errors = [math.log(sum(model.time_ms(work, card) for work in case_works) / ms) for case_works, ms in works]
        return np.array([*errors, *(0.05 * (x - first))])

    bounds = (first - 1.5, first + 1.5)
    solution = least_squares(compute_residuals, first, loss="soft_l1", f_scale=0.15, bounds=bounds, diff_step=0.01)
    return _replace_rates(start, names, solution.x)


def _replace_rates(card: Card, names, logarithms) -> Card:
    """Return the card with the named rates set to exp(logarithms)."""
    values = dict(zip(names, map(float, np.exp(logarithms)), strict=True))
    coarse = {name: values.get(name, value) for name, value in card.coarse.items()}
    return dataclasses.replace(card, coarse=coarse, **{k: v for k, v in values.items() if k not in coarse})


def predict_held_out(cases: Sequence[Case], kind: str, start: Card) -> pd.DataFrame:
    """Return `predict`'s table in which each rung was predicted with rates that were fitted to the other rungs."""
    predictions = []
    for rung in dict.fromkeys(case.rung for case in cases):
        others = [case for case in cases if case.rung != rung]
        card = fit(others, "fine", start)  # the coarse estimate has these rates, too
        card = fit(others, kind, card) if kind != "fine" else card
        predictions.append(predict([case for case in cases if case.rung == rung], kind, card))
    return pd.concat(predictions, ignore_index=True)


def compute_scores(table: pd.DataFrame) -> dict[str, float]:
    """Return the number of cases, the error's median and 90th percentile, and the shares of pairs in the right order.

    Pairs are of one layer, or of one rung on one layer. Those whose recorded times are within 10 % are left out.
    """
    error = _log_error(table)
    scores = {"cases": len(table), "median": math.expm1(error.median()), "p90": math.expm1(error.quantile(0.9))}
    for name, keys in (("pairs", ["layer"]), ("pairs_of_a_rung", ["layer", "rung"])):
        is_right = []
        for _, rows in table.groupby(keys):
            first, second = np.triu_indices(len(rows), 1)
            true, guess = (np.log(rows[column].to_numpy()) for column in ("op_ms", "estimate"))
            is_far_apart = np.abs(true[first] - true[second]) > _FAR
            agrees = np.sign(true[first] - true[second]) == np.sign(guess[first] - guess[second])
            is_right += list(agrees[is_far_apart])
        scores[name] = float(np.mean(is_right)) if is_right else math.nan
    return scores


# ------------------------------------------------------------------------------------------------------- the page
# Each unit's metric in Nsight Compute that tells how busy it is, and the percentage that the unit reaches when nothing
# else limits it.
_BUSY = {
    "instruction issue": ("smsp__issue_active.avg.pct_of_peak_sustained_active", 88),
    "L1 data pipe": ("l1tex__data_pipe_lsu_wavefronts.avg.pct_of_peak_sustained_elapsed", 95),
    "constant cache": ("idc__request_cycles_active.avg.pct_of_peak_sustained_elapsed", 95),
    "L2": ("lts__throughput.avg.pct_of_peak_sustained_elapsed", 92),
}
_SAME = {
    "L2 reads": "L2",
    "L2 writes": "L2",
    "DRAM": "L2",
    "integer pipe": "instruction issue",
    "FMA pipe": "instruction issue",
    "memory instructions": "L1 data pipe",
    "L1 tags": "L1 data pipe",
}
# An exercise's solution is compared with the kernel that it starts from.
_STARTS = {"b_together.cu": "tiling, weights", "a_turned.cu, block=8x8": "baseline"}


def compare_limiters(cases: Sequence[Case], card: Card) -> dict[str, float]:
    """Return how often the estimate's busiest unit is also the busiest in Nsight Compute, or within 10 % of it."""
    counted = store.read_as_stored(data_dir() / "counters" / f"{devices.slug(DEVICE)}.csv")
    counted = counted[counted["idc__requests.sum"].notna()].drop_duplicates(["label", "layer", "kernel"])
    counted = counted.set_index(["label", "layer", "kernel"])
    same = near = total = 0
    for case in cases:
        for work in case.works:
            if (case.label, case.layer, work["kernel"]) not in counted.index:
                continue
            row = counted.loc[(case.label, case.layer, work["kernel"])]
            busy = {unit: row[metric] / most for unit, (metric, most) in _BUSY.items()}
            if max(busy.values()) < 0.6:  # it waits: no unit is busy
                continue
            guess = model.unit_times(work, card)
            unit = max(guess, key=guess.__getitem__)
            unit = _SAME.get(unit, unit)
            total += 1
            same += unit == max(busy, key=busy.__getitem__)
            near += busy.get(unit, 0) >= 0.9 * max(busy.values())
    return {"kernels": total, "same": same / total, "near": near / total}


def compare_edits(table: pd.DataFrame) -> pd.DataFrame:
    """Return recorded and estimated ratios of times: the exercises' solutions over the kernels that they start from."""
    at = table.set_index(["label", "layer"])
    rows = []
    for label, layer in at.index:
        if ".cu" not in label:
            continue
        file = label.partition(", ")[2]
        start = next((s for end, s in _STARTS.items() if file.endswith(end)), label.partition(",")[0])
        if (start, layer) in at.index:
            (now, guess), (was, before) = (at.loc[(key, layer), ["op_ms", "estimate"]] for key in (label, start))
            rows.append((label, layer, now / was, guess / before))
    return pd.DataFrame(rows, columns=["label", "layer", "recorded", "estimated"])


def validate(table: pd.DataFrame, sweep: pd.DataFrame) -> dict[str, object]:
    """Return all that the page reports, computed from data/estimates and the recorded times."""
    start, variants_ = model.card(DEVICE), map_variants()
    several = list_cases(table, BATCH, read_op_ms(BATCH), lambda row: variants_[row.label])
    parts: dict[str, object] = {"several": several}
    for kind in FITTED:
        parts[kind] = predict(several, kind, start), predict_held_out(several, kind, start)
    for batch in (100, 1000):
        of_batch = list_cases(table, batch, read_op_ms(batch), lambda row: variants_[row.label])
        parts[f"batch {batch}"] = predict(of_batch, "fine", start)
    recorded_sweep = store.read_as_stored(data_dir() / "sweeps" / f"{devices.slug(DEVICE)}.csv")
    recorded_sweep = recorded_sweep[recorded_sweep.batch == SWEPT_BATCH]
    columns = (recorded_sweep[name] for name in ("label", "layer", "op_ms"))
    swept_times = {(label, layer): ms for label, layer, ms in zip(*columns, strict=True)}
    without_07 = fit([case for case in several if case.rung != "tuning"], "fine", start)
    sizes = list_cases(sweep, SWEPT_BATCH, swept_times, lambda row: variant("tuning", **tables.as_options(row.options)))
    parts["sweep"] = predict(sizes, "fine", without_07)
    parts["unseen"] = predict(list_unseen_cases(read("unseen.csv")), "fine", start)
    return parts


def _format_percent(value: float) -> str:
    return f"{100 * value:.1f} %" if value < 0.1 else f"{100 * value:.0f} %"


def _format_row(name: str, table: pd.DataFrame) -> str:
    row_scores = compute_scores(table)
    shares = (row_scores[score] for score in ("median", "p90", "pairs", "pairs_of_a_rung"))
    return f"| {name} | {row_scores['cases']} | {' | '.join(map(_format_percent, shares))} |"


_HEAD = [
    "| | cases | median error | 90th percentile | pairs in the right order, one layer | same rung |",
    "|---|---|---|---|---|---|",
]


def write_texts(validation: Mapping) -> dict[str, str]:
    """Return the texts of docs/estimates.md between markers, by the names of the markers."""
    left, coarse = validation["fine"][1], validation["coarse"][1]
    errors = [
        _format_row("kernels that get a time", left[left.why_not == ""]),
        _format_row("all, with machine code", left),
        _format_row("all, without it: only the order is used", coarse),
        *(_format_row(f"all of {name}, with machine code", left[left.layer == name]) for name in LAYERS),
    ]
    sizes = [
        _format_row(f"swept sizes of 07, batch {SWEPT_BATCH:,}", validation["sweep"]),
        *(_format_row(f"batch {batch:,}", validation[f"batch {batch}"]) for batch in (100, 1000)),
    ]
    picks = []
    for layer, rows in validation["sweep"].groupby("layer"):
        pick = rows.op_ms[rows.estimate.idxmin()] / rows.op_ms.min()
        picks.append(f"{pick:.2f} times the best of {len(rows)} ({layer})")
    return {
        "errors": "\n".join([*_HEAD, *errors]),
        "sizes": "\n".join([*_HEAD, *sizes, "", f"The size that the estimate picks takes {', '.join(picks)}."]),
        "edits": _describe_edits(compare_edits(left)),
        "limiters": _describe_limiters(compare_limiters(validation["several"], model.card(DEVICE))),
        "worst": _list_worst(left),
        "unseen": _summarize_unseen(validation["unseen"], model.card(DEVICE)),
        "predicted": _list_unseen(validation["unseen"]),
    }


def _describe_edits(changed: pd.DataFrame) -> str:
    true, guess = np.log(changed.recorded), np.log(changed.estimated)
    off, far = np.abs(guess - true), np.abs(true) > _FAR
    right = (np.sign(true) == np.sign(guess))[far]
    return (
        f"Of {len(changed)} pairs of an exercise’s solution and its starting code, the ratio of the times is off by "
        f"{_format_percent(math.expm1(off.median()))} in the median and by "
        f"{_format_percent(math.expm1(off.quantile(0.9)))} at the 90th percentile. {far.sum()} of them "
        f"change the time by more than 10 %; the direction is right in {right.sum()}."
    )


def _describe_limiters(unit: Mapping[str, float]) -> str:
    return (
        f"In {unit['kernels']} kernels Nsight Compute found a unit at least 60 % busy. The estimate’s busiest unit is "
        f"the same in {_format_percent(unit['same'])} of them, and within 10 % of it in "
        f"{_format_percent(unit['near'])}."
    )


def _list_worst(table: pd.DataFrame) -> str:
    rows = table.loc[_log_error(table).sort_values(ascending=False).index[:12]]
    lines = [f"| {row.label} | {row.layer} | {row.op_ms:.3g} | {row.op_ms / row.estimate:.2f} | {row.why_not} |"
             for row in rows.itertuples()]
    head = ["| kernel | layer | recorded ms | over the model's time | why it gets no time |", "|---|---|---|---|---|"]
    return "\n".join([*head, *lines])


def _summarize_unseen(table: pd.DataFrame, on: Card) -> str:
    """Return how well kernels were predicted that took part in no fit, by their busiest unit."""
    timed = table[table.why_not == ""]
    within = (timed.low <= timed.op_ms) & (timed.op_ms <= timed.high)
    lines = [
        f"Of {len(table)} times of {table.label.nunique()} kernels that took part in no fit, {len(timed)} get an "
        f"estimate. Its error is {_format_percent(math.expm1(_log_error(timed).median()))} in the median and "
        f"{_format_percent(math.expm1(_log_error(timed).quantile(0.9)))} at the 90th percentile. {within.sum()} of "
        f"the {len(timed)} times are within their interval.", "",
        "| limited by | kernels | times | median error | 90th percentile | recorded over the model's time |",
        "|---|---|---|---|---|---|",
    ]
    for unit, rows in table[table.unlike == ""].groupby("unit"):
        off = _log_error(rows)
        errors = (_format_percent(math.expm1(value)) for value in (off.median(), off.quantile(0.9)))
        low, high = on.intervals.get(unit, (0, 0))
        interval = f"{low:.2f} to {high:.2f}" if high else "no time is given"
        lines.append(f"| {unit} | {rows.label.nunique()} | {len(rows)} | {' | '.join(errors)} | {interval} |")
    refused = table[table.unlike != ""]
    off = _log_error(refused)
    errors = (_format_percent(math.expm1(value)) for value in (off.median(), off.quantile(0.9)))
    lines.append(f"| refused before, by what they do | {refused.label.nunique()} | {len(refused)} | "
                 f"{' | '.join(errors)} | no time is given |")
    return "\n".join(lines)


def _list_unseen(table: pd.DataFrame) -> str:
    """Return the intervals of edits and programs, beside the recorded times, in Markdown."""
    lines = ["| kernel | layer or size | recorded ms | estimate, ms | busiest |", "|---|---|---|---|---|"]
    for row in table.itertuples():
        estimate = f"none: {row.why_not}" if row.why_not else f"{row.low:.2g} to {row.high:.2g}"
        gpu = "" if row.device == DEVICE else f", {row.device.removeprefix('NVIDIA ').partition(' ')[0]}"
        lines.append(f"| {row.label} | {row.layer}{gpu} | {row.op_ms:.3g} | {estimate} | {row.unit} |")
    return "\n".join(lines)


def estimates(
    collect_: Annotated[
        bool, Option("--collect", help="Count all variants again: about 20 minutes on two cores.")
    ] = False,
    unseen_: Annotated[bool, Option("--unseen", help="Count the edits and programs again: some minutes.")] = False,
    fit_: Annotated[bool, Option("--fit", help="Fit the card's rates to the recorded times.")] = False,
) -> None:
    """Compare estimates with times: docs/estimates.md."""
    if collect_:
        keep(collect_work((v, layer) for layer in LAYERS.values() for v in map_variants().values()), "work.csv")
        sizes = [collect_work((size, layer) for size in choose_swept(layer)) for layer in (LENET72[1], *LENET86)]
        keep(pd.concat(sizes), "sweep.csv")
    if unseen_:
        keep(collect_unseen(), "unseen.csv")
    table, sweep = read("work.csv")[lambda rows: rows.label.isin(map_variants())], read("sweep.csv")
    if fit_:
        variants_ = map_variants()
        several = list_cases(table, BATCH, read_op_ms(BATCH), lambda row: variants_[row.label])
        on = fit(several, "coarse", fit(several, "fine", model.card(DEVICE)))
        unseen = predict(list_unseen_cases(read("unseen.csv")), "fine", on)
        put_card(dataclasses.replace(on, intervals=find_intervals(predict_held_out(several, "fine", on), unseen)))
    parts = write_texts(validate(table, sweep))
    for name, text in parts.items():
        replace_marked(name, text, PAGE)
    print(parts["errors"])


def collect_unseen() -> pd.DataFrame:
    """Return the work of the launches of `recording.edits`: of each edit on its layers, and of each program."""
    edited = collect_work((edit.variant, layer) for edit in read_edits() for layer in edit.layers)
    rows = []
    for path in every_program():
        size = str(size_of(path.stem))
        records, modules, ended = launched(processes.program(str(path), [size], "cpu"))
        ended.require(path.name)
        _, works = works_of_launches(records, modules)
        rows += [{"label": path.stem, "rung": "", "layer": size, "options": "", **work} for work in works]
    return pd.concat([edited, pd.DataFrame(rows)], ignore_index=True)


def put_card(card: Card) -> None:
    """Write fitted values into cards.toml; its comments stay."""
    text = model.CARDS.read_text(encoding="utf-8")
    for name in FITTED["fine"]:
        text = re.sub(rf"(?m)^{name} = [\d.]+", f"{name} = {getattr(card, name):.4g}", text)
    for name in FITTED["coarse"]:
        text = re.sub(rf"\b{name} = [\d.]+", f"{name} = {card.coarse[name]:.3g}", text)
    ends = ", ".join(f'"{unit}" = [{low:.2f}, {high:.2f}]' for unit, (low, high) in card.intervals.items())
    text = re.sub(r"(?m)^intervals = .*$", f"intervals = {{ {ends} }}", text)
    write(model.CARDS, text)
    model.cards.cache_clear()
