#!/usr/bin/env python3
"""Compare the CPU engine's counts with Nsight Compute's, kernel by kernel, and write docs/counters.md.

    python -m labkit.recording.compare_counters      count here, compare with the recording, write the report
        --record         on a GPU with ncu: write data/counters/exact/DEVICE.csv
        --missing        the same for new and changed kernels only
        --instructions   with nvcc and nvdisasm: write data/counters/instructions/

The kernels are all of the lab's: the rungs, their steps and the exercises' solutions on both layers of lenet86 with two
images, the network's, and the textbook kernels of labkit/recording/textbook.cu. The instructions are the loads and
stores in nvcc's machine code. nvcc joins neighboring accesses, so the instructions say which counters of shared memory
have to differ, why, and by how much.
"""

import argparse
import functools
import re
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pandas as pd

import labkit
from labkit.base.errors import LabError
from labkit.base.files import write
from labkit.base.paths import cuda_src, data_dir
from labkit.evidence import nvcc
from labkit.evidence.profile import watch
from labkit.ladder.rungs import LADDER
from labkit.ladder.source import digest
from labkit.ladder.variants import solutions
from labkit.recording.counters import measured
from labkit.records import store
from labkit.spec.metrics import COUNTED, MEASURED

BATCH = 2
EXACT = data_dir() / "counters" / "exact"
ARCH = "sm_90"  # of the device whose counters are recorded
INSTRUCTIONS = data_dir() / "counters" / "instructions" / f"{ARCH}.csv"
REPORT = data_dir().parent / "docs" / "counters.md"
TEXTBOOK_SOURCE = Path(__file__).parent / "textbook.cu"
ALLOWED = 0.01
PREDICTED = 0.05  # what the machine code predicts, where a loop's last round differs from the others
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
    ("ranks", (64, 1), (256, 1, 1), N),
    ("stencil", (64, 1), (256, 1, 1), N),
    ("im2col", (4, 9), (256, 1, 1), 32),
    ("gemm", (8, 8), (16, 16, 1), 128),
    ("wmma", (16, 1), (32, 1, 1), 16),
)
NETWORK = ("00 network", "lenet86, fp16")
NETWORK_SOURCES = cuda_src() / "00_network.cu", cuda_src() / "buffers.cu"
NETWORK_LAUNCHES = 12
SHOWN = ["program", "shape", "kernel"]
KEYS = ["program", "shape", "source", "kernel"]  # source: a digest of what is compiled
# The wavefronts that the addresses of shared accesses need: ncu counts them by instruction. The pipe adds passes of its
# own, in each run others; they are in `COUNTED`'s wavefronts and in its conflicts alike.
_NEEDED = "smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_{}.sum"
NEEDED = {"load": (_NEEDED.format("ld"), _NEEDED.format("ldsm")), "store": (_NEEDED.format("st"),)}
MATRIX_LOADS = MEASURED["matrix_load_instructions"]
NO_LANE = "executed also by warps without an active lane"
# nvcc unrolls a loop with the odd rounds first. Where the lanes of a warp make different numbers of rounds, these are
# requests of some lanes alone: program and shape -> requests an image more, and why.
ODD_ROUNDS = {("10 speed of light", "lenet86 layer 1"): (
    3, "fetch: 1849 words are 8 iterations for 25 lanes of a warp, 7 for the others, which execute 3 of them first")}
# The least wavefronts of a warp's instruction, by its bytes a lane: as many as if its lanes read the same words. One is
# enough where half of them take no part.
LEAST = {1: 1, 2: 1, 4: 1, 8: 1, 16: 2}
GROUPS = {"Global memory": ("global",), "Atomics": ("atomic", "reduction"), "Shared memory": ("shared",)}


# ------------------------------------------------------------------------------------------------ what is launched
def ladder():
    """Each kernel of the ladder that is compiled differently from all before it, and the layer: (variant, layer)."""
    for rung in LADDER:
        several = [*labkit.variants(rung.number), *solutions(rung.number)]
        for layer in labkit.LENET86:
            seen = set()
            for variant in several:
                key = (variant.source, tuple(variant.defines(layer).items()))
                if key not in seen:
                    seen.add(key)
                    yield variant, layer


