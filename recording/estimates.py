"""Estimated times against recorded ones: the fit of `hostcuda/estimate/cards.toml`, and docs/estimates.md.

``python -m recording estimates --collect`` counts every recorded variant of 01 to 09 and a sample
of the swept sizes of 07 on the CPU engine, and reads nvcc's machine code; no GPU is needed.
``--unseen`` does so for the edits and the programs of `recording.edits`. What they find is in
data/estimates/, a row per launch: the fit and the page take seconds. ``--fit`` fits the card's
rates to the recorded times of the rungs, and the intervals to what the rates were not fitted to:
the edits, the programs, and each rung, left out in turn and predicted with rates fitted to the
others. The swept sizes, the other batches, and rungs 10 and 11 take no part in any fit.
"""

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
from labkit import LENET72, LENET86, Layer, profile, recorded, variant
from labkit.base.paths import PACKAGE, data_dir
from labkit.evidence.profile import BATCH
from labkit.evidence.work import scale_work
from labkit.ladder import tables
from labkit.ladder.rungs import LADDER
from labkit.ladder.variants import Variant, solutions, variants
from labkit.records import store
from labkit.spec import devices
from recording import options
from recording.edits import every_program, read_edits, size_of
from recording.keep import merge_rows
from recording.readme import replace_marked

LAYERS = {layer.name: layer for layer in options.LAYERS}
FOLDER = data_dir() / "estimates"
PAGE = PACKAGE.parent / "docs" / "estimates.md"
RUNGS = range(1, 10)  # 10 and 11 use tensor cores in ways that the model does not have
DEVICE = "NVIDIA H200"
COUNTED = 2  # images per launch that is counted
SWEPT, SWEPT_BATCH = 45, 1000  # sizes of 07 per layer
# The rates to fit, with first guesses; the others were measured one by one, see the comments in
# cards.toml.
FITTED = {
    "fine": {
        "l2_write_tb_s": 4.0,
        "pipes": 0.9,
        "issue": 0.85,
        "tags": 2.5,
        "miss_cycles": 2.0,
        "misses_apart": 10.0,
    },
    "coarse": {"memory_instructions": 0.25, "integer": 0.5, "branches": 4.0, "divisions": 20.0},
}
_FAR = math.log(1.1)  # pairs whose times are closer are not ordered
# A unit has an interval if kernels that it limits, and that took part in no fit, were predicted: at
# least so many kernels, and nine of ten cases to within this factor.
LEAST_KERNELS, MOST_OFF = 3, 1.5


# ----------------------------------------------------------------------------------------- counting
def map_variants() -> dict[str, Variant]:
    """Map the labels in data/results, such as "tiling, tile=32", to the variants and exercises' solutions of RUNGS."""
    every = [
        v
        for rung in LADDER
        if rung.number in RUNGS
        for v in (*variants(rung.number), *solutions(rung.number))
    ]
    return {_shorten_label(v): v for v in every if not (v.library or v.architecture_specific)}


def _shorten_label(variant: Variant) -> str:
    """Return a variant's label without the number: "tiling, tile=32" of "04 tiling, tile=32"."""
    return variant.label.partition(" ")[2]


def choose_swept(layer: Layer) -> list[Variant]:
    """Return SWEPT variants of rung 07 whose sizes were swept on a layer, evenly spaced in the order of their times."""
    table = read_swept()[lambda rows: (rows.layer == layer.name) & rows.op_ms.notna()]
    rows = table.sort_values("op_ms").iloc[np.linspace(0, len(table) - 1, SWEPT).astype(int)]
    return [variant("tuning", **tables.as_options(text)) for text in rows.options]


def read_swept() -> pd.DataFrame:
    """Return the recorded sweep of rung 07 with SWEPT_BATCH images: a row per layer and size."""
    table = store.read_as_stored(data_dir() / "sweeps" / f"{devices.slug(DEVICE)}.csv")
    return table[table.batch == SWEPT_BATCH]


