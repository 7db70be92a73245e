"""What the lab launches and refuses on each card: sizes and grids come from the device."""

import contextlib
import math
import re
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pandas as pd
import pytest

import hostcuda
import labkit
from hostcuda.sanitize import sanitize_script
from labkit.base.errors import LabError
from labkit.base.paths import cuda_src, data_dir
from labkit.evidence import resources
from labkit.ladder.source import NVCC_OPTIONS
from labkit.ladder.variants import variants
from labkit.networks import fused
from labkit.page import cells
from labkit.spec import devices
from recording.options import LAYERS
from recording.readme import format_cards, list_gpus, page

pytestmark = pytest.mark.thorough("every kernel with every card's sizes")

GPUS = {gpu.name: gpu for gpu in list_gpus()}
RUN_10 = [name for name, gpu in GPUS.items() if gpu.compute_capability >= (8, 0)]


# -------------------------------------------------------------------- H100, H200 and the CPU engine
# Blocks, threads, bytes of shared memory: the launches whose times and counters are recorded, as
# they were.
LAUNCHED = {
    (10, None): [(528, 256, 14818), (528, 128, 31952), (528, 224, 45232), (528, 128, 39424)],
    (10, "persistent"): [
        (528, 256, 14816),
        (528, 128, 13456),
        (528, 224, 10384),
        (528, 128, 27760),
    ],
    (10, "warpgroups"): [
        (264, 256, 82880),
        (264, 192, 114112),
        (132, 448, 131456),
        (132, 384, 204112),
    ],
    (11, None): [(132, 416, 59240), (132, 384, 125832), (132, 512, 181064), (132, 320, 151560)],
    (11, "finite"): [(132, 416, 59240), (132, 320, 51592), (132, 480, 41544), (132, 256, 104904)],
    (11, "warpgroups"): [
        (132, 384, 163824),
        (132, 384, 154688),
        (132, 384, 187360),
        (132, 384, 228080),
    ],
}


@pytest.mark.parametrize("where", ["H100", "H200", "CPU engine"])
def test_what_was_recorded_is_what_is_launched(where):
    if where == "CPU engine" and hostcuda.engine() == "gpu":
        pytest.skip("a GPU is in use")
    with devices.assume(GPUS[where]) if where in GPUS else contextlib.nullcontext():
        for (number, step), expected in LAUNCHED.items():
            kernel = labkit.variant(number, step=step)
            launched = [kernel.launches(layer, 10_000)[-1] for layer in LAYERS]
            assert [
                (conv.grid[0], math.prod(conv.block), conv.shared) for conv in launched
            ] == expected
        sizes = {
            dtype: {
                step: (kernel.blocks(p), kernel.shared_bytes(p))
                for step, kernel in fused.KERNELS.items()
            }
            for dtype, p in fused.PRECISIONS.items()
        }
    assert sizes == {
        "float16": {None: (4, 49_128), "warpgroups": (1, 191_728)},
        "float32": {None: (2, 98_256), "warpgroups": (1, 232_000)},
    }


def test_the_chosen_options_are_the_recorded_ones():
    """On this machine, or if that is another GPU, as on an H200."""
    table = pd.read_csv(data_dir() / "results" / "nvidia-h200.csv", keep_default_na=False)
    table = table[
        table["rung"].isin(["speed_of_light", "split_floats"])
        & ~table["label"].str.contains(r"\.cu")
    ]
    recorded = table.groupby(["rung", "label", "layer"])["options"].agg(set)
    with devices.assume(GPUS["H200"]):
        every = [kernel for number in (10, 11) for kernel in variants(number)]
        for kernel in every:
            label = kernel.label.partition(" ")[2]
            for layer in LAYERS:
                assert recorded[kernel.rung.name, label, layer.name] == {
                    kernel.on(layer).options_text
                }


