"""Write engine/docs/asynchronous-verdicts.md: what check mode and compute-sanitizer say of each planted mistake.

python -m tests.hopper.table

What compute-sanitizer says is read from the results of `run_on_gpu` beside this file. What check mode
says is what the tests of `planted` require of it.
"""

import json
import re
from pathlib import Path

from .planted import MISTAKES, ONLY_BY_RESULT, REFUSED, list_variants
from .run_on_gpu import digest

RESULTS = Path(__file__).with_name("nvidia-h200.json")
PAGE = Path(__file__).parents[2] / "docs" / "asynchronous-verdicts.md"
# heads of reports that tell of the program's end, not of a mistake
ENDS = r"COMPUTE-SANITIZER|Program hit|Target application|Warning:|Error: process|.*SUMMARY|\d+ errors were"


def list_reports(tool: str, report: str) -> list[str]:
    """Return "racecheck: RAW hazard, ring.cu:41" and so on of each kind and line in a report, without doubles."""
    found, head = {}, ""
    for line in report.splitlines():
        if not line.startswith("=========  "):
            text = line.removeprefix("=========").strip()
            head = "" if re.match(ENDS, text) else text
        elif head and (place := re.search(r"\bin ([\w.]+:\d+)$", line)):
            kind = re.sub(r"^Error: |^Potential |Potential | (detected|of size) .*|\.$", "", head)
            kind = kind if kind[1].isupper() else kind[0].lower() + kind[1:]
            found[f"{tool}: {kind}, {place[1]}"] = None
            head = ""  # of a race the first line
    return [*found]


def name_outcome(plain: list[str]) -> str:
    """Return in words what several runs of a program have ended with."""
    kinds = [*dict.fromkeys(plain)]
    words = {"PASS": "right by luck", "FAIL": "wrong result", "hang": "hangs"}
    return ", ".join(words.get(kind, kind.removeprefix("error: ")) for kind in kinds)


def write_page() -> str:
    """Return the page in Markdown."""
    results = json.loads(RESULTS.read_text())
    rows = {(row["program"], row["bug"]): row for row in results["rows"]}
    stale = [name for name, kept in results["sources"].items() if digest(name) != kept]
    kinds = {(each.program, each.bug): each.kind for each in MISTAKES}
    noted = [*kinds.values()].count("note")
    others = dict.fromkeys(ONLY_BY_RESULT, "wrong result") | dict.fromkeys(REFUSED, "refused")

    def reports_of(variant: tuple[str, int]) -> list[str]:
        """Return what the tools report of a program on the GPU, tool after tool."""
        tools = rows[variant]["tools"].items() if variant in rows else ()
        return [line for tool, told in tools for line in list_reports(tool, told["report"])]

    lines, named, alarms, right = [], 0, [], 0
    for variant in list_variants():
        program, bug = variant
        if variant not in kinds and variant not in others:
            right += 1
            if told := reports_of(variant):
                version = f", version {bug}" if bug else ""
                alarms.append(f"`{program}`{version} | {'; '.join(told)}")
            continue
        of_right = {*reports_of((program, 0))}
        more = [line for line in reports_of(variant) if line not in of_right]
        named += bool(more)
        outcome = name_outcome(rows[variant]["plain"]) if variant in rows else "not run"
        if variant in REFUSED:
            outcome = "refused by a function of the host"
        ours = kinds.get(variant) or others[variant]
        lines.append(f"| `{program}` {bug} | {outcome} | {ours} | {'; '.join(more) or '–'} |")
    outcomes = [line.split(" | ")[1] for line in lines]
    counts = {
        "hang": sum(each == "hangs" for each in outcomes),
        "give a wrong result in some run": sum("wrong result" in each for each in outcomes),
        "give the right result in each of four runs": outcomes.count("right by luck"),
    }
    counts["end in an error or are refused"] = len(lines) - sum(counts.values())
    summary = "\n".join(f"| {words} | {count} |" for words, count in counts.items())
    version = f"compute-sanitizer {results['compute-sanitizer']}"
    text = f"""# Planted mistakes of asynchronous programs: check mode and compute-sanitizer

The programs in `engine/tests/programs/hopper` use [Hopper's asynchronous instructions](asynchronous.md). They contain
{len(lines)} mistakes on purpose. With them, two tools were tested: `hostcuda sanitize` and NVIDIA's compute-sanitizer.

A comment at the beginning of each program describes its mistakes, which have numbers. For example, the option `-DBUG=2`
compiles the program with mistake 2.

| program | what it does |
|---|---|
| `bulk_in`, `bulk_out` | bulk copies to shared memory, and to global memory |
| `cluster`, `remote`, `remote_flag` | blocks of a cluster share memory, send data, or wait for flags |
| `dependent` | programmatic launches |
| `mbarrier`, `named_barriers` | threads pass numbers on, and wait at mbarriers or numbered barriers |
| `multicast` | two blocks of a cluster copy to each other's shared memory |
| `proxy_fence` | bulk copies of data that ordinary stores have written |
| `ring` | one warp copies, three warps compute, with three buffers |
| `tensor_map`, `product_ring` | copies of tiles by tensor maps; in `product_ring` also matrix products |
| `stmatrix`, `wgmma` | matrices in shared memory, and their products |

For each mistake, the program with this mistake ran four times on an {results["device"]} with driver
{results["driver"]}. If the program hung, it ran only once. The programs ran on {results["date"]}. The mistakes had
these consequences:

| mistakes that | of {len(lines)} |
|---|---:|
{summary}

**`hostcuda sanitize`** runs the programs on the CPU, in *check mode*. It names the line and the cause of
{len(kinds)} mistakes. For {noted} of these mistakes, it prints a note, not a finding, because a program may do the
same on purpose.

**{version}** ran on the GPU, with its tools memcheck, racecheck and synccheck. It finds {named} of the
{len(lines)} mistakes. A mistake is found if compute-sanitizer reports more about the program with the mistake than
about the correct program.

**Correct programs.** The programs also have {right} versions without a mistake. `hostcuda sanitize` reports nothing
about these versions. compute-sanitizer reports errors in {len(alarms)} of them, see the last table of this page.

**The next table** has one row per mistake. If the runs of a program on the GPU had different outcomes, the row names
each of them.

**"Right by luck"** means that all four runs of the program on the GPU gave the right result in spite of the mistake.

**"Wrong result" in the column "check mode"** means that hostcuda reports nothing, but the result on the CPU is wrong.

**To write this page again**, run these commands in the folder `engine`, the first one on a GPU:

```
python -m tests.hopper.run_on_gpu tests/hopper/nvidia-h200.json     # runs all programs
python -m tests.hopper.table                                        # writes the page
```

| mistake | on the GPU | check mode | compute-sanitizer |
|---|---|---|---|
"""
    text += (
        "\n".join(lines)
        + "\n\n| program without a mistake | what compute-sanitizer reports |\n|---|---|\n"
    )
    text += "\n".join(f"| {alarm} |" for alarm in alarms) + "\n"
    if stale:
        text += f"\nNot run on the GPU with their present source: {', '.join(stale)}.\n"
    return text


if __name__ == "__main__":
    PAGE.write_text(write_page())
    print(PAGE)