def collect_work(pairs: Iterable[tuple[Variant, Layer]]) -> pd.DataFrame:
    """Count variants on layers with `COUNTED` images; return the work of each launch, a row per launch.

    The columns: label, rung, layer, options, and what `hostcuda.estimate` counts. EngineError
    without nvcc or nvdisasm.
    """

    def count_work(pair: tuple[Variant, Layer]) -> list[dict]:
        """Return the rows of a variant on a layer; none if it cannot run there, or has too much machine code."""
        variant, layer = pair
        try:
            variant.supports(layer)
        except EngineError:
            return []
        kind, works = profile(
            variant, layer, COUNTED, estimate=DEVICE
        ).works  # "fine" or "coarse"; a dict per launch
        if not fine():  # this machine lacks the tools that read machine code
            raise EngineError(
                "the fit needs nvcc and nvdisasm: install the CUDA toolkit or its wheels"
            )
        if kind != "fine":
            print(f"{variant.label}, {layer.name}: too much machine code", flush=True)
            return []
        print(f"{variant.label}, {layer.name}", flush=True)
        columns = {"label": _shorten_label(variant), "rung": variant.rung.name, "layer": layer.name}
        return [columns | {"options": variant.options_text, **work} for work in works]

    with ThreadPoolExecutor(2) as pool:
        return pd.DataFrame([row for rows in pool.map(count_work, pairs) for row in rows])


def collect_unseen() -> pd.DataFrame:
    """Return the work of the launches of `recording.edits`: of each edit on its layers, and of each program."""
    edited = collect_work((edit.variant, layer) for edit in read_edits() for layer in edit.layers)
    rows = []
    for path in every_program():
        size = str(size_of(path.stem))
        records, modules, ended = launched(processes.program(str(path), [size], "cpu"))
        ended.require(path.name)
        _, works = works_of_launches(records, modules)
        rows += [
            {"label": path.stem, "rung": "", "layer": size, "options": "", **work} for work in works
        ]
    return pd.concat([edited, pd.DataFrame(rows)], ignore_index=True)


def read(name: str) -> pd.DataFrame:
    """Read a table of `collect_work` or `collect_unseen` from data/estimates."""
    return (
        store.read_as_stored(FOLDER / name, dtype={"layer": str})
        .fillna({"options": "", "rung": ""})
        .fillna(0.0)
    )


# ---------------------------------------------------------------------------------------- comparing
@dataclasses.dataclass
class Case:
    """A variant on a layer, with the time that was recorded and the work of each kernel for that batch.

    Of a program, `label` is its name, `layer` its size, and `rung` empty.
    """

    label: str
    rung: str
    layer: str
    op_ms: float
    works: list[dict]
    device: str = DEVICE

    def select_works(self, kind: str) -> list[dict]:
        """Return the works for an estimate that is "fine", or "coarse": then without machine code."""
        return [without_code(work) for work in self.works] if kind == "coarse" else self.works


def _drop_labels(rows: pd.DataFrame) -> list[dict]:
    """Return the works of some rows of `collect_work`, as `hostcuda.estimate` has them: without our own columns."""
    return rows.drop(columns=["label", "rung", "layer", "options"]).to_dict("records")


def list_cases(
    table: pd.DataFrame,
    batch: int,
    times_ms: Mapping[tuple[str, str], float],
    find_variant: Callable[[pd.Series], Variant],
) -> list[Case]:
    """Return the cases of a table of `collect_work` that have a recorded time with `batch` images.

    `times_ms` maps (label, layer) to the time, and `find_variant` a row to its variant.
    """
    memory = devices.device(DEVICE).memory_bytes
    return [
        Case(
            label,
            rows.rung.iloc[0],
            layer,
            times_ms[label, layer],
            scale_work(
                find_variant(rows.iloc[0]),
                LAYERS[layer],
                _drop_labels(rows),
                COUNTED,
                batch,
                memory,
            ),
        )
        for (label, layer), rows in table.groupby(["label", "layer"], sort=False)
        if (label, layer) in times_ms
    ]


