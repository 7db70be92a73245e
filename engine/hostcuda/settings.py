"""The engine's environment variables. It is `hostcuda.util.settings`, under its public name."""

import sys

from hostcuda.util.settings import *  # noqa: F403  (for type checkers)

sys.modules[__name__] = sys.modules["hostcuda.util.settings"]
