"""Follow a thread through the integer arithmetic of a kernel's text, to the elements of an array that it takes.

It knows expressions of integers, declarations, assignments, if, for, while and return. A statement
with anything else is passed over, and what it may change is no longer known.
"""

import functools
import re
from collections.abc import Mapping
from typing import NamedTuple

from labkit.exercises.text import find_line

_TOKEN = re.compile(
    r"(?:threadIdx|blockIdx|blockDim|gridDim)\.[xyz]|\w+|\+\+|--|<<=|>>=|[-+*/%&|^<>=!]=|&&|\|\||<<|>>|\S"
)
_LEVELS = {
    operator: level
    for level, operators in enumerate(
        ("||", "&&", "|", "^", "&", "== !=", "< > <= >=", "<< >>", "+ -", "* / %"), 1
    )
    for operator in operators.split()
}
_SIGN = len(_LEVELS)  # binds tighter than each of these
_TYPES = {"const", "constexpr", "int", "unsigned", "size_t", "long"}
_DEEPEST = 20  # parentheses and statements within each other
_MOST_TOKENS = 1000  # of a code that is followed
_BUDGET = 200_000  # tokens that are read, again in each pass of a loop: a loop may not end
_LARGEST = 2**31
_TILES = {"TILE": 16, "FIXED_K": 7}  # of rung 04 on lenet86
_BANKS, _HALF = 32, 16  # of shared memory; words of a row that a warp reads, if it reads two
# In tokens with blanks between: a name that may change; what leaves a statement, or gives a variable another name.
_CHANGED = re.compile(r"(\w+) (?:[-+*/%&|^]?=|\+\+|--)(?= |$)|(?:\+\+|--|&) (\w+)")
_LEAVES = re.compile(r"\b(?:return|break|continue|goto)\b|\b(?:int|unsigned|auto) & \w")


class NotKnown(Exception):
    """The code has something that cannot be followed."""


class Change(NamedTuple):
    """What an assignment did to a variable."""

    line: int
    name: str
    before: int | None
    after: int


class Taken(NamedTuple):
    """An element of the array that was taken.

    Attributes
    ----------
    line : int
    index : int
    changes : int
        The number of changes before it.
    """

    line: int
    index: int
    changes: int


