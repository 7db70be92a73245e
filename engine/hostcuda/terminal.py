"""The frame of a command: the public name of `hostcuda.util.terminal`."""

from hostcuda.util.terminal import *  # noqa: F403
