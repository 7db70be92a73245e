"""The loads and stores in a GPU's machine code (SASS), read from what nvdisasm prints. No GPU is needed."""

import re
import subprocess
from collections import Counter
from collections.abc import Sequence
from pathlib import Path, PurePath

import pandas as pd

from hostcuda import temporary
from hostcuda.errors import EngineError
from hostcuda.gpu import nsight, nvcc

_KERNEL = re.compile(r"^\.text\.(\w+):")
_PLACE = re.compile(r'//## File "([^"]*)", line (\d+)')
# /*0100*/ @!P0 STG.E [R2], R4 ;
_CODE = re.compile(r"/\*[0-9a-f]{4,}\*/\s+(@!?U?P\w+\s+)?([A-Z][\w.]*)")
_MEMORY = re.compile(r"(LD|ST|ATOM|RED)(S|G|L|)M?")
_SPACES = {"S": "shared", "G": "global", "L": "local", "": "generic"}
_OPS = {"LD": "ld", "ST": "st", "ATOM": "atom", "RED": "red"}
COLUMNS = ["kernel", "line", "instruction", "space", "op", "bytes", "predicated", "count"]


def disassemble(
    source: str, name: str, options: Sequence[str] = (), arch: str = nvcc.ARCH
) -> pd.DataFrame:
    """List the loads, stores and atomics in the machine code of a source.

    Raises EngineError if there is no nvcc or no nvdisasm, or nvcc refuses the source; the message
    has nvcc's message.

    Parameters
    ----------
    source : str
        CUDA C++.
    name : str
        The name of its file.
    options : sequence of str
        nvcc's options.
    arch : str
        The architecture, such as "sm_90".

    Returns
    -------
    DataFrame
        A row per kernel, line of the source and kind of instruction, with `COLUMNS`: ``bytes`` are
        those per lane; if ``predicated``, lanes or whole warps whose predicate is false make no
        access; ``count`` is that in the code: a loop that is not unrolled executes an instruction
        more than once.
    """
    with temporary.folder() as folder:
        cubin = folder / "kernel.cubin"
        nvcc.compile(source, name, options, arch, "-lineinfo", cubin=cubin)
        return pd.DataFrame(read_accesses(_run_nvdisasm(cubin), name), columns=COLUMNS)


def _run_nvdisasm(cubin: Path) -> str:
    """Return a compiled file's instructions, with the source lines of each, as nvdisasm prints them.

    Raises EngineError if there is no nvdisasm, or it cannot read the file.
    """
    nvdisasm = nsight.find("nvdisasm")
    if nvdisasm is None:
        raise EngineError(
            "reading machine code needs nvdisasm, which is not on this machine: "
            "pip install nvidia-cuda-nvdisasm"
        )
    result = subprocess.run([nvdisasm, "-gi", "-c", str(cubin)], capture_output=True, text=True)
    if result.returncode:
        raise EngineError(f"nvdisasm cannot read {cubin.name}: {result.stderr.strip()}")
    return result.stdout


def read_accesses(text: str, name: str) -> list[tuple]:
    """Return the rows of `disassemble`, tuples of `COLUMNS`, from the output of ``nvdisasm -gi -c``.

    The line is that of the file `name`, also where an instruction of another file is inlined there; 0 if there is none.
    Rows are sorted by kernel, line and instruction, those without a predicate first.
    """
    counts: Counter = Counter()
    # the source line of the next instruction, or 0; whether an instruction has followed that line
    kernel, line, has_followed = "", 0, True
    for row in text.splitlines():
        if section := _KERNEL.match(row):
            kernel, line = section[1], 0
        # '//## File "a.cu", line 3', several in a row for an inlined instruction, from the innermost
        # function to the kernel: the first one in this file counts, until an instruction follows
        elif place := _PLACE.search(row):
            line, has_followed = (0 if has_followed else line), False
            if PurePath(place[1]).name == name:
                line = line or int(place[2])
        elif code := _CODE.search(row):
            has_followed = True
            predicate, word = code.groups()
            # "LDG" of "LDG.E.128": group 1 is the operation, group 2 the memory
            if memory := _MEMORY.fullmatch(word.partition(".")[0]):
                space, op = _SPACES[memory[2]], _OPS[memory[1]]
                size = _count_bytes(word)
                counts[kernel, line, word, space, op, size, bool(predicate)] += 1
    rows = [(*key, count) for key, count in counts.items()]
    return sorted(rows, key=lambda row: (row[:3], row[6]))  # [6]: whether it has a predicate


def _count_bytes(word: str) -> int:
    """Return the bytes per lane that an instruction moves: 16 for LDG.E.128, 8 for REDG.E.ADD.F64.RN, 4 for LDS."""
    # LDSM.16.M88.4 loads 4 8x8 matrices of 16-bit elements: 4 bytes per lane each
    if word.startswith("LDSM"):
        return 4 * int(word[-1]) if word[-2:-1] == "." else 4
    width = re.search(r"\.[SUF]?(8|16|64|128)\b", word)
    return int(width[1]) // 8 if width else 4