class Follower:
    """A thread that executes statements.

    Attributes
    ----------
    names : dict
        The variables' values.
    changes : list of Change
    taken : list of Taken
        The elements of `array` in statements that were passed over, each once per statement.
    budget : int
        Tokens that may still be read.
    """

    def __init__(self, names: Mapping[str, int], array: str = "", budget: int = _BUDGET):
        self.names = {**names}
        self.changes: list[Change] = []
        self.taken: list[Taken] = []
        self.budget = budget
        self._array = array
        self._returned = False
        self._tokens: list[tuple[str, int]] = []
        self._at = self._depth = 0

    def follow(self, code: str, line: int = 1) -> None:
        """Execute statements in C: update `names`, a dict of the variables' values.

        The list `changes` gets the assignments. The list `taken` gets the elements that the statements
        use of one array, which the constructor got by name. `line` is the number of the code's first
        line. Raises NotKnown if the code is too long or cannot be followed.
        """
        self._tokens = [
            (token, number)
            for number, text in enumerate(code.splitlines(), line)
            if not text.lstrip().startswith("#")  # such as #pragma unroll
            for token in _TOKEN.findall(text)
        ]
        if len(self._tokens) > _MOST_TOKENS:
            raise NotKnown
        self._at = self._depth = 0
        while self._at < len(self._tokens) and not self._returned:
            self._execute(active=True)  # it calls itself with False for a branch that is not taken

    def _peek(self, further: int = 0) -> str:
        place = self._at + further
        return self._tokens[place][0] if place < len(self._tokens) else ""

    def _take(self, *wanted: str) -> str:
        self.budget -= 1
        token = self._peek()
        if not token or (wanted and token not in wanted) or self.budget < 0:
            raise NotKnown
        self._at += 1
        return token

    def _execute(self, active: bool) -> None:
        """Read a statement, and do it if `active`; pass over one that is not known."""
        begin, names, counts = self._at, {**self.names}, (len(self.changes), len(self.taken))
        depth, self._depth = self._depth, self._depth + 1
        try:
            self._read_statement(active)
        except NotKnown:
            if self.budget < 0:
                raise
            self._at, self._depth, self.names = begin, depth, names
            del self.changes[counts[0] :], self.taken[counts[1] :]
            self._pass_over()
            if active:
                self._note(begin)
        self._depth = depth

    def _pass_over(self) -> None:
        """Go behind a statement, whatever it is."""
        depth, is_if = 0, self._peek() == "if"
        while self._at < len(self._tokens):
            token = self._take()
            depth += (token in ("(", "{", "[")) - (token in (")", "}", "]"))
            if depth < 0:
                raise NotKnown
            is_end = depth == 0 and token in (";", "}") and self._peek() not in (";", ",")
            if is_end and not (is_if and self._peek() == "else"):
                return

    def _note(self, begin: int) -> None:
        """Note what a statement that was passed over takes, and forget what it may change."""
        tokens = self._tokens[begin : self._at]
        passed = " ".join(token for token, _ in tokens)
        if _LEAVES.search(passed):
            raise NotKnown
        for change in _CHANGED.finditer(passed):
            self.names.pop(change[1] or change[2], None)
        places = [
            place
            for place, (token, _) in enumerate(tokens[:-1], begin)
            if token == self._array and self._tokens[place + 1][0] == "["
        ]
        if places and re.search(r"\b(?:if|else|for|while|do)\b", passed):
            raise NotKnown  # whether it is taken is not known
        end, taken = self._at, {}
        for place in places:
            self._at = place + 2
            index = self._compute()
            self._take("]")
            taken[index] = Taken(self._tokens[place][1], index, len(self.changes))
        self.taken += taken.values()
        self._at = end

    def _read_statement(self, active: bool) -> None:
        if self._depth > _DEEPEST:
            raise NotKnown
        token = self._peek()
        if token == "{":
            self._take()
            while self._peek() != "}":
                self._execute(active and not self._returned)
            self._take()
        elif token == "if":
            self._take()
            holds = self._read_condition()
            self._execute(active and holds)
            if self._peek() == "else":
                self._take()
                self._execute(active and not holds)
        elif token in ("for", "while"):
            self._read_loop(active)
        elif token == "return":
            self._take()
            self._take(";")
            self._returned = self._returned or active
        else:
            self._assign_all(active, ";")

    def _read_condition(self) -> bool:
        self._take("(")
        holds = bool(self._compute())
        self._take(")")
        return holds

    def _read_loop(self, active: bool) -> None:
        is_for = self._take() == "for"
        if is_for:
            self._take("(")
            self._assign_all(active, ";")
        begin = self._at
        while True:
            self._at = begin
            if is_for:
                holds = bool(self._compute()) and active
                self._take(";")
                step = self._at
                self._assign_all(False, ")")
            else:
                holds = self._read_condition() and active
            self._execute(holds)
            end = self._at
            if not holds or self._returned:
                return
            if is_for:
                self._at = step
                self._assign_all(True, ")")
                self._at = end

    def _assign_all(self, active: bool, end: str) -> None:
        """Read declarations and assignments up to a token, and do them if `active`."""
        while self._peek() in _TYPES:
            self._take()
        while self._peek() != end:
            self._assign(active)
            if self._peek() != end:
                self._take(",")
        self._take()

    def _assign(self, active: bool) -> None:
        prefix = self._take() if self._peek() in ("++", "--") else ""
        line = self._tokens[self._at][1] if self._at < len(self._tokens) else 0
        name = self._take()
        operator = prefix or self._take("++", "--", "=", *(f"{sign}=" for sign in "+-*/%&|^"))
        right = 1 if operator in ("++", "--") else self._compute()
        if not active:
            return
        before = self.names.get(name)
        if operator == "=":
            after = right
        elif before is None:
            raise NotKnown
        else:
            after = _apply(operator[0], before, right)
        self.names[name] = after
        self.changes.append(Change(line, name, before, after))

    def _compute(self, least: int = 0) -> int:
        """Return the value of an expression; its operators bind at least so tightly, and 0 takes ? :, too."""
        self._depth += 1
        if self._depth > _DEEPEST:
            raise NotKnown
        value = self._compute_operand()
        while _LEVELS.get(self._peek(), 0) >= max(least, 1):
            operator = self._take()
            value = _apply(operator, value, self._compute(_LEVELS[operator] + 1))
        if least == 0 and self._peek() == "?":
            self._take()
            first = self._compute()
            self._take(":")
            second = self._compute()
            value = first if value else second
        self._depth -= 1
        return value

    def _compute_operand(self) -> int:
        token = self._take()
        if token == "(":
            if self._peek() in _TYPES and self._peek(1) == ")":  # a cast
                self._take()
                self._take()
                return self._compute(_SIGN)
            value = self._compute()
            self._take(")")
            return value
        if token == "-":
            return -self._compute(_SIGN)
        if token == "!":
            return int(not self._compute(_SIGN))
        if token == "sizeof" and self._peek(1) in ("float", "int"):
            self._take()
            self._take()
            self._take(")")
            return 4
        if number := re.fullmatch(r"(0|[1-9]\d{0,8})[uU]?", token):
            return int(number[1])
        if token not in self.names:
            raise NotKnown
        return self.names[token]


