"""Charts of bars: where the time goes, the traffic of kernels, their instructions, and what they wait for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import pandas as pd

from hostcuda.limits import CONSTANT_BYTES
from hostcuda.metrics import STALLED, STALLS
from labkit.base.errors import LabError
from labkit.base.numerals import ms
from labkit.draw import style
from labkit.draw.measured import Measured, require_columns
from labkit.draw.style import SMALL, Page, ink_on, on_new_page, percent, wide, widest
from labkit.spec.layers import Layer, as_layers

if TYPE_CHECKING:
    from hostcuda.profile import Profile
    from hostcuda.units import Units
    from labkit.measure.trace import Trace

_MAX_LETTERS = 34  # of a kernel's name; a longer one, such as a template's, is cut in the middle
_COPIES = {
    "HtoD": "copy host → device",
    "DtoH": "copy device → host",
    "DtoD": "copy device → device",
}
_TRAFFIC = {  # counter -> its panel's title, and what is counted
    "global_load_sectors": ("global loads", "sectors"),
    "global_store_sectors": ("global stores", "sectors"),
    "shared_wavefronts": ("shared memory", "wavefronts"),
    "shared_conflicts": ("of these conflicts", "wavefronts"),
    "constant_requests": ("constant memory", "requests"),
}
_KIND_COLORS = (style.BLUE, style.SKY, style.ORANGE, style.PALE, style.RUST, style.FAINT)
_STALL_COLORS = dict(
    zip(
        STALLS,
        (
            style.BLUE,
            style.SKY,
            style.ORANGE,
            style.BROWN,
            style.GREEN,
            style.RUST,
            style.VIOLET,
            style.MUTED,
            style.ROSE,
            style.OLIVE,
            style.WARM,
            style.PALE,
        ),
        strict=True,
    )
)


def _draw_bars(
    page: Page,
    left: float,
    top: float,
    step: float,
    scale: float,
    names: Sequence[str],
    values: Sequence[float],
    strong: Sequence[bool],
    weak=(style.PALE, style.INK),
    **font,
) -> list[float]:
    """Draw horizontal bars from x = `left`, with their names to the left; return the baselines (y) of the names.

    A bar has `step` pixels in height, and in width `scale` pixels per unit. Bars that are not
    `strong` have the colours `weak`: of the bar, of the name. `font` are options of the names'
    texts.
    """
    baselines = [top + (i + 0.5) * step + 4 for i in range(len(names))]
    for y, name, value, is_strong in zip(baselines, names, values, strong, strict=True):
        face, ink = (style.BLUE, style.INK) if is_strong else weak
        page.rect(left, y - 4 - 0.3 * step, value * scale, 0.6 * step, face)
        page.small(left - 10, y, name, ink, ha="right", **font)
    page.line([left, left], [top, top + len(names) * step], style.FAINT)
    return baselines


def _draw_stacks(
    page: Page,
    top: float,
    frame: pd.DataFrame,
    colors: Mapping[str, str],
    write: Callable[[float], str],
    highlight: str | None = None,
    beside: bool = False,
) -> str:
    """Draw a stacked bar, with its total, per row of `frame`; return them in words, for the alternative text.

    The index of `frame` is (group, label): a group is a heading, or "". Its columns are the parts,
    drawn in `colors`. A part shows its number, formatted by `write`, if it fits; `beside` writes
    the others beside the bar. `highlight` is the label in bold.
    """
    totals, step, words = frame.sum(axis=1), 27, []
    left = 26 + widest(frame.index.get_level_values(1), weight="bold")
    # right of the bars
    room = 70 + (20 + widest((f"{name} 0.000 ms" for name in frame), SMALL) if beside else 0)
    scale = (page.width - left - room) / totals.max()
    for group, rows in frame.groupby(level=0, sort=False):
        page.text(26, top + 18, group, weight="bold")
        top += 32 * bool(group)
        for (_, label), row in rows.iterrows():
            x, y, unlabelled, total, row = left, top + 15, [], write(row.sum()), row.dropna()
            page.text(
                left - 10, y, label, ha="right", weight="bold" if label == highlight else "normal"
            )
            for name, value in row.items():
                width = value * scale
                page.rect(x, top + 1, width, 20, colors[name], style.PAPER, 0.8)
                if width > wide(write(value), SMALL) + 8:
                    page.small(x + width / 2, y, write(value), ink_on(colors[name]), ha="center")
                elif value:
                    unlabelled.append(f"{name} {write(value)}")
                x += width
            page.text(x + 8, y, total, weight="bold")
            page.small(x + 18 + wide(total, weight="bold"), y, ", ".join(unlabelled) * beside)
            parts = ", ".join(f"{name} {write(value)}" for name, value in row.items())
            words.append(f"{group and group + ', '}{label}: {total}, of these {parts}.")
            top += step
    return " ".join(words)


@on_new_page  # makes `page` (in CSS pixels), then shows or saves it: callers give the rest
def time(page: Page, trace: Trace | pd.DataFrame) -> None:
    """Draw where the time goes: kernels and copies on the device, API calls on the host.

    Parameters
    ----------
    trace : Trace or DataFrame
        A row per kernel, copy or API call, with the columns ``kind`` ("kernel", "copy" or "api"),
        ``name``, ``calls`` and ``total_ms``, as `Trace.summary` gives them. Shares, and the rows
        that make up 90 %, are computed separately for the device and the API calls, because the two
        run side by side.
    """
    table = trace.summary() if hasattr(trace, "summary") else trace
    require_columns(table, ["kind", "name", "calls", "total_ms"], "draw.time")
    sides = {"On the device": ("kernel", "copy"), "API calls": ("api",)}
    # With the columns that `_rank_rows` adds: "vital" are the fewest rows that make up 90 % of a
    # group's time, and "members" is how many rows of the table a row stands for: the rest is one row.
    groups = {
        where: _rank_rows(rows)
        for where, kinds in sides.items()
        if (rows := table[table["kind"].isin(kinds)])["total_ms"].sum() > 0
    }
    if not groups:
        raise LabError(
            'draw.time got no time of the kinds "kernel", "copy" and "api": trace something first'
        )
    # the title is about the device, unless only API calls took time
    where, rows = next(iter(groups.items()))
    step, top = 25, 62  # pixels: from bar to bar, the first group
    what = "of the device’s time" if where == "On the device" else "of the time in API calls"
    message = f"{rows['shown'].iloc[0]} takes {percent(rows['share'].iloc[0])} {what}"
    page.open(
        80 + sum(56 + step * len(rows) for rows in groups.values()),
        message,
        "",
        table.attrs.get("note", ""),
    )
    # 6.95 pixels: the width of a letter of the monospaced font in which the names are written.
    left = max(150, 34 + 6.95 * max(rows["shown"].str.len().max() for rows in groups.values()))
    # right edges of the three columns; width of a bar of 100 %
    columns, scale = (page.width - 158, page.width - 76, page.width - 14), page.width - 222 - left
    page.alt = "Bar chart, where the time goes."
    # a notebook's text output: without numbers, so that it is the same in each run
    page.plain = "Figure: where the time goes, kernels and API calls"
    for where, rows in groups.items():
        total, members = ms(rows["total_ms"].sum()), rows["members"].sum()
        # "3 of 12 take 90 % of 4.21 ms"
        few = f"{rows['vital'].sum()} of {members} take 90 % of {total}"
        page.caption(12, top + 24, where, few if members > 1 else f"{total} in all")
        for x, name in zip(columns, ("share", "time", "calls"), strict=True):
            page.small(x, top + 24, name, ha="right")
        top, bottom = top + 36, top + 36 + step * len(rows)
        others = (style.FAINT, style.MUTED)  # colours of the bars and names that are not vital
        ys = _draw_bars(
            page,
            left,
            top,
            step,
            scale,
            rows["shown"],
            rows["share"],
            rows["vital"],
            others,
            family=style.MONO,
        )
        for y, row in zip(ys, rows.itertuples(), strict=True):
            for x, text in zip(
                columns, (percent(row.share), ms(row.total_ms), f"{row.calls:,}"), strict=True
            ):
                page.small(x, y, text, style.INK if row.vital else style.MUTED, ha="right")
        if len(rows) > 1:  # a line at 90 %, and the curve of the shares so far
            end = left + 0.9 * scale
            page.line([end, end], [top, bottom], style.ORANGE, 1.2, ls=style.DASHED)
            page.small(end, top - 4, "90 %", style.AMBER, ha="center")
            page.line(
                left + rows["share"].cumsum() * scale,
                [y - 4 for y in ys],
                style.INK,
                1.2,
                marker="o",
                ms=4,
                mfc=style.PAPER,
                mec=style.INK,
            )
        texts = (
            f"{row.name} {percent(row.share)} ({ms(row.total_ms)})" for row in rows.itertuples()
        )
        page.alt += f" {where}: {', '.join(texts)}."
        top = bottom + 20
    rings = "     rings: shares so far, summed" * (max(map(len, groups.values())) > 1)
    page.small(left, top + 6, f"bar: its share{rings}")


def _rank_rows(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of `Trace.summary` (``name``, ``calls``, ``total_ms``), longest first, with four more columns.

    ``share`` of the total, ``vital`` (one of the fewest rows that make up 90 %), ``shown`` (the
    shortened name), and ``members``: other rows than those and the first seven are merged into one
    with several members.
    """
    rows = rows.sort_values("total_ms", ascending=False, kind="stable").assign(members=1)
    rows["name"] = rows["name"].replace(_COPIES).astype(str)
    total, so_far = rows["total_ms"].sum(), rows["total_ms"].cumsum()
    # 1e-9: sums of floats are not exact
    rows["vital"] = so_far - rows["total_ms"] < 0.9 * total * (1 - 1e-9)
    separate = max(7, rows["vital"].sum())
    if len(rest := rows[separate:]) > 1:
        sums = {name: rest[name].sum() for name in ("calls", "total_ms", "members")}
        rows = pd.concat(
            [
                rows[:separate],
                pd.DataFrame([{"name": f"{len(rest)} others", "vital": False, **sums}]),
            ]
        )
    names = [
        name if len(name) <= _MAX_LETTERS else f"{name[: _MAX_LETTERS - 9]}…{name[-8:]}"
        for name in rows["name"]
    ]
    return rows.assign(
        share=rows["total_ms"] / total, shown=pd.Series(names, rows.index, dtype=str)
    )


