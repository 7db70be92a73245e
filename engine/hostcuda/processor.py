"""The processor of this machine. It is `hostcuda.util.processor`, under its public name."""

import sys

from hostcuda.util.processor import *  # noqa: F403  (for type checkers)

sys.modules[__name__] = sys.modules["hostcuda.util.processor"]
