"""Names in findings: kernels of one name, the parameters of the right one, elements of arrays, what is waited for."""

from pathlib import Path

import pytest

from hostcuda.sanitize import sanitize_script

pytestmark = pytest.mark.core("findings name what the source names: 10 s")

PROGRAM = Path(__file__).parents[1] / "programs" / "names.cu"


@pytest.mark.parametrize(
    ("way", "kind", "kernel", "words"),
    [
        (0, "race between blocks", "two::k", "use counts[0], one of 256 floats"),
        (1, "out of bounds", "scale(const float *in, float *out)", "at out[256], one past the end"),
        (2, "null pointer", "call", "a call of a null function pointer"),
        (3, "deadlock", "some_arrive", "has 40 of 64 arrivals"),
        (4, "out of bounds", "turn", "at tile[4][0][0] of the __shared__ array tile, one past"),
    ],
)
def test_a_finding_names_what_the_source_names(way, kind, kernel, words):
    findings = sanitize_script(
        str(PROGRAM), [str(way)], engine="cpu", capture=True, options=["-std=c++17"]
    )
    (row,) = findings.table.to_dict("records")
    lines = PROGRAM.read_text().splitlines()
    assert (row["kind"], row["kernel"]) == (kind, kernel), findings
    assert lines[row["line"] - 1].endswith(f"// found: {way}"), findings
    assert words in row["message"] and not row["message"].startswith(kind)
