"""Shared by all tests: the CPU engine unless told otherwise, and one cache of compiled kernels between runs."""

import os
import tempfile
from pathlib import Path

os.environ.setdefault("LABKIT_ENGINE", "cpu")
os.environ.setdefault("LABKIT_CACHE_DIR", str(Path(tempfile.gettempdir()) / f"labkit-tests-{os.getuid()}"))
