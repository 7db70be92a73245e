"""Kernel cells: CUDA C++ in a notebook, compiled when the cell runs.

``%%kernel 04`` puts the cell in the place of rung 04 and gives a variant; ``%%cuda name`` gives a module. Errors and
warnings have the numbers of the cell's own lines: the magic's line counts, as it does in the editor.
"""

from __future__ import annotations

import keyword
import re
import shlex
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell
from IPython.core.magic import Magics, cell_magic, magics_class
from IPython.core.magic_arguments import argument, magic_arguments
from IPython.utils.process import arg_split

from labkit import cuda
from labkit.base.errors import LabError
from labkit.cpu import compiler as host
from labkit.ladder import source, tables
from labkit.ladder.variants import Variant, variant
from labkit.page.listing import launch_text
from labkit.spec.layers import LENET86

SHOWN = 5  # messages; later ones mostly follow from the first

# g++ and clang++; nvcc, which prints the line and a caret below.
_HOST = re.compile(
    r"(?P<file>[^\s:][^:]*):(?P<line>\d+)(?::(?P<column>\d+))?: "
    r"(?P<kind>[a-z ]*error|warning|note(?=: .* was declared here)): (?P<text>.*)"
)
_NVCC = re.compile(r"(?P<file>[^\s(][^(]*)\((?P<line>\d+)\): (?P<kind>[a-z ]*error|warning)(?: #[\w-]+)?: (?P<text>.*)")


class CompileFailed(LabError):
    """A cell does not compile. The message shows each error with its line of the cell."""


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


def _report(found: Iterable[Message], lines: list[str]) -> str:
    found = list(dict.fromkeys(found))
    shown = [each.show(lines) for each in found[:SHOWN]]
    if len(found) > SHOWN:
        shown.append(f"and {len(found) - SHOWN} more, which may follow from these")
    return "\n".join(shown)


def _is_name(text: str) -> bool:
    return text.isidentifier() and not keyword.iskeyword(text)


@magics_class
class KernelCells(Magics):
    """The cell magics of the lab."""

    @magic_arguments()
    @argument("rung", help="The number or the name of the rung whose place the cell takes.")
    @argument("options", nargs="*", help="Options of the rung, as tile=32 or step=weights.")
    @argument("--name", help="A variable that gets the variant, too; without it, take _.")
    @cell_magic
    def kernel(self, line: str, cell: str) -> Variant:
        """Compile the cell in place of a rung's kernel: a variant for `check`, `bench`, `profile`, `sanitize`."""
        chosen = self.kernel.parser.parse_intermixed_args(arg_split(line))  # options may follow --name
        if chosen.name:
            self._free(chosen.name)
        which = int(chosen.rung) if chosen.rung.isdigit() else chosen.rung
        if wrong := [each for each in chosen.options if "=" not in each]:
            raise UsageError(f"{wrong[0]} is not an option: write name=value, as tile=32")
        text = f"// %%kernel {line}\n{cell}"
        if not source.kernel_names(source.code_only(text)):
            raise LabError("the cell has no kernel: write a function that begins with __global__ void")
        mine = variant(which, text, **tables.options(" ".join(chosen.options)))
        with _own_lines(text):
            mine.precompile(*LENET86)
            launch = launch_text(mine)
        _warn(text, mine.compiler_arguments(mine.defines(LENET86[0])))
        print(launch)
        if chosen.name:
            self.shell.user_ns[chosen.name] = mine
        return mine

    def _free(self, name: str) -> None:
        """Forget the kernel of an earlier cell: after an error, no later cell may take it for the present one."""
        if not _is_name(name):
            raise UsageError(f"--name {name} is not a name of Python")
        if not isinstance(self.shell.user_ns.get(name), (Variant, type(None))):
            raise UsageError(f"--name {name}: this name has another value already; take a new one, such as mine")
        self.shell.user_ns.pop(name, None)

    @cell_magic
    def cuda(self, line: str, cell: str) -> None:
        """Compile the cell as a module: ``%%cuda NAME [nvcc's options]``, then ``NAME.get_function("kernel")``."""
        try:
            name, *options = shlex.split(line) or [""]
        except ValueError as error:
            raise UsageError(f"%%cuda {line}: {error}") from None
        if not _is_name(name):
            raise UsageError("%%cuda needs a name for the module: %%cuda vectors")
        text = f"// %%cuda {line}\n{cell}"
        kernels = source.kernel_names(source.code_only(text))
        arguments = source.module_arguments(text, f"{name}.cu", *options) | {"no_extern_c": 'extern "C"' in text}
        cuda.ensure_context()
        with _own_lines(text):
            self.shell.user_ns[name] = cuda.compiler.SourceModule(**arguments)
        _warn(text, arguments)
        print(f"{name}: {', '.join(kernels) or 'no kernel'}")


@contextmanager
def _own_lines(text: str) -> Iterator[None]:
    """Turn the compiler's error into one about the cell's lines."""
    try:
        yield
    except cuda.driver.CompileError as error:
        lines, output = text.splitlines(), f"{error.stderr or ''}\n{error.stdout or ''}"
        if shown := _report((each for each in messages(output, lines) if "error" in each.kind), lines):
            raise CompileFailed(f"the cell does not compile\n{shown}") from None
        raise


def _warn(text: str, arguments: dict) -> None:
    lines = text.splitlines()
    found = messages(host.warnings_about(**arguments), lines)
    if shown := _report((each for each in found if not _unrolls(each, text)), lines):
        print(shown)


def _unrolls(message: Message, text: str) -> bool:
    """Whether a variable that the host's compiler finds unused is one by which a loop is unrolled: it ignores those."""
    name = re.fullmatch(r"unused variable .(\w+).", message.text)
    return bool(name and re.search(rf"#\s*pragma\s+unroll\s+{name[1]}\b", text))


def load_ipython_extension(shell: InteractiveShell) -> None:
    """Add ``%%kernel`` and ``%%cuda`` to a notebook: IPython calls it for ``%load_ext labkit``."""
    shell.register_magics(KernelCells)
