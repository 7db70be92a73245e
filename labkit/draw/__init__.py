"""The lab's figures, in one style: each function draws one, on the page or into a file."""

from labkit.draw.access import coalescing, sectors
from labkit.draw.charts import time
from labkit.draw.constant import constant_budget, constant_divergence, constant_reads
from labkit.draw.evidence import bank_conflicts, banks, traffic
from labkit.draw.gantt import chunk_sizes, gantt
from labkit.draw.heat import heatmap
from labkit.draw.ideas import convolution, grid, images, network, tile
from labkit.draw.matrices import fused_index, gemm_tiles, im2col, kernels
from labkit.draw.outputs import outputs_per_thread
from labkit.draw.precision import rounding, running_sum
from labkit.draw.registers import instructions, occupancy
from labkit.draw.roof import roofline
from labkit.draw.rungs import ladder
from labkit.draw.squares import squares
from labkit.draw.stalls import stalls
from labkit.draw.tensor import wmma_fill
from labkit.draw.tiling import tilings

__all__ = [
    "bank_conflicts",
    "banks",
    "chunk_sizes",
    "coalescing",
    "constant_budget",
    "constant_divergence",
    "constant_reads",
    "convolution",
    "fused_index",
    "gantt",
    "gemm_tiles",
    "grid",
    "heatmap",
    "im2col",
    "images",
    "instructions",
    "kernels",
    "ladder",
    "network",
    "occupancy",
    "outputs_per_thread",
    "roofline",
    "rounding",
    "running_sum",
    "sectors",
    "squares",
    "stalls",
    "tile",
    "tilings",
    "time",
    "traffic",
    "wmma_fill",
]
