"""The figures of counters: they show what was counted."""

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from hostcuda.metrics import COUNTED
from labkit import draw
from labkit.base.errors import LabError
from labkit.evidence.profile import VariantProfile

pytestmark = [pytest.mark.thorough("counters, which the notebooks show, too"), pytest.mark.filterwarnings("error")]


def profile(sectors=(800, 100), sites=()):
    rows = [
        {"variant": f"0{i} rung", "rung": i, "launch": i, "kernel": "conv", COUNTED["global_load_sectors"]: value,
         COUNTED["global_load_requests"]: value / 4, "source": "made up"}
        for i, value in enumerate(sectors)
    ]
    return VariantProfile(pd.DataFrame(rows), pd.DataFrame(list(sites)), "Source: made up.")


def said(path):
    return Image.open(path).text["Description"]


def test_traffic_says_by_how_much_it_changed(tmp_path):
    draw.traffic(profile(), path=tmp_path / "a.png")
    assert "00 rung: 800 sectors." in said(tmp_path / "a.png")
    assert "01 rung: 100 sectors, 8 × fewer." in said(tmp_path / "a.png")
    draw.traffic(profile((100, 250)), path=tmp_path / "b.png")
    assert "250 sectors, 2.5 × as many" in said(tmp_path / "b.png")


def test_traffic_without_counters_is_refused(tmp_path):
    with pytest.raises(LabError, match="made up"):
        draw.traffic(profile((0, 0)), path=tmp_path / "a.png")


@pytest.mark.parametrize(("words", "expected"), [
    (np.arange(32), "1 wavefront, no conflict, 32 of 32 banks used"),
    (np.zeros(32, int), "1 wavefront, no conflict, 1 of 32 banks used"),  # all want the same word
    (np.arange(32) * 32, "32 wavefronts, 31 of them conflicts, 1 of 32 banks used"),
    (np.arange(32) * 33, "1 wavefront, no conflict, 32 of 32 banks used"),
    (np.arange(32) * 2, "2 wavefronts, 1 of them conflicts, 16 of 32 banks used"),
    (np.where(np.arange(32) < 16, np.arange(32) * 2, -1), "1 wavefront, no conflict, 16 of 32 banks used"),
])
def test_banks(words, expected, tmp_path):
    draw.banks(words, path=tmp_path / "a.png")
    assert expected in said(tmp_path / "a.png")


@pytest.mark.parametrize("words", [np.full(4, -1), np.arange(33), np.zeros(3), np.zeros((2, 2), int)])
def test_what_is_no_warp_is_refused(words):
    with pytest.raises(LabError, match=r"draw\.banks"):
        draw.banks(words)


def test_bank_conflicts_name_the_line(tmp_path):
    sites = [
        {"variant": "04", "kernel": "conv", "file": "a.cu", "line": 41, "space": "shared", "op": "st", "requests": 10,
         "wavefronts": 10},
        {"variant": "04", "kernel": "conv", "file": "a.cu", "line": 48, "space": "shared", "op": "ld", "requests": 10,
         "wavefronts": 20},
        {"variant": "04", "kernel": "conv", "file": "a.cu", "line": 50, "space": "global", "op": "st", "requests": 10},
    ]
    draw.bank_conflicts(profile(sites=sites), path=tmp_path / "a.png")
    assert "04  line 41  store 1, 04  line 48  load 2" in said(tmp_path / "a.png")
    assert "line 50" not in said(tmp_path / "a.png")
    with pytest.raises(LabError, match="no access to shared memory"):
        draw.bank_conflicts(profile(sites=sites[2:]), path=tmp_path / "b.png")


@pytest.mark.parametrize("line", [None, 41])
def test_bank_conflicts_of_no_known_line_count(tmp_path, line):
    site = {"variant": "04", "kernel": "conv", "space": "shared", "op": "ld", "requests": 10}
    sites = [site | {"file": None, "line": None, "wavefronts": 30},
             site | {"file": "a.cu", "line": line, "wavefronts": 10}]
    draw.bank_conflicts(profile(sites=sites), path=tmp_path / "a.png")
    assert "04  line unknown  load 3" in said(tmp_path / "a.png")
    assert f"04  line {line or 'unknown'}  load 1" in said(tmp_path / "a.png")
