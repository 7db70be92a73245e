"""The processor of this machine: the public name of `hostcuda.util.processor`."""

from hostcuda.util.processor import *  # noqa: F403
