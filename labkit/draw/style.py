"""One look for all of the lab's figures, and the one way in which they reach a page.

A figure is laid out in CSS pixels from its top left corner, 760 wide, and rendered at twice that
density, so that its text is as large as the page's. Matplotlib's global state stays as it is: the
style holds only while a figure is drawn.
"""

import base64
import functools
import inspect
import io
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

import matplotlib.style
import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.lines import Line2D
from matplotlib.patches import FancyArrowPatch, Rectangle
from matplotlib.textpath import text_to_path
from matplotlib.ticker import LogLocator
from matplotlib.transforms import Affine2D
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from hostcuda.files import write
from labkit.base.errors import LabError

WIDTH = 760  # CSS pixels: the text column of a notebook and of the report
DPI = 100  # a figure's unit is the CSS pixel: 1/100 inch
DENSITY = 2  # device pixels per CSS pixel

# Colours that stay apart for colour-blind readers (tests/test_draw.py computes by how much), and
# the greys. Colour never carries a message alone: each figure also says it in words, by position or
# by a mark.
BLUE, ORANGE, GREEN, RUST, SKY = "#1f64ad", "#e8961e", "#0b7d61", "#8c2d19", "#6fc3ef"
INK, MUTED, FAINT = "#1d2733", "#5b6775", "#c3cbd4"
HAIR, EMPTY, PAPER = "#e6eaee", "#eef1f4", "#ffffff"
# blue that is context; blue and orange as a ground
PALE, TINT, WARM = ("#9db9d9", "#dce8f5", "#fbe3c0")
# more kinds of a thing
STEEL, BROWN, VIOLET, ROSE, OLIVE = ("#4f86c2", "#b8650a", "#7a4fa3", "#e3b7c8", "#d9d28a")
# grounds of inputs: which output needs them
HALO, OVERLAP, STONE, SAND = ("#cfe2f4", "#bcd3ec", "#e6dfd6", "#f9d39a")
# grounds and edges beside GREEN
MOSS, MINT, LEAF, SAGE = ("#cfe8df", "#e2f2ec", "#e3f3ee", "#9fd0c1")
MIST, FOG = "#f4f7fa", "#f6f8fa"  # grounds behind text
AMBER = "#8a5504"  # orange dark enough for text
CYCLE = (BLUE, ORANGE, INK, SKY, RUST)
READABLE = {ORANGE: AMBER, SKY: "#1a6a96"}  # in place of colours that are too light for text

SMALL, NORMAL, LARGE = 8.3, 9.2, 12.2  # points, at 100 dpi: 11.5, 12.8 and 17 CSS pixels
MONO = "DejaVu Sans Mono"
DASHED = (0, (4, 3))

STYLE = {
    **dict.fromkeys(
        ("figure.facecolor", "savefig.facecolor", "axes.facecolor", "lines.markeredgecolor"), PAPER
    ),
    **dict.fromkeys(("axes.labelcolor", "legend.labelcolor"), MUTED),
    **dict.fromkeys(("axes.labelsize", "legend.fontsize"), SMALL),
    **dict.fromkeys(("axes.linewidth", "grid.linewidth"), 1.0),
    **{f"axes.spines.{side}": False for side in ("left", "top", "right")},
    "figure.dpi": DPI,
    "font.family": "DejaVu Sans",
    "font.size": NORMAL,
    "text.color": INK,
    "text.parse_math": False,  # labels come from data: a "$" in a kernel's name is a dollar
    "axes.edgecolor": FAINT,
    "axes.axisbelow": True,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "grid.color": HAIR,
    **{
        f"{axis}tick.{name}": value
        for axis in "xy"
        for name, value in (
            ("color", FAINT),
            ("labelcolor", MUTED),
            ("labelsize", SMALL),
            ("major.size", 0),
            ("minor.size", 0),
        )
    },
    "lines.linewidth": 2.0,
    "lines.solid_capstyle": "round",
    "legend.frameon": False,
    "hatch.linewidth": 0.8,
}

