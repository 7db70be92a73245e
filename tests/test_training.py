"""lenet86's training: its kernels, its gradients, its checkpoints, and the record of the shipped weights."""

import errno
import json
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import replace

import lenet86_float64 as float64
import numpy as np
import pytest
from lenet86_float64 import random_sizes
from typer.testing import CliRunner

import hostcuda
import labkit
from hostcuda import files
from hostcuda.errors import EngineError, Interrupted
from labkit.base.errors import LabError
from labkit.base.paths import cuda_src
from labkit.measure.check import CheckFailed
from labkit.networks import backprop
from labkit.networks import trainer as training
from labkit.networks.backprop import Lenet86
from labkit.networks.checkpoint import read_checkpoint, write_checkpoint
from labkit.networks.images import Dataset, cycle, resize
from labkit.networks.lenet86 import WEIGHT_SHAPES, load_weights, provenance
from labkit.networks.reference.layers import finite_differences
from labkit.networks.reference.lenet86 import LENET86, forward_numpy, initial_weights
from labkit.networks.trainer import Trainer, random_maps, train

pytestmark = pytest.mark.thorough("every kernel on every shape: minutes")


@pytest.fixture(scope="module")
def small():
    return labkit.dataset("digits", "train")


def of(images, **settings):
    """Return a trainer of a few steps."""
    return Trainer(images, **{"epochs": 2, "batch": 4, "seed": 3, **settings})


def test_initial_weights():
    weights = initial_weights(3)
    assert {name: w.shape for name, w in weights.items()} == WEIGHT_SHAPES
    assert {w.dtype for w in weights.values()} == {np.dtype(np.float32)}
    assert abs(weights["fc1"].std() / np.sqrt(2 / 1296) - 1) < 0.02
    assert (initial_weights(3)["conv2"] == weights["conv2"]).all()
    assert (initial_weights(4)["conv2"] != weights["conv2"]).any()


# ---------------------------------------------------------------------------------------------------------- gradients
def test_finite_differences():
    weights = {"a": np.array([1.0, -2.0, 0.5]), "b": np.ones((3, 4), np.float32)}

    def loss(w):
        return (w["a"] ** 3).sum() + w["a"][0] * w["b"].sum()

    differences = finite_differences(loss, weights, count=5)
    np.testing.assert_allclose(differences["a"], 3 * weights["a"] ** 2 + [12, 0, 0], rtol=1e-8)
    assert np.isnan(differences["b"]).sum() == 7
    np.testing.assert_allclose(differences["b"][~np.isnan(differences["b"])], 1, rtol=1e-8)
    assert (weights["a"] == [1.0, -2.0, 0.5]).all()
    with pytest.raises(LabError, match="element 0 of a: it has no gradient"), np.errstate(invalid="ignore"):
        finite_differences(lambda w: float(np.log(w["a"][0])), {"a": np.zeros(1)})


@pytest.mark.parametrize(
    ("sizes", "count"),
    [(LENET86, 3), *((random_sizes(np.random.default_rng(seed)), 40) for seed in (1, 2))],
)
def test_the_kernels_gradients_agree_with_finite_differences(sizes, count):
    rng = np.random.default_rng(6)
    weights = initial_weights(5, sizes)
    for bias in ("fc1_bias", "fc2_bias"):
        weights[bias] += rng.normal(0.3, 0.1, weights[bias].shape).astype(np.float32)
    images = rng.random((3, 1, sizes.H, sizes.W), np.float32)  # no two pixels of a window alike
    labels = rng.integers(0, sizes.classes, 3)
    with Lenet86(4, sizes=sizes) as model:
        model.weights = weights
        hostcuda.driver.memcpy_htod(model.x[0], images)
        model.forward(3)
        on_device, order = (model.memory.copy_in(array.astype(np.int32)) for array in (labels, np.arange(3)))
        model.backward(on_device, order, 3)
        loss, computed = model.losses(3).astype(np.float64).mean(), model.gradients.read()
    by_chain_rule = float64.gradients(weights, images, labels, sizes.pools)
    assert loss == pytest.approx(float64.loss(weights, images, labels, sizes.pools), rel=1e-5)
    loss_of = lambda w: float64.loss(w, images, labels, sizes.pools)
    by_differences = finite_differences(loss_of, weights, count, seed=7)
    assert set(computed) == set(weights) == set(by_differences)
    for name, gradient in computed.items():
        most = abs(by_chain_rule[name]).max()
        assert most > 0, name
        compared = ~np.isnan(by_differences[name])
        assert compared.sum() == min(count, compared.size)
        np.testing.assert_allclose(gradient[compared], by_differences[name][compared], rtol=1e-3, atol=2e-4 * most)
        np.testing.assert_allclose(gradient, by_chain_rule[name], rtol=1e-3, atol=2e-4 * most)


