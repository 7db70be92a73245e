"""The colours of figures, by day and in their dark version: text has contrast, and lines stay apart for everybody."""

import io
import itertools
import re

import numpy as np
import pytest
from matplotlib.colors import to_hex
from PIL import Image

import labkit.draw as draw
from labkit.base.paths import PACKAGE
from labkit.draw import bars, heat, style
from labkit.draw.dark import GROUND, dark, darken

pytestmark = pytest.mark.thorough("figures, which the notebooks draw, too")


def linear(color):
    rgb = np.array([int(color[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)


def lab(rgb):
    """Return CIE L*a*b* of linear sRGB (IEC 61966-2-1, D65)."""
    xyz = (
        np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
        @ rgb
    )
    f = xyz / [0.9505, 1, 1.089]
    f = np.where(f > (6 / 29) ** 3, np.cbrt(f), f / (3 * (6 / 29) ** 2) + 4 / 29)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


# Complete dichromacy: Machado, Oliveira and Fernandes, IEEE TVCG 15(6), 2009, table 1, severity
# 1.0.
SIGHT = {
    "usual": np.eye(3),
    "protanopia": np.array(
        [
            [0.152286, 1.052583, -0.204868],
            [0.114503, 0.786281, 0.099216],
            [-0.003882, -0.048116, 1.051998],
        ]
    ),
    "deuteranopia": np.array(
        [
            [0.367322, 0.860646, -0.227968],
            [0.280085, 0.672501, 0.047413],
            [-0.011820, 0.042940, 0.968881],
        ]
    ),
    "tritanopia": np.array(
        [
            [1.255528, -0.076749, -0.178779],
            [-0.078411, 0.930809, 0.147602],
            [0.004733, 0.691367, 0.303900],
        ]
    ),
}


INKS = {
    style.INK,
    style.MUTED,
    style.AMBER,
    style.GREEN,
    *(style.READABLE.get(color, color) for color in style.CYCLE),
}


def night(*colors):
    """Return what the colours "#rrggbb" become."""
    return [
        f"#{bytes(rgb).hex()}" for rgb in darken([[*bytes.fromhex(color[1:])] for color in colors])
    ]


def contrast(*colors):
    """Return the contrast of WCAG 2.2, success criterion 1.4.3, which asks for 4.5."""
    dim, bright = sorted(np.array([0.2126, 0.7152, 0.0722]) @ linear(color) for color in colors)
    return (bright + 0.05) / (dim + 0.05)


@pytest.fixture(scope="module")
def figure(tmp_path_factory):
    """Draw a figure with text, lines, hatches and bars; return its PNG file."""
    path = tmp_path_factory.mktemp("dark") / "figure.png"
    draw.tile(16, 7, path=path)
    return path.read_bytes()


def pixels(picture):
    return np.asarray(Image.open(io.BytesIO(picture)).convert("RGB"))


def test_the_ground_is_that_of_the_dark_page():
    sheet = (PACKAGE / "notebooks" / "template" / "notebook" / "style.css").read_text()
    theme = sheet.partition("(prefers-color-scheme: dark)")[2]
    assert night(style.PAPER) == [GROUND] == re.findall(r"--paper: (#\w{6})", theme)[:1]


@pytest.mark.parametrize("ink", sorted(INKS))
def test_text_has_contrast(ink):
    assert contrast(ink, style.PAPER) >= 4.5
    assert contrast(*night(ink), GROUND) >= (7 if ink == style.INK else 4.5)


BARS = [
    style.BLUE,
    style.ORANGE,
    style.GREEN,
    style.RUST,
    style.SKY,
    style.PALE,
    style.TINT,
    style.WARM,
    style.FAINT,
    *bars._STALL_COLORS.values(),
    *bars._KIND_COLORS,
]


@pytest.mark.parametrize("face", sorted(set(BARS)))
def test_text_on_bars_has_contrast(face):
    """Ink stands on what is light by day and dark by night, paper on the others."""
    assert contrast(*night(face, style.ink_on(face))) >= 4.5


def test_text_on_heat_maps_has_contrast():
    """It is no less than by day, where a middling blue is worst: neither ink nor paper stands out on it."""
    faces = [to_hex(heat._COLORS(level)) for level in np.linspace(0, 1, 101)]
    by_day = min(contrast(face, style.ink_on(face)) for face in faces)
    assert min(contrast(*night(face, style.ink_on(face))) for face in faces) >= by_day > 3.5


@pytest.mark.parametrize("palette", [style.CYCLE, night(*style.CYCLE)], ids=["day", "night"])
@pytest.mark.parametrize("sight", SIGHT)
def test_colours_stay_apart_for_colour_blind_readers(sight, palette):
    """The lines of a chart differ by more than 30 in CIE76 for everybody (2.3 is just noticeable)."""
    colours = [lab(np.clip(SIGHT[sight] @ linear(color), 0, 1)) for color in palette]
    assert min(np.linalg.norm(a - b) for a, b in itertools.combinations(colours, 2)) > 30


def test_the_mapping_is_continuous_and_turns_lightness_round():
    """Smoothed edges are mixtures of two colours: neighbours have to stay neighbours."""
    for a, b in itertools.combinations([*style.CYCLE, style.GREEN, style.PAPER], 2):
        mixtures = np.linspace(*(255 * np.array(style.to_rgb(color)) for color in (a, b)), 400)
        assert np.abs(np.diff(darken(mixtures).astype(int), axis=0)).max() <= 12
    greys = darken([[level] * 3 for level in range(256)])
    assert (np.diff(greys.astype(int).sum(axis=1)) <= 0).all()


def test_only_the_palette_changes(figure):
    by_day, by_night = pixels(figure), pixels(dark(figure))
    colors, which = np.unique(by_day.reshape(-1, 3), axis=0, return_inverse=True)
    assert (darken(colors)[which.reshape(by_day.shape[:2])] == by_night).all()
    assert len(dark(figure)) < len(figure)


def test_a_blue_stays_blue():
    for color in (style.BLUE, style.SKY, style.PALE):
        red, _, blue = bytes.fromhex(night(color)[0][1:])
        assert blue > red + 40


def test_what_is_no_figure_has_no_dark_version(figure):
    photo = io.BytesIO()
    Image.open(io.BytesIO(figure)).convert("RGB").save(photo, "png")
    assert dark(photo.getvalue()) is None
    assert dark(b"stands for a picture") is None
