"""Races within a block: a lock, a flag or a wait for a copy orders accesses, other atomic accesses do not."""

import pytest
from running import IMPORTS, kernel_source

from hostcuda.sanitize import sanitize_script

pytestmark = pytest.mark.thorough("breadth of check mode: a module compiled per case")

PROGRAM = """
source = sys.argv[1]
module = SourceModule(source, no_extern_c=True)
for name in [line.split()[1].split("(")[0] for line in source.splitlines() if line.startswith("KERNEL")]:
    module.get_function(name)(cuda.to_device(np.zeros(128, np.int32)), block=(64, 1, 1))
cuda.Context.synchronize()
"""
RIGHT, WRONG = (
    [line.split()[1].split("(")[0] for line in part.splitlines() if line.startswith("KERNEL")]
    for part in kernel_source("locks").split("// Wrong.")
)


@pytest.fixture(scope="module")
def racing(tmp_path_factory):
    """Return the kinds of the findings of each kernel with some."""
    path = tmp_path_factory.mktemp("locks") / "program.py"
    path.write_text(IMPORTS + PROGRAM)
    findings = sanitize_script(
        str(path), [kernel_source("locks")], tool="racecheck", engine="cpu", capture=True
    )
    assert findings.ended.status == 0, findings.ended.output
    assert findings.launches == len([*RIGHT, *WRONG])
    return findings.table.groupby("kernel")["kind"].agg(set).to_dict()


@pytest.mark.parametrize("kernel", RIGHT)
def test_what_a_lock_or_a_flag_or_a_wait_orders_is_no_race(kernel, racing):
    assert kernel not in racing


@pytest.mark.parametrize("kernel", WRONG)
def test_without_it_there_is_a_race(kernel, racing):
    assert kernel in racing


def test_what_reads_a_copy_that_nobody_has_waited_for_is_told_so(racing):
    copies = [kernel for kernel, kinds in racing.items() if "race with a copy" in kinds]
    assert copies == [
        kernel for kernel in sorted(racing) if "wait" in kernel or kernel == "buffer_used_too_early"
    ]
    assert all(racing[kernel] == {"race with a copy"} for kernel in copies if "wait_is" in kernel)
