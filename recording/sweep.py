"""The sizes of rung 07 swept on the device in use, for data/sweeps/.

The parts are, in this order: outputs per thread, with blocks that fit the map; blocks and channels,
at the best outputs; the best of these at the largest batch; at the best of all, how far the loop
over q is unrolled; and points of page 07 (sizes) with that loop not unrolled. Finished points are
in the cache: an interrupted sweep continues where it stopped. Each part is a function of a layer
and of `swept`, the layer's points so far, a table as `labkit.sweep` returns it. It returns the
variants to measure.
"""

import time
from itertools import product
from typing import Annotated

import pandas as pd
from typer import Option

from hostcuda.files import write
from labkit import LENET86, Layer, device, variant
from labkit.ladder.rung import tiles
from labkit.ladder.rungs.tuning import TUNED_DEVICE, TUNED_FILE
from labkit.ladder.variants import Variant
from labkit.measure import sweep as measure
from labkit.records import sweeps
from recording.keep import record_sweep
from recording.options import LAYERS, Dry, Repeat

RUNG = "tuning"
ROWS, MAPS = (1, 2, 4, 6, 7, 8, 9, 10, 11, 14, 17, 20, 32), (1, 2, 4, 6, 8)  # outputs per thread
WIDTHS = (32, 64, 96, 128, 160, 192, 256, 320)  # widths of a block
THREADS = {1: 144, 3: 240}  # groups of maps -> about how many threads a block has in the first part
MOST_THREADS = 512  # of a block in the second part
UNROLLED_ROWS = (1, 2, 4, 8, 14, 20)  # in the last part, beside the best number of rows
UNROLL = (1, 2, 3, 4)  # columns of the mask, beside all K of them
CANDIDATES = 3  # pairs of rows and maps of each layer whose blocks are swept
# of page 07 (sizes) on this layer: outputs per thread whose loop over q stays a loop
ROLLED_LAYER = LENET86[1]
ROLLED = (*product((4, 8, 17), (4, 6, 8)), (14, 8), (20, 8))
# points of each layer that are measured with the most images, too
FINALISTS, FINALISTS_BATCH = (8, 10_000)


def _make_point(layer: Layer, rows: int, maps: int, block: tuple[int, int]) -> Variant:
    """Return the variant with these rows and maps per thread and this block, and up to four channels at a time."""
    return variant(RUNG, rows=rows, maps=maps, block=block, channels=min(4, layer.C))


def _fit_width(layer: Layer, rows: int, threads: float) -> int:
    """Return the width of a block, near `threads`, of which as few as possible have no work."""
    columns = layer.Wo * tiles(layer.Ho, rows)
    return tiles(columns, max(1, round(columns / threads)))


def vary_outputs(layer: Layer, swept: pd.DataFrame) -> list[Variant]:
    """Return variants with each number of rows and maps per thread that fits the layer: a sweep's first part.

    A block has one or three groups of maps; its width fits the layer's columns. `swept` is unused:
    all parts of a sweep have these arguments.
    """
    points = {}  # a dict: without repetition, in order
    for rows, maps in product(ROWS, MAPS):
        if rows <= layer.Ho and maps <= layer.M:
            for groups, threads in THREADS.items():  # {1: 144, 3: 240}: threads of a block
                y = min(groups, tiles(layer.M, maps))  # `tiles`: division, rounded up
                block = _fit_width(layer, rows, threads / y), y
                points[_make_point(layer, rows, maps, block)] = None
    return list(points)


