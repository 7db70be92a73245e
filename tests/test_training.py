"""lenet86's training: its kernels, its gradients, and the record of the shipped weights."""

import random
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

import hostcuda
import labkit
from hostcuda import files
from hostcuda.errors import EngineError
from labkit.base.errors import LabError
from labkit.base.paths import cuda_src
from labkit.ladder.buffers import Buffers
from labkit.networks.images import Dataset, cycle
from labkit.networks.lenet86 import WEIGHT_SHAPES, load_weights, provenance
from labkit.networks.reference.layers import finite_differences
from labkit.networks.reference.lenet86 import LENET86, Lenet86Sizes, forward_numpy, initial_weights
from labkit.spec.reference import conv_float64
from recording import backprop
from recording import train as training
from recording.__main__ import app
from recording.backprop import Lenet86
from recording.train import Trainer, draw_affine_maps, train_to_end

pytestmark = pytest.mark.thorough("every kernel on every shape: minutes")


@pytest.fixture(scope="module")
def small():
    return labkit.dataset("digits", "train")


def make_trainer(images, **settings):
    """Return a trainer of a few steps."""
    return Trainer(images, **{"epochs": 2, "batch": 4, "seed": 3, **settings})


# ---------------------------------------------------------------------------------------- gradients
def test_finite_differences():
    weights = {"a": np.array([1.0, -2.0, 0.5]), "b": np.ones((3, 4), np.float32)}

    def loss(w):
        return (w["a"] ** 3).sum() + w["a"][0] * w["b"].sum()

    differences = finite_differences(loss, weights, count=5)
    np.testing.assert_allclose(differences["a"], 3 * weights["a"] ** 2 + [12, 0, 0], rtol=1e-8)
    assert np.isnan(differences["b"]).sum() == 7
    np.testing.assert_allclose(differences["b"][~np.isnan(differences["b"])], 1, rtol=1e-8)
    assert (weights["a"] == [1.0, -2.0, 0.5]).all()
    with (
        pytest.raises(LabError, match="element 0 of a: it has no gradient"),
        np.errstate(invalid="ignore"),
    ):
        finite_differences(lambda w: float(np.log(w["a"][0])), {"a": np.zeros(1)})


def random_sizes(seed):
    """Draw the sizes of a small network: odd, not square, with windows that extend beyond the edge."""
    rng = np.random.default_rng(seed)
    draw = lambda low, high: int(rng.integers(low, high))
    convolutions = tuple((draw(1, 8), draw(1, 6), draw(1, 5)) for _ in range(2))
    return Lenet86Sizes(draw(22, 40), draw(22, 40), convolutions, draw(3, 40), draw(2, 14))


def poisoned(new):
    """Fill new device buffers with 0xFF: floats are NaN, and the place of a winner is 255, which no window has."""

    def filled(self, shape, dtype=np.float32):
        """Allocate a buffer, and fill it with NaN."""
        buffer = new(self, shape, dtype)
        hostcuda.driver.memset_d8(buffer, 0xFF, int(np.prod(shape)) * np.dtype(dtype).itemsize)
        return buffer

    return filled


def sample(image, affine, H, W):
    """Sample an image bilinearly, with 0 outside; return also where rounding does not decide what is outside."""
    from scipy.ndimage import map_coordinates  # here: it takes long to import

    down, across = np.meshgrid(
        (np.arange(H) + 0.5) / H - 0.5, (np.arange(W) + 0.5) / W - 0.5, indexing="ij"
    )
    places = [
        (a * down + b * across + c + 0.5) * length - 0.5
        for (a, b, c), length in zip(
            affine.astype(np.float64).reshape(2, 3), image.shape, strict=True
        )
    ]
    beyond = np.max(
        [
            np.maximum(-place, place - length + 1)
            for place, length in zip(places, image.shape, strict=True)
        ],
        axis=0,
    )
    values = map_coordinates(image.astype(np.float64), places, order=1, mode="nearest")
    return np.where(beyond > 0.5, 0, values), np.abs(beyond - 0.5) > 1e-4


