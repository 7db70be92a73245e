"""NVIDIA's command-line tools: Nsight Compute (`ncu`) for counters, compute-sanitizer for errors.

This module builds their commands and reads their output. The counters keep Nsight Compute's names.
"""

from __future__ import annotations

import csv
import os
import re
import shutil
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from hostcuda.errors import EngineError
from hostcuda.metrics import COUNTED, MEASURED

METRICS = (*COUNTED.values(), *MEASURED.values())
NO_PERMISSION = "ERR_NVGPUCTRPERM"


def find(tool: str) -> str | None:
    """Return the path of a tool such as "ncu", from PATH, the CUDA toolkit's folders or NVIDIA's wheels; or None."""
    path = shutil.which(tool)
    if path:
        return path
    homes = [os.environ.get(name) for name in ("CUDA_HOME", "CUDA_PATH", "CUDA_ROOT")]
    wheels = [
        folder
        for place in sys.path
        for folder in sorted(Path(place).glob("nvidia/cu[0-9]*"), reverse=True)  # cu13 before cu12
    ]
    for home in [*filter(None, homes), "/usr/local/cuda", *wheels]:
        # the second as in compute-sanitizer/compute-sanitizer
        for path in (Path(home) / "bin" / tool, Path(home) / tool / tool):
            if os.access(path, os.X_OK) and path.is_file():
                return str(path)
    return None


# ----------------------------------------------------------------------------------- Nsight Compute
def ncu_command(program: Sequence[str], log: Path, metrics: Iterable[str] = METRICS) -> list[str]:
    """Return the command that profiles all kernels of a program and writes a CSV, for `read_ncu`, to the file `log`.

    `program` is its command, and `metrics` are Nsight Compute's names. The clock rates are not changed;
    kernels of child processes are profiled, too. The program's own output is not in the CSV. EngineError
    if there is no `ncu`.
    """
    ncu = find("ncu")
    if ncu is None:
        raise EngineError(
            "Nsight Compute's ncu is not on this machine (it comes with the CUDA toolkit)"
        )
    return [
        ncu,
        "--clock-control",
        "none",
        "--target-processes",
        "all",
        "--csv",
        "--page",
        "raw",
        "--print-units",
        "base",
        "--metrics",
        ",".join(metrics),
        "--log-file",
        str(log),
        *program,
    ]


def read_ncu(text: str, metrics: Iterable[str] | None = None) -> list[dict]:
    """Read the launches from the output of ``ncu --csv --page raw --print-units base``.

    EngineError if the text has no table but an error message, for example that counters are not
    permitted.

    Parameters
    ----------
    text : str
        The CSV; ncu's messages around it and an incomplete last line are ignored.
    metrics : iterable of str, optional
        Columns to keep, if they exist; by default all that hold numbers.

    Returns
    -------
    list of dict
        In their order: ``index``, ``kernel``, ``grid``, ``block`` and the metrics, as numbers.
        Metrics that ncu could not collect ("n/a") are omitted.
    """
    # rows begin with a quotation mark, unlike ncu's messages "==PROF== ..."
    rows = list(csv.reader(line for line in text.splitlines() if line.startswith('"')))
    if not rows:
        if NO_PERMISSION in text:
            raise EngineError(
                f"this machine's driver permits counters only to administrators ({NO_PERMISSION}); an "
                "administrator can permit them to all users, see "
                "https://developer.nvidia.com/ERR_NVGPUCTRPERM"
            )
        errors = re.findall(r"==ERROR== (.*)", text)
        if errors:
            raise EngineError(f"ncu: {errors[0].strip()}")
        return []
    names = rows[0]  # the columns
    for needed in ("Kernel Name", "Block Size", "Grid Size"):
        if needed not in names:
            raise EngineError(
                f"this is not ncu's raw page: it has no column {needed!r} (ncu --csv --page raw)"
            )
    launches = []
    for cells in rows[1:]:
        row = dict(zip(names, cells, strict=False))
        # an incomplete row, or the one of units, which has no number of a launch
        if len(cells) != len(names) or not row.get("ID", "0").strip().isdigit():
            continue
        values = {name: _read_number(row[name]) for name in metrics or names if name in row}
        launches.append(
            {
                "index": len(launches),
                "kernel": row["Kernel Name"],
                "grid": _read_triple(row["Grid Size"]),
                "block": _read_triple(row["Block Size"]),
                **{
                    name: value
                    for name, value in values.items()
                    if value is not None and "__" in name  # a metric: "sm__cycles_active.sum"
                },
            }
        )
    return launches


