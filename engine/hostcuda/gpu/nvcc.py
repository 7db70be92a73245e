"""Figures from nvcc for each kernel: registers, spills, shared memory, occupancy.

No GPU is needed.
"""

from __future__ import annotations

import functools
import math
import os
import re
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from hostcuda import temporary
from hostcuda.errors import EngineError
from hostcuda.gpu import nsight
from hostcuda.host.toolchain import demangle
from hostcuda.limits import MULTIPROCESSOR, occupancy

ARCH = "sm_90"
WHEELS = 'NVIDIA\'s wheels of it: pip install "hostcuda[nvcc]"'
_TARGET = re.compile(r"--?(arch|gpu-architecture|code|gpu-code|gencode|generate-code)(=.*)?")
_ENTRY = re.compile(r"Compiling entry function '(\w+)' for '(\w+)'")
_SPILLS = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(r"Used (\d+) registers")
_SHARED = re.compile(r"(\d+) bytes smem")


def occupancy_of(
    facts: Mapping[str, int], block: Sequence[int], dynamic: int, arch: str = ARCH
) -> float:
    """Return a kernel's theoretical occupancy: resident warps over the most that a multiprocessor can hold, 0 to 1.

    Parameters
    ----------
    facts : mapping
        The figures of a kernel, as returned by `read_ptxas`.
    block : sequence of int
        Threads per block along x, y and z.
    dynamic : int
        Bytes of dynamic shared memory per block.
    arch : str
        One of `hostcuda.limits.MULTIPROCESSOR`.
    """
    return occupancy(
        math.prod(block), facts["registers"], facts["shared_bytes"] + dynamic, MULTIPROCESSOR[arch]
    )


def compile_modules(modules: Iterable[Mapping]) -> tuple[dict[str, dict], list[str]]:
    """Compile many modules with nvcc for `ARCH`, in parallel and each distinct one once.

    Options that name a GPU are left out: the figures are those for `ARCH`.

    Parameters
    ----------
    modules : iterable of mapping
        As recorded in the CPU engine's check mode: ``module`` (a name), ``source``, ``options``,
        ``include_dirs``.

    Returns
    -------
    kernels : dict
        Maps a module's name to the figures of its kernels, as `read_ptxas` returns them; {} if nvcc
        refuses it.
    refused : list of str
        The first error of each source that nvcc refuses.
    """
    # module's name -> (source, option, ...): what is equal is compiled once
    keys = {
        module["module"]: (
            module["source"],
            *_drop_targets(module["options"]),
            *(f"-I{folder}" for folder in module["include_dirs"]),
        )
        for module in modules
    }
    kernels, refused = {}, []
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        jobs = {key: pool.submit(_read_facts, key, _find_nvcc()) for key in set(keys.values())}
        for key, job in jobs.items():
            try:
                # also by the names that kernels have in the source
                kernels[key] = _add_plain_names(job.result())
            except EngineError as error:
                lines = str(error).splitlines()
                refused.append(next((line for line in lines if "error" in line), lines[0]))
    return {name: kernels.get(key, {}) for name, key in keys.items()}, refused


@functools.lru_cache(64)  # a notebook profiles the same kernel again and again
def _read_facts(key: tuple[str, ...], compiler: str) -> dict[str, dict]:
    """Compile `key`, (source, *nvcc's options); map each kernel's symbol to its figures.

    `compiler`, nvcc's path, is only a part of the cache's key: the process may use another one later.
    """
    del compiler
    source, *options = key
    return read_ptxas(compile(source, "kernel.cu", options, ARCH, "-Xptxas", "-v"))


def _add_plain_names(kernels: dict[str, dict]) -> dict[str, dict]:
    """Return `kernels`, figures by symbols, with the same figures under the kernels' names in the source added.

    A name that several overloads share gets {}, because the name does not say which one is meant.
    """
    result = dict(kernels)
    for symbol in kernels:
        if symbol.startswith("_Z"):
            name = re.sub(r"^void |\(.*", "", demangle(symbol))  # "void conv<3>(float*)": conv<3>
            result[name] = {} if name in result else kernels[symbol]
    return result


def _drop_targets(options: Iterable[str]) -> Iterator[str]:
    """Yield nvcc's options without those that name a GPU: "-arch=sm_80", or "-arch" and the word after it."""
    words = iter(options)
    for word in words:
        target = _TARGET.fullmatch(word)
        if not target:
            yield word
        elif not target[2]:  # its value is the next word
            next(words, None)


def nvcc_available() -> bool:
    """Return whether nvcc is installed on this machine."""
    return nsight.find("nvcc") is not None


def nvcc_version() -> str:
    """Return nvcc's name and version: "nvcc 13.0.88"."""
    output = subprocess.run([_find_nvcc(), "--version"], capture_output=True, text=True).stdout
    return f"nvcc {version[1]}" if (version := re.search(r"\bV([\d.]+)", output)) else "nvcc"


def _find_nvcc() -> str:
    """Return the path of nvcc, or raise EngineError with what to install."""
    nvcc = nsight.find("nvcc")
    if nvcc is None:
        raise EngineError(
            f"this needs nvcc, which is not on this machine: install the CUDA toolkit, or {WHEELS}"
        )
    return nvcc


def compile(
    source: str, name: str, options: Iterable[str], arch: str, *more: str, cubin: Path | None = None
) -> str:
    """Compile a source with nvcc's `options` and `more`; return what nvcc prints, such as its warnings.

    `name` is the file's name in messages, `arch` the GPU's architecture ("sm_90"). `cubin` is the file
    to write; None: a temporary one, which is removed. Raises EngineError if there is no nvcc, or it
    refuses the source; the message has nvcc's message.
    """
    with temporary.folder() as folder:
        path = folder / "kernel.cu"
        path.write_text(f'#line 1 "{name}"\n{source}')
        command = [
            _find_nvcc(),
            *options,
            f"-arch={arch}",
            "-cubin",
            *more,
            "-o",
            str(cubin or path.with_suffix(".cubin")),
            str(path),
        ]
        result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode:
        raise EngineError(f"nvcc refuses {name}:\n{result.stderr.strip()}")
    return result.stderr


def read_ptxas(text: str) -> dict[str, dict]:
    """Read each kernel's figures from nvcc's output with ``-Xptxas -v``; map the kernel's symbol to them.

    They are a dict: ``registers`` per thread; ``stack_bytes``, ``spill_store_bytes`` and
    ``spill_load_bytes`` per thread; ``shared_bytes``, static, per block.
    """
    # "... Compiling entry function '_Z4convPf' for 'sm_90'", "0 bytes stack frame, 0 bytes spill
    # stores, ...", "... Used 32 registers, 128 bytes smem, ...": three lines per kernel.
    kernels: dict[str, dict] = {}
    facts: dict = {}  # figures of the kernel that was named last
    for line in text.splitlines():
        if match := _ENTRY.search(line):
            facts = kernels.setdefault(
                match[1],
                {
                    "registers": 0,
                    "stack_bytes": 0,
                    "spill_store_bytes": 0,
                    "spill_load_bytes": 0,
                    "shared_bytes": 0,
                },
            )
        elif match := _SPILLS.search(line):
            names = ("stack_bytes", "spill_store_bytes", "spill_load_bytes")
            facts.update(zip(names, map(int, match.groups()), strict=True))
        elif match := _USED.search(line):
            facts["registers"] = int(match[1])
            shared = _SHARED.search(line)
            facts["shared_bytes"] = int(shared[1]) if shared else 0
    return kernels
