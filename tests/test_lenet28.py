"""lenet28: every kernel of every experiment against float64, the gradients against differences, and training."""

import sys

import numpy as np
import pytest

import hostcuda
from hostcuda.errors import EngineError
from hostcuda.sanitize import watch as sanitize
from hostcuda.source import kernel_names
from labkit.base.errors import LabError
from labkit.measure.check import CheckFailed, check
from labkit.networks import lenet28
from labkit.networks.images import dataset
from labkit.networks.lenet28 import Lenet28
from labkit.networks.lenet28_experiments import EXPERIMENTS, FILES
from labkit.networks.reference.layers import finite_differences
from labkit.networks.reference.lenet28 import Sizes, forward, gradients, initial_weights, loss
from labkit.records.training import read_training
from recording import training as recorder
from recording.keep import record_training
from recording.training import (
    PATTERNS,
    measure_contention_us,
    measure_kernels_us,
    measure_launch_us,
)

pytestmark = pytest.mark.thorough("every kernel on every shape: minutes")

SMALL = Sizes(side=11, K=4, maps=3, pool=2, classes=5)


def data(count=4, sizes=SMALL, seed=0):
    """Return random images [count, 1, side, side], and a label for each."""
    rng = np.random.default_rng(seed)
    images = rng.random((count, 1, sizes.side, sizes.side)).astype(np.float32)
    return images, rng.integers(0, sizes.classes, count)


# ---- the reference
def test_the_gradient_of_every_parameter_agrees_with_differences_of_the_loss():
    images, labels = data()
    weights = {name: w.astype(np.float64) for name, w in initial_weights(3, SMALL).items()}
    weights["c1"] *= 2  # so that the slopes differ
    by_rule = gradients(weights, images[:, 0].astype(np.float64), labels)
    by_differences = finite_differences(lambda w: loss(w, images[:, 0], labels), weights)
    assert by_rule.keys() == SMALL.weights.keys()
    for name, shape in SMALL.weights.items():
        assert by_rule[name].shape == shape
        assert np.abs(by_rule[name]).max() > 1e-3
        np.testing.assert_allclose(
            by_rule[name], by_differences[name], rtol=1e-6, atol=1e-8, err_msg=name
        )


# ---- the kernels
@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_every_kernel_of_an_experiment_is_right_on_lenet28_and_on_random_sizes(experiment):
    with Lenet28(experiment, 3 if EXPERIMENTS[experiment].batches else 1) as model:
        report = check(model, quiet=True)
    shapes = {array.split(", ", 2)[2] for array in report.table["array"]}
    batches = {int(shape.rpartition(" ")[2]) for shape in shapes}
    assert (max(batches) > lenet28.MOST_ROWS) == EXPERIMENTS[experiment].batches
    assert len(shapes) == 3 and any(
        "side 28, K 5, 6 maps, pool 4, 10 classes" in shape for shape in shapes
    )
    assert {array.split(", ")[1] for array in report.table["array"]} >= {
        *SMALL.weights,
        *SMALL.values,
    }
    assert set(report.table["kernel"]) <= set(EXPERIMENTS[experiment].kernels)
    assert report.worst > 0


WRONG = {  # kernel -> old text, new text
    "fp_c1": ("q < K", "q < K - 1"),
    "fp_s1": ("sigmoid(*y)", "*y"),
    "fp_f": ("labels[order[b]] == o", "labels[b] == o"),
    "bp_weight_f": ("*sum += values[b].d_f[o]", "*sum += values[0].d_f[o]"),
    "bp_s1": ("*d *= slope", "*d *= sigmoid"),
    "bp_weight_s1": ("w * POOL + q]", "w * POOL + p]"),
    "bp_c1": ("weights->s1[h % POOL][w % POOL]", "weights->s1[w % POOL][h % POOL]"),
    "bp_weight_c1": ("B * POSITIONS", "B * POSITIONS - 1"),
    "update": ("*g = 0", "*g *= 0.5f"),
}


