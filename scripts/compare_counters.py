#!/usr/bin/env python3
"""Hold the CPU engine's counts against Nsight Compute's, kernel by kernel, and write docs/counters.md.

    python scripts/compare_counters.py             counts here, compares with data/counters/exact/, writes the table
    python scripts/compare_counters.py --record    on a GPU with ncu: records data/counters/exact/DEVICE.csv

The kernels are the ladder's, on both layers of lenet86 with two images, and the textbook's in scripts/textbook.cu.
"""

import argparse
import datetime
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np
import pandas as pd

import labkit
from labkit import nsight, profiling
from labkit.errors import LabError
from labkit.files import write
from labkit.paths import data_dir

BATCH = 2
EXACT = data_dir() / "counters" / "exact"
REPORT = data_dir().parent / "docs" / "counters.md"
ALLOWED = 0.01
N = 1 << 14
# name, grid, block, n
TEXTBOOK = (
    ("saxpy", (64, 1), (256, 1, 1), N),
    ("copy_stride2", (32, 1), (256, 1, 1), N),
    ("copy_stride32", (2, 1), (256, 1, 1), N),
    ("copy_offset1", (64, 1), (256, 1, 1), N),
    ("copy_float4", (16, 1), (256, 1, 1), N),
    ("transpose_naive", (4, 4), (32, 32, 1), 128),
    ("transpose_shared", (4, 4), (32, 32, 1), 128),
    ("transpose_padded", (4, 4), (32, 32, 1), 128),
    ("reduction", (64, 1), (256, 1, 1), N),
    ("histogram", (64, 1), (256, 1, 1), N),
    ("stencil", (64, 1), (256, 1, 1), N),
    ("im2col", (4, 9), (256, 1, 1), 32),
    ("gemm", (8, 8), (16, 16, 1), 128),
    ("wmma", (16, 1), (32, 1, 1), 16),
)
# Why the two differ where they do: program and kernel, counter, reason. The first match counts.
REASONS = (
    (r"wmma|tensor cores", "shared|global_store",
     "WMMA's loads and stores are of whole fragments, in a layout of the hardware's own; the engine's are element by "
     "element"),
    (r"histogram", "sectors", "not explained: a reduction counts more sectors than its addresses lie in"),
    (r"reduction", "instructions", "nvcc predicates the short branch: what no lane of a warp executes is counted too"),
    (r"reduction", "wavefronts", "g++ keeps in a register the sum that thread 0 reads again"),
    (r"fp16", "shared_load_(instructions|wavefronts)",
     "nvcc joins reads of neighbouring words of a row into wider ones"),
    (r"gemm|fusion", "shared_load_(instructions|wavefronts)",
     "nvcc reads a row's neighbouring words four at a time (LDS.128): 16 + 4 loads for 16 products in place of 32"),
    (r"gemm|fusion|fp16|tiling", "shared_store_(instructions|wavefronts|conflicts)",
     "g++ stores in both branches where a tile's edge is padded with zeros; nvcc selects, then stores once"),
    (r"tiling|fusion", "conflicts", "ncu counts a few passes more than the addresses need"),
)  # fmt: skip


def programs():
    """What is launched, in order: (program, shape, launches)."""
    for rung in labkit.LADDER:
        for layer in labkit.LENET86:
            yield labkit.variant(rung.number).label, layer.name, len(rung.calls)
    for name, *_ in TEXTBOOK:
        yield "textbook", name, 1


def launch() -> None:
    """Launch everything once."""
    import labkit.cuda.driver as cuda
    from labkit.cuda import ensure_context
    from labkit.cuda.compiler import SourceModule

    ensure_context()
    rng = np.random.default_rng(0)
    for rung in labkit.LADDER:
        for layer in labkit.LENET86:
            with labkit.variant(rung.number).plan(layer, BATCH) as plan:
                plan.load(rng.random(layer.x_shape(BATCH), np.float32), rng.random(layer.k_shape, np.float32))
                plan.run()
                plan.result()
    source = (Path(__file__).parent / "textbook.cu").read_text()
    module = SourceModule(f'#line 1 "textbook.cu"\n{source}', options=["-std=c++17"], no_extern_c=True)
    x, y = cuda.mem_alloc(4 * N), cuda.mem_alloc(4 * N)
    for name, grid, block, n in TEXTBOOK:
        cuda.memcpy_htod(x, rng.integers(0, 1000, N).astype(np.float32))
        cuda.memset_d8(y, 0, 4 * N)
        module.get_function(name)(np.intp(int(x)), np.intp(int(y)), np.int32(n), grid=grid, block=block)
        cuda.Context.synchronize()


