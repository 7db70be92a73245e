"""Estimated times against recorded ones: the fit of `hostcuda/estimate/cards.toml`, and docs/estimates.md.

``python -m recording estimates --collect`` counts every recorded variant of 01 to 09 and a sample of the swept sizes
of 07 on the CPU engine, and reads nvcc's machine code; no GPU is needed. What it finds is kept in data/estimates/, a
row per launch, so that the fit and the page take seconds. ``--fit`` fits the card's rates to the recorded times.

The estimate is judged on times that the fit has not seen: each rung is left out in turn and predicted with rates fitted
to the others. The swept sizes, the other batches, and rungs 10 and 11 take no part in any fit.
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
from hostcuda.estimate import Estimate, fine, model, why_not
from hostcuda.estimate import estimate as of_launches
from hostcuda.estimate.model import Card
from hostcuda.estimate.work import without_code
from hostcuda.files import write
from hostcuda.profile import recorded as launched
from labkit.base.paths import PACKAGE, data_dir
from labkit.evidence.profile import BATCH, estimate, profile
from labkit.evidence.work import scale_work
from labkit.ladder import tables
from labkit.ladder.rungs import LADDER
from labkit.ladder.variants import Variant, solutions, variant, variants
from labkit.records import store
from labkit.records.recorded import recorded
from labkit.spec import devices
from labkit.spec.layers import LENET72, LENET86, Layer
from recording.edits import every_edit, every_program, size_of
from recording.keep import merge
from recording.readme import put

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


# ------------------------------------------------------------------------------------------------------- counting
def known() -> dict[str, Variant]:
    """Map the labels of data/results to the recorded variants and solutions."""
    every = [v for rung in LADDER if rung.number in RUNGS for v in (*variants(rung.number), *solutions(rung.number))]
    return {_shorten_label(v): v for v in every if not (v.library or v.architecture_specific)}


def _shorten_label(variant: Variant) -> str:
    return variant.label.partition(" ")[2]


def swept(layer: Layer) -> list[Variant]:
    """Return some of the swept sizes of 07, evenly spaced in the order of their recorded times."""
    table = store.read_as_stored(data_dir() / "sweeps" / f"{devices.slug(DEVICE)}.csv")
    table = table[(table.batch == SWEPT_BATCH) & (table.layer == layer.name) & table.op_ms.notna()]
    rows = table.sort_values("op_ms").iloc[np.linspace(0, len(table) - 1, SWEPT).astype(int)]
    return [variant("tuning", **tables.options(text)) for text in rows.options]


def collect(jobs: Iterable[tuple[Variant, Layer]]) -> pd.DataFrame:
    """Return the work of each launch of these variants on `COUNTED` images, a row per launch."""

    def one(job):
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
        about = {"label": _shorten_label(variant), "rung": variant.rung.name, "layer": layer.name}
        return [about | {"options": variant.options_text, **work} for work in works]

    with ThreadPoolExecutor(2) as pool:
        return pd.DataFrame([row for rows in pool.map(one, jobs) for row in rows])


def keep(table: pd.DataFrame, name: str) -> None:
    """Write a table of data/estimates."""
    merge(FOLDER / name, table, None)


def read(name: str) -> pd.DataFrame:
    """Read a table of data/estimates."""
    return store.read_as_stored(FOLDER / name).fillna({"options": ""}).fillna(0.0)


# ------------------------------------------------------------------------------------------------------- comparing
@dataclasses.dataclass
class Case:
    """A variant on a layer, with the time that was recorded and the work of each kernel for that batch."""

    label: str
    rung: str
    layer: str
    batch: int
    op_ms: float
    works: list[dict]

    def of(self, kind: str) -> list[dict]:
        """Return the works; without machine code if the estimate is coarse."""
        return [without_code(work) for work in self.works] if kind == "coarse" else self.works


def cases(
    table: pd.DataFrame, batch: int, times: Mapping[tuple[str, str], float], which: Callable[[pd.Series], Variant]
) -> list[Case]:
    """Return the cases of a table of `collect` that have a recorded time."""
    memory = devices.device(DEVICE).memory_bytes
    found_cases = []
    for (label, layer), rows in table.groupby(["label", "layer"], sort=False):
        if (op_ms := times.get((label, layer))) is None:
            continue
        sample = [{name: value for name, value in row.items() if name not in ("label", "rung", "layer", "options")}
                  for row in rows.to_dict("records")]
        case_variant = which(rows.iloc[0])
        works = scale_work(case_variant, LAYERS[layer], sample, COUNTED, batch, memory)
        found_cases.append(Case(label, rows.rung.iloc[0], layer, batch, op_ms, works))
    return found_cases


def times(batch: int) -> dict[tuple[str, str], float]:
    """Return the recorded op times [ms] by label and layer."""
    table = recorded(DEVICE).table
    rows = table[(table.batch == batch) & table.layer.notna()]
    return {(label.partition(" ")[2] or label, layer): ms
            for label, layer, ms in zip(rows.label, rows.layer, rows.op_ms, strict=True)}


def predict(several: Sequence[Case], kind: str, on: Card) -> pd.DataFrame:
    """Return the estimates: a row per case, also where `why_not` would withhold the time."""
    rows = []
    for case in several:
        works = case.of(kind)
        estimated_ms = sum(model.time_ms(work, on) for work in works)
        reason = next(filter(None, map(why_not, works)), "")
        rows.append((case.label, case.rung, case.layer, case.op_ms, estimated_ms, reason))
    return pd.DataFrame(rows, columns=["label", "rung", "layer", "op_ms", "estimate", "why_not"])


def fit(several: Sequence[Case], kind: str, start: Card) -> Card:
    """Fit the card's rates to the cases: robust least squares of the logarithms, weakly held at physical values."""
    from scipy.optimize import least_squares

    names, first = FITTED[kind], np.log([*FITTED[kind].values()])
    works = [(case.of(kind), case.op_ms) for case in several]

    def missed(x):
        on = _replace_rates(start, names, x)
        errors = [math.log(sum(model.time_ms(work, on) for work in case_works) / ms) for case_works, ms in works]
        return np.array([*errors, *(0.05 * (x - first))])

    bounds = (first - 1.5, first + 1.5)
    solution = least_squares(missed, first, loss="soft_l1", f_scale=0.15, bounds=bounds, diff_step=0.01)
    return _replace_rates(start, names, solution.x)


