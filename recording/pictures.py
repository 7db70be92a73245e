"""The pictures in docs/images/ and the tables in README.md and docs/results.md, from kernels and recorded results.

lab.png has the source of a kernel, the two engines that run it, and the op time of each rung;
ladder.png has op time over reference time for every rung, all layers. Each has a dark version, such
as lab-dark.webp, for readers whose pages are dark. The code is that of labkit/cuda_src, the times
those of data/results/nvidia-h200.csv.
"""

import math
from pathlib import Path

import pandas as pd
from pygments.lexers import get_lexer_by_name
from pygments.token import string_to_tokentype

from hostcuda.files import write
from labkit import LENET86, recorded
from labkit.base.numerals import ms
from labkit.base.paths import PACKAGE, cuda_src, data_dir
from labkit.draw import ladder, style
from labkit.draw.dark import dark
from labkit.draw.style import SMALL, Page, on_new_page, wide, widest
from labkit.page import overview
from labkit.records import store
from labkit.records.recorded import Recorded
from labkit.spec.devices import slug
from recording import small, versus, versus_counters
from recording.options import Folder
from recording.readme import format_ladder, format_network, format_summary, replace_marked

IMAGES = PACKAGE.parent / "docs" / "images"
DEVICE = "H200"
LAYER = LENET86[1]
SHOWN = (
    "__global__",
    "void conv(",
    "int B,",
    "{",
    "const int h =",
    "const int w =",
    "h * Wo + w]",
    "for (",
    "}",
)
RHYTHM = ("predict", "check", "measure", "evidence", "verdict")
CODE = {"Keyword": "#1f4fa8", "Name.Function": "#6b3a91", "Literal.Number": "#8a3f00"}
STEP = 21  # pixels between two bars
MONO = 7.2  # size of DejaVu Sans Mono, in points


