"""The figures: they say what they were given, nothing overlaps, and every one can be read without seeing it."""

import inspect
import io
import itertools
import re
from types import SimpleNamespace
from unittest.mock import Mock

import numpy as np
import pandas as pd
import pytest
from matplotlib.text import Text
from PIL import Image, ImageChops

import labkit.draw as draw
from hostcuda import limits, metrics
from hostcuda.errors import EngineError
from labkit.base import numerals
from labkit.base.errors import LabError
from labkit.base.paths import PACKAGE, cuda_src
from labkit.draw import style
from labkit.draw.dark import dark
from labkit.exercises.exercise import exercise
from labkit.measure.pipeline import schedule
from labkit.records.recorded import recorded
from labkit.spec.devices import device
from labkit.spec.layers import LENET28, LENET72, LENET86, PRESETS, Layer
from recording import pictures

pytestmark = [
    pytest.mark.thorough("figures, which the notebooks draw, too"),
    pytest.mark.filterwarnings("error"),
]

LAYERS = [layer for preset in PRESETS.values() for layer in preset]
ODD = [
    Layer("odd", 3, 13, 29, 5, 1),
    Layer("odd", 2, 11, 9, 3, 2),
    Layer("odd", 1, 40, 50, 2, 11),
    Layer("odd", 64, 9, 9, 128, 3),
]
TOO_LARGE = Layer("a layer with a name as long as this", 64, 20, 20, 64, 3)
NAMES = [
    "01 baseline",
    "02 constant",
    "03 registers",
    "04 tiling",
    "05 unroll_gemm",
    "06 fusion",
    "08 fp16",
    "09 tensor_cores",
    "07 tuning",
    "12 streams",
    "11 training",
    "10 speed of light",
]
FLOORS = {
    "lenet86 layer 1": 0.42,
    "lenet86 layer 2": 1.21,
    "lenet72 layer 1": 0.85,
    "lenet72 layer 2": 3.43,
}
NOTE = "Not GPU times: measured on the CPU engine (A(R) Processor(TM) 8481C @ 2.70GHz, 2 workers)."
LANE = np.arange(32)
RATES = device("H200").ceilings


# ---------------------------------------------------------------- made-up measurements, to be drawn
def noted(table, note=NOTE):
    """Return a copy of a table with a note."""
    table = table.copy()
    table.attrs["note"] = note
    return table


def rungs(count=8, layers=("lenet86 layer 2",), batches=(10000,), seed=0):
    """Return a table as `bench` returns it."""
    random = np.random.default_rng(seed)
    rows = []
    for layer, batch in itertools.product(layers, batches):
        for label in NAMES[:count]:
            over = float(np.exp(random.uniform(0.1, 3.5))) * (1 + 100 / batch)
            op_ms = FLOORS[layer] * over * batch / 10000
            rows.append((label, layer, batch, op_ms, over, 25000 / over))
    table = pd.DataFrame(
        rows, columns=["label", "layer", "batch", "op_ms", "x_reference", "gflop_s"]
    )
    return table.assign(dtype="float32", device="NVIDIA H200", engine="gpu")


def activity(kernels=5, calls=10):
    """Return the summary of a trace."""
    rows = [("kernel", f"kernel_number_{i}", i + 1, 20.0 / (i + 1) ** 2) for i in range(kernels)]
    rows += [("copy", "HtoD", 9, 5.3)] if kernels else []
    rows += [("api", f"cuCall{i}", 2 * i + 1, 30.0 / (i + 1) ** 3) for i in range(calls)]
    return pd.DataFrame(rows, columns=["kind", "name", "calls", "total_ms"])


def reasons(label="04 tiling", layer="lenet86 layer 1", **cycles):
    """Return a row of recorded counters: half a cycle for each stall reason that is not given."""
    stalled = {metrics.STALLED.format(name): cycles.get(name, 0.5) for name in metrics.STALLS}
    return {
        "label": label,
        "layer": layer,
        "device": "NVIDIA H200",
        "date": "2026-11-21",
        **stalled,
    }


def parts(
    layers=("lenet86 layer 1", "lenet86 layer 2"),
    labels=("05 unroll gemm", "05 unroll gemm, gemm=cublas"),
):
    """Return times by kernel as `kernel_times` does."""
    rows = [
        (label, layer, 1000, kernel, 0.4 * (i + 1) + 3 * (kernel == "gemm"), "NVIDIA H200")
        for i, layer in enumerate(layers)
        for label in labels
        for kernel in ("im2col", "gemm")
    ]
    return pd.DataFrame(rows, columns=["label", "layer", "batch", "kernel", "op_ms", "device"])


def planned(chunk=1000, streams=3, pinned=True, kernel_ms=3.7):
    """Return the timeline of a layer."""
    return schedule(LENET86[0], 10_000, kernel_ms, chunk, streams, pinned, on="H200")


def chunks(counts=(1, 2, 3, 8), sizes=(100, 1000, 10_000)):
    """Return layer times as `bench_streams` does."""
    random = np.random.default_rng(0)
    rows = [
        (n, c, 18.5 + 9 * (c / 10_000 if n > 1 else 1) + random.uniform(0, 1))
        for n, c in itertools.product(counts, sizes)
    ]
    return pd.DataFrame(rows, columns=["streams", "chunk", "steady_ms"])


