"""The runtime's record of a launch under the metrics' names: the table `hostcuda.metrics.COUNTERS`."""

import json

import pytest

from hostcuda import metrics
from hostcuda.check import elements, records

pytestmark = pytest.mark.core("what every count is read from")

LAUNCH = {
    "index": 0,
    "kernel": "f",
    "module": "m",
    "grid": [2, 1, 1],
    "block": [32, 1, 1],
    "shared": 0,
    "blocks_watched": 2,
    "blocks": 2,
    "barriers": 7,
    "block_barriers": 5,
    "named_barriers": 4,
    "unique_bytes": 640,
    "busiest_warp": 9,
    "two_way_warps": 1,
    "findings": [],
    "callers": [],
    "error": "",
    "unchecked": [],
    "matrices": 0,
    "exchanges": 3,
    "largest_result": 8,
    "counter_results": 6,
    "plays": [],
    "copied_bytes": 12,
    "overlapped_bytes": 5,
    "bytes_ahead": 24,
}


FIGURES = {
    "requests": 6,
    "units": 42,
    "extra": 31,
    "bytes": 256,
    "lines": 2,
    "groups": 4,
}  # of the two accesses below


def record(monkeypatch, *accesses):
    """Return the record of a launch with these accesses, one per line of the source."""
    names = ("space", "op", "requests", "units", "ideal", "inside")
    more = {
        "size": 4,
        "bytes": 128,
        "passes": 1,
        "lines": 1,
        "loaded": 4,
        "broadcast": 0,
        "groups": 2,
    }
    sites = [
        dict(zip(names, access, strict=True), pc=pc, **more)
        for pc, access in enumerate(accesses, 1)
    ]
    monkeypatch.setattr(
        records,
        "_lines",
        {("m", site["pc"]): ("k.cu", site["pc"], site["inside"]) for site in sites},
    )
    return records._read_record({**LAUNCH, "requests": [], "sites": sites})


@pytest.mark.parametrize(
    "counter", [row for row in metrics.COUNTERS if row.space], ids=lambda row: row.metric
)
def test_an_access_counts_in_the_metrics_of_its_kind(counter, monkeypatch):
    op = counter.op or "ld"
    counts = record(
        monkeypatch, (counter.space, op, 5, 40, 10, False), (counter.space, op, 1, 2, 1, False)
    ).counts
    assert counts[counter.metric] == FIGURES[counter.figure]
    others = [
        row
        for row in metrics.COUNTERS
        if row.space and (row.space, row.op or op) != (counter.space, op)
    ]
    assert not any(counts[row.metric] for row in others)


def test_a_number_of_the_launch(monkeypatch):
    counts = record(monkeypatch).counts
    assert (counts["lab__barriers.sum"], counts["lab__unique_bytes_global.sum"]) == (7, 640)
    assert {*counts} == {counter.metric for counter in metrics.COUNTERS}
    # racecheck counts them: without it they are not known
    for name in ("copied_bytes", "overlapped_bytes", "bytes_ahead"):
        monkeypatch.delitem(LAUNCH, name)
    assert {*counts} - {*record(monkeypatch).counts} == {
        "lab__bytes_of_asynchronous_copies.sum",
        "lab__bytes_of_overlapped_copies.sum",
        "lab__bytes_of_bulk_copies_ahead.max",
    }


def test_the_lines_have_the_units_of_their_space(monkeypatch):
    lines = record(
        monkeypatch,
        ("global", "st", 1, 4, 1, False),
        ("shared", "ld", 1, 4, 1, False),
        ("constant", "ld", 1, 4, 1, False),
        ("local", "ld", 1, 0, 0, False),
    ).sites
    shown = {
        line["space"]: {
            name: line[name] for name in ("sectors", "wavefronts", "conflicts") if name in line
        }
        for line in lines
    }
    assert shown == {
        "global": {"sectors": 4},
        "shared": {"wavefronts": 4, "conflicts": 3},
        "constant": {"wavefronts": 4, "conflicts": 3},
        "local": {},
    }


def test_an_exchange_between_lanes_in_the_engines_headers_is_no_local_access(monkeypatch):
    assert not record(monkeypatch, ("local", "ld", 3, 0, 0, True)).sites


def test_names_are_unique():
    assert len({counter.metric for counter in metrics.COUNTERS}) == len(metrics.COUNTERS)
    assert len(metrics.NAMES) == len({*metrics.NAMES.values()})


@pytest.mark.parametrize(
    ("at", "away", "side", "words"),
    [
        ("10", None, None, "x[-6], in the allocation that x points into"),
        ("-1", "one", "before", "x[-5], one before the allocation that x points into"),
        ("1000", "one", "past the end of", "x[984], one past the end of 984 floats"),
    ],
)
def test_a_place_before_a_pointer_into_the_middle(at, away, side, words):
    start = 64 if at != "-1" else 16
    assert elements.format_element(at, away, side, "1000", "4", "x", "float", start) == words


def test_a_place_has_one_note_of_a_kind(monkeypatch, tmp_path):
    """Launches and copies in a loop; the place of one note is an address in the module."""
    note = {"kind": "box outside", "file": "a.cu", "line": 7, "pc": 0, "message": "outside"}
    other = {**note, "kind": "target in a pattern", "message": "beside"}
    located = {**note, "file": "", "line": 0, "pc": 64}
    launch = {**LAUNCH, "sites": [], "requests": [], "notes": [note, other, located]}
    copy = {"copy": "cudaMemcpy", "message": "unset", "note": True, "callers": [], "module": "m"}
    copy |= {"file": "a.py", "line": 3}
    # of a function that copies many arrays: the first four
    many = [copy | {"message": f"unset, {size} bytes", "line": 9} for size in range(6)]
    again = {**launch, "notes": [note | {"message": "outside of another tensor"}]}
    raws = (launch, launch, again, copy, copy, *many)
    text = "".join(json.dumps(raw) + "\n" for raw in raws).encode()
    parts = [text, b""]

    def take(buffer, size):
        buffer.raw = parts[0].ljust(size, b"\0")
        return len(parts.pop(0))

    monkeypatch.setattr(records, "_take", take)
    monkeypatch.setattr(records, "_noted", {})
    monkeypatch.setattr(records, "_records", [])
    monkeypatch.setattr(records, "_lines", {("m", 64): ("a.cu", 7, False)})
    monkeypatch.setenv("HOSTCUDA_CHECK_OUT", str(tmp_path / "out"))
    records.take()
    events = map(json.loads, (tmp_path / "out.events").read_text().splitlines())
    assert [(event["line"], event["message"]) for event in events] == [
        (7, "outside"),
        (7, "beside"),
        (3, "cudaMemcpy: unset"),
        *((9, f"cudaMemcpy: unset, {size} bytes") for size in range(4)),
    ]
