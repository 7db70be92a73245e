"""The frame of a command. It is `hostcuda.util.terminal`, under its public name."""

import sys

from hostcuda.util.terminal import *  # noqa: F403  (for type checkers)

sys.modules[__name__] = sys.modules["hostcuda.util.terminal"]