def vary_blocks(layer: Layer, swept: pd.DataFrame) -> list[Variant]:
    """Return variants of the best pairs of rows and maps so far, with blocks of many widths and heights.

    A thread computes `rows` outputs of a column in each of `maps` maps. The widths are WIDTHS, and
    those that divide a layer's columns among blocks of equal width; a height is a number of groups
    of maps.
    """
    points = {}  # a dict: without repetition, in order
    pairs = swept.sort_values("op_ms").drop_duplicates(["rows", "maps"])
    for rows, maps in pairs.head(CANDIDATES)[["rows", "maps"]].astype(int).itertuples(index=False):
        # pieces of `rows` outputs in a map: `tiles` divides and rounds up
        columns = layer.Wo * tiles(layer.Ho, rows)
        # at least two warps wide
        dividing = {tiles(columns, blocks) for blocks in range(1, columns // 64 + 1)}
        for x in sorted({*WIDTHS, *(x for x in dividing if x <= max(WIDTHS))}):
            for y in (1, 2, 3, 4):
                if x * y <= MOST_THREADS and y <= tiles(layer.M, maps):
                    points[_make_point(layer, rows, maps, (x, y))] = None
    return list(points)


def vary_channels(layer: Layer, swept: pd.DataFrame) -> list[Variant]:
    """Return the fastest variant so far, with several numbers of channels that a block takes at a time."""
    best = sweeps.best(swept, layer)
    return [
        variant(RUNG, **{**best.options, "channels": count})
        for count in sorted({1, 2, 3, 4, 6, layer.C})
        if count <= layer.C
    ]


def select_finalists(layer: Layer, swept: pd.DataFrame) -> list[Variant]:
    """Return the `FINALISTS` fastest variants of the table `swept`, which are measured again with more images."""
    fastest = swept.drop_duplicates("label").nsmallest(FINALISTS, "op_ms")
    # `best` of a single label makes its row a variant
    return [sweeps.best(fastest[fastest["label"] == label], layer) for label in fastest["label"]]


def vary_unrolling(layer: Layer, swept: pd.DataFrame) -> list[Variant]:
    """Return the fastest variant so far, with several numbers of rows per thread, and of unrolled mask columns."""
    best = sweeps.best(swept, layer)
    return [
        variant(RUNG, **{**best.options, "rows": rows, "unroll": count})
        for rows in sorted({*UNROLLED_ROWS, best.options["rows"]})
        if rows <= layer.Ho
        for count in sorted({*UNROLL, layer.K})
        if count <= layer.K
    ]


def leave_rolled(layer: Layer, swept: pd.DataFrame) -> list[Variant]:
    """Return variants with (rows, maps) of `ROLLED` whose loops are not unrolled; only on `ROLLED_LAYER`.

    `swept` is unused: all parts of a sweep have these arguments.
    """
    if layer != ROLLED_LAYER:
        return []
    points = []
    for rows, maps in ROLLED:
        block = _fit_width(layer, rows, THREADS[1]), 1  # width and height, in threads
        options = _make_point(layer, rows, maps, block).options
        points.append(variant(RUNG, **{**options, "unroll": 1}))
    return points


PARTS = {
    "outputs": vary_outputs,
    "blocks": vary_blocks,
    "channels": vary_channels,
    "finalists": select_finalists,
    "unroll": vary_unrolling,
    "rolled": leave_rolled,
}


def write_tuned_sizes(swept: pd.DataFrame) -> str:
    """Return the text of `TUNED_FILE`, TOML: the fastest sizes of each layer in a device's sweep.

    `swept` is the table of a whole sweep, of all layers.
    """
    lines = [
        "# By python -m recording sweep: the fastest sizes of each layer, CxHxW MxK, in a sweep",
        f'device = "{swept["device"].iloc[0]}"',
        "",
        "[layers]",
    ]
    for layer in LAYERS:
        best = sweeps.best(swept, layer).scope(layer)  # an object with all sizes, by name
        sizes = (
            f"rows = {best.rows}, maps = {best.maps}, block = {list(best.block)}, channels = {best.channels}, "
            f"unroll = {best.unroll}"
        )
        lines.append(
            f'"{layer.C}x{layer.H}x{layer.W} {layer.M}x{layer.K}" = {{ {sizes} }}  # {layer.name}'
        )
    return "\n".join(lines) + "\n"


def sweep(
    repeat: Repeat = 9,
    every: Annotated[int, Option(help="Take only every n-th point: a trial.")] = 1,
    dry: Dry = False,
) -> None:
    """Sweep the sizes of rung 07: data/sweeps/.

    The kernel is timed with many sizes of its tiles and blocks on each layer. If this is the device
    that rung 07 has its default sizes from, these are written, too.
    """
    start = time.perf_counter()
    tables = [pd.DataFrame(columns=["layer", "op_ms"])]  # empty: the first part has no points yet
    # PARTS: name of a part -> function that returns its points, from a layer and its times so far
    for name, layer in product(PARTS, LAYERS):
        # the empty table only while there is no other
        swept = pd.concat(tables[1:] or tables, ignore_index=True)
        swept = swept[(swept["layer"] == layer.name) & swept["op_ms"].notna()]
        if not (points := PARTS[name](layer, swept)[::every]):
            continue
        images = FINALISTS_BATCH if name == "finalists" else None  # None: what suits the engine
        tables.append(table := measure.sweep(points, layer, images, repeat=repeat))
        # reason: why a point cannot run
        print(
            f"{name}, {layer.name}: {len(table)} points, {(table['reason'] != '').sum()} cannot run; "
            f"{time.perf_counter() - start:.1f} s so far",
            flush=True,
        )
        if not dry:
            record_sweep(table)
    if not dry and device().name == TUNED_DEVICE:  # rung 07 reads its default sizes from TUNED_FILE
        print(write(TUNED_FILE, write_tuned_sizes(sweeps.read_sweep(TUNED_DEVICE))))