def _map_times(table: pd.DataFrame) -> dict[tuple[str, str], float]:
    """Map label, as in files without the rung's number, and layer to the op time [ms] of a table's row."""
    return {
        (label, layer): ms
        for label, layer, ms in zip(table.label, table.layer, table.op_ms, strict=True)
    }


def list_ladder_cases(table: pd.DataFrame, batch: int) -> list[Case]:
    """Return the cases of a table of `collect_work` whose times are in data/results."""
    rows = recorded(DEVICE).table[lambda rows: (rows.batch == batch) & rows.layer.notna()]
    times_ms, variants_by_label = (
        _map_times(rows.assign(label=rows.label.str.partition(" ")[2])),
        map_variants(),
    )
    return list_cases(table, batch, times_ms, lambda row: variants_by_label[row.label])


def list_unseen_cases(table: pd.DataFrame) -> list[Case]:
    """Return the cases of a table of `collect_unseen` that have a recorded time, on each device that has one."""
    edited = {_shorten_label(edit.variant): edit.variant for edit in read_edits()}
    recorded_edits, recorded_programs = (
        store.read_as_stored(FOLDER / name) for name in ("edits.csv", "programs.csv")
    )
    cases = list_cases(
        table[table.rung != ""], BATCH, _map_times(recorded_edits), lambda row: edited[row.label]
    )
    programs = table[table.rung == ""]
    for timed in recorded_programs.itertuples():
        rows = programs[(programs.label == timed.name) & (programs.layer == str(timed.size))]
        if len(rows):
            cases.append(
                Case(timed.name, "", str(timed.size), timed.ms, _drop_labels(rows), timed.device)
            )
    return cases


def _adapt_card(case: Case, card: Card) -> Card:
    """Return the card with the bandwidth of a case's device; its other rates stay."""
    here, there = (devices.device(name).measured["copy"] for name in (card.name, case.device))
    return dataclasses.replace(card, dram_tb_s=card.dram_tb_s * there / here)


def predict(cases: Sequence[Case], kind: str, card: Card) -> pd.DataFrame:
    """Return the estimates: a row per case, also where `why_not` would withhold the time.

    `kind` is "fine" or "coarse". The columns: label, rung, layer, device, op_ms, estimate, low,
    high (an interval, or NaN), unit (the busiest of the longest kernel), unlike (those predicted
    well: why, or ""; False if coarse), why_not.
    """
    rows = []
    for case in cases:
        works, case_card = case.select_works(kind), _adapt_card(case, card)
        # Programs, which have no rung, launch in a row, without Python: no launch is waited for.
        timing_card = case_card if case.rung else dataclasses.replace(case_card, launch_ms=0.0)
        times_ms = [model.time_ms(work, timing_card) for work in works]
        longest = works[times_ms.index(max(times_ms))]
        reason = next(filter(None, (why_not(work, case_card) for work in works)), "")
        intervals = (
            [(math.nan, math.nan)]
            if reason
            else [model.interval_ms(work, case_card) for work in works]
        )
        unlike = kind == "fine" and next(
            filter(None, (why_unlike(work, case_card) for work in works)), ""
        )
        rows.append(
            (
                case.label,
                case.rung,
                case.layer,
                case.device,
                case.op_ms,
                sum(times_ms),
                *np.sum(intervals, axis=0),
                model.busiest_unit(longest, case_card),
                unlike,
                reason,
            )
        )
    return pd.DataFrame(
        rows,
        columns=[
            "label",
            "rung",
            "layer",
            "device",
            "op_ms",
            "estimate",
            "low",
            "high",
            "unit",
            "unlike",
            "why_not",
        ],
    )