def _apply(operator: str, left: int, right: int) -> int:
    """Return what an operation of C++ gives; raise NotKnown where it gives no integer of 32 bits."""
    if operator in ("/", "%"):
        if not right:
            raise NotKnown
        quotient = abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)
        return quotient if operator == "/" else left - quotient * right
    if operator in ("<<", ">>") and not 0 <= right < 31:
        raise NotKnown
    value = {
        "||": lambda: left or right,
        "&&": lambda: left and right,
        "|": lambda: left | right,
        "^": lambda: left ^ right,
        "&": lambda: left & right,
        "==": lambda: left == right,
        "!=": lambda: left != right,
        "<": lambda: left < right,
        ">": lambda: left > right,
        "<=": lambda: left <= right,
        ">=": lambda: left >= right,
        "<<": lambda: left << right,
        ">>": lambda: left >> right,
        "+": lambda: left + right,
        "-": lambda: left - right,
        "*": lambda: left * right,
    }[operator]()
    if operator in ("||", "&&"):
        value = bool(value)
    if not -_LARGEST <= value < _LARGEST:
        raise NotKnown
    return int(value)


def compute(expression: str, names: Mapping[str, int]) -> int | None:
    """Return the value of an expression of integers in C, "T + K / 2", as C computes it; None if it is not known.

    `names` maps the variables to their values.
    """
    follower = Follower(names)
    try:
        follower.follow(f"value = {expression};")
    except NotKnown:
        return None
    return follower.names.get("value")


def find_body(code: str, kernel: str) -> tuple[str, int]:
    """Return the text of a kernel between its braces, and the line, from 1, on which that begins; else ("", 0)."""
    head = re.search(rf"\b{kernel}\s*\([^(){{}};]*\)\s*\{{", code)
    if not head:
        return "", 0
    depth, end = 1, head.end()  # braces that are open; the place of the one that closes the kernel
    for brace in re.finditer(r"[{}]", code[head.end() :]):
        depth += 1 if brace[0] == "{" else -1
        end = head.end() + brace.start()
        if depth == 0:
            break
    return code[head.end() : end], find_line(code, head.end())


