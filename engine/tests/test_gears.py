"""Thread loops against fibers: generated kernels and the textbook kernels give the same bits in both gears."""

import runpy
from pathlib import Path

import numpy as np
import pytest
import test_textbook_corpus as textbook
from generated import source

from hostcuda.api import compiler, driver

pytestmark = pytest.mark.thorough("gears against each other: minutes")

BLOCKS, WIDTHS = 3, {False: 48, True: 80}  # not a multiple of a vector's length; with warp functions, of a warp's
GEARS = ("fibers", "loops")


def modules(text, monkeypatch):
    """Compile the text in each gear, without fused operations: docs/gears.md tells why."""
    modules_by_gear = {}
    for gear in GEARS:
        monkeypatch.setenv("HOSTCUDA_GEAR", gear)
        modules_by_gear[gear] = compiler.SourceModule(text, options=["-fmad=false"], no_extern_c=True)
    return modules_by_gear


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.thorough) for seed in range(1, 13))])
@pytest.mark.parametrize("warps", [False, True], ids=["barriers", "warps"])
def test_generated_kernels_give_the_same_bits(monkeypatch, seed, warps):
    count, width = 2 if warps else 4, WIDTHS[warps]
    both = modules(source(seed, count, width, warps), monkeypatch)
    split = 0
    for name in (f"k{i}" for i in range(count)):
        split += both["loops"].get_function(name).gear == "loops"
        for n in (3, 10):
            data = np.random.default_rng(n).integers(0, 1 << 32, 64, np.uint32)
            out = {gear: np.zeros((BLOCKS, width), np.uint32) for gear in GEARS}
            for gear in GEARS:
                arguments = driver.InOut(out[gear]), driver.In(data), np.uint32(n)
                both[gear].get_function(name)(*arguments, grid=(BLOCKS, 1), block=(width, 1, 1))
            np.testing.assert_array_equal(out["loops"], out["fibers"], err_msg=f"{name}, n={n}")
    assert split > 0


def test_the_page_says_which_kernel_runs_in_which_gear():
    pytest.importorskip("labkit", reason="the page has the ladder's kernels, too")
    benchmark = runpy.run_path(str(Path(__file__).parents[1] / "benchmarks" / "gears.py"))
    assert benchmark["table"]() in benchmark["PAGE"].read_text(encoding="utf-8"), "run benchmarks/gears.py --write"


@pytest.mark.thorough
@pytest.mark.parametrize("file", sorted({file for _, file, *_ in textbook.CASES}))
def test_textbook_kernels_run_on_fibers(monkeypatch, file):
    """Kernels that can run as thread loops do so by default, in test_textbook_corpus.py."""
    module = modules((textbook.CORPUS / file).read_text(), monkeypatch)["fibers"]
    monkeypatch.setattr(textbook, "module", lambda _: module)
    monkeypatch.setattr(textbook, "cuda", driver)
    for case in textbook.CASES:
        if case[1] == file:
            for out in textbook.run(*case):
                out.check()
