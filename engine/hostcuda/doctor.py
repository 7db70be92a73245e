"""What this machine has and lacks: the public name of `hostcuda.tools.doctor`."""

from hostcuda.tools.doctor import *  # noqa: F403
