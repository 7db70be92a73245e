"""Kernel files: their text, the arguments of the compiler, a digest of their code, the views of an exercise."""

from __future__ import annotations

import difflib
import hashlib
import io
import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from hostcuda.source import code_only, functions
from labkit.base.errors import LabError
from labkit.base.paths import SERIES, cuda_src

NVCC_OPTIONS = ("-std=c++17", "-O3")
LINE = 120  # characters of the longest line that counts as one


def module_arguments(text: str, name: Path | str, *options: str) -> dict:
    """Return the keyword arguments of PyCUDA's `SourceModule` for the text of a kernel file.

    `name` is its path, or the name that messages use; `options` are the compiler's. Headers are
    searched in the file's folder, if `name` is a path, and in `cuda_src`.
    """
    return {
        # #line: messages name this file. C would read a backslash, chr(92), as an escape.
        "source": f'#line 1 "{str(name).replace(chr(92), "/")}"\n{text}',
        "options": [*NVCC_OPTIONS, *options],
        "no_extern_c": True,  # PyCUDA adds no extern "C": the lab's kernels have it
        "include_dirs": [*map(str, header_folders(name))],
    }


def header_folders(name: Path | str | None) -> list[Path]:
    """Return the folders of a kernel's headers: that of its file, if it has one, and the lab's own `cuda_src`."""
    own_folder = [name.parent] if isinstance(name, Path) else []
    return [*dict.fromkeys([*own_folder, cuda_src()])]


# Headers of C++ that are no C: PyCUDA's `extern "C" { … }` around a source refuses their templates.
_TEMPLATES = re.compile(r"^\s*#\s*include\s*<(?:cuda/|cooperative_groups|mma\.h)", re.M)


def cell_arguments(text: str, name: str, *options: str) -> dict:
    """Return the keyword arguments of `SourceModule` for any CUDA C++, such as the text of a %%cuda cell.

    `name` is the file's name in messages, without ".cu"; `options` are the compiler's. PyCUDA adds
    ``extern "C"`` around a text that has none. Where a header's templates forbid that, each kernel
    gets its own.
    """
    if 'extern "C"' not in text and _TEMPLATES.search(text):
        text = _declare_in_c(text)
    return module_arguments(text, f"{name}.cu", *options) | {"no_extern_c": 'extern "C"' in text}


def _declare_in_c(text: str) -> str:
    """Return the text with ``extern "C"`` before each kernel that is no template, on the same line."""
    code, pieces, end = code_only(text), [], 0
    for kernel in re.finditer(r"\b__global__\b", code):
        if not re.search(r"\btemplate\s*<[^;{}]*>\s*$", code[: kernel.start()]):
            pieces += [text[end : kernel.start()], 'extern "C" ']
            end = kernel.start()
    return "".join([*pieces, text[end:]])


def digest(source: str) -> str:
    """Return eight hexadecimal digits that identify a source; // comments do not count."""
    return hashlib.sha256(re.sub(r"[ \t]*//.*", "", source).encode()).hexdigest()[:8]


def as_path(source: str | Path) -> Path | None:
    """Return `source` as an absolute path if it is a path; None if it is a kernel's text.

    A str with a line break or a parenthesis, as every kernel has, is a text. Raises LabError if
    there is no such file.
    """
    if not isinstance(source, Path) and ("\n" in source or "(" in source):
        return None
    path = Path(source).expanduser()
    if not path.is_file():
        raise LabError(
            f"there is no kernel file {path}; give the path of a .cu file or the kernel's text"
        )
    return path.resolve()


def read(path: Path) -> str:
    """Return the text of a kernel file.

    Raises LabError if it is not UTF-8; the message names the line.
    """
    return decode(path.read_bytes(), path)


def decode(data: bytes, name: Path | str) -> str:
    r"""Return the bytes of a kernel file as text, each line ended by "\n"; LabError, with `name`, if not UTF-8."""
    try:
        # as `open` does, also with "\r\n"
        return io.TextIOWrapper(io.BytesIO(data), encoding="utf-8").read()
    except UnicodeDecodeError as error:
        line = 1 + error.object[: error.start].count(b"\n")
        raise LabError(
            f"{name}, line {line}: {error.object[error.start]:#x} is no UTF-8; save it as UTF-8"
        ) from None


def changed_lines(a: list[str], b: list[str]) -> int:
    """Return how many lines differ between the sources `a` and `b`, given as lines.

    A replaced line counts once. Differences in blanks between words do not count. A long line
    counts as the lines of `LINE` characters that its text takes.
    """
    a, b = ([_join_words(line) for line in source] for source in (a, b))
    matcher = difflib.SequenceMatcher(None, a, b, autojunk=False)
    # where lines i1 to i2 of `a` became j1 to j2 of `b`, the longer of the two counts
    return sum(
        max(sum(map(count_lines, a[i1:i2])), sum(map(count_lines, b[j1:j2])))
        for tag, i1, i2, j1, j2 in matcher.get_opcodes()
        if tag != "equal"
    )