def check_step(sizes, count, monkeypatch):
    """Run a step; assert that each gradient agrees with finite differences, and all else with its formula."""
    rng, B = np.random.default_rng(6), 3
    weights, momentum = initial_weights(5, sizes), initial_weights(4, sizes)
    for bias in ("fc1_bias", "fc2_bias"):
        weights[bias] += rng.normal(0.3, 0.1, weights[bias].shape).astype(np.float32)
    small = rng.random((4, *rng.integers(3, 12, 2)), np.float32)
    images = rng.random((B, 1, sizes.H, sizes.W), np.float32)  # no two pixels of a window alike
    maps = (np.float32(backprop.IDENTITY) + rng.uniform(-0.3, 0.3, (B, 6))).astype(np.float32)
    chosen, labels = (
        rng.integers(0, most).astype(np.int32) for most in ([4] * B, [sizes.classes] * 4)
    )
    monkeypatch.setattr(Buffers, "new", poisoned(Buffers.new))
    with Lenet86(B + 1, sizes=sizes) as model:  # room for one image more than there are
        model.weights = weights
        model.momentum.write(momentum)
        order = model.memory.copy_in(chosen)
        model.sample(
            model.memory.copy_in(small), order, model.memory.copy_in(maps), B, *small.shape[1:]
        )
        for sampled, number, affine in zip(
            model.memory.copy_out(model.x[0], images[:, 0].shape), chosen, maps, strict=True
        ):
            expected, certain = sample(small[number], affine, sizes.H, sizes.W)
            np.testing.assert_allclose(sampled[certain], expected[certain], atol=1e-4)
        hostcuda.driver.memcpy_htod(model.x[0], images)
        model.forward(B)
        model.backward(model.memory.copy_in(labels), order, B)
        losses, computed = model.losses(B).astype(np.float64), model.gradients.read()
        model.descend(0.03, 0.9)
        velocity, after = model.momentum.read(), model.weights

    def loss(w):
        probabilities = forward_numpy(images.astype(np.float64), w, conv_float64, sizes.pools)
        return -np.log(probabilities[np.arange(B), labels[chosen]]).mean()

    assert losses.mean() == pytest.approx(loss(weights), rel=1e-5)
    by_differences = finite_differences(loss, weights, count)
    for name, gradient in computed.items():
        most = abs(gradient).max()
        assert most > 0, name
        compared = ~np.isnan(by_differences[name])
        assert compared.sum() == min(count, compared.size)
        np.testing.assert_allclose(
            gradient[compared], by_differences[name][compared], rtol=1e-3, atol=2e-4 * most
        )
        assert np.isfinite(gradient).all()
        np.testing.assert_allclose(
            velocity[name], 0.9 * momentum[name] + gradient, rtol=1e-5, atol=1e-6 * most
        )
        np.testing.assert_allclose(
            after[name], weights[name] - 0.03 * velocity[name], rtol=1e-5, atol=1e-6 * most
        )


# ------------------------------------------------------------------------------------------ kernels
@pytest.mark.parametrize(
    ("sizes", "count"), [(LENET86, 3), (random_sizes(1), 40), (random_sizes(2), 40)]
)
def test_a_step_is_that_of_float64_and_its_gradients_are_finite_differences(
    sizes, count, monkeypatch
):
    check_step(sizes, count, monkeypatch)


WRONG = [  # what is right, what is wrong
    ("j * WINDOW + place % WINDOW;\n            #", "j * WINDOW;\n            #"),
    ("(j == label)) / B", "(j == label))"),
    ("momentum * v[i] + g[i]", "momentum * (v[i] + g[i])"),
    ("min(start + each, I)", "min(start + each, I - 1)"),
    ("place = a * WINDOW + s", "place = s * WINDOW + a"),
    ("d_x[at] = x[at] > 0 ? sum[c] : 0", "d_x[at] = sum[c]"),
    ("r < rows", "r < rows - 1"),
    ("across = (i % W + 0.5f) / W - 0.5f", "across = (i % W) * 1.0f / W - 0.5f"),
    ("relu && sum < 0", "sum < 0"),
    ("j < I ? x[b * I + j] : 1)", "j < I ? x[b * I + j] : 0)"),
    ("w[j * O + o];\n    d_x", "w[o * I + j];\n    d_x"),
    ("(scores[label] - most)", "scores[label]"),
    ("w[i] -= rate * v[i]", "w[i] -= rate * g[i]"),
]


DRAWN = random.Random("wrong kernels").sample(WRONG, 4)
OTHERS = pytest.mark.exhaustive("the other wrong kernels")


