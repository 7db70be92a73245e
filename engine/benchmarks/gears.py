"""List which kernels of the ladder and of the textbook corpus run in which gear of the CPU engine (docs/gears.md).

    python benchmarks/gears.py            print the table
    python benchmarks/gears.py --write    write it into docs/gears.md

Nothing is compiled: the table is made from the text that the rewriter writes.
"""

import argparse
import re
from pathlib import Path

from hostcuda.source import rewritten
from labkit.ladder.rungs import LADDER
from labkit.ladder.variants import variant
from labkit.spec.layers import LENET86

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "gears.md"
_KERNEL = re.compile(
    r'HOSTCUDA_KERNEL_(?:LOOPS|WARPS|GROUPS)\(.*?, \((.*)\), "(.*)", (.*)\)$', re.MULTILINE
)
_PLACE = re.compile(r"(?<=<!-- table -->\n).*(?=<!-- end -->)", re.DOTALL)


def gears(**arguments) -> dict[str, list[str]]:
    """Map "loops", "fibers" (with the reason) and "none" (no barrier is needed) to a source's kernels.

    The arguments are those of `hostcuda.source.rewritten`.
    """
    kernels = {"loops": [], "fibers": [], "none": []}
    for second, reason, name in _KERNEL.findall(rewritten(**arguments)):
        gear = "loops" if second else "none" if reason == "it has no barrier" else "fibers"
        kernels[gear].append(f"`{name}`: {reason}" if gear == "fibers" else f"`{name}`")
    return kernels


def table() -> str:
    """Return the table as Markdown."""
    sources = {}
    for rung in LADDER:
        chosen = variant(rung.number)
        sources[chosen.label] = gears(**chosen.compiler_arguments(chosen.defines(LENET86[1])))
    for path in sorted((ROOT / "tests" / "corpus").glob("*.cu")):
        sources[path.name] = gears(source=path.read_text(encoding="utf-8"), no_extern_c=True)
    lines = ["| source | thread loops | fibers, and why | no barrier |", "|---|---|---|---|"]
    for name, kernels in sources.items():
        cells = [
            ", ".join(kernels["loops"]),
            "; ".join(kernels["fibers"]),
            str(len(kernels["none"]) or ""),
        ]
        lines.append(f"| {' | '.join([name, *cells])} |")
    total = {
        gear: sum(len(kernels[gear]) for kernels in sources.values())
        for gear in ("loops", "fibers", "none")
    }
    lines.append(f"| all | {total['loops']} | {total['fibers']} | {total['none']} |")
    return re.sub(r" +", " ", "\n".join(lines)) + "\n"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--write", action="store_true", help="write the table into docs/gears.md")
    if parser.parse_args().write:
        PAGE.write_text(
            _PLACE.sub(lambda _: table(), PAGE.read_text(encoding="utf-8")), encoding="utf-8"
        )
    else:
        print(table(), end="")
