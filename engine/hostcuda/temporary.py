"""Temporary folders that are removed: the public name of `hostcuda.util.temporary`."""

from hostcuda.util.temporary import *  # noqa: F403