@on_new_page  # makes `page` (in CSS pixels), then shows or saves it: callers give the rest
def traffic(page: Page, profile: Profile) -> None:
    """Draw the traffic of each variant of a profile beside the variant before it, a panel per level of memory.

    Parameters
    ----------
    profile : Profile
        As `labkit.profile` gives it, of variants in the order of the ladder.
    """
    # a row per variant, or, of a program's profile, per kernel; a column per counter, such as "global_sectors"
    counts = profile.counts
    # counter -> title and unit of its panel; those that count nothing are left out
    panels = {
        name: words for name, words in _TRAFFIC.items() if name in counts and counts[name].max() > 0
    }
    if not panels:
        raise LabError(f"draw.traffic: this profile has no counters of traffic. {profile.note}")
    # the first column names the variant; step, top: pixels
    labels, step, top = counts[counts.columns[0]].tolist(), 22, 58
    message = "What the kernels ask of the memory"
    if len(labels) > 1 and "global_sectors" in counts:
        before, after = counts["global_sectors"].iloc[-2:]
        # a change from 0 or to 0 has no ratio: the title stays the general one
        if before == after or (before and after):
            change = "as many" if before == after else _describe_change(after, before)
            message = f"{labels[-1]} moves {change} global sectors {'than' if 'fewer' in change else 'as'} {labels[-2]}"
    page.open(76 + (46 + step * len(labels)) * len(panels), message, profile.note)
    page.alt = f"Bar chart, memory traffic. {profile.note}"
    # a notebook's text output: without numbers, so that it is the same in each run
    page.plain = "Figure: memory traffic, a bar per variant"
    left, is_last = 24 + widest(labels, SMALL), [label == labels[-1] for label in labels]
    for name, (level, unit) in panels.items():
        values = counts[name].fillna(0).tolist()
        page.caption(12, top + 26, level, unit)
        scale = (page.width - 196 - left) / max(values)
        baselines = _draw_bars(page, left, top + 36, step, scale, labels, values, is_last)
        # each value with the one before it; the list of those before is longer by the last value
        for y, label, value, before in zip(
            baselines, labels, values, [None, *values], strict=False
        ):
            change = "" if before is None else _describe_change(value, before)
            page.small(page.width - 118, y, f"{value:,.0f}", style.INK, ha="right")
            page.small(page.width - 14, y, change, ha="right")
            page.alt += f" {level}, {label}: {value:,.0f} {unit}{', ' * bool(change)}{change}."
        top += 46 + step * len(labels)


