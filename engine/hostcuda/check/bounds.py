"""Overruns of arrays in registers and local memory, in check mode.

``-fsanitize=bounds`` checks every index of an array whose size the compiler knows. For shared,
constant and global memory that is too strict: kernels fill ``tile[0][i]`` as if it had one
dimension, which works, and the accesses themselves are watched. Those of a local array are not,
because the compiler keeps it in registers where it can. So the check is kept for local arrays
alone: `keep_local_checks` marks the others in the assembler text by the line 0, and the runtime
passes over them (hooks.cpp).

The check keeps the compiler from unrolling a loop, which made rung 07 take 3.6 times as long. Where
all indices of local arrays are constants or counters of loops with ``#pragma unroll``, every access
is at a constant index, which the compiler itself warns of; such a source does without the check
(`needs_checks`).
"""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from hostcuda.frontend.scan import Scan
from hostcuda.frontend.tokens import find_opening, skip_bracket, without_comments

_CHECK = re.compile(  # the data of one check: its file's label, line, column
    r"(?m)^(?P<head>\.Lubsan_data\d+:\n\t\.(?:quad|xword)\t(?P<file>\S+)\n\t\.(?P<long>long|word)\t)(?P<line>\d+)\n"
    r"\t\.(?P=long)\t(?P<column>\d+)$"
)
_STRING = re.compile(r'(?m)^(\.LC\d+):\n\t\.string\t"(.*)"$')
# '#line 1 "file.cu"' or '# 12 "file.cu"'
_LINE = re.compile(r'\s*#\s*(?:line\s+)?(\d+)(?:\s+"([^"]*)")?')
# "__shared__ float tile[16][16]", "static const int table[4]": variables that are not local
_NOT_LOCAL = re.compile(
    r"\b__(?:shared|constant|managed)__\b[^;{}]*|\b(?:__device__|static)\b[^;{}()]*(?=[;=])"
)
_SHARED = re.compile(r"\b__shared__\b[^;{}]*")
_ATTRIBUTE = re.compile(r"__attribute__\s*\(\(.*?\)\)")
_ARRAY = re.compile(r"(\w+)\s*\[")
_TYPE = re.compile(  # what precedes the name in a declaration: types, and maybe other variables
    r"\s*(?!(?:return|else|case|goto|throw|delete|new)\b)(?:[A-Za-z_][\w:]*(?:<[^;()]*>)?[\s*&]+)+(?:\w[^()]*,[\s*&]*)?$"
)
_OWN_HEADER = re.compile(r'#\s*include\s*"([^"\n]*)"?')
_DECLARED = re.compile(  # "float x[", or "(&x)[" of a reference to an array
    r"(?<![\w.])[A-Za-z_][\w:<>]*\s+(?P<name>[A-Za-z_]\w*)\s*\[|\(\s*&\s*(?P<reference>\w+)\s*\)\s*\["
)
_UNROLLED = re.compile(r"#\s*pragma\s+unroll[^\n]*\s+for\s*\(\s*$")


def needs_checks(source: str, folders: Iterable[Path] = ()) -> bool:
    """Return whether a source needs checks of bounds: whether an index of a local array may be no constant.

    `folders` are those of the source's own headers.
    """
    text = _insert_headers(source, folders, done=set())
    # without the declarations of shared, constant and static variables
    local_text = _NOT_LOCAL.sub("", text)
    names = {match["name"] or match["reference"] for match in _DECLARED.finditer(local_text)}
    # an #include is left: its header was not found, and may have such an index
    if _OWN_HEADER.search(text):
        return True
    # "(?!)", for no names, matches nothing
    for use in re.finditer(rf"\b(?:{'|'.join(names) or '(?!)'})\s*(?=\[)", text):
        end = use.end()
        while text.startswith("[", end):  # all indices of x[i][j]
            end = skip_bracket(text, end)
        words = re.findall(r"\w+", text[use.end() : end])  # of the indices: "i" and "2" of x[i][2]
        if not all(word[0].isdigit() or _is_constant(word, text[: use.start()]) for word in words):
            return True
    return False


def _insert_headers(source: str, folders: Iterable[Path], *, done: set[Path]) -> str:
    """Return the source without comments, with its own headers in `folders` inserted, each once.

    `done` has the paths of headers that were inserted before; it grows.
    """

    def replace_include(include):
        """Return the text for an #include: that of the header, "" if read before, or the line itself if not found."""
        path = next(
            (
                folder / include[1]
                for folder in map(Path, folders)
                if (folder / include[1]).is_file()
            ),
            None,
        )
        if path is None:
            return include[0]
        if path in done:
            return ""
        done.add(path)
        text = path.read_text(encoding="utf-8", errors="surrogateescape")
        return _insert_headers(text, [path.parent, *folders], done=done)

    return _OWN_HEADER.sub(replace_include, without_comments(source))


