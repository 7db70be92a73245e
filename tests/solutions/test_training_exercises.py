"""Solutions of the exercises of page 14, by their goals."""

from labkit.measure.check import check
from labkit.network.images import dataset
from labkit.network.lenet28 import Lenet28


def test_14a_lanes_apart():
    with Lenet28("atomics") as atomics:
        text = atomics.source("bp_weight_c1").source
    apart = text.replace("t = i / POSITIONS % (K * K + 1)", "t = i % (K * K + 1)").replace(
        "h = i / C1 % C1, w = i % C1", "n = i / (K * K + 1), h = n / C1 % C1, w = n % C1"
    )
    with Lenet28("atomics", own=apart) as mine:
        check(mine, quiet=True)
        counts = mine.profile("cpu").counts.set_index("kernel").loc["bp_weight_c1"]
    assert counts["reduction_sectors"] <= 8 * counts["reduction_requests"]


def test_14b_the_rate_of_a_mini_batch():
    train, test = dataset("digits", "train", size=28), dataset("digits", "test", size=28)
    reached = {}
    for rate in (0.1, 0.3, 1.0):
        with Lenet28("unrolled", batch=50, rate=rate) as model:
            for _ in range(5):
                model.epoch(train.images, train.labels)
            reached[rate] = model.accuracy(test.images, test.labels)
    assert reached[0.3] > 0.6 > max(reached[0.1], reached[1.0])