def test_the_loss_is_that_of_the_forward_pass():
    examples = labkit.dataset("digits", "train", size=86)
    weights = initial_weights(7)
    images, labels = examples.images[:3], examples.labels[:3]
    probabilities = forward_numpy(images, weights)
    expected = -np.log(probabilities[np.arange(3), labels]).mean()
    assert float64.loss(weights, images, labels) == pytest.approx(expected, rel=1e-5)


# ------------------------------------------------------------------------------------------------------------ kernels
def test_every_kernel_is_within_its_bound(capsys):
    report = labkit.check(float64.Kernels(), seed=2)
    text = (cuda_src() / "training/lenet86.cu").read_text()
    assert set(report.table["kernel"]) == {line.split("(")[0].split()[-1] for line in text.splitlines()
                                           if line.startswith('extern "C" __global__')}
    assert "PASS lenet86 in training:" in capsys.readouterr().out


WRONG = [  # what is right, what is wrong, the kernel and its array
    ("j * WINDOW + place % WINDOW;\n            #", "j * WINDOW;\n            #", "conv_weight_gradient"),
    ("(j == label)) / B", "(j == label))", "softmax_cross_entropy, d_scores"),
    ("momentum * v[i] + g[i]", "momentum * (v[i] + g[i])", "descend, momentum"),
    ("min(start + each, I)", "min(start + each, I - 1)", "fully_connected_parts"),
    # the others in `make thorough`: each compiles all kernels
    ("place = a * WINDOW + s", "place = s * WINDOW + a", "conv_relu_max_pool, winners"),
    ("d_x[at] = x[at] > 0 ? sum[c] : 0", "d_x[at] = sum[c]", "conv_data_gradient"),
    ("r < rows", "r < rows - 1", "sum_rows"),
    ("across = (i % W + 0.5f) / W - 0.5f", "across = (i % W) * 1.0f / W - 0.5f", "sample"),
    ("relu && sum < 0", "sum < 0", "fully_connected_sum, fc2"),
    ("j < I ? x[b * I + j] : 1)", "j < I ? x[b * I + j] : 0)", "fully_connected_weight_gradient"),
    ("w[j * O + o];\n    d_x", "w[o * I + j];\n    d_x", "fully_connected_data_gradient"),
    ("(scores[label] - most)", "scores[label]", "softmax_cross_entropy, loss"),
    ("w[i] -= rate * v[i]", "w[i] -= rate * g[i]", "descend, conv1"),
]


@pytest.mark.parametrize(
    ("right", "wrong", "kernel"),
    [pytest.param(*case, marks=pytest.mark.thorough if number >= 4 else ()) for number, case in enumerate(WRONG)],
)
def test_wrong_kernels_are_found(right, wrong, kernel, monkeypatch, tmp_path):
    text = (cuda_src() / "training/lenet86.cu").read_text()
    assert text.count(right) == 1
    (tmp_path / "training").mkdir()
    (tmp_path / "training/lenet86.cu").write_text(text.replace(right, wrong))
    monkeypatch.setattr("labkit.ladder.buffers.cuda_src", lambda: tmp_path)
    monkeypatch.setattr(backprop, "_kernels", backprop._kernels.__wrapped__)
    small = random_sizes(np.random.default_rng(1))  # compiled in less time
    with pytest.raises(CheckFailed, match=f"{kernel}.* is wrong"):
        labkit.check(float64.Kernels(small), quiet=True)


def test_images_are_sampled_as_resize_does(small):
    with Lenet86(3) as model:
        memory = model.memory
        images = memory.copy_in(small.images[:3])
        order, maps = memory.copy_in(np.int32([2, 0, 1])), memory.copy_in(np.float32([backprop.IDENTITY] * 3))
        model.sample(images, order, maps, 3, *small.images.shape[2:])
        sampled = memory.copy_out(model.x[0], (3, 1, 86, 86))
    np.testing.assert_allclose(sampled, resize(small.images[[2, 0, 1], 0], 86, white=1), atol=2e-6)


