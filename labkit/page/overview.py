"""Show the whole ladder: op time over reference for every rung, layer and network, as rows and as a table."""

import re

import pandas as pd

from hostcuda.errors import EngineError
from labkit.base import tables
from labkit.base.numerals import ms, times
from labkit.ladder.rungs import LADDER, PAGES
from labkit.ladder.source import digest
from labkit.ladder.variants import solutions, variant, variants
from labkit.records.recorded import Recorded
from labkit.records.results import OWN
from labkit.spec.devices import device
from labkit.spec.layers import PRESETS

NETWORKS = ("lenet86", "lenet72")
STREAMS = PAGES["streams"]  # no kernel of its own: its subject is the layer time
_KERNELS = [rung.number for rung in LADDER]
_BESIDE = [variant(rung.name, step=step).label for rung in LADDER for step in rung.beside]


def list_rows(results: Recorded) -> pd.DataFrame:
    """Return the recorded ladder at its largest batch, with the steps that are shown beside their rungs, then cuDNN.

    A row per layer of each rung and of the library's best times, in the ladder's order: rung (NaN
    for the library), label, ``shown`` (the label with its precision), layer, batch, dtype, op_ms,
    x_reference, device, order (of layers).
    """
    batch = int(results.table["batch"].max())
    order = {
        layer.name: i
        for i, layer in enumerate(layer for name in NETWORKS for layer in PRESETS[name])
    }
    # All rungs up to the last one, without the pages that have a number and no kernel, such as 12
    # streams.
    ladder = pd.concat([results.ladder(max(_KERNELS), network, batch) for network in NETWORKS])
    ladder = ladder[ladder["rung"].isin(_KERNELS)]
    beside = results.table[results.table["label"].isin(_BESIDE) & results.table["batch"].eq(batch)]
    best = results.cudnn(NETWORKS, batch=batch)
    rows = pd.concat([ladder, beside, best], ignore_index=True)
    rows = rows[["rung", "label", "layer", "batch", "dtype", "op_ms", "x_reference", "device"]]
    rows["order"] = rows["layer"].map(order)
    # the library's label has its precision already
    is_half = rows["dtype"].eq("float16") & rows["rung"].notna()
    rows["shown"] = rows["label"] + is_half.map({True: ", FP16", False: ""})
    # dtype in reverse order: float32 before float16
    return rows.sort_values(
        ["rung", "dtype", "order"], ascending=[True, False, True], ignore_index=True
    )


def format_cells(results: Recorded) -> pd.DataFrame:
    """Return the recorded ladder as text, "3.71 ms · 8.87×": a row per rung and library, a column per layer."""
    rows = list_rows(results)
    rows["cell"] = [f"{ms(row.op_ms)} · {times(row.x_reference)}" for row in rows.itertuples()]
    table = rows.pivot_table(index="shown", columns="layer", values="cell", aggfunc="first")
    # in the order of `rows`, which `pivot_table` sorts by name
    return table.reindex(index=rows["shown"].unique(), columns=rows["layer"].unique()).fillna("–")


def format_layer_times(results: Recorded) -> pd.DataFrame:
    """Return the layer time with and without streams as text: a column per layer, in ms and over the reference time."""
    batch = int(results.table["batch"].max())
    table = {}
    for layer in (layer for name in NETWORKS for layer in PRESETS[name]):
        reference = layer.link_reference_ms(batch, device=results.device)
        streams = results.select(STREAMS, layer, batch).iloc[0]
        # the rung on the streams: "tuning; chunk=500 streams=2 depth"
        inside = streams["options"].split(";")[0]
        before, after = results.value("layer_ms", inside, layer, batch), streams["layer_ms"]
        table[layer.name] = {
            "without streams": f"{ms(before)} · {times(before / reference)}",
            streams["label"]: f"{ms(after)} · {times(after / reference)}",
            "the link's reference time": ms(reference),
        }
    return pd.DataFrame(table)


def list_notes(results: Recorded) -> list[str]:
    """Return the notes on the recorded ladder: what it shows, when it was measured, what reference times are."""
    batch = int(results.table["batch"].max())
    # the kernels with which layers were measured on streams, from "tuning; chunk=500 streams=2 depth"
    inside = results.table.query("rung == @STREAMS")["options"].str.split(";").str[0].unique()
    # a kernel once, without its options: "07 tuning" of "07 tuning, rows=4"
    changed = dict.fromkeys(label.partition(",")[0] for label in list_outdated(results))
    notes = [
        f"Op times for {batch:,} images on an {results.device}, recorded from {results.table['date'].min()} to "
        f"{results.date}. The factor (×) is the op time over the reference time.",
        describe_references(results.device),
        "Kernel 11 computes a product of floats as three products in FP16. Its reference time is that of these three "
        "products.",
        "PyTorch's convolutions use cuDNN TF32 by default, and cuDNN FP32 only if TF32 is switched off.",
        "A layer time includes the copies between host and GPU. Its factor (×) is the layer time divided by "
        "the time of the copies (the link's reference time). All layer times are those of the kernel "
        + " and ".join(f'"{kernel}"' for kernel in inside)
        + ".",
        "The layer time with streams uses page-locked host memory. The layer time without streams uses ordinary "
        "memory.",
        "The steps warpgroups (`wgmma`) need compute capability 9.0.",
        "If a kernel is measured twice in a run, the two times differ by up to "
        f"{100 * results.noise(batch):.1f} %.",
    ]
    if changed:
        notes.append(f"Kernels have changed since they were measured: {', '.join(changed)}.")
    return notes


