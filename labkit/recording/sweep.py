#!/usr/bin/env python3
"""Sweep the sizes of rung 07 on the device at hand, for data/sweeps/.

    python -m labkit.recording.sweep                 sweep, and keep the table in data/sweeps/<device>.csv
    python -m labkit.recording.sweep --dry           keep nothing
    python -m labkit.recording.sweep --seconds 120   begin no new part after that time
    python -m labkit.recording.sweep --parts unroll  this part alone, from the best sizes on record
    python -m labkit.recording.sweep --sizes         sweep nothing, write rung 07's default sizes from the record

The finished points lie in the cache: an interrupted sweep goes on where it stopped. The parts: outputs a thread, with
blocks that fit the map; then blocks and channels, at the best outputs; then the best at 10 000 images; and of the best
of these, how far the loop over q is unrolled, against rows.
"""

import argparse
import sys
import time

import pandas as pd

import labkit
from labkit.ladder.rung import tiles
from labkit.ladder.rungs.tuning import TUNED_DEVICE, TUNED_FILE
from labkit.records import sweeps

LAYERS = (*labkit.LENET86, *labkit.LENET72)
ROWS = (1, 2, 4, 6, 7, 8, 9, 10, 11, 14, 17, 20, 32)
MAPS = (1, 2, 4, 6, 8)
WIDTHS = (32, 64, 96, 128, 160, 192, 256, 320)  # of a block
THREADS = {1: 144, 3: 240}  # of a block in the first part, about: groups of maps -> threads
PARTS = ("outputs", "blocks", "channels", "finalists", "unroll")
UNROLLED_ROWS = (1, 2, 4, 8, 14, 20)  # and the best, of the last part
UNROLL = (1, 2, 3, 4)  # and all K columns of the mask
CANDIDATES = 3  # pairs of rows and maps of each layer whose blocks are swept
FINALISTS = 8  # points of each layer that are measured at the largest batch, too


def outputs(layer, _) -> list:
    """Rows and maps of a thread, with one and with three groups of maps a block; widths that divide the columns."""
    found = {}
    for rows in ROWS:
        for maps in MAPS:
            if rows <= layer.Ho and maps <= layer.M:
                columns = layer.Wo * tiles(layer.Ho, rows)
                for groups, threads in THREADS.items():
                    y = min(groups, tiles(layer.M, maps))
                    x = tiles(columns, max(1, round(columns * y / threads)))
                    found[labkit.variant(7, rows=rows, maps=maps, block=(x, y), channels=min(4, layer.C))] = None
    return list(found)


