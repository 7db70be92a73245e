"""Preprocess a source, as nvcc does first: whoever reads the result sees what the compiler sees.

The compiler itself decides each ``#if`` and expands each macro. `preprocess` makes of its output a
text in which only these directives are left:

- line markers, ``# 7 "file.cu"``, with 1 behind them where a header of the user begins and 2 where
  it has ended;
- pragmas;
- ``#include "held-0.h"`` for the text of other headers, the system's and the engine's, which
  nothing else reads. This text is outside of an ``extern "C"`` around the source.

CUDA's own words stay (``include/hostcuda/keep.h``). A line on which no macro stood is the user's
own, without comments, so that the columns of messages are right.
"""

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hostcuda.frontend.tokens import without_comments
from hostcuda.host import toolchain

SKELETON = "kernel.cpp"  # the file's name for what the engine writes around the source
_MARKER = re.compile(
    r'^# (?P<line>\d+) "(?P<file>(?:[^"\\\n]|\\.)*)"(?P<flags>(?: \d)*)\n', re.MULTILINE
)
_LINE = re.compile(r'\s*#\s*(?:line\s+)?(\d+)(?:\s+"((?:[^"\\]|\\.)*)")?')
# #define name body, #define name(parameters) body, #undef name
_MACRO = re.compile(
    r"^#(?:define (?P<name>\w+)(?P<parameters>\()?(?P<body>.*)|undef (?P<gone>\w+).*)$",
    re.MULTILINE,
)
_UNROLL = re.compile(r"\s*#\s*pragma\s+unroll\b")
_RAW = re.compile(r'"(?:[^"\\\n]|\\.)*"|R"(?P<fence>[^()\\\s]{0,16})\(.*?\)(?P=fence)"', re.DOTALL)
_TOKEN = re.compile(r'\w+|"(?:[^"\\]|\\.)*+"?|\S')  # a text without its end ends with the line
_HAS_INCLUDE = re.compile(r'\b__has_include\s*\(\s*["<]([^">\n]+)')
_BREAK = "\x1e"  # in place of the line breaks in raw strings


@dataclass(frozen=True)
class Preprocessed:
    """A source without macros; or, if the preprocessor failed, its error."""

    text: str
    headers: list  # of paths: the user's headers that were read
    asked: list  # of paths: where the files might be that ``__has_include`` asks for
    of_cuda: bool  # whether a header of CUDA was read
    # the command that failed, and what it printed; None if it did not
    error: tuple[list, str, str] | None = None


def preprocess(
    text: str, command: list[str], folder: Path, include_dirs: Sequence[Path]
) -> "Preprocessed":
    """Run the compiler's preprocessor on a source; return its text without macros, and the headers that it includes.

    `text` has a line marker for `SKELETON` after the engine's includes. `command` is the
    compiler's, with its flags and include options. `folder` is the build folder: the text of
    headers is written into it. `include_dirs` are the folders of the user's headers, which
    `command` has among its options, too. Errors of the preprocessor are in the result.
    """
    # "#include" looks for a file beside this one, and the build folder has the user's source
    place = folder / "first"
    place.mkdir(exist_ok=True)
    (place / "unit.cpp").write_text(text, encoding="utf-8", errors="surrogateescape")
    # unit.d gets a rule for ``make`` with the files that are included, unit.i the text
    outputs = ["-MMD", "-MF", "first/unit.d", "-o", "first/unit.i"]
    flags = toolchain.preprocessing_flags(command[:1])
    command = [*command, *flags, *outputs, "first/unit.cpp"]
    status, out, err = toolchain.run(command, cwd=folder)
    if status:
        # nothing but the error; True: of CUDA, so that the caller does not leave out the engine's header
        return Preprocessed("", [], [], True, (command, out, err))
    output = _read(place / "unit.i")
    if 'R"' in output:  # a raw string may have line breaks, which are to stay in it
        output = _RAW.sub(lambda match: match[0].replace("\n", _BREAK), output)
    # The rule is like "unit.o: first/unit.cpp /usr/include/math.h my\ header.h".
    rule = _read(place / "unit.d").replace("\\\n", " ").partition(": ")[2].strip()
    files = {folder / word.replace("\\ ", " ") for word in re.split(r"(?<!\\)\s+", rule)}
    headers = sorted(
        path for path in files if folder not in path.parents and not _is_engines(str(path))
    )
    # headers that ``__has_include`` asks for: the files may appear or go later
    names = {
        name for source in (text, *map(_read, headers)) for name in _HAS_INCLUDE.findall(source)
    }
    places = {*include_dirs, *(path.parent for path in headers)} if names else ()
    asked = [place / name for place in places for name in names]
    # whether a header of CUDA was read: leave.h is what the engine puts before a file that nvcc
    # leaves to the host's compiler
    of_cuda = any(_is_engines(str(path)) and path.name != "leave.h" for path in files)
    # the user's lines with line markers; the text of other headers goes into files in `folder`
    return Preprocessed(
        _Assembly(folder, text).assemble(output).replace(_BREAK, "\n"), headers, asked, of_cuda
    )


def _read(path):
    """Return the text of a file, with bytes that are not UTF-8 escaped."""
    return path.read_text(encoding="utf-8", errors="surrogateescape")


def _is_engines(file: str):
    """Return whether a file, by its path, is one of the engine's headers or its precompiled header."""
    return file.startswith(f"{toolchain.INCLUDE}{os.sep}") or os.path.basename(file) == "hostcuda.h"


