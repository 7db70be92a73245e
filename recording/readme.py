"""Texts between markers in README.md and other pages, written by the program that measures them.

The table of the ladder, for example, stands between <!-- ladder:begin --> and <!-- ladder:end -->.
"""

import dataclasses
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Annotated

from typer import Argument

from labkit import LabError, variant
from labkit.base import manifest
from labkit.base.numerals import format_digits, ms
from labkit.base.paths import PACKAGE
from labkit.ladder.rungs import LADDER
from labkit.ladder.variants import ON_CPU
from labkit.networks import fused
from labkit.page import overview
from labkit.records.recorded import Recorded
from labkit.spec import devices
from labkit.spec.devices import Device
from recording.options import LAYERS

ROOT = PACKAGE.parent
_RESULTS, _PERFORMANCE, _QUESTIONS = "docs/results.md", "engine/docs/performance.md", "docs/faq.md"
_MODES = "engine/docs/execution.md"
_PAGES = {
    "ladder": _RESULTS,
    "versus": _RESULTS,
    "busy": _RESULTS,
    "small": _RESULTS,
    "network": _RESULTS,
    "engine": _PERFORMANCE,
    "check": _PERFORMANCE,
    "modes": _MODES,
    "cards": _QUESTIONS,
}
# The rows of the README, by the label that `overview.format_cells` gives them.
SUMMARY = {
    "01 baseline": "01, a thread per output",
    "07 tuning": "**07, several outputs per thread**",
    "cuDNN FP32": "cuDNN, FP32",
    "10 speed of light, warpgroups, FP16": "**10, tensor cores (step *warpgroups*), FP16**",
    "cuDNN FP16": "cuDNN, FP16",
}
# Cards of a compute capability with their multiprocessors, and the KB of shared memory that a block
# can have: CUDA C++ Programming Guide, "Compute Capabilities", and NVIDIA's data sheets.
CARDS = {
    (7, 5): ({"RTX 2080 Ti": 68, "T4": 40}, 64),
    (8, 0): ({"A100": 108}, 163),
    (8, 6): ({"RTX 3090": 82, "A10": 72}, 99),
    (8, 9): ({"RTX 4090": 128, "L4": 58}, 99),
    (9, 0): ({"H100": 132, "H200": 132}, 227),
    (10, 0): ({"B200": 148}, 227),
    (12, 0): ({"RTX 5090": 170}, 99),
}
# The rungs that not every card runs.
_LIMITED = [rung for rung in LADDER if rung.min_capability > LADDER[0].min_capability]
CARD_COLUMNS = (
    "cards",
    "compute capability",
    "00 to 07, 12, 14",
    *(f"{rung.number:02d}" for rung in _LIMITED),
    "13",
    "closer looks 11 and 13",
)


def page(name: str) -> Path:
    """Return the file that has the markers `name`, such as "ladder": the README, unless _PAGES has another page."""
    return ROOT / _PAGES.get(name, "README.md")


def replace_marked(name: str, text: str, path: Path | None = None) -> bool:
    """Replace the text between the markers `name` in a Markdown file; return whether the file changed.

    The file is `page(name)`, or `path`; it is written whole or not at all, with its digest if it is
    in `data/`. `text` is Markdown without the markers. Raises LabError if the file lacks the pair
    of markers, or has it more than once.
    """
    path = path or page(name)
    old = path.read_text(encoding="utf-8")
    begin, end = f"<!-- {name}:begin -->", f"<!-- {name}:end -->"
    if (old.count(begin), old.count(end)) != (1, 1) or old.index(begin) > old.index(end):
        raise LabError(f"{path} needs one line {begin} and one line {end} after it")
    new = f"{old.partition(begin)[0]}{begin}\n{text.strip()}\n{end}{old.partition(end)[2]}"
    if new != old:
        manifest.write(path, new)
    return new != old


def format_ladder(results: Recorded) -> str:
    """Return the table of the ladder in Markdown: a row per kernel, a column per layer.

    In each column the best time in FP32 and the best in FP16 are bold.
    """
    table = overview.format_cells(results)  # texts; its index is the column `shown` of `rows`
    rows = overview.list_rows(results)
    # TF32 rounds the factors: it does not compete with FP32
    fastest = rows[~rows["label"].str.contains("TF32")]
    fastest = fastest.loc[fastest.groupby(["layer", "dtype"])["op_ms"].idxmin()]
    best = set(zip(fastest["shown"], fastest["layer"], strict=True))
    lines = [f"| | {' | '.join(table.columns)} |", "|---|" + "---:|" * len(table.columns)]
    for label, row in table.iterrows():
        cells = [f"**{cell}**" if (label, layer) in best else cell for layer, cell in row.items()]
        lines.append(f"| {label} | {' | '.join(cells)} |")
    layer_times = overview.format_layer_times(results)  # texts, of a few kernels
    lines += [
        f"| *layer time* {label} | {' | '.join(row)} |" for label, row in layer_times.iterrows()
    ]
    return "\n".join(
        [
            *(f"{note}\n" for note in overview.list_notes(results)),
            "Two times of each column are bold: the best in FP32 and the best in FP16.",
            "",
            *lines,
        ]
    )


def format_summary(results: Recorded) -> str:
    """Return the README's table in Markdown, the few rows SUMMARY of the ladder, below a sentence on the times."""
    table = overview.format_cells(results).loc[[*SUMMARY]]
    lines = [f"| | {' | '.join(table.columns)} |", "|---|" + "---:|" * len(table.columns)]
    lines += [
        f"| {words} | {' | '.join(row)} |"
        for words, (_, row) in zip(SUMMARY.values(), table.iterrows(), strict=True)
    ]
    batch = int(results.table["batch"].max())
    caption = (
        f"Time of the kernels alone for the layers of two networks, with {batch:,} images on an {results.device}. "
        "The factor (×) is this time over a [reference time](docs/results.md#the-ladder)."
    )
    return "\n".join([caption, "", *lines])