def find_intervals(held_out: pd.DataFrame, unseen: pd.DataFrame) -> dict[str, tuple[float, float]]:
    """Map each busiest unit to the interval, (low, high), of nine of ten quotients of recorded and estimated time.

    Both tables are those of `predict`: the rungs, each left out of the fit, and what took part in
    no fit. The interval holds nine of ten of each. A unit has none if too few kernels were
    predicted, or too badly.
    """
    intervals = {}
    for unit, rows in unseen[unseen.unlike == ""].groupby("unit"):
        ratios = rows.op_ms / rows.estimate
        if rows.label.nunique() < LEAST_KERNELS or _log_error(rows).quantile(0.9) > math.log(
            MOST_OFF
        ):
            continue
        held_out_rows = held_out[(held_out.unlike == "") & (held_out.unit == unit)]
        groups = [
            group for group in (ratios, held_out_rows.op_ms / held_out_rows.estimate) if len(group)
        ]
        low, high = ([float(group.quantile(share)) for group in groups] for share in (0.05, 0.95))
        intervals[unit] = math.floor(100 * min(low)) / 100, math.ceil(100 * max(high)) / 100
    return intervals


def _log_error(table: pd.DataFrame) -> pd.Series:
    """Return per row the error of the estimate: the absolute logarithm of recorded over estimated time."""
    return np.log(table.estimate / table.op_ms).abs()


def fit(cases: Sequence[Case], kind: str, start: Card) -> Card:
    """Return the card with the rates of a kind of estimate, "fine" or "coarse", fitted to the cases.

    They are found by robust least squares of the logarithms, weakly held at physical values.
    """
    from scipy.optimize import least_squares

    names, first = FITTED[kind], np.log([*FITTED[kind].values()])
    works = [(case.select_works(kind), case.op_ms) for case in cases]

    def compute_residuals(x: np.ndarray) -> np.ndarray:
        """Return the log errors with rates exp(x), and the distances from the physical values."""
        card = _replace_rates(start, names, x)
        errors = [
            math.log(sum(model.time_ms(work, card) for work in case_works) / ms)
            for case_works, ms in works
        ]
        return np.array([*errors, *(0.05 * (x - first))])

    bounds = (first - 1.5, first + 1.5)
    solution = least_squares(
        compute_residuals, first, loss="soft_l1", f_scale=0.15, bounds=bounds, diff_step=0.01
    )
    return _replace_rates(start, names, solution.x)


def _replace_rates(card: Card, names: Iterable[str], logarithms: np.ndarray) -> Card:
    """Return the card with the named rates set to exp(logarithms)."""
    values = dict(zip(names, map(float, np.exp(logarithms)), strict=True))
    coarse = {name: values.get(name, value) for name, value in card.coarse.items()}
    return dataclasses.replace(
        card, coarse=coarse, **{k: v for k, v in values.items() if k not in coarse}
    )


def predict_held_out(cases: Sequence[Case], kind: str, start: Card) -> pd.DataFrame:
    """Return `predict`'s table in which each rung was predicted with rates that were fitted to the other rungs."""
    predictions = []
    for rung in dict.fromkeys(case.rung for case in cases):
        others = [case for case in cases if case.rung != rung]
        card = fit(others, "fine", start)  # the coarse estimate has these rates, too
        card = fit(others, kind, card) if kind != "fine" else card  # then its own are fitted, too
        predictions.append(predict([case for case in cases if case.rung == rung], kind, card))
    return pd.concat(predictions, ignore_index=True)


# ----------------------------------------------------------------------------------------- the page
# Each unit's metric in Nsight Compute that tells how busy it is, and the percentage that the unit
# reaches when nothing else limits it.
_BUSY = {
    "instruction issue": ("smsp__issue_active.avg.pct_of_peak_sustained_active", 88),
    "L1 data pipe": ("l1tex__data_pipe_lsu_wavefronts.avg.pct_of_peak_sustained_elapsed", 95),
    "constant cache": ("idc__request_cycles_active.avg.pct_of_peak_sustained_elapsed", 95),
    "L2": ("lts__throughput.avg.pct_of_peak_sustained_elapsed", 92),
}
_SAME = {  # a unit of the estimate -> that of `_BUSY` whose metric has it, too
    "L2 reads": "L2",
    "L2 writes": "L2",
    "DRAM": "L2",
    "integer pipe": "instruction issue",
    "FMA pipe": "instruction issue",
    "memory instructions": "L1 data pipe",
    "L1 tags": "L1 data pipe",
}


