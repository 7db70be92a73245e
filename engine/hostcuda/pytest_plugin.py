"""The pytest plugin: the public name of `hostcuda.tools.pytest_plugin`."""

from hostcuda.tools.pytest_plugin import *  # noqa: F403
