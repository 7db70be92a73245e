"""lenet86 in one kernel: exact on integers, within rounding on images, from floats and from bytes, and its refusals."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

import hostcuda
import labkit as lab
from hostcuda import driver
from hostcuda.compiler import SourceModule
from hostcuda.profile import profile_script
from hostcuda.sanitize import sanitize_script
from labkit.base.errors import LabError
from labkit.ladder.source import module_arguments
from labkit.networks import fused
from labkit.networks.fused import LIMIT, FusedNetwork, Scales, bounded
from labkit.networks.images import resize
from labkit.networks.lenet86 import WEIGHT_SHAPES, Network, load_weights
from labkit.networks.reference.layers import max_pool, relu
from labkit.networks.reference.lenet86 import forward_numpy
from labkit.spec.devices import device
from recording.network import split_batch
from recording.truncation import PARTS, Emulation, add_truncated

pytestmark = pytest.mark.thorough("every kernel on every shape: minutes")

DTYPES = ["float16", "float32"]
BOTH = pytest.mark.parametrize("step", fused.KERNELS)


@pytest.fixture(scope="module")
def digits():
    return lab.dataset(size=86)


@pytest.fixture(scope="module", params=itertools.product(DTYPES, fused.KERNELS), ids=str)
def network(request):
    with FusedNetwork("digits", *request.param) as network:
        yield network


def integer_weights(random):
    """Return small integers, most of them 0; the last layer's are small enough that softmax keeps all scores apart."""
    parts = dict(zip(WEIGHT_SHAPES, (0.3, 0.2, 0.3, 1, 1, 1), strict=True))
    weights = {
        name: (random.integers(-1, 2, shape) * (random.random(shape) < parts[name])).astype(
            np.float32
        )
        for name, shape in WEIGHT_SHAPES.items()
    }
    return weights | {"fc2": weights["fc2"] / 512}


@BOTH
@pytest.mark.parametrize("dtype", DTYPES)
def test_integers_are_exact_in_every_slot(dtype, step):
    random = np.random.default_rng(13)
    weights = integer_weights(random)
    images = (
        random.integers(-2, 3, (3, 1, 86, 86)) * (random.random((3, 1, 86, 86)) < 0.1)
    ).astype(np.float32)
    maps = max_pool(relu(lab.conv_numpy(images, weights["conv1"])), 2)
    features = max_pool(relu(lab.conv_numpy(maps, weights["conv2"])), 4)
    assert 0 < features.max() <= 2048, "every number between the layers is exact in half"
    expected = forward_numpy(
        images.astype(np.float64), {name: w.astype(np.float64) for name, w in weights.items()}
    )
    assert np.ptp(expected, axis=1).min() > 1e-3
    with FusedNetwork(weights, dtype, step) as network:
        together = (
            network.precision.sizes["BLOCKS"] if step is None else network.precision.teams["TEAMS"]
        )
        # more than 8 images each
        at = np.arange(min(9 * together * device().multiprocessors + 1, 200)) % 3
        np.testing.assert_allclose(network.forward(images[at]), expected[at], rtol=3e-6)


def test_images_are_within_the_bound(network, digits):
    random = (
        np.random.default_rng(1).normal(0, 2, (2, 1, 86, 86)).clip(-LIMIT, LIMIT).astype(np.float32)
    )
    images = np.concatenate([digits.images[:6], random, np.full_like(random[:1], LIMIT)])
    expected, bound = bounded(images, network.weights, network.dtype)
    probabilities = network.forward(images)
    assert (np.abs(probabilities - expected) <= bound).all()
    plain = Network().forward(images)
    assert (np.abs(probabilities - plain) <= 2 * bound).all()
    # Far below the bound for the errors of any weights. An H100 gave 2.4e-5 with products of four
    # warps in float.
    usual = {"float16": 5e-3, "float32": 5e-5 if network.step else 1e-5}[network.dtype.name]
    assert np.abs(probabilities[:8] - expected[:8]).max() < usual


