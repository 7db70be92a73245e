"""Print a table: of each planted mistake what check mode says, and whether that names its line and its cause.

python -m tests.hopper           all
python -m tests.hopper 05_ring   of these programs
"""

import sys

from . import CHECKSUMS, MISTAKES, ONLY_BY_RESULT, RIGHT, check


def main():
    chosen = sys.argv[1:] or [*CHECKSUMS]
    named = [mistake for mistake in MISTAKES if mistake.program in chosen]
    count = 0
    print("| program | mistake | named | finding |\n|---|---|---|---|")
    for mistake in named:
        found = check(mistake.program, mistake.bug)
        is_named = mistake.is_named(found)
        count += is_named
        kinds = ", ".join(dict.fromkeys(found.table["kind"]))
        row = mistake.program, mistake.bug, "yes" if is_named else "no", kinds or "nothing"
        print("|", " | ".join(map(str, row)), "|", flush=True)
    for program, bug in sorted(pair for pair in ONLY_BY_RESULT if pair[0] in chosen):
        print(f"| {program} | {bug} | no | nothing: only its result is wrong |")
    named += [pair for pair in ONLY_BY_RESULT if pair[0] in chosen]
    right = [(program, 0) for program in chosen] + sorted(
        pair for pair in RIGHT if pair[0] in chosen
    )
    accused = [f"{program}/{bug}" for program, bug in right if len(check(program, bug).table)]
    print(
        f"\n{count} of {len(named)} mistakes are named; of {len(right)} right programs are accused:",
        *accused or ["none"],
    )


if __name__ == "__main__":
    main()
