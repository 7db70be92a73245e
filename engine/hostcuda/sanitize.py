"""The errors of a program's kernels. It is `hostcuda.tools.sanitize`, under its public name."""

import sys

from hostcuda.tools.sanitize import *  # noqa: F403  (for type checkers)

sys.modules[__name__] = sys.modules["hostcuda.tools.sanitize"]
