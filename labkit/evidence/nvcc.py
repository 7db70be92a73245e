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

from labkit.base import temporary
from labkit.base.errors import LabError
from labkit.base.limits import MULTIPROCESSOR, occupancy
from labkit.cpu.toolchain import demangled
from labkit.evidence import nsight
from labkit.ladder.source import NVCC_OPTIONS
from labkit.ladder.variants import Variant, as_variants
from labkit.spec.layers import Layer

ARCH = "sm_90"
_TARGET = re.compile(r"--?(arch|gpu-architecture|code|gpu-code|gencode|generate-code)(=.*)?")
_ENTRY = re.compile(r"Compiling entry function '(\w+)' for '(\w+)'")
_SPILLS = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(r"Used (\d+) registers")
_SHARED = re.compile(r"(\d+) bytes smem")


def resources(variants: Variant | int | Iterable[Variant | int], layer: Layer, arch: str = ARCH) -> pd.DataFrame:
    """Compile variants with nvcc, for a GPU that need not be in this machine.

    Parameters
    ----------
    variants : Variant, rung number, or iterable of these
    layer : Layer
    arch : str
        One of `labkit.base.limits.MULTIPROCESSOR`: the H200 is sm_90.

    Returns
    -------
    DataFrame
        A row per kernel: variant, kernel, registers (per thread), stack_bytes (per thread: arrays that do not fit into
        registers), spill_store_bytes, spill_load_bytes, shared_bytes (per block, static and dynamic), occupancy (share
        of a multiprocessor's warps), source.

    Raises
    ------
    LabError
        If there is no nvcc, `arch` is unknown, or nvcc refuses the source; the message has nvcc's.
    """
    if arch not in MULTIPROCESSOR:
        raise LabError(f"arch = {arch!r}: it must be one of {', '.join(MULTIPROCESSOR)}")
    rows = []
    for each in as_variants(variants):
        target = _target(each, arch)
        used = read_ptxas(_compile(*_of_variant(each, layer), target, "-Xptxas", "-v"))
        for launch in each.launches(layer):
            facts, dynamic = used[launch.kernel], launch.shared if each.dynamic_shared else 0
            rows.append({"variant": each.label, "kernel": launch.kernel, **facts,
                         "shared_bytes": facts["shared_bytes"] + dynamic,
                         "occupancy": occupancy_of(facts, launch.block, dynamic, arch),
                         "source": f"nvcc, {target}"})  # fmt: skip
    return pd.DataFrame(rows)


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
        One of `labkit.base.limits.MULTIPROCESSOR`.
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
    asked = {each["module"]: (each["source"], *_untargeted(each["options"]), *(f"-I{d}" for d in each["include_dirs"]))
             for each in modules}  # fmt: skip
    found, refused = {}, []
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        jobs = {key: pool.submit(_compile, key[0], "kernel.cu", key[1:], arch, "-Xptxas", "-v")
                for key in set(asked.values())}  # fmt: skip
        for key, job in jobs.items():
            try:
                found[key] = _by_plain_names(read_ptxas(job.result()))
            except LabError as error:
                lines = str(error).splitlines()
                refused.append(next((line for line in lines if "error" in line), lines[0]))
    return {name: found.get(key, {}) for name, key in asked.items()}, refused


def _by_plain_names(kernels: dict[str, dict]) -> dict[str, dict]:
    """Kernels by their symbols, and by their names in the source if these are unique."""
    found = dict(kernels)
    for symbol in kernels:
        if symbol.startswith("_Z"):
            name = re.sub(r"^void |\(.*", "", demangled(symbol))
            found[name] = {} if name in found else kernels[symbol]
    return found


def _untargeted(options: Iterable[str]) -> Iterator[str]:
    """nvcc's options without those that name a GPU."""
    words = iter(options)
    for word in words:
        target = _TARGET.fullmatch(word)
        if not target:
            yield word
        elif not target[2]:
            next(words, None)


def memory_instructions(
    variants: Variant | int | Iterable[Variant | int], layer: Layer, arch: str = ARCH
) -> pd.DataFrame:
    """The loads, stores and atomics in the machine code of variants.

    Parameters
    ----------
    variants, layer, arch
        As for `resources`.

    Returns
    -------
    DataFrame
        As returned by `disassemble`, with ``variant`` as the first column.

    Raises
    ------
    LabError
        As `disassemble` does.
    """
    tables = [disassemble(*_of_variant(each, layer), _target(each, arch)).assign(variant=each.label)
              for each in as_variants(variants)]  # fmt: skip
    table = pd.concat(tables, ignore_index=True)
    return table[["variant", *table.columns.drop("variant")]]