@pytest.mark.parametrize(
    ("right", "wrong"),
    [pytest.param(*edit, marks=() if edit in DRAWN else OTHERS) for edit in WRONG],
)
def test_wrong_kernels_are_found(right, wrong, monkeypatch, tmp_path):
    text = (cuda_src() / "training/lenet86.cu").read_text()
    assert text.count(right) == 1
    (tmp_path / "training").mkdir()
    (tmp_path / "training/lenet86.cu").write_text(text.replace(right, wrong))
    monkeypatch.setattr("labkit.ladder.buffers.cuda_src", lambda: tmp_path)
    monkeypatch.setattr(backprop, "_compile_kernels", backprop._compile_kernels.__wrapped__)
    with pytest.raises(AssertionError):
        check_step(random_sizes(1), 10, monkeypatch)


def test_random_maps():
    maps = draw_affine_maps(np.random.RandomState(0), 1000)
    assert maps.dtype == np.float32
    assert (maps == draw_affine_maps(np.random.RandomState(0), 1000)).all()
    assert abs(maps[:, :, 2]).max() == pytest.approx(0.09, rel=0.01)
    np.testing.assert_allclose(maps.mean(axis=0), np.reshape(backprop.IDENTITY, (2, 3)), atol=0.02)


# ----------------------------------------------------------------------------------------- training
def test_a_few_steps_reduce_the_loss(small):
    with make_trainer(cycle(small, 8), epochs=20, batch=8) as trainer:
        losses = list(trainer.run())
        assert losses == trainer.losses
        assert len(losses) == trainer.step == trainer.steps == 20
    assert losses[-1] < 0.7 * losses[0]


def test_the_rate_rises_and_falls(small):
    for count, epochs, rise in ((10, 2, 3), (1437, 40, 90)):
        with Trainer(
            cycle(small, count), epochs=epochs, batch=4 if count == 10 else 32, rate=0.5
        ) as trainer:
            steps = trainer.steps
            rates = [trainer.rate(step) for step in range(steps)]
        assert np.argmax(rates) == rise - 1
        assert rates[0] == pytest.approx(0.5 / rise, rel=0.01) and 0 < rates[-1] < 0.1 * 0.5
        assert max(rates) == pytest.approx(0.25 * (1 + np.cos(np.pi * (rise - 1) / steps)))


def test_the_same_settings_give_the_same_bits(small):
    images = cycle(small, 10)  # batches of 4, 4 and 2
    with (
        make_trainer(images) as first,
        make_trainer(images, epochs=np.int64(2), rate=np.float64(training.RATE)) as second,
    ):
        assert list(first.run()) == list(second.run())
        assert all(
            (second.model.weights[name] == w).all() for name, w in first.model.weights.items()
        )


# ------------------------------------------------------------------------------------ what can fail
def test_a_loss_of_nan_stops_and_writes_nothing(small, tmp_path):
    with (
        make_trainer(cycle(small, 8), rate=1e9, epochs=20) as trainer,
        pytest.raises(LabError, match="lower rate than"),
    ):
        train_to_end(trainer, small, tmp_path)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]
    poisoned = Dataset(
        np.full((4, 1, 8, 8), np.nan, np.float32), small.labels[:4], "own", "own", "own", "own"
    )
    with (
        make_trainer(poisoned) as trainer,
        pytest.raises(LabError, match="loss is nan at step 1 of 2"),
    ):
        next(trainer.run())


def test_files_that_no_training_has_written_are_refused_before_the_first_step(small, tmp_path):
    (tmp_path / "file").write_text("mine")
    for name in ("npz", "json"):
        (tmp_path / name / "weights").mkdir(parents=True)
        (tmp_path / name / "weights" / f"lenet86-digits.{name}").write_text("mine")
    for folder, message in (
        ("file", r"cannot write to .*file"),
        ("npz", r"digits\.npz, or its record"),
        ("json", r"digits\.npz, or its record"),
    ):
        with make_trainer(cycle(small, 4)) as trainer:
            with pytest.raises(EngineError, match=message):
                train_to_end(trainer, small, tmp_path / folder)
            assert trainer.step == 0
    assert {path.read_text() for path in tmp_path.rglob("*") if path.is_file()} == {"mine"}
    assert len([path for path in tmp_path.rglob("*") if path.is_file()]) == 3


