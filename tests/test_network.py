"""The network: its layers in NumPy, its kernels, and the forward pass on the engine against NumPy's."""

import hashlib
import itertools
import json

import numpy as np
import pytest

import hostcuda
import labkit
from labkit.base.errors import LabError
from labkit.ladder.buffers import Buffers
from labkit.ladder.plan import Plan
from labkit.ladder.rungs import LADDER
from labkit.networks import lenet86 as network
from labkit.networks.lenet86 import Network, load_weights, provenance
from labkit.networks.reference.layers import max_pool, relu, softmax
from labkit.networks.reference.lenet86 import forward_numpy

pytestmark = pytest.mark.core("what pages 13 and 14 run on")

RANDOM = np.random.default_rng(86)


@pytest.fixture(scope="module")
def digits():
    return labkit.dataset(size=86)


@pytest.fixture(scope="module")
def weights():
    return load_weights()


def on_device(kernel, outputs, inputs, shape, *sizes, dtype=np.float32):
    """Run a kernel of 00_network.cu on host arrays."""
    with Buffers() as memory:
        buffers = [memory.copy_in(np.ascontiguousarray(array)) for array in inputs]
        y = memory.new(shape, dtype)
        getattr(network._kernels(), kernel)(outputs, *buffers, y, *sizes)
        return memory.copy_out(y, shape, dtype)


