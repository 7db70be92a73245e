"""A chart of a trace: where the time goes."""

from labkit.base.errors import LabError
from labkit.base.numerals import ms
from labkit.draw.style import AMBER, BLUE, FAINT, INK, MUTED, ORANGE, PAPER, SMALL, canvas, percent
from labkit.draw.words import need

_LONGEST = 34  # letters of a kernel's name; a template's is cut in the middle
_LETTER = 6.95  # pixels that one takes in the monospaced face
_COPIES = {"HtoD": "copy host → device", "DtoH": "copy device → host", "DtoD": "copy device → device"}


def time(trace, title=None, subtitle="", path=None):
    """Where the time goes: kernels and copies on the device, API calls on the host.

    Parameters
    ----------
    trace : Trace or DataFrame
        A row a kernel, copy or API call, with the columns ``kind`` ("kernel", "copy" or "api"), ``name``,
        ``calls`` and ``total_ms``, as `Trace.summary` gives them. Shares, and the rows that make up 90 %, are of
        the device's time and of the API calls' time apart, because the two run side by side.
    title, subtitle : str
        The title is by default the message: what takes most.
    path : str or path-like, optional
        Save to this .png or .svg file, and show nothing.

    Raises
    ------
    LabError
        If a column is missing or there is nothing to draw.
    """
    table = trace.summary() if hasattr(trace, "summary") else trace
    need(table, ["kind", "name", "calls", "total_ms"], "draw.time")
    on_device = _busiest(table[table["kind"].isin(["kernel", "copy"])])
    calls = _busiest(table[table["kind"] == "api"])
    groups = [(where, rows) for where, rows in (("On the device", on_device), ("API calls", calls)) if rows]
    if not groups:
        raise LabError('draw.time got no row of the kinds "kernel", "copy" and "api": trace something first')

    step, head, top = 25, 36, 62
    height = top + sum(head + step * len(rows) + 20 for _, rows in groups) + 18
    with canvas(height, path=path) as page:
        where, first = groups[0][0], groups[0][1][0]
        what = "of the device’s time" if where == "On the device" else "of the time in API calls"
        message = f"{_elide(first['name'])} takes {percent(first['share'])} {what}"
        page.heading(title or message, subtitle, table.attrs.get("note", ""))
        longest = max(len(_elide(row["name"])) for _, rows in groups for row in rows)
        bars = (max(150, 34 + longest * _LETTER), page.width - 222)
        columns = (page.width - 158, page.width - 76, page.width - 14)
        for where, rows in groups:
            total, count = sum(row["total_ms"] for row in rows), sum(row["members"] for row in rows)
            vital = sum(row["vital"] for row in rows)
            said = f"{vital} of {count} take 90 % of {ms(total)}" if count > 1 else f"{ms(total)} in all"
            page.text(12, top + 24, where, weight="bold")
            page.text(12 + page.text_width(where + "  ", weight="bold"), top + 24, said, color=MUTED)
            for x, name in zip(columns, ("share", "time", "calls"), strict=True):
                page.text(x, top + 24, name, color=MUTED, size=SMALL, ha="right")
            top += head
            ax = page.axes(bars[0], top, bars[1], top + step * len(rows))
            ax.set(xlim=(0, 1), ylim=(len(rows) - 0.5, -0.5), yticks=[], xticks=[])
            ax.spines[:].set_visible(False)
            ax.axvline(0, color=FAINT, lw=1)
            for i, row in enumerate(rows):
                ink, y = INK if row["vital"] else MUTED, top + (i + 0.5) * step + 4
                ax.barh(i, row["share"], height=0.62, color=BLUE if row["vital"] else FAINT)
                page.text(bars[0] - 12, y, _elide(row["name"]), ha="right", color=ink, size=SMALL,
                          family="DejaVu Sans Mono")  # fmt: skip
                cells = (percent(row["share"]), ms(row["total_ms"]), f"{row['calls']:,}")
                for x, cell in zip(columns, cells, strict=True):
                    page.text(x, y, cell, ha="right", size=SMALL, color=ink)
            if len(rows) > 1:
                ax.axvline(0.9, color=ORANGE, lw=1.2, ls=(0, (4, 3)))
                ax.annotate("90 %", (0.9, -0.5), (0, 3), textcoords="offset points", ha="center", size=SMALL,
                            color=AMBER)  # fmt: skip
                ax.plot([row["cumulative"] for row in rows], range(len(rows)), color=INK, lw=1.2, marker="o", ms=4,
                        mfc=PAPER, mec=INK, clip_on=False)  # fmt: skip
            top += step * len(rows) + 20
        legend = "bar: its share" + ("     rings: shares so far, summed" if max(len(r) for _, r in groups) > 1 else "")
        page.text(bars[0], height - 12, legend, color=MUTED, size=SMALL)
        page.alt = "Bar chart, where the time goes."
        for where, rows in groups:
            said = (f"{row['name']} {percent(row['share'])} ({ms(row['total_ms'])})" for row in rows)
            page.alt += f" {where}: {', '.join(said)}."
        page.plain = "Figure: where the time goes, kernels and API calls"


def _busiest(rows):
    """Rows of one group, longest first, with their shares; short ones beyond the seventh are merged."""
    rows = [
        {
            "name": _COPIES.get(row["name"], str(row["name"])),
            "calls": int(row["calls"]),
            "total_ms": float(row["total_ms"]),
            "members": 1,
        }
        for row in rows.to_dict("records")
    ]
    rows.sort(key=lambda row: -row["total_ms"])
    total = sum(row["total_ms"] for row in rows)
    if not total > 0:
        return []
    seen = 0.0
    for row in rows:
        row["vital"] = seen < 0.9 * total * (1 - 1e-9)  # the fewest rows that together make up 90 %
        seen += row["total_ms"]
    kept = max(7, sum(row["vital"] for row in rows))
    rest = rows[kept:]
    if len(rest) > 1:
        merged = {"name": f"{len(rest)} others", "vital": False, "members": len(rest)}
        rows = [*rows[:kept], merged | {key: sum(row[key] for row in rest) for key in ("calls", "total_ms")}]
    seen = 0.0
    for row in rows:
        seen += row["total_ms"]
        row["share"], row["cumulative"] = row["total_ms"] / total, seen / total
    return rows


def _elide(name):
    return name if len(name) <= _LONGEST else f"{name[: _LONGEST - 9]}…{name[-8:]}"