def count_lines(line: str) -> int:
    """Return how many lines a line counts for: its length over `LINE`, rounded up; an empty one counts for one.

    Its indentation does not count, and a row of blanks is one character.
    """
    return max(1, -(-len(_join_words(line)) // LINE))


def _join_words(line: str) -> str:
    """Return a line with one blank between its words, and none around them."""
    return " ".join(line.split())


def find_functions(text: str) -> dict[str, tuple[int, int]]:
    """Map the name of each function of a source to its span in `text`: (start, end), as in ``text[start:end]``.

    A span begins with the comment right above the function.
    """
    code, spans = code_only(text), {}
    # `begin` is where the function before it ends; what stands between may be its comment
    for name, (begin, end) in functions(text).items():
        first_word = end - len(code[begin:end].lstrip())
        blank_line = text.rfind("\n\n", begin, first_word)  # above the function and its comment
        start = begin if blank_line < 0 else blank_line + 2
        # further blank lines do not belong to the span
        spans[name] = (start + len(text[start:]) - len(text[start:].lstrip("\n")), end)
    return spans


def parameters(code: str, function: str) -> list[str]:
    """Return the declarations of a function's parameters, such as "const float *x", in order.

    `code` has no comments, as `code_only` gives it. The list is empty if `code` does not define the
    function.
    """
    # the definition: name (...) {
    match = re.search(rf"\b{re.escape(function)}\s*\(([^()]*)\)\s*{{", code)
    declarations = match[1].split(",") if match else []
    return [text.strip() for text in declarations if text.strip()]


def parameter_name(declaration: str) -> str:
    """Return the name that a declaration ends with: "x" of "float x[3]"; of one without a name its type."""
    return re.findall(r"\w+", declaration.partition("[")[0])[-1]


# Names that programs give to the pointers x, k and y, in full.
_POINTERS = {
    "x": r"x|in|input|inputs|image|images|img|src|d_(?:x|in|input)",
    "k": r"k|mask|masks|kernel|kernels|weight|weights|filter|filters|d_(?:k|mask|kernel|weights)",
    "y": r"y|out|output|outputs|result|dst|d_(?:y|out|output)",
}


def guess_meanings(declarations: list[str]) -> list[str]:
    """Guess which of x, k, y, B, C, H, W, M and K each parameter of a reader's kernel is; return these names in order.

    The list is empty unless there are nine parameters and exactly the first three are pointers.

    - A pointer is recognized by its name. The only pointer that is not const is y, which the
      kernel writes.
    - A size is recognized by the first letter of its name. A parameter without a name is not
      recognized.
    - What is not recognized gets the names that are left, in the lab's order.
    - If two pointers seem to be the same array, all three get the lab's order; so do the sizes if
      two seem to be the same, or one seems to be none of them.
    """
    names = [parameter_name(text).lower() for text in declarations]
    pointers = [place for place, text in enumerate(declarations) if re.search(r"[*[]", text)]
    if len(declarations) != 9 or pointers != [0, 1, 2]:
        return []
    arrays = {
        place: meaning
        for place in pointers
        for meaning, pattern in _POINTERS.items()
        if re.fullmatch(pattern, names[place])
    }
    writable = [  # without "const" before the "*"
        place for place in pointers if not re.search(r"\bconst\b[^*]*\*", declarations[place])
    ]
    if len(writable) == 1:
        arrays = {place: meaning for place, meaning in arrays.items() if meaning != "y"}
        arrays[writable[0]] = "y"
    sizes = {
        place: names[place][0].upper()
        for place in range(3, 9)
        if re.search(r"\w\s+\w+$", declarations[place])  # a type and a name
    }
    return [*_complete(arrays, pointers, "xky"), *_complete(sizes, range(3, 9), "BCHWMK")]


def _complete(known: dict[int, str], places: Iterable[int], order: str) -> list[str]:
    """Return the meaning of each of `places`: the `known` one, or else the next letter of `order` that is left.

    If two known meanings are the same, or one is no letter of `order`, return all of `order`.
    """
    if len({*known.values()}) < len(known) or not {*known.values()} <= {*order}:
        return [*order]
    left = iter([meaning for meaning in order if meaning not in known.values()])
    return [known.get(place) or next(left) for place in places]


class Place(NamedTuple):
    """A reader's own file, and the rung whose place it takes: "04_own.cu", "04 tiling", 4."""

    file: str
    label: str
    number: int


def choose_kernels(
    names: tuple[str, ...], expected: tuple[str, ...], place: Place
) -> tuple[str, ...]:
    """Return the name of the kernel of each call of a rung, among the kernels `names` that a source defines.

    These are the `expected` names, but a single kernel may have any name. Raises LabError if one is
    missing; `place` names the reader's file and the rung in whose place it is.
    """
    if len(expected) == 1 and len(names) == 1:
        return names
    if set(expected) <= set(names):
        return expected
    raise LabError(
        f"{place.file} takes the place of {place.label} and has to define "
        f"{' and '.join(expected)}; it defines {', '.join(names) or 'no __global__ void function'}. A "
        f"cell with %%kernel {place.number} --part --name mine takes some functions: grade mine"
    )


def require_order(
    code: str, kernels: tuple[str, ...], passed_by_call: list[list[str]], place: Place
) -> None:
    """Raise LabError if a kernel in `code` has the parameters that a call passes, but in another order.

    That is seen by their names, and by which pointer is not const: the kernel writes y.
    `passed_by_call` has for each of the `kernels` the names that it gets, in order. `place` names the
    reader's file and the rung in whose place it is, for the message.
    """
    for kernel, passed in zip(kernels, passed_by_call, strict=True):
        declarations = parameters(code, kernel)
        own_names = [*map(parameter_name, declarations)]
        # the meanings of other names can be guessed only where a call passes x, k, y and the sizes
        meant = guess_meanings(declarations) if passed[:3] == [*"xky"] else own_names
        if meant != passed and sorted(meant) == sorted(passed):
            # a text times False is ""
            seem = f", which seem to be ({', '.join(meant)})" * (meant != own_names)
            in_order = [own_names[meant.index(name)] for name in passed]
            raise LabError(
                f"{place.file}: {kernel} has the parameters ({', '.join(own_names)}){seem}, but "
                f"{place.label} passes ({', '.join(passed)}): put them in this order"
                + f", ({', '.join(in_order)})"
                * (meant != own_names)
            )


def with_functions(source: str, cell: str) -> str:
    """Return a source with some of its functions replaced by those of the same name in `cell`.

    What stands above one of them in `cell`, such as a constant or a new function, comes with it.
    Raises LabError if none of the functions is in `cell`.
    """
    old_places, new_places = find_functions(source), find_functions(cell)
    names = [name for name in new_places if name in old_places]
    if not names:
        raise LabError(
            f"the cell has to define one of the kernel's functions, {', '.join(old_places)}, "
            f"but it defines {', '.join(new_places) or 'none'}"
        )
    # A text is all from the end of the function before to its own end; the last has the rest of the
    # cell, too.
    ends = [*(new_places[name][1] for name in names[:-1]), len(cell)]
    # not strict: the last end begins no further text
    texts = [cell[begin:end].strip("\n") for begin, end in zip([0, *ends], ends, strict=False)]
    # From the last to the first, so that the places before stay valid.
    for (begin, end), text in sorted(
        zip((old_places[name] for name in names), texts, strict=True), reverse=True
    ):
        source = source[:begin] + text + source[end:]
    return source


_SKELETON_BLOCK = re.compile(r"^#ifdef SKELETON\n(.*?)(?:^#else\n(.*?))?^#endif\n", re.M | re.S)


def select_view(text: str, skeleton: bool) -> str:
    """Return one view of the text of an exercise's file: its solution, or the starting code (`skeleton`).

    They differ between ``#ifdef SKELETON``, ``#else`` and ``#endif``, which stand at the beginning
    of a line. The comment at the top of the file is the solution's: the starting code begins below
    it.
    """
    if not skeleton:
        return _SKELETON_BLOCK.sub(lambda match: match[2] or "", text)  # what follows #else
    # lines of // at the top, and blank lines
    without_comment = re.sub(r"\A(?://[^\n]*\n)+\n*", "", text)
    # what follows #ifdef SKELETON
    return _SKELETON_BLOCK.sub(lambda match: match[1], without_comment)


def without_solution(text: str) -> str:
    """Return the text of an exercise's file with its starting code alone, for students; "" if it has none.

    `select_view` gives that code from the result, and an empty text for the solution.
    """
    if not _SKELETON_BLOCK.search(text):
        return ""
    return f"#ifdef SKELETON\n{select_view(text, skeleton=True)}#endif\n"


def solution_files(name: str) -> dict[str, Path]:
    """Return the kernel files of a page's exercises by letter, for a page's name without its number.

    `solution_files("tiling")["a"]` is series/04_tiling/a_no_conflicts/a_no_conflicts.cu.
    `select_view` takes starting code or solution from one.
    """
    return {path.name[0]: path for path in sorted(SERIES.glob(f"*_{name}/[a-z]_*/[a-z]_*.cu"))}
