"""A race as a timeline: two threads, their accesses to the same bytes, and the missing barrier between them."""

from __future__ import annotations

from pathlib import Path

from hostcuda.sanitize import Findings
from labkit.base.errors import LabError
from labkit.draw import style
from labkit.draw.style import Page, on_new_page

_DOES = {"ld": "reads", "st": "writes", "atom": "updates"}
_WIDE, _HIGH = 600, 70  # pixels of an access's box


@on_new_page  # makes `page` (in CSS pixels), then shows or saves it: callers give the rest
def race(page: Page, found: Findings) -> None:
    """Draw the first race of these findings as a timeline, from top to bottom.

    Parameters
    ----------
    found : Findings
        As `labkit.sanitize` gives them.
    """
    if not isinstance(found, Findings):
        raise LabError(f"draw.race takes what lab.sanitize gives, and got {type(found).__name__}")
    rows = [
        row
        for row in found.table.to_dict("records")
        if row["tool"] == "racecheck" and isinstance(row["other"], dict)
    ]
    if not rows:
        raise LabError(f"there is no race of two known accesses to draw. {found.verdict()}")
    row, between_blocks = rows[0], rows[0]["kind"] == "race between blocks"
    # why nothing orders the accesses: for the title, and for the line between the accesses
    missing = {
        "race between blocks": (
            "nothing orders two blocks",
            "no order: the blocks of a launch run in any order",
        ),
        "race with a copy": (
            "the copy is not waited for",
            "no wait for the copy here: it may come after the read",
        ),
    }.get(
        row["kind"],
        (
            "no barrier between two accesses",
            "no __syncthreads() here: either access may come first",
        ),
    )
    # the array in which the address lies, a dict, if the engine knows it
    buffer = row["buffer"] if isinstance(row["buffer"], dict) else {}
    where = buffer.get("name") or ("shared or global memory" if not buffer else "the same array")
    element = (
        f"element {buffer['offset'] // row['size']:,}" if "offset" in buffer else "the same bytes"
    )
    title = f"Race on {where}: {missing[0]}"
    block = "" if row["block"] is None else f"block {tuple(row['block'])}   ·   "
    page.open(
        322,
        title,
        f"kernel {row['kernel']}   ·   {block}racecheck counted {row['count']:,} of these",
    )
    texts = []
    # a lane of the timeline for each access: the first on the left, the one that racecheck reports on the right
    for lane, (access, top) in enumerate(((row["other"], 92), (row, 236))):
        x = 14 + lane * (page.width - 28 - _WIDE)
        who = (
            f"thread {tuple(access['thread'])}"
            if access.get("thread") is not None
            else "another thread"
        )
        who += " of another block" * (between_blocks and not lane)
        edge = x + lane * _WIDE  # the box's outer edge
        inside = edge + (22 if lane == 0 else -22)
        page.line([inside, inside], [84, 312], style.FAINT, 3, zorder=0)
        page.text(edge, 78, who, weight="bold", ha="right" if lane else "left")
        does = f"{_DOES.get(access.get('op'), 'accesses')} {element} of {where}"
        page.rect(x, top, _WIDE, _HIGH, style.TINT if lane == 0 else style.WARM)
        page.text(x + 12, top + 21, does, color=style.INK)
        code = _read_line(found, access)
        place = f"{Path(access['file'] or 'unknown file').name}, line {access['line']}"
        page.small(x + 12, top + 40, place)
        page.code(x + 12, top + 58, code, _WIDE - 24)
        texts.append(f"{who} {does}, at {place}: {code}")
    middle = (92 + _HIGH + 236) / 2
    page.line([14, page.width - 14], [middle, middle], style.RUST, 1.6, ls=style.DASHED)
    page.text(
        page.width / 2,
        middle + 4,
        missing[1],
        color=style.RUST,
        weight="bold",
        ha="center",
        bbox={"facecolor": style.PAPER, "edgecolor": "none", "pad": 4},
    )
    page.alt = (
        f"Timeline of a race. First, {texts[0]}. Then, {texts[1]}. Between the two: {missing[1]}."
    )


def _read_line(found: Findings, access: dict) -> str:
    """Return the source line of an access without its comment, from the findings or its file; empty if not known."""
    file = access["file"] or ""
    text = getattr(found, "sources", {}).get(Path(file).name)
    if text is None and Path(file).is_file():
        text = Path(file).read_text(errors="replace")
    lines = (text or "").splitlines()
    return (
        lines[access["line"] - 1].split("//")[0].strip() if 0 < access["line"] <= len(lines) else ""
    )