def _replace_rates(card: Card, names, logarithms) -> Card:
    values = dict(zip(names, map(float, np.exp(logarithms)), strict=True))
    coarse = {name: values.get(name, value) for name, value in card.coarse.items()}
    return dataclasses.replace(card, coarse=coarse, **{k: v for k, v in values.items() if k not in coarse})


def left_out(several: Sequence[Case], kind: str, start: Card) -> pd.DataFrame:
    """Predict each rung with rates that were fitted to the others."""
    parts = []
    for rung in dict.fromkeys(case.rung for case in several):
        others = [case for case in several if case.rung != rung]
        card = fit(others, "fine", start)  # the coarse estimate has these rates, too
        card = fit(others, kind, card) if kind != "fine" else card
        parts.append(predict([case for case in several if case.rung == rung], kind, card))
    return pd.concat(parts, ignore_index=True)


def scores(table: pd.DataFrame) -> dict[str, float]:
    """Return the number of cases, the error's median and 90th percentile, and the shares of pairs in the right order.

    Pairs are of one layer, or of one rung on one layer. Those whose recorded times are within 10 % are left out.
    """
    error = np.abs(np.log(table.estimate / table.op_ms))
    found_scores = {"cases": len(table), "median": math.expm1(error.median()), "p90": math.expm1(error.quantile(0.9))}
    for name, keys in (("pairs", ["layer"]), ("pairs_of_a_rung", ["layer", "rung"])):
        right = []
        for _, rows in table.groupby(keys):
            i, j = np.triu_indices(len(rows), 1)
            true, guess = (np.log(rows[column].to_numpy()) for column in ("op_ms", "estimate"))
            far = np.abs(true[i] - true[j]) > _FAR
            right += list((np.sign(true[i] - true[j]) == np.sign(guess[i] - guess[j]))[far])
        found_scores[name] = float(np.mean(right)) if right else math.nan
    return found_scores


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


def limiters(several: Sequence[Case], on: Card) -> dict[str, float]:
    """Return how often the estimate's busiest unit is also the busiest in Nsight Compute, or within 10 % of it."""
    counted = store.read_as_stored(data_dir() / "counters" / f"{devices.slug(DEVICE)}.csv")
    counted = counted[counted["idc__requests.sum"].notna()].drop_duplicates(["label", "layer", "kernel"])
    counted = counted.set_index(["label", "layer", "kernel"])
    same = near = total = 0
    for case in several:
        for work in case.works:
            if (case.label, case.layer, work["kernel"]) not in counted.index:
                continue
            row = counted.loc[(case.label, case.layer, work["kernel"])]
            busy = {unit: row[metric] / most for unit, (metric, most) in _BUSY.items()}
            if max(busy.values()) < 0.6:  # it waits: no unit is busy
                continue
            guess = model.units(work, on)
            unit = max(guess, key=guess.__getitem__)
            unit = _SAME.get(unit, unit)
            total += 1
            same += unit == max(busy, key=busy.__getitem__)
            near += busy.get(unit, 0) >= 0.9 * max(busy.values())
    return {"kernels": total, "same": same / total, "near": near / total}