def describe_limiters(cases: Sequence[Case], card: Card) -> str:
    """Return how often the estimate's busiest unit is also the busiest in Nsight Compute, or within 10 % of it."""
    counted = store.read_as_stored(data_dir() / "counters" / f"{devices.slug(DEVICE)}.csv")
    counted = counted[counted["idc__requests.sum"].notna()].drop_duplicates(
        ["label", "layer", "kernel"]
    )
    counted = counted.set_index(["label", "layer", "kernel"])
    is_same, is_near = [], []
    for case, work in ((one, work) for one in cases for work in one.works):
        if (case.label, case.layer, work["kernel"]) in counted.index:
            row = counted.loc[(case.label, case.layer, work["kernel"])]
            busy = {unit: row[metric] / most for unit, (metric, most) in _BUSY.items()}  # 0 to 1
            if max(busy.values()) >= 0.6:  # else it waits: no unit is busy
                guess = model.unit_times(work, card)  # unit -> how long it is busy
                unit = max(guess, key=guess.__getitem__)
                unit = _SAME.get(unit, unit)
                is_same.append(unit == max(busy, key=busy.__getitem__))
                is_near.append(busy.get(unit, 0) >= 0.9 * max(busy.values()))
    return (
        f"In {len(is_same)} kernels Nsight Compute found a unit at least 60 % busy. The estimate’s busiest unit is "
        f"the same in {_format_percent(np.mean(is_same))} of them, and within 10 % of it in "
        f"{_format_percent(np.mean(is_near))}."
    )


# An exercise's solution is compared with the kernel that it starts from: how its label ends -> that
# kernel, if it is not its rung's own.
_STARTS = {"b_together.cu": "tiling, weights", "a_turned.cu, block=8x8": "baseline"}


def describe_edits(table: pd.DataFrame) -> str:
    """Return how well `predict`'s table has the ratios of times of exercises' solutions and what they start from."""
    at, true, guess = table.set_index(["label", "layer"]), [], []
    for label, layer in at.index:
        if ".cu" not in label:  # of a solution: "tiling, b_together.cu"
            continue
        file = label.partition(", ")[2]
        start = next(
            (s for end, s in _STARTS.items() if file.endswith(end)), label.partition(",")[0]
        )
        if (start, layer) in at.index:
            (now, guessed), (was, before) = (
                at.loc[(key, layer), ["op_ms", "estimate"]] for key in (label, start)
            )
            true.append(np.log(now / was))
            guess.append(np.log(guessed / before))
    true, guess = pd.Series(true), pd.Series(guess)
    off, far = np.abs(guess - true), np.abs(true) > _FAR
    right = (np.sign(true) == np.sign(guess))[far]
    return (
        f"Of {len(off)} pairs of an exercise’s solution and its starting code, the ratio of the times is off by "
        f"{_format_errors(off, ' in the median and by ')} at the 90th percentile. {far.sum()} of them "
        f"change the time by more than 10 %; the direction is right in {right.sum()}."
    )


def _format_percent(value: float) -> str:
    """Return a share as a text: "4.1 %", and "16 %" from 10 % on."""
    return f"{100 * value:.1f} %" if value < 0.1 else f"{100 * value:.0f} %"


def _format_errors(errors: pd.Series, between: str) -> str:
    """Return the median and the 90th percentile of absolute logarithms as texts: "4.1 %", `between`, "16 %"."""
    return between.join(_format_percent(math.expm1(errors.quantile(share))) for share in (0.5, 0.9))