TRIPLES = [
    ("01 baseline", 59.0, 3800.0),
    ("02 constant", 59.0, 3900.0),
    ("03 registers", 9.5, 7400.0),
    ("04", 0.5, 900.0),
]
ROOF = {
    "peaks": {"FP32 GEMM": 50.9e3, "FP32 peak": 66.9e3},
    "bandwidths": {"copy": 4230.0, "L2": 12000.0},
}
SHARES = pd.DataFrame(
    [
        ("kernel", "big", 2, 80.0),
        ("copy", "copy", 1, 15.0),
        ("kernel", "small", 7, 5.0),
        ("api", "call", 9, 0.25),
    ],
    columns=["kind", "name", "calls", "total_ms"],
)
DIVERGENCE = {"global memory": {1: 5.0, 2: 6.0, 16: 31.5}, "constant memory": {16: 31.0, 1: 4.0}}
MIXES = {
    "02 constant": {
        "multiply-add": 1.0,
        "input": 1.0,
        "mask": 1.0,
        "stores": 1.02,
        "integer": 7.5,
        "other": 2.0,
    },
    "03 registers": {"multiply-add": 1.0, "input": 1.0, "mask": 1.0, "integer": 0.4},
}
THREE = {
    "ordinary memory, three streams": planned(pinned=False),
    "page-locked memory, one stream": planned(streams=1),
    "page-locked memory, three streams": planned(),
}
KERNELS = pd.DataFrame(
    [
        ("fp_c1", "loops", 3.1, 8.26),
        ("fp_c1", "atomics", 7.2, 12.16),
        ("fp_c1", "shared mask + input", 2.5, 6.69),
        ("bp_weight_c1", "loops", 150.0, 271.81),
        ("bp_weight_c1", "shuffle", 3.0, np.nan),
    ],
    columns=["kernel", "label", "us", "published_us"],
)
EPOCHS = np.arange(21)
CURVES = {
    "1 image, rate 0.1": pd.Series(0.96 - 0.86 * np.exp(-EPOCHS), EPOCHS),
    "100 images, rate 0.1": pd.Series(0.9 - 0.8 * np.exp(-EPOCHS / 3), EPOCHS),
}
LINES = {
    "minibatch": pd.Series({1: 1.7, 10: 0.17, 1000: 0.009, 10_000: 0.008}),
    "deterministic": pd.Series({1: 1.75, 10: 0.18, 1000: 0.012, 10_000: 0.01}),
}
CONTENTION = pd.DataFrame(
    {"neighbours": np.linspace(20, 6400, 10), "apart": np.linspace(20, 6000, 10)},
    [4**n for n in range(10)],
)


# ---------------------------------------------------------------------------- how they are examined
@pytest.fixture
def render(monkeypatch, tmp_path):
    """Draw into a file; return the page as it was when it was saved, with its texts."""
    pages = []
    save = style.save
    monkeypatch.setattr(style, "save", lambda page, path: (pages.append(page), save(page, path)))

    def call(function, *args, **options):
        """Draw to a file; return the page with its file, its words, its title and its subtitle."""
        path = tmp_path / f"{len(pages)}.png"
        assert function(*args, path=path, **options) is None
        page = pages[-1]
        page.file = path
        shown = (text.get_text() for text in page.fig.findobj(Text) if text.get_visible())
        page.words = [text for text in shown if text.strip()]
        page.title, page.subtitle = (text.get_text() for text in page.fig.texts[:2])
        return page

    return call


@pytest.fixture
def compose(monkeypatch, render):
    """Draw like `render`, for tests of the words alone: nothing is rendered, which takes most of the time."""
    monkeypatch.setattr(style, "png", lambda page: b"not rendered")
    return render


def collisions(page):
    """Return pairs of texts that cover each other, and texts that leave the page."""
    dpi = page.fig.dpi
    # where the texts were laid out when the page was saved
    page.fig.set_dpi(style.DPI * style.DENSITY)
    boxes = []
    for text in page.fig.findobj(Text):
        if text.get_visible() and text.get_text().strip():
            boxes.append((text.get_text(), text.get_window_extent(), text.get_rotation() % 90))
    edge = page.fig.bbox.frozen()
    page.fig.set_dpi(dpi)
    pairs = []
    for (a, box_a, slope_a), (b, box_b, slope_b) in itertools.combinations(boxes, 2):
        if slope_a or slope_b:  # the box of a slanted text is mostly empty
            continue
        across = min(box_a.x1, box_b.x1) - max(box_a.x0, box_b.x0)
        down = min(box_a.y1, box_b.y1) - max(box_a.y0, box_b.y0)
        if across > 2 and down > 6:  # pixels: a line's box has air above and below
            pairs.append((a, b, round(across), round(down)))
    outside = [
        (text, box.bounds)
        for text, box, _ in boxes
        if box.x0 < 0 or box.y0 < -1 or box.x1 > edge.x1 or box.y1 > edge.y1 + 1
    ]
    return pairs + outside


def case(figure, *arguments, title="", words=(), alt=(), about=None, **options):
    """Return a figure to draw, and what it has to say: a part of its title, texts on it, parts of its description."""
    options |= {"subtitle": about} if about else {}
    return pytest.param(figure, arguments, options, title, {*words}, alt, id=figure.__name__)