_SHARED = """title : str, optional
    In place of the figure's own, which is its message.
subtitle : str, optional
    Stands before the figure's own.
path : str or path-like, optional
    Save to this .png file, and show nothing.

Raises
------
LabError
    If the figure cannot be drawn from the arguments, or cannot be saved: the message says why.
"""


def on_new_page(draw: Callable[..., None]) -> Callable[..., None]:
    """Decorate a function draw(page, …): the result makes the page, calls draw, and saves the page or shows it.

    The result takes the other arguments of draw, and the keywords `title`, `subtitle` and `path`, the file to
    save to; without `path` the page is shown.
    """

    @functools.wraps(draw)
    def draw_figure(*args, title=None, subtitle=None, path=None, **options):
        """Draw on a new page in the lab's style; write it to `path`, or show it."""
        with matplotlib.style.context(STYLE, after_reset=True):
            page = Page(title, subtitle)
            draw(page, *args, **options)
            if path is not None:
                save(page, path)
            else:
                _show(page)

    # The signature and the docstring for help() and the API reference have the shared arguments, too, which
    # `_SHARED` describes.
    own = list(inspect.signature(draw).parameters.values())[1:]  # without `page`
    shared = [
        inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation="str | None"
        )
        for name in ("title", "subtitle", "path")
    ]
    draw_figure.__signature__ = inspect.Signature([*own, *shared], return_annotation=None)
    doc = inspect.cleandoc(draw.__doc__)
    heading = "" if "\nParameters\n" in doc else "\n\nParameters\n----------"
    draw_figure.__doc__ = f"{doc}{heading}\n{_SHARED}"
    return draw_figure


