"""Shared by the tests of all packages but the engine.

They use the CPU engine unless told otherwise, and one cache of compiled kernels between runs.
"""

import importlib.util
import os
import shutil
import signal
import tempfile
from pathlib import Path

import pytest
from suites import pytest_ignore_collect, pytest_pycollect_makeitem, pytest_terminal_summary  # noqa: F401 - hooks

import hostcuda
from hostcuda import settings

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")

if not settings.variable("ENGINE")[1]:
    os.environ["HOSTCUDA_ENGINE"] = "cpu"
os.environ.setdefault(
    "LABKIT_CACHE_DIR", str(Path(tempfile.gettempdir()) / f"labkit-tests-{os.getuid()}")
)
# no line of progress in the outputs of pages that a slow machine compares
os.environ.setdefault("TQDM_DISABLE", "1")
# as in a shell's background, and what is started inherits it
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


class Buffers(list):
    """Device buffers in the order of their allocation, kept here so that only `free` frees them."""

    def all_freed(self):
        """Return whether each buffer was freed.

        Free memory would not tell: other processes share a GPU.
        """
        for buffer in self:
            with pytest.raises(hostcuda.driver.LogicError):  # a second time
                buffer.free()
        return len(self) > 0


@pytest.fixture
def buffers(monkeypatch):
    """Record the device buffers that the test allocates."""
    record, mem_alloc = Buffers(), hostcuda.driver.mem_alloc

    def keep(size):
        record.append(mem_alloc(size))
        return record[-1]

    monkeypatch.setattr(hostcuda.driver, "mem_alloc", keep)
    return record


@pytest.fixture(scope="module")
def chromium():
    """Yield a browser, driven by Playwright; `make browser` installs it."""
    for package in ("playwright", "axe_playwright_python"):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed: `make browser` adds it")
    executable = next(filter(None, map(shutil.which, BROWSERS)), None)
    if not executable:
        pytest.skip(
            f"no browser found, neither {' nor '.join(BROWSERS)}: on Debian, apt install chromium"
        )
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        root = hasattr(os, "geteuid") and os.geteuid() == 0  # for whom Chromium has no sandbox
        browser = playwright.chromium.launch(
            executable_path=executable, args=["--no-sandbox"] if root else []
        )
        yield browser
        browser.close()