def every():
    """What is launched, in order: (program, shape, source, launches, what), the last as `launch` takes it."""
    for variant, layer in ladder():
        yield variant.label, layer.name, _digest(variant, layer), len(variant.launches(layer, BATCH)), (variant, layer)
    yield *NETWORK, _digest(labkit.variant(8), labkit.LENET86[0], NETWORK_SOURCES), NETWORK_LAUNCHES, None
    for name, *how in TEXTBOOK:
        yield "textbook", name, _digest(name), 1, (name, *how)


def programs(missing: bool = False) -> list[tuple]:
    """Of `every`, with `missing` only what was not recorded of the source that it has now."""
    path = EXACT / f"{labkit.device().slug}.csv"
    known = set()
    if missing and path.is_file():
        known = set(store.read(path)[KEYS[:3]].itertuples(index=False, name=None))
    return [job for job in every() if job[:3] not in known]


def _digest(what, layer=None, beside: tuple[Path, ...] = ()) -> str:
    """Of a variant's source and compile-time parameters, and of files beside it; or of a textbook kernel: counters of
    another source are not this one's."""
    if layer:
        text = f"{what.source}{what.defines(layer)}{''.join(path.read_text() for path in beside)}"
    else:
        parts = re.split(r"\n\n(?=[^ }])", TEXTBOOK_SOURCE.read_text())
        text = "".join(part for part in parts if part.startswith("template") or f" {what}(" in part)
    return digest(text)


def launch(missing: bool, part: tuple[int, int] = (0, 1)) -> None:
    """Launch everything once; or of n parts the i-th alone."""
    from labkit.cuda import ensure_context

    ensure_context()
    labkit.device()  # known from here on: the threads that compile have no context
    first, step = part
    jobs = [(program, what) for program, *_, what in programs(missing)[first::step]]
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda job: job[0].precompile(job[1]),
                      [what for program, what in jobs if what and program != "textbook"]))  # fmt: skip
    rng = np.random.default_rng(0)
    for program, what in jobs:
        if program == "textbook":
            _launch_textbook(*what)
        elif what is None:
            _launch_network(rng)
        else:
            variant, layer = what
            with variant.plan(layer, BATCH) as plan:
                plan.load(rng.random(layer.x_shape(BATCH), np.float32), rng.random(layer.k_shape, np.float32))
                plan.run()
                plan.result()


def _launch_network(rng) -> None:
    import labkit.cuda.driver as cuda
    from labkit.ladder.buffers import images_with_nan
    from labkit.network.lenet86 import Network

    shape = labkit.LENET86[0].y_shape(BATCH)
    Network(conv=labkit.variant(8)).forward(rng.random(labkit.LENET86[0].x_shape(BATCH), np.float32))
    images_with_nan(cuda.to_device(np.zeros(shape, np.float32)), shape, np.float32)


@functools.cache
def _textbook():
    from labkit.cuda.compiler import SourceModule

    text = f'#line 1 "textbook.cu"\n{TEXTBOOK_SOURCE.read_text()}'
    return SourceModule(text, options=["-std=c++17"], no_extern_c=True)


def _launch_textbook(name, grid, block, n) -> None:
    import labkit.cuda.driver as cuda

    rng = np.random.default_rng(1)
    data = {each: rng.integers(0, 1000, N) for each, *_ in TEXTBOOK}  # on which the histogram's counts depend
    x, y = cuda.to_device(data[name].astype(np.float32)), cuda.mem_alloc(4 * N)
    cuda.memset_d8(y, 0, 4 * N)
    _textbook().get_function(name)(np.intp(int(x)), np.intp(int(y)), np.int32(n), grid=grid, block=block)
    cuda.Context.synchronize()


