"""Estimated times against recorded ones: the fit of `hostcuda/estimate/cards.toml`, and docs/estimates.md.

``python -m recording estimates --collect`` counts every recorded variant of 01 to 09 and a sample of the swept sizes
of 07 on the CPU engine, and reads nvcc's machine code; no GPU is needed. What it finds is kept in data/estimates/, a
row per launch, so that the fit and the page take seconds. ``--fit`` fits the card's rates to the recorded times.

How good the estimate is, is judged on what the fit has not seen: each rung is left out in turn, predicted with rates
fitted to the others; the swept sizes, the other batches, and rungs 10 and 11 take no part in any fit."""

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
from labkit.evidence.work import for_batch
from labkit.ladder import tables
from labkit.ladder.rungs import LADDER
from labkit.ladder.variants import Variant, solutions, variant, variants
from labkit.records import store
from labkit.records.recorded import recorded
from labkit.spec import devices
from labkit.spec.layers import LENET72, LENET86, Layer
from recording.edits import every_edit, every_program, size_of
from recording.readme import put

LAYERS = {layer.name: layer for layer in (*LENET86, *LENET72)}
FOLDER = data_dir() / "estimates"
PAGE = PACKAGE.parent / "docs" / "estimates.md"
RUNGS = range(1, 10)  # 10 and 11 use tensor cores in ways that the model does not have
DEVICE = "NVIDIA H200"
COUNTED = 2  # images
SWEPT, SWEPT_BATCH = 45, 1000  # sizes of 07 per layer
# What is fitted, with first guesses; the other rates were measured one by one, see the comments in cards.toml.
FITTED = {
    "fine": {"l2_write_tb_s": 4.0, "pipes": 0.9, "issue": 0.85, "tags": 2.5, "miss_cycles": 2.0, "misses_apart": 10.0},
    "coarse": {"memory_instructions": 0.25, "integer": 0.5, "branches": 4.0, "divisions": 20.0},
}
_FAR = math.log(1.1)  # pairs whose times are closer are not ordered


# ------------------------------------------------------------------------------------------------------- counting
def known() -> dict[str, Variant]:
    """The recorded variants and solutions by the labels of data/results."""
    each = [v for rung in LADDER if rung.number in RUNGS for v in (*variants(rung.number), *solutions(rung.number))]
    return {_label(v): v for v in each if not (v.library or v.architecture_specific)}


def _label(each: Variant) -> str:
    return each.label.partition(" ")[2]


def swept(layer: Layer) -> list[Variant]:
    """Evenly spaced by their recorded times, some of the swept sizes of 07."""
    table = store.stored(data_dir() / "sweeps" / f"{devices.slug(DEVICE)}.csv")
    table = table[(table.batch == SWEPT_BATCH) & (table.layer == layer.name) & table.op_ms.notna()]
    rows = table.sort_values("op_ms").iloc[np.linspace(0, len(table) - 1, SWEPT).astype(int)]
    return [variant("tuning", **tables.options(text)) for text in rows.options]


def collect(jobs: Iterable[tuple[Variant, Layer]]) -> pd.DataFrame:
    """The work of each launch of these variants on `COUNTED` images."""

    def one(job):
        each, layer = job
        try:
            each.supports(layer)
        except EngineError:
            return []
        kind, found = profile(each, layer, COUNTED, estimate=DEVICE).works
        if not fine():
            raise EngineError("the fit needs nvcc and nvdisasm: install the CUDA toolkit or its wheels")
        if kind != "fine":
            print(f"{each.label}, {layer.name}: too much machine code", flush=True)
            return []
        print(f"{each.label}, {layer.name}", flush=True)
        return [
            {"label": _label(each), "rung": each.rung.name, "layer": layer.name, "options": each.options_text, **own}
            for own in found
        ]

    with ThreadPoolExecutor(2) as pool:
        return pd.DataFrame([row for rows in pool.map(one, jobs) for row in rows])


def keep(table: pd.DataFrame, name: str) -> None:
    """Write a table of data/estimates."""
    store.merge(FOLDER / name, table, None)


def read(name: str) -> pd.DataFrame:
    """A table of data/estimates."""
    return store.stored(FOLDER / name).fillna({"options": ""}).fillna(0.0)


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
        """The works; without machine code if the estimate is coarse."""
        return [without_code(own) for own in self.works] if kind == "coarse" else self.works


