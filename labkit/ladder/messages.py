"""What compilers say about a source: errors and warnings, each with its line of the source."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

SHOWN = 5  # messages; later ones mostly follow from the first

# g++ and clang++; nvcc, which prints the line and a caret below.
_HOST = re.compile(
    r"(?P<file>[^\s:][^:]*):(?P<line>\d+)(?::(?P<column>\d+))?: "
    r"(?P<kind>[a-z ]*error|warning|note(?=: .* was declared here)): (?P<text>.*)"
)
_NVCC = re.compile(r"(?P<file>[^\s(][^(]*)\((?P<line>\d+)\): (?P<kind>[a-z ]*error|warning)(?: #[\w-]+)?: (?P<text>.*)")


@dataclass(frozen=True)
class Message:
    """What a compiler says about a place in a cell. `column` counts from 1; 0 where the compiler gives none."""

    line: int
    column: int
    kind: str
    text: str

    def show(self, lines: list[str]) -> str:
        """The message, the line of the cell, and a caret below the column."""
        shown = f"line {self.line}: {self.kind}: {self.text}"
        if not 1 <= self.line <= len(lines):
            return shown
        code = lines[self.line - 1]
        shown += f"\n    {code.strip()}"
        indent = len(code) - len(code.lstrip())
        return f"{shown}\n    {' ' * (self.column - 1 - indent)}^" if self.column > indent else shown


def messages(output: str, lines: list[str]) -> Iterator[Message]:
    """Errors and warnings in the output of g++, clang++ or nvcc, and where the variable that one names is declared."""
    said = output.splitlines()
    for number, text in enumerate(said):
        if found := _HOST.match(text) or _NVCC.match(text):
            line, column = int(found["line"]), int(found.groupdict().get("column") or 0)
            if found.re is _NVCC and 1 <= line <= len(lines):
                column = _column(said[number + 1 : number + 3], lines[line - 1])
            what = re.sub(r" \[-W[\w=-]+\]$", "", found["text"])
            yield Message(line, column, found["kind"], what)


def _column(below: list[str], code: str) -> int:
    """The column that nvcc's caret points to, of the two lines below its message; 0 if there is no caret."""
    if len(below) < 2 or below[1].strip() != "^" or not code.strip() or code.strip() not in below[0]:
        return 0
    return below[1].index("^") - below[0].index(code.strip()) + code.index(code.strip()) + 1


def report(found: Iterable[Message], lines: list[str]) -> str:
    """The first messages with their lines of the source."""
    found = list(dict.fromkeys(found))
    shown = [each.show(lines) for each in found[:SHOWN]]
    if len(found) > SHOWN:
        shown.append(f"and {len(found) - SHOWN} more, which may follow from these")
    return "\n".join(shown)


def errors(output: str, lines: list[str]) -> str:
    """The errors among a compiler's messages, as `report` shows them."""
    return report((each for each in messages(output, lines) if "error" in each.kind), lines)


def unrolls(message: Message, text: str) -> bool:
    """Whether a variable that the host's compiler finds unused is one by which a loop is unrolled: it ignores those."""
    name = re.fullmatch(r"unused variable .(\w+).", message.text)
    return bool(name and re.search(rf"#\s*pragma\s+unroll\s+{name[1]}\b", text))