def _describe_change(value: float, before: float) -> str:
    """Return how a count has changed, in words: "2 × as many", "3 × fewer", "the same"; of 0, "none before"."""
    if value == before:
        return "the same"
    if not before or not value:
        return "none before" if not before else "none any more"
    return f"{value / before:.3g} × as many" if value > before else f"{before / value:.3g} × fewer"


@on_new_page  # makes `page` (in CSS pixels), then shows or saves it: callers give the rest
def bank_conflicts(page: Page, profile: Profile) -> None:
    """Draw the wavefronts per access to shared memory, source line by source line; 1 means no conflict.

    A wavefront is a cycle in which each of the 32 banks of shared memory serves one word. Lanes that need
    different words of one bank are served one after the other: a conflict.

    Parameters
    ----------
    profile : Profile
        A profile by the CPU engine, which counts by line.
    """
    # a row per launch and access in the source; empty if a GPU counted
    sites = profile.sites
    shared = sites[sites["space"] == "shared"] if len(sites) else sites
    if not len(shared):
        raise LabError(
            "draw.bank_conflicts: no access to shared memory in this profile, which the CPU engine makes "
            f'(engine="cpu"). {profile.note}'
        )
    # a compiler may give no file and no line
    shared = shared.astype({"line": "Int64"}).fillna({"file": "", "line": 0})
    by = [name for name in ("variant", "kernel", "file", "line", "op") if name in shared]
    lines = shared.groupby(by, sort=False, as_index=False)[["requests", "wavefronts"]].sum()
    ratios = lines["wavefronts"] / lines["requests"]
    conflicts = ratios >= 1.005  # what is written as 1.01 or more
    places = [f"line {line or 'unknown'}" for line in lines["line"]]
    verbs = lines["op"].map({"ld": "load", "st": "store", "atom": "atomic"})
    names = [
        f"{name}  {place}  {verb}"
        # by[0]: the variant, or of a program's profile the kernel
        for name, place, verb in zip(lines[by[0]], places, verbs, strict=True)
    ]
    left, step, top = 24 + widest(names, SMALL), 24, 64
    message = (
        f"{places[ratios.argmax()].capitalize()} takes {ratios.max():.3g} wavefronts per access"
    )
    free = "No access to shared memory has a bank conflict"
    page.open(96 + step * len(names), message if conflicts.any() else free, profile.note)
    # pixels per wavefront: the longest bar, or 2 wavefronts, ends 2 % before the edge
    scale = (page.width - 90 - left) / max(2.0, ratios.max()) / 1.02
    baselines = _draw_bars(page, left, top, step, scale, names, ratios, conflicts)
    for y, value in zip(baselines, ratios, strict=True):
        page.small(page.width - 14, y, f"{value:.3g}", style.INK, ha="right")
    page.line(
        [left + scale] * 2, [top, top + step * len(names)], style.ORANGE, 1.2, ls=style.DASHED
    )
    page.small(left, top + step * len(names) + 16, "wavefronts per access; dashed: 1, no conflict")
    texts = ", ".join(f"{name} {value:.3g}" for name, value in zip(names, ratios, strict=True))
    page.alt = f"Bar chart, wavefronts per shared access: {texts}. {profile.note}"


