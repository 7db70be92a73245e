"""A program in a process of its own: the public name of `hostcuda.tools.processes`."""

from hostcuda.tools.processes import *  # noqa: F403