def test_random_maps():
    still = random_maps(np.random.RandomState(0), 5, turn=0, shift=0, scale=0, shear=0)
    assert still.dtype == np.float32
    assert (still == np.float32(backprop.IDENTITY).reshape(2, 3)).all()
    maps = random_maps(np.random.RandomState(0), 1000)
    assert (maps == random_maps(np.random.RandomState(0), 1000)).all()
    assert abs(maps[:, :, 2]).max() == pytest.approx(0.09, rel=0.01)
    np.testing.assert_allclose(maps.mean(axis=0), still[0], atol=0.02)


# ----------------------------------------------------------------------------------------------------------- training
def test_a_few_steps_reduce_the_loss(small):
    with of(cycle(small, 8), epochs=20, batch=8) as trainer:
        losses = list(trainer.run())
        assert losses == trainer.losses
        assert len(losses) == trainer.step == trainer.settings.steps == 20
    assert losses[-1] < 0.7 * losses[0]


def test_the_rate_rises_and_falls(small):
    for count, epochs, rise in ((10, 2, 3), (1437, 40, 90)):
        with Trainer(cycle(small, count), epochs=epochs, batch=4 if count == 10 else 32, rate=0.5) as trainer:
            steps = trainer.settings.steps
            rates = [trainer.rate(step) for step in range(steps)]
        assert np.argmax(rates) == rise - 1
        assert rates[0] == pytest.approx(0.5 / rise, rel=0.01) and 0 < rates[-1] < 0.1 * 0.5
        assert max(rates) == pytest.approx(0.25 * (1 + np.cos(np.pi * (rise - 1) / steps)))


def test_a_resumed_training_ends_at_the_same_bits(small, tmp_path):
    images = cycle(small, 10)  # batches of 4, 4 and 2
    with of(images) as trainer:
        steps = list(trainer.run())
        straight, momentum = trainer.model.weights, trainer.model.momentum.read()
    for stop in (1, 3, 5):
        with of(images) as first:
            for _ in zip(range(stop), first.run(), strict=False):
                pass
            first.save(tmp_path / "c")
        assert read_checkpoint(tmp_path / "c")[0]["step"] == stop
        with of(images) as second:
            second.resume(tmp_path / "c")
            assert list(second.run()) == steps[stop:]
            assert second.losses == steps
            assert all((second.model.weights[name] == w).all() for name, w in straight.items())
            assert all((second.model.momentum.read()[name] == v).all() for name, v in momentum.items())


CHILD = """
import os, signal, sys, time
import labkit
from labkit.networks.images import cycle
from labkit.networks.trainer import Trainer, train
out, checkpoint, moment = sys.argv[1:]
if moment != "no":
    original, calls = os.replace, 0
    def replace(part, path):
        global calls
        if os.fspath(path) != checkpoint:
            return original(part, path)
        calls += 1
        if moment == "while writing" and calls == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        original(part, path)
        time.sleep(600 if moment == "any time" and calls == 9 else 0.05)
    os.replace = replace
images = cycle(labkit.dataset("digits", "train"), 10)
with Trainer(images, seed=3, epochs=4, batch=4) as trainer:
    train(trainer, images, out, checkpoint, every=0)
"""


def test_a_killed_training_resumes_to_the_same_bits(small, tmp_path):
    checkpoint, images = tmp_path / "one.checkpoint", cycle(small, 10)

    def start(moment):
        command = [sys.executable, "-c", CHILD, str(tmp_path / "killed.npz"), str(checkpoint), moment]
        return subprocess.Popen(command, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})

    def killed_at(child):
        assert child.wait() == -signal.SIGKILL
        assert not (tmp_path / "killed.npz").exists()
        return read_checkpoint(checkpoint)[0]["step"]

    assert killed_at(start("while writing")) == 2
    second = start("any time")
    before = checkpoint.stat().st_mtime_ns
    while checkpoint.stat().st_mtime_ns == before:
        assert second.poll() is None
        time.sleep(0.01)
    time.sleep(random.uniform(0, 0.3))  # it waits after its ninth checkpoint, of step 11, at the latest
    second.kill()
    assert 3 <= killed_at(second) < 12
    assert start("no").wait() == 0
    assert not checkpoint.exists()

    with Trainer(images, seed=3, epochs=4, batch=4) as trainer:
        train(trainer, images, tmp_path / "straight.npz", tmp_path / "straight.checkpoint")
    straight, resumed = load_weights(tmp_path / "straight.npz"), load_weights(tmp_path / "killed.npz")
    assert all((straight[name] == resumed[name]).all() for name in WEIGHT_SHAPES)
    records = [json.loads((tmp_path / f"{name}.json").read_text()) for name in ("straight", "killed")]
    assert records[0]["first losses"] == records[1]["first losses"]