def count(engine: str, missing: bool = False) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The counters, by their friendly names, a row a launch; and, of the CPU engine, its `Profile.sites`."""
    program = [sys.executable, "-m", "labkit.recording.compare_counters", "--launch", *["--missing"] * missing]
    if engine == "gpu":
        metrics = [*COUNTED.values(), MATRIX_LOADS, *(each for several in NEEDED.values() for each in several)]
        launches, sites = pd.DataFrame(measured(program, metrics)), None
    else:
        found = watch(program, engine)
        if found.ended.problem:
            raise LabError(f"the kernels' program {found.ended.problem}. {found.note}")
        launches, sites = found.table, found.sites
    owners = [owner for *owner, count, _ in programs(missing) for _ in range(count)]
    if len(owners) != len(launches):
        raise LabError(f"{len(owners)} launches were expected and {len(launches)} counted")
    table = pd.DataFrame(owners, columns=KEYS[:3])
    table["kernel"] = launches["kernel"]
    for name, metric in COUNTED.items():
        if metric in launches:
            table[name] = launches[metric]
    if engine == "gpu":
        table["shared_load_instructions"] += launches[MATRIX_LOADS]  # the engine counts LDSM among the loads
        for op, several in NEEDED.items():
            table[f"shared_{op}_needed"] = launches[list(several)].sum(axis=1)
    return table, sites


def instructions() -> pd.DataFrame:
    """The loads and stores of all kernels in nvcc's machine code: `nvcc.disassemble`, behind program and shape."""
    jobs = [(variant.label, layer.name, variant, layer) for variant, layer in ladder()]
    jobs.append((*NETWORK, labkit.variant(8), labkit.LENET86[0]))
    sources = [_digest(*job[2:], NETWORK_SOURCES if job[:2] == NETWORK else ()) for job in jobs]
    with ThreadPoolExecutor() as pool:
        tables = list(pool.map(lambda job: nvcc.memory_instructions(*job[2:], ARCH), jobs))
    parts = [table.assign(program=program, shape=shape, source=source)
             for (program, shape, *_), table, source in zip(jobs, tables, sources, strict=True)]  # fmt: skip
    textbook = nvcc.disassemble(TEXTBOOK_SOURCE.read_text(), "textbook.cu", arch=ARCH)
    parts.append(textbook.assign(program="textbook", shape=textbook["kernel"],
                                 source=textbook["kernel"].map(_digest)))  # fmt: skip
    table = pd.concat(parts, ignore_index=True)
    rest = ["line", "instruction", "space", "op", "bytes", "predicated", "count"]
    return table.assign(compiler=f"{nvcc.nvcc_version()}, {ARCH}")[["compiler", *KEYS, *rest]]


# --------------------------------------------------------------------------------------------------- the comparison
def as_addressed(theirs: pd.DataFrame) -> pd.DataFrame:
    """ncu's counters without the wavefronts of shared memory that no address needs; these in columns of their own."""
    table = theirs.copy()
    for op in NEEDED:
        added = table[f"shared_{op}_wavefronts"] - table[f"shared_{op}_needed"]
        table[f"shared_{op}_added"] = added
        table[f"shared_{op}_wavefronts"] -= added
        table[f"shared_{op}_conflicts"] = (table[f"shared_{op}_conflicts"] - added).clip(lower=0)
    return table


def compare(ours: pd.DataFrame, theirs: pd.DataFrame) -> pd.DataFrame:
    """A row a launch and counter: launch (its number), program, shape, source, kernel, counter, counted, ncu, error
    (relative; 0 where both have none, infinite where only one has). Launches that were not recorded of this source are
    left out, and named in ``attrs["left_out"]``.

    Raises
    ------
    LabError
        If no launch was recorded of the source that it has now.
    """
    keyed = [table.set_index([*KEYS, table.groupby(KEYS).cumcount()]) for table in (ours, theirs)]
    rows = []
    for number, (key, a) in enumerate(keyed[0].iterrows()):
        if key not in keyed[1].index:
            continue
        b = keyed[1].loc[key]
        for name in COUNTED:
            if name in a and name in b and (a[name] or b[name]):
                error = abs(a[name] - b[name]) / b[name] if b[name] else float("inf")
                rows.append({"launch": number, **dict(zip(KEYS, key, strict=False)), "counter": name,
                             "counted": a[name], "ncu": b[name], "error": error})  # fmt: skip
    if not rows:
        raise LabError("the recorded counters are of other sources: record them again with --record")
    table = pd.DataFrame(rows)
    missing = ours.loc[[key not in keyed[1].index for key in keyed[0].index], ["program", "shape"]].drop_duplicates()
    shapes = missing.groupby("program", sort=False)["shape"].agg(", ".join)
    table.attrs["left_out"] = [f"{program} ({shape})" for program, shape in shapes.items()]
    return table