class Page:
    """The page that a figure is drawn on. All positions are CSS pixels from the top left corner.

    Every drawing function sets ``alt``, the figure in words for readers who do not see it. Figures
    of measurements also set ``plain``, their text/plain form, without numbers, so that a
    re-executed notebook compares equal.
    """

    def __init__(self, title: str | None = None, subtitle: str | None = None):
        """Keep what `open` writes: `title` in place of the figure's own, `subtitle` before the figure's own."""
        self._title, self._subtitle = title, subtitle
        self.alt = self.plain = ""

    def open(
        self, height: float, title: str, subtitle: str = "", note: str = "", width: float = WIDTH
    ) -> None:
        """Make the figure `fig`, `width` × `height` CSS pixels, with its heading: the title and, in grey, the subtitle.

        A note, such as that these are not GPU times, is a third line: it adds to the height and
        moves all else down. `pixels` becomes the transform from CSS pixels, y downwards, to those
        of Matplotlib.
        """
        self._down = 19 if note else 0  # pixels: the height of the note's line
        self.width, self.height = width, round(height) + self._down
        self.fig = Figure(figsize=(width / DPI, self.height / DPI), dpi=DPI)
        FigureCanvasAgg(self.fig)  # becomes the figure's canvas: draws into memory, in no window
        # to inches, y upwards from the lower edge; then, by Matplotlib's own transform, to its pixels
        pixels = Affine2D().scale(1 / DPI, -1 / DPI).translate(0, (self.height - self._down) / DPI)
        self.pixels = pixels + self.fig.dpi_scale_trans
        # a title that the caller of the figure gave replaces this one; a subtitle of his is added
        for y, text, size, weight, color in (
            (24, title if self._title is None else self._title, LARGE, "bold", INK),
            (44, join_parts(self._subtitle, subtitle), NORMAL, "normal", MUTED),
            (63, note, NORMAL, "bold", AMBER),
        ):
            # a text that is too wide gets smaller; 12 pixels of margin on each side
            while size > 5 and wide(text, size, weight) > width - 24:
                size *= 0.96
            self.text(12, y - self._down, text, size=size, weight=weight, color=color)

    def axes(
        self, left: float, top: float, right: float, bottom: float, log: str = "", **options: Any
    ) -> Axes:
        """Add and return axes between these edges; `log`: the logarithmic axes, "x" or "xy"; options: of `Axes.set`."""
        # Matplotlib takes parts of the figure, y upwards. `_down`: the pixels by which a note moves all else
        w, h = self.width, self.height
        ax = self.fig.add_axes(
            (left / w, 1 - (bottom + self._down) / h, (right - left) / w, (bottom - top) / h)
        )
        for axis in log:
            ax.set(**{f"{axis}scale": "log"})
        ax.set(**options)
        ax.minorticks_off()
        return ax

    def locate(self, ax: Axes, points: Sequence[tuple[float, float]]) -> np.ndarray:
        """Convert points in the data coordinates of `ax` to CSS pixels: an array of n rows (x, y)."""
        return self.pixels.inverted().transform(ax.transData.transform(points))

    def text(self, x: float, y: float, text: str, **options: Any) -> None:
        """Write lines of text from x, 16 pixels apart, the first with its baseline on y; options are Matplotlib's."""
        for i, line in enumerate(text.split("\n")):
            self.fig.text(x, y + 16 * i, line, transform=self.pixels, **options)

    def small(self, x: float, y: float, text: str, color: str = MUTED, **options: Any) -> None:
        """Write small text, by default in grey."""
        self.text(x, y, text, size=SMALL, color=color, **options)

    def code(self, x: float, y: float, text: str, max_width: float) -> None:
        """Write a line of source, at most `max_width` wide: smaller, to 6 points, then cut off with an ellipsis."""
        # pixels per point of size: the width of a letter of DejaVu Sans Mono
        letter = 0.625 * DPI / 72
        size = max(6, min(SMALL, max_width / letter / max(1, len(text))))
        # 1e-6: the quotient may be rounded to just below a whole number
        fits = int(max_width / letter / size + 1e-6)
        self.text(
            x, y, text if len(text) <= fits else text[: fits - 1] + "…", size=size, family=MONO
        )

    def caption(self, x: float, y: float, name: str, detail: str = "") -> None:
        """Write the name of a part of a figure in bold, and behind it a detail, such as its size, in grey."""
        self.text(x, y, name, weight="bold")
        self.text(x + (wide(name + "  ", weight="bold") if name else 0), y, detail, color=MUTED)

    def legend(self, x: float, y: float, colors: Mapping[str, str]) -> tuple[float, float]:
        """Draw a square and a name for each of `colors`, name -> colour; return (x, y) behind the last one.

        A name that does not fit begins a new line, 18 pixels below.
        """
        left = x
        for name, color in colors.items():
            width = 16 + wide(name, SMALL)
            if x + width > self.width - 12:
                x, y = left, y + 18
            self.rect(x, y - 9, 10, 10, color)
            self.small(x + 16, y, name)
            x += width + 18
        return x, y

    def rect(
        self,
        x: float,
        y: float,
        w: float,
        h: float,
        face: str,
        edge: str = "none",
        lw: float = 0.0,
        **options: Any,
    ) -> None:
        """Draw a rectangle with its upper left corner at (x, y); `lw`, the width of its edge, is in points."""
        box = Rectangle(
            (x, y),
            w,
            h,
            facecolor=face,
            edgecolor=edge,
            linewidth=lw,
            transform=self.pixels,
            **options,
        )
        self.fig.add_artist(box)

    def frame(
        self, x: float, y: float, w: float, h: float, color: str, lw: float = 2, **options: Any
    ) -> None:
        """Draw the outline of a rectangle, above its content; its width `lw` is in points."""
        self.rect(x, y, w, h, "none", color, lw, zorder=3, **options)

    def line(
        self, xs: Iterable[float], ys: Iterable[float], color: str, lw: float = 1.0, **options: Any
    ) -> None:
        """Draw a line through these points; its width `lw` is in points."""
        self.fig.add_artist(Line2D(xs, ys, color=color, lw=lw, transform=self.pixels, **options))

    def cells(
        self,
        x: float,
        y: float,
        rows: int,
        columns: int,
        cell: float,
        face: str = "none",
        edge: str = FAINT,
        high: float | None = None,
        lw: float | None = None,
        zorder: float = 1.5,
    ) -> None:
        """Draw a grid of cells, `cell` pixels wide and `high` pixels high (square by default), from (x, y) on.

        (x, y) is its upper left corner; `lw`, the width of its lines, is in points.
        """
        high = cell if high is None else high
        right, bottom = x + columns * cell, y + rows * high
        self.rect(x, y, right - x, bottom - y, face)
        lines = [[(x + i * cell, y), (x + i * cell, bottom)] for i in range(columns + 1)]
        lines += [[(x, y + i * high), (right, y + i * high)] for i in range(rows + 1)]
        # thin in small cells, so that their colours stay visible
        lw = min(0.7, cell / 14) if lw is None else lw
        self.fig.add_artist(
            LineCollection(
                lines,
                colors=edge,
                linewidths=lw,
                capstyle="butt",
                zorder=zorder,
                transform=self.pixels,
            )
        )

    def arrow(
        self,
        x0: float,
        x1: float,
        y: float,
        color: str,
        lw: float,
        y1: float | None = None,
        style: str = "-|>",
    ) -> None:
        """Draw an arrow from (x0, y) to (x1, y), or to (x1, y1); `style` is Matplotlib's, `lw` is in points."""
        ends = (x0, y), (x1, y if y1 is None else y1)
        self.fig.add_artist(
            FancyArrowPatch(
                *ends,
                arrowstyle=style,
                mutation_scale=NORMAL,  # the size of the head
                color=color,
                lw=lw,
                # without them the arrow would end 2 points before the positions
                shrinkA=0,
                shrinkB=0,
                transform=self.pixels,
            )
        )

    def picture(self, x: float, y: float, w: float, h: float, image: np.ndarray) -> None:
        """Draw an image, w × h pixels: an array [rows, columns] of grey levels, 0 as white, or [rows, columns, 3]."""
        ax = self.axes(x, y, x + w, y + h, zorder=2)
        ax.axis("off")
        ax.imshow(
            image,
            cmap="gray_r",
            vmin=0,
            vmax=image.max() or 1,  # black: the largest value; 1 if all are 0
            aspect="auto",
            interpolation="nearest",
        )