@pytest.mark.parametrize("kernel", WRONG)
def test_a_wrong_kernel_is_refused_by_its_name(kernel, monkeypatch):
    arguments = lenet28._compiler_arguments

    def changed(file, sizes):
        """Return the compiler's arguments, with a mistake in the kernel."""
        inputs = arguments(file, sizes)
        if file == "loops":
            before, after = inputs["source"].split(f" {kernel}(")
            assert WRONG[kernel][0] in after
            inputs["source"] = f"{before} {kernel}({after.replace(*WRONG[kernel], 1)}"
        return inputs

    lenet28._compile.cache_clear()
    monkeypatch.setattr(lenet28, "_compiler_arguments", changed)
    monkeypatch.setattr(lenet28, "random_sizes", lambda seed: [SMALL, SMALL])
    try:
        with pytest.raises(CheckFailed, match=f"lenet28 loops, batch 2: {kernel}, .* is wrong"):
            check(Lenet28("loops", 2, sizes=SMALL))
    finally:
        lenet28._compile.cache_clear()


def test_the_table_of_files_is_that_of_the_folder():
    for file, kernels in FILES.items():
        text = lenet28._path("minibatch" if file == "deterministic" else file).read_text()
        assert sorted(kernels) == sorted(kernel_names(text)), file
    assert {path.stem for path in lenet28._path("loops").parent.glob("*.cu")} == {*FILES}


ALONE = (
    "loops",
    "register",
    "unrolled",
    "constant_input",
)  # no thread reads what another of its launch has written


def assert_clean(model):
    """Assert that a step of the model, in a process of its own, has no invalid access and no race."""
    report = sanitize(model._build_command(), engine="cpu", capture=True)
    assert report.clean and not report.ended.problem, report


@pytest.mark.parametrize("experiment", [name for name in EXPERIMENTS if name not in ALONE])
def test_a_step_has_no_races(experiment):
    with Lenet28(experiment, 3 if EXPERIMENTS[experiment].batches else 1) as model:
        assert_clean(model)


@pytest.mark.parametrize("experiment", ["minibatch", "deterministic"])
def test_a_block_that_takes_several_images_has_no_races(experiment):
    with Lenet28(experiment, lenet28.MOST_ROWS + 2, sizes=SMALL) as model:
        assert_clean(model)


EPOCH = """
import sys, numpy as np
from labkit.networks.lenet28 import Lenet28, Sizes
with Lenet28("one_launch", sizes=Sizes(11, 4, 3, 2, 5), own=sys.argv[1]) as model:
    model.epoch(np.ones((3, 11, 11), np.float32), np.arange(3))
"""


def test_an_epoch_in_one_launch_has_no_races_and_needs_its_last_barrier():
    barrier = "        __syncthreads();                                        // the image is no longer read\n"
    with Lenet28("one_launch") as model:
        text = model.source("train").source
        assert text.count(barrier) == 1
        for own, clean in (("", True), (text.replace(barrier, ""), False)):
            report = sanitize([sys.executable, "-c", EPOCH, own], "racecheck", "cpu", capture=True)
            assert report.clean == clean


@pytest.mark.parametrize(
    ("experiment", "batch", "kernel", "right", "wrong", "message"),
    [
        # a block that forgets its second image
        ("minibatch", 2, "bp_weight_f", "b += gridDim.y", "b += B", r"bp_weight_f, .*batch 13"),
        ("atomics", 1, "bp_weight_c1", "w + q", "w", "bp_weight_c1"),
    ],
)
def test_wrong_kernels_of_ones_own_are_refused(experiment, batch, kernel, right, wrong, message):
    with Lenet28(experiment, batch) as model:
        text = model.source(kernel).source.replace(right, wrong)
    text = "#define ADD(sum, value) atomicAdd(&(sum), value)\n" + text
    with Lenet28(experiment, batch, own=text) as mine, pytest.raises(CheckFailed, match=message):
        check(mine)


# ---- training
def test_training_learns_and_every_way_to_launch_agrees():
    train, test = dataset("digits", "train", size=28), dataset("digits", "test", size=28)
    after = {}
    for experiment in ("loops", "unrolled", "one_launch"):
        with Lenet28(experiment) as model:
            before = model.accuracy(test.images, test.labels)
            assert model.epoch(train.images[:400], train.labels[:400]) > 0
            after[experiment] = model.weights
            assert model.accuracy(test.images, test.labels) > before + 0.3
    for name in Sizes().weights:
        for other in ("unrolled", "one_launch"):
            np.testing.assert_allclose(after[other][name], after["loops"][name], atol=1e-3)


