"""Compile kernel cells: CUDA C++ in a notebook, when the cell runs.

``%%kernel 04`` puts the cell in the place of rung 04 and returns a variant; with ``--part`` it
replaces some functions. ``%%cuda name`` makes a module. Errors and warnings have the numbers of the
cell's own lines; the magic's line counts, as it does in the editor. ``%%program name.cu`` keeps the
cell as a file, and ``%hostcuda run name.cu`` runs it.
"""

import hashlib
import json
import keyword
import re
import shlex
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell
from IPython.core.magic import Magics, cell_magic, line_magic, magics_class
from IPython.core.magic_arguments import argument, magic_arguments
from IPython.utils.process import arg_split

import hostcuda
from hostcuda import processes
from hostcuda.files import write
from hostcuda.source import code_only, kernel_names, warnings_about
from labkit.base.errors import LabError
from labkit.evidence.modules import keep_launches
from labkit.exercises.attempts import CHECKED
from labkit.exercises.exercise import exercise
from labkit.exercises.subjects import InPlaceOf, Kernels
from labkit.ladder import source, tables
from labkit.ladder.messages import (
    format_messages,
    is_in_unroll,
    parse_messages,
    to_cell_lines,
)
from labkit.ladder.rungs import rung
from labkit.ladder.variants import ON_CPU, Variant, name_missing_instruction, variant
from labkit.page.listing import launch_text
from labkit.spec.devices import device
from labkit.spec.layers import LENET86, Layer

PROGRAMS = Path("programs")  # beside the notebook, whose folder a kernel works in
_READS = re.compile(r"\bcin\s*>>|\bgetline\s*\(\s*(?:std::)?cin|\b(?:scanf|getchar)\s*\(")
_DIGESTS = ".cells.json"  # in it: name of a file -> digest of what a cell wrote, also in an earlier session


class CompileFailed(LabError):
    """A cell does not compile. The message shows each error with its line of the cell."""


class _NotCompiled:
    """The value of a cell's name until the cell has compiled: any use raises an error that says so."""

    def __init__(self, name: str):
        self._text = f"the cell of `{name}` did not compile: see its messages above"

    def __repr__(self) -> str:
        return self._text

    def __getattr__(self, attribute: str) -> None:
        """Raise LabError, which says that the cell of this name did not compile."""
        if attribute.startswith("_"):  # Python and IPython look such names up in any object
            raise AttributeError(attribute)
        raise LabError(self._text)


def _find_launch(number: str | None, which: int | str) -> tuple[dict, Sequence[Layer]]:
    """Return the options of a rung, and the layers, for the exercise with a number; {} and LENET86 without a number.

    UsageError if the exercise is not answered by a kernel in place of this rung.
    """
    if number is None:
        return {}, LENET86
    subject = exercise(number).subject
    if not isinstance(subject, InPlaceOf) or rung(which).name != subject.name:
        magic = (
            f"%%kernel {rung(subject.name).number:02d}"
            if isinstance(subject, InPlaceOf)
            else "another cell"
        )
        raise UsageError(
            f"--exercise {number} does not belong to %%kernel {which}: it takes {magic}"
        )
    return subject.options, [*subject.layers.values()]