def _format_row(name: str, table: pd.DataFrame) -> str:
    """Return a row in Markdown, under `_HEAD`, with the scores of a table of `predict`.

    Pairs are of one layer, or of one rung on one layer. Those whose recorded times are within 10 %
    are left out.
    """
    shares = []
    for keys in (["layer"], ["layer", "rung"]):
        is_right = []
        for _, rows in table.groupby(keys):
            first, second = np.triu_indices(len(rows), 1)
            true, guess = (np.log(rows[column].to_numpy()) for column in ("op_ms", "estimate"))
            is_far_apart = np.abs(true[first] - true[second]) > _FAR
            agrees = np.sign(true[first] - true[second]) == np.sign(guess[first] - guess[second])
            is_right += list(agrees[is_far_apart])
        shares.append(_format_percent(np.mean(is_right)))
    return f"| {name} | {len(table)} | {_format_errors(_log_error(table), ' | ')} | {' | '.join(shares)} |"


_HEAD = [
    "| | cases | median error | 90th percentile | pairs in the right order, one layer | same rung |",
    "|---|---|---|---|---|---|",
]


def write_texts(table: pd.DataFrame, sweep: pd.DataFrame) -> dict[str, str]:
    """Return the texts of docs/estimates.md by the names of their markers; the tables are work.csv and sweep.csv."""
    card, cases = model.card(DEVICE), list_ladder_cases(table, BATCH)
    left, coarse = (predict_held_out(cases, kind, card) for kind in FITTED)
    unseen = predict(list_unseen_cases(read("unseen.csv")), "fine", card)
    without_07 = fit([case for case in cases if case.rung != "tuning"], "fine", card)
    sizes = predict(
        list_cases(
            sweep,
            SWEPT_BATCH,
            _map_times(read_swept()),
            lambda row: variant("tuning", **tables.as_options(row.options)),
        ),
        "fine",
        without_07,
    )
    picks = []
    for layer, rows in sizes.groupby("layer"):
        pick = rows.op_ms[rows.estimate.idxmin()] / rows.op_ms.min()
        picks.append(f"{pick:.2f} times the best of {len(rows)} ({layer})")
    return {
        "errors": "\n".join(
            [
                *_HEAD,
                _format_row("kernels that get a time", left[left.why_not == ""]),
                _format_row("all, with machine code", left),
                _format_row("all, without it: only the order is used", coarse),
                *(
                    _format_row(f"all of {name}, with machine code", left[left.layer == name])
                    for name in LAYERS
                ),
            ]
        ),
        "sizes": "\n".join(
            [
                *_HEAD,
                _format_row(f"swept sizes of 07, batch {SWEPT_BATCH:,}", sizes),
                *(
                    _format_row(
                        f"batch {batch:,}", predict(list_ladder_cases(table, batch), "fine", card)
                    )
                    for batch in (100, 1000)
                ),
                "",
                f"The size that the estimate picks takes {', '.join(picks)}.",
            ]
        ),
        "edits": describe_edits(left),
        "limiters": describe_limiters(cases, card),
        "worst": _list_worst(left),
        "unseen": _summarize_unseen(unseen, card),
        "predicted": _list_unseen(unseen),
    }


def _list_worst(table: pd.DataFrame) -> str:
    """Return the twelve cases with the largest errors in Markdown."""
    rows = table.loc[_log_error(table).sort_values(ascending=False).index[:12]]
    lines = [
        f"| {row.label} | {row.layer} | {row.op_ms:.3g} | {row.op_ms / row.estimate:.2f} | {row.why_not} |"
        for row in rows.itertuples()
    ]
    head = [
        "| kernel | layer | recorded ms | over the model's time | why it gets no time |",
        "|---|---|---|---|---|",
    ]
    return "\n".join([*head, *lines])


