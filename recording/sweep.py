"""The sizes of rung 07 swept on the device in use, for data/sweeps/.

The parts are, in this order: outputs per thread, with blocks that fit the map; blocks and channels, at the best
outputs; the best of these at the largest batch; and, at the best of all, how far the loop over q is unrolled.
Finished points are in the cache: an interrupted sweep continues where it stopped.
"""

from __future__ import annotations

import math
import time
from typing import Annotated

import pandas as pd
from typer import Option

from hostcuda.files import write
from labkit.base.errors import LabError
from labkit.ladder.rung import tiles
from labkit.ladder.rungs.tuning import TUNED_DEVICE, TUNED_FILE
from labkit.ladder.variants import Variant, variant
from labkit.measure import sweep as measure
from labkit.records import sweeps
from labkit.spec.devices import device
from labkit.spec.layers import LENET72, LENET86, Layer
from recording.keep import record_sweep
from recording.options import Dry, Repeat

LAYERS = (*LENET86, *LENET72)
RUNG = "tuning"
ROWS = (1, 2, 4, 6, 7, 8, 9, 10, 11, 14, 17, 20, 32)
MAPS = (1, 2, 4, 6, 8)
WIDTHS = (32, 64, 96, 128, 160, 192, 256, 320)  # widths of a block
THREADS = {1: 144, 3: 240}  # groups of maps -> about how many threads a block has in the first part
UNROLLED_ROWS = (1, 2, 4, 8, 14, 20)  # in the last part, beside the best number of rows
UNROLL = (1, 2, 3, 4)  # columns of the mask, beside all K of them
CANDIDATES = 3  # pairs of rows and maps of each layer whose blocks are swept
FINALISTS = 8  # points of each layer that are measured at the largest batch, too


def vary_outputs(layer: Layer, _) -> list[Variant]:
    """Vary rows and maps per thread, with one and with three groups of maps per block; widths divide the columns."""
    points = {}
    for rows in ROWS:
        for maps in MAPS:
            if rows <= layer.Ho and maps <= layer.M:
                columns = layer.Wo * tiles(layer.Ho, rows)
                for groups, threads in THREADS.items():
                    y = min(groups, tiles(layer.M, maps))
                    x = tiles(columns, max(1, round(columns * y / threads)))
                    points[variant(RUNG, rows=rows, maps=maps, block=(x, y), channels=min(4, layer.C))] = None
    return list(points)