# ------------------------------------------------------------------------------------------------------ what can fail
def test_a_loss_of_nan_stops_and_keeps_the_checkpoint(small, tmp_path):
    images, path = cycle(small, 8), tmp_path / "c"
    with of(images, rate=1e9, epochs=20) as trainer, pytest.raises(LabError, match="lower rate than") as error:
        train(trainer, images, tmp_path / "w.npz", path, every=0)
    assert "of 40" in str(error.value)
    head, arrays = read_checkpoint(path)
    assert f"The checkpoint of step {head['step']} is kept: {path}" in str(error.value)
    assert all(np.isfinite(w).all() for w in arrays.values())
    assert not (tmp_path / "w.npz").exists()
    poisoned = Dataset(np.full((4, 1, 8, 8), np.nan, np.float32), images.labels[:4], "own", "own", "own", "own")
    with of(poisoned) as trainer, pytest.raises(LabError, match="loss is nan at step 1 of 2"):
        next(trainer.run())


@pytest.fixture
def half_done(small, tmp_path):
    """Write a checkpoint after a training's first step."""
    with of(cycle(small, 8)) as trainer:
        next(trainer.run())
        trainer.save(tmp_path / "half.checkpoint")
    return tmp_path / "half.checkpoint"


def test_a_record_says_one_thing_of_its_data(small, tmp_path):
    images = replace(cycle(small, 8), name="mnist", remark="files of here, not the published ones")
    with of(images) as trainer:
        _, record = train(trainer, images, tmp_path / "w.npz", tmp_path / "w.checkpoint")
    assert record["split"] == images.remark
    assert [name for name, text in record.items() if "published" in str(text)] == ["split"]


@pytest.mark.parametrize("name", ["w.npz", "w.json", "mine.txt"])
def test_what_no_training_has_written_is_not_replaced(small, tmp_path, name):
    (tmp_path / name).write_text("mine")
    images = cycle(small, 8)
    with of(images) as trainer, pytest.raises(LabError, match=r"w\.npz|mine\.txt"):
        train(trainer, images, tmp_path / "w.npz", tmp_path / "mine.txt", fresh=True)
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_text() == "mine"


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda content: content[:-100], "damaged: its SHA-256 differs"),
        (lambda content: content[:50], "damaged"),
        (lambda content: content[:-2000] + b"x" + content[-1999:], "damaged"),
        (lambda content: b"", "no checkpoint"),
        (lambda content: b"PK" + content, "no checkpoint"),
    ],
)
def test_a_damaged_checkpoint_is_refused(small, tmp_path, half_done, damage, message):
    content = damage(half_done.read_bytes())
    half_done.write_bytes(content)
    images = cycle(small, 8)
    with of(images) as trainer:
        with pytest.raises(LabError, match=message):
            train(trainer, images, tmp_path / "w.npz", half_done)
        assert half_done.read_bytes() == content
        assert trainer.step == 0
        train(trainer, images, tmp_path / "w.npz", half_done, fresh=True)
    load_weights(tmp_path / "w.npz")


def test_a_checkpoint_of_another_training_is_refused(small, tmp_path, half_done):
    images, content = cycle(small, 8), half_done.read_bytes()
    larger = replace(images, images=np.zeros((8, 1, 9, 7), np.float32))
    for data, changed, message in (
        (images, {"rate": 0.5}, f"rate {training.RATE} there, 0.5 here"),
        (images, {"rate": training.RATE + 1e-15}, f"rate {training.RATE} there"),
        (larger, {}, "image size 8 x 8 there, 9 x 7 here"),
        (cycle(small, 9), {}, "training images 8 there, 9 here"),
    ):
        with of(data, **changed) as trainer, pytest.raises(LabError, match=message):
            train(trainer, data, tmp_path / "w.npz", half_done)
    assert half_done.read_bytes() == content
    head, arrays = read_checkpoint(half_done)
    write_checkpoint(half_done, head | {"settings": head["settings"] | {"network": "lenet28"}}, arrays)
    with of(images) as trainer:
        with pytest.raises(LabError, match="network lenet28 there, lenet86 here"):
            trainer.resume(half_done)
        assert trainer.step == 0