def cases(
    table: pd.DataFrame, batch: int, times: Mapping[tuple[str, str], float], which: Callable[[pd.Series], Variant]
) -> list[Case]:
    """The cases of a table of `collect` with a recorded time."""
    memory = devices.device(DEVICE).memory_bytes
    found = []
    for (label, layer), rows in table.groupby(["label", "layer"], sort=False):
        if (op_ms := times.get((label, layer))) is None:
            continue
        own = [
            {k: v for k, v in row.items() if k not in ("label", "rung", "layer", "options")}
            for row in rows.to_dict("records")
        ]
        each = which(rows.iloc[0])
        works = for_batch(each, LAYERS[layer], own, COUNTED, batch, memory)
        found.append(Case(label, rows.rung.iloc[0], layer, batch, op_ms, works))
    return found


def times(batch: int) -> dict[tuple[str, str], float]:
    """The recorded op times [ms] by label and layer."""
    table = recorded(DEVICE).table
    rows = table[(table.batch == batch) & table.layer.notna()]
    return {
        (label.partition(" ")[2] or label, layer): ms
        for label, layer, ms in zip(rows.label, rows.layer, rows.op_ms, strict=True)
    }


def predict(several: Sequence[Case], kind: str, on: Card) -> pd.DataFrame:
    """The estimates: a row per case, also where `why_not` would withhold the time."""
    rows = []
    for case in several:
        works = case.of(kind)
        rows.append(
            (
                case.label,
                case.rung,
                case.layer,
                case.op_ms,
                sum(model.time_ms(own, on) for own in works),
                next(filter(None, map(why_not, works)), ""),
            )
        )
    return pd.DataFrame(rows, columns=["label", "rung", "layer", "op_ms", "estimate", "why_not"])


def fit(several: Sequence[Case], kind: str, start: Card) -> Card:
    """The card with rates fitted to the cases: robust least squares of the logarithms, held weakly at physical
    values."""
    from scipy.optimize import least_squares

    names, first = FITTED[kind], np.log([*FITTED[kind].values()])
    works = [(case.of(kind), case.op_ms) for case in several]

    def missed(x):
        on = _with(start, names, x)
        return np.array(
            [
                *(math.log(sum(model.time_ms(own, on) for own in those) / ms) for those, ms in works),
                *(0.05 * (x - first)),
            ]
        )

    found = least_squares(
        missed, first, loss="soft_l1", f_scale=0.15, bounds=(first - 1.5, first + 1.5), diff_step=0.01
    )
    return _with(start, names, found.x)


def _with(card: Card, names, logarithms) -> Card:
    values = dict(zip(names, map(float, np.exp(logarithms)), strict=True))
    coarse = {name: values.get(name, value) for name, value in card.coarse.items()}
    return dataclasses.replace(card, coarse=coarse, **{k: v for k, v in values.items() if k not in coarse})


def left_out(several: Sequence[Case], kind: str, start: Card) -> pd.DataFrame:
    """Each rung predicted with rates that were fitted to the others."""
    parts = []
    for rung in dict.fromkeys(case.rung for case in several):
        others = [case for case in several if case.rung != rung]
        own = fit(others, "fine", start)  # the coarse estimate has these rates, too
        own = fit(others, kind, own) if kind != "fine" else own
        parts.append(predict([case for case in several if case.rung == rung], kind, own))
    return pd.concat(parts, ignore_index=True)


def scores(table: pd.DataFrame) -> dict[str, float]:
    """Cases; the median and the 90th percentile of the error; the share of pairs of one layer, and of one rung on one
    layer, that are in the right order. Pairs whose recorded times are within 10 % are left out."""
    error = np.abs(np.log(table.estimate / table.op_ms))
    found = {"cases": len(table), "median": math.expm1(error.median()), "p90": math.expm1(error.quantile(0.9))}
    for name, keys in (("pairs", ["layer"]), ("pairs_of_a_rung", ["layer", "rung"])):
        right = []
        for _, rows in table.groupby(keys):
            i, j = np.triu_indices(len(rows), 1)
            true, guess = (np.log(rows[column].to_numpy()) for column in ("op_ms", "estimate"))
            far = np.abs(true[i] - true[j]) > _FAR
            right += list((np.sign(true[i] - true[j]) == np.sign(guess[i] - guess[j]))[far])
        found[name] = float(np.mean(right)) if right else math.nan
    return found


# ------------------------------------------------------------------------------------------------------- the page
# Which of Nsight Compute's figures tells how busy a unit is: a share of what the unit reaches when nothing else is in
# its way.
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
    """How often the estimate's busiest unit is the one that Nsight Compute found busiest, or within 10 % of it."""
    counted = store.stored(data_dir() / "counters" / f"{devices.slug(DEVICE)}.csv")
    counted = counted[counted["idc__requests.sum"].notna()].drop_duplicates(["label", "layer", "kernel"])
    counted = counted.set_index(["label", "layer", "kernel"])
    same = near = total = 0
    for case in several:
        for own in case.works:
            if (case.label, case.layer, own["kernel"]) not in counted.index:
                continue
            row = counted.loc[(case.label, case.layer, own["kernel"])]
            busy = {unit: row[metric] / most for unit, (metric, most) in _BUSY.items()}
            if max(busy.values()) < 0.6:  # it waits: no unit is busy
                continue
            guess = model.units(own, on)
            unit = max(guess, key=guess.__getitem__)
            unit = _SAME.get(unit, unit)
            total += 1
            same += unit == max(busy, key=busy.__getitem__)
            near += busy.get(unit, 0) >= 0.9 * max(busy.values())
    return {"kernels": total, "same": same / total, "near": near / total}