def edits(table: pd.DataFrame) -> pd.DataFrame:
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


def validated(table: pd.DataFrame, sweep: pd.DataFrame) -> dict[str, object]:
    """Return all that the page reports, computed from data/estimates and the recorded times."""
    start, variants_ = model.card(DEVICE), known()
    several = cases(table, BATCH, times(BATCH), lambda row: variants_[row.label])
    parts: dict[str, object] = {"several": several}
    for kind in FITTED:
        parts[kind] = predict(several, kind, start), left_out(several, kind, start)
    for batch in (100, 1000):
        of_batch = cases(table, batch, times(batch), lambda row: variants_[row.label])
        parts[f"batch {batch}"] = predict(of_batch, "fine", start)
    recorded_sweep = store.read_as_stored(data_dir() / "sweeps" / f"{devices.slug(DEVICE)}.csv")
    recorded_sweep = recorded_sweep[recorded_sweep.batch == SWEPT_BATCH]
    columns = (recorded_sweep[name] for name in ("label", "layer", "op_ms"))
    swept_times = {(label, layer): ms for label, layer, ms in zip(*columns, strict=True)}
    without_07 = fit([case for case in several if case.rung != "tuning"], "fine", start)
    sizes = cases(sweep, SWEPT_BATCH, swept_times, lambda row: variant("tuning", **tables.options(row.options)))
    parts["sweep"] = predict(sizes, "fine", without_07)
    return parts


def _format_percent(value: float) -> str:
    return f"{100 * value:.1f} %" if value < 0.1 else f"{100 * value:.0f} %"


def _format_row(name: str, table: pd.DataFrame) -> str:
    row_scores = scores(table)
    shares = (row_scores[score] for score in ("median", "p90", "pairs", "pairs_of_a_rung"))
    return f"| {name} | {row_scores['cases']} | {' | '.join(map(_format_percent, shares))} |"


_HEAD = [
    "| | cases | median error | 90th percentile | pairs in the right order, one layer | same rung |",
    "|---|---|---|---|---|---|",
]