@pytest.mark.parametrize("where", ["out", "checkpoint"])
def test_an_unwritable_folder_is_refused_before_the_first_step(small, tmp_path, where):
    (tmp_path / "file").write_text("")
    paths = {"out": tmp_path / "w.npz", "checkpoint": tmp_path / "c", where: tmp_path / "file" / "new.npz"}
    with of(cycle(small, 4)) as trainer:
        with pytest.raises(EngineError, match=r"cannot write to .*file"):
            train(trainer, small, **paths)
        assert trainer.step == 0


def test_without_a_cache_the_checkpoint_is_beside_the_weights(small, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("LABKIT_CACHE_DIR", str(tmp_path / "file" / "cache"))
    with of(cycle(small, 4)) as trainer:
        (tmp_path / f"lenet86-digits-{trainer.settings.digest}.checkpoint").mkdir()
        with pytest.raises(LabError, match=r"\.checkpoint is a folder"):
            train(trainer, small, out=tmp_path / "w.npz")


def test_ctrl_c_keeps_the_checkpoint(small, tmp_path):
    def stop(trainer):
        if trainer.step == 3:
            raise KeyboardInterrupt

    images, path = cycle(small, 8), tmp_path / "c"
    for every, note in ((1e9, "There is no checkpoint yet"), (0, f"The checkpoint of step 2 is kept: {path}"),
                        (1e9, f"The older checkpoint is unchanged: {path}")):
        with of(images) as trainer, pytest.raises(Interrupted) as stopped:
            train(trainer, images, tmp_path / "w.npz", path, fresh=True, every=every, progress=stop)
        assert str(stopped.value) == f"stopped at step 3 of 4. {note}"
    assert read_checkpoint(path)[0]["step"] == 2


def test_paths_and_intervals_that_cannot_be_are_refused_before_the_first_step(small, tmp_path):
    out, folder = tmp_path / "w.npz", tmp_path / "folder.npz"
    folder.mkdir()
    for options, message in (
        ({"out": tmp_path / "weights"}, r"path that ends with \.npz"),
        ({"out": folder}, "is a folder"),
        ({"checkpoint": folder}, "is a folder"),
        ({"checkpoint": folder / ".." / "w.npz"}, "which the weights and their record replace"),
        ({"checkpoint": tmp_path / "w.json"}, "which the weights and their record replace"),
        ({"every": float("nan")}, "every = nan makes no sense"),
    ):
        with of(cycle(small, 4)) as trainer:
            with pytest.raises(LabError, match=message):
                train(trainer, small, **{"out": out, "checkpoint": tmp_path / "c", **options})
            assert trainer.step == 0
    assert not out.exists()


class Full:
    """A file on a full disk."""

    def __init__(self, handle, mode):
        self.handle = handle

    def __enter__(self):
        return self

    def __exit__(self, *error):
        os.close(self.handle)

    def write(self, content):
        os.write(self.handle, content[:100])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_full_disk_loses_nothing(small, tmp_path, monkeypatch):
    images, checkpoint, out = cycle(small, 8), tmp_path / "c", tmp_path / "w.npz"
    out.write_bytes(b"older weights")
    out.with_suffix(".json").write_text('{"script": "labkit train"}')

    def full_at_step(step):
        def progress(trainer):
            if trainer.step == step:
                monkeypatch.setattr(files.os, "fdopen", Full)

        return progress

    with of(images) as trainer, pytest.raises(LabError, match=r"No space left.*checkpoint of step 2 is kept"):
        train(trainer, images, out, checkpoint, every=0, progress=full_at_step(3))
    monkeypatch.undo()
    assert read_checkpoint(checkpoint)[0]["step"] == 2
    assert {path.name for path in tmp_path.iterdir()} == {"c", "w.npz", "w.json"}

    for name in ("w.npz", "w.json"):  # full when this is written; the record, where there was none
        with of(images) as trainer:
            def write_when_full(path, content, name=name):
                if path.name == name:
                    monkeypatch.setattr(files.os, "fdopen", Full)
                return files.write(path, content)

            monkeypatch.setattr(training.manifest, "write", write_when_full)
            with pytest.raises(LabError, match=rf"{name}: No space left.*checkpoint of step 4 is kept"):
                train(trainer, images, out, checkpoint)
        monkeypatch.undo()
        if name == "w.npz":
            assert out.read_bytes() == b"older weights"
            out.unlink()
            out.with_suffix(".json").unlink()
    with of(images) as trainer:
        train(trainer, images, out, checkpoint)
        assert not checkpoint.exists()
        assert all((load_weights(out)[name] == w).all() for name, w in trainer.model.weights.items())


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"network": "lenet5"}, "no network 'lenet5' to train; choose from: lenet86"),
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
        of(cycle(small, 4), **setting)
    with pytest.raises(LabError, match=message):
        Trainer("a data set that would be downloaded", **setting)


