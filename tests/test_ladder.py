"""The ladder as data: its rungs and files, variants, limits, and what a page shows of the sources.

Needs no engine.
"""

import pickle
import re
from contextlib import suppress
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from kernels import KERNELS, SOLUTIONS

from hostcuda.limits import MAX_GRID, MAX_THREADS
from labkit import LENET86, LabError, Layer, diff, show, solution, variant
from labkit.base.paths import PACKAGE, cuda_src
from labkit.ladder.rungs import LADDER, PAGES, rung
from labkit.ladder.variants import solutions, variants
from labkit.page.listing import without_contract

pytestmark = pytest.mark.core("what every page compiles")

NAMES = [rung.name for rung in LADDER]


# ---------------------------------------------------------------------------------------- the files


def test_a_rung_has_the_number_of_its_page_and_every_kernel_file_is_of_the_ladder():
    for each in LADDER:
        assert (PACKAGE.parent / "notebooks" / f"{each.file.stem}.ipynb").is_file()
    numbers = [*(rung.number for rung in LADDER), *PAGES.values()]
    assert len({*numbers}) == len(numbers)
    folder = rung(1).file.parent
    networks = {folder / "00_network.cu", folder / "13_network.cu", *folder.glob("steps/network/*")}
    files = {*folder.glob("[0-9][0-9]_*.cu"), *folder.glob("steps/*/*")} - networks
    assert files == {kernel.path for kernel in KERNELS}


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_file_opens_with_its_contract(kernel):
    lines = kernel.source.split("\n")
    opening = f"// {kernel.rung.number:02d} "
    assert lines[0].startswith(opening)
    assert kernel.step is None or kernel.step.replace("_", " ") in lines[0]
    skipped, code = without_contract(kernel.source)
    contract = "\n".join(lines[:skipped])
    for part in ("Idea ", "Delta ", "Shapes ", "Launch ", "Requires "):
        assert contract.count(f"\n// {part}") == 1, part
    assert code[0].strip()
    assert not code[0].startswith("//")
    assert max(map(len, lines)) <= 110


@pytest.mark.parametrize("solved", SOLUTIONS, ids=str)
def test_solution_opens_with_its_exercise(solved):
    lines = solved.source.split("\n")
    assert lines[0].startswith(f"// {solved.rung.number:02d}{solved.path.stem[0]} ")
    assert max(map(len, lines)) <= 110


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_signature_is_frozen(kernel):
    """Every kernel takes three pointers and B, C, H, W, M, K in this order; compile-time constants have no name."""
    signatures = re.findall(
        r"__global__\s+(?:__launch_bounds__\([^)]*\)\s*)?void (\w+)\(([^)]*)\)", kernel.source
    )
    assert [name for name, _ in signatures] == [call.kernel for call in kernel.calls]
    for (_, parameters), call in zip(signatures, kernel.calls, strict=True):
        types = r"\b(const|float|half|int|uint4|__restrict__)\b|[*\s]"
        words = [re.sub(types, "", parameter) for parameter in parameters.split(",")]
        assert words[:3] == list(call.buffers)
        assert "".join(words[3:]) in ("BCHWMK", "BCHWM", "BCM", "B", "")


@pytest.mark.parametrize("name", NAMES)
def test_defines_are_those_the_source_uses(name):
    """A macro that nobody defines, or a definition that nobody uses, is a mistake in the table."""
    used = set(re.findall(r"\b[A-Z][A-Z_]+\b", "\n".join(without_contract(rung(name).source)[1])))
    assert set(variant(name).defines(LENET86[0])) <= used


def test_solution_is_found_by_its_exercise():
    for solved in SOLUTIONS:
        assert solution(solved.rung.name, solved.path.stem[0]) == solved
    assert solution("04a") == solution("tiling", "a")
    with pytest.raises(LabError, match=r"there is no exercise 'tiling'; there are .*04a"):
        solution("tiling")
    assert solution(4, "b").step == "weights"  # the step that it goes on from
    assert [kernel.path.stem for kernel in solutions("tiling")] == ["a_no_conflicts", "b_together"]
    with pytest.raises(
        LabError, match="no solution of exercise 'z' of 04 tiling; there are solutions of a, b"
    ):
        solution("tiling", "z")


def test_variants_of_a_page_are_the_rung_its_steps_and_what_it_compares():
    assert [kernel.label for kernel in variants(1)] == [
        "01 baseline",
        "01 baseline, block=32x8",
        "01 baseline, block=256x1",
        "01 baseline, block=1x256",
    ]
    for own in LADDER:
        assert [kernel.step for kernel in variants(own.number)][1 : 1 + len(own.steps)] == list(
            own.steps
        )


