"""List which kernels of the ladder and of the textbook corpus run in which mode of the CPU engine.

    python benchmarks/execution.py                                      print the table
    python benchmarks/execution.py | python -m recording readme modes   write it into engine/docs/execution.md

Nothing is compiled: the table is made from the text that the rewriter writes.
"""

import re
from pathlib import Path

from hostcuda.source import rewritten
from labkit.ladder.rungs import LADDER
from labkit.ladder.variants import variant
from labkit.spec.layers import LENET86

CORPUS = Path(__file__).resolve().parents[1] / "engine" / "tests" / "corpus"
_KERNEL = re.compile(
    r'HOSTCUDA_KERNEL_(?:LOOPS|WARPS|GROUPS)\(.*?, \((.*)\), "(.*)", (.*)\)$', re.MULTILINE
)


def modes(**arguments) -> dict[str, list[str]]:
    """Return in which mode the engine runs each kernel of a source: {"loops": ["`f`"], "fibers": [...], "none": []}.

    A kernel on fibers has the reason, "`g`: it uses ..."; "none" has the kernels without barriers.
    The arguments are those of `hostcuda.source.rewritten`.
    """
    kernels = {"loops": [], "fibers": [], "none": []}
    for second, reason, name in _KERNEL.findall(rewritten(**arguments)):
        mode = "loops" if second else "none" if reason == "it has no barrier" else "fibers"
        kernels[mode].append(f"`{name}`: {reason}" if mode == "fibers" else f"`{name}`")
    return kernels


def table() -> str:
    """Return a table in Markdown of the mode in which the engine runs each kernel of the ladder and the corpus."""
    sources = {}
    for rung in LADDER:
        chosen = variant(rung.number)
        sources[chosen.label] = modes(**chosen.compiler_arguments(chosen.defines(LENET86[1])))
    for path in sorted(CORPUS.glob("*.cu")):
        sources[path.name] = modes(source=path.read_text(encoding="utf-8"), no_extern_c=True)
    lines = ["| source | thread loops | fibers, and why | no barrier |", "|---|---|---|---|"]
    for name, kernels in sources.items():
        cells = [
            ", ".join(kernels["loops"]),
            "; ".join(kernels["fibers"]),
            str(len(kernels["none"]) or ""),
        ]
        lines.append(f"| {' | '.join([name, *cells])} |")
    total = {
        mode: sum(len(kernels[mode]) for kernels in sources.values())
        for mode in ("loops", "fibers", "none")
    }
    lines.append(f"| all | {total['loops']} | {total['fibers']} | {total['none']} |")
    return re.sub(r" +", " ", "\n".join(lines)) + "\n"


if __name__ == "__main__":
    print(table(), end="")