def blocks(layer, swept) -> list:
    """Blocks for the best pairs of rows and maps: some widths, and those that divide the map's columns; channels."""
    found = {}
    pairs = swept.sort_values("op_ms").drop_duplicates(["rows", "maps"])
    for _, best in pairs.head(CANDIDATES).iterrows():
        rows, maps = int(best["rows"]), int(best["maps"])
        columns = layer.Wo * tiles(layer.Ho, rows)
        fitting = {tiles(columns, parts) for parts in range(1, columns // 64 + 1)}
        for x in sorted({*WIDTHS, *(x for x in fitting if x <= max(WIDTHS))}):
            for y in (1, 2, 3, 4):
                if x * y <= 512 and y <= tiles(layer.M, maps):
                    found[labkit.variant(7, rows=rows, maps=maps, block=(x, y), channels=min(4, layer.C))] = None
    return list(found)


def channels(layer, swept) -> list:
    """Other channels at a time, for the best of all."""
    best = sweeps.best(swept, layer)
    return [labkit.variant(7, **{**best.options, "channels": count})
            for count in sorted({1, 2, 3, 4, 6, layer.C}) if count <= layer.C]  # fmt: skip


def unroll(layer, swept) -> list:
    """How many columns of the mask are unrolled at a time, against rows, at the best maps, block and channels."""
    best = sweeps.best(swept, layer)
    return [labkit.variant(7, **{**best.options, "rows": rows, "unroll": count})
            for rows in sorted({*UNROLLED_ROWS, best.options["rows"]}) if rows <= layer.Ho
            for count in sorted({*UNROLL, layer.K}) if count <= layer.K]  # fmt: skip


def tuned_sizes(swept: pd.DataFrame) -> str:
    """The text of `TUNED_FILE`: the fastest sizes of each layer in the sweep of a device."""
    lines = ["# By python -m labkit.recording.sweep: the fastest sizes of each layer, CxHxW MxK, in a sweep",
             f'device = "{swept["device"].iloc[0]}"', "", "[layers]"]  # fmt: skip
    for at in LAYERS:
        s = sweeps.best(swept, at).scope(at)
        sizes = (f"rows = {s.rows}, maps = {s.maps}, block = {list(s.block)}, channels = {s.channels}, "
                 f"unroll = {s.unroll}")  # fmt: skip
        lines.append(f'"{at.C}x{at.H}x{at.W} {at.M}x{at.K}" = {{ {sizes} }}  # {at.name}')
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--dry", action="store_true", help="keep nothing in data/sweeps/")
    parser.add_argument("--batch", type=int, help="images (1000 on a GPU, 10 on a CPU)")
    parser.add_argument("--largest", type=int, default=10_000, help="images of the last part")
    parser.add_argument("--repeat", type=int, default=9, help="timed runs of a point")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no new part after that time")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS, help="these alone")
    parser.add_argument("--every", type=int, default=1, help="take every n-th point alone: a trial")
    parser.add_argument("--sizes", action="store_true", help="sweep nothing, write rung 07's default sizes")
    chosen = parser.parse_args()
    if chosen.sizes:
        TUNED_FILE.write_text(tuned_sizes(sweeps.read_sweep(TUNED_DEVICE)))
        return 0

    start = time.perf_counter()
    tables = [] if "outputs" in chosen.parts else [sweeps.read_sweep(labkit.device().name)]

    def part(make, layer):
        what = f"{make.__name__}, {layer.name}"
        if time.perf_counter() - start > chosen.seconds:
            print(f"{what}: no time left", flush=True)
            return
        variants = make(layer, of(layer) if tables else None)[:: chosen.every]
        batch = chosen.largest if make is finalists else chosen.batch
        tables.append(table := labkit.sweep(variants, layer, batch, repeat=chosen.repeat))
        seconds = time.perf_counter() - start
        failed = int((table["reason"] != "").sum())
        print(f"{what}: {len(table)} points, {failed} cannot run; {seconds:.1f} s so far", flush=True)
        if not chosen.dry:
            sweeps.record_sweep(table)

    def of(layer):
        swept = pd.concat(tables, ignore_index=True)
        return swept[(swept["layer"] == layer.name) & swept["op_ms"].notna()]

    def finalists(layer, swept):
        fastest = swept.drop_duplicates("label").nsmallest(FINALISTS, "op_ms")
        return [sweeps.best(fastest[fastest["label"] == label], layer) for label in fastest["label"]]

    for make in (outputs, blocks, channels, finalists, unroll):
        for layer in LAYERS if make.__name__ in chosen.parts else ():
            part(make, layer)

    for layer in LAYERS if tables else ():
        for batch, rows in of(layer).drop_duplicates(["label", "batch"]).groupby("batch"):
            shown = rows.nsmallest(6, "op_ms")[["options", "op_ms", "x_reference", "registers", "shared_bytes"]]
            print(f"\n{layer.name}, batch {batch}\n{shown.to_string(index=False)}")
    print(f"\n{time.perf_counter() - start:.1f} s in all")
    if not chosen.dry and labkit.device().name == TUNED_DEVICE:
        TUNED_FILE.write_text(tuned_sizes(sweeps.read_sweep(TUNED_DEVICE)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