@on_new_page  # makes `page` (in CSS pixels), then shows or saves it: callers give the rest
def kernels(page: Page, table: pd.DataFrame) -> None:
    """Draw the op time of variants with several kernels, kernel by kernel: a bar per variant and layer.

    The op time is the time of the kernels alone, without copies.

    Parameters
    ----------
    table : DataFrame
        As `kernel_times` returns it: ``label``, ``layer``, ``batch``, ``kernel``, ``op_ms``; of one
        batch.
    """
    data = Measured(table, ["kernel", "op_ms"], "draw.kernels")
    rows, batches = data.rows, data.rows["batch"].unique()
    if len(batches) > 1:
        raise LabError(
            f"draw.kernels got batches {', '.join(map(str, batches))}: it draws one; take its rows"
        )
    names = list(dict.fromkeys(rows["kernel"]))  # in the order of the table
    # a row per layer and variant, a column per kernel
    times = rows.pivot_table(
        index=["layer", "label"], columns="kernel", values="op_ms", sort=False
    )[names]
    share = times[names[0]] / times.sum(axis=1)  # of the first kernel, for the title
    # "30 % to 42 %", or one share if both are the same text
    spread = " to ".join(dict.fromkeys((percent(share.min()), percent(share.max()))))
    about = data.subtitle(f"batch {batches[0]:,}")
    height = 98 + 32 * len(times.index.unique(0)) + 27 * len(times)
    page.open(height, f"{names[0]} takes {spread} of the op time", about, data.note)
    colors = {
        name: (style.ORANGE, style.BLUE, style.SKY, style.GREEN)[i % 4]
        for i, name in enumerate(names)
    }
    page.legend(26, 69, colors)
    # beside: numbers that do not fit into their parts are written beside the bar
    bars = _draw_stacks(page, 80, times, colors, ms, beside=True)
    page.alt = f"Bar chart, op time kernel by kernel. {bars} {data.note}".strip()
    # a notebook's text output: without numbers, so that it is the same in each run
    page.plain = "Figure: op time kernel by kernel"