def _is_constant(word: str, before: str) -> bool:
    """Return whether a name in an index stands for constants, by the source `before` its use.

    It does if it is a macro (in capitals), ``constexpr``, or the counter of a loop that is unrolled.
    """
    if word.isupper() or re.search(rf"\bconstexpr\s+\w+\s+(?:[^;]*,\s*)?{word}\s*=", before):
        return True
    declarations = list(re.finditer(rf"\b\w+\s+{word}\s*=", before))
    return bool(declarations and _UNROLLED.search(before[: declarations[-1].start()]))


def keep_local_checks(assembly: str, folder: Path, untrusted: bool = False) -> str:
    """Return assembler text in which only g++'s checks of indices of local arrays are active.

    Accesses to other arrays are checked by their address. `assembly` is what g++ made of
    ``kernel.cpp`` in `folder`. A check of another array gets the line 0, by which the runtime
    ignores it. In an `untrusted` source, checks of constant arrays stay active, too, because not all
    accesses to them have hooks (calls that check the address), and of shared arrays unless their
    name is declared once in the source: then no other variable can be taken for one of them.
    """
    text = Path(folder, "kernel.cpp").read_text(encoding="utf-8", errors="surrogateescape")
    # (file, line) -> (position, its text)
    lines = {place: (start, line) for place, start, line in list_lines(text)}
    # array's name -> (position, end of its scope, whether it is local) of each array of that name
    spans_by_name = _find_declarations(text)
    if untrusted:
        shared = list_shared(text)
        spans_by_name = {name: spans for name, spans in spans_by_name.items() if name in shared}
    files = dict(_STRING.findall(assembly))  # label -> file's name

    def rewrite_check(check):
        """Return a check's assembler text, with the line 0 if the innermost array of that name is not local."""
        start, line = lines.get((files.get(check["file"]), int(check["line"])), (0, ""))
        name = _find_array(line, int(check["column"]))
        position = start + int(check["column"])
        spans = (span for span in spans_by_name.get(name, ()) if span[0] < position <= span[1])
        # the array that was declared last; without any, all arrays of the name are local
        _, _, is_local = max(spans, default=(0, 0, True))
        # the array may be unknown, as behind a pointer: its check stays in an untrusted source alone
        if (name or untrusted) and is_local:
            return check[0]
        # line 0: the runtime ignores the check
        return f"{check['head']}0\n\t.{check['long']}\t{check['column']}"

    return _CHECK.sub(rewrite_check, assembly)


# The places where a text may declare a name, written {}: behind a type, `*` or `&` at the begin of a
# statement, in parentheses, in a structured binding, or in a capture, where an array's own name
# never stands before `=`.
_MAY_DECLARE = (
    r"\b(?!(?:return|else|case)\b)[A-Za-z_]\w*\s+{}\b|>\s*{}\b"
    r"|(?:[;{{}}(,]\s*(?:\w+\s+)*[\w:]+|>)\s*(?:[*&]|\bconst\b|\s)+{}\b"
    r"|\(\s*[*&]+\s*{}\s*\)|[;{{}}]\s*[\w:<>]+\s*\(\s*{}\s*\)\s*[;={{\[]"
    r"|\bauto\b[\s&]*\[[^\]]*\b{}\b|[\[&]\s*{}\s*=(?!=)"
)
# A name behind a comma, also as a pointer or a reference: "Row q, tile;", "float x, (*tile)[4];".
_BEHIND_COMMA = r",(?:[\s*&(]|\bconst\b|\bvolatile\b|\b__restrict__\b)*\b{}\b\s*(=(?!=))?"
_HEAD = re.compile(
    r"\s*(?:(?:else|do)\b|case\b[^;{}]*?:(?!:)|\w+\s*:(?!:)|(?:if\s+constexpr|if|for|while|switch)\s*(?=\())"
)
_LONGEST = 10_000  # characters of a statement that is looked at
# What a declaration begins with: a type, and behind it a name, `*`, `&`, `(`, `<` or `::`.
_DECLARATION = re.compile(
    r"\s*(?!(?:return|throw|delete|goto|case|new|sizeof)\b)(?:\[\[|::|[A-Za-z_]\w*\s*(?:::|[\w(<*&])|\w+\s*$)"
)


def list_shared(text: str) -> set[str]:
    """Return the names of a text's shared arrays that it declares only once: no other variable has such a name."""
    code = Scan(text).code
    names = {array[1] for match in _SHARED.finditer(code) for array in _ARRAY.finditer(match[0])}
    return {name for name in names if _is_declared_once(name, code)}


