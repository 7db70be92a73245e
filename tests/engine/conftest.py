"""Shared by the tests of the engine."""

import pytest

from labkit.cpu import compiler, driver


@pytest.fixture
def cpu_engine(request, monkeypatch):
    """The test's `cuda` and `SourceModule` are those of the CPU engine, whichever engine is in use."""
    monkeypatch.setattr(request.module, "cuda", driver)
    monkeypatch.setattr(request.module, "SourceModule", compiler.SourceModule)