def list_taken(code: str, kernel: str, array: str, names: Mapping[str, int]) -> list[int]:
    """Return the indices of the elements of an array that a thread uses, in its order; [] if that is not known.

    `names` has the values of the kernel's arguments and of the thread: {"n": 4096, "threadIdx.x": 5,
    "blockIdx.x": 0}. The launch has 8 blocks of 128 threads, unless `names` say otherwise.
    """
    body, line = find_body(code, kernel)
    follower = Follower({"blockDim.x": 128, "gridDim.x": 8, **names}, array)
    try:
        follower.follow(body, line)
    except NotKnown:
        return []
    return [taken.index for taken in follower.taken]


def describe_tile_rows(code: str, names: Mapping[str, int] = _TILES) -> str:
    """Return sentences on the bank conflicts of a warp that reads 16 words each of two rows of `tile`; or "".

    "" if there are none, if lanes do not go along the rows, or if the length of a row is not known.
    `names` are the constants of the launch, by default those of the layers of lenet86.
    """
    names = {**names}  # and the constants that the code computes from them
    for name, expression in re.findall(r"\bconst(?:expr)? int (\w+) = ([^;,]{1,80});", code):
        if (value := compute(expression, names)) is not None:
            names[name] = value
    declared = re.search(r"\bfloat tile\[[^\]]{1,80}\]\[([^\]]{1,80})\]", code)
    length = compute(declared[1], names) if declared else None
    # a warp's lanes go along the rows only with this index
    if not length or not re.search(r"\btile\[threadIdx\.y \+ p\]\[threadIdx\.x \+ q\]", code):
        return ""
    bank = length % _BANKS  # of the second row's first word, if that of the first row is in bank 0
    # Each row takes `_HALF` of the `_BANKS` banks, twice as many: that far apart the rows share none,
    # and for each bank nearer, from either side, they share one.
    shared = abs(_HALF - bank)
    if not shared:
        return ""
    line = find_line(code, declared.start(1))
    return (
        f"A row of the tile has {length} words (line {line}). If the first of the two rows that a warp reads begins in "
        f"bank 0, the second begins in bank {bank}: they share {shared} banks, of the {_HALF} that each of them needs. "
        f"The second should begin {_HALF} banks further: a row needs {_HALF} words more than a multiple of {_BANKS}."
    )


@functools.lru_cache(maxsize=4)  # a mistake asks twice: whether it fits, and for its sentence
def describe_shares(
    code: str, kernel: str, array: str, n: int, blocks: int, threads: int, what: str
) -> str:
    """Return a sentence if not each of n elements of an array is used by exactly one thread of a launch; or "".

    "With n = 1,000 and 3 blocks of 64 threads, no thread takes element 192." A thread takes an
    element if it executes a statement with ``array[index]``. "" also if the kernel's text cannot be
    followed. `what` says what an element is: "element".
    """
    body, line = find_body(code, kernel)
    owners: dict[int, str] = {}
    launch = f"With n = {n:,} and {blocks} blocks of {threads} threads,"
    budget = _BUDGET  # tokens of the code that all threads together may read: a loop may not end
    for block, thread in ((b, t) for b in range(blocks) for t in range(threads)):
        follower = Follower(
            {
                "n": n,
                "blockIdx.x": block,
                "blockDim.x": threads,
                "gridDim.x": blocks,
                "threadIdx.x": thread,
                "warpSize": 32,
            },
            array,
            budget,
        )
        try:
            follower.follow(body, line)
        except NotKnown:
            return ""
        budget = follower.budget
        owner = f"thread {thread} of block {block}"
        for taken in follower.taken:
            if not 0 <= taken.index < n:
                return f"{launch} {owner} takes {what} {taken.index}, which does not exist: see line {taken.line}."
            if taken.index in owners:
                other = owners[taken.index]
                both = (
                    f"{owner} takes it twice"
                    if other == owner
                    else f"{other} and {owner} both take it"
                )
                return f"{launch} {what} {taken.index} is taken more than once: {both}, in line {taken.line}."
            owners[taken.index] = owner
    missing = next((index for index in range(n) if index not in owners), None)
    # a kernel without this array in its text reads it by another way, such as a pointer
    if missing is None or not re.search(rf"\b{array}\[", body):
        return ""
    return f"{launch} no thread takes {what} {missing}."
