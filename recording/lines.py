"""Print the lines of Python of each package, and exit with 1 if one has more than its budget in pyproject.toml."""

import sys
import tomllib
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def main() -> None:
    """Count the packages of `[tool.lines]`, with their rooms."""
    for folder, budget in tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["lines"].items():
        rooms: Counter[str] = Counter()
        for path in (ROOT / folder).rglob("*.py"):
            name, *rest = path.relative_to(ROOT / folder).parts
            rooms[name if rest else "beside them"] += len(path.read_text(encoding="utf-8").splitlines())
        listed = ", ".join(f"{room} {count:,}" for room, count in rooms.most_common())
        print(f"{folder}: {rooms.total():,} lines of Python, at most {budget:,}: {listed}")
        if rooms.total() > budget:
            sys.exit(f"{folder} is over its budget: make it smaller, or change [tool.lines] in pyproject.toml")


if __name__ == "__main__":
    main()