def _is_declared_once(name: str, code: str) -> bool:
    """Return whether no more than one place in a text without macros and strings can declare a name."""
    places = len(
        re.findall(_MAY_DECLARE.format(*[name] * 7), code)
    )  # the pattern has 7 places for the name
    commas: dict[int, bool] = {}  # position -> whether it is in a declaration
    for match in re.finditer(_BEHIND_COMMA.format(name), code):
        commas[match.start()] = _may_declare_behind(code, match.start(), commas)
        places += bool(match[1]) or commas[match.start()]
    return places <= 1 and not re.search(r"\b(?:decltype|(?:__)?typeof(?:__)?)\b", code)


def _may_declare_behind(code: str, comma: int, known: dict[int, bool]) -> bool:
    """Return whether a name behind a comma may be declared there, as b in ``int a, b;``; True if in doubt.

    It is not in the arguments of a call, in an index, in braces that initialize, and in a statement
    that begins as only an expression can. The head of a loop or a condition may declare. `known`:
    comma -> the answer for earlier commas of the code.
    """
    begin = comma
    while begin and (sign := code[begin - 1]) not in ";{([":
        if begin - 1 in known:
            return known[begin - 1]
        if sign in ")]}":
            opening = find_opening(code, begin - 1)
            if opening is None or comma - opening > _LONGEST:
                return True
            # the end of a block, not of what initializes a variable before the comma
            if sign == "}" and re.match(r"\s*[\w*&(:+~!-]", code[begin:comma]):
                break
            begin = opening
        else:
            begin -= 1
        if comma - begin > _LONGEST:
            return True
    before = code[max(begin - 40, 0) : max(begin - 1, 0)].rstrip()
    sign = code[begin - 1] if begin else ""
    if sign == "[" or (
        sign == "(" and not re.search(r"\b(?:if|for|while|switch|constexpr)$", before)
    ):
        return False
    if sign == "{" and (before.endswith(("=", "(", ",")) or re.search(r"\breturn$", before)):
        return False
    statement = code[begin:comma]
    while head := _HEAD.match(statement):
        end = head.end()
        statement = statement[
            skip_bracket(statement, end) if statement[end:].startswith("(") else end :
        ]
    declaration = _DECLARATION.match(statement)
    # a name alone is the first variable only behind a type's own body: "struct { ... } q, tile;"
    return bool(declaration) and (sign == "}" or not re.fullmatch(r"\s*\w+\s*", statement))


def _find_declarations(text: str) -> dict[str, list[tuple[int, int, bool]]]:
    """Map the name of each array to a list of (position, end of scope, is local), one per array of that name.

    A name is left out if all arrays of it are local.
    """
    scan = Scan(text)
    # as long as `text`: positions hold for both
    code = _ATTRIBUTE.sub(lambda match: " " * len(match[0]), scan.code)
    # positions of { and }, the inner ones first
    scopes = sorted(scan.closing.items(), reverse=True)
    result = {}

    def add(name, position, is_local):
        """Add an array; its scope ends with the innermost bracket around its declaration."""
        end = next((end for begin, end in scopes if begin < position < end), len(code))
        result.setdefault(name, []).append((position, end, is_local))

    for match in _NOT_LOCAL.finditer(code):
        for array in _ARRAY.finditer(match[0]):
            add(array[1], match.start() + array.start(), False)
    # Of the same names: what precedes a [ from the statement's beginning tells a declaration
    # ("float ") from a use.
    # (?!) matches nothing
    for array in re.finditer(rf"\b({'|'.join(result) or '(?!)'})\s*\[", code):
        before = code[max(code.rfind(sign, 0, array.start()) for sign in ";{}") + 1 : array.start()]
        if _TYPE.match(before) and not _NOT_LOCAL.search(f"{before};"):
            add(array[1], array.start(), True)
    return result


def list_lines(
    text: str, file: str | None = None
) -> Iterator[tuple[tuple[str | None, int], int, str]]:
    """Yield ((file, line number), position in `text`, the line) for each line; ``#line`` directives set the former.

    `file` is the name before the first directive. The directives themselves are left out.
    """
    number, position = 1, 0
    for line in text.splitlines(keepends=True):
        if directive := _LINE.match(line):
            file, number = directive[2] or file, int(directive[1])
        else:
            yield (file, number), position, line.rstrip("\r\n")
            number += 1
        position += len(line)


def _find_array(line: str, column: int) -> str | None:
    """Return the variable whose index ends at a column: "x" in "x[0].y[i]"; None if unknown, as behind a pointer."""
    left = line[:column]
    if not left.endswith("]"):
        return None
    while True:  # remove indices and members from the end
        if left.endswith("]"):
            left = left[: find_opening(left, len(left) - 1) or 0].rstrip()
        elif member := re.search(r"\.\s*\w+$", left):
            left = left[: member.start()].rstrip()
        else:
            break
    name = re.search(r"(?:->\s*)?\b[A-Za-z_]\w*$", left)
    return name[0] if name and not name[0].startswith("->") else None
