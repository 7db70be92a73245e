"""What check mode says of a wrong access: which tool, where, who, and what it missed."""

import pytest
from running import kernel_source, run_script

pytestmark = pytest.mark.thorough("breadth of check mode: a module compiled per case")

TOOLS = "memcheck,racecheck,initcheck,synccheck"
SCRIPT = """
import dataclasses, json, sys
source = sys.argv[1]
module = SourceModule(source, no_extern_c=True)
names = [l.split("void ")[1].split("(")[0] for l in source.splitlines() if "__global__" in l]
found = {}
for name in names:
    a, u = cuda.to_device(np.zeros(64, np.float32)), cuda.mem_alloc(256)
    before = len(checking.launches())
    try:
        pointer = np.uint64(int(a) + 128) if name == "past_the_middle" else a
        module.get_function(name)(pointer, u, block=(64, 1, 1))
        cuda.Context.synchronize()
        error = ""
    except cuda.Error as problem:
        error = str(problem)
    (record,) = checking.launches()[before:]
    found[name] = [error, [dataclasses.asdict(f) for f in record.findings]]
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def found():
    return run_script(SCRIPT, kernel_source("wrong"), tools=TOOLS)


@pytest.mark.parametrize(
    ("kernel", "tool", "kind", "line", "thread"),
    [
        ("past_the_end", "memcheck", "out of bounds", 3, 63),
        ("far_past_the_end", "memcheck", "out of bounds", 5, 0),
        ("shared_overrun", "memcheck", "out of bounds", 9, 63),
        ("constant_overrun", "memcheck", "out of bounds", 13, 16),
        ("misaligned", "memcheck", "misaligned", 14, 1),
        ("missing_barrier", "racecheck", "race", None, None),
        ("unset", "initcheck", "uninitialized", 20, 0),
        ("divergent", "synccheck", "divergent barrier", None, None),
        ("exited", "synccheck", "exited lanes", 29, None),
        ("rest_has_ended", "synccheck", "divergent barrier", 60, 0),
        ("matrix_not_complete", "racecheck", "race", 72, None),
        ("registers_overrun", "memcheck", "out of bounds", 83, 0),
        ("register_before", "memcheck", "out of bounds", 88, 0),
        ("matrix_still_read", "racecheck", "race", None, None),
        ("never_written", "initcheck", "uninitialized", 113, 0),
        ("handed_over", "memcheck", "constant memory", 117, 0),
        ("unset_fragment", "initcheck", "uninitialized variable", 131, None),
    ],
)
def test_each_mistake_is_found_at_its_line(found, kernel, tool, kind, line, thread):
    matching = [f for f in found[kernel][1] if (f["tool"], f["kind"]) == (tool, kind)]
    assert matching, found[kernel]
    finding = matching[0]
    assert finding["file"] == "wrong.cu"
    assert finding["kernel"] == kernel
    assert line is None or finding["line"] == line
    assert thread is None or finding["thread"] == [thread, 0, 0]


def test_an_overrun_names_the_buffer_and_the_distance(found):
    error, (finding,) = found["past_the_end"]
    assert finding["buffer"] == {
        "base": finding["address"] - 256,
        "bytes": 256,
        "name": "a",
        "offset": 256,
        "missed_by": 4,
    }
    assert finding["message"] == "write of 4 bytes at a[64], one past the end of 64 floats"
    assert (
        "write of 4 bytes at element 64 of an allocation, one past the end of its 64 elements of 4 bytes"
        in error
    )
    assert found["far_past_the_end"][1][0]["buffer"]["missed_by"] == 5000 * 4 + 4 - 256


@pytest.mark.parametrize(
    ("kernel", "words"),
    [
        ("far_past_the_end", "a[5000], 4937 past the end of 64 floats"),
        (
            "shared_overrun",
            "at element 64 of the __shared__ array s, one past the end of its 64 elements of 4 bytes",
        ),
        (
            "constant_overrun",
            "at element 16 of the __constant__ first, one past the end of its 16 elements of 4 bytes",
        ),
        ("misaligned", "at a[2], one of 64 floats: its address is not a multiple of 16"),
        (
            "missing_barrier",
            " of the __shared__ array s of 64 elements of 4 bytes without a barrier between",
        ),
        ("unset", "read of uninitialized global memory, at u["),
        ("misaligned_bytes", "at a[2], one of 256 elements of 1 byte"),
        ("unset_pairs", "at u[2], one of 32 elements of 8 bytes"),
        ("past_points", "write of 4 bytes at byte 256 of u, which has 256 bytes"),
        ("handed_over", "write of 4 bytes at gridDim, through a pointer without const"),
        ("past_the_middle", "write of 4 bytes at a[32], one past the end of 32 floats"),
    ],
)
def test_a_place_is_an_element_of_its_array(found, kernel, words):
    """An index counts elements of the parameter's type, from where the parameter points to; else it would mislead."""
    messages = [finding["message"] for finding in found[kernel][1]]
    assert any(words in message for message in messages), messages
    assert "at byte" in words or not any("at byte" in message for message in messages)
    if kernel in ("misaligned_bytes", "unset_pairs", "past_points", "past_the_middle"):
        assert words in messages[0]


