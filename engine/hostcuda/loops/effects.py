"""Variables, and which of them a piece of code uses and changes."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from hostcuda.loops.reader import Node, Reader
from hostcuda.loops.words import (
    ASSIGNMENTS,
    BINARY,
    BUILT_IN,
    CLASSES,
    INDICES,
    SPECIFIERS,
    STEPS,
    NeedsFibers,
)

if TYPE_CHECKING:
    from hostcuda.loops.file import File

_BEFORE_OPERANDS = {
    "return",
    "case",
    "sizeof",
    "else",
    "do",
    "volatile",
    "new",
    "delete",
    *SPECIFIERS,
    *BUILT_IN,
    *CLASSES,
}
_STATEMENT_STARTS = {"return", "case", "else", "do"}
_BEFORE_CONDITIONS = {"if", "while", "for", "switch", "constexpr"}
# they only look at their operand's type
_UNEVALUATED = {"sizeof", "alignof", "decltype", "noexcept", "typeid"}


@dataclass(eq=False)
class KernelVariable:
    """A parameter, or a variable of a scope that has a barrier."""

    name: str
    specifiers: str = ""  # its type as declared, without pointers and array bounds
    signs: str = ""  # of a pointer or reference, such as "* const"
    bounds: tuple[int, int] = (0, 0)  # the span of tokens of ``[3][4]``
    initializer: tuple[int, int] = (0, 0)  # the span of tokens of ``= 1``
    role: str = "uniform"  # uniform, recomputed, kept or local (see the package's text)
    shared: bool = False  # whether it is __shared__
    # whether something may refer to it, or change it in a way that is not understood
    addressed: bool = False
    # the outermost control statement (a `Node`) around it that a warp runs alone, or None
    warp: object = None
    steady: bool = False  # whether it has the same value in all lanes of a warp, for good
    is_thread_number: bool = False  # whether it is the number of its thread in the row, for good
    type: str = "scalar"  # as `File.find_kind` returns it; for an array, that of its elements
    place: int = -1  # the token of its name
    position: int = -1  # where the name of a parameter, but an array, stands in the text
    # the number of the region that declares it; -1 for parameters, and where a block or warp does
    region: int = -1
    # numbers of regions that name it, and the `PlanStep`s that a warp does once
    uses: set[object] = field(default_factory=set)
    changes: set[int] = field(default_factory=set)  # numbers of the regions that may change it
    needs: set[KernelVariable] = field(default_factory=set)  # variables in its initializer
    # first tokens of the uniform statements that change it
    changed_uniformly: list[int] = field(default_factory=list)
    # for an array: (opening, closing) token of each pair of brackets
    dimensions: tuple[tuple[int, int], ...] = ()

    @property
    def array(self) -> bool:
        """Whether the variable is an array: the tokens of its bounds, as in ``[4][2]``, are not empty."""
        return self.bounds[0] != self.bounds[1]

    @property
    def constant(self) -> bool:
        """Whether the variable is declared const or constexpr; of a pointer, whether the pointer itself is const."""
        if (
            "*" in self.signs
        ):  # "* const": the pointer; in "const float *" the specifiers have the word
            return "const" in self.signs.split()[-1:]
        words = self.specifiers.split()
        return "const" in words or "constexpr" in words


# The variables by name at a place; None for one that a statement declares for itself.
Scope: TypeAlias = dict[str, KernelVariable | None]


@dataclass
class Effects:
    """Sets of `KernelVariable`s: those that a piece of code uses, may change, and lets something refer to."""

    uses: set[KernelVariable] = field(default_factory=set)
    changes: set[KernelVariable] = field(default_factory=set)
    addressed: set[KernelVariable] = field(default_factory=set)

    def add(self, other: Effects) -> None:
        """Add to these sets those of `other`, the effects of another piece of code."""
        self.uses |= other.uses
        self.changes |= other.changes
        self.addressed |= other.addressed


class EffectsReader:
    """Finds which variables a piece of code uses and changes.

    A variable is only *used* where C++ is sure to take its value, as the operand of a built-in
    operator or as the argument of a function that gets a copy. Where something may refer to it, it
    is *addressed*.
    """

    def __init__(self, reader: Reader, file: File, parameters: Set[str]):
        # A `Reader`, a `File`, and the names of the types that are parameters of the kernel's
        # template.
        self.reader, self.file, self.parameters = reader, file, parameters
        # those of `parameters` taken to be numbers or pointers: the compiler has to prove it
        self.assumed = set()

    def read_expression(self, first: int, last: int, scope: Scope, copied: bool = True) -> Effects:
        """Return which variables the expression tokens[first:last] uses, changes, or takes the address of (`Effects`).

        `scope` maps names to variables, or to None for one that the statement around the expression
        declares. `copied`: whether the value is copied, as by ``int v = expression``.
        """
        effects, text = Effects(), self.reader.text
        for at in range(first, last):
            token = self.reader.tokens[at]
            variable = scope.get(token.text)
            is_member = text(at - 1) in (".", "->", "::")
            if variable is None or is_member:
                continue
            effects.uses.add(variable)
            use = _Use(self, scope, first, last, copied)
            # is_copied also sets use.changes: whether an operator around the variable writes it
            if not use.is_copied(variable, at):
                effects.addressed.add(variable)  # a pointer or reference to it may stay behind
            if use.changes or variable.array:  # of an array, an element may change
                effects.changes.add(variable)
        return effects

    def ends_operand(self, at: int, scope: Scope) -> bool:
        """Return whether an operand ends at token `at`: then a ``*`` after it multiplies, and reads no pointer."""
        if at < 0:
            return False
        token = self.reader.tokens[at]
        # (float)*p reads a pointer
        if token.text == ")" and self.is_cast(self.reader.match[at] + 1, at, scope):
            return False
        # so does ``return *p``
        is_word = token.kind in ("word", "number") and token.text not in (
            "return",
            "else",
            "do",
            "case",
        )
        return is_word or token.text in (")", "]")

    def is_cast(self, first: int, last: int, scope: Scope) -> bool:
        """Return whether the parentheses around tokens[first:last] may be a cast, as in ``(float)n``.

        Types are not known: the answer is yes if the tokens look like a type.
        """
        token, text = self.reader.tokens[first], self.reader.text
        may_be_type = (
            token.kind == "word"
            and token.text not in scope
            and token.text not in INDICES | {"threadIdx"}  # blockIdx, blockDim, ...: variables
        )
        if first == last or not (may_be_type or token.text == "::"):
            return False
        if text(first + 1) == "(" and token.text not in ("decltype", "typeof", "__typeof__"):
            return False  # a call
        outer = {text(at) for at in self.reader.outside_brackets(first, last)}
        # A type has none of these operators; "<" may begin a template's arguments.
        return "<" in outer or not outer & (
            BINARY - {"*", "&", "&&"} | ASSIGNMENTS | {"?", ".", "->"}
        )

    def is_copied_type(self, words: list[str]) -> bool:
        """Return whether a conversion to a type, such as ["const", "float"], copies a number, a vector or a pointer.

        It is then known to do nothing else; a conversion to a class may run any code.
        """
        kind = self.file.find_kind(words, self.parameters)
        # A parameter of the kernel's template: the compiler has to prove that it is such a type. `auto`
        # names no type, so the proof is of the variable that is declared with it.
        if kind == "assumed" and words != ["auto"]:
            self.assumed.add(next(word for word in words if word in self.parameters))
        return kind in ("scalar", "pointer", "vector", "assumed")

    def read_statement(self, node: Node, scope: Scope) -> Effects:
        """Return which variables a statement without barriers, and the statements in it, use and change.

        `scope` maps names to variables; a declaration adds its names.
        """
        if node.kind == "declaration":
            return self.read_declaration(node.first, node.last - 1, scope)  # without the ";"
        if node.kind == "expression":
            self.require_expression(node.first, node.last - 1, scope)
            return self.read_expression(node.first, node.last, scope)
        # a copy: names that a loop or block declares are gone after it
        effects, scope = Effects(), dict(scope)
        if node.kind == "for":
            first = node.parts["first"]
            read_first = (
                self.read_declaration
                if self.reader.is_declaration(*first)
                else self.read_expression
            )
            effects.add(read_first(*first, scope))
            effects.add(self.read_expression(*node.parts["step"], scope))
        if "condition" in node.parts:
            effects.add(self.read_expression(*node.parts["condition"], scope))
        for child in node.children:
            # What a statement of a block declares is known to those after it.
            effects.add(self.read_statement(child, scope if node.kind == "block" else dict(scope)))
        return effects

    def require_declaration(self, first: int, last: int, scope: Scope) -> None:
        """Raise `NeedsFibers` if tokens[first:last] look like a declaration and may be an expression: ``x * y;``.

        The kernel then gets a stack per thread: no loop over threads is written for it.
        """
        for at in self.reader.outside_brackets(first, self.reader.require_type_end(first, last)):
            name = self.reader.text(at)
            # a variable, where a type should be
            if name in scope or name in self.file.declared - self.file.types.keys():
                raise NeedsFibers(f"what it does with {name} is not understood")

    def require_expression(self, first: int, last: int, scope: Scope) -> None:
        """Raise `NeedsFibers` if what was taken for an expression, tokens[first:last], is a declaration.

        An example is ``int (*p)[3] = &row``. A declaration begins with a type, or has two operands
        without an operator between them. After `NeedsFibers` the kernel gets a stack per thread.
        """
        word, reader = self.reader.text(first), self.reader
        names = self.file.types.keys() | self.parameters | SPECIFIERS | BUILT_IN | CLASSES
        if (
            word not in scope
            and (word in names or self.file.is_type(word))
            and reader.text(first + 1) != "{"  # int{n} is an expression
        ):
            raise NeedsFibers("a declaration is not understood")
        for at in range(first, last - 1):
            token, following = reader.tokens[at : at + 2]
            if following.kind not in ("word", "number") or token.text in _BEFORE_OPERANDS:
                continue  # else one operand must not follow another
            ends_operand = token.kind in ("word", "number") or token.text == "]"
            if ends_operand or (
                token.text == ")" and not self.is_cast(reader.match[at] + 1, at, scope)
            ):
                raise NeedsFibers("a declaration is not understood")

    def read_declaration(self, first: int, last: int, scope: Scope) -> Effects:
        """Return which variables of the kernel a declaration uses and changes; the declaration is tokens[first:last].

        Its names are added to `scope`, with None: they are local to the statement around it.
        """
        self.require_declaration(first, last, scope)
        effects = self.read_expression(first, self.reader.require_type_end(first, last), scope)
        for name, signs, bounds, initializer in self.reader.read_declarators(first, last):
            # it hides a variable of the kernel with that name
            scope[self.reader.text(name)] = None
            effects.add(self.read_expression(*bounds, scope))
            effects.add(
                self.read_initialization(
                    initializer, scope, self.find_declared_type(first, last, signs)
                )
            )
        return effects

    def find_declared_type(self, first: int, last: int, signs: str) -> str:
        """Return the kind of a declared variable's type: "scalar", "pointer" and so on, see `File.find_kind`.

        tokens[first:last] are the declaration; `signs` are those of the variable, such as "*".
        """
        words = [
            token.text
            for token in self.reader.tokens[first : self.reader.find_type_end(first, last)]
        ]
        return self.file.find_kind([*words, *signs.split()], self.parameters)

    def read_initialization(self, span: tuple[int, int], scope: Scope, kind: str) -> Effects:
        """Return which variables a variable's first value uses and changes.

        `span` (first, last) has the tokens of the value; `kind` is that of the variable's type, as
        `File.find_kind` returns it.
        """
        # a member of a class or struct may keep a pointer or a reference to it
        effects = self.read_expression(
            *span, scope, copied=kind not in ("class", "struct", "reference")
        )
        if kind == "reference":  # they may change through the reference
            effects.addressed |= effects.uses
        return effects


class _Use:
    """How a variable is used at one place of the expression tokens[first:last].

    `scope` and `copied` are as in `EffectsReader.read_expression`. `is_copied` also sets `changes`: whether
    the variable is changed. That matters only if it is copied, since otherwise something refers to it.
    """

    def __init__(
        self,
        effects_reader: EffectsReader,
        scope: Scope,
        first: int,
        last: int,
        copied: bool,
    ):
        self.effects_reader, self.scope, self.first, self.last, self.copied = (
            effects_reader,
            scope,
            first,
            last,
            copied,
        )
        self.reader, self.match, self.file = (
            effects_reader.reader,
            effects_reader.reader.match,
            effects_reader.file,
        )
        self.changes = False

    def _get_text(self, at: int) -> str:
        """Return the text of token `at`, or "" if that is outside of the expression."""
        return self.reader.text(at) if self.first <= at < self.last else ""

    def is_copied(self, variable: KernelVariable, at: int) -> bool:
        """Return whether C++ is sure to copy the `KernelVariable` that token `at` names; set `changes` if it changes.

        Of an array this is asked about the element ``a[i][j]``, and of a vector about its member
        ``v.x``.
        """
        kind, end = variable.type, at + 1
        for _ in variable.dimensions:
            # the array itself: only sizeof(a) and its like do not refer to it
            if self._get_text(end) != "[":
                return self._get_text(at - 1) == "(" and self._get_text(at - 2) in _UNEVALUATED
            end = self.match[end] + 1
        if (
            kind == "vector"
            and self._get_text(end) == "."
            and self._get_text(end + 1) in set("xyzw")
        ):
            kind, end = "scalar", end + 2
        after = self._get_text(end)
        if kind in ("class", "struct", "reference") or after in ("(", "."):
            return False
        # p[i] and p->x take the value of a pointer; of anything else it may be an operator of a class
        return kind == "pointer" if after in ("[", "->") else self._is_copied_by_context(at, end)

    def _is_copied_by_context(self, at: int, end: int) -> bool:
        """Return whether C++ copies the operand tokens[at:end], a variable, by what is around it; may set `changes`."""
        while True:  # from the inside out, through brackets that only group, as in ((v)) + 1
            before, after = self._get_text(at - 1), self._get_text(end)
            if before in STEPS:  # ++v is v itself, with a new value
                self.changes, at = True, at - 1
                continue
            # also of *p++, where an assignment would change what p points to
            self.changes |= after in STEPS
            # a unary operator
            if before in ("&", "*", "+", "-", "~", "!") and not self._ends_operand(at - 2):
                return before != "&"
            self.changes |= after in ASSIGNMENTS
            if after in (".", "->", "->*", "(", "["):
                return False
            if before == ")" and (is_copy := self._does_cast_copy(at - 1)) is not None:
                return is_copy  # of (float)v
            if before in BINARY or after in BINARY | {"?"}:
                return True
            # no operator is beside the operand: the bracket around it decides
            open_ = self.reader.around[at]
            if open_ < self.first or (open_ == self.first and self.match[open_] + 1 == self.last):
                return self.copied
            copied = self._does_bracket_copy(open_)
            if copied is not None:
                return copied
            # What is around the bracket decides; of std::max(v, w), what is around all: 3 are std,
            # :: and max.
            at, end = open_ - 3 * (self._get_text(open_ - 2) == "::"), self.match[open_] + 1

    def _ends_operand(self, at: int) -> bool:
        """Return whether an operand of the expression ends at token `at`: then a sign after it is binary."""
        return at >= self.first and self.effects_reader.ends_operand(at, self.scope)

    def _does_cast_copy(self, close: int) -> bool | None:
        """Return whether the cast that ends at token `close`, a ``)``, copies its operand.

        None if the parentheses are those of ``if (...)`` or the like, and no cast.
        """
        open_ = self.match[close]
        if self._get_text(open_ - 1) in _BEFORE_CONDITIONS:
            return None
        words = [self.reader.text(at) for at in range(open_ + 1, close)]
        return self.effects_reader.is_copied_type(words)

    def _does_bracket_copy(self, open_: int) -> bool | None:
        """Return whether C++ copies the operand in the bracket that token `open_` opens; None if it only groups."""
        before = self._get_text(open_ - 1)
        if self._get_text(open_) == "[" or before in _BEFORE_CONDITIONS | _UNEVALUATED:
            return True
        # the first value of a variable, of an array's element, or of a type's object
        if self._get_text(open_) == "{":
            if before in ("{", ",", "="):
                return self.copied
            return self.effects_reader.is_copied_type([before])
        if before in (">", ">>") and (less := self._find_less(open_ - 1)):  # static_cast<...>(v)
            words = [self._get_text(at) for at in range(less + 1, open_ - 1)]
            return self._get_text(less - 1).endswith(
                "_cast"
            ) and self.effects_reader.is_copied_type(words)
        if before in (")", "]", "}"):
            return None if before == ")" and self._is_cast_or_head(open_ - 1) else False
        if not before.isidentifier() or before in _STATEMENT_STARTS:
            return None
        # a method, or the call of a variable
        if self._get_text(open_ - 2) in (".", "->") or before in self.scope:
            return False
        # std::min and std::max return a reference to an argument
        if self._get_text(open_ - 2) == "::":
            is_pure = self._get_text(open_ - 3) == "std" and self.file.is_pure(before)
            return is_pure if before not in ("min", "max") else None if is_pure else False
        if (
            before.startswith("hostcuda_")
            or before in self.file.by_value
            or self.file.is_known(before)
        ):
            return True
        return before not in self.file.source_words and self.effects_reader.is_copied_type([before])

    def _is_cast_or_head(self, close: int) -> bool:
        """Return whether token `close`, a ``)``, ends a cast or the head of a statement, not a call."""
        open_ = self.match[close]
        is_head = self._get_text(open_ - 1) in _BEFORE_CONDITIONS
        return is_head or self.effects_reader.is_cast(open_ + 1, close, self.scope)

    def _find_less(self, close: int) -> int | None:
        """Return the token of the ``<`` of ``f<int>(v)`` whose ``>`` is token `close`; 0 for a comparison."""
        less = self.reader.match_angle(close, self.first) or 0
        before = self.reader.tokens[less - 1]
        return less if before.kind == "word" and before.text not in self.scope else 0