# ---------------------------------------------------------------------------------------- the diffs
# What diffs and listings look like is on the pages, whose outputs nbval compares; here is what no
# page has.
@pytest.mark.parametrize("goal", LADDER, ids=lambda goal: goal.name)
def test_diffs_on_the_path_to_a_rung_stay_readable(goal):
    """Each diff shows one idea.

    A rung without a base begins with a new program: its page shows that kernel.
    """
    path = [variant(goal.name, step=step) for step in goal.path] + [variant(goal.name)]
    if goal.base:
        path.insert(0, variant(goal.base))
    for a, b in pairwise(path):
        # The last one of 11 gathers a block's maps, and lets bulk copies move them.
        most = 40 if b.label == "11 split floats" else 25
        assert 0 < diff(a, b).changed_lines <= most, b


def test_diff_ignores_indentation():
    a, b = "int i;\nint j;  // two\n", "{\n    int i;\n    int j; // two\n}\n"
    changes = diff(variant(1, a + OWN.format(name="conv")), variant(1, b + OWN.format(name="conv")))
    assert [row.text for row in changes.hunks[0] if row.kind != " "] == ["{", "}"]


def test_a_part_of_a_diff_has_the_whole_below_it():
    whole = diff(variant(7, step="masks"), variant(7))
    part = whole.only("const int n =")
    assert len(part.hunks) < len(whole.hunks) and part.changed_lines == whole.changed_lines
    assert whole._repr_html_() in part._repr_html_() and repr(part) in repr(whole)
    with pytest.raises(LabError, match="occurs in none of them"):
        whole.only("const int unknown =")


def test_diff_counts_a_replaced_line_once_and_none_where_nothing_changed():
    own = variant(1, rung(1).source.replace("y[h * Wo + w] = 0;", "y[h * Wo + w] = 0.0f;"))
    assert diff(1, own).changed_lines == 1
    assert re.search(r"\b1 changed line\b", repr(diff(1, own)))
    assert (diff(3, 3).changed_lines, diff(3, 3).hunks) == (0, [])


def test_diff_in_a_notebook_colours_the_source():
    own = variant(
        1, rung(1).source.replace("y[h * Wo + w] = 0;", "/* two\nlines */ y[h * Wo + w] = 0;")
    )
    page = diff(1, own)._repr_html_().partition("</style>")[2]
    # a comment of several lines is one in each
    assert '</b>+     <span class="cm">/* two</span></span>' in page
    assert (
        '<mark><span class="cm">lines */</span> </mark>y[h * Wo + w] = <span class="mi">0</span>;</span>'
        in page
    )
    text = re.sub(r"<[^>]*>", "", page)
    assert "+     /* two" in text and "lines */ y[h * Wo + w] = 0;" in text


def test_what_does_not_compile_can_be_shown():
    assert repr(show(variant(1, rung(1).source.replace("= 0;", "= 0")))).endswith("}")


# ---------------------------------------------------------------------------------- rungs, variants
@pytest.mark.parametrize(
    ("number", "options", "message"),
    [
        *(
            (number, {}, r"no rung .*01 baseline, .*09 tensor cores")
            for number in (0, 99, -1, "1", None, 1.5, True)
        ),
        *((number, {}, r"labkit\.Pipeline") for number in (12, "streams")),  # they have no kernel
        (4, {"block": (16, 16)}, r"04 tiling has no option 'block'; it has tile=16"),
        (1, {"block": 16}, "pair of positive integers"),
        (1, {"block": (16, 0)}, "pair of positive integers"),
        (1, {"block": (16, 16, 1)}, "pair of positive integers"),
        (1, {"block": (64, 32)}, "2048 threads; a block has at most 1024"),
        (4, {"tile": 33}, r"33x33 = 1089 threads; a block has at most 1024: take tile <= 32"),
        (4, {"tile": 0}, "positive integer"),
        (4, {"tile": 16.0}, "positive integer"),
        (4, {"tile": True}, "positive integer"),
        (5, {"block": 2000}, "1 to 1024"),
        (9, {"warps": 33}, "1 to 32"),
        (9, {"wmma": (16, 8, 16)}, r"\(8, 32, 16\)"),
        (3, {"step": "summed"}, "03 registers has the steps sum, restrict"),
        (3, {"step": ["sum"]}, "03 registers has the steps sum, restrict"),
    ],
)
def test_what_is_no_variant_is_refused(number, options, message):
    with pytest.raises(LabError, match=message):
        variant(number, **options)


