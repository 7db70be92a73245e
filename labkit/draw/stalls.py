"""What warps wait for: the cycles from one instruction of a warp to its next, by reason."""

from labkit.base.errors import LabError
from labkit.draw.style import BLUE, FAINT, GREEN, INK, MUTED, ORANGE, PALE, PAPER, RUST, SKY, SMALL, canvas, rect
from labkit.draw.words import need
from labkit.spec import metrics

# Nsight Compute's reasons, gathered to what a reader can act on. What is not listed counts as the rest.
_GROUPS = {
    "data from L1 or beyond": (BLUE, ("long_scoreboard",)),
    "data from shared or constant memory": (SKY, ("short_scoreboard",)),
    "room in the memory pipe": (ORANGE, ("mio_throttle", "lg_throttle")),
    "a constant that its cache lacks": (GREEN, ("imc_miss",)),
    "a barrier": (RUST, ("barrier",)),
    "its turn": (PALE, ("not_selected", "dispatch_stall", "math_pipe_throttle")),
}
_METRIC = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"


def stalls(counters, title=None, subtitle="", path=None):
    """How long a warp waits between two of its instructions, and for what; a bar a row.

    Parameters
    ----------
    counters : DataFrame
        As `labkit.counters` gives it: a row a kernel and layer, with ``label``, ``layer``, ``device``, ``date`` and
        Nsight Compute's stall reasons. Several frames may be joined with `pandas.concat`.
    title : str, optional
        In place of the message.
    subtitle : str
        What is said beside the device and the date.
    path : str or path-like, optional
        Save to this .png or .svg file, and show nothing.

    Raises
    ------
    LabError
        If a column is missing or there is no row.
    """
    who = "draw.stalls"
    need(counters, ["label", "layer", *map(_METRIC.format, metrics.STALLS)], who)
    if not len(counters):
        raise LabError(f"{who} got a table without a row: choose a rung that was recorded")
    rows = [_Row(row) for row in counters.to_dict("records")]
    device = f"{counters['device'].iloc[0]}, recorded {counters['date'].max()}" if "device" in counters else ""
    step, top = 30, 118
    with canvas(top + step * len(rows) + 22, path=path) as page:
        longest = max(rows, key=lambda row: row.total)
        message = f"{longest.label} on {longest.layer}: most of the wait is for {longest.reason}"
        page.heading(title or message, "   ·   ".join(filter(None, [subtitle, device])))
        paper, x, y = page.paper(), 12, 78
        shares = {name: max(row.groups[name] / row.total for row in rows) for name in rows[0].groups}
        for name in (name for name, share in shares.items() if share > 0.005):
            color = _color(name)
            wide = 18 + page.text_width(name, SMALL) + 16
            if x + wide > page.width:
                x, y = 12, y + 18
            rect(paper, x, y - 9, 10, 10, color)
            paper.text(x + 16, y, name, size=SMALL)
            x += wide
        left = 24 + max(page.text_width(f"{row.label}, {row.layer}", SMALL) for row in rows)
        ax = page.axes(left, top - 8, page.width - 70, top - 8 + step * len(rows))
        ax.set(xlim=(0, longest.total), ylim=(len(rows) - 0.5, -0.5), xticks=[], yticks=[])
        ax.spines[:].set_visible(False)
        ax.axvline(0, color=FAINT, lw=1)
        for i, row in enumerate(rows):
            start, middle = 0.0, top - 8 + (i + 0.5) * step + 4
            page.text(left - 10, middle, f"{row.label}, {row.layer}", ha="right", size=SMALL)
            for name, cycles in row.groups.items():
                color = _color(name)
                ax.barh(i, cycles, left=start, height=0.66, color=color, edgecolor=PAPER, linewidth=0.8)
                share = cycles / longest.total * (page.width - 70 - left)
                if share > 30:
                    ink = PAPER if color in (BLUE, GREEN, RUST) else INK
                    ax.text(start + cycles / 2, i, f"{cycles:.1f}", ha="center", va="center", size=SMALL, color=ink)
                start += cycles
            page.text(page.width - 14, middle, f"{row.total:.1f}", ha="right", size=SMALL, weight="bold")
        page.text(left, page.height - 12, "cycles of a warp from one instruction to its next", size=SMALL, color=MUTED)
        page.alt = f"Bar chart, cycles of a warp from one instruction to its next, by what it waits for. {device}. "
        page.alt += " ".join(row.words() for row in rows)


def _color(name):
    return _GROUPS[name][0] if name in _GROUPS else FAINT


class _Row:
    """A kernel's cycles, by group of reasons."""

    def __init__(self, row):
        self.label, self.layer = row["label"], row["layer"]
        of = {reason: float(row[_METRIC.format(reason)]) for reason in metrics.STALLS}
        self.groups = {name: sum(of.pop(reason) for reason in reasons) for name, (_, reasons) in _GROUPS.items()}
        self.reason = max((name for name in self.groups if name != "its turn"), key=self.groups.get)
        self.groups["the rest"] = sum(of.values()) + 1  # the cycle in which it issues
        # The same text wherever the table was read: readers of CSV files differ in a number's last bit.
        self.groups = {name: round(cycles, 6) for name, cycles in self.groups.items()}
        self.total = round(sum(self.groups.values()), 6)

    def words(self):
        said = ", ".join(f"{name} {cycles:.1f}" for name, cycles in self.groups.items())
        return f"{self.label}, {self.layer}: {self.total:.1f} cycles: {said}."
