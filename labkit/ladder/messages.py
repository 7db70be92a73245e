"""The messages of compilers: errors and warnings, each with its line of the source."""

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

# ptxas, of instructions that the architecture lacks, and nvcc, of functions that its headers then leave out.
_LACKING = re.compile(
    r"(?:Feature|Instruction|Modifier) '\.?(?P<instruction>[^']+)' "
    r"(?:requires \.target sm_(?P<major>\d+)(?P<minor>\d)|(?:not supported on|cannot be compiled for) )"
    r"|identifier \"(?P<function>__reduce_\w+_sync)\" is undefined"
)


@dataclass(frozen=True)
class Message:
    """A compiler's message about a place in a cell. `column` counts from 1; 0 where the compiler gives none."""

    line: int
    column: int
    kind: str
    text: str

    def show(self, lines: list[str]) -> str:
        """Return the message as text, with the line of the cell and a caret below the column."""
        text = f"line {self.line}: {self.kind}: {self.text}"
        if not 1 <= self.line <= len(lines):
            return text
        code = lines[self.line - 1]
        text += f"\n    {code.strip()}"
        indent = len(code) - len(code.lstrip())
        return f"{text}\n    {' ' * (self.column - 1 - indent)}^" if self.column > indent else text


def parse_messages(output: str, lines: list[str]) -> Iterator[Message]:
    """Yield errors and warnings of g++, clang++ or nvcc, and notes where a variable that one names is declared."""
    output_lines = output.splitlines()
    for index, text in enumerate(output_lines):
        if match := _HOST.match(text) or _NVCC.match(text):
            line, column = int(match["line"]), int(match.groupdict().get("column") or 0)
            if match.re is _NVCC and 1 <= line <= len(lines):
                column = _find_column(output_lines[index + 1 : index + 3], lines[line - 1])
            words = re.sub(r" \[-W[\w=-]+\]$", "", match["text"])
            yield Message(line, column, match["kind"], words)


def _find_column(below: list[str], code: str) -> int:
    """Return the column that nvcc's caret points to in the two lines below its message; 0 if there is no caret."""
    if len(below) < 2 or below[1].strip() != "^" or not code.strip() or code.strip() not in below[0]:
        return 0
    return below[1].index("^") - below[0].index(code.strip()) + code.index(code.strip()) + 1


def format_messages(several: Iterable[Message], lines: list[str]) -> str:
    """Return the first messages with their lines of the source."""
    several = list(dict.fromkeys(several))
    parts = [message.show(lines) for message in several[:SHOWN]]
    if len(several) > SHOWN:
        parts.append(f"and {len(several) - SHOWN} more, which may follow from these")
    return "\n".join(parts)


def errors(output: str, lines: list[str]) -> str:
    """Return the errors among a compiler's messages, as `format_messages` shows them."""
    return format_messages((message for message in parse_messages(output, lines) if "error" in message.kind), lines)


def find_lacking(output: str) -> str:
    """Return which instruction the GPU lacks, by nvcc's and ptxas' messages, and which one has it; "" if none is."""
    if not (match := _LACKING.search(output)):
        return ""
    if match["major"] or match["function"]:
        capability = f"{match['major']}.{match['minor']}" if match["major"] else "8.0"
        return f"{match['instruction'] or match['function']}, which needs compute capability {capability}"
    return f"{match['instruction']}, which its architecture does not have"


def is_in_unroll(message: Message, text: str) -> bool:
    """Return whether a variable said to be unused stands in a `#pragma unroll`, which the host's compiler ignores."""
    name = re.fullmatch(r"unused variable .(\w+).", message.text)
    return bool(name and re.search(rf"#\s*pragma\s+unroll\s+{name[1]}\b", text))
