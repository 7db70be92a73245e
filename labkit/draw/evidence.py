"""Pictures of counters: traffic level by level, and where a warp's addresses fall in the banks of shared memory."""

import numpy as np

from labkit.base.errors import LabError
from labkit.draw.style import BLUE, FAINT, INK, MUTED, ORANGE, PALE, PAPER, SMALL, canvas, rect

BANKS = 32  # of shared memory, each 4 bytes wide
_LEVELS = {
    "global_load_sectors": ("global loads", "sectors"),
    "global_store_sectors": ("global stores", "sectors"),
    "shared_wavefronts": ("shared memory", "wavefronts"),
    "shared_conflicts": ("of these conflicts", "wavefronts"),
    "constant_requests": ("constant memory", "requests"),
}


def traffic(profile, title=None, path=None):
    """The traffic of each variant of a profile, a panel a level of memory, against the variant before it.

    Parameters
    ----------
    profile : Profile
        As `labkit.profile` gives it, of variants in the order of the ladder.
    title : str, optional
        In place of the message.
    path : str or path-like, optional
        Save to this .png or .svg file, and show nothing.

    Raises
    ------
    LabError
        If the profile has no counters.
    """
    counts = profile.counts
    levels = {name: words for name, words in _LEVELS.items() if name in counts and counts[name].max() > 0}
    if not levels:
        raise LabError(f"draw.traffic: this profile has no counters of traffic. {profile.note}")
    labels = counts[counts.columns[0]].tolist()
    step, head = 22, 46
    tall = head + step * len(labels)
    with canvas(62 + tall * len(levels) + 14, path=path) as page:
        page.heading(title or _message(counts, labels), profile.note)
        names = 12 + max(page.text_width(label, SMALL) for label in labels) + 12
        words = []
        for i, (name, (level, unit)) in enumerate(levels.items()):
            top, values = 58 + i * tall, counts[name].fillna(0).tolist()
            page.text(12, top + 26, level, weight="bold")
            page.text(12 + page.text_width(level + "  ", weight="bold"), top + 26, unit, color=MUTED)
            ax = page.axes(names, top + head - 10, page.width - 196, top + head - 10 + step * len(labels))
            ax.set(xlim=(0, max(values)), ylim=(len(labels) - 0.5, -0.5), xticks=[], yticks=[])
            ax.spines[:].set_visible(False)
            ax.axvline(0, color=FAINT, lw=1)
            for row, (label, value) in enumerate(zip(labels, values, strict=True)):
                y = top + head - 10 + (row + 0.5) * step + 4
                ax.barh(row, value, height=0.6, color=BLUE if row == len(labels) - 1 else PALE)
                page.text(names - 8, y, label, ha="right", size=SMALL)
                page.text(page.width - 118, y, f"{value:,.0f}", ha="right", size=SMALL)
                change = _against(value, values[row - 1]) if row else ""
                page.text(page.width - 14, y, change, ha="right", size=SMALL, color=MUTED)
                words.append(f"{level}, {label}: {value:,.0f} {unit}{', ' + change if change else ''}.")
        page.alt = f"Bar chart, memory traffic. {profile.note} {' '.join(words)}"
        page.plain = "Figure: memory traffic level by level, a bar a variant"


def _against(value, before):
    if value == before:
        return "the same"
    if not before or not value:
        return "none before" if not before else "none any more"
    ratio = value / before
    return f"{ratio:.3g} × as many" if ratio > 1 else f"{1 / ratio:.3g} × fewer"


def _message(counts, labels):
    if len(labels) < 2 or "global_sectors" not in counts:
        return "What the kernels ask of the memory"
    a, b = counts["global_sectors"].iloc[-2:]
    if a == b:
        return f"{labels[-1]} moves as many global sectors as {labels[-2]}"
    more, fewer = b / a if a else float("inf"), a / b if b else float("inf")
    change = f"{more:.3g} × as many" if b > a else f"{fewer:.3g} × fewer"
    return f"{labels[-1]} moves {change} global sectors {'as' if b > a else 'than'} {labels[-2]}"


def banks(words, title=None, subtitle="", path=None):
    """A warp's access to shared memory as a map of the banks: which lanes meet in one, and how often it takes turns.

    Parameters
    ----------
    words : array of int, at most 32, or mapping of str to such arrays
        Which 4-byte word of shared memory each lane touches; a negative one marks a lane that takes no part. A
        mapping draws a panel each.
    title : str, optional
        In place of the message.
    subtitle : str
        Whose access it is.
    path : str or path-like, optional
        Save to this .png or .svg file, and show nothing.

    Raises
    ------
    LabError
        If there are more lanes than a warp has, or none that takes part.
    """
    panels = words if isinstance(words, dict) else {"": words}
    drawn = {name: _Banks(values) for name, values in panels.items()}
    turns = [each.turns for each in drawn.values()]
    heights = [66 + 20 * each.turns for each in drawn.values()]
    with canvas(62 + sum(heights), path=path) as page:
        spread = " against ".join(str(n) for n in dict.fromkeys(turns))
        page.heading(title or f"One access of a warp, {spread} wavefront{'s' if turns != [1] else ''}", subtitle)
        ax = page.paper()
        top = 58
        for (name, each), height in zip(drawn.items(), heights, strict=True):
            each.draw(page, ax, top, name)
            top += height
        page.alt = "A map of the 32 banks of shared memory. " + " ".join(
            f"{name + ': ' if name else ''}{each.words()}." for name, each in drawn.items()
        )