CASES = [
    # the first pages
    case(
        draw.network,
        LENET86,
        words=[
            "conv1  25 %",
            "conv2  74 %",
            "4.92 million per image",
            "1×86×86",
            "4×80×80",
            "4×40×40",
            "16×34×34",
            "16×9×9",
            "32",
            "10",
        ],
    ),
    *(
        case(
            draw.network,
            preset,
            words=[
                size
                for layer in preset
                for size in (f"{layer.C}×{layer.H}×{layer.W}", f"{layer.M}×{layer.Ho}×{layer.Wo}")
            ],
        )
        for preset in (LENET72, LENET28)
    ),
    case(draw.network, LENET86, times={"conv1": 5.0, "conv2": 18.9, "everything else": 3.1}),
    case(draw.network, LENET86, times={"conv1": 0.1, "conv2": 99, "copies": 0.5, "others": 0.2}),
    case(
        draw.convolution,
        LENET86[1],
        title="Neighbouring threads read 168 of the same 196 inputs",
        alt=["has 6,400 inputs. Its 18,496 threads ask for 3,625,216: each input 566 times."],
    ),
    *(case(draw.convolution, layer) for layer in LAYERS + ODD if layer is not LENET86[1]),
    case(draw.grid, LENET86[0], (16, 16), title="Every thread has an output"),
    *(
        case(draw.grid, layer, block, batch)
        for layer, block, batch in (
            (LAYERS[1], (16, 16), 10000),
            (LAYERS[2], (32, 8), None),
            (LAYERS[3], (27, 27), 100),
            (ODD[0], (1, 1), None),
            (ODD[1], (1, 128), 1),
            (ODD[2], (1024, 1), 7),
        )
    ),
    case(draw.images, np.ones((20, 1, 8, 8)), range(20)),
    case(
        draw.images,
        np.zeros((3, 8, 8)),
        [7, 2, 1],
        [7, 2, 4],
        title="2 of these 3 are read correctly",
        words=["1 → 4", "7"],
        alt=["1 wrong"],
    ),
    case(draw.images, np.zeros((3, 8, 8)), [7, 2, 1], [7, 2, 1], title="All 3 are read correctly"),
    case(draw.threads),
    case(
        draw.threads,
        n=1000,
        threads=256,
        block=3,
        thread=2,
        title="Thread 2 of block 3 computes element 770",
        words=[
            "i = blockIdx.x · blockDim.x + threadIdx.x = 3 · 256 + 2 = 770",
            "768 to 999",
            "24 threads without an element",
        ],
    ),
    case(draw.threads, n=2048, block=7, thread=0),
    case(draw.threads, n=70, threads=32, thread=1),
    case(draw.threads, n=9, threads=1024, block=0),
    case(
        draw.memories,
        words=[
            f"140 GB, {RATES['reference_bandwidth'] / 1e12:.3g} TB/s",
            f"link: {RATES['to_device_pinned'] / 1e9:.3g} GB/s",
            f"{limits.MULTIPROCESSOR['sm_90']['registers'] * 4 // 1024} KB per multiprocessor",
        ],
    ),
    case(
        draw.hiding,
        warps=(1, 9),
        title="With 9 warps the scheduler is busy in 100 % of the cycles, with 1 warp in 11 %",
        alt=["1 warp: 11 % of the issue slots are used. 9 warps: 100 %"],
    ),
    case(draw.hiding),
    case(draw.hiding, warps=[16], work=1, latency=90),
    *(case(draw.shuffle, lanes) for lanes in (2, 4, 8, 16)),
    case(draw.shuffle, 32, title="5 shuffles instead of 32", alt=["offsets are 16, 8, 4, 2, 1"]),
    # what a warp asks of a memory
    *(
        case(draw.sectors, addresses, words=[words], alt=[words])
        for addresses, words in (
            (LANE * 4, "4 sectors, 128 of 128 bytes used (100 %)"),
            (LANE * 4 + 4, "5 sectors, 128 of 160 bytes used (80 %)"),
            (LANE * 160, "32 sectors, 128 of 1,024 bytes used (12 %)"),
            (LANE * 0, "1 sector, 4 of 32 bytes used (12 %)"),
            (np.array([-1, 30, -1]), "2 sectors, 4 of 64 bytes used (6.2 %)"),
        )
    ),
    case(draw.sectors, LANE * 0, size=16),
    case(draw.sectors, {"one": np.array([-1, 64, -1, 4096]), "wide": LANE * 16}, size=16),
    case(draw.coalescing, LENET86[1], (32, 8), title="One request of a warp moves 4 sectors or 32"),
    *(
        case(draw.coalescing, *of)
        for of in ((LAYERS[0], (16, 16)), (LAYERS[1], (8, 2)), (LAYERS[2], (27, 27)))
    ),
    case(
        draw.constant_reads,
        {"one": LANE * 0 + 16383, "two": LANE % 16 * 196, "few": np.array([-1, 5, 5])},
        words=["1 turn serves all 32 lanes", "16 turns of 2 lanes", "1 turn serves 2 lanes"],
        alt=["two: 16 turns of 2 lanes."],
    ),
    case(
        draw.constant_reads,
        {"own": LANE, "seven": LANE % 7},
        words=["32 turns of 1 lane", "7 turns of up to 5 lanes"],
    ),
    case(
        draw.constant_budget,
        [*LENET72, Layer("full", 64, 9, 9, 64, 2), TOO_LARGE],
        title="3 of 4 masks fit into constant memory",
        alt=[
            "lenet72 layer 2: 24·12·7·7 elements, 56,448 bytes, 86 %.",
            "147,456 bytes, 225 %, too many.",
            "full: 64·64·2·2 elements, 65,536 bytes, 100 %.",
        ],
    ),
    case(draw.constant_budget, [LENET86[0]], title="The mask fits into constant memory"),
    # matrices, tiles and patterns
    case(
        draw.im2col,
        title="Every window becomes a column; input 12 is in 9 of them",
        words=["one channel of 5×5, K = 3   ·   x has 25 elements, u has 9 × 9 = 81"],
        alt=[
            "Input 12 is in 9 places: row 0 column 8, row 1 column 7, row 2 column 6, row 3 column 5",
            "window of output (1, 1) is column 4",
        ],
    ),
    case(draw.im2col, element=(0, 0), title="input 0 is in one", alt=["1 place: row 0 column 0."]),
    case(draw.im2col, 4, 6, 2, (0, 0), (0, 0)),
    case(draw.im2col, 7, 8, 4, (3, 4), (3, 3)),
    case(draw.im2col, 3, 3, 1),
    case(
        draw.fused_index,
        LENET86[1],
        152,
        429,
        words=[
            "152 = (3 · 7 + 0) · 7 + 5",
            "429 = 12 · 34 + 21",
            "offset (3 · 40 + 12) · 40 + 26 = 5,306",
        ],
        alt=["so the element is x[3, 12, 26]."],
    ),
    case(draw.fused_index, LENET72[1], 587, 728),
    case(draw.fused_index, Layer("flat", 1, 5, 40, 2, 3), 0, 0),
    *(
        case(
            draw.gemm_tiles,
            layer,
            tile,
            words=[rows],
            title=f"{style.percent(useful)} of the multiply-adds are useful",
        )
        for layer, tile, rows, useful in (
            (LENET86[0], 16, "25 %", 4 / 16 * 49 / 64),
            (LENET86[0], 32, "12 %", 4 / 32 * 49 / 64),
            (LENET86[1], 16, "100 %", 196 / 208 * 1156 / 1168),
            (LENET72[0], 16, "75 %", 12 / 16 * 49 / 64 * 4356 / 4368),
            (LENET72[1], 16, "75 %", 24 / 32 * 588 / 592 * 729 / 736),
            (LENET72[1], 32, "75 %", 24 / 32 * 588 / 608 * 729 / 736),
        )
    ),
    case(draw.gemm_tiles, Layer("many maps and channels", 64, 9, 9, 128, 3)),
    *(case(draw.squares, K, alt=[f"the mask of {K} by {K} "]) for K in range(1, 8)),
    case(
        draw.squares,
        lane=2,
        title="each has its weights among zeros",
        words=[f"a[{register}]" for register in range(4)],
        alt=["8 by 8 inputs, among zeros: 77 % of the terms are weights", "Lane 2 holds two terms"],
    ),
    case(draw.squares, 3, alt=["4 by 8 inputs, among zeros: 28 % of the terms are weights"]),
    *(
        case(
            draw.pool,
            lane,
            title=f"Lanes {lane & ~4} and {lane | 4} have two squares together",
            words=["2  one shuffle", f"map {lane // 8}  (1, 1)"],
            alt=[f"lane {lane | 4} keeps that of square {lane % 4 * 2 + 1} and gives the other"],
        )
        for lane in (0, 14, 31)
    ),
    case(
        draw.block_memory,
        {"image": 14_808, "maps": 13_456, "features": 20_864},
        title="no map leaves the chip",
        words=["14,808 bytes", "written: one of 8 places", "partial sums"],
        alt=["maps, 13,456 bytes: unused; written; read; unused."],
    ),
    case(
        draw.stack, title="are loaded once for 4 windows", alt=["a further one begins 2 rows below"]
    ),
    case(draw.stack, 1, 5, title="two channels share the last"),
    case(
        draw.lanes,
        {"a": np.arange(128).reshape(16, 8) // 4, "b": np.eye(16, 16, dtype=int)},
        lane=1,
    ),
    *(
        case(
            draw.tile,
            T,
            K,
            title=f"Load {(T + K - 1) ** 2:,} inputs once instead of asking for {T * T * K * K:,}",
            alt=[f"The block’s {T * T} threads load the tile in {passes}"],
        )
        for T, K, passes in (
            (16, 7, "4 passes"),
            (4, 7, "9 passes"),
            (32, 5, "4 passes"),
            (8, 1, "one pass"),
            (1, 1, "one pass"),
            (1, 7, "49 passes"),
            (32, 1, "one pass"),
        )
    ),
    case(
        draw.tilings,
        LENET86[1],
        title="72 % of the threads idle under tiles of 32, 28 % under tiles of 8",
        alt=["Tiles of 16: 3 down, 3 across; threads without an output 50 %, inputs loaded"],
    ),
    case(draw.tilings, LENET72[1], title=", 0 % under tiles of 27"),
    case(draw.tilings, ODD[0]),
    case(
        draw.wmma_fill,
        (4, 12, 16, 24),
        title="With 4 maps a 32×8×16 tile is 12 % full",
        alt=[
            "4 maps in tiles of 8×32×16: 1 tile, 50 % full",
            "24 maps in tiles of 16×16×16: 2 tiles, 75 % full",
        ],
    ),
    case(draw.wmma_fill, (1,)),
    case(draw.wmma_fill, (6, 64)),
    case(
        draw.steps,
        {"four": [1, 2, 3, 4], "two": [4, 6, None, None]},
        [[(0, 0), (2, 0), (1, 1), (3, 1)]],
    ),
    case(draw.steps, {"a row of its own": range(32)}, []),
    case(draw.descriptor),
    case(draw.descriptor, columns=8),
    case(draw.teams, fetch=6),
    case(draw.bits, alt=["Near 2^-8: 11 bits in the high part, 5 in the low part, 8 lost."]),
    case(
        draw.bits,
        scale=10,
        words=["near 2⁻¹⁴", "20 bits", "infinite"],
        alt=["Near 2^14, times 2^10: the high part is infinite."],
    ),
    case(draw.bits, [0], title="Of 24 bits the two halves keep 23 of each number"),
    case(draw.ring),
    case(
        draw.ring,
        [1, 1, 1, 6, 1, 1],
        2,
        {"in step": (3, "bar.sync"), "ahead": (3, "bar.arrive")},
        title="6 tiles: 17, 15 units of time",
        words=["in step", "3 stages, bar.arrive at full: 15", "units of time", "0", "16"],
        alt=["ahead: tile 0 is loaded from 0 to 1 and read from 1 to 3"],
    ),
    # times
    case(draw.time, activity(), words=["copy host → device"], about="lenet86"),
    case(draw.time, activity(1, 0)),
    case(
        draw.time,
        SHARES.sample(frac=1, random_state=1),
        title="big takes 80 % of the device’s time",
        words=[
            "80 %",
            "15 %",
            "5.0 %",
            "80.0 ms",
            "15.0 ms",
            "5.00 ms",
            "0.250 ms",
            "2",
            "7",
            "9",
            "2 of 3 take 90 % of 100 ms",
            "0.250 ms in all",
        ],
    ),
    case(draw.time, SimpleNamespace(summary=lambda: SHARES), title="big takes 80 %"),
    case(draw.time, activity(0, 30), words=["23 others", "2 of 30 take 90 % of 36.0 ms"]),
    case(draw.time, activity(30, 30).replace("kernel_number_0", "void f<16, true>(" + "x" * 90)),
    case(draw.time, noted(activity()), words=[NOTE]),
    *(case(draw.ladder, rungs(n), date="today") for n in (1, 2, 12)),
    *(case(draw.ladder, rungs(12, [*FLOORS][: 2 * seed], seed=seed)) for seed in (1, 2)),
    case(draw.ladder, rungs(3, batches=(100, 1000))),
    # it is a yardstick, not a bound
    case(draw.ladder, rungs(3).assign(x_reference=[0.8, 2.0, 0.9])),
    case(
        draw.ladder,
        rungs(3),
        library=rungs(1).assign(label="cuDNN FP32", op_ms=5.69, x_reference=4.7),
        words=["5.69 ms  4.70×"],
        alt=["cuDNN FP32 5.69 ms (4.70×)"],
    ),
    case(draw.roofline, TRIPLES, **ROOF),
    case(draw.roofline, TRIPLES[:1], **ROOF),
    case(draw.roofline, rungs(12, seed=1), device="H200"),
    case(draw.roofline, rungs(6, [*FLOORS][:2]), device="H200"),
    case(
        draw.roofline,
        [("08 fp16", 146.0, 15_000.0), ("09 tensor cores", 146.0, 40_500.0)],
        words=["1,000,000"],
        peaks={"FP16": 729e3, "FP32": 60e3},
        bandwidths={"memory": 4300.0},
    ),
    *(
        case(
            figure,
            rungs(2).assign(engine="cpu", device="a CPU"),
            **how,
            words=["Not GPU times: measured on the CPU engine."],
        )
        for figure, how in ((draw.ladder, {}), (draw.roofline, ROOF))
    ),
    case(draw.ladder, noted(rungs(2)), words=[NOTE]),
    case(draw.roofline, noted(rungs(2)), words=[NOTE], **ROOF),
    case(
        draw.kernels,
        parts(),
        title="im2col takes 11 % to 17 % of the op time",
        alt=["lenet86 layer 2, 05 unroll gemm: 4.60 ms, of these im2col 0.800 ms, gemm 3.80 ms."],
        words=["batch 1,000   ·   NVIDIA H200"],
    ),
    case(
        draw.kernels,
        noted(parts(["lenet72 layer 2"], ["05 unroll gemm, tile=32, block=512"])),
        alt=[NOTE],
    ),
    case(
        draw.constant_divergence,
        DIVERGENCE,
        title="constant memory: 7.8 times as long with 16 elements as with 1",
    ),
    case(draw.constant_divergence, {"one": {4: 1e-3}}),
    case(
        draw.gantt,
        planned(),
        reference_ms=18.48,
        about="lenet86 layer 1",
        words=["copies in 28 %", "kernels 19 %", "copies out 95 %", "stream 0", "stream 2"],
        title="Copies out keep the link busy for 95 % of the time",
        alt=["3 streams, 10 chunks, 19.4 ms", "overlap 1.42", "reference time, 18.5 ms"],
    ),
    case(draw.gantt, planned(kernel_ms=100.0), title="Kernels keep the multiprocessors busy"),
    case(draw.gantt, planned(10_000)),
    case(draw.gantt, planned(20, 8), reference_ms=18.5),
    case(draw.gantt, planned(500, 12)),
    case(draw.gantt, noted(planned()), words=[NOTE], about="lenet86 layer 1"),
    case(draw.gantt, THREE, reference_ms=18.5, words=THREE, alt=[f"{name}: " for name in THREE]),
    case(
        draw.chunk_sizes,
        chunks(),
        reference_ms=10.0,
        title="Best with 100 images per chunk: 18.6 ms, 1.86 times the reference time",
    ),
    case(draw.chunk_sizes, chunks((3,)), predicted={100: 18.6, 1000: 19.4, 10_000: 27.5}),
    case(draw.chunk_sizes, chunks((1,), (7,))),
    case(
        draw.chunk_sizes,
        chunks((1, 2, 3, 4, 8)).assign(steady_ms=lambda t: 9 * t["steady_ms"]),
        reference_ms=18.5,
    ),
    case(
        draw.kernel_times,
        KERNELS,
        "NVIDIA H200",
        title="bp_weight_c1: loops take 50 times as long as shuffle",
        words=["NVIDIA H200", "272", "3.10", "shared mask + input"],
        alt=["fp_c1, loops: 3.10, published 8.26.", "bp_weight_c1, shuffle: 3.00."],
    ),
    case(
        draw.accuracies,
        CURVES,
        title="1 image, rate 0.1: 96.0% in the end",
        alt=["100 images, rate 0.1: 10.0% at 0, 89.9% at 20."],
    ),
    case(
        draw.epoch_times,
        LINES,
        {"report 001": 4.8, "one launch": 0.5},
        "NVIDIA H200",
        title="Steps of 10,000 images: an epoch 210 times as fast as with 1",
        alt=["report 001: 4.8 s.", "minibatch: 1.7 s with 1, 0.17 s with 10"],
    ),
    case(draw.epoch_times, LINES),
    case(
        draw.contention,
        CONTENTION,
        "NVIDIA H200",
        alt=["apart: 20 with 1"],
        title="262,144 threads per address: 320 times as long as with 1",
    ),
    # counts
    case(
        draw.instructions,
        MIXES,
        title="03 registers: 3.4 instructions per product, 02 constant 13.5",
        alt=[
            "03 registers: 3.40, of these multiply-add 1.00, input 1.00, mask 1.00, integer 0.40."
        ],
    ),
    case(
        draw.occupancy,
        {"03 registers, rolled": 24, "03 registers": 32, "own": 40, "large": 255},
        alt=[
            "03 registers: 32 registers, 100 % of 64 warps.",
            "own: 40 registers, 75 % of 64 warps.",
            "large: 255 registers, 12 % of 64 warps.",
        ],  # 65,536 hold 7 blocks of 256 threads with 40
        title="Up to 32 registers per thread, 100 % of the warps can be resident",
    ),
    case(
        draw.stalls,
        pd.DataFrame([reasons(lg_throttle=5.4)]),
        about="1000 images",
        title="04 tiling on lenet86 layer 1: 50 % of the stall cycles are LG Throttle",
    ),
    case(
        draw.stalls,
        pd.DataFrame([reasons(lg_throttle=5.6)]),
        title="1: most of the stall cycles are LG Throttle",
    ),
    case(
        draw.stalls,
        pd.DataFrame(
            [
                reasons("03 registers", long_scoreboard=12.25),
                reasons("04 tiling, columns", "lenet72 layer 2", barrier=30),
            ]
            * 4
        ),
    ),
    case(
        draw.stalls,
        pd.DataFrame([reasons(mio_throttle=4, lg_throttle=3), reasons("05", long_scoreboard=2)]),
        alt=[
            "room in the queue to shared memory 4.0, room in the queue to global memory 3.0",
            f"04 tiling, lenet86 layer 1: {7 + 0.5 * (len(metrics.STALLS) - 2) + 1:.1f}, of these",
        ],
    ),
    case(
        draw.stalls,
        pd.DataFrame(
            [
                reasons(long_scoreboard=40, lg_throttle=9),
                reasons("04 tiling, maps"),
                reasons("05", mio_throttle=16),
            ]
        ),
        title="From 04 tiling to 05: less Long Scoreboard, more MIO Throttle",
    ),
    case(
        draw.stalls,
        pd.DataFrame([reasons(), reasons("05", "lenet86 layer 2", mio_throttle=99)]),
        title="05 on lenet86 layer 2: most",
    ),  # on a layer that the first kernel lacks
    case(
        draw.stalls,
        pd.DataFrame([reasons(), reasons("05", barrier=5)]),
        title="From 04 tiling to 05: more Barrier",
    ),
    case(
        draw.stalls,
        pd.DataFrame([reasons(wait=5, math_pipe_throttle=3)]),
        words=[
            "MIO Throttle",
            "LG Throttle",
            "IMC Miss",
            "Barrier",
            "Not Selected",
            "Selected",
            *metrics.STALLS.values(),
            "other reasons",
            "nothing: it is issued",
        ],
        alt=[
            "MIO Throttle is room in the queue to shared memory",
            "a busy arithmetic pipe 3.0, a fixed latency 5.0",
            "its issue slot: another warp was issued 0.5",
        ],
    ),
    # numbers of few digits
    case(
        draw.running_sum,
        4096,
        16,
        title="Counting in half stops at 2,048",
        alt=["the true sum is 4,096"],
    ),
    case(draw.running_sum, 100, 1, title="Half counts to 100 without an error"),
]
MEASURED = {
    draw.time,
    draw.ladder,
    draw.roofline,
    draw.kernels,
    draw.constant_divergence,
    draw.gantt,
    draw.chunk_sizes,
    draw.kernel_times,
    draw.accuracies,
    draw.epoch_times,
    draw.contention,
    draw.instructions,
}


@pytest.mark.parametrize(("figure", "arguments", "options", "title", "words", "alt"), CASES)
def test_every_figure_is_tidy_and_says_what_it_shows(
    render, figure, arguments, options, title, words, alt
):
    """There is no warning, no text over another or off the page; there are a message, a description, a small file.

    Of a measurement, text/plain has no numbers: the command nbval compares it, whatever the times
    are.
    """
    page = render(figure, *arguments, **options)
    assert not collisions(page)
    assert any(letter.isalpha() for letter in page.title) and title in page.title
    assert words <= {*page.words}
    assert all(part in page.alt for part in alt)
    assert len(page.alt) > 50 and page.alt.endswith(".") and "\n" not in page.alt
    if figure in MEASURED:
        assert page.plain.startswith("Figure: ") and not any(
            letter.isdigit() for letter in page.plain
        )
    assert page.file.stat().st_size < 150_000
    with Image.open(page.file) as image:
        assert image.size == (2 * page.width, 2 * round(page.height))
        assert image.info["Description"] == page.alt


def test_the_collision_check_finds_collisions():
    """A check that cannot fail would prove nothing about the figures."""
    page = style.Page()
    page.open(200, "")
    page.text(20, 50, "one text")
    page.text(40, 52, "another")
    page.text(700, 100, "a text that leaves the page")
    assert len(collisions(page)) == 2


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: draw.ladder(rungs(2).drop(columns="x_reference")), "lacks x_reference"),
        (lambda: draw.ladder(rungs(2).iloc[:0]), "without a row"),
        (lambda: draw.ladder(pd.concat([rungs(2), rungs(1)])), "several rows of 01 baseline"),
        (
            lambda: draw.ladder(
                rungs(2).assign(device="TITAN V"), library=recorded("H200").cudnn("lenet86")
            ),
            "rungs on TITAN V: no chart compares machines",
        ),
        (lambda: draw.time(pd.DataFrame({"kind": []})), "lacks name, calls, total_ms"),
        (lambda: draw.time(activity(0, 0)), "trace something first"),
        (lambda: draw.roofline([], **ROOF), "no point"),
        (lambda: draw.roofline([("a", 0.0, 1.0)], **ROOF), "positive"),
        (
            lambda: draw.roofline(rungs(2), layer=LENET72[0]),
            "layer = 'lenet72 layer 1'; the table has lenet86 layer 2",
        ),
        (lambda: draw.grid(LENET86[0], (33, 32)), "1056 threads"),
        (lambda: draw.tile(33, 7), "T = 33"),
        (lambda: draw.sectors(np.arange(33)), "32 lanes"),
        (lambda: draw.sectors(LANE * 0.5), "float64"),
        (lambda: draw.sectors(np.full(32, -1)), "no lane takes part"),
        (lambda: draw.images(np.zeros((2, 8, 8)), [1]), "'labels': 1"),
        (lambda: draw.images(np.zeros((0, 8, 8)), []), "one each per image"),
        (lambda: draw.threads(n=1000, block=4), r"draw\.threads: thread 5 of block 4"),
        (lambda: draw.threads(thread=8), "thread 8 of block 2"),
        (lambda: draw.threads(threads=8), "a block has 9 to 1024"),
        (lambda: draw.threads(n=3000), "at most 8 blocks"),
        (lambda: draw.hiding(warps=[17]), "1 to 16 warps"),
        (lambda: draw.hiding(warps=[]), "1 to 16 warps"),
        (lambda: draw.hiding(work=0), "at least one of the others"),
        (lambda: draw.shuffle(lanes=12), r"draw\.shuffle: 12 lanes"),
        (lambda: draw.constant_budget([]), "no layer"),
        (lambda: draw.constant_reads(np.arange(33)), r"draw\.constant_reads: a warp has 32 lanes"),
        (lambda: draw.constant_divergence({}), "no measurement"),
        (lambda: draw.constant_divergence({"one": {}}), "no measurement"),
        (lambda: draw.instructions({}), "0 kinds"),
        (lambda: draw.instructions({"one": {str(kind): 1 for kind in range(7)}}), "7 kinds"),
        (
            lambda: draw.instructions({"one": {"multiply-add": float("nan")}}),
            "negative or not a number",
        ),
        (lambda: draw.occupancy({}), "1 to 255"),
        (lambda: draw.occupancy({"one": 256}), "1 to 255"),
        (lambda: draw.im2col(3, 3, 4), "3×3 and K = 4 make 0×0 outputs"),
        (lambda: draw.im2col(10, 10, 3), "8×8 outputs"),
        (lambda: draw.im2col(window=(3, 0)), r"no window \(3, 0\); the outputs are 3×3"),
        (lambda: draw.im2col(element=(0, 5)), r"no input \(0, 5\); the input is 5×5"),
        (lambda: draw.fused_index(LENET86[0], 49, 0), r"49 × 6,400 elements; \(49, 0\) is none"),
        (lambda: draw.gemm_tiles(LENET86[0], 0), "tile = 0"),
        (
            lambda: draw.outputs_per_thread(21, 4, 7),
            "rows, maps, K = 21, 4, 7: at most 20, 8 and 7",
        ),
        (lambda: draw.kernels(parts().drop(columns="kernel")), "lacks kernel"),
        (
            lambda: draw.kernels(pd.concat([parts(), parts().assign(batch=10)])),
            "got batches 1000, 10",
        ),
        (lambda: draw.running_sum(0, 16), "at least one"),
        (lambda: draw.running_sum(16, 0), "at least one"),
        (lambda: draw.wmma_fill(()), "at least one"),
        (lambda: draw.wmma_fill((4, 0)), "1 or more"),
        *(
            (lambda K=K, lane=lane: draw.squares(K, lane), rf"draw\.squares: K, lane = {K}, {lane}")
            for K, lane in ((0, 0), (8, 0), (7, 32), (7, -1))
        ),
        *(
            (
                lambda down=down, tall=tall: draw.stack(down, tall),
                rf"draw\.stack: down, tall = {down}, {tall}",
            )
            for down, tall in ((0, 4), (3, 4), (2, 0), (1, 8))
        ),
        (lambda: draw.lanes({"a row": [1, 2]}), r"a row has shape \(2,\) and type int64"),
        # floats beside a matrix of integers, too
        (lambda: draw.lanes({"a": [[1]], "b": [[0.5]]}), "b has shape .* type float64"),
        (lambda: draw.lanes([[1, 2]]), "give matrices of lanes, .*; got list"),
        (lambda: draw.lanes({"a": np.zeros((2, 49), int)}), "got 49 columns"),
        (lambda: draw.lanes({}), "got 0 columns"),
        (lambda: draw.pool(32), r"draw\.pool: lane 32; a warp's lanes are 0 to 31"),
        (lambda: draw.pool(-1), r"draw\.pool: lane -1"),
        (lambda: draw.steps({}, []), "rows of 1 to 32 cells"),
        (lambda: draw.steps({"a": [1]}, [[(0, 0)]]), "and 1 list of moves"),
        (lambda: draw.steps({"a": range(33)}, []), r"rows of \[33\] cells"),
        (lambda: draw.steps({"a": [1], "b": [1]}, [[(0, 1)]]), "a move leads beyond"),
        (lambda: draw.teams(fetch=0), "times above 0; got"),
        (lambda: draw.bits([41]), "powers from -40 to 40; got"),
        (lambda: draw.ring([]), "1 to 32 times above 0; got"),
        (
            lambda: draw.ring(rings={"none": (0, "bar.sync")}),
            "1 or more, and bar.sync or bar.arrive; got",
        ),
        (lambda: draw.descriptor(at=8), "8 or 16 columns at a multiple of 16"),
        (
            lambda: draw.stalls(pd.DataFrame([{"label": "a", "layer": "b"}])),
            "lacks smsp__average_warps_issue_stalled_long_scoreboard",
        ),
        (lambda: draw.stalls(pd.DataFrame([reasons()])[:0]), "without a row"),
        (lambda: draw.gantt({}), "got no timeline"),
        (lambda: draw.gantt(pd.DataFrame({"chunk": [1]})), "lacks stream"),
        (lambda: draw.gantt(planned().iloc[:0]), "a table without"),
        (lambda: draw.chunk_sizes(pd.DataFrame({"chunk": [1]})), "lacks streams"),
        (lambda: draw.chunk_sizes(chunks().iloc[:0]), "a table without"),
        (lambda: draw.kernel_times(KERNELS.drop(columns="published_us")), "lacks published_us"),
        (lambda: draw.accuracies({"one": pd.Series([0.5])}), "two accuracies"),
        (lambda: draw.epoch_times({}), "two batches"),
        (lambda: draw.contention(CONTENTION.iloc[:1]), "two numbers of threads"),
    ],
)
def test_refusals_say_what_is_wrong(call, message):
    with pytest.raises(LabError, match=message):
        call()


