"""Tables for a notebook and a terminal: the public name of `hostcuda.util.tables`."""

from hostcuda.util.tables import *  # noqa: F403
