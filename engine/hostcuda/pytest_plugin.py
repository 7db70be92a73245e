"""The pytest plugin. It is `hostcuda.tools.pytest_plugin`, under its public name."""

import sys

from hostcuda.tools.pytest_plugin import *  # noqa: F403  (for type checkers)

sys.modules[__name__] = sys.modules["hostcuda.tools.pytest_plugin"]
