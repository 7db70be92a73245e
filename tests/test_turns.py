"""Turns: users that run together, and a measurement that runs alone."""

import threading

import pytest

from labkit.base import turns
from labkit.base.turns import Turns, undisturbed

pytestmark = pytest.mark.thorough("pages as they are published")


@pytest.fixture
def three(tmp_path):
    """Return three users of one folder, as three processes would be: each has opened the files itself."""
    return [Turns(tmp_path) for _ in range(3)]


def thread(work):
    started = threading.Thread(target=work, daemon=True)
    started.start()
    return started


def waits(one):
    """Return whether a thread still runs after a moment: it waits for another."""
    one.join(0.1)
    return one.is_alive()


def ends(*threads):
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()


def test_several_run_together_and_a_measurement_waits_for_all(three):
    a, b, c = three
    a.begin()
    b.begin()

    def measure():
        with c.alone():
            pass

    measurement = thread(measure)
    assert waits(measurement)
    a.end()
    assert waits(measurement)
    b.end()
    ends(measurement)


def test_who_waits_to_measure_is_not_overtaken(three):
    (a, b, c), order = three, []
    a.begin()

    def measure():
        with b.alone():
            order.append("measured")

    def run():
        with c.together():
            order.append("ran")

    measurement = thread(measure)
    assert waits(measurement)
    cell = thread(run)
    assert waits(cell)
    a.end()
    ends(measurement, cell)
    assert order == ["measured", "ran"]


def test_two_that_run_can_both_measure(three):
    """Neither holds what the other waits for."""
    a, b, _ = three
    both = threading.Barrier(2)

    def run(mine):
        with mine.together():
            both.wait()
            with mine.alone(), mine.alone():  # bench inside of a trace
                pass

    ends(thread(lambda: run(a)), thread(lambda: run(b)))


def test_after_a_measurement_the_cell_still_runs(three):
    a, b, _ = three
    a.begin()
    with a.alone():
        pass

    def measure():
        with b.alone():
            pass

    measurement = thread(measure)
    assert waits(measurement)
    a.end()
    ends(measurement)


def test_threads_of_one_process_measure_one_after_the_other(three):
    a, inside, most = three[0], [], []

    def measure():
        with a.alone():
            inside.append(1)
            most.append(len(inside))
            threading.Event().wait(0.02)
            inside.pop()

    ends(*[thread(measure) for _ in range(4)])
    assert most == [1, 1, 1, 1]


def test_only_what_takes_part_waits(three, monkeypatch):
    three[0].begin()
    with undisturbed():  # this process has not joined
        pass
    monkeypatch.setattr(turns, "_turns", three[1])

    def measure():
        with undisturbed():
            pass

    measurement = thread(measure)
    assert waits(measurement)
    three[0].end()
    ends(measurement)