def test_the_bound_rejects_a_wrong_network(digits):
    weights = load_weights()
    images = digits.images[:6]
    for dtype in DTYPES:
        expected, bound = bounded(images, weights, dtype)
        assert np.allclose(expected, forward_numpy(images, weights), atol=1e-5)
        wrong = forward_numpy(images[:, :, ::-1], weights)
        assert not (np.abs(wrong - expected) <= bound).all()
    assert (bounded(images, weights, "float32")[1] <= bounded(images, weights, "float16")[1]).all()


def test_bytes_are_resized_on_the_device_as_on_the_host(network, digits):
    pixels = np.rint(lab.dataset().images[:5, 0] * 16).astype(np.uint8)
    assert np.array_equal(network.forward(pixels, white=16), network.forward(digits.images[:5]))
    random = np.random.default_rng(2)
    for size in ((28, 28), (86, 86), (3, 5)):
        pixels = random.integers(0, 256, (2, *size), np.uint8)
        assert np.array_equal(network.forward(pixels), network.forward(resize(pixels, 86))), size


def test_other_pixels_are_refused(network):
    for shape, dtype, message in (
        ((1, 40, 40), np.uint8, "40 x 40: the device resizes images of at most 39 columns"),
        ((2, 86, 86), np.float64, r"float64 of the shape \(2, 86, 86\); the fused network takes"),
        ((0, 1, 86, 86), np.float32, r"the shape \(0, 1, 86, 86\)"),
    ):
        with pytest.raises(LabError, match=message):
            network.forward(np.zeros(shape, dtype))


@pytest.mark.parametrize(
    "bad", [np.nan, np.inf, -np.inf, np.nextafter(np.float32(LIMIT), np.float32(99)), 1e30]
)
def test_what_would_overflow_is_refused_and_named(network, digits, bad):
    images = digits.images[:3].copy()
    good = network.forward(images)
    images[1, 0, 85, 85] = bad
    with pytest.raises(LabError, match="image 1 has a pixel that is a NaN or beyond -16 to 16"):
        network.forward(images)
    with network.batch(3) as batch:
        batch.x[...] = images
        with pytest.raises(LabError, match="1 of 3 images"):
            batch.run()
        assert np.isnan(batch.y[1]).all()
        assert np.array_equal(batch.y[::2], good[::2])
        batch.x[1] = 0  # nothing of it stays
        assert np.array_equal(batch.run()[::2], good[::2])


def test_no_map_can_overflow():
    weights = load_weights()
    scales = Scales.from_weights(weights)
    assert scales.pixels * LIMIT <= fused.MOST_HALF
    most = LIMIT
    for name, scale in zip(("conv1", "conv2"), scales.maps, strict=True):
        most *= np.abs(weights[name]).sum(axis=(1, 2, 3)).max()
        assert fused.MOST_HALF / 4 < most * scale < fused.MOST_HALF
    nothing = Scales.from_weights({name: np.zeros_like(w) for name, w in weights.items()})
    assert np.isfinite(nothing.factors).all()


def test_chunks_on_streams_change_nothing(network, digits):
    images = digits.images[:11]
    whole = network.forward(images)
    with network.batch(11, chunk=4, streams=2) as batch:
        batch.x[...] = images
        assert np.array_equal(batch.run(), whole)
        assert len(batch._lanes) == 2
    with network.batch(11, chunk=11) as batch:
        batch.x[...] = images
        assert np.array_equal(batch.run(), whole)
        assert batch._graph.recorded == (hostcuda.engine() == "gpu")
        batch.x[...] = images[::-1]
        assert np.array_equal(batch.run(), whole[::-1]), "the arrays are read anew each time"
    with pytest.raises(LabError, match="each is at least 1"):
        network.batch(0)


def test_too_little_memory_for_a_batch_is_one_sentence(network, monkeypatch):
    def none(shape, dtype):
        raise hostcuda.driver.MemoryError("no room")

    monkeypatch.setattr(hostcuda.driver, "pagelocked_zeros", none)
    with pytest.raises(
        LabError,
        match=r"0\.30 GB of page-locked memory for 10,000 images \(no room\): take a smaller",
    ):
        network.batch(10_000)