def describe_references(name: str) -> str:
    """Return the sentences that say which bandwidth and rates the reference times of the device `name` assume."""
    rates = device(name).ceilings
    tera = {
        key: f"{rates[key] / 1e12:.3g} T"
        for key in ("reference_bandwidth", "reference_float32", "tf32_gemm", "float16_gemm")
    }
    return (
        "The reference time is the longer of two times. The first is the time to move the layer's bytes at "
        f"{tera['reference_bandwidth']}B/s. The second is the time to compute its products at "
        f"{tera['reference_float32']}FLOP/s (FP32), {tera['tf32_gemm']}FLOP/s (TF32) or "
        f"{tera['float16_gemm']}FLOP/s (FP16)."
    )


def list_outdated(results: Recorded) -> list[str]:
    """Return the labels of kernels, and of sweeps on this device, whose source has changed since it was measured.

    `code` is a digest of the source; rows without one, and kernels without a row, are taken to be
    unchanged.
    """
    measured = results.table[results.table["code"] != ""]
    codes = measured.groupby("label")["code"].agg(set)
    kernels = [
        kernel for rung in LADDER for kernel in (*variants(rung.number), *solutions(rung.number))
    ]
    changed = [
        kernel.label
        for kernel in kernels
        if codes.get(kernel.label, {kernel.code}) != {kernel.code}
    ]
    return [*changed, *_list_outdated_sweeps(results)]


def _list_outdated_sweeps(results: Recorded) -> list[str]:
    """Return "the sweep of 07 tuning" for each rung whose source has changed since its sweep was recorded."""
    try:
        sweep = results.sweep()
    except EngineError:  # there is none
        return []
    # Points of an own kernel (", mine.cu" or ", own source" in its label) or of a sub-step say
    # nothing about the rung.
    is_other_source = sweep["label"].str.contains(OWN) | sweep["options"].str.contains("step=")
    kernels = sweep[~is_other_source & (sweep["code"] != "")]
    by_rung = {number: variant(number) for number in kernels["rung"].unique()}
    # Of a point whose options leave sizes to the records, these are a part of the code; of others
    # it is the source's.
    return [
        f"the sweep of {rung.label}"
        for number, rung in by_rung.items()
        if not set(kernels.loc[kernels["rung"] == number, "code"])
        <= {rung.code, digest(rung.source)}
    ]


def write_html(results: Recorded) -> str:
    """Return the recorded ladder as a table for the report's first page, in HTML; its last rows are layer times."""
    last = format_layer_times(results).rename(index=lambda label: f"layer time: {label}")
    frame = pd.concat([format_cells(results), last]).rename_axis("").reset_index()
    headings = {name: name for name in frame}  # the columns' own names
    page = tables.table(frame, " ".join(list_notes(results)), headings)._repr_html_()
    return re.sub(r"`(.+?)`", r"<code>\1</code>", page)  # the caption's `wgmma`


def network(results: Recorded, batch: int = 10_000) -> pd.DataFrame:
    """Return the forward pass of lenet86 as it was recorded, the fastest first.

    A row per network, a column per place and form of the images ("from the host, bytes 86×86"),
    [ms]; NaN where no time was measured.
    """
    rows = name_networks(results.network(batch))
    places = {"device": "on the device", "host": "from the host"}
    # "from the host, bytes 86×86"
    column = (
        rows["where"].map(places)
        + ", "
        + rows["pixels"].str.replace("uint8 ", "bytes ").str.replace("x", "×")
    )
    table = rows.assign(column=column).pivot_table(
        index="network", columns="column", values="ms", aggfunc="min"
    )
    return table[column.unique()].loc[table.min(axis=1).sort_values().index]


def name_networks(rows: pd.DataFrame) -> pd.DataFrame:
    """Return recorded times with a new column `network`, "fused, half": their row in a table for people.

    Times on several GPUs are left out: they are another table. PyTorch's graph (images on the
    device) and its streams (images from the host) share a row, as do fused kernels with and without
    a graph.
    """
    rows = rows[~rows["label"].str.contains("GPU")]  # "fused on 2 GPUs"
    # "PyTorch fp16, graph": these have the precision already
    is_pytorch = rows["label"].str.startswith("Py")
    label = rows["label"].str.replace(r"^(fused.*), graph$", r"\1", regex=True)
    # both are in one row only if streams were measured, too
    if label.str.endswith(", streams").any():
        label = label.str.replace(", (?:graph|streams)$", ", graph or streams", regex=True)
    precision = rows["dtype"].map({"float16": ", half", "float32": ", float"})
    return rows.assign(network=label + precision.where(~is_pytorch, ""))