def test_weights_without_their_record_do_not_stay(small, tmp_path, monkeypatch):
    def full(path, content):
        """Write a file; for a record the disk is full."""
        if path.suffix == ".json":
            raise EngineError(f"{path}: No space left on device")
        return files.write(path, content)

    monkeypatch.setattr(training.manifest, "write", full)
    with (
        make_trainer(cycle(small, 8)) as trainer,
        pytest.raises(EngineError, match="No space left"),
    ):
        train_to_end(trainer, small, tmp_path)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"epochs": 0}, "epochs = 0 makes no sense: give a whole number, 1 or more"),
        ({"epochs": 1.5}, r"epochs = 1\.5"),
        ({"batch": 0}, "batch = 0"),
        ({"rate": float("nan")}, "rate = nan"),
        ({"momentum": 1.0}, r"momentum = 1\.0"),
        ({"seed": -1}, "seed = -1"),
    ],
)
def test_senseless_settings_are_refused(small, setting, message):
    with pytest.raises(LabError, match=message):
        make_trainer(cycle(small, 4), **setting)
    with pytest.raises(LabError, match=message):
        Trainer("a data set that would be downloaded", **setting)


def test_unknown_labels_are_refused(small):
    with pytest.raises(LabError, match="labels from 11 to 11; lenet86 knows 0 to 9"):
        make_trainer(replace(cycle(small, 2), labels=np.array([11, 11])))


# -------------------------------------------------------------------------------------- the command
def test_the_command_writes_weights_and_their_record(small, monkeypatch, tmp_path):
    few = {"train": cycle(small, 10), "test": cycle(small, 5)}
    monkeypatch.setattr(training, "dataset", lambda name, split: few[split])
    out = tmp_path / "new" / "weights" / "lenet86-digits.npz"
    options = [
        "train",
        "--epochs",
        "2",
        "--batch",
        "4",
        "--seed",
        "2",
        "--out",
        str(tmp_path / "new"),
    ]
    result = CliRunner().invoke(app, options, catch_exceptions=False)
    assert result.exit_code == 0
    assert (
        "on the 5 held-out ones (the last 360 of the 1797 images are held out, as a block)"
        in result.output
    )
    assert sorted(path.name for path in out.parent.iterdir()) == [
        "lenet86-digits.json",
        "lenet86-digits.npz",
    ]
    record = provenance(out)
    assert (record["seed"], record["epochs"], record["training images"], record["momentum"]) == (
        2,
        2,
        10,
        0.9,
    )
    assert len(record["first losses"]) == 5
    assert record["device"].endswith(f"({labkit.device().engine})")
    first, initial = load_weights(out), initial_weights(2)
    assert (first["conv1"] != initial["conv1"]).all() and (
        initial["conv2"] == initial_weights(2)["conv2"]
    ).all()
    assert {name: w.shape for name, w in initial.items()} == WEIGHT_SHAPES
    assert abs(initial["fc1"].std() / np.sqrt(2 / 1296) - 1) < 0.02

    content = out.read_bytes()
    CliRunner().invoke(app, options, catch_exceptions=False)
    assert out.read_bytes() == content  # the same settings, the same weights
    out.write_bytes(content[:-100])
    with pytest.raises(LabError, match="SHA-256 differs"):
        load_weights(out)


def test_the_command_says_what_is_missing(monkeypatch, tmp_path):
    monkeypatch.setenv("LABKIT_DATA_DIR", str(tmp_path))
    with pytest.raises(LabError, match=r"has no train-images-idx3-ubyte\.gz"):
        CliRunner().invoke(app, ["train", "--dataset", "mnist"], catch_exceptions=False)


# ------------------------------------------------------------------------------ the shipped weights
def test_the_recorded_seed_gives_the_recorded_losses(small):
    record = provenance()
    if not record["script"].endswith(f" train, version {training.VERSION}"):
        pytest.skip(f"the shipped weights were made by {record['script']}")
    settings = {name: record[name] for name in ("seed", "epochs", "batch", "rate", "momentum")}
    with Trainer(small, **settings) as trainer:
        losses = [loss for _, loss in zip(range(3), trainer.run(), strict=False)]
    # Another engine rounds in another way, and every step hands its rounding errors on to the next.
    assert losses == pytest.approx(record["first losses"][:3], rel=2e-3)


def test_the_shipped_weights_are_as_good_as_recorded():
    record, test = provenance(), labkit.dataset(size=86)
    assert record["held-out images"] == len(test) == 360
    assert record["held-out accuracy"] >= 0.95
    right = forward_numpy(test.images, load_weights()).argmax(axis=1) == test.labels
    assert right.mean() == pytest.approx(record["held-out accuracy"], abs=1.5 / 360)
