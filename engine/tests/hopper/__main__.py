"""Print a table: of each planted mistake what check mode says, and whether that names its line and its cause.

python -m tests.hopper        all
python -m tests.hopper ring   of these programs
"""

import sys

from .checked import check
from .planted import MISTAKES, ONLY_BY_RESULT, PROGRAMS, REFUSED, RIGHT


def main():
    chosen = sys.argv[1:] or PROGRAMS
    named = [mistake for mistake in MISTAKES if mistake.program in chosen]
    count = 0
    print("| program | mistake | named | finding |\n|---|---|---|---|")
    for mistake in named:
        found = check(mistake.program, mistake.bug)
        is_named = mistake.is_named(found)
        count += is_named
        kinds = ", ".join(dict.fromkeys([*found.table["kind"], *["note"] * bool(found.notes())]))
        row = mistake.program, mistake.bug, "yes" if is_named else "no", kinds or "nothing"
        print("|", " | ".join(map(str, row)), "|", flush=True)
    others = dict.fromkeys(ONLY_BY_RESULT, "nothing: only its result is wrong")
    others |= dict.fromkeys(REFUSED, "nothing: a function of the host refuses it")
    others = {pair: others[pair] for pair in sorted(others) if pair[0] in chosen}
    for (program, bug), finding in others.items():
        print(f"| {program} | {bug} | no | {finding} |")
    right = [(program, 0) for program in chosen] + sorted(
        pair for pair in RIGHT if pair[0] in chosen
    )
    found = [(f"{program}/{bug}", check(program, bug)) for program, bug in right]
    accused = [name for name, each in found if len(each.table) or each.notes()]
    print(
        f"\n{count} of {len(named) + len(others)} mistakes are named; of {len(right)} right programs are accused:",
        *accused or ["none"],
    )


if __name__ == "__main__":
    main()
