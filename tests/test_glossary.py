"""docs/glossary.md: each term once, in short paragraphs, with an anchor; and its figures are the lab's."""

import re
from pathlib import Path

import pytest

import labkit
from hostcuda import limits
from labkit.spec.layers import LENET28

pytestmark = pytest.mark.thorough("tools of the repository")

ROOT = Path(labkit.__file__).resolve().parent.parent
TEXT = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
TERMS = dict(re.findall(r"^### (.+)\n((?:(?!#).*\n)+)", TEXT, re.MULTILINE))
WANTED = (
    "warp",
    "lane",
    "sector",
    "request",
    "wavefront",
    "bank",
    "occupancy",
    "issue slot",
    "stall",
    "divergent",
    "fragment",
    "rung",
    "step",
    "floor",
    "reference time",
    "op time",
    "layer time",
    "halo",
    "im2col",
    "lenet28",
    "lenet72",
    "lenet86",
)


def test_each_term_is_defined_once_in_paragraphs_of_at_most_four_sentences():
    headings = re.findall(r"^### (.+)$", TEXT, re.MULTILINE)
    assert len(headings) == len(set(headings)) == len(TERMS)
    assert set(WANTED) <= set(TERMS)
    for term, words in TERMS.items():
        for paragraph in words.strip().split("\n\n"):
            assert 1 <= len(re.findall(r"[.](?=\s|$)", paragraph)) <= 4, term


def test_the_networks_are_the_presets():
    for preset in (labkit.LENET86, labkit.LENET72, LENET28):
        for layer in preset:
            assert re.search(
                rf"\b{layer.M}\s+maps\s+of\s+{layer.Ho}×{layer.Wo}\b", TERMS[preset.name]
            ), layer
            assert f"{layer.K}×{layer.K}" in TERMS[preset.name]


def test_the_figures_are_those_of_the_h200():
    rates = labkit.device("H200").measured
    for name, unit in (
        ("reference_bandwidth", "TB/s"),
        ("reference_float32", "TFLOP/s in FP32"),
        ("float16_gemm", "TFLOP/s in FP16"),
    ):
        assert f"{rates[name] / 1e12:g} {unit}" in TERMS["reference time"].replace("\n", " ")
    assert f"{rates['float32_ffma'] / 1e12:.1f} TFLOP/s were measured" in TERMS[
        "reference time"
    ].replace("\n", " ")
    assert (
        f"the {limits.MULTIPROCESSOR['sm_90']['warps']} warps that it can hold"
        in TERMS["occupancy"]
    )
    assert TERMS["sector"].startswith(f"{limits.SECTOR} bytes")