def test_a_part_of_a_function_is_shown_without_its_indentation():
    whole = lab.FusedNetwork.source("pool(First")
    part = whole.lines("left =", "most =")
    assert part.source.startswith("const float left = fmaxf(d[0], d[2])")
    assert len(part.source.splitlines()) == 3 and part.label == whole.label
    assert lab.show(part).source == part.source
    for first, last in (("middle =", "most ="), ("most =", "left =")):
        with pytest.raises(LabError, match=f"has no lines from '{first}' to '{last}'"):
            whole.lines(first, last)


def test_an_old_gpu_and_another_type_are_refused(monkeypatch):
    for arguments, message in (
        ({"dtype": np.float64}, "float64: the fused network computes in float16 or float32"),
        ({"step": "mma"}, "step='mma': the fused network has the step warpgroups"),
        ({"without": "no such line"}, "without='no such line': 0 lines of 13_network.cu have this"),
        (
            {"without": "__syncthreads();"},
            r"without='__syncthreads\(\);': 3 lines of 13_network.cu",
        ),
    ):
        with pytest.raises(LabError, match=message):
            FusedNetwork(**arguments)
    old = replace(device(), name="NVIDIA T4", compute_capability=(7, 5))
    monkeypatch.setattr(fused, "device", lambda: old)
    with pytest.raises(
        LabError, match=r"compute capability 8\.0, and NVIDIA T4 has 7\.5: take labkit\.Network"
    ):
        FusedNetwork()


def test_a_block_has_the_shared_memory_that_the_kernel_says(network):
    function = network.function()
    assert function.shared_size_bytes == 0
    of_step = {"float16": 191_728, "float32": 232_000}[network.dtype.name]
    assert network.shared_bytes == (of_step if network.step else network.precision.parts * 49_128)


PROGRAM = """
import sys
import numpy as np
from labkit.ladder.buffers import Buffers
from labkit.networks.fused import FusedNetwork

pixels = np.random.default_rng(0).integers(0, 17, (2, 8, 8), np.uint8)
images = np.ones((2, 1, 86, 86), np.float32)
with FusedNetwork("digits", sys.argv[1], sys.argv[2] or None) as network, Buffers() as memory:
    y = memory.new((2, 10))
    network.launch(memory.copy_in(pixels), y, 2, (8, 8), 16.0)
    network.launch(memory.copy_in(images), y, 2)
"""


@BOTH
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_kernel_has_no_race_and_reads_nothing_foreign(dtype, step, tmp_path):
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)
    report = sanitize_script(str(script), [dtype, step or ""], engine="cpu")
    assert report.launches == 2
    assert report.table.empty


def test_a_batch_split_over_threads_is_the_same(digits):
    images = digits.images[:5]
    with FusedNetwork("digits", "float16") as network:
        whole = network.forward(images)
    with split_batch((0, 0), images, "digits", "float16") as run:
        assert np.array_equal(run(), whole)
    wrong = images.copy()
    wrong[3] = np.nan  # the first image of the second part
    with (
        split_batch((0, 0), wrong, "digits", "float16") as run,
        pytest.raises(LabError, match="image 0 has a pixel"),
    ):
        run()


SIZES = """
extern "C" __global__ void sizes(int *bytes)
{
    const int of[] = {sizeof(Block::image), sizeof(Block::maps), sizeof(Block::features), sizeof(Block)};
    bytes[threadIdx.x] = of[threadIdx.x];
}
"""


@pytest.mark.parametrize("precision", fused.PRECISIONS.values(), ids=fused.PRECISIONS)
def test_the_bytes_of_a_block_are_those_of_the_kernels_struct(precision):
    path, found = fused.KERNELS[None].path, np.zeros(4, np.int32)
    defines = {"PRODUCTS": precision.products, "LIMIT": f"{LIMIT}f", **precision.sizes}
    options = [f"-D{name}={value}" for name, value in defines.items()]
    module = SourceModule(**module_arguments(path.read_text() + SIZES, path, *options))
    module.get_function("sizes")(driver.InOut(found), grid=(1, 1), block=(4, 1, 1))
    expected = [precision.parts * count for count in fused.BLOCK_BYTES.values()]
    assert [*found] == [*expected, sum(expected)]
    assert sum(expected) == fused.KERNELS[None].shared_bytes(precision)


