"""The textbook kernels on fibers."""

import pytest
import test_textbook_corpus as textbook

from hostcuda.api import compiler, driver

pytestmark = pytest.mark.thorough("modes against each other: minutes")


@pytest.mark.thorough
@pytest.mark.parametrize("file", sorted({file for _, file, *_ in textbook.CASES}))
def test_textbook_kernels_run_on_fibers(monkeypatch, file):
    """Kernels that can run as thread loops do so by default, in test_textbook_corpus.py."""
    monkeypatch.setenv("HOSTCUDA_EXECUTION_MODE", "fibers")
    module = compiler.SourceModule(
        (textbook.CORPUS / file).read_text(), options=["-fmad=false"], no_extern_c=True
    )
    monkeypatch.setattr(textbook, "module", lambda _: module)
    monkeypatch.setattr(textbook, "cuda", driver)
    for case in textbook.CASES:
        if case[1] == file:
            for out in textbook.run(*case):
                out.check()
