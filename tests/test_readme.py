"""README.md and docs/results.md: the markers between which scripts write, links, and what they say of the kernels.

And what the pages say in words of counters that none of their cells prints.
"""

import collections
import functools
import math
import re
import runpy
from pathlib import Path

import pandas as pd
import pytest

import labkit
from hostcuda.metrics import STALLS
from labkit.base.errors import LabError
from labkit.base.numerals import format_digits
from labkit.base.paths import data_dir
from labkit.exercises.exercise import exercises
from labkit.ladder.rungs import LADDER
from labkit.ladder.source import changed_lines, code_only
from labkit.notebooks import execute
from labkit.page import overview
from recording import small, versus, versus_counters
from recording.readme import format_ladder, format_network, page, replace_marked
from recording.sweep import vary_outputs

pytestmark = pytest.mark.thorough("tools of the repository")

ROOT = Path(labkit.__file__).resolve().parent.parent
DOCUMENTS = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))]


def table_of(name):
    """Return the text between the markers in the page that has them."""
    text = page(name).read_text(encoding="utf-8")
    return re.search(f"<!-- {name}:begin -->\n(.*?)\n<!-- {name}:end -->", text, re.DOTALL)[1]


def words_of(name):
    """Return the text of the page that has these markers, with single spaces."""
    return " ".join(page(name).read_text(encoding="utf-8").split())


PAGE = "before\n<!-- a:begin -->\nold\n<!-- a:end -->\nbetween\n<!-- b:begin -->\n<!-- b:end -->\nafter\n"


def test_only_what_is_between_the_markers_changes(tmp_path):
    path = tmp_path / "README.md"
    path.write_text(PAGE)
    assert replace_marked("b", "| \\1 | new |\n", path)
    assert path.read_text() == PAGE.replace(
        "<!-- b:begin -->\n", "<!-- b:begin -->\n| \\1 | new |\n"
    )
    assert not replace_marked("b", "| \\1 | new |", path)
    assert replace_marked("a", "", path)
    assert "old" not in path.read_text()


@pytest.mark.parametrize(
    "page",
    [
        "nothing",
        "<!-- a:begin -->",
        "<!-- a:end -->\n<!-- a:begin -->",
        PAGE.split("between")[0] * 2,
    ],
)
def test_markers_that_do_not_pair_are_refused(tmp_path, page):
    path = tmp_path / "README.md"
    path.write_text(page)
    with pytest.raises(LabError, match="a:begin"):
        replace_marked("a", "new", path)
    assert path.read_text() == page


def test_the_ladders_table_is_what_was_recorded():
    """The README's table has today's recorded results: else run `make pictures`."""
    table = table_of("ladder")
    assert table == format_ladder(labkit.recorded("H200"))
    assert len(re.findall(r"^\| \*layer time\* ", table, re.MULTILINE)) == 3
    for rung in LADDER:
        assert len(re.findall(rf"^\| {rung.label}(?:, FP16)? \|", table, re.MULTILINE)) == 1
    assert table.count("**") == 2 * 8  # the best of four layers in either precision


def test_the_comparison_with_cudnn_is_what_was_recorded():
    """All times are of one run; ours leads every library on every layer with every batch, in float and in half."""
    table = pd.read_csv(data_dir() / "versus" / "nvidia-h200.csv")
    assert table_of("versus") == versus.to_markdown(table)
    best = table.pivot_table("median_ms", "label", ["network", "layer", "batch"], aggfunc="min")
    half = best.index.str.match("10 |.*FP16")
    for rows in (best[half], best[~half]):
        ours = rows.index.str.match(r"\d\d ")
        assert (rows[ours].min() < rows[~ours].min()).all()


def test_the_table_of_small_batches_is_what_was_recorded():
    """Ours leads cuDNN with 100 images, too, by calls and by graphs."""
    table = pd.read_csv(data_dir() / "small" / "nvidia-h200.csv")
    assert table_of("small") == small.to_markdown(table)
    rows = table[(table["batch"] == small.BATCH) & (table["label"] != small.NOTHING)]
    best = rows.pivot_table("median_ms", "label", ["network", "layer", "way"], aggfunc="min")
    half = best.index.str.match("10 |.*FP16")
    for several in (best[half], best[~half]):
        ours = several.index.str.match(r"\d\d ")
        assert (several[ours].min() < several[~ours].min()).all()
    ours = table[table["label"].str.endswith("warpgroups") & (table["way"] == "graph")]
    passes = ours.pivot_table("median_ms", ["label", "network", "layer"], "batch")
    shares = {"80 to 94 %": passes[4] / passes[132], "35 to 59 %": passes[264] / passes[132] - 1}
    odd = ("11 split floats, warpgroups", "lenet72", 1)
    for span, share in shares.items():
        others = share.drop(odd)
        assert f"{100 * others.min():.0f} to {100 * others.max():.0f} %" == span
        assert span in words_of("small")
        assert not others.min() <= share[odd] <= others.max()
        assert re.search(
            rf"{span} of the time [\w ]+\. Kernel 11 on layer 1 of lenet72 is an exception\. "
            rf"It (needs|takes) {100 * share[odd]:.0f} %",
            words_of("small"),
        )


def test_what_is_said_of_the_libraries_is_what_was_recorded():
    table = pd.read_csv(data_dir() / "versus" / "nvidia-h200.csv", keep_default_na=False)
    table = table[~table["label"].str.endswith(", again")]
    best = table.pivot_table("median_ms", "label", ["network", "layer", "batch"], aggfunc="min")
    ours, half, libraries = (
        best.index.str.match(pattern) for pattern in (r"\d\d ", "10 |.*FP16", ".*TF32")
    )
    exact = ~half & (~libraries | best.index.str.contains("3×"))
    many = best.columns.get_level_values("batch") == 10_000
    words = words_of("versus")
    for kind in (half, ~half):
        over = best[kind & ~ours].min() / best[kind & ours].min()
        assert over.min() > 1
        assert f"takes {over[many].min():.1f} to {over[many].max():.1f} times as long" in words
    fastest = best[half & ~ours].loc[:, many].idxmin().groupby("layer").agg(set)
    assert fastest.to_dict() == {1: {"Triton FP16"}, 2: {"cuDNN FP16", "torch.compile FP16"}}
    compiled = table[table["label"].str.startswith("torch.compile")]
    by_triton = compiled[compiled["how"].str.contains("triton")]
    assert set(by_triton[["label", "layer", "batch"]].itertuples(index=False, name=None)) == {
        ("torch.compile FP16", 2, 100)
    }
    assert (
        f"a kernel of cuDNN in {len(compiled) - len(by_triton)} of {len(compiled)} cases" in words
    )
    counts = (
        table["how"].str.extract(r"warps.*the fastest of (\d+) searched")[0].dropna().astype(int)
    )
    assert f"{counts.min()} to {counts.max()} combinations" in words
    assert best[~half & ~ours].loc[:, many].idxmin().str.match(".* TF32").all()
    assert (best[exact & ~ours].min() > best.loc["07 tuning"]).all()
    assert (best[~half & ~ours].min() > best[best.index.str.startswith("11 ")].min()).all()
    fewest = best[~half].xs(100, axis=1, level="batch").idxmin()
    assert (fewest == "07 tuning").groupby("layer").agg(list).to_dict() == {
        1: [True, True],
        2: [False, False],
    }
    for library in ("cuDNN TF32", "Triton TF32"):
        in_tf32 = best.loc[library] < best.loc["07 tuning"]
        assert (in_tf32 == (best.columns.get_level_values("layer") == 2))[many].all()
    wins = pd.concat([best[kind].idxmin() for kind in (half, ~half)], axis=1).map(
        lambda x: "warp" in x
    )
    assert (
        wins.xs(2, level="layer").all(axis=None)
        and wins[0].all()
        and not wins.xs(1, level="layer")[1].any()
    )
    assert set(table.loc[table["label"].str.startswith("cuDNN"), "how"]) == {"all plans"}
    assert {"torch.compile FP16", "torch.compile TF32"} < set(best.index) and best.notna().all(
        axis=None
    )


