"""Print the lines of Python of each package, and exit with 1 if one has more than its budget in pyproject.toml."""

import sys
import tomllib
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def main() -> None:
    """Count the lines of the packages of `[tool.lines]`, in total and by subpackage, and print them."""
    for folder, budget in tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"][
        "lines"
    ].items():
        counts: Counter[str] = Counter()
        for path in (ROOT / folder).rglob("*.py"):
            name, *rest = path.relative_to(ROOT / folder).parts
            counts[name if rest else "beside them"] += len(
                path.read_text(encoding="utf-8").splitlines()
            )
        listed = ", ".join(f"{name} {count:,}" for name, count in counts.most_common())
        print(f"{folder}: {counts.total():,} lines of Python, at most {budget:,}: {listed}")
        if counts.total() > budget:
            sys.exit(
                f"{folder} is over its budget: make it smaller, or change [tool.lines] in pyproject.toml"
            )


if __name__ == "__main__":
    main()
