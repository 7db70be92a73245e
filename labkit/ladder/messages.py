"""The messages of compilers: errors and warnings, each with its line of the source."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from difflib import SequenceMatcher

from hostcuda.source import code_only, find_pairs

SHOWN = 5  # messages; later ones mostly follow from the first

# g++ and clang++: "04_tiling.cu:12:5: error: ..."; nvcc: "04_tiling.cu(12): error: ...", the line
# and a caret below.
_HOST = re.compile(
    r"(?P<file>[^\s:][^:]*):(?P<line>\d+)(?::(?P<column>\d+))?: "
    r"(?P<kind>[a-z ]*error|warning|note(?=: .* was declared here)): (?P<text>.*)"
)
_NVCC = re.compile(
    r"(?P<file>[^\s(][^(]*)\((?P<line>\d+)\): (?P<kind>[a-z ]*error|warning)(?: #[\w-]+)?: (?P<text>.*)"
)

# ptxas, of instructions that the architecture lacks, "Instruction 'wgmma' requires .target sm_90 or
# higher", and nvcc, of functions that its headers then leave out.
_LACKING = re.compile(
    r"(?:Feature|Instruction|Modifier) '\.?(?P<instruction>[^']+)' "
    r"(?:requires \.target sm_(?P<major>\d+)(?P<minor>\d)|(?:not supported on|cannot be compiled for) )"
    r"|identifier \"(?P<function>__reduce_\w+_sync)\" is undefined"
)


@dataclass(frozen=True)
class Message:
    """A compiler's message about a place in a cell.

    `line` and `column` count from 1; 0 where the compiler gives none. `kind` is "error", "fatal
    error", "warning" or "note".
    """

    line: int
    column: int
    kind: str
    text: str

    def show(self, lines: list[str]) -> str:
        """Return the message as text, with its line of the source and a caret below its column.

        `lines` are all lines of the source. A line that it does not have, and a column that is not
        known, are left out.
        """
        text = f"line {self.line}: {self.kind}: {self.text}"
        if not 1 <= self.line <= len(lines):
            return text
        code = lines[self.line - 1]
        text += f"\n    {code.strip()}"
        blanks = len(code) - len(code.lstrip())  # at the beginning of the line, which are not shown
        return f"{text}\n    {' ' * (self.column - 1 - blanks)}^" if self.column > blanks else text


def parse_messages(output: str, lines: list[str]) -> Iterator[Message]:
    """Yield the errors, warnings and notes of declarations in the output of g++, clang++ or nvcc.

    `lines` are those of the source that was compiled.
    """
    output_lines = output.splitlines()
    for index, text in enumerate(output_lines):
        if match := _HOST.match(text) or _NVCC.match(text):
            # 0 without a column, which the pattern of nvcc's messages does not have
            line, column = int(match["line"]), int(match.groupdict().get("column") or 0)
            # nvcc shows the column by a caret in the lines that follow
            if match.re is _NVCC and 1 <= line <= len(lines):
                column = _find_column(output_lines[index + 1 : index + 3], lines[line - 1])
            # without the option's name, " [-Wunused-variable]"
            words = re.sub(r" \[-W[\w=-]+\]$", "", match["text"])
            yield Message(line, column, match["kind"], words)


def match_lines(text: str, cell: str) -> dict[int, int]:
    """Map the numbers of the lines of a text that come from a cell to their numbers in the cell, all from 1."""
    # a matching block is (start in the text, start in the cell, lines); its starts count from 0
    matcher = SequenceMatcher(None, text.splitlines(), cell.splitlines(), autojunk=False)
    return {
        text_start + i: cell_start + i
        for text_start, cell_start, count in matcher.get_matching_blocks()
        for i in range(1, count + 1)
    }


def to_cell_lines(messages: Iterable[Message], text: str, cell: str) -> Iterator[Message]:
    """Yield messages about a text, with the line numbers of the cell whose functions are in it.

    `text` is a whole kernel, in which the cell's functions stand in place of those of the same names.
    A message about a line that is not the cell's gets the line of a `{` that the cell does not
    close, and says so. If all are closed, it gets the line 0.
    """
    lines, brace = match_lines(text, cell), find_unclosed_brace(code_only(cell))
    for message in messages:
        if message.line in lines:
            yield replace(message, line=lines[message.line])
        elif brace:  # the compiler looks for its end behind the cell
            yield replace(message, line=brace, column=0, text="no } closes the { of this line")
        else:
            yield replace(
                message,
                line=0,
                text=f"{message.text} (in the part of the kernel that is not in the cell)",
            )


def find_unclosed_brace(code: str) -> int:
    """Return the line, from 1, of a `{` that no `}` closes, in a text without comments; 0 if all are closed.

    Where a `}` is indented less than the line of its `{`, it was meant for an earlier one: the `{` is
    told as unclosed. Otherwise it is the last one without a `}`.
    """
    pairs = [*find_pairs(code, "{}")]
    unclosed = {sign.start() for sign in re.finditer("{", code)} - {
        opening for opening, *_ in pairs
    }
    if not unclosed:
        return 0
    lines = code.split("\n")
    for opening, closing, _ in pairs:
        # the lines in which the two braces stand
        opener, line = (lines[code.count("\n", 0, at)] for at in (opening, closing))
        if re.match(r"\s*}", line) and _find_indentation(line) < _find_indentation(opener):
            return 1 + code.count("\n", 0, opening)
    return 1 + code.count("\n", 0, max(unclosed))


def _find_indentation(line: str) -> int:
    """Return how many blanks a line begins with."""
    return len(line) - len(line.lstrip())


def _find_column(below: list[str], code: str) -> int:
    """Return the column, from 1, that nvcc's caret points to in the line `code`; 0 if there is no caret.

    `below` are the two lines below nvcc's message: the line of code, which nvcc indents anew, and
    the caret.
    """
    text = code.strip()
    if len(below) < 2 or below[1].strip() != "^" or not text or text not in below[0]:
        return 0
    return below[1].index("^") - below[0].index(text) + code.index(text) + 1


def format_messages(messages: Iterable[Message], lines: list[str]) -> str:
    """Return the first `SHOWN` messages as text, each with its line of the source, whose lines are given."""
    distinct = list(dict.fromkeys(messages))
    parts = [message.show(lines) for message in distinct[:SHOWN]]
    if len(distinct) > SHOWN:
        parts.append(f"and {len(distinct) - SHOWN} more, which may follow from these")
    return "\n".join(parts)


def format_errors(output: str, lines: list[str]) -> str:
    """Return the errors among a compiler's messages, as `format_messages` shows them."""
    return format_messages(
        (message for message in parse_messages(output, lines) if "error" in message.kind), lines
    )


def find_lacking(output: str) -> str:
    """Return what the GPU lacks, by a compiler's output: "wgmma, which needs compute capability 9.0".

    "wgmma, which its architecture does not have" if the compiler does not say what it needs; "" if
    the output complains of nothing that a GPU lacks.
    """
    if not (match := _LACKING.search(output)):
        return ""
    if match["major"] or match["function"]:
        # 8.0: of a function __reduce_..._sync nvcc says only that it is undefined
        capability = f"{match['major']}.{match['minor']}" if match["major"] else "8.0"
        return f"{match['instruction'] or match['function']}, which needs compute capability {capability}"
    return f"{match['instruction']}, which its architecture does not have"


def is_in_unroll(message: Message, text: str) -> bool:
    """Return whether a message calls a variable unused that only a `#pragma unroll` uses, which g++ does not read."""
    name = re.fullmatch(r"unused variable .(\w+).", message.text)  # in quotation marks of any kind
    return bool(name and re.search(rf"#\s*pragma\s+unroll\s+{name[1]}\b", text))