def texts(validation: Mapping) -> dict[str, str]:
    """Return the texts of docs/estimates.md between markers, by the names of the markers."""
    left, coarse = validation["fine"][1], validation["coarse"][1]
    errors = [
        _format_row("counts and nvcc’s machine code", left),
        _format_row("counts alone (coarse)", coarse),
        _format_row("only kernels that get a time, with machine code", left[left.why_not == ""]),
        *(_format_row(f"{name}, with machine code", left[left.layer == name]) for name in LAYERS),
    ]
    unseen = [
        _format_row(f"swept sizes of 07, batch {SWEPT_BATCH:,}", validation["sweep"]),
        *(_format_row(f"batch {batch:,}", validation[f"batch {batch}"]) for batch in (100, 1000)),
    ]
    picks = []
    for layer, rows in validation["sweep"].groupby("layer"):
        pick = rows.op_ms[rows.estimate.idxmin()] / rows.op_ms.min()
        picks.append(f"{pick:.2f} times the best of {len(rows)} ({layer})")
    return {
        "errors": "\n".join([*_HEAD, *errors]),
        "unseen": "\n".join([*_HEAD, *unseen, "", f"The size that the estimate picks takes {', '.join(picks)}."]),
        "edits": _describe_edits(edits(left)),
        "limiters": _describe_limiters(limiters(validation["several"], model.card(DEVICE))),
        "worst": _list_worst(left),
        "predicted": predictions(),
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
    off = np.log(table.estimate / table.op_ms).abs()
    rows = table.loc[off.sort_values(ascending=False).index[:12]]
    lines = [f"| {row.label} | {row.layer} | {row.op_ms:.3g} | {row.estimate:.3g} | {row.why_not} |"
             for row in rows.itertuples()]
    head = ["| kernel | layer | recorded ms | estimated ms | why it gets no time |", "|---|---|---|---|---|"]
    return "\n".join([*head, *lines])


def predictions() -> str:
    """Return the predicted times of edits and programs, beside the times recorded since, in Markdown."""
    guesses = read("predicted.csv")
    recorded_ms: dict[tuple[str, str], float] = {}
    for name, columns in (("edits.csv", ("label", "layer", "op_ms")), ("programs.csv", ("name", "size", "ms"))):
        if (FOLDER / name).is_file():
            rows = read(name)
            recorded_ms |= {(str(a), str(b)): ms for a, b, ms in rows[list(columns)].itertuples(index=False)}
    beside = [(recorded_ms.get((row.label, str(row.case)), math.nan), row) for row in guesses.itertuples()]
    timed = [(now, row.ms, row.low_ms <= now <= row.high_ms) for now, row in beside if now > 0 and row.ms]
    both = pd.DataFrame(timed, columns=["op_ms", "estimate", "within"])
    off = np.log(both.estimate / both.op_ms).abs()
    summary = (
        f"Of {len(both)} that got a time and were timed since, the error is "
        f"{_format_percent(math.expm1(off.median()))} in the median and "
        f"{_format_percent(math.expm1(off.quantile(0.9)))} at the 90th percentile. {both.within.sum()} times are "
        "within their interval."
    )
    lines = [summary, "", "| kernel | layer or size | estimated ms | busiest | recorded ms |", "|---|---|---|---|---|"]
    for now, row in beside:
        ms = f"{row.ms:.3g} ({row.low_ms:.3g} to {row.high_ms:.3g})" if row.ms else f"none: {row.why_not}"
        then = f"{now:.3g}" if now > 0 else "not timed yet"
        lines.append(f"| {row.label} | {row.case} | {ms} | {row.busiest} | {then} |")
    return "\n".join(lines)


def estimates(
    collect_: Annotated[
        bool, Option("--collect", help="Count all variants again: about 20 minutes on two cores.")
    ] = False,
    edits_: Annotated[bool, Option("--edits", help="Predict the times of the edits and programs.")] = False,
    fit_: Annotated[bool, Option("--fit", help="Fit the card's rates to the recorded times.")] = False,
) -> None:
    """Compare estimates with times: docs/estimates.md."""
    if collect_:
        keep(collect((variant, layer) for layer in LAYERS.values() for variant in known().values()), "work.csv")
        sizes = [collect((size, layer) for size in swept(layer)) for layer in (LENET72[1], *LENET86)]
        keep(pd.concat(sizes), "sweep.csv")
    if edits_:
        keep(predicted(), "predicted.csv")
    table, sweep = read("work.csv")[lambda rows: rows.label.isin(known())], read("sweep.csv")
    if fit_:
        variants_ = known()
        several = cases(table, BATCH, times(BATCH), lambda row: variants_[row.label])
        on = fit(several, "coarse", fit(several, "fine", model.card(DEVICE)))
        intervals = {}
        for kind in FITTED:
            part = left_out(several, kind, on)
            ratios = (part.op_ms / part.estimate)[part.why_not == ""]
            intervals[kind] = tuple(float(ratios.quantile(q)) for q in (0.1, 0.9))
        put_card(dataclasses.replace(on, intervals=intervals))
    parts = texts(validated(table, sweep))
    for name, text in parts.items():
        put(name, text, PAGE)
    print(parts["errors"])


def predicted() -> pd.DataFrame:
    """Estimate the times of `recording.edits`: of each edit on its layers, and of each program."""
    rows = []
    for edit in every_edit():
        for layer in edit.layers:
            estimated = estimate(edit.variant, layer, DEVICE)
            case = {"label": _shorten_label(edit.variant), "code": edit.variant.code, "case": layer.name}
            rows.append(case | _list_fields(estimated))
            print(f"{edit.variant.label}, {layer.name}: {estimated}", flush=True)
    for path in every_program():
        size = str(size_of(path.stem))
        records, modules, ended = launched(processes.program(str(path), [size], "cpu"))
        ended.require(path.name)
        estimated = of_launches(records, modules, DEVICE)
        rows.append({"label": path.stem, "code": "", "case": size, **_list_fields(estimated)})
        print(f"{path.stem}, {size}: {estimated}", flush=True)
    return pd.DataFrame(rows)


def _list_fields(estimated: Estimate) -> dict[str, object]:
    low, high = estimated.interval
    return {"kind": estimated.kind, "ms": estimated.ms, "low_ms": low, "high_ms": high, "busiest": estimated.busiest,
            "why_not": estimated.why_not}


def put_card(card: Card) -> None:
    """Write fitted values into cards.toml; its comments stay."""
    text = model.CARDS.read_text(encoding="utf-8")
    for name in FITTED["fine"]:
        text = re.sub(rf"(?m)^{name} = [\d.]+", f"{name} = {getattr(card, name):.4g}", text)
    for name in FITTED["coarse"]:
        text = re.sub(rf"\b{name} = [\d.]+", f"{name} = {card.coarse[name]:.3g}", text)
    for kind, (low, high) in card.intervals.items():
        text = re.sub(rf"{kind} = \[[^\]]*\]", f"{kind} = [{low:.2f}, {high:.2f}]", text)
    write(model.CARDS, text)
    model.cards.cache_clear()