def test_settings_of_numpy_are_those_of_python(small):
    settings = {"epochs": np.int64(2), "batch": np.int32(4), "rate": np.float64(0.03)}
    with of(cycle(small, 4), **settings) as trainer, of(cycle(small, 4), rate=0.03) as same:
        assert trainer.settings.digest == same.settings.digest


def test_unknown_labels_are_refused(small):
    with pytest.raises(LabError, match="labels from 11 to 11; lenet86 knows 0 to 9"):
        of(replace(cycle(small, 2), labels=np.array([11, 11])))


# -------------------------------------------------------------------------------------------------------- the command
def test_the_command_writes_weights_and_their_record(small, monkeypatch, tmp_path):
    from labkit.cli import app

    few = {"train": cycle(small, 10), "test": cycle(small, 5)}
    monkeypatch.setattr(training, "dataset", lambda name, split: few[split])
    monkeypatch.setenv("LABKIT_CACHE_DIR", str(tmp_path / "cache"))
    out = tmp_path / "new" / "few.npz"
    options = ["train", "--epochs", "2", "--batch", "4", "--seed", "2", "--out", str(out), "--every", "0"]
    result = CliRunner().invoke(app, options, catch_exceptions=False)
    assert result.exit_code == 0
    assert "on the 5 held-out ones (the last 360 of the 1797 images are held out, as a block)" in result.output
    assert sorted(path.name for path in out.parent.iterdir()) == ["few.json", "few.npz"]
    record = provenance(out)
    assert (record["seed"], record["epochs"], record["training images"], record["momentum"]) == (2, 2, 10, 0.9)
    assert len(record["first losses"]) == 5
    assert record["device"].endswith(f"({labkit.device().engine})")
    first = load_weights(out)
    assert (first["conv1"] != initial_weights(2)["conv1"]).all()
    assert not list((tmp_path / "cache" / "checkpoints").iterdir())

    content = out.read_bytes()
    CliRunner().invoke(app, [*options, "--fresh"], catch_exceptions=False)
    assert out.read_bytes() == content  # the same settings, the same weights
    out.write_bytes(content[:-100])
    with pytest.raises(LabError, match="SHA-256 differs"):
        load_weights(out)


def test_ctrl_c_in_the_command_says_what_is_kept(monkeypatch, tmp_path):
    from labkit.cli import app

    def step(trainer):
        raise KeyboardInterrupt

    monkeypatch.setattr(Trainer, "run", step)
    result = CliRunner().invoke(app, ["train", "--out", str(tmp_path / "w.npz"), "--checkpoint", str(tmp_path / "c")])
    assert result.exit_code == 130
    assert result.stderr.endswith("labkit: stopped at step 0 of 1800. There is no checkpoint yet\n")


def test_the_help_has_the_defaults():
    from labkit.cli import app

    text = " ".join(CliRunner().invoke(app, ["train", "--help"]).output.split())
    assert ", ".join(training.NETWORKS) in text
    epochs = training.EPOCHS
    assert "digits, fashion-mnist or mnist" in text and len(epochs) == 3
    assert f"{epochs['digits']} of the digits, {epochs['fashion-mnist']} of fashion-mnist, {epochs['mnist']} of" in text
    assert f"rate; {training.RATE} by default" in text
    assert f"{training.BATCH} by default" in text and f"{training.MOMENTUM} by default" in text


def test_the_command_says_what_is_missing(monkeypatch, tmp_path):
    from labkit.cli import app

    monkeypatch.setenv("LABKIT_DATA_DIR", str(tmp_path))
    with pytest.raises(LabError, match=r"has no train-images-idx3-ubyte\.gz"):
        CliRunner().invoke(app, ["train", "--dataset", "mnist"], catch_exceptions=False)


# ------------------------------------------------------------------------------------------------ the shipped weights
def test_the_recorded_seed_gives_the_recorded_losses(small):
    record = provenance()
    if record["script"] != f"labkit train, version {training.VERSION}":
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
