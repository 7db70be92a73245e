"""One look for all of the lab's figures, and the one way in which they reach a page.

Every figure is laid out in CSS pixels, 760 wide, and rendered at twice that density, so that its text is as large
as the page's. Nothing here touches Matplotlib's global state: the style holds only inside ``canvas``, and Matplotlib
itself is imported when the first figure is drawn.
"""

import base64
import io
from contextlib import contextmanager
from pathlib import Path

from labkit.base.errors import LabError
from labkit.base.files import write

WIDTH = 760  # CSS pixels: the text column of a notebook and of the report
DPI = 100  # a figure's unit is the CSS pixel: 1/100 inch
DENSITY = 2  # device pixels a CSS pixel

# Colours that stay apart for colour-blind readers (tests/test_draw.py computes by how much), and the greys. Colour
# never carries a message alone: each figure also says it in words, by position or by a mark.
BLUE, ORANGE, GREEN, RUST, SKY = "#1f64ad", "#e8961e", "#0b7d61", "#8c2d19", "#6fc3ef"
INK, MUTED, FAINT, HAIR, PAPER = "#1d2733", "#5b6775", "#c3cbd4", "#e6eaee", "#ffffff"
PALE, TINT, WARM = "#9db9d9", "#dce8f5", "#fbe3c0"  # blue that is context; blue and orange as a ground
AMBER = "#8a5504"  # orange dark enough for text
CYCLE = (BLUE, ORANGE, INK, SKY, RUST)
READABLE = {ORANGE: AMBER, SKY: "#1a6a96"}  # in place of what is too light for text

SMALL, NORMAL, LARGE = 8.3, 9.2, 12.2  # points, at 100 dpi: 11.5, 12.8 and 17 CSS pixels

STYLE = {
    "figure.dpi": DPI,
    "figure.facecolor": PAPER,
    "savefig.facecolor": PAPER,
    "font.family": "DejaVu Sans",
    "font.size": NORMAL,
    "text.color": INK,
    "text.parse_math": False,  # labels come from data: a "$" in a kernel's name is a dollar
    "axes.facecolor": PAPER,
    "axes.edgecolor": FAINT,
    "axes.labelcolor": MUTED,
    "axes.labelsize": SMALL,
    "axes.linewidth": 1.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.grid": False,
    "grid.color": HAIR,
    "grid.linewidth": 1.0,
    "xtick.color": FAINT,
    "ytick.color": FAINT,
    "xtick.labelcolor": MUTED,
    "ytick.labelcolor": INK,
    "xtick.labelsize": SMALL,
    "ytick.labelsize": NORMAL,
    "xtick.major.size": 0,
    "ytick.major.size": 0,
    "xtick.minor.size": 0,
    "ytick.minor.size": 0,
    "lines.linewidth": 2.0,
    "lines.solid_capstyle": "round",
    "hatch.linewidth": 0.8,
}


class Page:
    """What a figure is drawn on: a Matplotlib figure measured in CSS pixels from its top left corner.

    Attributes
    ----------
    fig : matplotlib.figure.Figure
    width, height : float
        Size in CSS pixels.
    alt : str
        The figure in words, for readers who do not see it. Every drawing function sets it.
    plain : str
        The figure's text/plain form. By default the alt text; figures of measurements set one without numbers,
        so that a re-executed notebook compares equal.
    """

    def __init__(self, fig, width, height):
        self.fig, self.width, self.height = fig, width, height
        self.alt = self.plain = ""
        self._down = 0  # pixels that everything moves down to make room for a note

    def axes(self, left, top, right, bottom):
        """Axes between these pixel positions."""
        w, h = self.width, self.height
        return self.fig.add_axes((left / w, 1 - (bottom + self._down) / h, (right - left) / w, (bottom - top) / h))

    def paper(self):
        """Axes without a frame whose data unit is the CSS pixel, y downwards: for diagrams."""
        ax = self.axes(0, 0, self.width, self.height)
        ax.set(xlim=(0, self.width), ylim=(self.height, 0))
        ax.axis("off")
        return ax

    def heading(self, title, subtitle="", note=""):
        """The message, below it in grey what it is measured in and on, and a note that nobody may miss.

        Comes first, because a note moves the rest of the page down.
        """
        extra = 19 if note else 0
        self.height += extra
        self.fig.set_size_inches(self.width / DPI, self.height / DPI)
        for y, text, size, weight, color in (
            (24, title, LARGE, "bold", INK),
            (44, subtitle, NORMAL, "normal", MUTED),
            (63, note, NORMAL, "bold", AMBER),
        ):
            while text and size > 5 and self.text_width(text, size, weight) > self.width - 24:
                size *= 0.96
            self.text(12, y, text, size=size, weight=weight, color=color)
        self._down = extra

    def text(self, x, y, text, **options):
        """Text at a pixel position, its baseline on y."""
        return self.fig.text(x / self.width, 1 - (y + self._down) / self.height, text, **options)

    def text_width(self, text, size=NORMAL, weight="normal"):
        """Width in CSS pixels that a text will take."""
        probe = self.fig.text(0, 0, text, size=size, weight=weight)
        width = probe.get_window_extent().width * DPI / self.fig.dpi
        probe.remove()
        return width