def bank_conflicts(profile, path=None):
    """Wavefronts a shared access, source line by source line: 1 is without conflicts.

    Parameters
    ----------
    profile : Profile
        Of the CPU engine, which counts by line.
    path : str or path-like, optional
        Save to this .png or .svg file, and show nothing.

    Raises
    ------
    LabError
        If the profile has no source lines, or none of them touches shared memory.
    """
    sites = profile.sites
    shared = sites[sites["space"] == "shared"] if len(sites) else sites
    if not len(shared):
        raise LabError("draw.bank_conflicts: no access to shared memory in this profile, which the CPU engine makes "
                       f"(engine=\"cpu\"). {profile.note}")  # fmt: skip
    shared = shared.astype({"line": "Int64"}).fillna({"file": "", "line": 0})  # a compiler need not say either
    by = [name for name in ("variant", "kernel", "file", "line", "op") if name in shared]
    lines = shared.groupby(by, sort=False, as_index=False)[["requests", "wavefronts"]].sum()
    lines = lines.to_dict("records")
    step = 24
    with canvas(70 + step * len(lines) + 26, path=path) as page:
        each = [row["wavefronts"] / row["requests"] for row in lines]
        worst = lines[int(np.argmax(each))]
        free = max(each) < 1.005
        message = "No access to shared memory has a bank conflict" if free else (
            f"Line {worst['line'] or 'unknown'} takes {max(each):.3g} wavefronts an access")  # fmt: skip
        page.heading(message, profile.note)
        verbs = {"ld": "load", "st": "store", "atom": "atomic"}
        names = [f"{row.get('variant', row['kernel'])}  line {row['line'] or 'unknown'}  {verbs[row['op']]}"
                 for row in lines]  # fmt: skip
        left = 24 + max(page.text_width(name, SMALL) for name in names)
        ax = page.axes(left, 64, page.width - 90, 64 + step * len(lines))
        ax.set(xlim=(0, max(2.0, *each) * 1.02), ylim=(len(lines) - 0.5, -0.5), xticks=[], yticks=[])
        ax.spines[:].set_visible(False)
        ax.axvline(1, color=ORANGE, lw=1.2, ls=(0, (4, 3)))
        for i, (name, value) in enumerate(zip(names, each, strict=True)):
            y = 64 + (i + 0.5) * step + 4
            ax.barh(i, value, height=0.6, color=BLUE if value >= 1.005 else PALE)
            page.text(left - 10, y, name, ha="right", size=SMALL)
            page.text(page.width - 14, y, f"{value:.3g}", ha="right", size=SMALL)
        page.text(left, 64 + step * len(lines) + 16, "wavefronts an access; dashed: 1, no conflict", size=SMALL,
                  color=MUTED)  # fmt: skip
        said = ", ".join(f"{name} {value:.3g}" for name, value in zip(names, each, strict=True))
        page.alt = f"Bar chart, wavefronts a shared access: {said}. {profile.note}"


class _Banks:
    """Which bank each lane meets, and which lanes have to wait there."""

    def __init__(self, words):
        words = np.asarray(words)
        if words.ndim != 1 or not 1 <= len(words) <= 32 or words.dtype.kind not in "iu":
            raise LabError(f"draw.banks: a warp has 32 lanes; got {words.dtype} words of shape {words.shape}")
        self.cells = []  # (bank, turn, lanes that share the word)
        waiting: dict[int, list[int]] = {}
        self.lanes = {}
        for lane, word in enumerate(words.tolist()):
            if word >= 0:
                self.lanes.setdefault(word, []).append(lane)
        if not self.lanes:
            raise LabError("draw.banks: no lane takes part (all words are negative)")
        for word, lanes in self.lanes.items():  # lanes that want the same word get it together
            queue = waiting.setdefault(word % BANKS, [])
            queue.append(word)
            self.cells.append((word % BANKS, len(queue) - 1, lanes))
        self.turns = max(map(len, waiting.values()))
        self.used = len(waiting)

    def words(self):
        conflicts = f"{self.turns - 1} of them conflicts" if self.turns > 1 else "no conflict"
        return f"{self.turns} wavefront{'s' * (self.turns > 1)}, {conflicts}, {self.used} of {BANKS} banks used"

    def draw(self, page, ax, top, name):
        left, pitch = 92, (page.width - 92 - 14) / BANKS
        page.text(12, top + 18, name, weight="bold")
        where = 12 + (page.text_width(name + "   ", weight="bold") if name else 0)
        page.text(where, top + 18, self.words(), color=MUTED)
        for bank in range(BANKS):
            ax.text(left + (bank + 0.5) * pitch, top + 36, str(bank), ha="center", size=6.4, color=MUTED)
        ax.text(left - 10, top + 36, "bank", ha="right", size=SMALL, color=MUTED)
        for turn in range(self.turns):
            y = top + 41 + 20 * turn
            if turn < 3 or turn == self.turns - 1:
                ax.text(left - 10, y + 13, f"wavefront {turn + 1}", ha="right", size=SMALL, color=MUTED)
            for bank in range(BANKS):
                rect(ax, left + bank * pitch + 1, y, pitch - 2, 18, PAPER, FAINT, 0.6)
        for bank, turn, lanes in self.cells:
            y = top + 41 + 20 * turn
            rect(ax, left + bank * pitch + 1, y, pitch - 2, 18, BLUE if turn == 0 else ORANGE)
            text = str(lanes[0]) if len(lanes) == 1 else f"{len(lanes)}×"
            ax.text(left + (bank + 0.5) * pitch, y + 12.5, text, ha="center", size=6.4,
                    color=PAPER if turn == 0 else INK)  # fmt: skip
