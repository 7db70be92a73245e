"""Page 14: what the exercises show beside their goals."""

import labkit as lab
from labkit.exercises.exercise import exercise
from labkit.networks.lenet28 import Lenet28


def test_14a_begins_with_the_kernel_of_atomics():
    with Lenet28("atomics") as atomics:
        assert exercise("14a").start.endswith(atomics.source("bp_weight_c1").source)


def test_the_solution_of_14a_trains_lenet28():
    with Lenet28("atomics", own=lab.solution("14a").source) as mine:
        lab.check(mine, quiet=True)