# ---------------------------------------------------------------------------------------- each card
@pytest.mark.parametrize("name", RUN_10)
@pytest.mark.parametrize("number", [10, 11])
def test_every_layer_has_sizes_on_every_card(name, number):
    gpu, kernel = GPUS[name], labkit.variant(number)
    with devices.assume(gpu):
        for layer in LAYERS:
            arrange, conv = kernel.launches(layer, 10_000)
            per_multiprocessor, rest = divmod(conv.grid[0], gpu.multiprocessors)
            assert rest == 0 and 1 <= per_multiprocessor <= 4
            # the driver has 1 KB of each block, and of a multiprocessor
            needed = conv.shared + kernel.calls[1].static
            assert needed <= gpu.shared_opt_in and arrange.shared == 0
            assert per_multiprocessor * (needed + 1024) <= gpu.shared_opt_in + 1024
        for p in fused.PRECISIONS.values():
            kernel_13 = fused.KERNELS[None]
            assert (
                kernel_13.blocks(p) * (kernel_13.shared_bytes(p) + 1024) <= gpu.shared_opt_in + 1024
            )
            assert kernel_13.sizes(p)["BLOCKS"] == kernel_13.blocks(p)
            assert kernel_13.shared_bytes(p) <= gpu.shared_opt_in


def test_a_small_block_holds_fewer_images_or_maps():
    with devices.assume(GPUS["RTX 4090"]):
        chosen = [labkit.variant(11).scope(layer) for layer in LAYERS]
        assert [(s.images, s.store) for s in chosen] == [(2, 0), (1, 2), (2, 0), (1, 2)]
        for step in labkit.variant(11).rung.path:
            assert [labkit.variant(11, step=step).scope(layer).images for layer in LAYERS] == [
                2,
                2,
                2,
                1,
            ]
        assert labkit.variant(11, blocks=7).launches(LAYERS[0], 100)[1].grid == (7, 1, 1)


@pytest.mark.parametrize("name", ["T4", "RTX 2080 Ti"])
def test_75_is_refused_with_the_rung_that_runs(name):
    with devices.assume(GPUS[name]):
        for number, older in ((10, "09 tensor cores"), (11, "07 tuning")):
            with pytest.raises(
                LabError,
                match=rf"^{number} [\w ]+ needs compute capability 8\.0; the {name} has 7\.5: "
                rf"take {older}, or HOSTCUDA_ENGINE=cpu$",
            ):
                labkit.variant(number).launches(LAYERS[0])
        with pytest.raises(
            LabError, match=rf"needs .* 8\.0, and {name} has 7\.5: take labkit\.Network$"
        ):
            fused.FusedNetwork()
        labkit.variant(9).launches(LAYERS[0])


@pytest.mark.parametrize(
    "name", [name for name in RUN_10 if GPUS[name].compute_capability != (9, 0)]
)
def test_products_of_four_warps_are_refused_where_there_are_none(name):
    has = "{}.{}".format(*GPUS[name].compute_capability).replace(".", r"\.")
    with devices.assume(GPUS[name]):
        for number, rung in ((10, "10 speed of light"), (11, "11 split floats")):
            step = labkit.variant(number, step="warpgroups")
            with pytest.raises(
                LabError,
                match=rf"wgmma, which only compute capability 9\.0 has; the {name} has {has}: "
                rf"take {rung} itself, or HOSTCUDA_ENGINE=cpu$",
            ):
                step.plan(LAYERS[0], 1)
            assert step.label not in [kernel.label for kernel in variants(number)]
        with pytest.raises(
            LabError, match=rf"wgmma, .*; the {name} has {has}: leave step='warpgroups' out$"
        ):
            fused.FusedNetwork(step="warpgroups")
    with devices.assume(GPUS["H100"]):
        assert labkit.variant(10, step="warpgroups") in variants(10)