def test_a_race_names_both_threads_and_both_lines(found):
    (race,) = [f for f in found["missing_barrier"][1] if f["tool"] == "racecheck"]
    assert {race["line"], race["other"]["line"]} == {17, 18}
    assert race["thread"] != race["other"]["thread"]
    assert found["missing_barrier"][0] == ""  # a race does not end the launch


def get_races(found, kernel):
    return [f for f in found[kernel][1] if f["tool"] == "racecheck"]


def test_a_race_of_two_warps_comes_before_one_of_a_warp(found):
    for kernel in ("counted_without_atomic", "two_distances"):
        first = get_races(found, kernel)[0]
        assert first["thread"][0] // 32 != first["other"]["thread"][0] // 32, first


@pytest.mark.parametrize(
    ("kernel", "words"),
    [
        (
            "missing_barrier",
            "put a barrier that all threads of the block reach, __syncthreads(), between the two accesses",
        ),
        ("counted_without_atomic", "use an atomic operation such as atomicAdd"),
        (
            "two_stores",
            "if each thread has an element of its own, correct the index; if not, let one thread write",
        ),
    ],
)
def test_a_race_has_the_remedy_of_its_kind(found, kernel, words):
    assert words in get_races(found, kernel)[0]["remedy"]
    assert not found["unset"][1][0]["remedy"]


def test_an_overrun_of_registers_names_index_and_array(found):
    for kernel, index, array in (
        ("registers_overrun", 8, "float [8]"),
        ("register_before", -1, "float [4]"),
    ):
        error, (finding,) = found[kernel]
        assert finding["message"] == f"index {index} is outside of a local array, '{array}'"
        assert finding["message"] in error
    assert found["flat_tile"] == ["", []]  # within its array, and in shared memory


def test_threads_that_end_before_a_barrier_are_named_once(found):
    error, (finding,) = found["rest_has_ended"]
    assert error == ""  # the others go on, as on a GPU
    assert finding["message"] == (
        "thread (16,0,0) and 47 more ended without it, by a branch around it: "
        "thread (0,0,0) and 15 more at __syncthreads (wrong.cu:60)"
    )


def test_a_warp_s_matrix_waits_for_all_lanes(found):
    lines = [
        {f["line"], f["other"]["line"]}
        for kernel in ("matrix_not_complete", "matrix_still_read")
        for f in found[kernel][1]
    ]
    assert lines == [{70, 72}, {70, 72}] and found["warp_matrix"] == ["", []]


def test_threads_that_write_one_word_race_if_they_write_different_values(found):
    assert [f["line"] for f in found["different_values"][1]] == [33, 35]
    assert found["same_value"] == ["", []]


def test_nothing_is_found_in_a_right_kernel(found):
    assert found["right"] == ["", []]
