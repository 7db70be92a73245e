"""The engine's environment variables: the public name of `hostcuda.util.settings`."""

from hostcuda.util.settings import *  # noqa: F403
