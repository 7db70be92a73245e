"""The errors of a program's kernels: the public name of `hostcuda.tools.sanitize`."""

from hostcuda.tools.sanitize import *  # noqa: F403
