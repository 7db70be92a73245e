"""Programs of Hopper's asynchronous instructions with planted mistakes, and what check mode has to say of each.

Each program of ``programs/hopper`` compares its result with that of the host and prints ``PASS
bad=0 checksum=N``. ``-DBUG=n`` plants its n-th mistake, which its first lines name.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the rest needs no package: a machine with a GPU may have none
    from hostcuda.sanitize import Findings

FOLDER = Path(__file__).parents[1] / "programs" / "hopper"
PROGRAMS = sorted(path.stem for path in FOLDER.glob("*.cu"))
# Values that are wrong although every access is in order: the program's own comparison finds them.
ONLY_BY_RESULT = {
    ("stmatrix", 3),
    ("remote_flag", 3),
}
REFUSED = {("tensor_map", 6)}  # by a function of the host, with its reason
# variants without a mistake
RIGHT = {
    ("ring", 6),
    ("named_barriers", 5),
    ("cluster", 6),
    ("dependent", 5),
    ("dependent", 6),
}


@dataclass(frozen=True)
class Mistake:
    """A planted mistake: its program, its number, and what one of the findings, or of the notes, has to be.

    `text` is in the finding's sentence, and `line`, the text of a line of the program or of
    ``instructions.h``, is that of the finding or is named in its sentence.
    """

    program: str
    bug: int
    kind: str
    text: str
    line: str

    def is_named(self, findings: "Findings") -> bool:
        """Return whether one of the findings names the line and the cause."""
        files = f"{self.program}.cu", "instructions.h"
        places = {
            f"{file}:{number}"
            for file in files
            for number, line in enumerate((FOLDER / file).read_text().splitlines(), 1)
            if self.line in line
        }

        def names(row):
            """Return whether a finding is this one: with its line, or a sentence that has it."""
            sides = [row, row.get("other") or {}]
            named = {f"{Path(side['file']).name}:{side['line']}" for side in sides if side}
            named |= {*re.findall(r"[\w.]+:\d+", row["message"])}
            return row["kind"] == self.kind and self.text in row["message"] and bool(places & named)

        notes = [event for event in findings.events if event["kind"] == "note"]
        return any(map(names, [*findings.rows, *notes]))


_WAIT, _EXPECT, _IN = "mbarrier.try_wait", "arrive.expect_tx", "cp.async.bulk.shared"
_MULTICAST = "multicast::cluster ["
_OUT, _TENSOR = "cp.async.bulk.global", "cp.async.bulk.tensor"
MISTAKES = [
    Mistake("mbarrier", 1, "race", "without a barrier", "number * 3 + passed"),
    Mistake("mbarrier", 2, "deadlock", "95 of 96 arrivals", _WAIT),
    Mistake("mbarrier", 3, "race", "array barrier", "mbarrier.init"),
    Mistake("bulk_in", 1, "deadlock", "48 too few", _EXPECT),
    Mistake("bulk_in", 2, "deadlock", "960 too many", _EXPECT),
    Mistake("bulk_in", 3, "fault", "its source is no multiple of 16", _IN),
    Mistake("bulk_in", 4, "fault", "its size is no multiple of 16", _IN),
    Mistake("bulk_in", 5, "fault", "its target is no multiple of 16", _IN),
    Mistake("bulk_in", 6, "race with a copy", "reads it before", "- target[0]"),
    Mistake("bulk_in", 7, "race with a copy", "reads it before", "- target[0]"),
    Mistake("bulk_out", 1, "race with a copy", "writes it before", "piece[i] ="),
    Mistake("bulk_out", 2, "race with a copy", "writes it before", "piece[i] ="),
    Mistake("bulk_out", 3, "copy that is not awaited", "the block ends", _OUT),
    Mistake("ring", 1, "fault", "too many arrive at the mbarrier in full[0]", _EXPECT),
    Mistake("ring", 2, "deadlock", "parity 0 of the mbarrier in empty[0]", _WAIT),
    Mistake("ring", 3, "deadlock", "parity 0 of the mbarrier in empty[0]", _WAIT),
    Mistake("ring", 4, "race with a copy", "reads it before", "stages[s].x[t] *"),
    Mistake("ring", 5, "race", "begins a bulk copy that writes", _IN),
    Mistake("named_barriers", 1, "divergent barrier", "expects", "bar.sync"),
    Mistake("named_barriers", 2, "divergent barrier", "at bar.sync 1 (", "bar.sync"),
    Mistake("named_barriers", 3, "race", "without a barrier", "halves[half]"),
    Mistake("named_barriers", 4, "fault", "for whole warps", "bar.sync"),
    Mistake("proxy_fence", 1, "missing proxy fence", "fence.proxy.async", _OUT),
    Mistake("proxy_fence", 2, "race", "without a barrier", "turned[i % COLUMNS"),
    Mistake("proxy_fence", 3, "missing proxy fence", "fence.proxy.async", _OUT),
    Mistake("tensor_map", 1, "note", "as if it had none", "sum += (i + 1) *"),
    Mistake("tensor_map", 2, "note", "at byte 128 of the pattern", _TENSOR),
    Mistake("tensor_map", 3, "deadlock", "too many", _EXPECT),
    Mistake("tensor_map", 4, "note", "the whole box is outside", _TENSOR),
    Mistake("tensor_map", 5, "fault", "no multiple of 128 bytes", _TENSOR),
    Mistake("wgmma", 1, "missing wgmma.fence", "wgmma.fence", "wgmma.mma_async"),
    Mistake("wgmma", 2, "race with a product", "before the warp has waited", "= sums[i];"),
    Mistake("wgmma", 3, "missing proxy fence", "a wgmma that reads it", "*(half *)(rows + place"),
    Mistake("wgmma", 4, "note", "put there as for no swizzle", "wgmma.mma_async"),
    Mistake("wgmma", 5, "race with a product", "before the warp has waited", "= sums[i];"),
    Mistake("wgmma", 6, "note", "put there as for the swizzle of 64", "wgmma.mma_async"),
    Mistake("cluster", 1, "race", "without a barrier of the cluster", "= other[LENGTH - 1 - i]"),
    Mistake("cluster", 2, "ended block", "(2,0,0) of its cluster", "= other[LENGTH - 1 - i]"),
    Mistake("cluster", 3, "unstarted block", "has begun", "atomicAdd(first_count"),
    Mistake("cluster", 4, "race", "without a barrier", "= other[LENGTH - 1 - i]"),
    Mistake("cluster", 5, "race", "count of 1 elements", "= count;"),
    Mistake("cluster", 7, "race", "without a barrier of the cluster", "sum = BUG == 7"),
    Mistake("multicast", 1, "unstarted block", "has begun", _MULTICAST),
    Mistake("multicast", 2, "race with a copy", "begins a bulk copy that writes it", _MULTICAST),
    Mistake("multicast", 3, "race with a copy", "before that is waited for", _MULTICAST),
    Mistake("multicast", 4, "deadlock", "128 too few", _WAIT),
    Mistake("multicast", 5, "ended block", "has ended", "mapa.shared::cluster"),
    Mistake("multicast", 6, "race", "begins a bulk copy that writes", "sum += stages[s][t]"),
    Mistake("product_ring", 1, "race with a copy", "a wgmma that reads it", "wgmma.mma_async"),
    Mistake("product_ring", 2, "other swizzle", "the swizzle of 128 bytes", "wgmma.mma_async"),
    Mistake("product_ring", 3, "race with a copy", "has begun a wgmma", _TENSOR),
    Mistake("product_ring", 4, "deadlock", "0 of 1 arrivals", _WAIT),
    Mistake("remote", 1, "race", "has not waited at the mbarrier", "= words[t] * 3"),
    Mistake("remote", 2, "race with a copy", "begun an st.async", "= words[t] * 3"),
    Mistake("remote", 3, "ended block", "before that is read", "[%0], [%1], %2, [%3];"),
    Mistake("remote", 4, "race with a copy", "writes it before", "row[t] = 0;"),
    Mistake("remote", 5, "missing proxy fence", "fence.proxy.async", "[%0], [%1], %2, [%3];"),
    Mistake("remote_flag", 1, "race", "without a barrier of the cluster", "= x[first + i *"),
    Mistake("remote_flag", 2, "race", "without a barrier of the cluster", "* row[THREADS - 1 - t]"),
    Mistake("remote_flag", 4, "ended block", "(0,0,0) of its cluster, and", "*taken_there = i + 1"),
    Mistake("dependent", 1, "early access", "the launch before, writes", ": x[N - 1 - i];"),
    Mistake("dependent", 2, "early access", "before the thread waits", "sums[i] += x[i]"),
    Mistake("dependent", 3, "early access", "before the thread waits", "early = BUG == 3"),
    Mistake("dependent", 4, "early access", "not transitive", "sums[i] += x[i]"),
    Mistake("stmatrix", 1, "fault", "no multiple of 16 bytes", "stmatrix.sync"),
    Mistake("stmatrix", 2, "race", "without a barrier", "ldmatrix.sync"),
]


def list_variants() -> list[tuple[str, int]]:
    """Return program and number of each variant: without a mistake (0), and with each that is planted."""
    good = {(program, 0) for program in PROGRAMS}
    planted = {(mistake.program, mistake.bug) for mistake in MISTAKES}
    return sorted(good | planted | ONLY_BY_RESULT | REFUSED | RIGHT)