def _read_number(text: str) -> float | None:
    """Return the number in a cell such as "1,234.5", an int if it is whole; None if it holds none."""
    try:
        value = float(text.replace(",", ""))
    except ValueError:
        return None
    return int(value) if value.is_integer() else value


def _read_triple(text: str) -> tuple[int, ...]:
    """Return the numbers in a text such as "(32, 1, 1)"."""
    return tuple(int(digits) for digits in re.findall(r"\d+", text))


# -------------------------------------------------------------------------------- compute-sanitizer
def sanitizer_command(program: Sequence[str], tool: str, log: Path) -> list[str]:
    """Return the command that runs a program under a tool of compute-sanitizer, with the report in the file `log`.

    `read_sanitizer` reads that file. EngineError if compute-sanitizer is not on this machine.
    """
    sanitizer = find("compute-sanitizer")
    if sanitizer is None:
        raise EngineError(
            "compute-sanitizer is not on this machine (it comes with the CUDA toolkit)"
        )
    # this kind of report names both threads of a race
    more = ["--racecheck-report", "hazard"] if tool == "racecheck" else []
    return [
        sanitizer,
        "--tool",
        tool,
        *more,
        "--print-limit",
        "1000",
        "--show-backtrace",
        "no",
        "--target-processes",
        "all",
        "--log-file",
        str(log),
        *program,
    ]


# A report has blocks of lines, as here, with an empty one between:
# ========= Invalid __global__ read of size 4 bytes
# =========     at conv(float*)+0x1a0 in file.cu:12
# =========     by thread (3,0,0) in block (0,1,0)
# =========     Address 0x7f00 is out of bounds and is 1 bytes after the nearest allocation at
# 0x7e00 of size 256 bytes
_MARK = re.compile(r"^=========\s?(.*)$")
_AT = re.compile(
    r"\bat (?:void )?(?P<where>\S.*?)(?:\+0x[0-9a-f]+)?(?: in (?P<place>[^:\s]+):(?P<line>\d+))?"
    r"(?::(?P<name>[\w~].*))?$"
)
_THREAD = re.compile(r"[tT]hread \((\d+),(\d+),(\d+)\)")
_BLOCK = re.compile(r"in block \((\d+),(\d+),(\d+)\)")
_ADDRESS = re.compile(r"(?:Address|Access to|__shared__|__global__) (0x[0-9a-f]+)")
_BUFFER = re.compile(
    r"(?P<missed>[\d,]+) bytes (?P<side>before|after) the nearest allocation at (?P<base>0x[0-9a-f]+) "
    r"of size (?P<size>[\d,]+) bytes"
)
_KINDS = (
    (r"hazard|Race reported", "race"),
    (r"Uninitialized", "uninitialized"),
    (r"Barrier error", "divergent barrier"),
    (r"^Invalid", "out of bounds"),
)
_NULL = 4096  # addresses below this come from a null pointer


