"""Charts of training: titles and words match the figures that are given, and nothing overlaps."""

import numpy as np
import pandas as pd
import pytest
from test_draw import collisions, texts

from labkit import LabError, draw
from labkit.draw import style

pytestmark = [pytest.mark.thorough("figures, which the notebooks draw, too"), pytest.mark.filterwarnings("error")]

KERNELS = pd.DataFrame(
    [("fp_c1", "loops", 3.1, 8.26), ("fp_c1", "atomics", 7.2, 12.16), ("fp_c1", "shared mask + input", 2.5, 6.69),
     ("bp_weight_c1", "loops", 150.0, 271.81), ("bp_weight_c1", "shuffle", 3.0, np.nan)],
    columns=["kernel", "label", "us", "published_us"],
)
EPOCHS = np.arange(21)
CURVES = {"1 image, rate 0.1": pd.Series(0.96 - 0.86 * np.exp(-EPOCHS), EPOCHS),
          "100 images, rate 0.1": pd.Series(0.9 - 0.8 * np.exp(-EPOCHS / 3), EPOCHS)}
LINES = {"minibatch": pd.Series({1: 1.7, 10: 0.17, 1000: 0.009, 10_000: 0.008}),
         "deterministic": pd.Series({1: 1.75, 10: 0.18, 1000: 0.012, 10_000: 0.01})}
SHARES = [4**n for n in range(10)]
CONTENTION = pd.DataFrame({"neighbours": np.linspace(20, 6400, 10), "apart": np.linspace(20, 6000, 10)}, SHARES)


@pytest.fixture
def page(monkeypatch, tmp_path):
    pages = []
    save = style.save
    monkeypatch.setattr(style, "save", lambda page, path: (pages.append(page), save(page, path)))

    def call(function, *arguments, **options):
        function(*arguments, **options, path=tmp_path / "figure.png")
        assert not collisions(pages[-1])
        assert pages[-1].alt and pages[-1].plain and not any(letter.isdigit() for letter in pages[-1].plain)
        return pages[-1]

    return call


def title(page):
    return page.fig.texts[0].get_text()


def test_kernel_times(page):
    figure = page(draw.kernel_times, KERNELS, device="NVIDIA H200")
    assert title(figure) == "bp_weight_c1: loops take 50 times as long as shuffle"
    assert "fp_c1, loops: 3.10, published 8.26." in figure.alt and "bp_weight_c1, shuffle: 3.00." in figure.alt
    assert {"NVIDIA H200", "272", "3.10", "shared mask + input"} <= set(texts(figure))
    with pytest.raises(LabError, match="lacks published_us"):
        draw.kernel_times(KERNELS.drop(columns="published_us"))


def test_accuracies(page):
    figure = page(draw.accuracies, CURVES)
    assert title(figure) == "1 image, rate 0.1: 96.0% in the end"
    assert "100 images, rate 0.1: 10.0% at 0, 89.9% at 20." in figure.alt
    with pytest.raises(LabError, match="two accuracies"):
        draw.accuracies({"one": pd.Series([0.5])})


def test_epoch_times(page):
    figure = page(draw.epoch_times, LINES, {"report 001": 4.8, "one launch": 0.5}, device="NVIDIA H200")
    assert title(figure) == "Steps of 10,000 images: an epoch 210 times as fast as with 1"
    assert "report 001: 4.8 s." in figure.alt and "minibatch: 1.7 s with 1, 0.17 s with 10" in figure.alt
    page(draw.epoch_times, LINES)
    with pytest.raises(LabError, match="two batches"):
        draw.epoch_times({})


def test_contention(page):
    figure = page(draw.contention, CONTENTION, device="NVIDIA H200")
    assert title(figure) == "262,144 threads per address: 320 times as long as with 1"
    assert "apart: 20 with 1" in figure.alt
    with pytest.raises(LabError, match="two numbers of threads"):
        draw.contention(CONTENTION.iloc[:1])