@pytest.mark.parametrize(
    ("number", "step", "options", "layer"),
    [
        (7, None, {"rows": 9}, Layer("low", C=1, H=6, W=8, M=2, K=3)),  # more rows than a map has
        (10, "square", {"pairs": 4}, LENET86[1]),
        (10, "warpgroups", {"warps": 8}, LENET86[1]),
        (11, "warpgroups", {"tall": 3}, LENET86[1]),
    ],
)
def test_an_option_that_would_be_ignored_is_refused(number, step, options, layer):
    ((name, value),) = options.items()
    with pytest.raises(LabError, match=rf"{name} is \d+ for .*; leave {name}={value} out"):
        variant(number, step=step, **options).launches(layer)
    variant(number, **options).launches(LENET86[1])


def test_identity_is_source_and_options():
    assert variant(4) == variant(4, tile=16)
    assert variant(4).identity != variant(4, tile=8).identity
    assert variant(1).identity != variant(2).identity
    assert variant(1, source=rung(1).source + "\n").identity != variant(1).identity
    assert len({variant(4), variant(4), variant(4, tile=8)}) == 2


def test_headers_of_ones_own_are_part_of_the_identity(tmp_path):
    """So are headers that a header includes, from beside itself or from beside the kernel."""
    names = ["op.h", "more/deep.h", "more/deeper.h", "flat.h"]
    texts = [
        '#pragma once\n#include "op.h"\n#include "more/deep.h"',
        '#include "deeper.h"',
        " # include <flat.h>",
        "",
    ]
    (tmp_path / "more").mkdir()
    for name, text in zip(names, texts, strict=True):
        (tmp_path / name).write_text(text)
    path = tmp_path / "mine.cu"
    path.write_text('#include "op.h"\n#include <cuda_fp16.h>\n' + rung(1).source)
    mine, identities = variant(1, path), set()
    kernels = {mine}
    for name in names:
        identities.add(mine.identity)
        (tmp_path / name).write_text((tmp_path / name).read_text() + "\n// changed")
    assert len({*identities, mine.identity}) == 5
    assert variant(1, path) == mine and mine in kernels
    assert variant(1, path.read_text()) != mine


def test_a_kernels_text_finds_the_labs_headers():
    """They are part of its identity, and nvcc and the engine look for them where the lab has them."""
    rungs, own = variant(10), variant(10, source=rung(10).source)
    shared = (cuda_src() / "tensor.cuh").read_text()
    assert rungs.headers == own.headers == [shared] and own.code == rungs.code
    assert variant(1, source=rung(1).source).headers == []
    assert own.compiler_arguments({})["include_dirs"] == [str(cuda_src())]
    step = variant(10, step="square")
    assert step.headers == [shared]
    assert step.compiler_arguments({})["include_dirs"] == [str(step.path.parent), str(cuda_src())]


def test_options_cannot_be_changed_afterwards():
    with pytest.raises(TypeError):
        variant(4).options["tile"] = 8


def test_variants_travel_to_other_processes(tmp_path):
    path = tmp_path / "mine.cu"
    path.write_text(rung(1).source)
    for original in (variant(9, warps=2), variant(1, path), variant(1, rung(1).source)):
        copy = pickle.loads(pickle.dumps(original))
        assert copy == original
        assert (copy.label, copy.path, copy.own) == (original.label, original.path, original.own)


# --------------------------------------------------------------------------------------- the limits
MASK, SHARED = (
    r"65,536 bytes; the mask of .* has 66,560",
    "bytes of shared memory .* limit is 49,152",
)
INTEGERS = r"32-bit integers, up to 2,147,483,647; the input of .* 2,147,488,281 elements"


@pytest.mark.parametrize(
    ("number", "options", "within", "beyond", "message"),
    [
        *((number, {}, (64, 9, 9, 64, 2), (65, 9, 9, 64, 2), MASK) for number in (2, 3, 4)),
        *(
            (7, {"step": step}, (64, 9, 9, 64, 2), (65, 9, 9, 64, 2), MASK)
            for step in ("rows", "maps", "constant")
        ),
        (
            4,
            {"tile": 32},
            (1, 100, 100, 1, 79),
            (1, 100, 100, 1, 80),
            f"49,284 {SHARED}: take a smaller tile",
        ),
        (
            9,
            {"warps": 32},
            None,
            (1, 86, 86, 4, 7),
            f"51,744 {SHARED}: take a smaller wmma or warps$",
        ),
        (
            9,
            {},
            None,
            (1, 100, 100, 1, 80),
            f"{SHARED}: take a rung that needs less, such as 1$",
        ),  # no option would help
        (
            1,
            {},
            (1, 3, 3, 65535, 3),
            (1, 3, 3, 65536, 3),
            "65,536 blocks in y; the limit of a grid is 65,535",
        ),
        (1, {}, (65, 9, 9, 64, 2), (1, 46341, 46341, 1, 3), INTEGERS),
        (5, {}, None, (1, 8000, 8000, 1, 7), "the unrolled of"),
        (6, {}, (1, 8000, 8000, 1, 7), (1, 46341, 46341, 1, 3), INTEGERS),
        (7, {"step": "masks"}, (65, 9, 9, 64, 2), (1, 46341, 46341, 1, 3), INTEGERS),
    ],
)
def test_a_layer_beyond_a_limit_is_refused(number, options, within, beyond, message):
    chosen = variant(number, **options)
    if within:
        chosen.supports(Layer("within", *within))
    with pytest.raises(LabError, match=message):
        chosen.supports(Layer("beyond", *beyond))


