"""The lab's figures, in one style: each function draws one, on the page or into a file."""

from labkit.draw.access import coalescing, sectors
from labkit.draw.charts import op_times, time
from labkit.draw.evidence import bank_conflicts, banks, traffic
from labkit.draw.ideas import convolution, grid, images, network, tile
from labkit.draw.roof import roofline
from labkit.draw.rungs import ladder

__all__ = [
    "bank_conflicts",
    "banks",
    "coalescing",
    "convolution",
    "grid",
    "images",
    "ladder",
    "network",
    "op_times",
    "roofline",
    "sectors",
    "tile",
    "time",
    "traffic",
]
