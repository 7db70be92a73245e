"""Every rung against the float64 reference, on the engine at hand: options, tails, chunks, and a reader's mistakes."""

import dataclasses
import os
import random
import re
import threading
from types import SimpleNamespace

import numpy as np
import pytest
from kernels import KERNELS, SOLUTIONS

import hostcuda
import labkit
from labkit import LENET72, LENET86, LabError, Layer, check, variant
from labkit.exercises.exercise import exercise
from labkit.ladder import plan as plans
from labkit.ladder import variants
from labkit.ladder.buffers import images_with_nan
from labkit.ladder.rungs import LADDER, rung
from labkit.measure.check import TEST_SHAPES, is_verified
from labkit.spec.devices import assume, device
from labkit.spec.layers import LENET28

pytestmark = pytest.mark.thorough("every kernel on every shape: minutes")

# a tail for every tile; compiled for K = 7, as the presets are
ODD = (Layer("odd", 3, 21, 44, 19, 7), 2)
every_kernel = pytest.mark.parametrize("chosen", KERNELS, ids=str)
# Of the steps between two rungs a third is drawn for the layers of the networks, beside all rungs.
STEPS = [kernel for kernel in KERNELS if kernel.step]
DRAWN = random.Random("presets").sample(STEPS, len(STEPS) // 3)
OTHERS = pytest.mark.exhaustive("the other steps")


def draw(layer, batch, seed=3):
    """Return random x and k in float32."""
    rng = np.random.default_rng(seed)
    return rng.random(layer.x_shape(batch), np.float32), rng.random(layer.k_shape, np.float32)


@every_kernel
def test_kernel_on_the_test_shapes(chosen, capsys):
    report = check(chosen)
    deep = ["long sums"] if chosen.step == "whole" else []  # its tiles have the whole depth
    assert [refused.partition(":")[0] for refused in report.refused] == deep
    assert capsys.readouterr().out.startswith(f"PASS {chosen.label}")


@pytest.mark.parametrize(
    "chosen",
    [
        pytest.param(kernel, marks=OTHERS if kernel.step and kernel not in DRAWN else ())
        for kernel in KERNELS
    ],
    ids=str,
)
def test_kernel_on_the_presets(chosen):
    check(chosen, [(layer, 1) for layer in (*LENET86, *LENET72, *LENET28)])


@pytest.mark.parametrize("solved", SOLUTIONS, ids=str)
def test_solution(solved):
    """A kernel that solves an exercise is right, with the options for which it is recorded."""
    letter = solved.path.stem[0]
    asked = exercise(f"{solved.rung.number:02d}{letter}").subject.options
    check(
        variants.solution(
            solved.rung.name, letter, **{**asked, **solved.rung.solved.get(letter, {})}
        )
    )


@pytest.mark.parametrize(
    ("number", "options"),
    [
        (1, {"block": (32, 8)}),
        (2, {"block": (7, 5)}),
        (2, {"step": "divergent", "block": (3, 50)}),
        (2, {"step": "divergent_global", "block": (32, 2)}),
        (3, {"block": (1, 64)}),
        (4, {"tile": 4}),  # K = 7 is wider than the tile
        (4, {"tile": 8}),
        (4, {"tile": 27}),
        (4, {"tile": 32}),
        (4, {"step": "weights", "maps": 1}),
        (4, {"step": "maps", "maps": 3}),
        (5, {"tile": 8, "block": 96}),
        (5, {"images": 1}),
        (6, {"tile": 32}),
        (7, {"rows": 3, "maps": 2, "block": (50, 3), "channels": 2}),
        (8, {"tile": 5}),
        (8, {"step": "convert", "tile": 5}),
        (9, {"wmma": (8, 32, 16)}),
        (9, {"wmma": (32, 8, 16), "warps": 1}),
        (9, {"step": "row", "wmma": (8, 32, 16)}),
        (9, {"step": "convert", "wmma": (32, 8, 16)}),
    ],
)
def test_options(number, options):
    check(variant(number, **options), [ODD])


# -------------------------------------------------------------------------------------------- plans
@pytest.mark.parametrize("name", [rung.name for rung in LADDER])
def test_a_batch_beyond_the_grid_is_computed_in_chunks(name, monkeypatch):
    monkeypatch.setattr(plans, "MAX_GRID", (2**31 - 1, 65535, 3))
    layer = Layer("small", 2, 9, 11, 3, 7)
    with variant(name).plan(layer, 8) as plan:
        assert plan.images == 3
        calls = len(variant(name).calls)
        axis = 0 if name in ("speed_of_light", "split_floats") else 2  # of its images
        assert [launch.grid[axis] for launch in plan.launches[calls - 1 :: calls]] == [3, 3, 2]
    check(variant(name), [(layer, 8)])


def test_scratch_is_bounded_and_shared_by_the_chunks(monkeypatch):
    layer = LENET86[1]
    an_image = 4 * layer.terms * layer.Ho * layer.Wo
    with variant(5).plan(layer, 4) as plan:
        assert plan.images == 4
        assert plan.scratch_bytes == 4 * an_image
    monkeypatch.setattr(plans, "MAX_SCRATCH_BYTES", 3 * an_image)
    with variant(5).plan(layer, 4) as plan:
        assert plan.images == 2  # chunks of nearly equal size
        assert plan.scratch_bytes == 2 * an_image
        assert len(plan.launches) == 4
    check(variant(5), [(layer, 4)])
    # not even one image: one at a time, nevertheless
    monkeypatch.setattr(plans, "MAX_SCRATCH_BYTES", 1)
    check(variant(5), [(layer, 2)])


def test_a_variant_may_limit_the_images_per_launch():
    with variant(5, images=2).plan(LENET86[1], 5) as plan:
        assert [launch.grid[2] for launch in plan.launches] == [2, 2, 2, 2, 1, 1]
        assert plan.scratch_bytes == 2 * 4 * LENET86[1].terms * LENET86[1].Ho * LENET86[1].Wo


@pytest.mark.parametrize("chosen", [variant(2), variant(4), variant(8, step="convert")], ids=str)
def test_plans_that_share_a_constant_mask_do_not_mix_their_masks_up(chosen):
    """A __constant__ array belongs to the module.

    The last one's is of half, though x, k and y are float.
    """
    layers = [Layer("first", 1, 9, 11, 2, 7), Layer("second", 3, 8, 10, 4, 7)]
    with chosen.plan(layers[0], 1) as one, chosen.plan(layers[1], 1) as two:
        for plan, value in ((one, 1.5), (two, 2)):
            plan.load(np.ones(plan.layer.x_shape(1)), np.full(plan.layer.k_shape, value))
        for _ in range(2):
            for plan, expected in ((one, 49 * 1.5), (two, 3 * 49 * 2)):
                plan.run()
                assert (plan.result() == expected).all()
        one.load(k=np.full(layers[0].k_shape, 5))
        one.run()
        assert (one.result() == 5 * 49).all()


@pytest.mark.skipif(hostcuda.engine() == "gpu", reason="PyCUDA's context belongs to one thread")
def test_another_thread_loads_its_mask_after_the_launch():
    """It does not load between the mask's copy and the launch of a plan of the same module."""
    layer = Layer("two threads", 1, 9, 9, 2, 3)
    x, k = draw(layer, 1)
    masks = k, -k
    with variant(2).plan(layer, 1) as mine, variant(2).plan(layer, 1) as other:
        loading = threading.Thread(target=other.load, args=(x, masks[1]))

        def meanwhile():
            """Let the other thread load, once; it waits if it has to."""
            if loading.ident is None:
                loading.start()
                loading.join(0.3)

        mine.load(x, masks[0])
        mine.run(mark=meanwhile)
        loading.join()
        other.run()
        for plan, mask in zip((mine, other), masks, strict=True):
            np.testing.assert_allclose(plan.result(), labkit.conv_float64(x, mask), rtol=1e-4)


def test_a_plan_that_does_not_fit_keeps_nothing(monkeypatch):
    freed, sizes = [], []

    def mem_alloc(size):
        """Allocate nothing, and note the size; the third time memory is full."""
        sizes.append(size)
        if len(sizes) == 3:
            raise hostcuda.driver.MemoryError("cuMemAlloc failed: out of memory")
        return SimpleNamespace(free=lambda: freed.append(size))

    monkeypatch.setattr(hostcuda.driver, "mem_alloc", mem_alloc)
    with pytest.raises(hostcuda.driver.MemoryError):
        variant(1).plan(LENET86[0], 2)
    assert sorted(freed) == sorted(sizes[:2])


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_images_with_nan_are_found_on_the_device(dtype):
    y = np.random.default_rng(0).normal(size=(7, 3, 5, 11)).astype(dtype)
    y[0, 0, 0, 0], y[1, 2, 4, 10] = np.inf, -np.inf  # no NaN
    for image, value in ((2, np.nan), (6, -np.nan)):
        y[image, image % 3, 1, image] = value
    on_device = hostcuda.driver.to_device(y)
    assert images_with_nan(on_device, y.shape, dtype).tolist() == [2, 6]
    on_device.free()


@pytest.mark.parametrize("batch", [0, -1, 2.5, "10", True])
def test_a_batch_that_is_none(batch):
    with pytest.raises(LabError, match="the number of images has to be a positive integer"):
        variant(1).plan(LENET86[0], batch)


def test_a_kernel_that_is_not_called_as_the_ladders_are():
    source = rung(1).source
    with pytest.raises(
        LabError, match="own source: there is no kernel 'conv' as C names it: write extern"
    ):
        variant(1, source.replace('extern "C"', "")).plan(LENET86[0], 1)
    if labkit.device().engine == "cpu":  # of a GPU's module PyCUDA cannot know the arguments
        with pytest.raises(
            LabError, match="9 types for 10 parameters; a kernel of the ladder has nine: pointers x"
        ):
            variant(1, source.replace("int K)", "int K, int stride)")).plan(LENET86[0], 1)


def test_inputs_of_the_wrong_shape():
    layer = LENET86[0]
    with variant(1).plan(layer, 2) as plan:
        with pytest.raises(
            LabError, match=r"x has the shape \(1, 1, 86, 86\); .* batch 2, needs \(2, 1, 86, 86\)"
        ):
            plan.load(np.zeros(layer.x_shape(1)))
        with pytest.raises(LabError, match=r"k has the shape \(7, 7\)"):
            plan.load(k=np.zeros((7, 7)))


@pytest.mark.parametrize("number", [10, 11])
def test_the_step_warpgroups_is_right_with_wgmma_on_the_cpu_engine_too(number, monkeypatch):
    """On a GPU without it, and else on the CPU engine, these kernels multiply by mma.sync (warpgroups.cuh)."""
    monkeypatch.setattr(variants.Variant, "_choose_arch", lambda self: "sm_90a")
    chosen = variant(number, step="warpgroups")
    probe = chosen.source + "\nstatic_assert(WARPGROUPS);"
    check(variant(number, probe, step="warpgroups"), [(Layer("small", 2, 20, 22, 8, 5), 3)])


# ---------------------------------------------------------------------------------------- precision
def test_half_sums_would_stop_at_2048_and_do_not():
    """The sum is 2205 ones; a half cannot count beyond 2048 one by one.

    Rungs 08 and 09 sum their steps in float.
    """
    layer = Layer("many channels", 45, 8, 9, 2, 7)
    x, k = np.ones(layer.x_shape(1)), np.ones(layer.k_shape)
    for number, step, expected in (
        (8, None, 2205),
        (9, "table", 2205),
        (8, "half_sum", 2048),
        (8, "half2", 2048),
    ):
        with variant(number, step=step).plan(layer, 1) as plan:
            plan.load(x, k)
            plan.run()
            assert (plan.result() == np.float16(expected)).all()
    with pytest.raises(LabError, match=r"85,920 bytes of shared memory .* limit is 49,152"):
        variant(9).supports(layer)  # its mask is to lie in shared memory


def test_own_kernel_with_dynamic_shared_memory():
    source = rung(4).source.replace(
        "__shared__ float tile[SIDE][SIDE];", "extern __shared__ float flat[];"
    )
    source = re.sub(r"tile\[(.*?)\]\[(.*?)\]", r"flat[(\1) * SIDE + \2]", source)
    assert "flat[(" in source
    check(variant(4, source), [ODD])


def test_own_constant_array_that_is_too_small():
    small = rung(2).source.replace("mask[16384]", "mask[100]")
    check(variant(2, small), [(Layer("fits", 1, 9, 11, 2, 7), 1)])
    with pytest.raises(
        LabError, match=r"array mask has 400 bytes, the mask of .* 784: make the array larger"
    ):
        variant(2, small).plan(LENET86[0], 1)


def test_compile_error_names_file_and_line(tmp_path):
    lines = rung(1).source.split("\n")
    line = next(i for i, text in enumerate(lines) if "y[h * Wo + w] = 0;" in text)
    lines[line] = "    y[h * Wo + w] = nought;"
    path = tmp_path / "mine.cu"
    path.write_text("\n".join(lines))
    with pytest.raises(hostcuda.driver.CompileError) as failure:
        variant(1, path).plan(LENET86[0], 1)
    message = str(failure.value)
    assert "nought" in message
    assert f"mine.cu:{line + 1}" in message or f"mine.cu({line + 1})" in message


def test_a_kernel_whose_header_changed_is_another_one(tmp_path):
    path, header = tmp_path / "mine.cu", tmp_path / "op.h"
    header.write_text("#define TIMES *\n")
    path.write_text('#include "op.h"\n' + rung(1).source.replace(" * k[", " TIMES k["))
    assert "TIMES" in path.read_text()
    mine = variant(1, path)
    check(mine, [ODD])
    header.write_text("#define TIMES +\n")
    for kernel in (mine, variant(1, path)):
        assert not is_verified(kernel)
        with pytest.raises(LabError, match=r"01 baseline, mine\.cu is wrong"):
            check(kernel, [ODD])
    header.write_text("#define TIMES *\n")
    assert is_verified(mine)


def test_a_device_that_lacks_the_instructions_is_refused_before_the_compiler_runs(monkeypatch):
    """Of launches, plans and a reader's kernels: test_cards.py."""
    monkeypatch.setattr(hostcuda.compiler, "compile", lambda **_: pytest.fail("compiled"))
    older = dataclasses.replace(
        device("H200"), name="Tesla T4", compute_capability=(7, 5), shared_opt_in=65_536
    )
    kernel = variant("speed_of_light")
    message = r"^10 .* needs compute capability 8\.0; the Tesla T4 has 7\.5"
    with assume(older), pytest.raises(LabError, match=message):
        kernel.precompile(kernel.defines(LENET86[0]))


def test_the_layers_of_an_exercise_are_compiled_side_by_side(monkeypatch):
    """Each waits until the other has begun: one after the other would break the barrier."""
    begun, layers = threading.Barrier(2, timeout=60), []

    def compile_checked(self, defines, tools):
        layers.append((defines, tools))
        begun.wait()

    kernel = variant("tuning")
    monkeypatch.setattr(type(kernel), "compile_checked", compile_checked)
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    one, other = map(kernel.defines, LENET86)
    kernel.precompile(one, other, one, tools=("profile",))
    assert sorted(map(str, layers)) == sorted(
        map(str, [(one, ("profile",)), (other, ("profile",))])
    )


def test_modules_are_compiled_once():
    assert variant(1).on(LENET86[0]).module() is variant(1, block=(32, 8)).on(LENET86[1]).module()
    assert variant(3).on(LENET86[0]).module() is variant(3).on(LENET72[1]).module()
    assert variant(3).on(LENET86[0]).module() is not variant(3).on(LENET28[0]).module()


@pytest.mark.parametrize("number", [1, 2, 4])
def test_a_tile_too_many_where_the_map_is_a_multiple_of_it_is_found(number):
    """The classic mistake in rounding up: only maps of whole tiles in several rows show it."""
    rounded_up = "(Wo + blockDim.x - 1) / blockDim.x"
    source = labkit.variant(number).source
    assert source.count(rounded_up) == 1
    whole = [shape for shape in TEST_SHAPES if shape[0].name == "whole tiles"]
    wrong = labkit.variant(number, source=source.replace(rounded_up, "Wo / blockDim.x + 1"))
    with pytest.raises(labkit.LabError, match="outputs were not written"):
        labkit.check(wrong, whole, quiet=True)
