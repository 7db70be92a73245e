"""The counters of a program's launches. It is `hostcuda.tools.profile`, under its public name."""

import sys

from hostcuda.tools.profile import *  # noqa: F403  (for type checkers)

sys.modules[__name__] = sys.modules["hostcuda.tools.profile"]