# ------------------------------------------------------------------------------- how they are shown
class Screen:
    """A stand-in for IPython's display."""

    def __init__(self, monkeypatch):
        self.shown = []
        monkeypatch.setattr(style, "_find_kernel", lambda: self)
        monkeypatch.setattr(
            "IPython.display.display", lambda *args, **options: self.shown.append((args, options))
        )


def test_a_notebook_gets_a_png_with_alt_text(monkeypatch):
    screen = Screen(monkeypatch)
    assert draw.tile(16, 7) is None
    (((data,), options),) = screen.shown
    about = options["metadata"]["image/png"]
    assert options["raw"]
    assert about["width"] == 760
    assert "484" in about["alt"]
    assert data["text/plain"] == about["alt"]
    assert data["image/png"].startswith("iVBORw0KGgo")
    draw.time(activity())  # of a measurement, text/plain has no numbers
    assert (
        screen.shown[-1][0][0]["text/plain"] == "Figure: where the time goes, kernels and API calls"
    )


def test_without_a_screen_the_words_are_printed(capsys):
    draw.tile(16, 7)
    assert "484 inputs" in capsys.readouterr().out


def test_other_formats_are_refused(tmp_path):
    with pytest.raises(LabError, match=r"name it \.png"):
        draw.tile(16, 7, path=tmp_path / "tile.gif")
    assert not list(tmp_path.iterdir())