def vary_blocks(layer: Layer, swept: pd.DataFrame) -> list[Variant]:
    """Vary blocks for the best pairs of rows and maps: some widths, and those that divide the map's columns."""
    points = {}
    pairs = swept.sort_values("op_ms").drop_duplicates(["rows", "maps"])
    for rows, maps in pairs.head(CANDIDATES)[["rows", "maps"]].astype(int).itertuples(index=False):
        columns = layer.Wo * tiles(layer.Ho, rows)
        fitting = {tiles(columns, parts) for parts in range(1, columns // 64 + 1)}
        for x in sorted({*WIDTHS, *(x for x in fitting if x <= max(WIDTHS))}):
            for y in (1, 2, 3, 4):
                if x * y <= 512 and y <= tiles(layer.M, maps):
                    points[variant(RUNG, rows=rows, maps=maps, block=(x, y), channels=min(4, layer.C))] = None
    return list(points)


def vary_channels(layer: Layer, swept: pd.DataFrame) -> list[Variant]:
    """Vary the number of channels at a time, for the best point of all."""
    best = sweeps.best(swept, layer)
    return [variant(RUNG, **{**best.options, "channels": count})
            for count in sorted({1, 2, 3, 4, 6, layer.C}) if count <= layer.C]


def select_finalists(layer: Layer, swept: pd.DataFrame) -> list[Variant]:
    """Return the fastest points so far."""
    fastest = swept.drop_duplicates("label").nsmallest(FINALISTS, "op_ms")
    return [sweeps.best(fastest[fastest["label"] == label], layer) for label in fastest["label"]]


def vary_unrolling(layer: Layer, swept: pd.DataFrame) -> list[Variant]:
    """Vary how many columns of the mask are unrolled, and the rows, at the best maps, block and channels."""
    best = sweeps.best(swept, layer)
    return [variant(RUNG, **{**best.options, "rows": rows, "unroll": count})
            for rows in sorted({*UNROLLED_ROWS, best.options["rows"]}) if rows <= layer.Ho
            for count in sorted({*UNROLL, layer.K}) if count <= layer.K]


PARTS = {"outputs": vary_outputs, "blocks": vary_blocks, "channels": vary_channels, "finalists": select_finalists,
         "unroll": vary_unrolling}


def write_tuned_sizes(swept: pd.DataFrame) -> str:
    """Return the text of `TUNED_FILE`: the fastest sizes of each layer in the sweep of a device."""
    lines = ["# By python -m recording sweep: the fastest sizes of each layer, CxHxW MxK, in a sweep",
             f'device = "{swept["device"].iloc[0]}"', "", "[layers]"]
    for at in LAYERS:
        s = sweeps.best(swept, at).scope(at)
        sizes = (f"rows = {s.rows}, maps = {s.maps}, block = {list(s.block)}, channels = {s.channels}, "
                 f"unroll = {s.unroll}")
        lines.append(f'"{at.C}x{at.H}x{at.W} {at.M}x{at.K}" = {{ {sizes} }}  # {at.name}')
    return "\n".join(lines) + "\n"


def sweep(
    part: Annotated[list[str] | None, Option(help=f"Of {', '.join(PARTS)}; may be repeated.")] = None,
    batch: Annotated[int | None, Option(help="Images; by default what suits the engine.")] = None,
    largest: Annotated[int, Option(help="Images of the finalists.")] = 10_000,
    repeat: Repeat = 9,
    seconds: Annotated[float, Option(help="Begin no new part after that time.")] = math.inf,
    every: Annotated[int, Option(help="Take only every n-th point: a trial.")] = 1,
    sizes: Annotated[bool, Option("--sizes", help="Sweep nothing; write the default sizes from the record.")] = False,
    dry: Dry = False,
) -> None:
    """Sweep the sizes of rung 07: data/sweeps/.

    Without the part "outputs", the others begin with the best sizes on record. On the device that the default sizes are
    from, they are written, too.
    """
    if unknown := set(part or ()) - set(PARTS):
        raise LabError(f"the sweep has no part {min(unknown)!r}; it has {', '.join(PARTS)}")
    start, parts = time.perf_counter(), () if sizes else part or tuple(PARTS)
    tables = [] if sizes or "outputs" in parts else [sweeps.read_sweep(device().name)]

    def of(layer: Layer) -> pd.DataFrame | None:
        swept = pd.concat(tables, ignore_index=True) if tables else None
        return swept if swept is None else swept[(swept["layer"] == layer.name) & swept["op_ms"].notna()]

    for name, layer in ((name, layer) for name in PARTS if name in parts for layer in LAYERS):
        if time.perf_counter() - start > seconds:
            print(f"{name}, {layer.name}: no time left", flush=True)
            continue
        points = PARTS[name](layer, of(layer))[::every]
        tables.append(table := measure.sweep(points, layer, largest if name == "finalists" else batch, repeat=repeat))
        failed = int((table["reason"] != "").sum())
        print(f"{name}, {layer.name}: {len(table)} points, {failed} cannot run; {time.perf_counter() - start:.1f} s so "
              "far", flush=True)
        if not dry:
            record_sweep(table)

    for layer in LAYERS if tables else ():
        for size, rows in of(layer).drop_duplicates(["label", "batch"]).groupby("batch"):
            shown = rows.nsmallest(6, "op_ms")[["options", "op_ms", "x_reference", "registers", "shared_bytes"]]
            print(f"\n{layer.name}, batch {size}\n{shown.to_string(index=False)}")
    print(f"\n{time.perf_counter() - start:.1f} s in all")
    if not dry and (sizes or device().name == TUNED_DEVICE):
        print(write(TUNED_FILE, write_tuned_sizes(sweeps.read_sweep(TUNED_DEVICE))))
