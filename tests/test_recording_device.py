"""A card of the reader's own: what is measured of it becomes an entry that `lab.device` reads."""

import dataclasses
import sys
import tomllib

import pytest

from labkit.base.errors import LabError
from labkit.spec import devices
from recording import device as recorder

pytestmark = pytest.mark.thorough("recorders: only the makers of data/ run them")


def test_a_new_card_is_appended_and_found(tmp_path, monkeypatch, capsys):
    own_list = (devices.data_dir() / "devices.toml").read_text()
    (tmp_path / "devices.toml").write_text(own_list)
    monkeypatch.setitem(sys.modules, "torch", None)
    measured = recorder.measure_copies(1 << 16) | recorder.measure_products()
    assert set(measured) == {"copy_tb_s", "write_tb_s"} | {
        f"{way}_device_{kind}_gb_s" for way in ("to", "from") for kind in ("pinned", "pageable")
    }
    assert all(value > 0 for value in measured.values())
    card = dataclasses.replace(devices.device("H200"), name="NVIDIA Test", multiprocessors=40)
    (tmp_path / "devices.toml").write_text(
        own_list + recorder.write_entry(card, measured, 3.2e9, 256)
    )
    monkeypatch.setattr(devices, "data_dir", lambda: tmp_path)
    devices._find_listed.cache_clear()
    listed = devices.device("Test")
    assert (listed.name, listed.multiprocessors, listed.l2_bytes) == (
        "NVIDIA Test",
        40,
        card.l2_bytes,
    )
    assert listed.peak_bandwidth == pytest.approx(2 * 3.2e9 * 256 / 8)
    assert listed.ceilings["reference_bandwidth"] == pytest.approx(
        1e12 * measured["copy_tb_s"], rel=0.01
    )
    assert listed.link(pinned=False)[0] == pytest.approx(
        1e9 * measured["to_device_pageable_gb_s"], rel=0.01
    )
    assert devices.device("H200").multiprocessors == 132
    devices._find_listed.cache_clear()


def test_a_listed_card_and_a_processor_are_refused(monkeypatch):
    monkeypatch.setattr(
        devices, "device", lambda: dataclasses.replace(devices._find_listed("H200"), engine="cpu")
    )
    with pytest.raises(LabError, match="lists GPUs; the engine here is the CPU's"):
        recorder.device()
    monkeypatch.setattr(devices, "device", lambda: devices._find_listed("H200"))
    with pytest.raises(LabError, match="lists NVIDIA H200 already"):
        recorder.device()


def test_it_is_toml():
    text = recorder.write_entry(devices.device("H200"), {"copy_tb_s": 4.2}, 3.2e9, 256)
    (entry,) = tomllib.loads(text)["device"]
    assert entry["reference"]["bandwidth_tb_s"] == 4.2 and entry["compute_capability"] == [9, 0]
