"""Figures from nvcc for each kernel: registers, spills, shared memory, occupancy, loads and stores in the machine code.

They need no GPU.
"""

from __future__ import annotations

import math
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pandas as pd

from hostcuda import temporary
from hostcuda.errors import EngineError
from hostcuda.gpu import nsight
from hostcuda.host.toolchain import demangled
from hostcuda.limits import MULTIPROCESSOR, occupancy

ARCH = "sm_90"
_TARGET = re.compile(r"--?(arch|gpu-architecture|code|gpu-code|gencode|generate-code)(=.*)?")
_ENTRY = re.compile(r"Compiling entry function '(\w+)' for '(\w+)'")
_SPILLS = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(r"Used (\d+) registers")
_SHARED = re.compile(r"(\d+) bytes smem")


def occupancy_of(facts: Mapping[str, int], block: Sequence[int], dynamic: int, arch: str = ARCH) -> float:
    """The share of a multiprocessor's warps that can be resident.

    Parameters
    ----------
    facts : mapping
        Of a kernel, as returned by `read_ptxas`.
    block : sequence of int
    dynamic : int
        Bytes of dynamic shared memory per block.
    arch : str
        One of `hostcuda.limits.MULTIPROCESSOR`.
    """
    return occupancy(math.prod(block), facts["registers"], facts["shared_bytes"] + dynamic, MULTIPROCESSOR[arch])


def of_modules(modules: Iterable[Mapping], arch: str = ARCH) -> tuple[dict[str, dict], list[str]]:
    """Compile many modules with nvcc, in parallel and each distinct one once.

    Parameters
    ----------
    modules : iterable of mapping
        As recorded by the CPU engine's check mode: ``module`` (a name), ``source``, ``options``, ``include_dirs``.
    arch : str
        Used instead of an architecture among the options.

    Returns
    -------
    kernels : dict
        Name of the module -> the result of `read_ptxas`.
    refused : list of str
        The first error of each source that nvcc refuses.
    """
    modules = list(modules)
    keys = {each["module"]: (each["source"], *_untargeted(each["options"]), *(f"-I{d}" for d in each["include_dirs"]))
             for each in modules}
    kernels, refused = {}, []
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        jobs = {key: pool.submit(compile, key[0], "kernel.cu", key[1:], arch, "-Xptxas", "-v")
                for key in set(keys.values())}
        for key, job in jobs.items():
            try:
                kernels[key] = _by_plain_names(read_ptxas(job.result()))
            except EngineError as error:
                lines = str(error).splitlines()
                refused.append(next((line for line in lines if "error" in line), lines[0]))
    return {name: kernels.get(key, {}) for name, key in keys.items()}, refused


def _by_plain_names(kernels: dict[str, dict]) -> dict[str, dict]:
    """Kernels by their symbols, and by their names in the source if these are unique."""
    result = dict(kernels)
    for symbol in kernels:
        if symbol.startswith("_Z"):
            name = re.sub(r"^void |\(.*", "", demangled(symbol))
            result[name] = {} if name in result else kernels[symbol]
    return result


def _untargeted(options: Iterable[str]) -> Iterator[str]:
    """nvcc's options without those that name a GPU."""
    words = iter(options)
    for word in words:
        target = _TARGET.fullmatch(word)
        if not target:
            yield word
        elif not target[2]:
            next(words, None)


def disassemble(source: str, name: str, options: Sequence[str] = (), arch: str = ARCH) -> pd.DataFrame:
    """The loads, stores and atomics in the machine code of a source.

    Parameters
    ----------
    source : str
        CUDA C++.
    name : str
        Its file name.
    options : sequence of str
        For nvcc.
    arch : str

    Returns
    -------
    DataFrame
        A row per kernel, line of the source and kind of instruction: kernel, line, instruction ("LDS.128"), space
        ("global", "shared", "local", "generic"), op ("ld", "st", "atom", "red"), bytes (per lane), predicated (lanes or
        whole warps whose predicate is false make no access), count (in the code: a loop that is not unrolled executes
        an instruction more than once).

    Raises
    ------
    EngineError
        If there is no nvcc or no nvdisasm, or nvcc refuses the source; the message has nvcc's.
    """
    nvdisasm = nsight.find("nvdisasm")
    if nvdisasm is None:
        raise EngineError("reading machine code needs nvdisasm, which is not on this machine: install the CUDA toolkit")
    with temporary.folder() as folder:
        cubin = folder / "kernel.cubin"
        compile(source, name, options, arch, "-lineinfo", cubin=cubin)
        done = subprocess.run([nvdisasm, "-gi", "-c", str(cubin)], capture_output=True, text=True)
    if done.returncode:
        raise EngineError(f"nvdisasm cannot read {name}: {done.stderr.strip()}")
    return pd.DataFrame(read_sass(done.stdout, name))


