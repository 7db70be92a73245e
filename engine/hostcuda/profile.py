"""The counters of a program's launches: the public name of `hostcuda.tools.profile`."""

from hostcuda.tools.profile import *  # noqa: F403