@contextmanager
def canvas(height, width=WIDTH, path=None):
    """A ``Page`` in the lab's style, shown, or saved to `path`, when the block ends."""
    import matplotlib.style

    with matplotlib.style.context(STYLE, after_reset=True):
        height = round(height)
        size = {"figsize": (width / DPI, height / DPI), "dpi": DPI}
        if path is None and _kernel() is None:
            import matplotlib.pyplot as plt

            fig, close = plt.figure(**size), plt.close
        else:
            from matplotlib.backends.backend_agg import FigureCanvasAgg
            from matplotlib.figure import Figure

            fig, close = Figure(**size), lambda fig: None
            FigureCanvasAgg(fig)
        try:
            page = Page(fig, width, height)
            yield page
            if path is not None:
                save(page, path)
            else:
                _show(page)
        finally:
            close(fig)


def save(page, path):
    """Write the page as PNG or SVG (by the suffix), whole or not at all.

    Raises
    ------
    LabError
        For another suffix, or if the file cannot be written.
    """
    path = Path(path)
    if path.suffix == ".png":
        data = png(page)
    elif path.suffix == ".svg":
        import matplotlib

        stream = io.BytesIO()
        with matplotlib.rc_context({"svg.hashsalt": "lab"}):  # the same picture gives the same file
            page.fig.savefig(stream, format="svg", metadata={"Date": None, "Description": page.alt})
        data = stream.getvalue()
    else:
        raise LabError(f"cannot save a figure as {path.name}: name it .png or .svg")
    write(path, data)


def png(page):
    """The page as PNG bytes with its alt text as description. 96 colours: a third of the size at no visible loss."""
    from PIL import Image
    from PIL.PngImagePlugin import PngInfo

    stream = io.BytesIO()
    page.fig.savefig(stream, format="raw", dpi=DPI * DENSITY)
    pixels = stream.getvalue()
    width = int(page.fig.get_size_inches()[0] * DPI * DENSITY)
    image = Image.frombytes("RGBA", (width, len(pixels) // (4 * width)), pixels).convert("RGB")
    image = image.quantize(96, dither=Image.Dither.NONE)
    about = PngInfo()
    about.add_itxt("Description", page.alt)
    stream = io.BytesIO()
    image.save(stream, "png", optimize=True, dpi=(DPI * DENSITY, DPI * DENSITY), pnginfo=about)
    return stream.getvalue()


def _show(page):
    """Put the page on the notebook, with its alt text; outside of one, in a window."""
    kernel = _kernel()
    if kernel is None:
        import matplotlib
        import matplotlib.pyplot as plt

        if matplotlib.get_backend().lower() == "agg":  # no screen: plt.show() would only warn
            print(page.alt)
        else:
            plt.show()
        return
    from IPython.display import display

    data = {"image/png": base64.b64encode(png(page)).decode(), "text/plain": page.plain or page.alt}
    about = {"alt": page.alt, "width": round(page.width), "height": round(page.height)}
    display(data, metadata={"image/png": about}, raw=True)


def _kernel():
    """The Jupyter kernel that this runs in, or None."""
    import sys

    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    return getattr(shell, "kernel", None)


def rect(ax, x, y, w, h, face, edge="none", lw=0.0, **options):
    """A rectangle, its first corner at (x, y)."""
    from matplotlib.patches import Rectangle

    # Not add_patch: a diagram's limits are set, and working them out for each cell takes most of the time.
    box = Rectangle((x, y), w, h, facecolor=face, edgecolor=edge, linewidth=lw, **options)
    ax.add_artist(box)


def caption(page, ax, x, y, name, detail):
    """What a part of a diagram is, in bold, and its size in grey."""
    ax.text(x, y, name, weight="bold")
    ax.text(x + page.text_width(name + "  ", weight="bold"), y, detail, color=MUTED)


def log_ticks(low, high, digits):
    """Round numbers between the two for a log axis: these digits, times powers of ten."""
    from matplotlib.ticker import LogLocator

    return [tick for tick in LogLocator(subs=digits, numticks=99).tick_values(low, high) if low <= tick <= high]


def cells(ax, x, y, rows, columns, cell, face, edge=FAINT, zorder=1.5):
    """A grid of square cells."""
    from matplotlib.collections import LineCollection

    if face != "none":
        rect(ax, x, y, columns * cell, rows * cell, face)
    right, bottom = x + columns * cell, y + rows * cell
    lines = [[(x + i * cell, y), (x + i * cell, bottom)] for i in range(columns + 1)]
    lines += [[(x, y + i * cell), (right, y + i * cell)] for i in range(rows + 1)]
    ax.add_artist(LineCollection(lines, colors=edge, linewidths=min(0.7, cell / 14), capstyle="butt", zorder=zorder))


def arrow(ax, x0, x1, y, color, lw):
    """A horizontal arrow."""
    ax.annotate(
        "", (x1, y), (x0, y), arrowprops={"arrowstyle": "-|>", "color": color, "lw": lw, "shrinkA": 0, "shrinkB": 0}
    )


def percent(share):
    """A share of 1 in words: "42 %", "3.1 %"."""
    return f"{share * 100:.0f} %" if share >= 0.0995 or share == 0 else f"{share * 100:.1f} %"
