"""Files that are complete or absent: the public name of `hostcuda.util.files`."""

from hostcuda.util.files import *  # noqa: F403