def save(page: Page, path: str | Path) -> None:
    """Write the page as PNG, whole or not at all; LabError if `path` is no .png or is a file of someone else."""
    if Path(path).suffix != ".png":
        raise LabError(f"cannot save a figure as {Path(path).name}: name it .png")
    # a figure of the lab has the mark that `png` leaves: a text chunk of PNG, "Description"
    if Path(path).is_file() and b"iTXtDescription" not in Path(path).read_bytes():
        raise LabError(
            f"{path} is there, and is no figure of the lab: remove it, or choose another name"
        )
    write(path, png(page))


def png(page: Page) -> bytes:
    """Return the page as the bytes of a PNG file, with its alternative text."""
    raw, out, metadata = io.BytesIO(), io.BytesIO(), PngInfo()
    # not compressed: it is read again at once
    page.fig.savefig(raw, format="png", dpi=DPI * DENSITY, pil_kwargs={"compress_level": 0})
    # 96 colours: a third of the size at no visible loss.
    image = Image.open(raw).convert("RGB").quantize(96, dither=Image.Dither.NONE)
    metadata.add_itxt("Description", page.alt)
    # 7 % larger than with `optimize`, in a seventh of the time.
    image.save(out, "png", compress_level=6, dpi=(DPI * DENSITY, DPI * DENSITY), pnginfo=metadata)
    return out.getvalue()


def _show(page: Page) -> None:
    """Show the page in the notebook or else in a window; without a screen, print its alternative text."""
    if _find_kernel() is not None:
        from IPython.display import display

        data = {
            "image/png": base64.b64encode(png(page)).decode(),
            "text/plain": page.plain or page.alt,
        }
        metadata = {"alt": page.alt, "width": round(page.width), "height": round(page.height)}
        display(data, metadata={"image/png": metadata}, raw=True)
    elif matplotlib.get_backend().lower() == "agg":  # no screen: plt.show() would only warn
        print(page.alt)
    else:
        import matplotlib.pyplot as plt

        plt.figure(page.fig)
        plt.show()
        plt.close(page.fig)