def _summarize_unseen(table: pd.DataFrame, card: Card) -> str:
    """Return how well kernels were predicted that took part in no fit, by their busiest unit, in Markdown."""
    timed = table[table.why_not == ""]
    within = (timed.low <= timed.op_ms) & (timed.op_ms <= timed.high)
    lines = [
        f"Of {len(table)} times of {table.label.nunique()} kernels that took part in no fit, {len(timed)} get an "
        f"estimate. Its error is {_format_errors(_log_error(timed), ' in the median and ')} at the 90th percentile. "
        f"{within.sum()} of the {len(timed)} times are within their interval.",
        "",
        "| limited by | kernels | times | median error | 90th percentile | recorded over the model's time |",
        "|---|---|---|---|---|---|",
    ]
    groups = [
        (unit, rows, card.intervals.get(unit))
        for unit, rows in table[table.unlike == ""].groupby("unit")
    ]
    for name, rows, interval in (
        *groups,
        ("refused before, by what they do", table[table.unlike != ""], None),
    ):
        ratio = "{:.2f} to {:.2f}".format(*interval) if interval else "no time is given"
        errors = _format_errors(_log_error(rows), " | ")
        lines.append(f"| {name} | {rows.label.nunique()} | {len(rows)} | {errors} | {ratio} |")
    return "\n".join(lines)


def _list_unseen(table: pd.DataFrame) -> str:
    """Return the intervals of edits and programs, beside the recorded times, in Markdown."""
    lines = [
        "| kernel | layer or size | recorded ms | estimate, ms | busiest |",
        "|---|---|---|---|---|",
    ]
    for row in table.itertuples():
        estimate = f"none: {row.why_not}" if row.why_not else f"{row.low:.2g} to {row.high:.2g}"
        gpu = (
            ""
            if row.device == DEVICE
            else f", {row.device.removeprefix('NVIDIA ').partition(' ')[0]}"
        )
        lines.append(
            f"| {row.label} | {row.layer}{gpu} | {row.op_ms:.3g} | {estimate} | {row.unit} |"
        )
    return "\n".join(lines)


def estimates(
    collect: Annotated[
        bool, Option("--collect", help="Count all variants again: about 20 minutes on two cores.")
    ] = False,
    unseen: Annotated[
        bool, Option("--unseen", help="Count the edits and programs again: some minutes.")
    ] = False,
    fit_rates: Annotated[
        bool, Option("--fit", help="Fit the card's rates to the recorded times.")
    ] = False,
) -> None:
    """Compare estimates with times: docs/estimates.md."""
    if collect:
        work = collect_work(
            (v, layer) for layer in LAYERS.values() for v in map_variants().values()
        )
        sizes = [
            collect_work((size, layer) for size in choose_swept(layer))
            for layer in (LENET72[1], *LENET86)
        ]
        merge_rows(FOLDER / "work.csv", work, None)
        merge_rows(FOLDER / "sweep.csv", pd.concat(sizes), None)
    if unseen:
        merge_rows(FOLDER / "unseen.csv", collect_unseen(), None)
    table, sweep = read("work.csv")[lambda rows: rows.label.isin(map_variants())], read("sweep.csv")
    if fit_rates:
        cases = list_ladder_cases(table, BATCH)
        card = fit(cases, "coarse", fit(cases, "fine", model.card(DEVICE)))
        predicted = predict(list_unseen_cases(read("unseen.csv")), "fine", card)
        put_card(
            dataclasses.replace(
                card, intervals=find_intervals(predict_held_out(cases, "fine", card), predicted)
            )
        )
    texts = write_texts(table, sweep)
    for name, text in texts.items():
        replace_marked(name, text, PAGE)
    print(texts["errors"])


def put_card(card: Card) -> None:
    """Write fitted rates and intervals into cards.toml; its comments stay."""
    text = model.CARDS.read_text(encoding="utf-8")
    for name in FITTED["fine"]:  # a line of its own: "pipes = 0.9"
        text = re.sub(rf"(?m)^{name} = [\d.]+", f"{name} = {getattr(card, name):.4g}", text)
    for name in FITTED["coarse"]:  # inside of a line
        text = re.sub(rf"\b{name} = [\d.]+", f"{name} = {card.coarse[name]:.3g}", text)
    ends = ", ".join(
        f'"{unit}" = [{low:.2f}, {high:.2f}]' for unit, (low, high) in card.intervals.items()
    )
    text = re.sub(r"(?m)^intervals = .*$", f"intervals = {{ {ends} }}", text)
    write(model.CARDS, text)
    model.cards.cache_clear()