@on_new_page  # makes `page` (in CSS pixels), then shows or saves it: callers give the rest
def instructions(page: Page, mixes: Mapping[str, Mapping[str, float]]) -> None:
    """Draw the instructions per product, a stacked bar per kernel; the last one is the kernel in question.

    A product is that of an input and a weight, which is added to an output.

    Parameters
    ----------
    mixes : mapping of str to mapping of str to float
        Label -> kind of instruction -> how many; at most six kinds, in the order of the bars.
    """
    kinds = list(dict.fromkeys(kind for mix in mixes.values() for kind in mix))
    if not 0 < len(kinds) <= len(_KIND_COLORS):
        raise LabError(
            f"draw.instructions: {len(kinds)} kinds of instructions; it draws 1 to {len(_KIND_COLORS)}"
        )
    if any(not value >= 0 for mix in mixes.values() for value in mix.values()):
        raise LabError(f"draw.instructions: a count is negative or not a number in {mixes}")
    # one group, no heading
    frame = pd.DataFrame(mixes.values(), pd.MultiIndex.from_product([[""], mixes]), kinds)
    totals, first = {label: sum(mix.values()) for label, mix in mixes.items()}, next(iter(mixes))
    unit = "instructions per product"
    highlight = [*mixes][-1]
    colors = dict(zip(kinds, _KIND_COLORS, strict=False))  # there may be more colours than kinds
    page.open(
        102 + 27 * len(mixes),
        f"{highlight}: {totals[highlight]:.3g} {unit}, {first} {totals[first]:.3g}",
    )
    page.legend(26 + widest(mixes, weight="bold"), 74, colors)
    page.alt = (
        f"Bar chart, {unit}. {_draw_stacks(page, 90, frame, colors, '{:.2f}'.format, highlight)}"
    )
    # a notebook's text output: without numbers, so that it is the same in each run
    page.plain = f"Figure: {unit}, kind by kind"


@on_new_page  # makes `page` (in CSS pixels), then shows or saves it: callers give the rest
def units(page: Page, units: Units, before: Units | None = None) -> None:
    """Draw how busy each kernel keeps the units of a GPU, in per cent of its own busiest one.

    Parameters
    ----------
    units : Units
        As `labkit.units` returns it.
    before : Units, optional
        Those of the earlier kernel: the bars of its kernels with the same names are drawn thin,
        below, in per cent of its own busiest unit.
    """
    now = units.shares.T.dropna(axis=1)  # a row per unit, a column per kernel that has counts
    if now.empty:
        raise LabError(f"draw.units has no unit to draw. {units}")
    # without `before`, zeros: they draw nothing; NaN for a kernel that `before` does not have
    old = (before.shares.T if before is not None else now * 0).reindex(columns=now.columns)
    # Units below 2 % of the busiest, now and before, are not drawn. `max` keeps its first value beside NaN.
    drawn = [
        (kernel, name)
        for kernel in now
        for name in now[kernel].sort_values(ascending=False).index
        if max(now[kernel][name], old[kernel][name]) >= 2
    ]
    step, top = (34, 66) if before is not None else (25, 66)
    message = (
        f"{units}; before: {str(before).removeprefix('Busiest: ')}"
        if before is not None
        else str(units)
    )
    page.open(96 + step * len(drawn), message, units.note)
    names = [f"{kernel}: {name}" if len(now.columns) > 1 else name for kernel, name in drawn]
    left = 24 + widest(names, SMALL, weight="bold")
    scale = (page.width - 120 - left) / 100
    texts = []
    for i, ((kernel, unit), name) in enumerate(zip(drawn, names, strict=True)):
        y, share, earlier = top + i * step, now[kernel][unit], old[kernel][unit]
        is_near = share >= 90
        weight = "bold" if is_near else "normal"
        page.small(left - 10, y + 13, name, style.INK, ha="right", weight=weight)
        page.rect(left, y + 2, share * scale, 15, style.BLUE if is_near else style.PALE)
        page.small(left + share * scale + 8, y + 13, f"{share:.0f} %", style.INK)
        texts.append(f"{name} {share:.0f} %")
        if before is not None and earlier >= 0:  # not NaN
            page.rect(left, y + 18, earlier * scale, 6, style.ORANGE)
            texts[-1] += f" (before {earlier:.0f} %)"
    page.line([left, left], [top, top + step * len(drawn)], style.FAINT)
    words = "bold: the busiest, and those within 10 % of it"
    words += "; thin: before, in per cent of its own busiest" * (before is not None)
    page.small(12, top + step * len(drawn) + 18, words)
    page.alt = f"Bar chart, how busy each unit is: {', '.join(texts)}. {message}. {units.note}"
    # a notebook's text output: without numbers, so that it is the same in each run
    page.plain = "Figure: how busy each unit of the GPU is, by the counts"


