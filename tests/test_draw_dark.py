"""The dark version of a figure: its text has contrast, its colours stay apart, and nothing but the palette changes."""

import io
import itertools
import re

import numpy as np
import pytest
from matplotlib.colors import to_hex
from PIL import Image
from test_draw import INKS, SIGHT, lab, linear

import labkit.draw as draw
from labkit.base.paths import PACKAGE
from labkit.draw import bars, heat, style
from labkit.draw.dark import GROUND, dark, darken

pytestmark = pytest.mark.thorough("figures, which the notebooks draw, too")


def night(*colors):
    """Return what the colours "#rrggbb" become."""
    return [f"#{bytes(rgb).hex()}" for rgb in darken([[*bytes.fromhex(color[1:])] for color in colors])]


def contrast(*colors):
    """Return the contrast of WCAG 2.2, success criterion 1.4.3."""
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
    assert contrast(*night(ink), GROUND) >= (7 if ink == style.INK else 4.5)


BARS = [style.BLUE, style.ORANGE, style.GREEN, style.RUST, style.SKY, style.PALE, style.TINT, style.WARM, style.FAINT,
        *bars._STALL_COLORS.values(), *bars._KIND_COLORS]


@pytest.mark.parametrize("face", sorted(set(BARS)))
def test_text_on_bars_has_contrast(face):
    """Ink stands on what is light by day and dark by night, paper on the others."""
    assert contrast(*night(face, style.ink_on(face))) >= 4.5


def test_text_on_heat_maps_has_contrast():
    """It is no less than by day, where a middling blue is worst: neither ink nor paper stands out on it."""
    faces = [to_hex(heat._COLORS(level)) for level in np.linspace(0, 1, 101)]
    by_day = min(contrast(face, style.ink_on(face)) for face in faces)
    assert min(contrast(*night(face, style.ink_on(face))) for face in faces) >= by_day > 3.5


@pytest.mark.parametrize("sight", SIGHT)
def test_colours_stay_apart_for_colour_blind_readers(sight):
    """As by day, they differ by more than 30 in CIE76."""
    colours = [lab(np.clip(SIGHT[sight] @ linear(color), 0, 1)) for color in night(*style.CYCLE)]
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