def test_a_picture_replaces_a_figure_of_the_lab_and_nothing_else(tmp_path):
    path = tmp_path / "tile.png"
    for _ in range(2):
        draw.tile(16, 7, path=path)
    path.write_bytes(b"mine")
    with pytest.raises(LabError, match=r"tile\.png is there, and is no figure of the lab"):
        draw.tile(16, 7, path=path)
    assert path.read_bytes() == b"mine"


@pytest.mark.parametrize(
    ("failure", "raised"),
    [(OSError("disk full"), EngineError), (KeyboardInterrupt(), KeyboardInterrupt)],
)
def test_a_picture_is_written_whole_or_not_at_all(tmp_path, monkeypatch, failure, raised):
    path = tmp_path / "tile.png"
    draw.tile(16, 7, path=path)
    before = path.read_bytes()
    monkeypatch.setattr("os.replace", Mock(side_effect=failure))
    with pytest.raises(raised):
        draw.tile(16, 7, path=path)
    assert path.read_bytes() == before
    assert len(list(tmp_path.iterdir())) == 1


def test_no_figure_is_left_open(monkeypatch):
    import matplotlib.pyplot as plt

    draw.tile(16, 7)
    monkeypatch.setattr(style, "_show", lambda page: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        draw.tile(16, 7)
    assert not plt.get_fignums()


def test_matplotlib_is_left_as_it_was(tmp_path):
    import matplotlib

    before = dict(matplotlib.rcParams)
    draw.tile(16, 7, path=tmp_path / "a.png")
    with pytest.raises(LabError):
        draw.tile(99, 7)
    assert dict(matplotlib.rcParams) == before


def test_a_dark_style_does_not_get_in(render):
    import matplotlib

    with matplotlib.rc_context(
        {"figure.facecolor": "black", "font.size": 30, "lines.linewidth": 9}
    ):
        dark = render(draw.tile, 16, 7).file.read_bytes()
    assert dark == render(draw.tile, 16, 7).file.read_bytes()


@pytest.mark.parametrize("name", draw.__all__)
def test_every_figure_says_what_it_takes_and_refuses(name):
    doc = inspect.getdoc(getattr(draw, name))
    parameters, _, raises = doc.partition("\nRaises\n------\n")
    names = re.findall(
        r"^(\w+(?:, \w+)*)(?: : .+)?$", parameters.partition("\nParameters\n----------\n")[2], re.M
    )
    assert [word for line in names for word in line.split(", ")] == [
        *inspect.signature(getattr(draw, name)).parameters
    ]
    assert raises.startswith("LabError\n    If ")


# ---------------------------------------------------------------------------- the README's pictures
IMAGES = PACKAGE.parent / "docs" / "images"


@pytest.mark.parametrize("name", ["lab.png", "ladder.png"])
def test_the_readme_shows_what_was_recorded(render, monkeypatch, name):
    """The pictures in the repository show the recorded results of today."""
    make = {"lab.png": pictures.draw_lab, "ladder.png": pictures.draw_ladders}[name]
    page = render(make, recorded("H200"))
    assert not collisions(page)
    assert page.file.stat().st_size < 140_000
    with Image.open(IMAGES / name) as image:
        assert image.info["Description"] == page.alt, "stale: run python -m recording pictures"
    by_night = Image.open(io.BytesIO(dark((IMAGES / name).read_bytes())))
    assert (
        ImageChops.difference(
            by_night, Image.open(IMAGES / name.replace(".png", "-dark.webp"))
        ).getbbox()
        is None
    )


def test_the_picture_of_a_live_cell_has_the_exercises_goals():
    with Image.open(IMAGES / "live.png") as image:
        told = image.info["Description"]
    goals = [f"{goal.wanted}" in told and goal.what in told for goal in exercise("P1a").goals]
    assert goals and all(goals), "stale: run python playground/picture.py"


def test_the_readmes_code_is_the_kernels():
    source = cuda_src() / "01_baseline.cu"
    lines = pictures.read_excerpt(source)
    kernel = [line.split("//")[0].strip() for line in source.read_text().splitlines()]
    assert all(line.strip() in [*kernel, "…"] for line in lines)
    assert sum("for (" in line for line in lines) == 3
    assert max(map(len, lines)) < 95


# ------------------------------------------------------------------------------------------ numbers
@pytest.mark.parametrize(
    ("write", "value", "text"),
    [
        *(
            (numerals.ms, value, text)
            for value, text in (
                (0, "0 µs"),
                (0.00123, "1.23 µs"),
                (0.0994, "99.4 µs"),
                (0.0996, "0.0996 ms"),
                (0.42, "0.420 ms"),
                (4.966, "4.97 ms"),
                (18.94, "18.9 ms"),
                (177.4, "177 ms"),
                (5060, "5,060 ms"),
                (25142.6, "25.1 s"),
                (1.2e6, "1,200 s"),
            )
        ),
        *(
            (numerals.times, value, text)
            for value, text in (
                (1, "1.00×"),
                (15.62, "15.6×"),
                (0.131, "0.13×"),
                (0.0131, "0.0131×"),
                (1234, "1,234×"),
            )
        ),
    ],
)
def test_numbers_have_three_digits_and_a_unit(write, value, text):
    assert write(value) == text
