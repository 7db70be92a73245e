"""Planted bugs, each beside its repair: every bug is found at its line, and nothing on any repair."""

import sys
from collections import Counter
from pathlib import Path

import pytest

from hostcuda.sanitize import sanitize_script

sys.path.insert(0, str(Path(__file__).parent / "corpus"))
import planted

pytestmark = pytest.mark.core("each planted bug is found, each repair is clean")

BUGS = planted.corpus()
LEGAL = planted.legal()


@pytest.fixture(scope="module")
def bugs_found():
    return sanitize_script(planted.__file__, engine="cpu", capture=True)


@pytest.fixture(scope="module")
def repairs():
    return sanitize_script(planted.__file__, ["--fixed"], engine="cpu", capture=True)


def test_the_corpus_is_as_large_as_it_claims():
    kinds = Counter(bug.kind for bug in BUGS)
    assert len(BUGS) >= 60 and len(kinds) >= 20 and kinds["between blocks"] >= 4
    assert len({bug.kernel for bug in BUGS}) == len(BUGS)
    assert all(bug.lines for bug in BUGS)


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.kernel)
def test_the_bug_is_found_at_its_line(bug, bugs_found):
    rows = bugs_found.table[bugs_found.table["kernel"] == bug.kernel].to_dict("records")
    findings = [row for row in rows if row["tool"] == bug.tool]
    assert findings, f"{bug.tool} found nothing; the others: {rows}"
    for row in findings:
        assert Path(row["file"]).name == bug.file
        assert row["line"] in bug.lines, row["message"]
        if isinstance(row["other"], dict):
            assert row["other"]["line"] in bug.lines


def test_a_race_between_blocks_is_called_one(bugs_found):
    kernels = {bug.kernel for bug in BUGS if bug.kind == "between blocks"}
    rows = bugs_found.table[bugs_found.table["kernel"].isin(kernels)]
    assert set(rows["kind"]) == {"race between blocks"}


def test_a_launch_without_dynamic_shared_memory_says_so(bugs_found):
    (row,) = bugs_found.table[bugs_found.table["kernel"] == "launched_with_none"].to_dict("records")
    assert (
        "at element 0 of dynamic shared memory of the launch, one past the end of its 0 elements"
        in row["message"]
    )


@pytest.mark.thorough("the repairs are compiled, too")
@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.kernel)
def test_the_repair_is_clean(bug, repairs):
    rows = repairs.table[repairs.table["kernel"] == bug.kernel]
    assert rows.empty, rows["message"].tolist()


def test_nothing_is_found_in_a_right_kernel(bugs_found):
    names = {bug.kernel for bug in LEGAL}
    rows = bugs_found.table[bugs_found.table["kernel"].isin(names)]
    assert len(names) >= 16 and rows.empty, rows["message"].tolist()


@pytest.mark.thorough("the repairs are compiled, too")
def test_every_kernel_ran(bugs_found, repairs):
    assert bugs_found.ended.status == 0 and repairs.ended.status == 0
    assert bugs_found.launches == repairs.launches == sum(bug.launches for bug in [*BUGS, *LEGAL])
    assert not repairs.ended.output.strip()