@pytest.mark.parametrize(
    ("printed", "sentence"),
    [
        (
            "ptxas x.ptx, line 32; error   : Feature '.m16n8k16' requires .target sm_80 or higher",
            "uses m16n8k16, which needs compute capability 8.0; the T4 has 7.5: take 09 "
            "tensor cores, or HOSTCUDA_ENGINE=cpu",
        ),
        (
            "ptxas x.ptx, line 29; error   : Modifier '.async' requires .target sm_90 or higher",
            "uses async, which needs compute capability 9.0; the T4 has 7.5",
        ),
        (
            "ptxas x.ptx, line 23; error   : Instruction 'wgmma.fence' not supported on .target 'sm_75'",
            "uses wgmma.fence, which its architecture does not have; the T4 has 7.5",
        ),
        (
            'mine.cu(3): error: identifier "__reduce_max_sync" is undefined',
            "uses __reduce_max_sync, which needs compute capability 8.0; the T4 has 7.5",
        ),
        (
            "ptxas x.ptx, line 26; error   : Feature 'x' requires .target sm_103 or higher",
            "needs compute capability 10.3;",
        ),
    ],
)
def test_a_readers_kernel_that_needs_newer_instructions_is_told_in_one_sentence(
    printed, sentence, monkeypatch
):
    def refuse(*_, **__):
        """Fail as a compiler does."""
        raise hostcuda.driver.CompileError("nvcc compilation failed", ["nvcc"], "", printed)

    monkeypatch.setattr(hostcuda.compiler, "SourceModule", refuse)
    mine = labkit.variant(10, source=labkit.variant(10).source + "// mine\n")
    with devices.assume(GPUS["T4"]):
        with pytest.raises(LabError, match=re.escape(sentence)) as refusal:
            mine.plan(LAYERS[0], 1)
        assert "\n" not in str(refusal.value)
        magics = cells.KernelCells()
        magics.shell = SimpleNamespace(user_ns={})
        with pytest.raises(
            LabError, match=r"^warp uses .* run the notebook with HOSTCUDA_ENGINE=cpu$"
        ):
            magics.cuda("warp", "__global__ void f() {}")


def test_other_errors_of_a_compiler_stay_as_they_are(monkeypatch):
    def refuse(*_, **__):
        raise hostcuda.driver.CompileError(
            "nvcc compilation failed", ["nvcc"], "", 'mine.cu(3): error: identifier "a"'
        )

    monkeypatch.setattr(hostcuda.compiler, "SourceModule", refuse)
    with devices.assume(GPUS["T4"]), pytest.raises(hostcuda.driver.CompileError):
        labkit.variant(1, source=labkit.variant(1).source + "// mine\n").plan(LAYERS[0], 1)


# --------------------------------------------------------------------------- the kernels themselves
PROGRAM = """
import sys
from dataclasses import replace

import numpy as np

import labkit
from labkit.spec import devices
from labkit.spec.reference import conv_float64

card = replace(devices.device("H200"), multiprocessors=1, shared_opt_in=int(sys.argv[1]), compute_capability=(8, 9))
layer = labkit.Layer("small", 2, 12, 12, 20, 4)
with devices.assume(card):
    kernel = labkit.variant(11, step=sys.argv[2] or None)
    s = kernel.scope(layer)
    print(s.images, s.store)
    random = np.random.default_rng(1)
    x, k = (random.integers(-4, 5, shape).astype(np.float32) for shape in (layer.x_shape(3), layer.k_shape))
    if not kernel.step:
        x[1, 0, 2, 2] = np.inf
    with kernel.plan(layer, 3) as plan:
        plan.load(x, k)
        plan.run()
        with np.errstate(invalid="ignore"):
            assert np.array_equal(plan.result(), conv_float64(x, k), equal_nan=True)
        print("right")
"""


@pytest.mark.parametrize(
    ("step", "shared_opt_in", "chosen"),
    [
        ("", 7_864, "2 2"),
        ("", 7_860, "1 2"),
        ("", 6_534, "2 0"),
        ("", 2_676, "1 0"),
        *((step, 2_676, "1 0") for step in labkit.variant(11).rung.path),
    ],
)
def test_every_choice_of_buffers_is_right_and_without_races(
    step, shared_opt_in, chosen, tmp_path, capfd
):
    """Three images in one block, in several groups of maps; in the rung one of them is not finite."""
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)
    report = sanitize_script(str(script), [str(shared_opt_in), step], engine="cpu")
    assert f"{chosen}\nright\n" in capfd.readouterr().out
    assert report.table.empty and report.launches == 2