class Code:
    """What nvcc made of each launch's shared accesses, line by line, beside what the engine counted there.

    It joins a lane's neighbouring accesses into one of 8 or 16 bytes. Where a line's n instructions move b bytes a lane
    together, each byte that the line moves takes n / b instructions, however often the line runs.
    """

    def __init__(self, sites: pd.DataFrame, instructions: pd.DataFrame):
        self.sites = sites[sites["space"] == "shared"]
        self.code = instructions[instructions["space"] == "shared"]

    def lines(self, launch: int, keys: list, op: str) -> list[dict]:
        """Each line that loads ("ld") or stores ("st"): its number, what the engine counted, nvcc's instructions with
        how often a warp executes them, and whether they are as written."""
        mine = self.sites[(self.sites["launch"] == launch) & (self.sites["op"] == op)]
        code = self.code[(self.code[KEYS] == keys).all(axis=1) & (self.code["op"] == op)]
        found = []
        for line, rows in mine.groupby("line"):
            made = code[code["line"] == line]
            asked, moved = (rows["size"] * rows["requests"]).sum(), (made["bytes"] * made["count"]).sum()
            found.append({
                "line": int(line),
                "requests": rows["requests"].sum(),
                "wavefronts": rows["wavefronts"].sum(),
                "kept": set(made["bytes"]) == set(rows["size"]),
                "made": made.assign(executed=made["count"] * (asked / moved if moved else np.nan)),
            })  # fmt: skip
        return found

    def explain(self, row) -> dict:
        """Of a row of `compare`: kept (nvcc's accesses are as written), expected (what they make of the count, of
        wavefronts the least; NaN where nothing follows), why the two differ ("" where that does not explain it)."""
        _, op, unit = row.counter.split("_")
        lines = self.lines(row.launch, [getattr(row, key) for key in KEYS], {"load": "ld", "store": "st"}[op])
        joined = [line for line in lines if not line["kept"]]
        predicated = [line for line in lines if line["made"]["predicated"].any()]
        if any(line["made"].empty for line in lines):
            return {"kept": False, "expected": np.nan, "why": ""}
        if not joined:
            surplus = predicated and unit != "conflicts" and row.ncu > row.counted * (1 + ALLOWED)
            why = f"{_instructions(predicated)} {NO_LANE}" if surplus else ""
            return {"kept": not why, "expected": np.nan, "why": why}
        executed = [(each.bytes, each.executed) for line in joined for each in line["made"].itertuples()]
        expected, fits = np.nan, False
        if unit == "instructions":
            expected = sum(times for _, times in executed) + sum(line["requests"] for line in lines if line["kept"])
            fits = abs(row.ncu - expected) <= PREDICTED * expected
        elif unit == "wavefronts":  # at least those of a broadcast, at most those of the accesses one by one
            expected = sum(LEAST[size] * times for size, times in executed)
            expected += sum(line["wavefronts"] for line in lines if line["kept"])
            one_each = expected - sum((LEAST[size] - 1) * times for size, times in executed)
            fits = one_each * (1 - ALLOWED) <= row.ncu <= row.counted * (1 + ALLOWED)
        return {"kept": False, "expected": expected, "why": _instructions(joined) if fits else ""}


