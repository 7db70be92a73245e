"""Grid, block and thread; memories; a scheduler that hides a load; a sum by shuffles."""

import pytest
from test_draw import collisions, drawn, said  # noqa: F401  fixtures

import labkit.draw as draw
from hostcuda.limits import MULTIPROCESSOR
from labkit.base.errors import LabError
from labkit.draw.machine import simulate_issue
from labkit.spec.devices import device

pytestmark = pytest.mark.thorough("figures, which the notebooks draw, too")

FIGURES = [
    (draw.threads, {}), (draw.threads, {"n": 2048, "block": 7, "thread": 0}),
    (draw.threads, {"n": 70, "threads": 32, "thread": 1}), (draw.threads, {"n": 9, "threads": 1024, "block": 0}),
    (draw.memories, {}), (draw.hiding, {}), (draw.hiding, {"warps": [16], "work": 1, "latency": 90}),
    *((draw.shuffle, {"lanes": lanes}) for lanes in (2, 4, 8, 16, 32)),
]


@pytest.mark.parametrize(("function", "options"), FIGURES)
def test_a_figure_is_tidy_and_described(drawn, function, options):  # noqa: F811
    page = drawn(function, **options)
    assert not collisions(page)
    assert len(page.alt) > 100 and page.alt.endswith(".")


def test_a_thread_finds_its_element(said):  # noqa: F811
    page = said(draw.threads, n=1000, threads=256, block=3, thread=2)
    assert page.title == "Thread 2 of block 3 computes element 770"
    assert {"i = blockIdx.x · blockDim.x + threadIdx.x = 3 · 256 + 2 = 770", "768 to 999",
            "24 threads without an element"} <= set(page.words)
    assert "999" not in page.words and "1000" not in page.words


def test_memories_are_those_of_the_h200(said):  # noqa: F811
    words, gpu = said(draw.memories).words, device("H200")
    assert f"140 GB, {gpu.ceilings['reference_bandwidth'] / 1e12:.3g} TB/s" in words
    assert f"link: {gpu.ceilings['to_device_pinned'] / 1e9:.3g} GB/s" in words
    assert f"{MULTIPROCESSOR['sm_90']['registers'] * 4 // 1024} KB per multiprocessor" in words


@pytest.mark.parametrize(("warps", "work", "latency"), [(1, 3, 24), (4, 3, 24), (9, 3, 24), (12, 3, 24), (2, 1, 1)])
def test_a_scheduler_is_as_busy_as_its_warps_allow(warps, work, latency):
    """One instruction per cycle; a warp needs work + latency cycles for its work instructions."""
    period = work + latency
    issue_slots = simulate_issue(warps, work, latency, 20 * period)
    busy = sum("issues" in cycle for cycle in zip(*issue_slots, strict=True))
    assert max(cycle.count("issues") for cycle in zip(*issue_slots, strict=True)) == 1
    assert abs(busy / (20 * period) - min(1, warps * work / period)) < 0.05
    assert issue_slots[0][: period + 1] == ["issues"] * work + ["waits"] * latency + [issue_slots[0][period]]


def test_hiding_says_what_it_counts(said):  # noqa: F811
    page = said(draw.hiding, warps=(1, 9))
    assert page.title == "With 9 warps the scheduler is busy in 100 % of the cycles, with 1 warp in 11 %"
    assert "1 warp: 11 % of the issue slots are used. 9 warps: 100 %" in page.alt


def test_a_shuffles_steps_add_all_lanes(said):  # noqa: F811
    page = said(draw.shuffle, lanes=32)
    assert page.title.startswith("5 shuffles instead of 32")
    assert [page.words.count(str(sums)) for sums in (2, 4, 8, 16, 32)] == [16 + 1, 8 + 1, 4 + 1, 2 + 1, 1]
    assert "offsets are 16, 8, 4, 2, 1" in page.alt


@pytest.mark.parametrize("call", [
    lambda: draw.threads(n=1000, block=4), lambda: draw.threads(thread=8), lambda: draw.threads(threads=8),
    lambda: draw.threads(n=3000), lambda: draw.hiding(warps=[17]), lambda: draw.hiding(warps=[]),
    lambda: draw.hiding(work=0), lambda: draw.shuffle(lanes=12),
])
def test_what_cannot_be_drawn_is_refused(call):
    with pytest.raises(LabError, match=r"draw\.(threads|hiding|shuffle): "):
        call()