ARCHITECTURES = {
    "sm_80": "A100",
    "sm_86": "A10",
    "sm_89": "L4",
    "sm_90a": "H200",
    "sm_100": "B200",
    "sm_120": "RTX 5090",
}


def compile_for(arch, text, options):
    """Return what nvcc and ptxas print of a kernel."""
    command = [
        "nvcc",
        *options,
        f"-arch={arch}",
        "-cubin",
        "-Xptxas",
        "-v",
        "-x",
        "cu",
        "-o",
        "/dev/null",
        "-",
    ]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc")
@pytest.mark.parametrize("arch", ["sm_75", *ARCHITECTURES])
def test_nvcc_compiles_each_page_for_each_card(arch):
    """At most five registers are spilled, by rung 11 on an RTX 5090; products of four warps spilled 380 bytes there."""
    with devices.assume(GPUS[ARCHITECTURES.get(arch, "T4")]):
        numbers = (8, 9) if arch == "sm_75" else (10, 11)
        kernels = [labkit.variant(number) for number in numbers]
        kernels += [
            labkit.variant(number, step="warpgroups") for number in numbers if arch == "sm_90a"
        ]
        jobs = [
            resources.prepare(kernel, layer)[::2]
            for kernel in kernels
            for layer in (LAYERS[1], LAYERS[2])
        ]
        for p in fused.PRECISIONS.values() if arch != "sm_75" else ():
            sizes = {
                "PRODUCTS": p.products,
                "LIMIT": f"{fused.LIMIT}f",
                **fused.KERNELS[None].sizes(p),
            }
            defines = [f"-D{name}={value}" for name, value in sizes.items()]
            jobs.append(
                (fused.KERNELS[None].path.read_text(), [*NVCC_OPTIONS, f"-I{cuda_src()}", *defines])
            )
    with ThreadPoolExecutor(2) as pool:
        for code, printed in pool.map(lambda job: compile_for(arch, *job), jobs):
            assert code == 0, printed
            assert max(map(int, re.findall(r"(\d+) bytes spill stores", printed))) <= 20, printed


def test_the_table_of_the_faq_is_what_the_lab_does():
    """Else run `python -m recording cards`."""
    text = page("cards").read_text(encoding="utf-8")
    assert (
        re.search("<!-- cards:begin -->\n(.*?)\n<!-- cards:end -->", text, re.DOTALL)[1]
        == format_cards()
    )


# -------------------------------------------------------------------------------- sizes of a kernel
SQUARES, SPLIT = (labkit.variant(number, step="warpgroups") for number in (10, 11))


@pytest.mark.parametrize(
    ("kernel", "sizes"),
    [
        # its windows are work for two warpgroups: the third would not wait
        (SQUARES, {"OUTS": 1, "COMPUTE": 12}),
        (SQUARES, {"OUTS": 3}),
        (SQUARES, {"MAPS": 13}),
        (SQUARES, {"COMPUTE": 6}),
        (SQUARES, {"STORE": 0}),
        (SPLIT, {"FETCH": 1}),
        (SPLIT, {"IMAGES": 0}),
        (SPLIT, {"STAGES": 3}),
        (SPLIT, {"MAPS": 28}),
        (labkit.variant(10), {"GROUPS": 0}),
        (labkit.variant(10), {"WARPS": 33}),
        (labkit.variant(11), {"IMAGES": 3}),
        (labkit.variant(11), {"DOWN": 3}),
        (labkit.variant(11, step="one"), {"FETCH": 0}),
    ],
    ids=lambda value: str(value),
)
def test_sizes_that_a_kernel_cannot_have_are_refused_by_the_compiler(kernel, sizes):
    layer = labkit.Layer("two warpgroups' work", C=2, H=20, W=22, M=8, K=5)
    defines = kernel.defines(layer)
    hostcuda.ensure_context()
    assert sizes.keys() <= defines.keys()
    with pytest.raises(hostcuda.driver.CompileError, match="static assertion failed"):
        hostcuda.compiler.SourceModule(**kernel.compiler_arguments({**defines, **sizes}))
