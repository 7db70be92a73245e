"""Kernels give the same bits in both gears of the engine and in the reference, which shares nothing with it."""

import pytest
from differential.compare import CASES, compare, read

FILES = sorted(CASES.glob("*.cu"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_cases_agree_with_the_reference(path):
    results = compare(read(path))
    wrong = [f"{result.case.name}: {result.verdict}: {result.detail}" for result in results if result.verdict != "same"]
    assert not wrong, f"of {len(results)} cases of {path.name}, {len(wrong)} are wrong:\n" + "\n".join(wrong)
    assert any(result.gear == "loops" for result in results)
