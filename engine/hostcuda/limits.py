"""The limits of CUDA devices: CUDA C++ Programming Guide, "Compute Capabilities".

The CPU engine has the same.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

WARP = 32  # threads
MULTIPROCESSORS = 132  # of an H200: how many blocks a cooperative launch may have
SECTOR = 32  # bytes: the unit in which L1, L2 and device memory move data
BANKS = 32  # banks of shared memory, each 4 bytes wide

MAX_THREADS = 1024  # per block
MAX_BLOCK = (1024, 1024, 64)  # threads in x, y, z
MAX_GRID = (2**31 - 1, 65535, 65535)  # blocks in x, y, z
CONSTANT_BYTES = 64 * 1024
SHARED_BYTES = 48 * 1024  # per block, without opt-in
SHARED_OPT_IN_BYTES = 227 * 1024  # per block, with opt-in, on compute capability 9.0

REGISTER_UNIT = 256  # a warp's registers are allocated in multiples of this
WARP_UNIT = 4  # a multiprocessor has four partitions with registers of their own
SHARED_UNIT = 128  # bytes: a block's shared memory is allocated in multiples of this
# of a block's shared memory, reserved by the driver from compute capability 8.0 on
DRIVER_BYTES = 1024
_BLOCKS = {(7, 5): 16, (8, 6): 16, (8, 7): 16, (8, 9): 24, (11, 0): 24, (12, 0): 24, (12, 1): 24}


def of_capability(major: int, minor: int) -> dict[str, int]:
    """Return the limits of a multiprocessor that follow from the compute capability, `major`.`minor`, alone.

    Returns
    -------
    dict
        ``blocks``: the largest number of blocks that are resident at once; ``drivers``: the bytes of
        shared memory that the driver reserves per block, from compute capability 8.0 on.
    """
    return {"blocks": _BLOCKS.get((major, minor), 32), "drivers": DRIVER_BYTES if major >= 8 else 0}


# Per multiprocessor, by the architecture that nvcc compiles for.
MULTIPROCESSOR = {
    "sm_75": {"warps": 32, "registers": 65536, "shared": 64 * 1024, **of_capability(7, 5)},
    "sm_80": {"warps": 64, "registers": 65536, "shared": 164 * 1024, **of_capability(8, 0)},
    "sm_86": {"warps": 48, "registers": 65536, "shared": 100 * 1024, **of_capability(8, 6)},
    "sm_89": {"warps": 48, "registers": 65536, "shared": 100 * 1024, **of_capability(8, 9)},
    "sm_90": {"warps": 64, "registers": 65536, "shared": 228 * 1024, **of_capability(9, 0)},
}


def occupancy(threads: int, registers: int, shared: int, limits: Mapping[str, int]) -> float:
    """Return the share of a multiprocessor's warps that can be resident, 0 to 1, as CUDA's occupancy calculator does.

    Parameters
    ----------
    threads : int
        Threads per block.
    registers : int
        Registers per thread.
    shared : int
        Bytes of shared memory per block, static and dynamic.
    limits : mapping
        The limits of a multiprocessor, as in `MULTIPROCESSOR`.
    """
    warps = math.ceil(threads / WARP)
    # registers, warps and shared memory are allocated in units
    registers_per_warp = math.ceil(registers * WARP / REGISTER_UNIT) * REGISTER_UNIT
    warps_by_registers = (
        limits["registers"] // registers_per_warp // WARP_UNIT * WARP_UNIT
        if registers
        else limits["warps"]
    )
    # "drivers": the bytes that the driver takes per block
    shared_per_block = math.ceil((shared + limits["drivers"]) / SHARED_UNIT) * SHARED_UNIT
    blocks = min(
        limits["blocks"],
        min(limits["warps"], warps_by_registers) // warps,
        limits["shared"] // max(shared_per_block, 1),
    )
    return blocks * warps / limits["warps"]