@magics_class
class KernelCells(Magics):
    """The cell magics of the lab."""

    @magic_arguments()
    @argument("rung", help="The number or the name of the rung whose place the cell takes.")
    @argument("options", nargs="*", help="Options of the rung, as tile=32 or step=weights.")
    @argument("--exercise", help="The exercise whose launch the cell gets, as 04b.")
    @argument(
        "--part",
        action="store_true",
        help="The cell has some functions; the rung's file has the others.",
    )
    @argument("--name", help="A variable that gets the variant, too; without it, take _.")
    @cell_magic
    def kernel(self, line: str, cell: str) -> Variant:
        """Compile the cell in place of a rung's kernel; print its launches; return it, for `check` and `bench`."""
        # options may follow --name
        chosen = self.kernel.parser.parse_intermixed_args(arg_split(line))
        if chosen.name:  # if the cell does not compile, the name stands for no older kernel
            self._forget(chosen.name)
        which = int(chosen.rung) if chosen.rung.isdecimal() else chosen.rung
        if wrong := [option for option in chosen.options if "=" not in option]:
            raise UsageError(f"{wrong[0]} is not an option: write name=value, as tile=32")
        chosen_options = tables.as_options(" ".join(chosen.options))
        # with the magic's line, so that lines have the numbers that an editor shows
        cell_text = text = f"// %%kernel {line}\n{cell}"
        if chosen.part:  # the other functions come from the exercise, or from the rung
            text = source.with_functions(
                exercise(chosen.exercise).start
                if chosen.exercise
                else variant(which, **chosen_options).source,
                cell_text,
            )
        if not kernel_names(code_only(text)):
            raise LabError(
                "the cell has no kernel: write a function that begins with __global__ void"
            )
        # {"tile": 32} and the layers of the exercise
        launch_options, layers = _find_launch(chosen.exercise, which)
        compiled = variant(which, text, **{**launch_options, **chosen_options})
        with _with_cell_lines(text, cell_text):
            defines = [*map(compiled.defines, layers)]
            # Compiled as it is needed next: for `grade`, whose child process runs it under these
            # tools, or for `check`, which needs no optimization.
            tools = CHECKED if chosen.exercise and device().engine == "cpu" else ()
            compiled.precompile(*defines, quick=not tools, tools=tools)
            # Of an exercise all layers on which it is counted; else the launch on the last of
            # LENET86, as in `show`.
            launches = [
                launch_text(compiled, layer, tools)
                for layer in (layers if chosen.exercise else layers[-1:])
            ]
        _warn(text, cell_text, compiled.compiler_arguments(defines[0]))
        print("\n".join(launches))
        if chosen.name:
            self.shell.user_ns[chosen.name] = compiled
        return compiled

    def _forget(self, name: str) -> None:
        """Replace the notebook's variable `name`, a kernel of an earlier cell, by a `_NotCompiled`.

        So after an error no later cell takes it for the present one. UsageError if it is another
        variable or no name.
        """
        if not name.isidentifier() or keyword.iskeyword(name):
            raise UsageError(f"--name {name} is not a name of Python")
        if not isinstance(self.shell.user_ns.get(name), (Variant, _NotCompiled, type(None))):
            raise UsageError(
                f"--name {name}: this name has another value already; take a new one, such as mine"
            )
        self.shell.user_ns[name] = _NotCompiled(name)

    @cell_magic
    def cuda(self, line: str, cell: str) -> None:
        """Compile the cell as a module: ``%%cuda NAME [nvcc's options]``, then ``NAME.get_function("kernel")``.

        ``--exercise 00a`` names the exercise that the cell belongs to: the cell gets its options.
        """
        _refuse_main(cell)
        name, options = _split_cuda_line(line)
        old = self.shell.user_ns.get(name)
        # Until the cell has compiled, the name stands for no older module (it has `get_function`).
        # Another variable of that name stays if the cell does not compile.
        if isinstance(old, (_NotCompiled, type(None))) or hasattr(old, "get_function"):
            self.shell.user_ns[name] = _NotCompiled(name)
        text = f"// %%cuda {line}\n{cell}"
        code = code_only(text)
        kernels = kernel_names(code)
        arguments = source.cell_arguments(text, name, *options)
        hostcuda.ensure_context()
        with (  # both change the message of a CompileError
            _with_cell_lines(text, cell=text),
            name_missing_instruction(name, lambda: f"run the notebook with {ON_CPU}"),
        ):
            module = self.shell.user_ns[name] = hostcuda.compiler.SourceModule(**arguments)
        module.source = text  # so that `labkit.grade` takes the module as an attempt
        keep_launches(module, name, arguments)  # and `labkit.sanitize` repeats the last one
        _warn(text, text, arguments)  # the cell is all that is compiled
        print(f"{name}: {', '.join(kernels) or 'no kernel'}")

    @cell_magic("cu")
    @cell_magic("cuda_run")
    @cell_magic("cuda_group_save")
    @cell_magic("nvcc")
    def refuse_others_magic(self, line: str, cell: str) -> None:
        """Refuse a cell that begins with another project's magic; say which of the lab's does it."""
        _refuse_main(cell)
        raise UsageError(
            "the lab has no such magic: %%cuda NAME compiles the kernels of a cell, and %%program "
            "NAME.cu keeps a whole program, which %hostcuda run NAME.cu runs"
        )

    @line_magic("cuda")
    @line_magic("kernel")
    @line_magic("program")
    def refuse_line_magic(self, line: str) -> None:
        """Refuse a magic of whole cells that is written for one line."""
        raise UsageError(
            "write two percent signs, on the first line of the cell: %%cuda, %%kernel, %%program"
        )

    @cell_magic
    def program(self, line: str, cell: str) -> None:
        """Keep the cell as a file in the folder `programs`, beside the notebook: ``%%program NAME.cu``, or .py.

        A file of that name that no cell has written, or that was changed since, stays, unless it
        has the cell's text.
        """
        name = line.strip()
        if not re.fullmatch(r"\w[\w-]*\.(cu|py)", name):
            raise UsageError(
                f"%%program {line}: give the file a name that ends with .cu or .py, as %%program first.cu"
            )
        path, digests = PROGRAMS / name, _read_digests()
        old = path.read_bytes() if path.exists() else None
        # it is there with another text, which is not the one that a cell wrote last
        if old not in (None, cell.encode()) and digests.get(name) != _digest(old):
            print(
                f"{path} stays as it is: it was changed outside of this cell. For the cell's text in its "
                "place, rename or remove the file and run the cell again"
            )
            return
        write(path, cell)
        write(PROGRAMS / _DIGESTS, json.dumps({**digests, name: _digest(cell.encode())}))
        print(f"{name}: {cell.count(chr(10))} lines")

    @line_magic
    def hostcuda(self, line: str) -> None:
        """Run the command hostcuda in the folder `programs`: ``%hostcuda run NAME.cu``; see also `hostcuda -h`."""
        if not PROGRAMS.is_dir():
            raise UsageError(
                "there is no program yet: write one in a cell that begins with %%program NAME.cu"
            )
        try:
            words = shlex.split(line)
        except ValueError as error:  # an unbalanced quotation mark
            raise UsageError(f"%hostcuda {line}: {error}") from None
        command = processes.own_program("hostcuda", *words)
        child = subprocess.run(
            command,
            cwd=PROGRAMS,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        print((child.stdout + child.stderr).rstrip())
        programs = [PROGRAMS / word for word in words if word.endswith(".cu")]
        if any(
            path.is_file() and _READS.search(code_only(path.read_text(errors="replace")))
            for path in programs
        ):
            print(
                "The program reads its standard input, and in a notebook there is none: write the values "
                "into the program, or give them as arguments behind its name"
            )


def _read_digests() -> dict[str, str]:
    """Return the digests of what cells of %%program have written; {} if there are none, or the file is damaged."""
    try:
        digests = json.loads((PROGRAMS / _DIGESTS).read_text())
    except (OSError, ValueError):
        return {}
    return digests if isinstance(digests, dict) else {}


def _digest(content: bytes) -> str:
    """Return the SHA-256 of a file's content, as the file `_DIGESTS` has it."""
    return hashlib.sha256(content).hexdigest()


def _refuse_main(cell: str) -> None:
    """Raise a UsageError for a cell with a `main`, which %%program keeps as a whole program."""
    if re.search(r"\bint\s+main\s*\(", code_only(cell)):
        raise UsageError(
            "the cell has a main, and %%cuda compiles kernels alone: begin it with %%program "
            "first.cu, and run it with %hostcuda run first.cu"
        )


def _split_cuda_line(line: str) -> tuple[str, list[str]]:
    """Return (name of the module, the compiler's options, also those of the exercise) in a line "%%cuda LINE".

    UsageError if there is no name, or the exercise is not answered by a module.
    """
    exercise_options: tuple[str, ...] = ()
    try:
        name, *options = shlex.split(line) or [""]
        if "--exercise" in options:
            place = options.index("--exercise")
            # the next word, or ""
            subject = exercise(" ".join(options[place + 1 : place + 2])).subject
            if not isinstance(subject, Kernels):
                raise UsageError(
                    f"--exercise {options[place + 1]} does not belong to a cell of %%cuda"
                )
            # the last case: one that is counted
            exercise_options = subject.options(*subject.cases[-1].what)
            del options[place : place + 2]
    except ValueError as error:  # an unbalanced quotation mark
        raise UsageError(f"%%cuda {line}: {error}") from None
    if not name.isidentifier() or keyword.iskeyword(name):
        raise UsageError("%%cuda needs a name for the module: %%cuda vectors")
    return name, [*options, *exercise_options]


@contextmanager
def _with_cell_lines(text: str, cell: str) -> Iterator[None]:
    """Turn a CompileError about a text into a CompileFailed about the lines of the cell that is in it."""
    try:
        yield
    except hostcuda.driver.CompileError as error:
        output = f"{error.stderr or ''}\n{error.stdout or ''}"
        failures = (
            message
            for message in parse_messages(output, text.splitlines())
            if "error" in message.kind
        )
        if shown := format_messages(to_cell_lines(failures, text, cell), cell.splitlines()):
            raise CompileFailed(f"the cell does not compile\n{shown}") from None
        raise


def _warn(text: str, cell: str, arguments: dict) -> None:
    """Print the compiler's warnings about a cell with its line numbers; `text` is what is compiled with `arguments`."""
    warnings = parse_messages(warnings_about(**arguments), text.splitlines())
    cell_warnings = to_cell_lines(
        (message for message in warnings if not is_in_unroll(message, text)), text, cell
    )
    if text_of_warnings := format_messages(cell_warnings, cell.splitlines()):
        print(text_of_warnings)


def load_ipython_extension(shell: InteractiveShell) -> None:
    """Add ``%%kernel``, ``%%cuda``, ``%%program`` and ``%hostcuda`` to a notebook."""
    shell.register_magics(KernelCells)
    # for a cell that begins with one percent sign too few: it gets a message of `KernelCells`
    if _keep_line_magic not in shell.input_transformers_cleanup:
        shell.input_transformers_cleanup.append(_keep_line_magic)


def _keep_line_magic(lines: list[str]) -> list[str]:
    """Leave out what follows %cuda on a cell's first line, which Python cannot read, so that the magic can answer."""
    return lines[:1] if lines and re.match(r"%(?:cuda|kernel|program)\b", lines[0]) else lines
