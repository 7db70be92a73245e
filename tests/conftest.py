"""Shared by all tests: the CPU engine unless told otherwise, and one cache of compiled kernels between runs."""

import gc
import os
import tempfile
from pathlib import Path

import pytest

os.environ.setdefault("LABKIT_ENGINE", "cpu")
os.environ.setdefault("LABKIT_CACHE_DIR", str(Path(tempfile.gettempdir()) / f"labkit-tests-{os.getuid()}"))


@pytest.fixture
def no_collection():
    """For kernels that wait for one not yet launched: memory collected meanwhile would be freed, after both."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()