def test_what_is_said_of_the_network_beside_pytorch_is_what_was_recorded():
    table = labkit.recorded("H200").network(None)
    ms = table.set_index(["batch", "where", "pixels", "dtype", "label"])["ms"].sort_index()

    def over(batch, where, pixels, label="", ours="fused, warpgroups"):
        """Return the ratios of PyTorch's best time to ours, in half and in float."""
        for dtype, mode in (("float16", "fp16"), ("float32", "tf32")):
            rows = ms[batch, where, pixels, dtype]
            theirs = rows[rows.index.str.match(label or f"PyTorch {mode}")]
            yield f"{theirs.min() / rows[rows.index.str.startswith(ours)].min():.1f}"

    words, many = words_of("versus"), 10_000
    assert list(over(many, "device", "float32", "fused$")) == ["1.9", "1.6"]
    assert (
        "in half precision, the version *warpgroups* is 1.9 times as fast as page 13's kernel. In float, it is 1.6 "
        "times as fast." in words
    )
    for images, where, pixels in (
        ("float images on the device", "device", "float32"),
        ("float images from the host", "host", "float32"),
        ("images of 86 × 86 bytes from the host", "host", "uint8 86x86"),
    ):
        assert "| {} | {} | {} |".format(images, *over(many, where, pixels)) in words
    plain = over(many, "host", "float32", "PyTorch (?:fp16|tf32)$")
    assert "PyTorch without torch.compile | {} | {} |".format(*plain) in words
    for where in ("device", "host"):
        for dtype in ("float16", "float32"):
            rows = ms[many, where, "float32", dtype]
            assert rows[rows.index.str.startswith("PyTorch")].idxmin().endswith("compiled")
    assert (
        "With float images from the host, the copies of the images take longer than the kernels"
        in words
    )
    for dtype in ("float16", "float32"):
        kernels, with_copies = (ms[many, where, "float32", dtype] for where in ("device", "host"))
        ours = with_copies.index[with_copies.index.str.startswith("fused")]
        assert (with_copies[ours] > 2 * kernels[ours]).all()
    few = [1e3 * ms[100, "device", "float32", dtype].min() for dtype in ("float16", "float32")]
    assert max(few) < 20
    assert (
        "For **100 images**, our kernel *warpgroups* takes {:.1f} µs in half precision and "
        "{:.1f} µs in float".format(*few)
        in words
    )
    ratios = over(100, "device", "float32")
    assert (
        "100 images in half precision, PyTorch's fastest way takes {} times as long as our kernel. In TF32, PyTorch's "
        "fastest way takes {} times as long as our kernel in float."
    ).format(*ratios) in words


def test_what_page_10_says_of_the_step_is_what_was_recorded():
    layers = [labkit.LENET86[1], labkit.LENET72[1]]
    times = labkit.recorded("H200").op_ms(labkit.variant(10, step="warpgroups"), layers)
    ratios = " and ".join(f"{ratio:.2f}" for ratio in times)
    text = (ROOT / "notebooks" / "10_speed_of_light.ipynb").read_text(encoding="utf-8")
    assert re.search(rf"\btakes? {re.escape(ratios)} ms", text)
    solved = labkit.recorded("H200").ratio("op_ms", 10, labkit.solution("10b"), layers[0])
    assert f"about {100 * (1 - 1 / solved):.0f} % on layer 2" in text
    gained = labkit.recorded("H200").ratio("op_ms", labkit.variant(10, pairs=1), 10, layers[0])
    assert f"On layer 2 words and weights used again gain a factor of {gained:.1f}" in text
    names = (
        "l1_wavefronts",
        "tensor_instructions",
        "shared_store_conflicts",
        "l1_busy_pct",
        "tensor_busy_pct",
    )
    first, second = labkit.LENET86
    (old_first, first_now), (old_second, second_now) = (
        labkit.recorded("H200").counters([9, 10], layer, *names, kernel="conv", per_image=True).iloc
        for layer in (first, second)
    )
    rate = first.bytes(10_000) / 2 / labkit.recorded("H200").value("op_ms", 10, first) / 1e9
    persistent = labkit.variant(10, step="persistent")
    gains = labkit.recorded("H200").ratio(
        "op_ms", persistent, 10, [*labkit.LENET86, *labkit.LENET72]
    )
    gains = gains.sort_values()[1:]
    fewer = [
        old["l1_wavefronts"]
        / old["tensor_instructions"]
        / now["l1_wavefronts"]
        * now["tensor_instructions"]
        for old, now in ((old_first, first_now), (old_second, second_now))
    ]
    assert min(fewer) > 7.5 and max(fewer) < 10 and "an eighth to a tenth of the wavefronts" in text
    conflicts, wavefronts = second_now["shared_store_conflicts"], second_now["l1_wavefronts"]
    for told in (
        f"The pipe is busy for {first_now['l1_busy_pct']:.0f} %. But x and y move at {rate:.1f} TB/s, of a copy's "
        f"{labkit.recorded('H200').ceilings['copy'] / 1e12:.1f}",
        f"the squares cost {second_now['tensor_instructions'] / old_second['tensor_instructions']:.1f} times the "
        f"instructions, on a unit that was busy for {old_second['tensor_busy_pct']:.0f} %",
        f"makes three of four layers {min(gains):.1f} to {max(gains):.1f} times as fast",
        f"{conflicts:.0f} of layer 2's {wavefronts:,.0f} wavefronts, {100 * conflicts / wavefronts:.0f} %, are",
    ):
        assert told in text, told
    start, goal = exercises()["10a"].start_reaches[0], exercises()["10a"].goals[0].at_most
    assert f"at most {goal} loads of words per instruction, {start:.2f} now" in text


def waits_in_words():
    """Yield pages with passages about what loads and waits cost, which none of their cells prints."""
    first, second, third, fourth = [*labkit.LENET86, *labkit.LENET72]
    recorded = labkit.recorded("H200")
    count = recorded.counter
    loads, wavefronts, conflicts, products = (
        count(name, 5, first, kernel="gemm")
        for name in (
            "shared_load_instructions",
            "shared_load_wavefronts",
            "shared_load_conflicts",
            "thread_ffma_instructions",
        )
    )
    # a load of u_tile takes one wavefront, one of 16 bytes of k_tile two
    once = products / 32
    assert wavefronts - conflicts == pytest.approx(once + 2 * (loads - once))
    written = 4e4 * first.terms * first.Ho * first.Wo  # bytes of u, 10,000 images
    unrolling = recorded.counters(5, first, "time_ns", "dram_bytes").set_index("kernel")
    moved = 1e9 * unrolling["dram_bytes"]["im2col"] / unrolling["time_ns"]["im2col"]  # B/s
    weights, library = recorded.op_ms(
        [labkit.variant(4, step="weights"), "05 unroll gemm, gemm=cublas"], second
    )
    yield (
        "05_unroll_gemm",
        f"Half of that, {1e3 * written / recorded.ceilings['reference_bandwidth']:.1f} ms, is for writing",
        f"writes {first.terms * first.Ho * first.Wo / (first.H * first.W):.0f} times as much as `x` has",
        f"it reaches {100 * moved / recorded.ceilings['write']:.0f} % of that rate",
        f"loses only on layer 2 of lenet86, by {100 * weights / library - 100:.0f} %",
    )
    masks, columns = (labkit.variant(7, step=step) for step in ("masks", "columns"))
    before, after = recorded.op_ms([masks, columns], first)
    ms = recorded.op_ms(["cuDNN FP32", 7])
    slower = ms.loc["cuDNN FP32"] / ms.loc["07 tuning"]
    waiting = [stall for stall in STALLS if stall != "not_selected"]  # then the warp was ready
    largest = sorted(waiting, key=lambda stall: -count(f"stalled_{stall}", 7, second))[:4]
    assert largest == ["dispatch_stall", "short_scoreboard", "barrier", "long_scoreboard"]
    products = count("thread_ffma_instructions", 7, third) / 32
    rows = labkit.variant(7).defines(third)["ROWS"]
    assert round(products / rows / count("shared_load_instructions", 7, third)) == 2
    yield (
        "07_tuning",
        "one load brings two weights",
        "waits {:.2f} cycles for dispatch (*dispatch stall*), {:.2f} for shared memory, {:.2f} at barriers "
        "and {:.2f} for inputs".format(
            *(count(f"stalled_{stall}", 7, second) for stall in largest)
        ),
        "takes {:.1f} and {:.1f} times as long, on the second layers {:.1f} and {:.1f} times".format(
            *(slower[layer.name] for layer in (first, third, second, fourth))
        ),
        "takes {:.0f} % longer, with {:.0f} % more instructions".format(
            100 * after / before - 100,
            100 * count("instructions", columns, first) / count("instructions", masks, first) - 100,
        ),
    )


