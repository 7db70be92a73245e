"""Temporary folders that are removed. It is `hostcuda.util.temporary`, under its public name."""

import sys

from hostcuda.util.temporary import *  # noqa: F403  (for type checkers)

sys.modules[__name__] = sys.modules["hostcuda.util.temporary"]
