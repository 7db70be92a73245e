"""Files that are complete or absent. It is `hostcuda.util.files`, under its public name."""

import sys

from hostcuda.util.files import *  # noqa: F403  (for type checkers)

sys.modules[__name__] = sys.modules["hostcuda.util.files"]