def disassemble(source: str, name: str, options: Sequence[str] = NVCC_OPTIONS, arch: str = ARCH) -> pd.DataFrame:
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
    LabError
        If there is no nvcc or no nvdisasm, or nvcc refuses the source; the message has nvcc's.
    """
    nvdisasm = nsight.find("nvdisasm")
    if nvdisasm is None:
        raise LabError("reading machine code needs nvdisasm, which is not on this machine: install the CUDA toolkit")
    with temporary.folder() as folder:
        cubin = folder / "kernel.cubin"
        _compile(source, name, options, arch, "-lineinfo", cubin=cubin)
        done = subprocess.run([nvdisasm, "-gi", "-c", str(cubin)], capture_output=True, text=True)
    if done.returncode:
        raise LabError(f"nvdisasm cannot read {name}: {done.stderr.strip()}")
    return pd.DataFrame(read_sass(done.stdout, name))


def nvcc_available() -> bool:
    """Whether there is an nvcc."""
    return shutil.which("nvcc") is not None


def nvcc_version() -> str:
    """ "nvcc 13.0.88" """
    said = subprocess.run([_nvcc(), "--version"], capture_output=True, text=True).stdout
    return f"nvcc {found[1]}" if (found := re.search(r"\bV([\d.]+)", said)) else "nvcc"


def _nvcc() -> str:
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        raise LabError("registers and spills need nvcc, which is not on this machine: install the CUDA toolkit")
    return nvcc


def _of_variant(variant: Variant, layer: Layer) -> tuple[str, str, list[str]]:
    """A variant's source, file name and options."""
    includes = [f"-I{variant.path.parent}"] if variant.path else []
    defines = [f"-D{name}={value}" for name, value in variant.defines(layer).items()]
    return variant.source, variant.file_name, [*NVCC_OPTIONS, *includes, *defines]


def _target(variant: Variant, arch: str) -> str:
    """`arch` with the instructions that it alone has, if the variant asks for them, as where it runs: sm_90a."""
    return f"{arch}a" if variant.architecture_specific and arch == "sm_90" else arch


def _compile(
    source: str, name: str, options: Iterable[str], arch: str, *more: str, cubin: Path | None = None
) -> str:
    """Compile with nvcc, into `cubin` if it is given; return what nvcc prints."""
    with temporary.folder() as folder:
        path = folder / "kernel.cu"
        path.write_text(f'#line 1 "{name}"\n{source}')
        command = [_nvcc(), *options, f"-arch={arch}", "-cubin", *more, "-o", str(cubin or path.with_suffix(".cubin")),
                   str(path)]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise LabError(f"nvcc refuses {name}:\n{done.stderr.strip()}")
    return done.stderr


def read_ptxas(text: str) -> dict[str, dict]:
    """Registers, stack, spills and static shared memory of each kernel in the output of ``-Xptxas -v``."""
    kernels: dict[str, dict] = {}
    facts: dict = {}
    for line in text.splitlines():
        if found := _ENTRY.search(line):
            facts = kernels.setdefault(found[1], {"registers": 0, "stack_bytes": 0, "spill_store_bytes": 0,
                                                  "spill_load_bytes": 0, "shared_bytes": 0})  # fmt: skip
        elif found := _SPILLS.search(line):
            names = ("stack_bytes", "spill_store_bytes", "spill_load_bytes")
            facts.update(zip(names, map(int, found.groups()), strict=True))
        elif found := _USED.search(line):
            facts["registers"] = int(found[1])
            shared = _SHARED.search(line)
            facts["shared_bytes"] = int(shared[1]) if shared else 0
    return kernels


_SECTION = re.compile(r"^\.text\.(\w+):")
_PLACE = re.compile(r'//## File "([^"]*)", line (\d+)')
_MEMORY = re.compile(r"/\*[0-9a-f]+\*/\s+(@!?U?P\w+\s+)?((LDSM|LDS|STS|ATOMS|LDG|STG|ATOMG|ATOM|REDG|RED|LDL|STL|LD|ST)"
                     r"(?:\.[\w.]+)?)\s")  # fmt: skip
_SPACES = {"S": "shared", "G": "global", "L": "local", "": "generic"}
_OPS = {"LD": "ld", "ST": "st", "ATOM": "atom", "RED": "red"}


def read_sass(text: str, name: str) -> list[dict]:
    """The loads, stores and atomics in the output of ``nvdisasm -gi -c``, in the columns of `disassemble`.

    The line is that of the file `name`, also for an instruction of another file that is inlined there.
    """
    found: dict[tuple, dict] = {}
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
                   "predicated": bool(code[1]), "count": 0}  # fmt: skip
            found.setdefault(tuple(row.values()), row)["count"] += 1
        elif "/*" in text_line:
            begun = True
    return sorted(found.values(), key=lambda row: (row["kernel"], row["line"], row["instruction"], row["predicated"]))


def _kind(word: str, opcode: str) -> dict:
    """Memory space, operation and bytes per lane."""
    if opcode == "LDSM":  # 8x8 matrices of 16-bit elements: 4 bytes per lane each
        return {"space": "shared", "op": "ld", "bytes": 4 * int(word[-1]) if word[-2:-1] == "." else 4}
    op = next(each for each in ("ATOM", "RED", "LD", "ST") if opcode.startswith(each))
    width = re.search(r"\.[SU]?(8|16|64|128)\b", word)
    return {"space": _SPACES[opcode.removeprefix(op)], "op": _OPS[op], "bytes": int(width[1]) // 8 if width else 4}