# ------------------------------------------------------------------------------------------- layers
@pytest.mark.parametrize(("H", "W", "window"), [(80, 80, 2), (34, 34, 4), (7, 10, 3), (4, 7, 1)])
def test_max_pool_in_numpy_and_on_the_device(H, W, window):
    x = RANDOM.normal(size=(2, 3, H, W)).astype(np.float32)
    y = max_pool(x, window)
    assert y.dtype == x.dtype and y.shape == (2, 3, -(-H // window), -(-W // window))
    for b, m, h, w in np.ndindex(y.shape):
        assert (
            y[b, m, h, w]
            == x[b, m, h * window : (h + 1) * window, w * window : (w + 1) * window].max()
        )
    pooled = on_device("relu_max_pool", y.size, [x], y.shape, 6, H, W, window, window, *y.shape[2:])
    assert (pooled == relu(y)).all()


def test_forward_numpy_takes_any_convolution(digits, weights):
    images = digits.images[:3]
    probabilities = forward_numpy(images, weights)
    assert probabilities.shape == (3, 10)
    assert probabilities.dtype == np.float32
    exact = forward_numpy(images, weights, conv=labkit.conv_float64)
    np.testing.assert_allclose(probabilities, exact, atol=1e-5)
    np.testing.assert_allclose(
        softmax(np.array([[0, np.log(3)], [1000.0, 1000.0], [-2000, 0]])),
        [[0.25, 0.75], [0.5, 0.5], [0, 1]],
    )


# ------------------------------------------------------------------------------------------ weights
def test_weights_are_the_recorded_ones(weights):
    assert sum(w.size for w in weights.values()) == 196 + 3136 + 1296 * 32 + 32 + 320 + 10
    path = network.data_dir() / "weights" / "lenet86-digits.npz"
    assert path.stat().st_size < 200_000
    assert hashlib.sha256(path.read_bytes()).hexdigest() == provenance()["sha256"]


def test_bad_weights_are_refused(tmp_path, weights):
    path = tmp_path / "mine.npz"
    np.savez(path, **weights)
    assert (load_weights(str(path))["fc1"] == weights["fc1"]).all()
    whole, middle = path.read_bytes(), path.stat().st_size // 2
    flipped = whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :]
    for content in (b"PK\x03\x04 no zip file", whole[:-200], flipped):
        path.write_bytes(content)
        with pytest.raises(LabError, match=r"mine\.npz is no \.npz file, or a damaged one"):
            load_weights(path)
    path.write_bytes(whole)
    path.with_suffix(".json").write_text(json.dumps({"sha256": "0" * 64}))
    for which, message in (
        ("cifar", r"no weights .*lenet86-cifar\.npz.*Train them"),
        (path, r"not the file that mine\.json describes"),
        ({name: w for name, w in weights.items() if name != "fc2"}, "fc2 is missing"),
        (86, "86 names no weights"),
        (
            {**weights, "conv1": weights["conv1"].T},
            r"conv1 has the shape \(7, 7, 1, 4\); lenet86 needs \(4, 1, 7, 7",
        ),
        ({**weights, "fc1_bias": np.full(32, np.nan, np.float32)}, "fc1_bias holds NaN"),
    ):
        with pytest.raises(LabError, match=message):
            load_weights(which)


# ------------------------------------------------------------------------------------------ kernels
def test_pooling_keeps_nan():
    x = np.full((1, 1, 6, 6), -1, np.float32)
    x[0, 0, 0, 0] = x[0, 0, 3, 3] = np.nan
    x[0, 0, 1, 1] = 7
    y = on_device("relu_max_pool", 9, [x], (3, 3), 1, 6, 6, 2, 2, 3, 3)
    assert np.isnan(y[0, 0])
    assert np.isnan(y[1, 1])
    assert np.nansum(y) == 0


def test_softmax_kernel():
    x = RANDOM.normal(0, 30, (257, 10)).astype(np.float32)
    x[0], x[1] = 500, -500
    y = on_device("softmax", 257, [x], x.shape, 257, 10)
    np.testing.assert_allclose(y, softmax(x.astype(np.float64)), rtol=1e-4, atol=1e-9)


def test_half_kernels():
    every_half = np.arange(2**16, dtype=np.uint16).view(np.float16)
    wide = on_device("half_to_float", 2**16, [every_half], (2**16,), 2**16)
    np.testing.assert_array_equal(wide, every_half.astype(np.float32))
    x = np.concatenate(
        [
            RANDOM.normal(0, 1, 999),
            RANDOM.normal(0, 1e-7, 99),
            [65519, 65520, 1e9, 2049, 2051, -0.0],
        ]
    )
    narrow = on_device(
        "float_to_half", len(x), [x.astype(np.float32)], (len(x),), len(x), dtype=np.float16
    )
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(narrow, x.astype(np.float32).astype(np.float16))


# ------------------------------------------------------------------------------------- forward pass
@pytest.mark.parametrize("number", [rung.number for rung in LADDER])
def test_every_rung_inside_the_network(number, digits, weights):
    images = digits.images[:3]
    net = Network(conv=labkit.variant(number))
    expected = forward_numpy(images, weights)
    tolerance = 2e-2 if net.conv[0].io_dtype == np.float16 else 2e-5
    for course in (False, True):
        probabilities = net.forward(images, course=course)
        np.testing.assert_allclose(probabilities, expected, atol=tolerance)
        assert (probabilities.argmax(axis=1) == expected.argmax(axis=1)).all()


@pytest.mark.parametrize("conv", [1, 7, 11])
def test_a_batch_computes_what_forward_does_and_again_with_other_images(conv, digits, weights):
    """Its buffers are allocated once: a second run reads the images, and writes the probabilities, anew."""
    images, net = digits.images[:3], Network(conv=conv)
    expected = net.forward(images)
    with net.batch(3) as batch:
        assert [*batch.steps] == ["conv1", "pool1", "conv2", "pool2", "fc1", "fc2", "softmax"]
        batch.x[...] = images
        np.testing.assert_array_equal(batch.run(), expected)
        batch.x[...] = images[::-1]
        assert batch.run() is batch.y
        np.testing.assert_array_equal(batch.y, expected[::-1])


def test_a_batch_of_the_callers_images_launches_all_kernels_from_the_device_to_the_device(digits):
    images = np.ascontiguousarray(digits.images[:2])
    marks = []
    with Network(conv=7).batch(2, images) as batch:
        assert batch.x is images
        hostcuda.driver.memcpy_htod(batch.device_x, images)
        with labkit.trace() as trace:
            batch.launch(mark=lambda: marks.append("mark"))
        y = Buffers.copy_out(batch.device_y, (2, 10))
        assert not batch.y.any(), "only `run` copies the probabilities to the host"
    assert (trace.records["kind"] == "kernel").sum() == 7 and len(marks) == 8
    np.testing.assert_array_equal(y, Network(conv=7).forward(images))


def test_a_batch_in_half_is_refused():
    with pytest.raises(LabError, match="08 fp16>: a batch of it needs both convolutions in float"):
        Network(conv=8).batch(1)


@pytest.mark.parametrize(
    ("images", "says"),
    [
        (np.zeros((3, 1, 86, 86), np.float32), r"float32 of the shape \(3, 1, 86, 86\)"),
        (np.zeros((2, 1, 80, 80), np.float32), r"float32 of the shape \(2, 1, 80, 80\)"),
        (np.zeros((2, 1, 86, 86)), r"float64 of the shape \(2, 1, 86, 86\)"),
    ],
)
def test_a_batch_of_other_images_is_refused(images, says):
    with pytest.raises(LabError, match=says + r"; a batch of 2 takes float32 \[2, 1, 86, 86\]"):
        Network().batch(2, images)


def test_a_pair_of_variants(digits, weights):
    net = Network(conv=(labkit.variant(2), labkit.variant(1, block=(8, 8))))
    assert repr(net) == "<Network with 02 constant and 01 baseline, block=8x8>"
    np.testing.assert_allclose(
        net.forward(digits.images[:3]), forward_numpy(digits.images[:3], weights), atol=2e-5
    )


def test_times(digits):
    net = Network()
    net.forward(digits.images[:2])
    assert net.times.layer_ms is None
    assert min(net.times.op_ms) > 0 and sum(net.times.op_ms) / 1e3 < net.times.total_s
    net.forward(digits.images[:2], course=True)
    for op, layer in zip(net.times.op_ms, net.times.layer_ms, strict=True):
        assert 0 < op < layer
    assert sum(net.times.layer_ms) / 1e3 < net.times.total_s


def test_accuracy(digits, weights):
    images, labels = digits.images[:40], digits.labels[:40].copy()
    labels[:4] += 1  # four wrong ones, whatever the network says
    predicted = forward_numpy(images, weights).argmax(axis=1)
    net = Network()
    assert net.accuracy(images, labels) == (predicted == labels).mean()
    with pytest.raises(LabError, match="40 images need as many labels"):
        net.accuracy(images, labels[:-1])


def test_course_table(digits, weights):
    few = digits.images[:6], digits.labels[:6]
    table = Network().course_table(*few, batches=(4, 9))
    assert list(table.columns) == [
        "batch",
        "op time 1 ms",
        "op time 2 ms",
        "layer time 1 ms",
        "layer time 2 ms",
        "total s",
        "accuracy",
        "distinct images",
    ]
    assert table["batch"].tolist() == [4, 9]
    assert table["distinct images"].tolist() == [4, 6]
    right = forward_numpy(few[0], weights).argmax(axis=1) == few[1]
    assert table["accuracy"].tolist() == pytest.approx(
        [right[:4].mean(), (right.sum() + right[:3].sum()) / 9]
    )
    assert (table["layer time 2 ms"] > table["op time 2 ms"]).all()
    with pytest.raises(LabError, match="at least one image, not 0"):
        Network().course_table(*few, batches=(0,))


def test_nothing_is_left_on_the_device(digits, buffers, monkeypatch):
    """Neither after a pass nor after one that failed half-way."""
    net = Network(conv=(labkit.variant(1), labkit.variant(9)))
    net.forward(digits.images[:2])
    net.forward(digits.images[:20])
    passed = len(buffers)
    assert passed > 10
    run, count = Plan.run, itertools.count()

    def fail_in_conv2(self, stream=None):
        """Run, but fail the second time."""
        if next(count) == 1:
            raise hostcuda.driver.LogicError("on purpose")
        run(self, stream)

    monkeypatch.setattr(Plan, "run", fail_in_conv2)
    with pytest.raises(hostcuda.driver.LogicError, match="on purpose"):
        net.forward(digits.images[:20])
    assert len(buffers) > passed
    assert buffers.all_freed()


@pytest.mark.parametrize("shape", [(1, 86, 86), (2, 1, 86, 85), (2, 3, 86, 86), (0, 1, 86, 86)])
def test_images_of_another_shape_are_refused(shape):
    with pytest.raises(LabError, match=r"lenet86 takes \[B, 1, 86, 86\]"):
        Network().forward(np.zeros(shape, np.float32))


@pytest.mark.parametrize(
    ("conv", "message"),
    [
        ("01 baseline", "there is no rung '01 baseline'"),
        ((1, 2, 3), "not 3 of them"),
        ((), "no variant was given"),
        (1.5, "1.5 is not a variant"),
    ],
)
def test_what_is_no_variant_is_refused(conv, message):
    assert [kernel.label for kernel in Network(conv=(1, "registers")).conv] == [
        "01 baseline",
        "03 registers",
    ]
    with pytest.raises(LabError, match=message):
        Network(conv=conv)


def test_images_of_another_dtype_are_converted(digits):
    net = Network()
    as_double = digits.images[:2].astype(np.float64)
    np.testing.assert_array_equal(net.forward(as_double), net.forward(digits.images[:2]))
    flipped = digits.images[:2, :, ::-1, :]  # not contiguous
    np.testing.assert_array_equal(net.forward(flipped), net.forward(flipped.copy()))
