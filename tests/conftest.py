"""Shared by all tests: the CPU engine unless told otherwise, and one cache of compiled kernels between runs."""

import gc
import os
import signal
import tempfile
from pathlib import Path

import pytest

os.environ.setdefault("LABKIT_ENGINE", "cpu")
os.environ.setdefault("LABKIT_CACHE_DIR", str(Path(tempfile.gettempdir()) / f"labkit-tests-{os.getuid()}"))
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in a shell's background, and what is started inherits it
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def no_collection():
    """For kernels that wait for one not yet launched: memory collected meanwhile would be freed, after both."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()