def test_a_launch_for_no_image():
    with pytest.raises(LabError, match="a batch of 0"):
        variant(3).launches(LENET86[0], 0)


layers = st.builds(
    lambda C, extra_h, extra_w, M, K: Layer("drawn", C, K + extra_h, K + extra_w, M, K),
    st.integers(1, 20),
    st.integers(0, 90),
    st.integers(0, 90),
    st.integers(1, 16),
    st.integers(1, 7),
)  # the mask fits into constant memory


# their blocks walk over the images, their warps over maps
WALKING = ("speed_of_light", "split_floats")


def fits(chosen, layer):
    """Return whether an image fits into shared memory."""
    with suppress(LabError):
        return chosen.supports(layer) is None
    return False


@settings(max_examples=60, deadline=None)
@given(layer=layers, images=st.integers(1, MAX_GRID[2]), name=st.sampled_from(NAMES))
def test_grids_cover_every_output_within_the_limits(layer, images, name):
    chosen = variant(name)
    assume(name not in WALKING or fits(chosen, layer))
    last, outputs = chosen.launches(layer, images)[-1], images * layer.M * layer.Ho * layer.Wo
    s = chosen.scope(layer)
    outputs_per_thread = {"fp16": 2, **dict.fromkeys(WALKING, outputs)}
    if name == "tensor_cores":
        outputs_per_thread[name] = s.wmma[0] * s.wmma[1] / 32 * s.turns
    if name == "tuning":
        outputs_per_thread[name] = s.rows * s.maps
    assert last.threads * outputs_per_thread.get(name, 1) >= outputs
    for launch in chosen.launches(layer, images):
        assert np.prod(launch.block) <= MAX_THREADS
        assert all(0 < size <= limit for size, limit in zip(launch.grid, MAX_GRID, strict=True))
        assert launch.grid[2] == images or name in WALKING


# -------------------------------------------------------------------------------- a reader's source
OWN = """extern "C" __global__ void {name}(const float *x, const float *k, float *y,
                                 int B, int C, int H, int W, int M, int K) {{}}"""


@pytest.mark.parametrize(
    "source",
    [
        OWN.format(name="mine"),
        "// __global__ void old()\n/* __global__ void older() */\n" + OWN.format(name="mine"),
        OWN.format(name="__launch_bounds__(256, 2) mine"),
    ],
)
def test_own_kernel_may_have_any_name(source):
    assert variant(1, source).kernels == ("mine",)


@pytest.mark.parametrize(
    ("number", "source", "message"),
    [
        (
            1,
            "int nothing() { return 0; }",
            "has to define conv; it defines no __global__ void function",
        ),
        (5, rung(6).source, "has to define im2col and gemm; it defines conv"),
        (
            1,
            OWN.format(name="one") + "\n" + OWN.format(name="two"),
            "has to define conv; it defines one, two",
        ),
        (
            10,
            "__device__ inline void multiply() {}",
            "%%kernel 10 --part --name mine takes some functions",
        ),
    ],
)
def test_own_source_without_the_kernels(number, source, message):
    with pytest.raises(LabError, match=message):
        variant(number, source)


def test_own_source_from_a_file(tmp_path):
    path = tmp_path / "mine.cu"
    path.write_text(OWN.format(name="conv"))
    chosen = variant(1, path)
    assert chosen == variant(1, str(path)) == variant(1, OWN.format(name="conv"))
    assert chosen.label == "01 baseline, mine.cu"


def test_own_source_says_whether_the_mask_is_constant():
    assert (
        variant(1, "__constant__ float weights[100];\n" + OWN.format(name="conv")).constant
        == "weights"
    )
    assert variant(2, OWN.format(name="conv")).constant is None
    assert variant(2).constant == "mask"
    both = "__constant__ float mask[64];\n__constant__ float other[4];\n" + OWN.format(name="conv")
    assert variant(2, both).constant == "mask"
