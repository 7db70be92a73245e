"""The figures of counters: what they say is what was counted."""

import numpy as np
import pandas as pd
import pytest
from PIL import Image

import labkit
from hostcuda.metrics import COUNTED, NAMES
from labkit import draw
from labkit.base.errors import LabError
from labkit.draw.roof import of_profile
from labkit.evidence.profile import Profile
from labkit.spec.layers import LENET86

pytestmark = pytest.mark.filterwarnings("error")


def profile(sectors=(800, 100), sites=()):
    rows = [
        {"variant": f"0{i} rung", "rung": i, "launch": i, "kernel": "conv", COUNTED["global_load_sectors"]: value,
         COUNTED["global_load_requests"]: value / 4, "source": "made up"}
        for i, value in enumerate(sectors)
    ]
    return Profile(pd.DataFrame(rows), pd.DataFrame(list(sites)), "Source: made up.")


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


def test_a_real_profile_is_drawn(tmp_path):
    found = labkit.profile([3, 4], labkit.Layer("odd", 2, 11, 13, 3, 3), engine="cpu")
    draw.traffic(found, path=tmp_path / "a.png")
    draw.bank_conflicts(found, path=tmp_path / "b.svg")
    assert "04 tiling" in said(tmp_path / "a.png") and (tmp_path / "b.svg").stat().st_size > 1000


# ------------------------------------------------------------------------------------------------------- the roofline
def counted(column, moved, sectors, layer=LENET86[0], batch=2):
    """A profile of two variants, the first in two launches."""
    rows = [
        {"variant": label, "rung": 1, "launch": i, "kernel": "conv", NAMES[column]: value, "source": "made up",
         COUNTED["global_load_sectors"]: asked}
        for i, (label, value, asked) in enumerate(zip(["05 gemm", "05 gemm", "06 fusion"], moved, sectors, strict=True))
    ]
    return Profile(pd.DataFrame(rows), pd.DataFrame(), "Source: made up.", layer=layer, batch=batch)


def times(*labels):
    return pd.DataFrame([
        {"label": label, "layer": LENET86[0].name, "batch": batch, "dtype": "float32", "device": "NVIDIA H200",
         "gflop_s": 1000.0 * batch + i}
        for i, label in enumerate(labels) for batch in (1, 5)
    ])


@pytest.mark.parametrize(("column", "words"), [("unique_bytes", "counted on the CPU engine"), ("dram_bytes", "by ncu")])
def test_a_profile_s_points_stand_at_its_counted_bytes(column, words, tmp_path):
    flops = LENET86[0].flops(2)
    found = counted(column, [flops / 10, flops / 40, flops / 20], [flops / 32, flops / 32, flops / 64])
    draw.roofline(found, times=times("06 fusion", "01 other", "05 gemm"), path=tmp_path / "a.png")
    text = said(tmp_path / "a.png")
    assert "05 gemm: 8 FLOP per byte, 5,002 GFLOP/s" in text  # of both launches together
    assert "06 fusion: 20 FLOP per byte, 5,000 GFLOP/s" in text and "other" not in text
    assert "requested from the L1 cache: 0.5 FLOP per byte, 2 FLOP per byte." in text
    assert words in of_profile(found, times("05 gemm", "06 fusion"))[1]


def test_a_profile_without_times_or_bytes_is_refused():
    found = counted("unique_bytes", [1, 1, 1], [1, 1, 1])
    with pytest.raises(LabError, match="times=recorded"):
        draw.roofline(found)
    with pytest.raises(LabError, match="06 fusion are not in the table, which has those of 05 gemm"):
        draw.roofline(found, times=times("05 gemm"))
    with pytest.raises(LabError, match="no bytes"):
        draw.roofline(counted("registers", [1, 1, 1], [1, 1, 1]), times=times("05 gemm", "06 fusion"))
    with pytest.raises(LabError, match="knows its layer"):
        draw.roofline(profile(), times=times("05 gemm"))


def test_the_ladder_s_profile_meets_its_recorded_times(tmp_path):
    """im2col writes a matrix and the product reads it: 05 moves more than 06, which never writes it."""
    found = labkit.profile([5, 6], LENET86[0], engine="cpu")
    data, _ = of_profile(found, labkit.recorded("H200"))
    intensity = data.rows.groupby("label")["flop_per_byte"].first()
    assert intensity["05 unroll gemm"] < intensity["06 fusion"] / 10
    assert intensity["06 fusion"] == pytest.approx(LENET86[0].intensity(np.float32, 1))  # everything once
