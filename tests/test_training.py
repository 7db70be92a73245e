"""lenet86's training: the gradients, the descent, and the record of how the shipped weights came about."""

import json

import numpy as np
import pytest

import labkit
from labkit.base.errors import LabError
from labkit.network.images import cycle
from labkit.network.lenet86 import WEIGHT_SHAPES, forward_numpy, load_weights, provenance
from labkit.network.training import Adam, distort, initial_weights, loss_and_gradients, random_state, train
from recording import weights as recorder


@pytest.fixture(scope="module")
def examples():
    return labkit.dataset("digits", "train", size=86)


@pytest.fixture(scope="module")
def small():
    return labkit.dataset("digits", "train")


def test_initial_weights():
    weights = initial_weights(3)
    assert {name: w.shape for name, w in weights.items()} == WEIGHT_SHAPES
    assert {w.dtype for w in weights.values()} == {np.dtype(np.float32)}
    assert abs(weights["fc1"].std() / np.sqrt(2 / 1296) - 1) < 0.02
    assert (initial_weights(3)["conv2"] == weights["conv2"]).all()
    assert (initial_weights(4)["conv2"] != weights["conv2"]).any()


@pytest.mark.parametrize("name", WEIGHT_SHAPES)
def test_gradients_agree_with_finite_differences(examples, name):
    weights = initial_weights(5, np.float64)
    random = np.random.default_rng(6)
    for bias in ("fc1_bias", "fc2_bias"):
        weights[bias] += random.normal(0, 0.1, weights[bias].shape)
    images = examples.images[10:12] + random.normal(0, 0.01, (2, 1, 86, 86))  # no two pixels of a window alike
    labels = examples.labels[10:12]
    _, gradients, _ = loss_and_gradients(weights, images, labels)

    flat, gradient = weights[name].reshape(-1), gradients[name].reshape(-1)
    largest = np.argsort(-np.abs(gradient))[:2]
    step = 1e-5
    for i in (*largest, *random.choice(flat.size, 2)):
        original = flat[i]
        flat[i] = original + step
        above = loss_and_gradients(weights, images, labels)[0]
        flat[i] = original - step
        below = loss_and_gradients(weights, images, labels)[0]
        flat[i] = original
        assert (above - below) / (2 * step) == pytest.approx(gradient[i], rel=1e-4, abs=1e-7)


def test_the_loss_is_that_of_the_forward_pass(examples):
    weights = initial_weights(7)
    images, labels = examples.images[:9], examples.labels[:9]
    loss, _, correct = loss_and_gradients(weights, images, labels)
    probabilities = forward_numpy(images, weights)
    assert loss == pytest.approx(-np.log(probabilities[np.arange(9), labels]).mean(), rel=1e-5)
    assert correct == (probabilities.argmax(axis=1) == labels).sum()


def test_adam_takes_its_first_step_at_the_full_rate():
    weights = {"w": np.array([1.0, -2.0, 3.0])}
    Adam(weights).step({"w": np.array([0.5, -1e-3, 0.0])}, rate=0.1)
    np.testing.assert_allclose(weights["w"], [0.9, -1.9, 3.0], atol=1e-4)


def test_distort(examples):
    images = examples.images[:4]
    still = distort(images, random_state(0), angle=0, shift=0, scale=0, shear=0)
    np.testing.assert_allclose(still, images, atol=1e-5)
    moved = distort(images, random_state(0))
    assert moved.shape == images.shape
    assert moved.dtype == np.float32
    assert moved.min() >= 0
    assert moved.max() <= 1
    assert np.abs(moved - images).max() > 0.5
    assert (distort(images, random_state(0)) == moved).all()


def test_distort_shifts_by_whole_pixels():
    class OnePixelDown:
        """Draws the bound itself for the vertical shift (the third amount), and 0 for the others."""

        drawn = 0

        def uniform(self, low, high, shape):
            self.drawn += 1
            return np.full(shape, high if self.drawn == 3 else 0.0)

    image = np.random.default_rng(0).random((1, 1, 10, 12), np.float32)
    moved = distort(image, OnePixelDown(), shift=0.1)  # a tenth of 10 rows: each pixel looks one row further down
    np.testing.assert_allclose(moved[0, 0, :-1], image[0, 0, 1:], atol=1e-5)
    np.testing.assert_allclose(moved[0, 0, -1], 0, atol=1e-5)


def test_a_few_steps_reduce_the_loss(small):
    weights = initial_weights(8)
    losses = [loss for *_, loss in train(weights, small.images[:8], small.labels[:8], 10, 8, batch=8, rate=3e-3)]
    assert len(losses) == 10
    assert losses[-1] < 0.7 * losses[0]


def test_the_recorded_seed_gives_the_recorded_losses(small):
    record = provenance()
    seed, epochs, batch, rate = (record[name] for name in ("seed", "epochs", "batch", "rate"))
    steps = train(initial_weights(seed), small.images, small.labels, epochs, seed, batch, rate)
    losses = [loss for _, (*_, loss) in zip(range(3), steps, strict=False)]
    # Another BLAS sums in another order, and every step hands its rounding errors on to the next.
    assert losses == pytest.approx(record["first losses"][:3], rel=2e-3)


def test_the_shipped_weights_are_as_good_as_recorded():
    record, test = provenance(), labkit.dataset(size=86)
    assert record["held-out images"] == len(test) == 360
    assert record["held-out accuracy"] >= 0.95
    right = forward_numpy(test.images, load_weights()).argmax(axis=1) == test.labels
    assert right.mean() == pytest.approx(record["held-out accuracy"], abs=1.5 / 360)


# --------------------------------------------------------------------------------------------------------- the recorder
def test_the_recorder_writes_weights_and_their_record(small, monkeypatch, tmp_path):
    few = {"train": cycle(small, 10), "test": cycle(small, 5)}
    monkeypatch.setattr(recorder, "dataset", lambda name, split: few[split])
    out = tmp_path / "new" / "few.npz"
    options = {"epochs": 1, "batch": 2, "seed": 2, "out": out}
    recorder.weights(**options)
    first = out.read_bytes()
    assert sorted(path.name for path in out.parent.iterdir()) == ["few.json", "few.npz"]
    record = json.loads(out.with_suffix(".json").read_text())
    assert (record["seed"], record["epochs"], record["training images"]) == (2, 1, 10)
    assert len(record["first losses"]) == 5
    weights = load_weights(out)
    assert (weights["conv1"] != initial_weights(2)["conv1"]).all()

    recorder.weights(**options)  # the same options, the same weights
    again = load_weights(out)
    for name in WEIGHT_SHAPES:
        np.testing.assert_allclose(again[name], weights[name], rtol=1e-4, atol=1e-5)

    out.write_bytes(first[:-100])
    with pytest.raises(LabError, match="SHA-256 differs"):
        load_weights(out)


def test_the_recorder_says_what_is_missing(monkeypatch, tmp_path):
    monkeypatch.setenv("LABKIT_DATA_DIR", str(tmp_path))
    with pytest.raises(LabError, match=r"has no train-images-idx3-ubyte\.gz"):
        recorder.weights("mnist")