def count(engine: str) -> pd.DataFrame:
    """A row a launch: program, shape, kernel and the counters, by their friendly names."""
    found = profiling.watch([sys.executable, str(Path(__file__).resolve()), "--launch"], engine)
    if found.ended.problem:
        raise LabError(f"the kernels' program {found.ended.problem}")
    owners = [owner for *owner, launches in programs() for _ in range(launches)]
    if len(owners) != len(found.table):
        raise LabError(f"{len(owners)} launches were expected and {len(found.table)} counted. {found.note}")
    table = pd.DataFrame(owners, columns=["program", "shape"])
    table["kernel"] = found.table["kernel"]
    for name, metric in nsight.COUNTED.items():
        if metric in found.table:
            table[name] = found.table[metric]
    # The engine cannot tell an atomic whose result nobody uses (a reduction, to ncu) from the others.
    for unit in ("requests", "sectors"):
        table[f"atomic_{unit}"] += table.pop(f"reduction_{unit}") if f"reduction_{unit}" in table else 0
    return table


def compare(ours: pd.DataFrame, theirs: pd.DataFrame) -> pd.DataFrame:
    """A row a launch and counter: program, shape, kernel, counter, counted, ncu, error (relative; 0 where both
    have none, infinite where only one has).

    Raises
    ------
    LabError
        If the two are not of the same launches.
    """
    keys = ["program", "shape", "kernel"]
    if ours[keys].to_numpy().tolist() != theirs[keys].to_numpy().tolist():
        raise LabError("the recorded counters are of other launches: record them again with --record")
    rows = []
    for (_, a), (_, b) in zip(ours.iterrows(), theirs.iterrows(), strict=True):
        for name in nsight.COUNTED:
            if name in ours and name in theirs and (a[name] or b[name]):
                error = abs(a[name] - b[name]) / b[name] if b[name] else float("inf")
                rows.append({**a[keys], "counter": name, "counted": a[name], "ncu": b[name], "error": error})
    return pd.DataFrame(rows)


def report(table: pd.DataFrame, device: str, date: str) -> str:
    """The comparison in Markdown."""
    groups = {"Global memory": "global_", "Atomics": "atomic_", "Shared memory": "shared_"}
    text = [f"# The CPU engine's counts against Nsight Compute's\n\nncu on {device}, {date}; the ladder's kernels on "
            f"{BATCH} images, and textbook kernels. Made by `python scripts/compare_counters.py`.\n"]  # fmt: skip
    for title, start in groups.items():
        rows = table[table["counter"].str.startswith(start)]
        equal = rows["error"] <= ALLOWED
        text.append(f"\n## {title}\n\n{equal.sum()} of {len(rows)} counters agree within {ALLOWED:.0%}.")
        if (~equal).any():
            text.append(" The others:\n\n| program | shape | kernel | counter | counted | ncu | why |\n"
                        "|---|---|---|---|---:|---:|---|\n")  # fmt: skip
            for row in rows[~equal].itertuples():
                why = next((reason for kernel, counter, reason in REASONS
                            if re.search(kernel, f"{row.program} {row.kernel}") and re.search(counter, row.counter)),
                           "not explained")  # fmt: skip
                text.append(f"| {row.program} | {row.shape} | {row.kernel} | {row.counter.replace('_', ' ')} | "
                            f"{row.counted:,.0f} | {row.ncu:,.0f} | {why} |\n")  # fmt: skip
        else:
            text.append("\n")
    text.append("\n## All\n\n| program | shape | kernel | counter | counted | ncu |\n|---|---|---|---|---:|---:|\n")
    for row in table.itertuples():
        text.append(f"| {row.program} | {row.shape} | {row.kernel} | {row.counter.replace('_', ' ')} | "
                    f"{row.counted:,.0f} | {row.ncu:,.0f} |\n")  # fmt: skip
    return "".join(text)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--record", action="store_true", help="record ncu's counters on this GPU")
    parser.add_argument("--device", default="nvidia-h200", help="whose recorded counters to compare with")
    parser.add_argument("--launch", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.launch:
        launch()
        return 0
    if chosen.record:
        here = labkit.device()
        table = count("gpu")
        table.insert(0, "date", datetime.date.today().isoformat())
        table.insert(1, "device", here.name)
        print(write(EXACT / f"{here.slug}.csv", table.to_csv(index=False, lineterminator="\n")))
        return 0
    path = EXACT / f"{chosen.device}.csv"
    if not path.is_file():
        raise LabError(f"there is no {path.name} in {EXACT}: record it on that GPU with --record")
    theirs = pd.read_csv(path)
    table = compare(count("cpu"), theirs)
    print(write(REPORT, report(table, theirs["device"].iloc[0], theirs["date"].iloc[0])))
    close = table["error"] <= ALLOWED
    print(f"{close.sum()} of {len(table)} counters agree within {ALLOWED:.0%}")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except LabError as error:
        sys.exit(f"compare_counters: {error}")