def edits(table: pd.DataFrame) -> pd.DataFrame:
    """The exercises' solutions over the kernels that they start from: recorded and estimated ratios of times."""
    at = table.set_index(["label", "layer"])
    rows = []
    for label, layer in at.index:
        if ".cu" not in label:
            continue
        file = label.partition(", ")[2]
        start = next((s for end, s in _STARTS.items() if file.endswith(end)), label.partition(",")[0])
        if (start, layer) in at.index:
            (now, guess), (was, before) = (
                at.loc[(label, layer), ["op_ms", "estimate"]],
                at.loc[(start, layer), ["op_ms", "estimate"]],
            )
            rows.append((label, layer, now / was, guess / before))
    return pd.DataFrame(rows, columns=["label", "layer", "recorded", "estimated"])


def validated(table: pd.DataFrame, sweep: pd.DataFrame) -> dict[str, object]:
    """All that the page says, from data/estimates and the recorded times."""
    start, variants_ = model.card(DEVICE), known()
    several = cases(table, BATCH, times(BATCH), lambda row: variants_[row.label])
    found: dict[str, object] = {"several": several}
    for kind in FITTED:
        found[kind] = predict(several, kind, start), left_out(several, kind, start)
    for batch in (100, 1000):
        found[f"batch {batch}"] = predict(
            cases(table, batch, times(batch), lambda row: variants_[row.label]), "fine", start
        )
    recorded_sweep = store.stored(data_dir() / "sweeps" / f"{devices.slug(DEVICE)}.csv")
    recorded_sweep = recorded_sweep[recorded_sweep.batch == SWEPT_BATCH]
    columns = (recorded_sweep[name] for name in ("label", "layer", "op_ms"))
    swept_times = {(label, layer): ms for label, layer, ms in zip(*columns, strict=True)}
    without_07 = fit([case for case in several if case.rung != "tuning"], "fine", start)
    sizes = cases(sweep, SWEPT_BATCH, swept_times, lambda row: variant("tuning", **tables.options(row.options)))
    found["sweep"] = predict(sizes, "fine", without_07)
    return found


def _percent(value: float) -> str:
    return f"{100 * value:.1f} %" if value < 0.1 else f"{100 * value:.0f} %"


def _row(name: str, table: pd.DataFrame) -> str:
    found = scores(table)
    shares = (found[each] for each in ("median", "p90", "pairs", "pairs_of_a_rung"))
    return f"| {name} | {found['cases']} | {' | '.join(map(_percent, shares))} |"


_HEAD = [
    "| | cases | median error | 90th percentile | pairs in the right order, one layer | same rung |",
    "|---|---|---|---|---|---|",
]


def texts(found: Mapping) -> dict[str, str]:
    """The parts of docs/estimates.md between markers."""
    left, coarse = found["fine"][1], found["coarse"][1]
    errors = [
        _row("counts and nvcc’s machine code", left),
        _row("counts alone (coarse)", coarse),
        _row("only kernels that get a time, with machine code", left[left.why_not == ""]),
        *(_row(f"{name}, with machine code", left[left.layer == name]) for name in LAYERS),
    ]
    unseen = [
        _row(f"swept sizes of 07, batch {SWEPT_BATCH:,}", found["sweep"]),
        *(_row(f"batch {batch:,}", found[f"batch {batch}"]) for batch in (100, 1000)),
    ]
    picks = []
    for layer, rows in found["sweep"].groupby("layer"):
        pick = rows.op_ms[rows.estimate.idxmin()] / rows.op_ms.min()
        picks.append(f"{pick:.2f} times the best of {len(rows)} ({layer})")
    return {
        "errors": "\n".join([*_HEAD, *errors]),
        "unseen": "\n".join([*_HEAD, *unseen, "", f"The size that the estimate picks takes {', '.join(picks)}."]),
        "edits": _of_edits(edits(left)),
        "limiters": _of_limiters(limiters(found["several"], model.card(DEVICE))),
        "worst": _worst(left),
        "predicted": predictions(),
    }


