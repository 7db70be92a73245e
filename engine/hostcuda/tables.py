"""Tables for a notebook and a terminal. It is `hostcuda.util.tables`, under its public name."""

import sys

from hostcuda.util.tables import *  # noqa: F403  (for type checkers)

sys.modules[__name__] = sys.modules["hostcuda.util.tables"]
