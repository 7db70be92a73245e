"""One thread of a launch, statement by statement: the public name of `hostcuda.tools.stepping`."""

from hostcuda.tools.stepping import *  # noqa: F403