def counters_in_words():
    """Yield pages, each with passages that name recorded counts which none of its cells prints."""
    first, second, third, fourth = [*labkit.LENET86, *labkit.LENET72]
    count = labkit.recorded("H200").counter

    def millions(name, kernels, layer, words=" in place of ", form=".0f"):
        """Return a count of two kernels in millions, as "1 in place of 2"."""
        return words.join(f"{count(name, kernel, layer) / 1e6:{form}}" for kernel in kernels)

    wide, tiles = labkit.variant(4, tile=27), "shared_load_instructions"
    made = {layer: count(tiles, wide, layer) / count(tiles, 4, layer) for layer in (third, fourth)}
    cycles = [
        132 * count("cycles", kernel, third) / count(tiles, kernel, third) for kernel in (wide, 4)
    ]
    yield (
        "closer_look/04_tiling",
        f"compute only {100 * (made[third] - 1):.1f} % more products",
        "takes {:.1f} cycles in place of {:.1f}".format(*cycles),
        f"{count('warps_resident_pct', wide, third):.0f} % of a multiprocessor's warps are resident in place of "
        f"{count('warps_resident_pct', 4, third):.0f}",
        f"{100 * (1 - made[fourth]):.0f} % fewer products than with 16",
        f"in 03 L1 answered {count('l1_hit_pct', 3, fourth):.0f} % of them",
    )
    waves = millions(
        "l1_wavefronts",
        (labkit.variant(6, tile=8), 6),
        second,
        " million wavefronts for 1000 images in place of ",
    )
    yield "closer_look/06_fusion", waves
    rows, maps, masks, constant, shared, columns, runtime = (
        labkit.variant(7, step=step)
        for step in ("rows", "maps", "masks", "constant", "shared", "columns", "runtime")
    )
    stopped = [f"{count('stalled_imc_miss', kernel, first):.2g}" for kernel in (maps, rows)]
    missed = [
        100
        * count("constant_cache_misses", kernel, second)
        / count("constant_cache_requests", kernel, second)
        for kernel in (3, maps)
    ]
    tried = pd.read_csv(ROOT / "data" / "experiments" / "weights-nvidia-h100-80gb-hbm3.csv")
    tried = tried.set_index(["weights", "layer"])
    waits = tried["smsp__average_warps_issue_stalled_imc_miss_per_issue_active.ratio"]
    stops = waits["one map at a time"]
    times = tried["gpu__time_duration.sum"] / 1e6
    all_maps, smaller = waits["as it is"], [first.name, third.name, second.name, fourth.name]
    assert first.M * first.terms == second.terms  # as many weights as a map of layer 2 has
    assert (stops < all_maps).all()
    assert all_maps[smaller].is_monotonic_increasing
    assert stops[smaller[:2]].max() < stops[second.name] < stops[fourth.name]
    plain_ms = labkit.recorded("H100").op_ms(3, second) / 10
    ahead = times.unstack(0)[[way for way in times.index.levels[0] if way != "as it is"]].loc[
        first.name
    ]
    assert ahead.min() > times["as it is", first.name]
    loads = {rows: second.C * second.K * (4 + second.K - 1), 3: second.terms}  # of a warp
    per_map = [
        round(count("global_load_requests", kernel, second) / loads[kernel] / 1000 / second.M)
        for kernel in loads
    ]
    yield (
        "07_rows",
        f"**`rows`:** a map takes {per_map[0]} warps",
        f"**03:** a map takes {per_map[1]} warps",
        f"Layer 2 takes {times['a load per lane', second.name]:.2f} ms, "
        f"in place of {times['as it is', second.name]:.2f}, and of {plain_ms:.2f} in rung 03",
        f"would be {10 * times['a load per lane', second.name]:.1f} ms: no rung so far is as fast",
        f"{times['a load per lane', fourth.name]:.2f} ms in place of "
        f"{labkit.recorded('H100').op_ms(3, fourth) / 10:.2f}",
        f"with {4 * second.terms}, a warp of layer 1 waits {waits['as it is', first.name]:.2f} cycles, "
        f"and one of layer 2 waits {stops[second.name]:.2f}",
        "reads constant memory {:,} times per image, 03 {:,} times".format(
            *(warps * second.terms * second.M for warps in per_map)
        ),
        f"`weights` is faster: {labkit.recorded('H200').op_ms('04 tiling, weights', first):.2f} ms on layer 1",
        "busy for {:.0f} % of the time in 03, and for {:.0f} % in `rows`".format(
            *(count("l1_busy_pct", kernel, second) for kernel in (3, rows))
        ),
        f"busy for {count('constant_cache_busy_pct', 3, second):.0f} % of the time in 03. In `rows` it is idle",
        f"waits {count('stalled_imc_miss', rows, second):.1f} cycles per instruction for it, and a warp of 03 never",
    )
    assert count("stalled_imc_miss", 3, second) == 0
    of_gemm = {
        name: count(name, 5, first, kernel="gemm")
        for name in ("shared_load_instructions", "shared_load_wavefronts", "l1_wavefronts")
    }
    per_product = 32 / count("thread_ffma_instructions", 5, first, kernel="gemm")
    loads, taken, wavefronts = (number * per_product for number in of_gemm.values())
    best = labkit.recorded("H200").op_ms([labkit.variant(4, step="weights"), 5])
    assert (best.iloc[0] < best.iloc[1]).all()
    yield (
        "05_unroll_gemm",
        f"{loads:.2f} loads per product, and these take {taken:.2f} of the {wavefronts:.2f} wavefronts",
        "`weights` takes {:.2f} and {:.2f} ms".format(*best.iloc[0, :2]),
        f"the recorded {second.flops(10_000) / best.iloc[1, 1] / 1e9:.1f} TFLOP/s",
    )
    yield (
        "02_constant",
        "{:.0f} % of the reads miss with one mask (rung 03), {:.0f} % with eight".format(*missed),
    )
    ms = labkit.recorded("H200").op_ms(["cuDNN FP32", 7])
    assert (ms.loc["cuDNN FP32"] > ms.loc["07 tuning"]).all()
    more = [
        100 * count("instructions", runtime, layer) / count("instructions", 7, layer) - 100
        for layer in (first, second)
    ]
    library, *_, ours = ms[first.name]
    assert 10.5 < library / ours < 11
    gains = ms.loc["07 tuning"] / labkit.recorded("H200").op_ms(10)
    assert gains[[second.name, fourth.name]].round().tolist() == [6, 6]
    runtime_ms, ours_ms = labkit.recorded("H200").op_ms([runtime, 7], first)
    less = 100 * (1 - ours_ms / runtime_ms)
    at_barriers = count("stalled_barrier", 7, first)
    known = labkit.recorded("H200").op_ms([runtime, 7], labkit.LENET86).sum(axis=1)
    per_instruction = 1 + sum(count(f"stalled_{stall}", 7, first) for stall in STALLS)
    yield (
        "07_tuning",
        f"cuDNN takes {library:.2f} ms, almost 11 times the {ours:.3f}",
        f"{count('registers', 7, first):.0f} registers per thread in place of "
        f"{count('registers', runtime, first):.0f}, and {less:.0f} % less time",
        f"an instruction about every {per_instruction:.0f} cycles",
        f"It spends {at_barriers:.2f} of these at barriers, and {count('stalled_not_selected', 7, first):.1f} "
        f"waiting for its turn. Half of the barriers are about {50 * at_barriers / per_instruction:.1f} % of",
        "the wait falls from {:.2f} to {:.2f} cycles per instruction".format(
            *(count("stalled_barrier", kernel, second) for kernel in (columns, runtime))
        ),
        f"and {labkit.recorded('H200').value('x_reference', masks, second):.1f} times the [reference time](",
        "Layer 1 takes {:.3f} ms, in place of {:.3f}: a quarter of the requests, and only {:.0f} % less".format(
            *(on_1 := labkit.recorded("H200").op_ms([masks, rows], first)),
            100 * (1 - on_1.iloc[0] / on_1.iloc[1]),
        ),
        "and the time from {:.2f} to {:.2f} ms".format(
            *labkit.recorded("H200").op_ms([columns, runtime], second)
        ),
        f"they used {count('issue_slots_pct', rows, first):.0f} % of the [issue slots](",
        "Of {:.2f} issue slots per 32 products\n\n- one is for the multiply-adds that are needed;\n"
        "- {:.2f} are for all else".format(
            spent := 132 * 4 * count("cycles", 7, second) * 32 / second.macs(1000),
            (used := 32 * count("instructions", 7, second) / second.macs(1000)) - 1,
        ),
        f"- {spent - used:.2f} stay empty",
        f"and {count('time_ns', 7, second) / 1e6 / second.reference_ms(1000, device='H200'):.2f} with 1,000 images",
        f"Each of {count('warps_resident_pct', 7, first) * 64 / 4 / 100:.1f} warps per scheduler",
    )
    barriers = (
        count("stalled_barrier", kernel, layer)
        for kernel in (shared, 7)
        for layer in (first, second)
    )
    yield (
        "closer_look/07_tuning",
        f"the two layers of lenet86 take {known.iloc[0]:.1f} ms together in the step `runtime`, and "
        f"{known.iloc[1]:.1f} in rung 07. That is {100 * known.iloc[0] / known.iloc[1] - 100:.0f} % faster",
        "waits {} cycles per instruction for misses of the "
        "immediate constant cache, in place of {}".format(*stopped),
        f"{more[0]:.0f} % more instructions, and {count('registers', runtime, first):.0f} registers in place of "
        f"{count('registers', 7, first):.0f}. On layer 2 it costs {more[1]:.0f} % more instructions",
        f"busy for {count('constant_cache_busy_pct', constant, second):.0f} % of the time, and only "
        f"{count('issue_slots_pct', constant, second):.0f} % of the issue slots",
        "for {:.1f} and {:.1f} cycles per instruction in place of {:.1f} and {:.1f}".format(
            *barriers
        ),
        f"the time to {times['one map at a time', second.name]:.2f} ms",
        f"still waits {stops[second.name]:.1f} cycles",
        f"On layer 1 of lenet86** a warp waits {waits['as it is', first.name]:.2f} cycles",
        f"a warp waits {waits['as it is', third.name]:.1f} cycles. With one map at a time, "
        f"{4 * third.terms:,} bytes, it waits {stops[third.name]:.2f}, and {times['as it is', third.name]:.2f} ms "
        f"become {times['one map at a time', third.name]:.2f}",
        f"a way, too:** {times['global memory', second.name]:.2f} ms",
        f"with {4 * fourth.M * fourth.terms:,} bytes of weights: {times['global memory', fourth.name]:.2f} ms. "
        f"There a load per lane takes {times['a load per lane', fourth.name]:.2f}, "
        f"and `rows` as it is {times['as it is', fourth.name]:.2f}",
    )
    direct, eight = "08 fp16, direct", labkit.variant(8, tile=8)
    misses = "constant_cache_misses"
    yield (
        "closer_look/08_fp16",
        f"{millions(misses, (3, direct), second, ' to ', '.1f')} million",
        millions(misses, ("08 fp16, mul_add_rn", direct), second, " million in place of ", ".1f"),
        f"{millions('l1_wavefronts', (eight, 8), first)} on layer 1",
        f"{millions('l1_wavefronts', (eight, 8), second)} on layer 2",
    )
    integer = (
        count("thread_integer_instructions", kernel, second) / 1e9
        for kernel in (labkit.variant(9, step="plain"), 8, labkit.variant(9, step="pixel"))
    )
    yield (
        "09_tensor_cores",
        "{:.1f} billion integer instructions, those of 08 only {:.1f}, those of `pixel` {:.1f}".format(
            *integer
        ),
    )


