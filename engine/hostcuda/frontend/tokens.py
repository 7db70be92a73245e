"""Read C++ text as tokens and pairs of brackets; it need not compile. Edit it.

What contains CUDA C++ is read in two steps: `mask` makes `code` of it, which has spaces instead of
comments and of the contents of literals, so that every position stays the same. `lex` and what
follows brackets read `code`. Positions are indices of it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from functools import lru_cache
from typing import NamedTuple, TypeAlias

Edit: TypeAlias = tuple[int, int, str]  # first position, position after the last, new text

PAIRS = {"(": ")", "[": "]", "{": "}"}  # not "<": that may be an operator
_WORD, _NUMBER = r"[^\W\d]\w*", r"\.?\d(?:'?[\w.]|(?<=[eEpP])[+-])*"
# A comment, a literal, or what could hide the begin of one: a number as 1'000, a word as fooR
# before a string.
LEXEME = re.compile(
    rf"""
    (?P<comment> //(?:[^\\\n]|\\.)*  |  /\*.*?(?:\*/|\Z) )
  | (?P<raw>     (?:u8|[uUL])?R"(?P<fence>[^()\\\s]{{0,16}})\(.*?\)(?P=fence)" )
  | (?P<string>  (?:u8|[uUL])?"(?:[^"\\\n]|\\.)*"? )
  | (?P<number>  {_NUMBER} )
  | (?P<char>    (?:u8|[uUL])?'(?:[^'\\\n]|\\.)*'? )
  | (?P<word>    {_WORD} )
    """,
    re.VERBOSE | re.DOTALL,
)
_TOKEN = re.compile(
    rf"""(?P<word>{_WORD}) | (?P<number>{_NUMBER}) | (?P<text>"[^"\n]*"|'[^'\n]*')
      | (?P<sign>->\*|<<=|>>=|\.\.\.|->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|::|[^\s\w])""",
    re.VERBOSE,
)
_SPELT = {  # C++'s words for signs
    "and": "&&",
    "or": "||",
    "not": "!",
    "xor": "^",
    "bitand": "&",
    "bitor": "|",
    "compl": "~",
    "and_eq": "&=",
    "or_eq": "|=",
    "xor_eq": "^=",
    "not_eq": "!=",
}
_ANGLE = r"->|[][(){}<>]"  # and the ">" of "->", which is none
_NO_ANGLE = re.compile(r"[][(){};]")
_HEAD = re.compile(r"(?:for|while|if(?:\s+constexpr)?|switch)\b\s*|(?:do|else)\b")  # of a statement
_OPENING = {">": "<", "]": "[", ")": "(", "}": "{"}


# --------------------------------------------------------------------------- Comments and literals
def blank(text: str) -> str:
    """Return a text with spaces in place of all characters except newlines: its length and lines stay."""
    return re.sub(r"[^\n]", " ", text)


def without_comments(text: str) -> str:
    """Return the text with spaces instead of comments: no position and no line changes."""
    return LEXEME.sub(lambda match: blank(match[0]) if match["comment"] else match[0], text)


def mask(text: str) -> str:
    """Return the text with spaces instead of comments and of the contents of literals: no position changes."""

    def mask_lexeme(match: re.Match[str]) -> str:
        """Return what replaces a comment or a literal, of the same length; a literal keeps its quotation marks."""
        lexeme = match.group()
        if match["comment"]:
            return blank(lexeme)
        if match["raw"] or match["string"] or match["char"]:
            quote = lexeme.index("'" if match["char"] else '"')  # behind a prefix: u8"text"
            if not lexeme[quote + 1 :]:  # the mark alone: the literal does not end
                return blank(lexeme)
            return " " * quote + lexeme[quote] + blank(lexeme[quote + 1 : -1]) + lexeme[-1]
        return lexeme

    return LEXEME.sub(mask_lexeme, text)


# ------------------------------------------------------------------------------------------ Tokens
class Token(NamedTuple):
    """A token of C++, with its place in the text."""

    kind: str  # word, number, text (a literal) or sign
    text: str
    start: int  # code[start:end] is the token, in the code that `lex` read
    end: int


def lex(code: str, start: int = 0, end: int | None = None) -> list[Token]:
    """Return the tokens of code[start:end]; words that stand for signs, such as ``xor_eq``, become signs."""
    return [
        Token("sign", _SPELT[m.group()], *m.span())
        if m.group() in _SPELT
        else Token(str(m.lastgroup), m.group(), *m.span())  # the group's name is the kind
        for m in _TOKEN.finditer(code, start, len(code) if end is None else end)
    ]


class Tokens:
    """The tokens code[start:end], in which every bracket has a partner, and walks along them.

    `tokens` is the list of `Token`s. `match` is a dict from the index of each bracket to its
    partner's. `around` is a list: the index of the bracket around each token, or -1.
    """

    def __init__(self, code: str, start: int, end: int):
        """Read the tokens of code[start:end]; ValueError if a bracket has no partner."""
        self.tokens = lex(code, start, end)
        match, stack, self.around = {}, [], []  # stack: the brackets that are open
        for at, token in enumerate(self.tokens):
            self.around.append(stack[-1] if stack else -1)
            if token.text in PAIRS:
                stack.append(at)
            elif token.text in PAIRS.values():
                if not stack or PAIRS[self.tokens[stack[-1]].text] != token.text:
                    raise ValueError("its brackets are not paired")
                match[stack.pop()] = at
        if stack:
            raise ValueError("its brackets are not paired")
        self.match = {**match, **{close: open_ for open_, close in match.items()}}

    def text(self, at: int) -> str:
        """Return the text of token `at`, or "" before the first and after the last one."""
        return self.tokens[at].text if 0 <= at < len(self.tokens) else ""

    def outside_brackets(self, first: int, last: int) -> Iterator[int]:
        """Yield the indices of tokens[first:last], but skip what is inside of brackets, with the closing bracket."""
        at = first
        while at < last:
            yield at
            at = self.match[at] + 1 if self.text(at) in PAIRS else at + 1

    def find_start(self, at: int, first: int, ends: Collection[str]) -> int:
        """Return the index of the token at which the expression or statement around token `at` starts.

        It is behind the last of the signs `ends` before `at`; without one, behind the bracket around `at`, but
        not before `first`.
        """
        begin = max(first, self.around[at] + 1)  # around: the bracket around the token, or -1
        ends_before = (i for i in self.outside_brackets(begin, at) if self.text(i) in ends)
        # if a sign of `ends` is a bracket, the start is behind its partner
        return max((self.match.get(i, i) + 1 for i in ends_before), default=begin)

    def find_end(self, at: int, last: int, ends: Collection[str]) -> int:
        """Return the index of the first token from `at` on that ends an expression; `last` if there is none.

        It is a closing bracket without an opening one after `at`, or a sign of `ends` outside of brackets.
        """
        return next(
            (
                i
                for i in self.outside_brackets(at, last)
                if self.text(i) in {*ends, *PAIRS.values()}
            ),
            last,
        )

    def split(self, first: int, last: int, separator: str = ",") -> list[tuple[int, int]]:
        """Return a list of (first, last): the parts of tokens[first:last] between separators outside of brackets."""
        spans = []
        for at in self.outside_brackets(first, last):
            if self.text(at) == separator:
                spans.append((first, at))
                first = at + 1
        return [*spans, (first, last)]

    def match_angle(self, at: int, limit: int) -> int | None:
        """Return the index of the partner of the angle bracket at token `at`, or None if there is none up to `limit`.

        The partner of a ``<`` is after it, that of a ``>`` or ``>>`` before it. A ``>>`` closes two.
        """
        step, depth = 1 if self.text(at) == "<" else -1, 0
        for place in range(at, limit, step):
            depth += step * {"<": 1, ">": -1, ">>": -2}.get(self.text(place), 0)
            if depth <= 0:
                # negative: a ">>" closed one more than was open
                return None if depth else place
        return None


# ---------------------------------------------------------------------------------------- Brackets
def find_pairs(code: str, pair: str) -> Iterator[tuple[int, int, int]]:
    """Yield (position of an opening bracket, that of its partner, brackets open around them) for a `pair`, as "{}".

    They come in the order of the closing ones. A bracket without a partner is left out.
    """
    open_ = []  # positions of those that are not closed yet
    for match in re.compile(f"[{re.escape(pair)}]").finditer(code):
        if match.group() == pair[0]:
            open_.append(match.start())
        elif open_:
            yield open_.pop(), match.start(), len(open_)


def walk(
    code: str, signs: str, start: int = 0, end: int | None = None, back: bool = False
) -> Iterator[tuple[re.Match[str], int, int]]:
    """Yield (match, depth, angle depth) for each match of the regular expression `signs` in code[start:end].

    `signs` matches brackets, and other signs that are searched. The depth says how many brackets are
    open after the match; it is negative if more were closed. The angle depth is that of ``<`` and
    ``>``, which count only outside of other brackets: inside of these they are operators. `back`:
    from the end to the start, so that closing brackets open.
    """
    depth = angle_depth = 0
    matches = re.compile(signs).finditer(code, start, len(code) if end is None else end)
    step = -1 if back else 1
    for match in reversed([*matches]) if back else matches:
        sign = match[0]
        if sign in PAIRS:
            depth += step
        elif sign in PAIRS.values():
            depth -= step
        elif not depth and sign in ("<", ">"):
            angle_depth += step if sign == "<" else -step
        yield match, depth, angle_depth


def find_closing_parenthesis(code: str, at: int) -> int | None:
    """Return the position of the ``)`` that closes the first ``(`` from position `at` on, or None."""
    return _match_parentheses(code).get(code.find("(", at))


@lru_cache(8)
def _match_parentheses(code: str) -> dict[int, int]:
    """Return a dict: position of each ``(`` that is closed -> position of its ``)``."""
    return {open_: close for open_, close, _ in find_pairs(code, "()")}


def find_angle_end(code: str, at: int) -> int | None:
    """Return the position of the ``>`` that closes the ``<`` at position `at`, or None."""
    for match, _, angle_depth in walk(code, _ANGLE, at):
        if match[0] in "<>" and not angle_depth:
            return match.start()
    return None


def split_spans(
    code: str, separator: str, start: int = 0, end: int | None = None, angles: bool = True
) -> list[tuple[int, int]]:
    """Return the spans (start, end) of the parts of code[start:end] between separators outside of brackets.

    `angles`: ``<`` and ``>`` are brackets, too. Without a separator it is one span.
    """
    end, spans = len(code) if end is None else end, []
    signs = f"{_ANGLE}|{re.escape(separator)}"
    for match, depth, angle_depth in walk(code, signs, start, end):
        if match[0] == separator and not depth and not (angles and angle_depth):
            spans.append((start, match.start()))
            start = match.end()
    return [*spans, (start, end)]


def find_opening(code: str, at: int) -> int | None:
    """Return the position of the bracket that matches the closing one (also ``>``) at position `at`, or None."""
    open_brackets = []  # the brackets that are looked for, the innermost one last
    while at >= 0:
        character, at = code[at], at - 1
        if character == ">" and (code[at] == "-" or (open_brackets and open_brackets[-1] != "<")):
            continue  # the end of "->", or an operator
        if character in _OPENING:
            open_brackets.append(_OPENING[character])
        elif open_brackets and character == open_brackets[-1]:
            open_brackets.pop()
            if not open_brackets:
                return at + 1  # `at` is already the position before it
    return None


def skip_bracket(code: str, at: int) -> int:
    """Return the position after the partner of the opening bracket (not ``<``) at position `at`, else the end."""
    signs = walk(code, _NO_ANGLE.pattern, at)
    return next((match.end() for match, depth, _ in signs if not depth), len(code))


def find_statement_end(code: str, at: int) -> int:
    """Return the position after the statement that begins at position `at`, where white space may be first."""
    # heads may follow each other: "for (...) if (...)"
    while True:
        if space := re.compile(r"\s+").match(code, at):
            at = space.end()
        if code.startswith("{", at):
            return skip_bracket(code, at)
        if not (head := _HEAD.match(code, at)):
            break
        at = head.end()
        if code.startswith("(", at):
            at = skip_bracket(code, at)
    # a simple statement: up to its ";", with brackets in it left out, which may have others
    while (sign := _NO_ANGLE.search(code, at)) and sign[0] != ";":
        at = skip_bracket(code, sign.start()) if sign[0] in "([{" else sign.end()
    return sign.end() if sign else len(code)


# ------------------------------------------------------------------------------------------- Edits
def apply_edits(text: str, edits: Iterable[Edit], start: int = 0, end: int | None = None) -> str:
    """Return text[start:end] with some parts replaced; an edit (begin, after, new text) replaces text[begin:after].

    The edits are in any order, and do not overlap.
    """
    pieces = []
    for begin, after, new in sorted(edits):
        pieces += [text[start:begin], new]
        start = after
    return "".join([*pieces, text[start:end]])