class _Assembly:
    """Makes the text that this module describes, of a `source` and the preprocessor's output, in the build `folder`."""

    def __init__(self, folder: Path, source: str):
        self.folder = folder
        self.written = []  # pieces of the text
        # file and line of what is written next; None: only a new line marker will tell
        self.place = None
        self.pending = ()  # file, line and text of the user's line that is to be written
        # pieces of the text of other headers, which is to be written into a file of its own
        self.held = []
        self.files = 0  # the number of files that hold such text
        self.macros = {}  # name of a macro without parameters -> what it stands for
        self.originals = {}  # file and line -> the line as the user wrote it, without comments
        self._read_originals("", source)

    def _read_originals(self, file: str, text: str):
        """Add the lines of a file's text to `originals`, as its ``#line`` directives number them."""
        line = 1
        for text_line in without_comments(text.replace("\r\n", "\n").removeprefix("\ufeff")).split(
            "\n"
        ):
            if renumbered := _LINE.match(text_line):
                line, file = (
                    int(renumbered[1]),
                    renumbered[2] if renumbered[2] is not None else file,
                )
            else:
                self.originals[file, line] = text_line
                line += 1

    def assemble(self, output: str):
        """Return the text made of the preprocessor's `output`; write the files that it includes."""
        # behind the engine's own includes
        markers = [*_MARKER.finditer(output, output.index(f'# 1 "{SKELETON}"'))]
        # the user's last (file, line); whether the current file is the user's
        last_place, of_user = (None, True)
        # for the files around it: whether they are the user's, and what is written next there
        includers = []
        for marker, following in zip(markers, [*markers[1:], None], strict=True):
            chunk = output[marker.end() : following.start() if following else len(output)]
            file, line, flags = marker["file"], int(marker["line"]), marker["flags"].split()
            if "1" in flags:  # a header begins; 2: it has ended; 3: it is the system's
                includers.append((of_user, self.place))
                of_user = not ("3" in flags or _is_engines(file))
                if of_user:
                    # a header begins in the file around it
                    if self.place is None or self.place[0] != last_place[0]:
                        self._mark(*last_place)
                    self._enter(file)
            elif "2" in flags and includers:
                was_of_user = of_user
                of_user, place = includers.pop()
                if was_of_user:
                    self._mark(*((file, line) if of_user else place), " 2")
            if of_user:
                last_place = file, line
                self._write(file, line, chunk)
            elif chunk.strip():
                self._end_line()
                self.held.append(f'# {line} "{file}" 3\n{_MACRO.sub("", chunk)}')
        self._end_line()
        self._include_held()
        return "".join(self.written)

    def _enter(self, file: str):
        """Begin a header of the user, and read its lines: those without macros stay as they are."""
        self._mark(file, 1, " 1")
        path = self.folder / re.sub(r"\\(.)", r"\1", file)
        if path.is_file():
            self._read_originals(file, _read(path))

    def _mark(self, file: str, line: int, flags=""):
        """Write a line marker with `flags` such as " 1": what follows is this line of the file."""
        self._end_line()
        self._include_held()
        self.written.append(f'# {line} "{file}"{flags}\n')
        self.place = file, line

    def _include_held(self):
        """Write the text in `held` to a file of its own, and include that."""
        text, self.held = "".join(self.held), []
        if _MARKER.sub("", text).strip():
            name = f"held-{self.files}.h"
            self.files += 1
            text = f'extern "C++" {{\n{text}\n}}\n'.replace(_BREAK, "\n")
            (self.folder / name).write_text(text, encoding="utf-8", errors="surrogateescape")
            self.written.append(f'#include "{name}"\n')
            self.place = None  # this line is none of the user's

    def _write(self, file: str, line: int, chunk: str):
        """Write the lines of `chunk` that are not empty, from this line of the file on; note macros in `macros`."""
        next_line = line
        for text in chunk.split("\n"):
            line, next_line = next_line, next_line + 1 + text.count(_BREAK)
            if macro := _MACRO.match(text):
                self.macros.pop(macro["gone"] or macro["name"], None)
                if macro["name"] and not macro["parameters"]:
                    self.macros[macro["name"]] = macro["body"].strip()
            elif text and not text.isspace():
                if _UNROLL.match(text):
                    text = self._expand_pragma(text)
                if self.pending[:2] == (file, line) and "#" not in (self.pending[2][0], text[0]):
                    # A second text for one line: g++ marks where a macro of a system header stood.
                    self.pending = file, line, f"{self.pending[2]} {text.lstrip()}"
                else:
                    self._end_line()
                    self.pending = file, line, text

    def _end_line(self):
        """Write the `pending` line at its place, by a marker or newlines; as the user wrote it if it had no macro."""
        if not self.pending:
            return
        (file, line, text), self.pending = self.pending, ()
        self._include_held()
        if self.place is None or self.place[0] != file or self.place[1] > line:
            self._mark(file, line)
        original = self.originals.get((file, line), "")
        if text.split() != original.split() and _TOKEN.findall(text) != _TOKEN.findall(original):
            original = text  # a macro has been expanded
        self.written.append("\n" * (line - self.place[1]) + original.rstrip() + "\n")
        self.place = file, line + 1 + text.count(_BREAK)

    def _expand_pragma(self, pragma: str):
        """Return the text of a pragma with macros expanded: g++ leaves them in pragmas that it does not know."""
        for _ in self.macros:  # each round expands macros in macros
            before, pragma = (
                pragma,
                re.sub(r"\w+", lambda match: self.macros.get(match[0], match[0]), pragma),
            )
            if pragma == before:
                break
        return pragma
