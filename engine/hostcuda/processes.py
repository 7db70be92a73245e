"""A program in a process of its own. It is `hostcuda.tools.processes`, under its public name."""

import sys

from hostcuda.tools.processes import *  # noqa: F403  (for type checkers)

sys.modules[__name__] = sys.modules["hostcuda.tools.processes"]
