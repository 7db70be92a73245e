"""Programs of Hopper's asynchronous instructions with planted mistakes, and what check mode has to say of each.

Each program of ``programs/hopper`` compares its result itself and prints ``PASS bad=0
checksum=N``; on an H200 all do. ``-DBUG=n`` plants its n-th mistake, which its first lines name.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from hostcuda.sanitize import Findings, sanitize_script

PROGRAMS = Path(__file__).parents[1] / "programs" / "hopper"
CHECKSUMS = {  # of an H200
    "01_mbarrier": "7462912",
    "03_bulk_g2s": "545971560",
    "04_bulk_s2g": "43120557606",
    "05_ring": "23218826660",
    "06_named_barrier": "138772480",
    "07_fence_proxy": "86258429133",
    "08_tma2d": "3647820000",
    "11_wgmma": "99328.0",
    "13_stmatrix": "15786108",
}
# Values that are wrong although every access is in order: the program's own comparison finds them.
ONLY_BY_RESULT = {
    ("08_tma2d", 1),
    ("08_tma2d", 2),
    ("08_tma2d", 4),
    ("11_wgmma", 4),
    ("11_wgmma", 6),
    ("13_stmatrix", 3),
}
RIGHT = {("05_ring", 6), ("06_named_barrier", 5)}  # variants without a mistake


@dataclass(frozen=True)
class Mistake:
    """A planted mistake: its program, its number, and what one of the findings has to be.

    `text` is in the finding's sentence, and `line`, the text of a line of the program, is that of
    the finding or is named in its sentence.
    """

    program: str
    bug: int
    kind: str
    text: str
    line: str

    def is_named(self, findings: Findings) -> bool:
        """Return whether one of the findings names the line and the cause."""
        path = PROGRAMS / f"{self.program}.cu"
        numbers = {
            number
            for number, line in enumerate(path.read_text().splitlines(), 1)
            if self.line in line
        }

        def names(row):
            """Return whether a finding is this one: with its line, or a sentence that has it."""
            lines = {row["line"], (row["other"] or {}).get("line")}
            lines |= {int(n) for n in re.findall(rf"{path.name}:(\d+)", row["message"])}
            return (
                row["kind"] == self.kind and self.text in row["message"] and bool(numbers & lines)
            )

        return any(map(names, findings.table.to_dict("records")))


_WAIT, _COPY = "mbarrier.try_wait.parity", "cp.async.bulk."
MISTAKES = [
    Mistake("01_mbarrier", 1, "race", "without a barrier", "acc += v["),
    Mistake("01_mbarrier", 2, "deadlock", "127 of 128 arrivals", _WAIT),
    Mistake("01_mbarrier", 3, "race", "array bar", "mbarrier.init"),
    Mistake("03_bulk_g2s", 1, "deadlock", "16 too few", "arrive.expect_tx"),
    Mistake("03_bulk_g2s", 2, "deadlock", "4096 too many", "arrive.expect_tx"),
    Mistake("03_bulk_g2s", 3, "fault", "its source is no multiple of 16", _COPY),
    Mistake("03_bulk_g2s", 4, "fault", "its size is no multiple of 16", _COPY),
    Mistake("03_bulk_g2s", 5, "fault", "its target is no multiple of 16", _COPY),
    Mistake("03_bulk_g2s", 6, "race with a copy", "reads it before", "s[dst + (i * 5 + 3) % N]"),
    Mistake("03_bulk_g2s", 7, "race with a copy", "reads it before", "s[dst + (i * 5 + 3) % N]"),
    Mistake("04_bulk_s2g", 1, "race with a copy", "writes it before", "s[i] = (base + i)"),
    Mistake("04_bulk_s2g", 2, "race with a copy", "writes it before", "s[i] = (base + i)"),
    Mistake("04_bulk_s2g", 3, "copy that is not awaited", "the block ends", _COPY),
    Mistake(
        "05_ring", 1, "fault", "too many arrive at the mbarrier in full[0]", "arrive.expect_tx"
    ),
    Mistake("05_ring", 2, "deadlock", "parity 0 of the mbarrier in empty[0]", _WAIT),
    Mistake("05_ring", 3, "deadlock", "parity 0 of the mbarrier in empty[0]", _WAIT),
    Mistake("05_ring", 4, "race with a copy", "reads it before", "buf[st][j]"),
    Mistake("05_ring", 5, "race", "begins a bulk copy that writes", _COPY),
    Mistake("06_named_barrier", 1, "divergent barrier", "expects", "bar.sync"),
    Mistake("06_named_barrier", 2, "divergent barrier", "expects", "bar.sync"),
    Mistake("06_named_barrier", 3, "race", "without a barrier", "buf["),
    Mistake("06_named_barrier", 4, "fault", "for whole warps", "bar.sync"),
    Mistake("07_fence_proxy", 1, "missing proxy fence", "fence.proxy.async", _COPY),
    Mistake("07_fence_proxy", 2, "race with a copy", "writes it before", "s[b][i] = (base"),
    Mistake("07_fence_proxy", 3, "missing proxy fence", "fence.proxy.async", _COPY),
    Mistake("08_tma2d", 3, "deadlock", "too many", "arrive.expect_tx"),
    Mistake("08_tma2d", 5, "fault", "no multiple of 128 bytes", "cp.async.bulk.tensor"),
    Mistake("11_wgmma", 1, "missing wgmma.fence", "wgmma.fence", "wgmma.mma_async"),
    Mistake("11_wgmma", 2, "race with a product", "before the warp has waited", "= d[i];"),
    Mistake("11_wgmma", 3, "missing proxy fence", "a wgmma that reads it", "(half*)(sa + place"),
    Mistake("11_wgmma", 5, "race with a product", "before the warp has waited", "= d[i];"),
    Mistake("13_stmatrix", 1, "fault", "no multiple of 16 bytes", "stmatrix.sync"),
    Mistake("13_stmatrix", 2, "race", "without a barrier", "ldmatrix.sync"),
]


def check(program: str, bug: int = 0) -> Findings:
    """Run a program with its mistake of that number in check mode, and return what was found."""
    path = str(PROGRAMS / f"{program}.cu")
    return sanitize_script(path, engine="cpu", capture=True, options=[f"-DBUG={bug}"])