def explained(table: pd.DataFrame, code: Code) -> pd.DataFrame:
    """The rows of `compare` with the columns of `Code.explain`."""
    nothing = {"kept": True, "expected": np.nan, "why": ""}
    found = [code.explain(row) if row.counter.startswith("shared") else {**nothing, "why": _odd_rounds(row)}
             for row in table.itertuples()]  # fmt: skip
    joined = table.join(pd.DataFrame(found, index=table.index))
    joined.attrs = table.attrs
    more = {(row.launch, row.counter): row.ncu - (row.counted if np.isnan(row.expected) else row.expected)
            for row in joined.itertuples()}  # fmt: skip
    for row in joined[joined["error"] > ALLOWED].itertuples():
        why = row.why
        if why.endswith(NO_LANE) and row.counter.endswith("wavefronts"):  # no more than one for each of these
            instructions = more.get((row.launch, row.counter.replace("wavefronts", "instructions")), 0)
            why = why if more[row.launch, row.counter] <= instructions else ""
        joined.loc[row.Index, "why"] = why
    return joined


def _odd_rounds(row) -> str:
    more, why = ODD_ROUNDS.get((row.program.split(",")[0], row.shape), (0, ""))
    return why if row.counter == "global_load_requests" and row.ncu - row.counted == more * BATCH > 0 else ""


def _instructions(lines: list[dict]) -> str:
    """ "line 64: 16 LDS, 4 LDS.128" """
    texts = []
    for line in lines:
        counts = line["made"].groupby("instruction", sort=False)["count"].sum()
        texts.append(f"line {line['line']}: " + ", ".join(f"{count} {name}" for name, count in counts.items()))
    return "; ".join(texts)


# ------------------------------------------------------------------------------------------------------- the report
def report(table: pd.DataFrame, theirs: pd.DataFrame, compiler: str) -> str:
    """The comparison, explained, in Markdown; `theirs` as `as_addressed` gives it."""
    device, date = theirs[["device", "date"]].iloc[0]
    close = table["error"] <= ALLOWED
    text = [
        "# The CPU engine's counts compared with Nsight Compute's\n\n"
        f"Nsight Compute (ncu) on {device}, {date}, and the loads and stores in the machine code of {compiler}. The "
        f"kernels are all of the lab's, with their steps and the exercises' solutions, on {BATCH} images, and textbook "
        "kernels. Written by `python -m labkit.recording.compare_counters`.\n\n"
        f"| counters | | agree within {ALLOWED:.0%} | others |\n|---|---:|---:|---|\n"
    ]
    shared = table["counter"].str.startswith("shared")
    parts = {
        "global loads and stores": table["counter"].str.startswith("global"),
        "atomics": table["counter"].str.startswith(GROUPS["Atomics"]),
        "shared memory, accesses as written": shared & table["kept"],
        "shared memory, accesses joined by nvcc": shared & ~table["kept"],
    }
    for name, rows in parts.items():
        if not rows.any():
            continue
        named = (rows & ~close & (table["why"] != "")).sum()
        left = (rows & ~close).sum()
        said = f"{named} with a reason" if named else ""
        said += f"{', ' if said else ''}{left - named} without" if left > named else ""
        text.append(f"| {name} | {rows.sum()} | {(rows & close).sum()} | {said} |\n")
    if table.attrs.get("left_out"):
        left_out = "; ".join(table.attrs["left_out"])
        text.append(f"\nNot compared, because they are new or have changed since ncu counted: {left_out}.\n")
    text.append(
        "\n## Where they differ\n\nnvcc joins neighboring accesses of a thread: one LDS.128 replaces four LDS. "
        "*Expected* is the engine's count converted with the instructions that nvcc made of each source line; for "
        "wavefronts it is the minimum. No other difference in shared memory counts as explained. A second difference "
        "cannot be seen in the source: if the threads of a loop make different numbers of iterations, nvcc unrolls the "
        "loop with the remaining iterations first. The lanes of a warp are then one iteration apart, which gives more "
        "requests, and in misaligned rows more sectors.\n\n"
        "| program | shape | kernel | counter | counted | expected | ncu | why |\n"
        "|---|---|---|---|---:|---:|---:|---|\n"
    )
    for row in table[~close].itertuples():
        expected = "" if np.isnan(row.expected) else f"{row.expected:,.0f}"
        cells = (row.program, row.shape, row.kernel, row.counter.replace("_", " "), f"{row.counted:,.0f}", expected,
                 f"{row.ncu:,.0f}", row.why or "unknown")  # fmt: skip
        text.append(f"| {' | '.join(cells)} |\n")
    text.append(added(theirs))
    text.append("\n## All counts\n\nOne number if both agree, otherwise the engine's / ncu's.\n")
    for title, starts in GROUPS.items():
        rows = table[table["counter"].str.startswith(starts)]
        names = [name for name in COUNTED if name in set(rows["counter"])]
        heads = " | ".join(name.removeprefix("global_").removeprefix("shared_").replace("_", " ") for name in names)
        text.append(f"\n### {title}\n\n| program | shape | kernel | {heads} |\n|---|---|---{'|---:' * len(names)}|\n")
        for _, launch in rows.groupby("launch"):
            cells = {row.counter: f"{row.counted:,.0f}" + (f" / {row.ncu:,.0f}" if row.error else "")
                     for row in launch.itertuples()}  # fmt: skip
            text.append("| " + " | ".join([*launch[SHOWN].iloc[0], *(cells.get(name, "0") for name in names)]) + " |\n")
    return "".join(text)