@pytest.mark.parametrize(
    ("experiment", "other", "batch"), [("minibatch", "register", 3), ("one_launch", "loops", 1)]
)
def test_an_epoch_goes_through_the_images_in_order_and_its_last_batch_may_be_smaller(
    experiment, other, batch
):
    images, labels = data(7)
    order = np.array([3, 0, 6, 4, 2, 1, 5])
    with (
        Lenet28(experiment, batch, sizes=SMALL) as model,
        Lenet28(other, batch, sizes=SMALL) as step_by_step,
    ):
        model.epoch(images, labels, order)
        for start in range(0, 7, batch):
            part = order[start : start + batch]
            step_by_step.epoch(images[part], labels[part])
        for name, w in model.weights.items():
            np.testing.assert_allclose(w, step_by_step.weights[name], atol=1e-5)
        with pytest.raises(LabError, match="from 0 to 6"):
            model.epoch(images, labels, order + 1)


def test_deterministic_gives_the_same_bits_again():
    images, labels = data(40)
    with (
        Lenet28("deterministic", 20, sizes=SMALL) as model,
        Lenet28("deterministic", 20, sizes=SMALL) as again,
    ):
        for run in (model, again):
            run.epoch(images, labels)
        assert all(np.array_equal(w, again.weights[name]) for name, w in model.weights.items())


def test_outputs_are_those_of_the_reference():
    images, labels = data(300)
    with Lenet28("loops", sizes=SMALL) as model:
        model.epoch(images[:1], labels[:1])
        expected = forward(model.weights, images[:, 0].astype(np.float64))["f"]
        np.testing.assert_allclose(model.outputs(images), expected, atol=1e-6)
        assert model.accuracy(images, expected.argmax(1)) == 1


def test_the_evidence_of_a_step():
    """Page 14 shows the diffs between the sources of experiments."""
    images, labels = data(3)
    with Lenet28("shuffle", sizes=SMALL) as model:
        assert tuple(measure_kernels_us(model, images, labels, 3)) == model.kernels
        counts = model.profile("cpu").counts.set_index("kernel")
        # a warp per sum, one atomic each
        assert counts.loc["bp_weight_c1", "reduction_requests"] == 3 * (4 * 4 + 1)
        with pytest.raises(LabError, match="launches no kernel"):
            model.source("bp_f")


def test_a_step_that_fails_on_its_way_has_no_profile(monkeypatch):
    with Lenet28("loops", sizes=SMALL) as model:
        program = "import sys\nfrom labkit.networks import lenet28\nlenet28._main(*sys.argv[1:])\nsys.exit('half done')"
        command = model._build_command()
        arguments = command[command.index("labkit.networks.lenet28") + 1 :]
        monkeypatch.setattr(
            model, "_build_command", lambda: [sys.executable, "-c", program, *arguments]
        )
        with pytest.raises(
            EngineError, match=r"profiling lenet28 failed with exit status 1\.\n(.*\n)*half done"
        ):
            model.profile("cpu")


# ---- contention, and records
def test_contention_adds_right_and_refuses_a_wrong_sum():
    for pattern in PATTERNS:
        assert measure_contention_us(pattern, 8, threads=512, times=3, repeat=2) > 0
    with pytest.raises(LabError, match="the sums are 3 to 4; each has to be 3"):
        measure_contention_us("apart", 3, threads=512, times=1)  # of 171 addresses, one too many


