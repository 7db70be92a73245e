"""One thread of a launch, statement by statement. It is `hostcuda.tools.stepping`, under its public name."""

import sys

from hostcuda.tools.stepping import *  # noqa: F403  (for type checkers)

sys.modules[__name__] = sys.modules["hostcuda.tools.stepping"]