def format_network(results: Recorded) -> str:
    """Return the table of the whole network for docs/results.md in Markdown, with a caption.

    It has the images per second of each case of `overview.network`, and the time of 100 images on
    the device.
    """
    # in ms: a row per network ("fused, half"), a column per place and form of the images
    many = overview.network(results)
    few = overview.name_networks(results.network(100)).query(
        "where == 'device' and pixels == 'float32'"
    )
    few = few.groupby("network")["ms"].min()  # the fastest way to run each network
    columns = [*many.columns, "100 images on the device"]
    lines = [f"| | {' | '.join(columns)} |", "|---|" + "---:|" * len(columns)]
    for label, row in many.iterrows():
        # millions of images per second; NaN, which equals nothing, means not measured
        rates = [
            f"{format_digits(10_000 / time_ms / 1e3)} M/s" if time_ms == time_ms else "–"
            for time_ms in row
        ]
        lines.append(
            f"| {label} | {' | '.join(rates)} | {ms(few[label]) if label in few else '–'} |"
        )
    first = results.network(10_000).iloc[0]
    software = first["software"].partition("PyTorch ")[2]
    caption = (
        "The table says how many million images per second (M/s) the network lenet86 computes, with 10,000 images. "
        "The last column has the time of a forward pass with 100 images. "
        f"{results.device}, {first['date']}, PyTorch {software}.\n\n"
        "*From the host:* the time includes copies from and to page-locked host memory. The *plain* network, in "
        "the last row, computes layer by layer and uses ordinary memory.\n\n"
        "*Graph:* all launches are one CUDA graph. With 100 images, the graph has 50 forward passes, and the table has "
        "the time of one pass."
    )
    if many.index.str.endswith("streams").any():
        caption += (
            "\n\n*Streams:* images come from the host in chunks, and copies overlap with kernels, as in our networks. "
            "PyTorch without streams first copies, then computes."
        )
    if many.index.str.endswith("compiled").any():
        caption += "\n\n*Compiled:* torch.compile compiled the network, which then ran as a graph or on streams."
    return "\n".join([caption, "", *lines])


def readme(name: Annotated[str, Argument(help="As in <!-- NAME:begin -->.")]) -> None:
    """Put standard input between markers of a page.

    The page is the README or a document; it has <!-- NAME:begin --> and <!-- NAME:end -->.
    """
    written = "written" if replace_marked(name, sys.stdin.read()) else "was up to date"
    print(f"{page(name).relative_to(ROOT)}: {name} {written}")


def list_gpus() -> Iterator[Device]:
    """Yield each card of CARDS as a device: an H200 with the card's name, and what decides if a kernel can be launched.

    These are the compute capability, the multiprocessors and the shared memory of a block. CARDS
    has them as (9, 0): ({"H200": multiprocessors}, KB of shared memory).
    """
    for capability, (cards, kilobytes) in CARDS.items():
        for name, multiprocessors in cards.items():
            yield dataclasses.replace(
                devices.device("H200"),
                name=name,
                compute_capability=capability,
                measured=None,  # the H200's measured rates are not this card's
                multiprocessors=multiprocessors,
                shared_opt_in=1024 * kilobytes,
            )


def _require_rung(number: int, **options: str) -> None:
    """Raise LabError unless the assumed device can run a rung on each layer.

    `options` are those of `variant`, such as step="warpgroups".
    """
    kernel = variant(number, **options)
    for layer in LAYERS:
        kernel.supports(layer)


def _describe_support(require: Callable[[], object]) -> str:
    """Return "yes", or "no: use 07 tuning", with what the refusal says to use instead.

    `require` raises LabError, the refusal, if the page does not run on the assumed device.
    """
    try:
        require()
    except LabError as refusal:  # "...: take 07 tuning, or HOSTCUDA_ENGINE=cpu"
        other = str(refusal).rpartition(": ")[2].removesuffix(f", or {ON_CPU}")
        return f"no: use {other.removeprefix('take ').removesuffix(' itself')}"
    return "yes"


def format_cards() -> str:
    """Return the table of docs/faq.md in Markdown, a row per compute capability: which page runs on which card."""
    lines = [f"| {' | '.join(CARD_COLUMNS)} |", "|---" * len(CARD_COLUMNS) + "|"]
    # (9, 0): ({"H100": 132, "H200": 132}, 227): multiprocessors of each card, KB of shared memory
    for capability, (cards, _) in CARDS.items():
        # one of these cards stands for all: they differ only in the number of multiprocessors
        with devices.assume(
            next(gpu for gpu in list_gpus() if gpu.compute_capability == capability)
        ):
            # In the order of CARD_COLUMNS. A page runs if its variant or its network runs on the
            # card; if not, the cell has the reason that this gives.
            cells = [
                ", ".join(cards),
                "{}.{}".format(*capability),
                "yes",  # the first rungs need nothing of a card
                *(_describe_support(partial(_require_rung, rung.number)) for rung in _LIMITED),
                # page 13, the network: None stands for its own kernel, without a step
                _describe_support(partial(fused.require_gpu, None)),
                # the step "warpgroups", of which the closer looks at 11 and 13 tell
                _describe_support(partial(_require_rung, 11, step="warpgroups")),
            ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def cards() -> None:
    """Put the table of cards and pages into docs/faq.md.

    It says which page runs on which GPU.
    """
    print("written" if replace_marked("cards", format_cards()) else "was up to date")