def read_excerpt(path: Path) -> list[str]:
    """Return the lines of a kernel that say what it computes, without comments; "…" stands for omitted lines.

    The lines are those that contain one of the texts `SHOWN`, such as "for (".
    """
    lines, left_out = [], False
    for line in path.read_text().splitlines():
        code = line.split("//")[0].rstrip()
        if not code:
            continue
        is_shown = any(word in code for word in SHOWN)
        if is_shown:
            if left_out:
                lines.append("  …")
            # halved, to save width; 20 columns and more align a parameter with the one above
            indent = len(code) - len(code.lstrip())
            lines.append(" " * (indent // 2 if indent < 20 else indent) + code.lstrip())
        left_out = not is_shown
    return lines


def draw_ladders(results: Recorded, path: Path | None = None) -> None:
    """Draw the picture of the ladder: for every layer the times of the rungs, without their steps, and of cuDNN.

    A rung is a kernel with a number, a step a version of it. The picture is written to `path`, or shown.
    """
    rows = overview.list_rows(results)
    rows = rows[~rows["label"].str.contains(",")]  # a step's label: "11 matrix product, warpgroups"
    is_library = rows["rung"].isna()  # cuDNN's best times have no rung
    ladder(
        rows[~is_library],
        device=results.device,
        date=results.date,
        library=rows[is_library],
        title="The ladder: what each rung saves or loses, down to the reference time",
        path=path,
    )


@on_new_page
def draw_lab(page: Page, results: Recorded) -> None:
    """Draw the README's picture: a kernel's source, the two engines, a page's parts, and the op time of each rung.

    Parameters
    ----------
    results : Recorded
        The times, of which those of the layer `LAYER` are drawn.
    """
    # `on_new_page` has made `page`; afterwards it saves it as the caller's `path`, or shows it
    rows = overview.list_rows(results)
    rows = rows[rows["layer"] == LAYER.name].reset_index(drop=True)
    code = read_excerpt(cuda_src() / "01_baseline.cu")
    card = (20, 84, 574, 26 + 15 * len(code))  # x, y, width, height
    bars_top = card[1] + card[3] + 104
    # "": no title, it is drawn below. y grows downwards, in CSS pixels. A row is a bar.
    page.open(bars_top + STEP * len(rows) + 66, "", width=860)
    page.text(
        20,
        32,
        "One CUDA source, two engines, every step measured and explained",
        size=14.5,
        weight="bold",
    )
    page.text(
        20,
        56,
        "The convolutions of a LeNet, optimized one idea per notebook, with a GPU or without one.",
        color=style.MUTED,
        size=10,
    )
    _draw_code(page, card, "01_baseline.cu", code, 15)
    _draw_engines(page, card)
    x, y = 20, card[1] + card[3] + 22
    for i, word in enumerate(RHYTHM):
        width = wide(word, weight="bold") + 28
        page.rect(x, y, width, 27, style.TINT)
        page.text(x + width / 2, y + 18, word, ha="center", weight="bold", color=style.BLUE)
        if i + 1 < len(RHYTHM):
            page.arrow(x + width + 5, x + width + 29, y + 13.5, style.MUTED, 1.2)
        x += width + 34
    page.text(x - 14, y + 18, "in the notebooks, and tested", color=style.MUTED)
    page.alt = (
        "The lab in a picture: the CUDA source of a convolution; an NVIDIA GPU runs it through PyCUDA, and a "
        f"machine without one builds the same file with g++; every notebook goes from {' to '.join(RHYTHM)}. "
        f"Below, the op time of each rung, {_draw_times(page, rows, bars_top, results)}."
    )


def _draw_engines(page: Page, card: tuple[float, ...]) -> None:
    """Draw the two engines at the right of the card with the code, given by x, y, width and height."""
    x, w, h = card[0] + card[2] + 52, page.width - 20 - (card[0] + card[2] + 52), (card[3] - 16) / 2
    engines = (
        (
            "NVIDIA GPU",
            "nvcc and PyCUDA run it",
            ("times are recorded,", "with device and date"),
            style.BLUE,
        ),
        (
            "No GPU",
            "g++ builds the same file",
            ("the same answers,", "on a laptop and in CI"),
            style.GREEN,
        ),
    )
    for i, (name, how, why, color) in enumerate(engines):
        y = card[1] + i * (h + 16)
        page.rect(x, y, w, h, style.PAPER, style.FAINT, 1)
        page.rect(x, y, 5, h, color)
        page.text(x + 22, y + h / 2 - 24, name, weight="bold", size=11, color=color)
        for j, text in enumerate((how, *why)):
            page.text(
                x + 22, y + h / 2 - 3 + 18 * j, text, color=style.INK if j == 0 else style.MUTED
            )
        page.arrow(card[0] + card[2] + 10, x - 8, y + h / 2, color, 2)


def _draw_times(page: Page, rows: pd.DataFrame, top: float, results: Recorded) -> str:
    """Draw a bar per row of `overview.list_rows` from `top` on, on a logarithmic scale; return them in words."""
    labels, times_ms = rows["label"].tolist(), rows["op_ms"].tolist()
    is_library = rows["rung"].isna()  # cuDNN
    best = rows[(rows["dtype"] == "float32") & ~is_library]["op_ms"].idxmin()
    largest = int(rows["batch"].max())
    page.text(20, top - 14, "What each step takes", weight="bold", size=10.5)
    where = f"{LAYER.name}, {largest:,} images, {results.device}, {results.date}; each line is ten times the one before"
    page.text(
        20 + wide("What each step takes   ", 10.5, "bold"), top - 14, where, color=style.MUTED
    )
    left, end = 30 + widest(labels, weight="bold"), top + STEP * len(labels)
    reference, in_half = (
        LAYER.reference_ms(largest, dtype, DEVICE) for dtype in ("float32", "float16")
    )
    decades = range(math.floor(math.log10(min(times_ms))), math.ceil(math.log10(max(times_ms))) + 1)

    def find_x(time_ms: float) -> float:
        """Return a time's place on the scale."""
        return left + (page.width - left - 150) * (math.log10(time_ms) - decades[0]) / (
            decades[-1] - decades[0]
        )

    for decade in decades:
        page.rect(find_x(10.0**decade), top - 2, 1, end - top + 4, style.FAINT)
        page.text(
            find_x(10.0**decade),
            end + 16,
            f"{10.0**decade:g} ms",
            ha="center",
            color=style.MUTED,
            size=SMALL,
        )
    for i, (label, value) in enumerate(zip(labels, times_ms, strict=True)):
        y, weight = top + i * STEP, "bold" if i == best else "normal"
        half = "FP16" if rows["dtype"].iloc[i] == "float16" and not is_library[i] else ""
        color = style.BLUE if i == best else style.MUTED if is_library[i] else style.PALE
        page.text(left - 10, y + 16, label, ha="right", weight=weight)
        page.rect(left, y + 3, find_x(value) - left, STEP - 5, color)
        page.text(page.width - 66, y + 16, ms(value), ha="right", weight=weight)
        page.text(page.width - 20, y + 16, half, ha="right", color=style.MUTED)
    page.line([find_x(reference)] * 2, [top - 2, end + 3], style.GREEN, 2)
    name = f"reference time in FP32 {ms(reference)}"
    page.text(find_x(reference) + 6, end + 36, name, color=style.GREEN, weight="bold", size=SMALL)
    page.text(
        find_x(reference) + 6 + wide(f"{name}   ", SMALL, "bold"),
        end + 36,
        f"in FP16 {ms(in_half)}",
        color=style.MUTED,
        size=SMALL,
    )
    described = ", ".join(
        f"{label} {ms(value)}" for label, value in zip(labels, times_ms, strict=True)
    )
    return f"{where}: {described}; {name}, in FP16 {ms(in_half)}"


def _draw_code(
    page: Page, card: tuple[float, ...], name: str, lines: list[str], step: float
) -> None:
    """Draw a file's lines on a card (x, y, width, height), `step` pixels apart, with colors by kind of word."""
    x, y, w, h = card
    page.rect(x, y, w, h, "#f5f7f9", style.FAINT, 1)
    page.small(x + w - 14, y + 20, name, ha="right")
    width = MONO * 0.602 / 0.72  # of a letter, in pixels: 0.602 em, and a pixel is 0.72 points
    colors = {string_to_tokentype(kind): color for kind, color in CODE.items()}
    lexer = get_lexer_by_name("cuda", stripnl=False, ensurenl=False)
    for i, line in enumerate(lines):
        column = 0
        for kind, text in lexer.get_tokens(line):
            color = next(
                (color for color_kind, color in colors.items() if kind in color_kind), style.INK
            )
            blank = len(text) - len(text.lstrip())
            if text.strip():
                page.text(
                    x + 16 + (column + blank) * width,
                    y + 25 + i * step,
                    text.strip(),
                    family=style.MONO,
                    size=MONO,
                    color=color,
                    va="baseline",
                )
            column += len(text)


def pictures(out: Folder = None) -> None:
    """Draw docs/images/, write the tables of docs/.

    All are made from recorded results. A table stands in its page between two markers with its name,
    such as <!-- busy:begin -->. With another folder (`out`) only the pictures are made.
    """
    results, folder = recorded(DEVICE), out or IMAGES
    for name, make in (("lab.png", draw_lab), ("ladder.png", draw_ladders)):
        make(results, path=folder / name)
        write(folder / name.replace(".png", "-dark.webp"), dark((folder / name).read_bytes()))
        print(f"{name}  {(folder / name).stat().st_size:,} bytes")
    if not out:  # into docs/results.md; "summary" into the README
        replace_marked("ladder", format_ladder(results))
        replace_marked("summary", format_summary(results))
        replace_marked("network", format_network(results))
        path = data_dir() / "versus" / f"{slug(results.device)}.csv"
        replace_marked("versus", versus.to_markdown(store.read_as_stored(path)))
        replace_marked("busy", versus_counters.to_markdown(results))
        path = data_dir() / "small" / f"{slug(results.device)}.csv"
        replace_marked("small", small.to_markdown(store.read_as_stored(path)))
