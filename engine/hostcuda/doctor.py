"""What this machine has and lacks. It is `hostcuda.tools.doctor`, under its public name."""

import sys

from hostcuda.tools.doctor import *  # noqa: F403  (for type checkers)

sys.modules[__name__] = sys.modules["hostcuda.tools.doctor"]
