"""The figures of counters: they show what was counted."""

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from hostcuda.metrics import COUNTED
from labkit import draw
from labkit.base.errors import LabError
from labkit.draw import style
from labkit.evidence.profile import VariantProfile

pytestmark = [
    pytest.mark.thorough("counters, which the notebooks show, too"),
    pytest.mark.filterwarnings("error"),
]


def profile(sectors=(800, 100), sites=()):
    """Return a profile of a launch per number of `sectors`, with these `sites`."""
    rows = [
        {
            "variant": f"0{i} rung",
            "rung": i,
            "launch": i,
            "kernel": "conv",
            COUNTED["global_load_sectors"]: value,
            COUNTED["global_load_requests"]: value / 4,
            "source": "made up",
        }
        for i, value in enumerate(sectors)
    ]
    return VariantProfile(pd.DataFrame(rows), pd.DataFrame(list(sites)), "Source: made up.")


@pytest.fixture
def describe(tmp_path):
    """Return a function that draws a figure and returns its description."""

    def draw_and_read(figure, *arguments):
        figure(*arguments, path=tmp_path / "figure.png")
        return Image.open(tmp_path / "figure.png").text["Description"]

    return draw_and_read


@pytest.mark.parametrize(
    ("sectors", "change"),
    [((800, 100), "01 rung: 100 sectors, 8 × fewer."), ((100, 250), "250 sectors, 2.5 × as many")],
)
def test_traffic_says_by_how_much_it_changed(describe, sectors, change):
    assert change in describe(draw.traffic, profile(sectors))


@pytest.mark.parametrize(
    ("sectors", "title"),
    [
        ((800, 100), "01 rung moves 8 × fewer global sectors than 00 rung"),
        ((800, 800), "01 rung moves as many global sectors as 00 rung"),
        ((800, 0), "What the kernels ask of the memory"),
        ((0, 800), "What the kernels ask of the memory"),
    ],
)
def test_the_title_of_traffic_compares_with_no_zero(monkeypatch, sectors, title):
    titles = []
    monkeypatch.setattr(
        style, "save", lambda page, path: titles.append(page.fig.texts[0].get_text())
    )
    draw.traffic(profile(sectors), path="unused.png")
    assert titles == [title]


def test_traffic_without_counters_is_refused():
    with pytest.raises(LabError, match="made up"):
        draw.traffic(profile((0, 0)))


@pytest.mark.parametrize(
    ("words", "banks"),
    [
        (np.zeros(32, int), 1),  # all want the same word
        (np.where(np.arange(32) < 16, np.arange(32) * 2, -1), 16),
    ],
)
def test_lanes_that_share_a_word_or_take_no_part_do_not_conflict(describe, words, banks):
    """The pages draw lanes that do."""
    assert f"1 wavefront, no conflict, {banks} of 32 banks used" in describe(draw.banks, words)


@pytest.mark.parametrize(
    "words", [np.full(4, -1), np.arange(33), np.zeros(3), np.zeros((2, 2), int)]
)
def test_what_is_no_warp_is_refused(words):
    with pytest.raises(LabError, match=r"draw\.banks"):
        draw.banks(words)


SITE = {
    "variant": "04",
    "kernel": "conv",
    "file": "a.cu",
    "space": "shared",
    "op": "ld",
    "requests": 10,
}


def test_without_an_access_to_shared_memory_there_are_no_conflicts_to_draw():
    with pytest.raises(LabError, match="no access to shared memory"):
        draw.bank_conflicts(profile(sites=[SITE | {"line": 50, "space": "global"}]))


@pytest.mark.parametrize("line", [None, 41])
def test_bank_conflicts_of_no_known_line_count(describe, line):
    sites = [
        SITE | {"file": None, "line": None, "wavefronts": 30},
        SITE | {"line": line, "wavefronts": 10},
    ]
    description = describe(draw.bank_conflicts, profile(sites=sites))
    assert (
        "04  line unknown  load 3" in description
        and f"04  line {line or 'unknown'}  load 1" in description
    )