ONE_IMAGE = """
import sys
import numpy as np
from labkit.networks.fused import FusedNetwork

with FusedNetwork("digits", sys.argv[1]) as network:
    network.forward(np.zeros((1, 1, 86, 86), np.float32))
"""


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_wavefronts_of_convolution_2_are_those_that_page_13_adds_up(dtype, tmp_path):
    """Loads of inputs: 18 per tile and channel, and 2 of 7 tiles conflict. Weights: 4 wavefronts per load."""
    script, parts = tmp_path / "program.py", fused.PRECISIONS[dtype].parts
    script.write_text(ONE_IMAGE)
    lines = profile_script(str(script), [dtype], engine="cpu", nvcc=False).lines()
    text = fused.KERNELS[None].path.read_text().splitlines()
    lines = lines[lines["file"].str.endswith("13_network.cu") & (lines["op"] == "ld")]
    code = lines["line"].map(lambda number: text[number - 1])
    windows = lines[(lines["space"] == "shared") & code.str.contains("= window[", regex=False)]
    weights = lines[(lines["space"] == "global") & code.str.contains("= mask[", regex=False)]
    first, second = 40 * 8 * 2, 7 * 4 * 4  # loads of convolution 1; tiles, groups of maps, channels
    assert windows["wavefronts"].sum() == parts * (first + second * 18 * 9 // 7)
    assert windows["conflicts"].sum() == parts * second * 18 * 2 // 7
    assert (weights["passes"] == 4 * weights["requests"]).all() and len(weights)


def test_truncated_sums_and_not_the_halves_make_the_network_less_exact_than_float(digits):
    """The first fully connected layer, emulated: with exact sums, with sums rounded as floats, with truncated ones."""
    weights = load_weights()
    maps = max_pool(relu(lab.conv_numpy(digits.images[:40], weights["conv1"])), 2)
    features = max_pool(relu(lab.conv_numpy(maps, weights["conv2"])), 4).reshape(40, 81, 16)
    scales = Scales.from_weights(weights)
    x, w = (
        fused._split(array * np.float32(scale), 2).astype(np.float64)
        for array, scale in (
            (features, scales.maps[1]),
            (weights["fc1"].reshape(81, 16, 32), scales.weights[2]),
        )
    )
    expected = np.einsum(
        "bst,sto->bo", features, weights["fc1"].reshape(81, 16, 32), dtype=np.float64
    )
    ways = {
        "exact": lambda total, terms: total + terms.sum(axis=-1),
        "rounded": lambda total, terms: np.float32(total + terms.sum(axis=-1)).astype(np.float64),
        "truncated": add_truncated,
    }
    errors = {}
    for name, add in ways.items():
        total = np.zeros((40, 32))
        for step, (a, b) in itertools.product(range(81), ((0, 1), (1, 0), (0, 0))):
            total = add(total, x[a][:, step, None, :] * w[b][step].T)
        errors[name] = np.sqrt(
            np.mean((total / (scales.maps[1] * scales.weights[2]) - expected) ** 2)
        )
    in_float = np.sqrt(np.mean((features.reshape(40, -1) @ weights["fc1"] - expected) ** 2))
    assert errors["exact"] < in_float / 2, "neither the halves nor the product left out"
    assert errors["exact"] < errors["rounded"] < errors["truncated"] / 3


def test_the_step_loses_less_because_its_small_products_are_added_first():
    emulation = Emulation(images=1, candidates=20)
    losses = []
    for kernel in ("warpgroups", "warpgroups, small products among the large"):
        probabilities = emulation.forward(conv2=PARTS[kernel][1])
        losses.append(np.abs(probabilities - emulation.expected).max())
    assert 0 < losses[0] < losses[1] / 2


def test_what_is_said_of_the_steps_errors_is_what_was_recorded():
    rows = (
        lab.recorded("H200")
        .network(10_000, where="device", pixels="float32")
        .set_index(["label", "dtype"])["error"]
    )
    assert 1.5 < rows["fused, warpgroups", "float32"] / rows["PyTorch fp32", "float32"] < 2
    assert rows["fused", "float32"] < 1.1 * rows["PyTorch fp32", "float32"]