def read_sanitizer(text: str, tool: str) -> list[dict]:
    """Read the findings from compute-sanitizer's report, under the CPU engine's names.

    Parameters
    ----------
    text : str
    tool : {"memcheck", "racecheck", "initcheck", "synccheck"}

    Returns
    -------
    list of dict
        tool, kind, kernel, file, line, block, thread, other (for a race a dict of the second access:
        file, line, thread), address, size in bytes, buffer (a dict of the nearest allocation: base,
        bytes, and missed_by, the bytes by which the access is beyond it), count, message. What the
        report does not say is None or "". Reports of one error by several threads become one finding;
        its count is their number.
    """
    blocks, current = [], None  # a block: the line of an error, and the indented lines below it
    for raw in text.splitlines():
        mark = _MARK.match(raw)  # "========= Invalid __global__ read of size 4 bytes"
        line = mark[1] if mark else ""
        if not mark or not line.strip():
            current = None
        elif line.startswith(" ") and current is not None:
            current.append(line.strip())
        else:
            current = [line.strip()]
            blocks.append(current)
    findings: dict[tuple, dict] = {}
    for block in blocks:
        finding = _read_finding(block, tool)
        if finding is None:
            continue
        # the same for all threads that make one error
        other = finding["other"] or {"file": "", "line": 0}
        key = (
            finding["kernel"],
            finding["kind"],
            finding["file"],
            finding["line"],
            other["file"],
            other["line"],
        )
        findings.setdefault(key, {**finding, "count": 0})["count"] += 1
    return list(findings.values())


def _read_finding(block: list[str], tool: str) -> dict | None:
    """Return the finding in a block of lines of the report of `tool`, or None if the block reports no error.

    The first line is the error's; for the fields of a finding see `read_sanitizer`.
    """
    head, text = block[0], " ".join(block)
    kind = next((name for pattern, name in _KINDS if re.search(pattern, head)), None)
    if kind is None or "SUMMARY" in head:
        return None
    address = int(match[1], 16) if (match := _ADDRESS.search(text)) else None
    # "Invalid" begins the messages of all three kinds
    if kind == "out of bounds" and "misaligned" in text:
        kind = "misaligned"
    elif (
        kind == "out of bounds" and "__global__" in head and address is not None and address < _NULL
    ):
        kind = "null pointer"
    # (place, thread) of the access, of a race: of both accesses.
    sides = [
        (_read_place(line), _read_index(_THREAD, line))
        for line in block[1:]
        if re.search(r"\bat \S", line)
    ]
    place, thread = sides[0] if sides else ({"kernel": "", "file": "", "line": 0}, None)
    other = None
    if kind == "race" and len(sides) > 1:
        other = {"file": sides[1][0]["file"], "line": sides[1][0]["line"], "thread": sides[1][1]}
    size = int(match[1]) if (match := re.search(r"of size (\d+)", head)) else None
    return {
        "tool": tool,
        "kind": kind,
        **place,
        "block": _read_index(_BLOCK, text),
        "thread": thread or _read_index(_THREAD, text),
        "other": other,
        "address": address,
        "size": size,
        "buffer": None if kind == "null pointer" else _read_buffer(text, size or 1),
        "count": 1,
        "message": re.sub(r"^(Error|Warning): | in block \(.*$", "", head),
    }


def _read_index(pattern: re.Pattern, text: str) -> tuple[int, ...] | None:
    """Return the (x, y, z) of a thread or block that `pattern` finds in a text, or None."""
    match = pattern.search(text)
    return tuple(map(int, match.groups())) if match else None


def _read_place(line: str) -> dict:
    """Read kernel, file and line from "at conv+0x1a0 in file.cu:12", or older "at 0x1a0 in file.cu:12:conv(int)"."""
    match = _AT.search(line)
    if not match:
        return {"kernel": "", "file": "", "line": 0}
    name = (match["name"] or match["where"]).partition("(")[0]
    kernel = "" if name.startswith("0x") else name
    return {"kernel": kernel, "file": match["place"] or "", "line": int(match["line"] or 0)}


def _read_buffer(text: str, size: int) -> dict | None:
    """Return {"base", "bytes", "missed_by"} of the nearest allocation that an error's text names, or None.

    ``missed_by`` is the number of bytes by which the access of `size` bytes goes beyond the allocation's
    end or, negative, before its start. In the text, "1 bytes after" says that the access begins at
    the first byte beyond the end.
    """
    match = _BUFFER.search(text)
    if not match:
        return None
    missed = int(match["missed"].replace(",", ""))
    return {
        "base": int(match["base"], 16),
        "bytes": int(match["size"].replace(",", "")),
        "missed_by": missed - 1 + size if match["side"] == "after" else -missed,
    }