def nvcc_available() -> bool:
    """Whether there is an nvcc."""
    return shutil.which("nvcc") is not None


def nvcc_version() -> str:
    """ "nvcc 13.0.88" """
    output = subprocess.run([_nvcc(), "--version"], capture_output=True, text=True).stdout
    return f"nvcc {version[1]}" if (version := re.search(r"\bV([\d.]+)", output)) else "nvcc"


def _nvcc() -> str:
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        raise EngineError("registers and spills need nvcc, which is not on this machine: install the CUDA toolkit")
    return nvcc


def compile(
    source: str, name: str, options: Iterable[str], arch: str, *more: str, cubin: Path | None = None
) -> str:
    """Compile with nvcc, into `cubin` if it is given; return what nvcc prints.

    Raises
    ------
    EngineError
        There is no nvcc, or it refuses the source; the message has nvcc's.
    """
    with temporary.folder() as folder:
        path = folder / "kernel.cu"
        path.write_text(f'#line 1 "{name}"\n{source}')
        command = [_nvcc(), *options, f"-arch={arch}", "-cubin", *more, "-o", str(cubin or path.with_suffix(".cubin")),
                   str(path)]
        done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise EngineError(f"nvcc refuses {name}:\n{done.stderr.strip()}")
    return done.stderr


def read_ptxas(text: str) -> dict[str, dict]:
    """Registers, stack, spills and static shared memory of each kernel in the output of ``-Xptxas -v``."""
    kernels: dict[str, dict] = {}
    facts: dict = {}
    for line in text.splitlines():
        if match := _ENTRY.search(line):
            facts = kernels.setdefault(match[1], {"registers": 0, "stack_bytes": 0, "spill_store_bytes": 0,
                                                  "spill_load_bytes": 0, "shared_bytes": 0})
        elif match := _SPILLS.search(line):
            names = ("stack_bytes", "spill_store_bytes", "spill_load_bytes")
            facts.update(zip(names, map(int, match.groups()), strict=True))
        elif match := _USED.search(line):
            facts["registers"] = int(match[1])
            shared = _SHARED.search(line)
            facts["shared_bytes"] = int(shared[1]) if shared else 0
    return kernels


_SECTION = re.compile(r"^\.text\.(\w+):")
_PLACE = re.compile(r'//## File "([^"]*)", line (\d+)')
_MEMORY = re.compile(r"/\*[0-9a-f]+\*/\s+(@!?U?P\w+\s+)?((LDSM|LDS|STS|ATOMS|LDG|STG|ATOMG|ATOM|REDG|RED|LDL|STL|LD|ST)"
                     r"(?:\.[\w.]+)?)\s")
_SPACES = {"S": "shared", "G": "global", "L": "local", "": "generic"}
_OPS = {"LD": "ld", "ST": "st", "ATOM": "atom", "RED": "red"}


def read_sass(text: str, name: str) -> list[dict]:
    """The loads, stores and atomics in the output of ``nvdisasm -gi -c``, in the columns of `disassemble`.

    The line is that of the file `name`, also for an instruction of another file that is inlined there.
    """
    rows: dict[tuple, dict] = {}
    kernel, places, begun = "", [], True
    for text_line in text.splitlines():
        if section := _SECTION.match(text_line):
            kernel, places = section[1], []
        elif place := _PLACE.search(text_line):  # several in a row: from the innermost function to the kernel
            places = [*([] if begun else places), place]
            begun = False
        elif kernel and (code := _MEMORY.search(text_line)):
            begun = True
            own = [int(each[2]) for each in places if Path(each[1]).name == name]
            word, opcode = code[2], code[3]
            row = {"kernel": kernel, "line": own[0] if own else 0, "instruction": word, **_kind(word, opcode),
                   "predicated": bool(code[1]), "count": 0}
            rows.setdefault(tuple(row.values()), row)["count"] += 1
        elif "/*" in text_line:
            begun = True
    return sorted(rows.values(), key=lambda row: (row["kernel"], row["line"], row["instruction"], row["predicated"]))


def _kind(word: str, opcode: str) -> dict:
    """Memory space, operation and bytes per lane."""
    if opcode == "LDSM":  # 8x8 matrices of 16-bit elements: 4 bytes per lane each
        return {"space": "shared", "op": "ld", "bytes": 4 * int(word[-1]) if word[-2:-1] == "." else 4}
    op = next(each for each in ("ATOM", "RED", "LD", "ST") if opcode.startswith(each))
    width = re.search(r"\.[SU]?(8|16|64|128)\b", word)
    return {"space": _SPACES[opcode.removeprefix(op)], "op": _OPS[op], "bytes": int(width[1]) // 8 if width else 4}