def figures_of_the_network(h200):
    """Yield page 13 with passages whose figures follow from the recorded steps of the network."""
    rows = h200.network_steps(pixels="float32").set_index(["label", "dtype", "where"])
    steps, from_host = rows["ms"], rows["ms"].xs(("float32", "host"), level=["dtype", "where"])
    plain, one, fused = from_host["plain"], from_host["fused"], steps["fused", "float32", "device"]
    before = from_host["plain, allocated before"]
    layers = h200.network_steps(kernel=None, where="device", label="plain").set_index("kernel")[
        "ms"
    ]
    assert 1 / 21 < layers[["conv1", "conv2"]].sum() / plain < 1 / 19  # a twentieth
    seven = steps["plain, on tensor cores", "float32", "device"]
    eleven = h200.network_steps(kernel=None, where="device", label="plain, on tensor cores")
    small = eleven.set_index("kernel")["ms"].drop(["all", "conv1", "conv2"]).sum()
    assert steps["fused", "float16", "device"] < fused / 2
    busy = h200.network_counters()["tensor_busy_pct"]
    assert abs(busy["float16"] - 100 / 2) < 2 and abs(busy["float32"] - 100 * 2 / 3) < 2
    low, high = rows.loc[("plain", "float32", "host"), ["min_ms", "max_ms"]]
    link = 1e3 * 10_000 * 4 * 86 * 86 / h200.ceilings["to_device_pinned"]
    maps = 444_296 - 29_624  # bytes per image, as the page counts them
    predicted = 1e7 * maps / h200.ceilings["copy"]
    yield (
        "13_network",
        f"goes from {plain:.1f} ms to {one:.2f} ms",
        f"{seven / fused:.1f} times as fast as seven",
        f"took {fused:.2f} and {steps['fused, again', 'float32', 'device']:.2f} ms",
        f"from {low:.0f} to {high:.0f} ms for the plain network",
        f"the {plain - before:.1f} ms of the first step",
        f"it takes {steps['fused', 'float16', 'host']:.2f} ms, about as long: the link alone needs {link:.2f}",
        f"The five small kernels take {small:.2f} ms",
        f"The bytes predicted {predicted:.2f} ms. If you predicted {seven:.2f} / ({seven:.2f} − {predicted:.2f}) = "
        f"{seven / (seven - predicted):.1f}",
    )