@on_new_page  # makes `page` (in CSS pixels), then shows or saves it: callers give the rest
def stalls(page: Page, counters: pd.DataFrame) -> None:
    """Draw how many cycles pass between two instructions of a warp, and what it waits for; a bar per row.

    Parameters
    ----------
    counters : DataFrame
        As `Recorded.counters` returns it without metrics: a row per kernel and layer, with
        ``label``, ``layer``, ``device``, ``date`` and Nsight Compute's stall reasons. Several
        frames may be joined with `pandas.concat`.
    """
    require_columns(counters, ["label", "layer", *map(STALLED.format, STALLS)], "draw.stalls")
    rows = counters.reset_index(drop=True)
    # A column per reason, in cycles per instruction; STALLED.format makes the column's name in `counters`.
    # Rounded: the same text wherever the table was read, although readers of CSV files differ in a
    # number's last bit.
    waits = rows[[*map(STALLED.format, STALLS)]].set_axis([*STALLS], axis=1).astype(float).round(6)
    totals = waits.sum(axis=1) + 1  # and the cycle in which the instruction is issued
    # reasons of 2 % of a row's cycles or more; the others are summed
    visible = [reason for reason in STALLS if (waits[reason] / totals).max() >= 0.02]
    # STALLS: reason -> its explanation
    colors = {STALLS[reason]: _STALL_COLORS[reason] for reason in visible}
    colors |= {"other reasons": style.FAINT, "nothing: it is issued": style.HAIR}
    parts = waits[visible].assign(others=waits.drop(columns=visible).sum(axis=1), issued=1.0)
    parts = parts.set_axis([*colors], axis=1)
    # one group of bars, without a heading
    parts.index = pd.MultiIndex.from_arrays(
        [[""] * len(rows), rows["label"] + ", " + rows["layer"]]
    )
    device = f"{rows['device'].iloc[0]}, recorded {rows['date'].max()}" if "device" in rows else ""
    top = 84 + 18 * -(-len(colors) // 2)  # below the key, which has two columns
    about = style.join_parts("what a warp waits for, by Nsight Compute’s names", device)
    page.open(top + 27 * len(rows) + 24, _summarize_stalls(rows, waits), about)
    # Nsight Compute's names of the parts: the other reasons have none; a warp that issues is "Selected"
    names = [*map(stall_name, visible), "", "Selected"]
    for i, (name, (words, color)) in enumerate(zip(names, colors.items(), strict=True)):
        x, y = 12 + i % 2 * 374, 72 + i // 2 * 18
        page.rect(x, y - 9, 10, 10, color)
        page.small(x + 16, y, name, style.INK, weight="bold")
        page.small(x + 16 + wide(f"{name}  ", SMALL, "bold") * bool(name), y, words)
    bars = _draw_stacks(page, top - 6, parts, colors, "{:.1f}".format)
    page.small(
        26 + widest(parts.index.get_level_values(1), weight="bold"),
        top + 27 * len(rows) + 12,
        "cycles of a warp from one instruction to its next",
    )
    # a notebook's text output may have numbers here: recorded counts are the same in each run
    page.plain = f"Bar chart, cycles of a warp from one instruction to its next, by what it waits for. {device}. {bars}"
    meanings = (f"{name} is {words}" for name, words in zip(names, colors, strict=True) if name)
    page.alt = f"{page.plain} In Nsight Compute’s names, {', '.join(meanings)}."


def stall_name(reason: str) -> str:
    """Return Nsight Compute's name of a stall reason, such as "MIO Throttle" of mio_throttle."""
    # the three that are abbreviations: of queues for memory instructions and of a cache of constants
    return " ".join(
        word.upper() if word in ("mio", "lg", "imc") else word.title() for word in reason.split("_")
    )


def _summarize_stalls(rows: pd.DataFrame, waits: pd.DataFrame) -> str:
    """Return as a title which stalls changed most from the first kernel to the last, on the layers of both.

    If nothing changed by half a cycle, or there is one kernel only: the longest stall of the
    slowest row. `waits` are the cycles of each stall reason, a column each, in the same rows.
    """
    first, last = rows["label"].iloc[0], rows["label"].iloc[-1]
    means = waits.groupby([rows["label"], rows["layer"]]).mean()
    change = (means.loc[last] - means.loc[first]).mean()
    if first != last and change.abs().max() >= 0.5:
        less = f"less {stall_name(change.idxmin())}" if change.min() <= -0.5 else ""
        more = f"more {stall_name(change.idxmax())}" if change.max() >= 0.5 else ""
        return f"From {first} to {last}: {', '.join(filter(None, (less, more)))}"
    worst = waits.sum(axis=1).idxmax()
    cycles, reason = waits.loc[worst], waits.loc[worst].idxmax()
    share = "most" if cycles[reason] > cycles.sum() / 2 else percent(cycles[reason] / cycles.sum())
    return f"{rows['label'][worst]} on {rows['layer'][worst]}: {share} of the stall cycles are {stall_name(reason)}"


@on_new_page  # makes `page` (in CSS pixels), then shows or saves it: callers give the rest
def constant_budget(page: Page, layers: Layer | str | Sequence[Layer | str]) -> None:
    """Draw how many bytes the mask of each layer has, beside the 64 KB of constant memory that are to hold it.

    Parameters
    ----------
    layers : Layer, its name, or sequence of these
        One bar per layer; a mask that does not fit is marked.
    """
    layers = as_layers(layers)
    if not layers:
        raise LabError("draw.constant_budget got no layer: give at least one")
    masks = [4 * layer.M * layer.C * layer.K**2 for layer in layers]
    fit = sum(mask <= CONSTANT_BYTES for mask in masks)
    message = (
        f"{fit} of {len(masks)} masks fit"
        if fit < len(masks)
        else (f"All {fit} masks fit" if fit > 1 else "The mask fits")
    )
    page.open(
        100 + 30 * len(layers),
        f"{message} into constant memory",
        "M·C·K·K elements of 4 bytes against 64 KB",
    )
    formulas = [f"{layer.M}·{layer.C}·{layer.K}·{layer.K}" for layer in layers]
    names = 14 + widest(layer.name for layer in layers)
    left = names + 26 + widest(formulas, SMALL)
    scale = (page.width - left - 160) / max(CONSTANT_BYTES, *masks)
    page.alt = f"Bar chart, masks against the {CONSTANT_BYTES:,} bytes of constant memory."
    # mask: its bytes
    for i, (layer, formula, mask) in enumerate(zip(layers, formulas, masks, strict=True)):
        y = 97 + 30 * i
        fits = mask <= CONSTANT_BYTES
        share = f"{mask:,} bytes, {percent(mask / CONSTANT_BYTES)}"
        page.text(names, y, layer.name, ha="right")
        page.small(names + 14, y, formula)
        page.rect(left, y - 13, max(1.5, mask * scale), 18, style.BLUE if fits else style.ORANGE)
        page.small(
            page.width - 12,
            y,
            share,
            style.INK if fits else style.AMBER,
            ha="right",
            weight="normal" if fits else "bold",
        )
        page.alt += f" {layer.name}: {formula} elements, {share}{'' if fits else ', too many'}."
    x = left + CONSTANT_BYTES * scale
    page.line([x, x], [76, 82 + 30 * len(layers)], style.GREEN, 2.2, zorder=4)
    page.small(x, 70, f"{CONSTANT_BYTES:,} bytes", style.GREEN, ha="center", weight="bold")