def _find_kernel() -> object | None:
    """Return the Jupyter kernel that this runs in, or None."""
    ipython = sys.modules.get("IPython")  # in a notebook it is imported already
    return getattr(ipython.get_ipython() if ipython else None, "kernel", None)


def set_ticks(axis: Axis, ticks: Iterable[float]) -> None:
    """Put these ticks on `axis`, such as ``ax.xaxis``, with commas at the thousands: "10,000"."""
    ticks = list(ticks)
    axis.set_ticks(ticks, [f"{tick:,.10g}" for tick in ticks])


def log_ticks(low: float, high: float, digits: tuple[int, ...]) -> list[float]:
    """Return the ticks of a logarithmic axis: the numbers from low to high that are a digit times a power of ten."""
    return [
        tick
        # 99: more ticks than there are, so that none is left out
        for tick in LogLocator(subs=digits, numticks=99).tick_values(low, high)
        if low <= tick <= high
    ]


def name_ends(
    page: Page, ax: Axes, right: float, ends: Mapping[str, tuple[float, str]], bold: Iterable[str]
) -> None:
    """Write the names of lines on axes, from x = `right`, at the height of their right ends.

    The names are at least 16 pixels apart, so that they can be read if lines end close together.
    `ends` maps the name of each line to its last value and its colour; the names in `bold` are
    bold.
    """
    # the heights in pixels, y downwards, of the x axis and of the ends; the x of 1 does not matter
    low, *heights = page.locate(
        ax, [(1, ax.get_ylim()[0]), *((1, value) for value, _ in ends.values())]
    )[:, 1]
    # From the top down: a name that is too near to the one above moves down.
    ordered = sorted(zip(ends, heights, strict=True), key=lambda end: end[1])
    names, places = [name for name, _ in ordered], [height for _, height in ordered]
    down = accumulate(places, lambda above, place: max(place, above + 16))
    # Then from the bottom up: the lowest baseline (place + 4) is at most on the x axis, `low`, and
    # a name that is too near to the one below moves up. `initial` stands for one below the axis.
    up = accumulate(
        reversed([*down]), lambda below, place: min(place, below - 16), initial=low + 12
    )
    for name, place in zip(reversed(names), [*up][1:], strict=True):  # [1:]: without `initial`
        # the line's colour, or a darker one if that is too light for text
        color = READABLE.get(ends[name][1], ends[name][1])
        page.small(right, place + 4, name, color=color, weight="bold" if name in bold else "normal")


def ink_on(face: str) -> str:
    """Return the colour of text on a ground of this colour: `PAPER` on a dark one, `INK` on a light one."""
    # the weights of luma, ITU-R BT.601
    return PAPER if np.dot(to_rgb(face), (0.3, 0.59, 0.11)) < 0.5 else INK


@functools.cache
def wide(text: str, size: float = NORMAL, weight: str = "normal") -> float:
    """Return the width of a text in CSS pixels; `size` is in points."""
    font = FontProperties(family=STYLE["font.family"], size=size, weight=weight)
    return text_to_path.get_text_width_height_descent(text, font, ismath=False)[0] * DPI / 72


def widest(texts: Iterable[object], size: float = NORMAL, weight: str = "normal") -> float:
    """Return the width of the widest of several texts."""
    return max((wide(str(text), size, weight) for text in texts), default=0)


def percent(share: float) -> str:
    """Return a share from 0 to 1 as text: "42 %", or "3.1 %" below 10 %."""
    # from 9.95 % on it is "10 %", not "10.0 %"; 0 is "0 %"
    return f"{share * 100:.0f} %" if share >= 0.0995 or share == 0 else f"{share * 100:.1f} %"


def count(number: int, word: str) -> str:
    """Return a number with a noun, in the plural unless it is 1: "1 row", "1,200 rows"."""
    return f"{number:,} {word}{'' if number == 1 else 's'}"


def join_parts(*parts: object) -> str:
    """Join the parts that are not empty in one line, with dots between them."""
    return "   ·   ".join(str(part) for part in parts if part)