def _of_edits(changed: pd.DataFrame) -> str:
    true, guess = np.log(changed.recorded), np.log(changed.estimated)
    off, far = np.abs(guess - true), np.abs(true) > _FAR
    right = (np.sign(true) == np.sign(guess))[far]
    return (
        f"Of {len(changed)} pairs of an exercise’s solution and its starting code, the ratio of the times is off by "
        f"{_percent(math.expm1(off.median()))} in the median and by {_percent(math.expm1(off.quantile(0.9)))} at the "
        f"90th percentile. {far.sum()} of them change the time by more than 10 %; the direction is right in "
        f"{right.sum()}."
    )


def _of_limiters(unit: Mapping[str, float]) -> str:
    return (
        f"In {unit['kernels']} kernels Nsight Compute found a unit at least 60 % busy. The estimate’s busiest unit is "
        f"the same in {_percent(unit['same'])} of them, and within 10 % of it in {_percent(unit['near'])}."
    )


def _worst(table: pd.DataFrame) -> str:
    off = np.log(table.estimate / table.op_ms).abs()
    rows = table.loc[off.sort_values(ascending=False).index[:12]]
    lines = [
        f"| {row.label} | {row.layer} | {row.op_ms:.3g} | {row.estimate:.3g} | {row.why_not} |"
        for row in rows.itertuples()
    ]
    head = ["| kernel | layer | recorded ms | estimated ms | why it gets no time |", "|---|---|---|---|---|"]
    return "\n".join([*head, *lines])


def predictions() -> str:
    """The predicted times of edits and programs, beside those that were recorded since."""
    guesses = read("predicted.csv")
    known_: dict[tuple[str, str], float] = {}
    for name, columns in (("edits.csv", ("label", "layer", "op_ms")), ("programs.csv", ("name", "size", "ms"))):
        if (FOLDER / name).is_file():
            rows = read(name)
            known_ |= {(str(a), str(b)): ms for a, b, ms in rows[list(columns)].itertuples(index=False)}
    beside = [(known_.get((row.label, str(row.case)), math.nan), row) for row in guesses.itertuples()]
    both = pd.DataFrame(
        [(now, row.ms, row.low_ms <= now <= row.high_ms) for now, row in beside if now > 0 and row.ms],
        columns=["op_ms", "estimate", "within"],
    )
    off = np.log(both.estimate / both.op_ms).abs()
    summary = (
        f"Of {len(both)} that got a time and were timed since, the error is {_percent(math.expm1(off.median()))} in "
        f"the median and {_percent(math.expm1(off.quantile(0.9)))} at the 90th percentile. {both.within.sum()} times "
        "are within their interval."
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
        keep(collect((each, layer) for layer in LAYERS.values() for each in known().values()), "work.csv")
        sizes = [collect((each, layer) for each in swept(layer)) for layer in (LENET72[1], *LENET86)]
        keep(pd.concat(sizes), "sweep.csv")
    if edits_:
        keep(predicted(), "predicted.csv")
    table, sweep = read("work.csv"), read("sweep.csv")
    if fit_:
        variants_ = known()
        several = cases(table, BATCH, times(BATCH), lambda row: variants_[row.label])
        on = fit(several, "coarse", fit(several, "fine", model.card(DEVICE)))
        intervals = {}
        for kind in FITTED:
            part = left_out(several, kind, on)
            own = (part.op_ms / part.estimate)[part.why_not == ""]
            intervals[kind] = tuple(float(own.quantile(q)) for q in (0.1, 0.9))
        put_card(dataclasses.replace(on, intervals=intervals))
    found = validated(table, sweep)
    parts = texts(found)
    for name, text in parts.items():
        put(name, text, PAGE)
    print(parts["errors"])


def predicted() -> pd.DataFrame:
    """The estimated times of `recording.edits`: of each edit on its layers, and of each program."""
    rows = []
    for edit in every_edit():
        for layer in edit.layers:
            found = estimate(edit.variant, layer, DEVICE)
            case = {"label": _label(edit.variant), "code": edit.variant.code, "case": layer.name}
            rows.append(case | _said(found))
            print(f"{edit.variant.label}, {layer.name}: {found}", flush=True)
    for path in every_program():
        size = str(size_of(path.stem))
        records, modules, ended = launched(processes.program(str(path), [size], "cpu"))
        ended.require(path.name)
        found = of_launches(records, modules, DEVICE)
        rows.append({"label": path.stem, "code": "", "case": size, **_said(found)})
        print(f"{path.stem}, {size}: {found}", flush=True)
    return pd.DataFrame(rows)


def _said(found: Estimate) -> dict[str, object]:
    low, high = found.interval
    return {"kind": found.kind, "ms": found.ms, "low_ms": low, "high_ms": high, "busiest": found.busiest,
            "why_not": found.why_not}


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