def sizes_in_words():
    """Yield the page 07 (sizes), with passages that name recorded numbers which none of its cells prints."""
    h200, second = labkit.recorded("H200"), labkit.LENET86[1]
    swept = h200.sweep()
    swept = swept[(swept["batch"] == 1000) & (swept["layer"] == second.name)]
    steep = swept.query("unroll.isna() and maps == 1").groupby("rows")["x_reference"].min()
    tall = swept.query("rows == 20 and maps == 8 and block == '160x1' and unroll == 7")
    allotted = -(-tall["registers"].item() // 8) * 8
    assert [65536 // (allotted * size) for size in (160, 96)] == [1, 2]  # 68 threads: three warps
    ms = h200.op_ms(7, second)

    def point(rows, maps, block, unroll):
        sizes = f"rows == {rows} and maps == {maps} and block == '{block}' and channels == 4 and {unroll}"
        return swept.query(sizes).squeeze()

    few = point(20, 8, "68x1", "unroll == 1")
    many = point(4, 8, "160x1", "unroll.isna()")
    warps = [
        size // 32 * (65536 // (-(-sizes["registers"] // 8) * 8 * size))
        for sizes, size in ((few, 96), (many, 160))
    ]
    assert warps == [6, 25]
    two, four = h200.counters(
        [
            labkit.variant(7, rows=n, maps=8, block=(160, 1), channels=4, unroll=second.K)
            for n in (2, 4)
        ],
        second,
        "instructions",
    )["instructions"]
    big = "layer == @second.name and batch == 10_000 and rows == 4 and maps == 4"
    yield (
        "07_sizes",
        "In one map, 1, 2 and 4 rows take {} and {} times the reference time. "
        "That is {:.1f}, {:.1f} and {:.1f} times their numbers per multiply-add".format(
            ", ".join(format_digits(steep[rows]) for rows in (1, 2)),
            format_digits(steep[4]),
            *(steep[rows] / ((rows + 13) / (7 * rows)) for rows in (1, 2, 4)),
        ),
        "1.62 with 1,000 images, {:.2f} with 10,000".format(h200.value("x_reference", 7, second)),
        f"Four rows in eight maps take {ms:.2f} ms on an H200",
        f"a multiprocessor holds one block of 160 ({tall['registers'].item()} registers per thread)",
        f"with {few['registers']} registers per thread, rolled, a multiprocessor holds only six warps with 20 rows. "
        "With four it holds 25",
        "Either cure halves the time of 20: {:.3f} and {:.3f}".format(
            point(20, 8, "160x1", "unroll == 1")["op_ms"],
            point(20, 8, "68x1", "unroll.isna()")["op_ms"],
        ),
        "On the second layers rung 10, in half precision, is six times as fast as rung 07",
        "with more loads and more numbers, took {:.2f} ms in the sweep".format(
            h200.sweep().query(big)["op_ms"].min()
        ),
        "As many [issue slots](../docs/glossary.md#issue-slot) are used, "
        f"but for {100 * (two / four - 1):.0f} % more instructions",
    )


def figures_in_words():
    """Yield pages, each with passages whose figures follow from several recorded rows."""
    layers = first, second, third, _ = [*labkit.LENET86, *labkit.LENET72]
    h200 = labkit.recorded("H200")
    count, ms = h200.counter, h200.op_ms
    busy = [count("l2_busy_pct", kernel, layer) for kernel in (1, 2) for layer in labkit.LENET86]
    yield "01_baseline", f"busy with them for {busy[0]:.0f} and {busy[1]:.0f} % of the time"
    yield "02_constant", f"L2 is busy for {min(busy):.0f} to {max(busy):.0f} % of the time"
    apart = ms("08 fp16, mul_add_rn", layers[:3]) / ms("08 fp16, direct", layers[:3]) - 1
    yield (
        "closer_look/08_fp16",
        f"cost {100 * apart.min():.0f} to {math.ceil(100 * apart.max())} % of the time",
    )
    row, pixel = (labkit.variant(9, step=step) for step in ("row", "pixel"))
    more = [
        ask(row, second) / ask(pixel, second)
        for ask in (functools.partial(count, "instructions"), ms)
    ]
    yield (
        "closer_look/09_tensor_cores",
        "`row` executes {:.2f} times the instructions of `pixel` in {:.2f} times the time".format(
            *more
        ),
    )
    pairs, groups, persistent = (
        labkit.variant(10, step=step) for step in ("pairs", "groups", "persistent")
    )
    slower = {after: 100 * (ms(after, layers) / ms(before, layers) - 1)
              for before, after in ((pairs, groups), (groups, persistent))}  # fmt: skip
    last = (ms(persistent, layers) / ms(10, layers)).iloc[1:]
    squares = ms([labkit.variant(10, pairs=n) for n in (1, 2, 4, 8)], first)
    units = [[count(name, step, second, kernel="conv") for step in (groups, persistent)]
             for name in ("l2_busy_pct", "l1_busy_pct", "warps_resident_pct")]  # fmt: skip
    yield (
        "closer_look/10_speed_of_light",
        "`groups` takes {:.0f} and {:.0f} % longer than `pairs` on the second layers".format(
            *slower[groups].iloc[[1, 3]]
        ),
        f"`persistent` {slower[persistent].min():.0f} to {slower[persistent].max():.0f} % longer",
        f"the same kernel differs by {100 * h200.noise():.1f} %",
        f"three of the layers {last.min():.1f} to {last.max():.1f} times as fast",
        "L2 busy for {:.0f} and {:.0f} % of the time".format(*units[0]),
        "the L1 data pipe for {:.0f} and {:.0f} %".format(*units[1]),
        "only {:.0f} and {:.0f} % of the warps are resident".format(*units[2]),
        f"after {count('warps_resident_pct', pairs, second, kernel='conv'):.0f} % with `pairs`",
        f"the numbers of squares differ by {100 * (squares.max() / squares.min() - 1):.0f} %",
    )
    four = labkit.variant(11, step="warpgroups")
    tensor = [count("tensor_busy_pct", kernel, layer, kernel="conv")
              for kernel in (four, 11) for layer in (first, third)]  # fmt: skip
    yield (
        "closer_look/11_split_floats",
        "busy for {:.0f} and {:.0f} % of the time, in page 11's kernel for {:.0f} and {:.0f} %".format(
            *tensor
        ),
        f"{count('shared_store_conflicts', four, second, kernel='conv'):,.0f} passes in 1000 images wait for a bank",
    )
    macs = sum(layer.macs(1) for layer in labkit.LENET86) + 1296 * 32 + 32 * 10
    time_ns = h200.network_counters("fused, warpgroups")["time_ns"]
    over = [
        time_ns[dtype] * h200.ceilings["float16_gemm"] / (parts * 2e13 * macs)
        for dtype, parts in (("float16", 1), ("float32", 3))
    ]
    yield (
        "closer_look/13_network",
        "Half takes {:.1f} times its reference, float {:.1f} times".format(*over),
    )
    yield from figures_of_the_network(h200)
    timed = h200.experiment("pytorch").set_index(["x", "series", "kernel"])["ms"].sort_index()
    forward, both = (timed[10_000, what] for what in ("forward", "forward and gradient"))
    ours = forward[forward.index.str.startswith("ours")]
    pixels, warps = (both[f"ours, an addition per {unit}"] for unit in ("pixel", "warp"))
    timers = h200.experiment("timers").pivot_table("ms", "x", "kernel", sort=False)
    few, many = timers.loc[100], timers.loc[10_000]
    waiting = many.iloc[1:4]
    assert round(few["events"] / few["events, L2 emptied before"]) == 2
    tensor = (
        4 * 10_000 * first.M * first.Ho * first.Wo / 1e9
    )  # the bytes of x, over those of a TB/s in a ms
    yield (
        "17_pytorch",
        "is {:.1f} to {:.1f} times as fast as PyTorch's two operations".format(
            *(forward["PyTorch"] / ours).sort_values()
        ),
        "our kernel reads and writes {:.1f} to {:.1f} TB/s, PyTorch's {:.1f}".format(
            *(2 * tensor / ours).sort_values(), 4 * tensor / forward["PyTorch"]
        ),
        f"the {100 * (ours.max() / ours.min() - 1):.0f} % between the two rows are noise",
        f"take {pixels / warps:.0f} times as long as with one per warp",
        f"agree within {100 * (waiting.max() / waiting.min() - 1):.0f} %",
        "sees {:.0f} % of the time, events in the wrong stream {:.0f} %".format(
            100 * many.iloc[0] / many.iloc[1], 100 * many.iloc[4] / many["events"]
        ),
    )
    one, four, sixteen = (
        labkit.variant(2, step="divergent", block=(n, 256 // n)) for n in (1, 4, 16)
    )
    yield (
        "closer_look/02_constant",
        f"took {ms(four, first) / ms(one, first):.1f} times as long on layer 1 with 4 words per warp",
        f"and {ms(sixteen, second) / ms(one, second):.0f} times on layer 2 with 16",
    )
    most = [
        max(launch.shared for layer in layers for launch in labkit.variant(rung).launches(layer))
        for rung in range(1, 12)
    ]
    assert max(most[:10]) <= 48 * 1024 < most[10]
    yield (
        "closer_look/04_tiling",
        "pages 01 to 10 stay within 48 KB, those of pages 11 and 13 opt in",
    )
    kernels = h200.versus_counters(second).set_index("label")
    ours, triton, cutlass = (
        kernels[kernels["kernel"] != "arrange"].loc[label]
        for label in ("10 speed of light", "Triton FP16", "CUTLASS FP16")
    )
    cudnn = kernels[kernels["layout"] == "NHWC"].loc["cuDNN FP16"]
    y = 2 * 10_000 * second.M * second.Ho * second.Wo  # bytes, in half
    x = 2 * 10_000 * second.C * second.H * second.W
    copy = 1e3 * (x + y) / h200.ceilings["copy"]
    timed = h200.versus(second).set_index("label")["median_ms"]
    ms, of_cudnn = timed["10 speed of light, warpgroups"], timed["cuDNN FP16"]
    # with NCHW, cuDNN's first kernel is that which changes the layout of x
    laid_out = h200.versus_counters(second).query("label == 'cuDNN FP16' and layout == 'NCHW'")
    laid_out = laid_out.iloc[0]
    assert laid_out["global_load_sectors"] == x / 32
    tried = h200.experiment("squares").set_index("kernel")["ms"]
    of_ours, of_triton, of_squares = (
        tried[label] for label in ("10 speed of light", "Triton FP16", "Triton, squares FP16")
    )
    yield (
        "16_as_others_write_it",
        "L1 data pipe, for {:.0f} and {:.0f} % of".format(
            *(each["l1_busy_pct"] for each in (triton, cudnn))
        ),
        f"For x alone, {laid_out['global_store_sectors'] / 1e6:.0f} million [sectors](../docs/glossary.md#sector) are "
        f"stored: {x / 32e6:.0f} million would hold it",
        f"change the layout of x ({x / 1e6:.0f} MB) and y ({y / 1e6:.0f} MB)",
        f"{cutlass['instructions'] / ours['instructions']:.0f} times as many instructions as ours",
        f"So at most {100 * (1 - copy / ms):.0f} % of the time of `warpgroups` could be won",
        f"They take {cutlass['issue_slots_pct']:.0f} % of the issue slots, "
        f"its {cutlass['l1_wavefronts'] / 1e6:.0f} million wavefronts "
        f"{cutlass['l1_busy_pct']:.0f} % of the pipe's time",
        f"Only {cutlass['warps_resident_pct']:.0f} % of the warps are resident, since a thread takes "
        f"{cutlass['registers']:.0f} registers.",
        f"{triton['shared_store_wavefronts'] / 1e6:.0f} of the {triton['l1_wavefronts'] / 1e6:.0f} million "
        "[wavefronts](../docs/glossary.md#wavefront) are stores to shared memory",
        f"{cudnn['shared_load_wavefronts'] / 1e6:.0f} of {cudnn['l1_wavefronts'] / 1e6:.0f} million wavefronts are "
        f"loads of shared memory, and {cudnn['shared_load_conflicts'] / 1e6:.0f} of these are [bank conflicts]",
        "keeps this pipe busy for {:.0f} %, too. But Triton has {:.1f} times as many wavefronts".format(
            ours["l1_busy_pct"], triton["l1_wavefronts"] / ours["l1_wavefronts"]
        ),
        f"Triton's kernel takes {of_triton / of_ours:.1f} times as long as ours. How many times",
        f"Triton's kernel is {of_triton / of_squares:.2f} times as fast. So the factor {of_triton / of_ours:.1f} is "
        f"{of_triton / of_squares:.2f} · {of_squares / of_ours:.2f}",
        f"ran with the squares: {tried['Triton, squares and their pool FP16']:.3f} ms, ReLU and pool included. Squares "
        f"that write all of y took {of_squares:.3f} ms, cuDNN {of_cudnn:.2f} for",
        "other kernel has to read y's {:.0f} MB and write {:.0f}: at the copy's rate that takes {:.3f} ms".format(
            y / 1e6, y / 4e6, 1.25 * y / h200.ceilings["copy"] * 1e3
        ),
    )
    reports = labkit.published(network="lenet86", step="baseline")["report"].nunique()
    assert reports == 2
    yield "closer_look/01_baseline", "reached in two course reports"
    yield (
        "closer_look/12_streams",
        "take {:.1f} and {:.1f} times one of 10,000".format(
            *(
                h200.course(12).iloc[-1][f"op time {n} ms"]
                / h200.course(7).iloc[-1][f"op time {n} ms"]
                for n in (1, 2)
            )
        ),
    )


def test_the_readme_and_the_paper_count_what_there_is():
    texts = [
        " ".join((ROOT / name).read_text(encoding="utf-8").split())
        for name in ("README.md", "paper/paper.md")
    ]
    count = len([*(ROOT / "labkit" / "exercises").glob("*/*/*/exercise.py")])
    pages = [
        *(ROOT / "notebooks").glob("*.ipynb"),
        *(ROOT / "notebooks" / "practice").glob("*.ipynb"),
    ]
    assert f"{len(pages)} pages with {count} graded exercises" in texts[0]
    of_pages = collections.Counter(own.page for own in exercises().values())
    assert 2 * [*of_pages.values()].count(2) > len(pages)
    assert "Most pages have two graded exercises" in texts[0]
    series = len([*(ROOT / "notebooks").glob("*.ipynb")])
    assert f"in a series of {series} pages. Besides the series, ten short pages" in texts[1]
    assert len(pages) == series + 10
    assert f"A program grades {count} exercises" in texts[1]
    counted = dict(
        re.findall(
            r"\| ([a-z].*?) \| (\d+ \| \d+) \|",
            (data_dir() / "counters.md").read_text("utf-8").split("<!-- summary:end -->")[0],
        )
    )
    loads, written, joined = (
        [int(n) for n in counted[name].split(" | ")]
        for name in (
            "global loads and stores",
            "shared memory, accesses as written",
            "shared memory, accesses joined by nvcc",
        )
    )
    total, agree = (
        sum(int(numbers.split(" | ")[column]) for numbers in counted.values()) for column in (0, 1)
    )
    assert len(counted) == 4 and agree > 0.75 * total
    assert "Most counts agree within 1 % with [those of a GPU]" in " ".join(texts[0].split())
    assert (
        f"{loads[1]:,} of {loads[0]:,} counts" in texts[1]
        and f"{written[1]} of {written[0]} counts agree" in texts[1]
    )
    assert f"only {joined[1]} of {joined[0]} counts agree" in texts[1]
    found = (ROOT / "engine" / "docs" / "findings.md").read_text("utf-8")
    ours, theirs = re.findall(r"\| (?:CPU engine|compute-sanitizer) \| (\d+ of \d+) \|", found)[:2]
    theirs = theirs.split()[0]
    assert (
        f"The engine finds {ours} planted bugs at their lines. NVIDIA's compute-sanitizer finds {theirs} of them."
        in texts[1]
    )
    for times in re.findall(r"[\d.]+ to [\d.]+ times", texts[1]):
        assert times in words_of("versus")


def test_the_instructors_guide_counts_what_there_is():
    text = (ROOT / "docs" / "instructors.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| (P\d+\w) \| .*\| *(\d*) \|$", text, re.M))
    rows |= dict(re.findall(r"^\| (\d\d\w) \| .*\| *(\d*) \|$", text, re.M))
    known = exercises()
    assert rows.keys() == known.keys()

    def lines(source):
        return [line for line in code_only(source).splitlines() if line.strip()]

    by_numbers = []
    for number, own in known.items():
        if not own.file:
            by_numbers.append(number)
            assert not rows[number], number
            continue
        # from the solution of the first, but for P10b, whose kernel hangs
        goes_on = number[0] == "P" and number.endswith("b") and number != "P10b"
        start = known[f"{number[:-1]}a"].solution if goes_on else own.start
        assert changed_lines(lines(start), lines(own.solution)) == int(rows[number]), number
    assert (
        f"In nbgrader, you grade by hand the exercises that ask for numbers ({', '.join(by_numbers)})"
        in " ".join(text.split())
    )
    attacks = ROOT / "classroom" / "tests" / "attacks"
    count = len([path for path in attacks.rglob("*") if path.suffix in (".cpp", ".cu")])
    assert f"{count} attacks" in text
    weeks = [weeks_of(part) for part in (1, 2)]
    words = " ".join(text.split())
    assert (
        "With two hours per week, part 1 (pages 00 to 07) takes {} weeks, or {} with its practice".format(
            *weeks[0]
        )
        in words
    )
    assert "Part 2 takes {} more weeks, or {} with its practice".format(*weeks[1]) in words


def weeks_of(part):
    """Return how many weeks of two hours a part takes by README's minutes: its main pages, and all of its pages."""
    table = (ROOT / "README.md").read_text("utf-8").split(f"| | {part} · ")[1].split("\n\n")[0]
    spans = {"all": [], "main": []}
    for path, minutes in re.findall(r"\]\((.*?)\).*\| ~?([\d to]+) \|$", table, re.M):
        span = [int(number) for number in minutes.split(" to ")]
        spans["all"].append(sum(span) / len(span))
        if not re.search("/practice/|your_own_kernel|program", path):
            spans["main"].append(spans["all"][-1])
    numbers = ["no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
    return [numbers[round(sum(spans[which]) / 120)] for which in ("main", "all")]


def test_the_readme_says_how_much_tensor_cores_gain():
    rungs = ["10 speed of light", "10 speed of light, warpgroups"]
    times = labkit.recorded("H200").op_ms(["07 tuning", *rungs])
    most = (times.loc["07 tuning"] / times.loc[rungs].min()).max()
    assert f"in half precision up to {most:.0f} times as fast as 07" in (
        ROOT / "README.md"
    ).read_text("utf-8")


def test_counts_that_a_page_names_in_words_are_what_was_recorded():
    found = (*counters_in_words(), *waits_in_words(), *sizes_in_words(), *figures_in_words())
    for name, *passages in found:
        cells = execute.read(ROOT / "notebooks" / f"{name}.ipynb").nb.cells
        text = "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
        assert not [passage for passage in passages if passage not in text], name


def test_17_rows_win_in_the_maps_that_page_07_sizes_names():
    swept = labkit.recorded("H200").sweep()
    swept = swept[
        (swept["layer"] == labkit.LENET86[1].name)
        & (swept["batch"] == 1000)
        & swept["unroll"].isna()
    ]
    fastest = swept.groupby(["maps", "rows"])["op_ms"].min().unstack()
    ahead = fastest[17] < fastest[[14, 20]].min(axis=1)
    assert [*ahead[ahead].index] == [1, 2, 6]
    assert (fastest.loc[[4, 8], 17] > fastest.loc[[4, 8], 14]).all()
    text = (ROOT / "notebooks" / "07_sizes.ipynb").read_text(encoding="utf-8")
    assert "In one, two and six maps 17 rows are faster than 14 and 20" in text
    assert "In four and eight maps 17 rows lose to 14" in text


def test_page_07_sizes_says_how_many_blocks_were_tried_and_what_that_gained():
    swept = labkit.recorded("H200").sweep()
    swept = swept[(swept["batch"] == 1000) & swept["unroll"].isna()]
    text = (ROOT / "notebooks" / "07_sizes.ipynb").read_text(encoding="utf-8")
    gains = []
    for layer in (labkit.LENET86[1], labkit.LENET72[1]):
        here = swept[swept["layer"] == layer.name].set_index(["rows", "maps"]).sort_index()
        first = {point.label for point in vary_outputs(layer, here)}
        with_two = here[here["label"].isin(first)].groupby(["rows", "maps"])["op_ms"]
        assert (with_two.size() == 2).all()
        tries = here.groupby(["rows", "maps"]).size()
        more = tries[tries > 2]
        assert {*more.index} == {*with_two.min().nsmallest(3).index}
        gains += [*(with_two.min() / here.groupby(["rows", "maps"])["op_ms"].min())[more.index]]
        if layer == labkit.LENET86[1]:
            assert f"the three fastest pairs {more.min()} to {more.max()} times" in text
            assert (
                "six rows in four maps take {:.3f} or {:.3f} ms".format(
                    *sorted(here.loc[(6, 4), "op_ms"])
                )
                in text
            )
    assert (
        len(gains) == 6
        and 1.005 < max(gains) < 1.01
        and "The many tries gained at most 1 %" in text
    )


def test_the_regions_of_page_07_sizes_are_in_its_sweep():
    h200, layer = labkit.recorded("H200"), labkit.LENET86[1]
    swept = h200.sweep()
    swept = swept[(swept["batch"] == 1000) & swept["unroll"].isna()]
    fastest = swept.groupby(["layer", "maps", "rows"])[["op_ms", "x_reference"]].min()
    here = fastest.loc[layer.name]
    many = here["op_ms"].loc[[6, 8]].unstack()
    assert many[[11, 14, 17, 20, 32]].min(axis=None) > many[[4, 6, 7, 8]].max(axis=None)
    flat = here.loc[[2, 4, 8]]["x_reference"].unstack()[[4, 6, 7, 8]]
    assert flat.shape == (3, 4)
    text = (ROOT / "notebooks" / "07_sizes.ipynb").read_text(encoding="utf-8")
    assert f"lie between {flat.min(axis=None):.2f} and {flat.max(axis=None):.2f}" in text
    # the rules of 07c on the layer of the page throw out its two fastest pairs
    assert {*here["op_ms"].nsmallest(2).index} == {(4, 4), (8, 4)} and -(-layer.Ho // 4) * 4 == 36
    assert 1.05 * layer.Ho < 36
    others = fastest.loc[labkit.LENET72[1].name]["op_ms"]
    near = others[others <= 1.1 * others.min()] / others.min()
    assert {*near.index} == {(8, 4), (4, 4), (4, 9), (2, 9), (8, 9)}
    assert round(100 * near[8, 9]) == 105 and "*Short code* (9, 8), 5 % from the fastest" in text


def test_what_limits_the_fastest_kernels_is_in_their_table():
    """And in words. Of the second layers, barriers are the longest wait."""
    h200, table = labkit.recorded("H200"), table_of("busy")
    assert table == versus_counters.to_markdown(h200)
    rows = re.findall(r"^\| (\w+ layer \d), \w+ \| (.*?) \|.*? \| ([\d.| ]*) \|$", table, re.M)
    numbers = {layer: [] for layer in ("1", "2")}
    for layer, label, cells in rows:
        numbers[layer[-1]].append([float(cell) for cell in cells.split("|")])
        counted = h200.versus_counters(layer)
        counted = counted[(counted["label"] == label) & (counted["kernel"] == "conv")].iloc[0]
        waits = counted[[name for name in counted.index if name.startswith("stalled_")]]
        assert layer[-1] == "1" or waits.astype(float).idxmax() == "stalled_barrier"
    memory, l2, l1, tensor, _ = zip(*numbers["1"], strict=True)
    text = words_of("busy")
    assert max(l1 + tensor) < min(l2)
    assert f"it is busy for {min(l2):.0f} to {max(l2):.0f} % of the time" in text
    assert f"moves {min(memory):.1f} to {max(memory):.1f} TB/s. A plain copy" in text
    copy = labkit.device("H200").measured["copy"] / 1e12
    assert f"moves {copy:.2f} TB/s on this card" in text
    second = numbers["2"]  # two rows in half precision, then two in float
    busiest = [max(units) for _, *units in second]
    assert busiest == [l1 for *_, l1, _, _ in second[:2]] + [tensor for *_, tensor, _ in second[2:]]
    assert busiest[0] == busiest[1]
    assert (
        f"the [L1 data pipe](glossary.md#data-pipe): it is busy for {busiest[0]:.0f} % of the time"
        in text
    )
    assert (
        f"cores: they are busy for {min(busiest[2:]):.0f} to {max(busiest[2:]):.0f} % of the time"
        in text
    )


def test_the_networks_table_is_what_was_recorded():
    assert table_of("network") == format_network(labkit.recorded("H200"))


def test_what_it_says_of_cudnn_and_of_the_steps_is_so():
    """Of the steps with products of four warps: the fastest in half on all layers, in float on those with channels."""
    rows = overview.list_rows(labkit.recorded("H200")).pivot(
        index="label", columns="layer", values="op_ms"
    )
    tuned, second = rows.loc["07 tuning"], rows.columns.str.endswith("2")
    assert (tuned < rows.loc["cuDNN FP32"]).all()
    assert ((rows.loc["cuDNN TF32"] < tuned) == second).all()
    for rung, layers in (
        ("10 speed of light", rows.columns),
        ("11 split floats", rows.columns[second]),
    ):
        assert (rows.loc[f"{rung}, warpgroups", layers] < rows.loc[rung, layers]).all()


@pytest.mark.parametrize("batch", [100, 1000, 10_000])
def test_rungs_10_and_11_are_ahead_of_every_mode_of_cudnn(batch):
    times = (
        labkit.recorded("H200")
        .op_ms(
            ["10 speed of light", "11 split floats", "cuDNN FP16", "cuDNN FP32", "cuDNN TF32"],
            [*labkit.LENET86, *labkit.LENET72],
            batch=batch,
        )
        .T
    )
    assert (times["10 speed of light"] < times["cuDNN FP16"]).all()
    assert (times["11 split floats"] < times[["cuDNN FP32", "cuDNN TF32"]].min(axis=1)).all()


@pytest.mark.parametrize("name", ["engine", "check"])
def test_the_engines_tables_have_their_place(name):
    assert page(name) == ROOT / "engine" / "docs" / "performance.md"
    assert len(table_of(name)) > 100


def test_the_engines_page_says_which_kernel_runs_in_which_mode():
    table = runpy.run_path(str(ROOT / "benchmarks" / "execution.py"))["table"]()
    assert table_of("modes") == table.strip()


def test_it_is_short_and_names_every_notebook():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(text.encode()) <= 9000
    for path in (ROOT / "notebooks").glob("*.ipynb"):
        assert text.count(f"notebooks/{path.name}") == 1
    for target in ("lab", "report", "test", "doctor", "site"):
        assert f"`make {target}`" in text


def anchors(path):
    """Return the anchors that GitHub gives a page's headings."""
    headings = re.findall(r"^#+ (.+)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize(
    "path", DOCUMENTS, ids=[path.relative_to(ROOT).as_posix() for path in DOCUMENTS]
)
def test_links_lead_to_files(path):
    text = path.read_text(encoding="utf-8")
    pictures = re.findall(r'<(?:img src|source [^>]*srcset)="([^"]+)"', text)
    assert len(pictures) == 2 * text.count("<picture>")  # one by day and one by night
    for link in pictures:
        assert (path.parent / link).is_file(), link
    for link, anchor in re.findall(
        r"\]\((?!https?://|#|\.\./\.\./actions/)([^)#]+)(?:#([^)]*))?\)", text
    ):
        assert (path.parent / link).exists(), link
        assert not anchor or link.endswith("py") or anchor in anchors(path.parent / link), (
            f"{link}#{anchor}"
        )


def test_the_example_runs_as_it_stands(tmp_path, monkeypatch, capsys):
    text = (ROOT / "docs" / "faq.md").read_text(encoding="utf-8")
    example = re.search(r"```python\n(import labkit as lab\n.*?)```", text, re.DOTALL)[1]
    (tmp_path / "my_kernel.cu").write_text(labkit.variant(1).source)
    monkeypatch.chdir(tmp_path)
    exec(compile(example, "faq.md", "exec"), {})
    output = capsys.readouterr().out
    assert "PASS 01 baseline, my_kernel.cu" in output
    assert output.count("lenet86 layer") == 4


def test_the_h100s_table_has_what_was_recorded():
    """It has op times and multiples of the reference time; sentences compare them with the H200's."""
    text = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    text = text.partition("## On an H100")[2].partition("\n## ")[0]
    h100, h200 = labkit.recorded("H100"), labkit.recorded("H200")
    layers, longer = [*labkit.LENET86, *labkit.LENET72], {}
    rows = [
        line.strip("| ").split(" | ") for line in text.splitlines() if line[:3] in ("| 0", "| 1")
    ]
    assert [row[0][:2] for row in rows] == ["07", "10", "10", "11", "11"]
    for label, *cells in rows:
        label = label.removesuffix(", FP16")
        for layer, cell in zip(layers, cells, strict=True):
            ms, over = (h100.value(name, label, layer) for name in ("op_ms", "x_reference"))
            assert cell == f"{ms:#.3g} ms · {over:.2f}×"
            longer[label, layer.name] = ms / h200.value("op_ms", label, layer)
    words = " ".join(text.split())
    assert overview.describe_references(h100.device) in words
    for label in {label for label, _ in longer}:  # what has changed since is not compared
        codes = [
            set(card.table.loc[card.table["label"] == label, "code"].replace("", None).dropna())
            for card in (h100, h200)
        ]
        if codes[0] != codes[1]:
            longer = {place: ratio for place, ratio in longer.items() if place[0] != label}
    assert {label for label, _ in longer} == {"07 tuning", "10 speed of light"}
    first = [
        longer.pop(("10 speed of light", f"{name} layer 1")) for name in ("lenet86", "lenet72")
    ]
    percent = [f"{100 * ratio - 100:.0f} %" for ratio in first]
    assert "{} (lenet86) and {} (lenet72) longer".format(*percent) in words
    assert "less than 7 %" in words and all(abs(ratio - 1) < 0.07 for ratio in longer.values())


def test_the_fastest_kernels_are_near_the_reference_time():
    h200 = labkit.recorded("H200").table
    h200 = h200[(h200["batch"] == 10_000) & h200["x_reference"].notna()]
    ratios = [
        h200[(h200["layer"] == layer.name) & h200["label"].str.match(kernel)]["x_reference"].min()
        for layer in [*labkit.LENET86, *labkit.LENET72]
        for kernel in ("10 ", "11 ")
    ]
    told = f"the fastest kernels take {min(ratios):.1f} to {max(ratios):.1f} times their"
    assert told in words_of("versus")


def test_what_is_said_of_one_algorithm_in_two_tools_is_what_was_recorded():
    words, experiment = words_of("versus"), labkit.recorded("H200").experiment("squares")
    times = experiment.set_index("kernel")["ms"].drop("10 speed of light, again")
    assert f"| {' | '.join(f'{format_digits(ms)} ms' for ms in times)} |" in words
    rung, plain, squares, _ = times
    assert f"implicit matrix product takes {plain / rung:.2f} times as long as kernel 10" in words
    assert (
        f"kernel for squares is {plain / squares:.2f} times as fast as its implicit matrix product. But it still takes "
        f"{squares / rung:.2f} times as long as kernel 10."
    ) in words


def test_what_a_sceptical_reader_is_told_is_what_was_recorded():
    words, h200, many = words_of("versus"), labkit.recorded("H200"), 10_000
    both = [
        pd.read_csv(data_dir() / "versus" / f"nvidia-{name}.csv")
        for name in ("h200", "h100-80gb-hbm3")
    ]
    best, other = (
        table.pivot_table("median_ms", "label", ["network", "layer", "batch"], aggfunc="min")
        for table in both
    )
    second = other["lenet86", 2, many]
    tiles, others = (
        format_digits(second["Triton FP16"]),
        [format_digits(second[f"{name} FP16"]) for name in ("cuTile", "cuDNN")],
    )
    ours = second[second.index.str.match("10 [^,]*(, warpgroups)?$")].min()
    milliseconds = " | ".join(f"{ms} ms" for ms in (tiles, *others, format_digits(ours)))
    assert (
        f"| Triton | cuTile | cuDNN | kernel 10 | |---:|---:|---:|---:| | {milliseconds} |" in words
    )
    searched, tried = (table["how"].astype(str).str.contains("searched") for table in both)
    assert set(both[0]["label"][searched].str.split().str[0]) == {"Triton", "CUTLASS"}
    assert not tried.any() and "On the H100, only three tile sizes of Triton were tried" in words
    libraries = both[0][both[0]["batch"] == many]
    assert set(libraries[libraries["label"].str.startswith("torch")]["layout"]) == {"NHWC"}
    tf32 = libraries[libraries["label"] == "cuDNN TF32"].pivot_table(
        "median_ms", ["network", "layer"], "layout"
    )
    assert [*tf32[tf32["NHWC"] > tf32["NCHW"]].index] == [("lenet86", 1)]
    assert "On layer 1 of lenet86 in TF32, cuDNN is slower with NHWC than with NCHW" in words
    assert {*other.columns} == {("lenet86", 2, many)}
    assert "only on layer 2 of lenet86 with 10,000 images" in words
    network = h200.network(None).set_index(["batch", "where", "pixels", "dtype", "label"])
    alone, whole = [], []  # cells in half precision, then in TF32
    for mode, dtype in (("FP16", "float16"), (" TF32", "float32")):
        libraries = best[best.index.str.match(rf"(cuDNN|Triton|CUTLASS|torch)[^×]*{mode}$")]
        layers = sum(libraries["lenet86", number, many].min() for number in (1, 2))
        passes = network["ms"].sort_index()[many, "device", "float32", dtype]
        ours, theirs = (
            passes[passes.index.str.startswith(name)].min()
            for name in ("fused, warpgroups", "PyTorch")
        )
        alone.append(f"{layers / ours:.1f}× ({format_digits(layers)} ms)")
        whole.append(f"{theirs / ours:.1f}×")
    for row, cells in (("each with its fastest library", alone), ("the whole network", whole)):
        assert f", {row} | {' | '.join(cells)} |" in words
    clock = labkit.recorded("H100").experiment("clock").groupby("kernel", sort=False)
    (_, plain), (_, tensor) = clock
    late = tensor[tensor["x"] > 200]["rate"]
    faq = " ".join((ROOT / "docs" / "faq.md").read_text(encoding="utf-8").split())
    for text in (words, faq):
        assert f"from {tensor['rate'].iloc[0]:,.0f} to {late.median():,.0f} MHz" in text
    assert abs(plain["rate"].max() / plain["rate"].min() - 1) < 0.01
    layers = [*labkit.LENET86, *labkit.LENET72]
    fill = {
        images: [layer.bytes(images) / labkit.device("H200").l2_bytes for layer in layers]
        for images in (100, 1000, many)
    }
    assert max(fill[100]) < 1
    assert f"| 10,000 | {min(fill[many]):.0f} to {max(fill[many]):.0f} |" in words
    assert f"| 1,000 | {min(fill[1000]):.1f} to {max(fill[1000]):.1f} |" in words
    assert "1,000 images fit into the L2 cache on layer 2, but not on layer 1" in words
    assert [filled / 2 < 1 for filled in fill[1000]] == [layer.C > 1 for layer in layers]  # in half
    worst = network.groupby(["label", "dtype"])["error"].max()
    errors = [worst[label] for label in (
        ("PyTorch fp32", "float32"), ("fused", "float32"), ("fused, warpgroups", "float32"),
        ("PyTorch tf32, streams", "float32"), ("fused, warpgroups", "float16"), ("PyTorch fp16", "float16"),
    )]  # fmt: skip
    for label, error in zip(
        (
            "PyTorch, FP32",
            "ours, float",
            "ours, float, step *warpgroups*",
            "PyTorch, TF32",
            "ours, half, step *warpgroups*",
            "PyTorch, FP16",
        ),
        errors,
        strict=True,
    ):
        assert f"| {label} | {error:.1e} |".replace("e-0", "e-") in words
    common = ["07 tuning", "10 speed of light", "11 split floats"]
    common += ["cuDNN FP32", "cuDNN TF32", "cuDNN FP16"]
    steps = ["10 speed of light, warpgroups", "11 split floats, warpgroups"]
    apart = {
        images: max(
            abs(at[layer.network, int(layer.name[-1])] / h200.op_ms(label, layer, images) - 1)
            for label in (common + steps if images == many else common)
            for at in [best.xs(images, axis=1, level="batch").loc[label]]
            for layer in layers
        )
        for images in (100, 1000, many)
    }
    most = {images: f"{100 * ratio:.0f} %" for images, ratio in apart.items()}
    assert (
        f"once for the ladder and once for the comparison with libraries | {most[100]} | {most[1000]} | {most[many]} |"
        in words
    )
    told = f"differed by up to {most[many]} with 10,000 images, and by up to {most[100]} with 100 images"
    assert told in faq
    floats = best[~best.index.str.match("10 |.*FP16|.*, again")]
    ahead = []
    for layer in layers[::2]:
        (first, first_ms), (label, ms) = floats[layer.network, 1, 100].nsmallest(2).items()
        assert first == "07 tuning" and label.startswith("11 ")
        ahead.append(f"{100 * (ms / first_ms - 1):.0f} %")
    # more than the same kernel in two runs
    assert int(ahead[0].split()[0]) > int(most[100].split()[0])
    assert (
        f"On layer 1 of lenet72, kernel 11 takes only {ahead[1]} longer than kernel 07, which may be noise. "
        f"On layer 1 of lenet86, kernel 11 takes {ahead[0]} longer, which is no noise"
    ) in words


def test_the_noise_is_what_was_recorded():
    """A difference that the same code has, too, is none."""
    words = words_of("versus")
    h100, h200 = labkit.recorded("H100"), labkit.recorded("H200")
    own = h100.table.dropna(subset="op_again_ms")
    spread = (
        own[["op_ms", "op_again_ms"]].max(axis=1) / own[["op_ms", "op_again_ms"]].min(axis=1) - 1
    )
    percent = {
        batch: f"{100 * value:.1f}" for batch, value in spread.groupby(own["batch"]).max().items()
    }
    assert own.groupby(["layer", "batch"]).size().eq(11).all() and len(own) == 4 * 3 * 11
    batches = f"{percent[100]} % | {percent[1000]} % | {percent[10_000]} % |"
    assert f"| on the H100, in one run | {batches}" in words
    own = h200.table.dropna(subset="op_again_ms")
    assert set(own["rung"]) == {10, 11}
    most = {batch: f"{100 * h200.noise(batch):.1f}" for batch in (100, 1000, 10_000)}
    batches = f"{most[100]} % | {most[1000]} % | {most[10_000]} % |"
    assert f"| on the H200, in one run: kernels 10 and 11 | {batches}" in words