def test_what_was_recorded_is_read(tmp_path):
    record_training("launch", "update", [{"us": measure_launch_us(20)}], folder=tmp_path)
    kernels = [
        {"batch": 1, "kernel": "fp_c1", "us": 2.0},
        {"batch": 1, "kernel": "update", "us": 1.0},
    ]
    record_training("kernel", "loops", kernels, "digits", tmp_path)
    record_training("kernel", "register", kernels[:1], "digits", tmp_path)
    epochs = [
        {"batch": batch, "images": 60, "launches": 7, "seconds": 1 / batch} for batch in (1, 10)
    ]
    record_training("epoch", "minibatch", [{**epochs[0], "seconds": 9.0}], "digits", tmp_path)
    path = record_training("epoch", "minibatch", epochs, "digits", tmp_path)  # replaces the piece
    # does not disturb
    record_training("epoch", "minibatch", [{**epochs[0], "seconds": 5.0}], "mnist", tmp_path)
    for pattern in PATTERNS:
        rows = [{"share": share, "us": 1.0 * share} for share in (1, 4)]
        record_training("contention", pattern, rows, folder=tmp_path)
    training = read_training(tmp_path, path.stem)
    assert training.launch_us > 0
    assert training.kernel_us().loc["loops"].tolist() == [2, 1]
    assert np.isnan(training.kernel_us().loc["register", "update"])
    assert training.epoch_s("minibatch", dataset="mnist") == 5
    assert training.epoch_s("minibatch") == 1 and training.epoch_s("minibatch", 10) == 0.1
    assert len(training.rows("epoch", dataset="digits")) == 2
    assert training.contention_us.loc[4].to_dict() == {"neighbours": 4, "apart": 4}
    with pytest.raises(
        LabError, match=r"dataset digits\. It has kind: launch, kernel, epoch, contention; "
    ):
        training.accuracy()
    with pytest.raises(
        LabError,
        match=r"no rows for kind epoch, experiment loops, batch 1, .*experiment: .*minibatch",
    ):
        training.epoch_s("loops")
    with pytest.raises(LabError, match="python -m recording training"):
        read_training(tmp_path / "elsewhere", path.stem)


# ---- what it refuses
def test_what_lenet28_refuses():
    for arguments, message in (
        ({"experiment": "atomic"}, "no experiment 'atomic'; it has loops, atomics"),
        ({"batch": 0}, "1 to 65535 images"),
        ({"rate": float("nan")}, "rate = nan"),
        ({"own": "int x;"}, "own has the kernels none; together launches fp_c1"),
        (
            {"experiment": "one_launch", "batch": 2},
            "one image per step, not 2; mini-batches: loops",
        ),
    ):
        with pytest.raises(LabError, match=message):
            Lenet28(**arguments)
    with pytest.raises(LabError, match="pool = 5 does not divide"):
        Sizes(pool=5)
    images, labels = data(4)
    with Lenet28("loops", 2, sizes=SMALL) as model:
        for of in (model.epoch, model.accuracy):
            with pytest.raises(LabError, match=r"lenet28 takes \[N, 1, 11, 11\]"):
                of(images[..., 1:], labels)
            with pytest.raises(LabError, match="as many labels"):
                of(images, labels[1:])
        with pytest.raises(LabError, match="the classes 0 to 4"):
            model.epoch(images, labels + 5)
        with pytest.raises(LabError, match=r"f_bias has the shape \(4,\)"):
            model.weights = {**model.weights, "f_bias": np.zeros(4)}


def test_a_step_as_a_graph_is_measured_beside_single_launches(monkeypatch):
    digits = dataset("digits", "train", size=28)
    monkeypatch.setattr(recorder, "STEPS_PER_GRAPH", (0, 1, 2))
    rows = recorder.measure_graphs("shuffle", digits, steps=2, runs=1)
    assert [row["launches"] for row in rows] == [0, 9, 18] and all(row["us"] > 0 for row in rows)


def test_a_model_issues_its_steps_on_its_stream():
    digits = dataset("digits", "train", size=28)
    models = [Lenet28("shuffle") for _ in range(2)]
    models[0].stream = hostcuda.driver.Stream()
    for model in models:
        model.load(digits.images[:2], digits.labels[:2])
        model.issue(1, 1)
    models[0].stream.synchronize()
    weights = [model.weights for model in models]
    assert all(np.array_equal(array, weights[1][name]) for name, array in weights[0].items())


def test_a_step_is_that_of_the_gradients_by_differences():
    """The engine's update, end to end: the weights after a step are those computed in float64."""
    images, labels = data(3)
    start = initial_weights(5, SMALL)
    gradient = finite_differences(lambda w: loss(w, images[:, 0], labels), start)
    with Lenet28("together", batch=3, seed=5, rate=0.5, sizes=SMALL) as model:
        model.epoch(images, labels)
        after = model.weights
    for name in SMALL.weights:
        rate = 0.5 / 3 / SMALL.divisors[name]
        moved = (start[name] - after[name]).astype(np.float64)
        np.testing.assert_allclose(moved, rate * gradient[name], rtol=2e-3, atol=2e-6, err_msg=name)