def added(theirs: pd.DataFrame) -> str:
    """The wavefronts that the pipe executes beyond those that addresses need, in Markdown."""
    text = (
        "\n## Wavefronts that no address needs\n\n"
        "ncu has two counts of wavefronts in shared memory: those that the addresses of each instruction need "
        f"(`{_NEEDED.format('ld')}`), which are compared here, and those that the pipe executed "
        f"(`{COUNTED['shared_load_wavefronts']}`). The second is a little larger, by an amount that changes from one "
        "recording to the next, and ncu counts the difference among the bank conflicts, too. It is subtracted from "
        f"both. The kernels where it is more than {ALLOWED:.0%}:\n\n"
        "| program | shape | kernel | | needed | added |\n|---|---|---|---|---:|---:|\n"
    )
    for row in theirs.to_dict("records"):
        for op in NEEDED:
            needed, more = row[f"shared_{op}_needed"], row[f"shared_{op}_added"]
            if more > ALLOWED * needed:
                text += f"| {' | '.join(row[name] for name in SHOWN)} | {op}s | {needed:,.0f} | {more:,.0f} |\n"
    return text


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--record", action="store_true", help="record ncu's counters on this GPU")
    parser.add_argument("--missing", action="store_true", help="record what is new or has changed")
    parser.add_argument("--instructions", action="store_true", help="record what nvcc makes of the kernels")
    parser.add_argument("--device", default="nvidia-h200", help="whose recorded counters to compare with")
    parser.add_argument("--launch", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--part", type=int, nargs=2, default=(0, 1), help=argparse.SUPPRESS)  # of what is launched
    chosen = parser.parse_args()
    if chosen.launch:
        launch(chosen.missing, chosen.part)
        return 0
    if chosen.record or chosen.missing:
        print(store.record_evidence(count("gpu", chosen.missing)[0], EXACT, by=KEYS[:2] if chosen.missing else None))
    if chosen.instructions:
        print(write(INSTRUCTIONS, store.named(instructions()).to_csv(index=False, lineterminator="\n")))
    if chosen.record or chosen.missing or chosen.instructions:
        return 0
    for path, option in ((EXACT / f"{chosen.device}.csv", "--record"), (INSTRUCTIONS, "--instructions")):
        if not path.is_file():
            raise LabError(f"there is no {path.name} in {path.parent}: record it with {option}")
    theirs, code = as_addressed(store.read(EXACT / f"{chosen.device}.csv")), store.read(INSTRUCTIONS)
    ours, sites = count("cpu")
    table = explained(compare(ours, theirs), Code(sites, code))
    print(write(REPORT, report(table, theirs, code["compiler"].iloc[0])))
    close = table["error"] <= ALLOWED
    print(f"{close.sum()} of {len(table)} counters agree within {ALLOWED:.0%}, {(~close & (table['why'] == '')).sum()} "
          "differ without a known reason")  # fmt: skip
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except LabError as error:
        sys.exit(f"compare_counters: {error}")
