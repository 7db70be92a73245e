"""Variables, and which of them a piece of code uses and changes."""

import re
from dataclasses import dataclass, field

from labkit.cpu.loops.file import Type
from labkit.cpu.loops.words import (
    ASSIGNMENTS,
    BINARY,
    BUILT_IN,
    CLASSES,
    INDICES,
    OPERAND_ENDS,
    PAIRS,
    SPECIFIERS,
    STEPS,
    Fibers,
)

_BEFORE_OPERANDS = {
    "return", "case", "sizeof", "else", "do", "volatile", "new", "delete", *SPECIFIERS, *BUILT_IN, *CLASSES,
}  # fmt: skip
_SCALAR, _UNKNOWN = Type("scalar"), Type("class")


@dataclass(eq=False)
class Variable:
    """A parameter, or a variable of a scope that has a barrier.

    Attributes
    ----------
    role : str
        uniform, recomputed, kept or local (see the package's text).
    specifiers : str
        Its type as declared, without pointers and array bounds.
    uses : set
        The regions that name it, and the steps that a warp does once.
    warp : Node or None
        The control statement that a warp runs alone in which it is declared.
    steady : bool
        Whether it has the same value in all lanes of a warp, for good.
    counts : bool
        Whether it is the number of its thread in the row or block, for good.
    """

    name: str
    specifiers: str = ""
    signs: str = ""
    bounds: tuple = (0, 0)
    initializer: tuple = (0, 0)
    role: str = "uniform"
    shared: bool = False
    addressed: bool = False  # or referenced, or changed in a way that is not understood
    warp: object = None
    steady: bool = False
    counts: bool = False
    type: Type = _SCALAR  # of an array, that of its elements
    place: int = -1  # the token of its name
    position: int = -1  # of the name of a parameter
    region: int = -1  # that of its declaration
    uses: set = field(default_factory=set)
    changes: set = field(default_factory=set)  # regions that may change it
    needs: set = field(default_factory=set)  # variables in its initializer
    changed_uniformly: list = field(default_factory=list)  # the blocks in which uniform statements change it
    dimensions: tuple = ()  # of an array: one entry each

    @property
    def is_object(self):
        """Whether own operators may apply to it."""
        return self.type.kind not in ("scalar", "pointer")

    @property
    def array(self):
        return self.bounds[0] != self.bounds[1]

    @property
    def constant(self):
        words = self.specifiers.split()
        return "const" in self.signs.split()[-1:] if "*" in self.signs else "const" in words or "constexpr" in words


@dataclass
class Effects:
    uses: set = field(default_factory=set)
    changes: set = field(default_factory=set)
    addressed: set = field(default_factory=set)

    def add(self, other):
        self.uses |= other.uses
        self.changes |= other.changes
        self.addressed |= other.addressed


class Names:
    """Which variables a piece of code uses and changes.

    A variable is only *used* where C++ takes its value for sure, as the operand of a built-in operator or as the
    argument of a function that gets a copy. Where something may refer to it, it is *addressed*.
    """

    def __init__(self, reader, file, parameters=frozenset()):
        self.reader, self.file, self.parameters = reader, file, parameters
        self.assumed = set()  # the template's types that are scalars or pointers, if the compiler agrees

    def expression(self, first, last, scope, hidden=frozenset(), copied=True):
        """The `Effects` of tokens[first:last].

        Parameters
        ----------
        scope : dict
            Name -> variable.
        hidden : set of str
            Names declared inside.
        copied : bool
            Whether what the expression gives, if it is that of a variable, is a copy of it.
        """
        effects, text = Effects(), self.reader.text
        for at in range(first, last):
            token = self.reader.tokens[at]
            if token.kind != "word" or token.text in hidden or text(at - 1) in (".", "->", "::"):
                continue
            variable = scope.get(token.text)
            if variable is None:
                continue
            effects.uses.add(variable)
            changes, addressed = _Use(self, scope, first, last, copied).of(variable, at)
            if changes or variable.array:
                effects.changes.add(variable)
            if addressed:
                effects.addressed.add(variable)
        return effects

    def is_operand(self, at, scope):
        """Whether an operand ends at token `at`, so that a ``*`` or ``&`` after it has two."""
        if at < 0:
            return False
        token = self.reader.tokens[at]
        if token.text == ")" and self.is_cast(self.reader.match[at] + 1, at, scope):
            return False
        words = token.kind in ("word", "number") and token.text not in ("return", "else", "do", "case")
        return words or token.text in OPERAND_ENDS

    def is_cast(self, first, last, scope):
        """Whether the parentheses around tokens[first:last] may be those of a cast."""
        token, text = self.reader.tokens[first], self.reader.text
        is_name = token.kind == "word" and token.text not in scope and token.text not in INDICES | {"threadIdx"}
        if first == last or not (is_name or token.text == "::"):
            return False
        if text(first + 1) == "(" and token.text not in ("decltype", "typeof", "__typeof__"):
            return False  # a call
        outer = {text(at) for at in self.reader.outer(first, last)}
        return "<" in outer or not outer & (BINARY - {"*", "&", "&&"} | ASSIGNMENTS | {"?", ".", "->"})

    def is_copied_type(self, words):
        """Whether a conversion to a type takes a copy of a scalar."""
        kind = self.file.type_of(words, self.parameters).kind
        if kind == "assumed" and words != ["auto"]:
            self.assumed.add(next(word for word in words if word in self.parameters))
        return kind in ("scalar", "enumeration", "pointer", "record", "assumed")

    def statement(self, node, scope, hidden=frozenset()):
        """The `Effects` of a statement without barriers. Names that it declares hide the variables of `scope`."""
        effects, hidden = Effects(), set(hidden)
        if node.kind == "block":
            for child in node.children:
                effects.add(self.statement(child, scope, hidden))
                hidden |= self.declared(child)
            return effects
        if node.kind == "declaration":
            return self.declaration(node.first, node.last - 1, scope, hidden)
        if node.kind == "expression":
            self.require_expression(node.first, node.last - 1, scope)
        if node.kind in ("expression", "type"):
            return self.expression(node.first, node.last, scope, hidden)
        if node.kind == "for":
            first = node.parts["first"]
            if self.reader.declares(*first):
                effects.add(self.declaration(*first, scope, hidden))
                hidden |= {self.reader.text(name) for name, *_ in self.reader.declarators(*first)}
            else:
                effects.add(self.expression(*first, scope, hidden))
            effects.add(self.expression(*node.parts["step"], scope, hidden))
        if "condition" in node.parts:
            effects.add(self.expression(*node.parts["condition"], scope, hidden))
        for child in node.children:
            effects.add(self.statement(child, scope, hidden))
        return effects

    def require_declaration(self, first, last, scope, hidden=frozenset()):
        """Raise `Fibers` if what reads like a declaration is an expression, such as ``x * y;``."""
        end = self.reader.type_end(first, last)
        at = self.reader.type_name(first, end)
        while self.reader.text(at + 1) == "::" and at + 2 < end:
            at += 2
        name = self.reader.text(at)
        if at < end and (name in scope or name in hidden or name in self.file.declared - self.file.types.keys()):
            raise Fibers(f"what it does with {name} is not understood")

    def require_expression(self, first, last, scope):
        """Raise `Fibers` if what reads like an expression is a declaration, such as ``int (*p)[3] = &row;``."""
        word, reader = self.reader.text(first), self.reader
        names = self.file.types.keys() | self.parameters | SPECIFIERS | BUILT_IN | CLASSES
        method = reader.text(first + 1) == "::" and reader.text(first + 2) in self.file.methods
        if word not in scope and (word in names or self.file.is_type(word)) and not (
            method or reader.text(first + 1) == "{"
        ):
            raise Fibers("a declaration is not understood")
        for at in range(first, last - 1):
            one, other = reader.tokens[at : at + 2]
            if other.kind not in ("word", "number") or one.text in _BEFORE_OPERANDS:
                continue
            ends = one.kind in ("word", "number") or one.text == "]"
            if ends or (one.text == ")" and not self.is_cast(reader.match[at] + 1, at, scope)):
                raise Fibers("a declaration is not understood")

    def declaration(self, first, last, scope, hidden):
        self.require_declaration(first, last, scope, hidden)
        effects, seen = Effects(), set(hidden)
        effects.add(self.expression(first, self.reader.type_end(first, last), scope, seen))
        for name, signs, bounds, initializer in self.reader.declarators(first, last):
            seen.add(self.reader.text(name))
            type_ = self.declared_type(first, last, signs)
            effects.add(self.expression(*bounds, scope, seen))
            effects.add(self.initialization(initializer, scope, seen, type_))
        return effects

    def declared_type(self, first, last, signs):
        """The `Type` of a variable of the declaration tokens[first:last]."""
        words = [token.text for token in self.reader.tokens[first : self.reader.type_end(first, last)]]
        return self.file.type_of([*words, *signs.split()], self.parameters)

    def initialization(self, span, scope, hidden, type_):
        """The `Effects` of the first value of a variable of some `Type`."""
        effects = self.expression(*span, scope, hidden, type_.kind not in ("class", "reference"))
        if type_.kind == "reference":
            effects.addressed |= effects.uses
        return effects

    def declared(self, node):
        """The names that a statement adds to the scope that it is in."""
        if node.kind != "declaration":
            return set()
        return {self.reader.text(name) for name, *_ in self.reader.declarators(node.first, node.last - 1)}

_STARTS = {"return", "case", "else", "do"}
_CONTROLS = {"if", "while", "for", "switch", "constexpr"}
_COPYING = {"sizeof", "alignof", "decltype", "noexcept", "typeid"}


class _Use:
    """How a variable is used at one place of tokens[first:last], seen from the inside out."""

    def __init__(self, names, scope, first, last, copied):
        self.names, self.scope, self.first, self.last, self.copied = names, scope, first, last, copied
        self.reader, self.match, self.file = names.reader, names.reader.match, names.file
        self.changes = False

    def _text(self, at):
        return self.reader.text(at) if self.first <= at < self.last else ""

    def of(self, variable, at):
        """(whether it is changed, whether something may refer to it)."""
        type_, end = variable.type, at + 1
        if variable.array:
            for _ in variable.dimensions:
                if self._text(end) != "[":
                    return True, not (self._text(at - 1) == "(" and self._text(at - 2) in _COPYING)
                end = self.match[end] + 1
        while self._text(end) == "." and type_.kind == "record":
            type_ = type_.members.get(self._text(end + 1), _UNKNOWN)
            end += 2
            if type_ is None:  # an array
                if self._text(end) != "[":
                    return True, True
                type_, end = _SCALAR, self.match[end] + 1
        after = self._text(end)
        if type_.kind in ("class", "reference") or after in ("(", "."):
            return True, True
        if after in ("[", "->"):
            return self.changes, type_.kind != "pointer"
        self.pointer = type_.kind == "pointer"
        return self._climb(at, end)

    def _climb(self, at, end):
        """What becomes of the variable, or of an expression that stands for it, in tokens[at:end]."""
        while True:
            before, after = self._text(at - 1), self._text(end)
            if after in STEPS:
                return True, after in self.file.operators
            unary = before in ("&", "*", "+", "-", "~", "!", *STEPS) and not self._is_operand(at - 2)
            if unary and before in STEPS and before not in self.file.operators:
                self.changes, at = True, at - 1
            elif unary:
                own = before in self.file.operators and not (before == "*" and self.pointer)
                return self.changes or before in STEPS, before == "&" or own
            elif before == ")" and (cast := self._cast(at - 1)) is not None:
                return self.changes, not cast
            elif after in ASSIGNMENTS:
                if after in self.file.operators and after != "=":
                    return True, True
                self.changes, end = True, self._end(end + 1, {","})
            elif before == "=" and self._text(at - 3) == "." and self._text(at - 4) in ("{", ","):
                return self.changes, not self._bracket(at - 3, end)  # a designated member
            elif after in BINARY or after == "?":
                return self.changes, after in self.file.operators
            elif before in BINARY:
                return self.changes, before in self.file.operators
            elif before in ASSIGNMENTS:
                return self.changes, not self._assigned(at - 1)
            elif before == "[" and after == "]":
                return self.changes, "[]" in self.file.operators
            elif "?" in (before, after) or before == ":" or (after == ":" and before != "case"):
                at, end = self._start(at), self._end(end, {","})
            elif before in ("(", ",", "{") or after in (")", ",", "}"):
                found = self._bracket(at, end)
                if found is None:
                    at = self._opening(at)
                    end = self.match[at] + 1
                else:
                    return self.changes, not found
            elif (not before or before in _STARTS or before in _COPYING or before in (";", "}", ")")) and (
                not after or after in (";", ":")
            ):
                return self.changes, not (self.copied or before)
            else:
                return self.changes, True

    def _is_operand(self, at):
        return at >= self.first and self.names.is_operand(at, self.scope)

    def _cast(self, close):
        """Whether the cast that ends at a parenthesis makes a copy; None: it is the end of a statement's head."""
        open_ = self.match[close]
        if self._text(open_ - 1) in _CONTROLS:
            return None
        words = [self.reader.text(at) for at in range(open_ + 1, close)]
        return self.names.is_copied_type(words)

    def _start(self, at):
        """The first token of the conditional expression around token `at`."""
        while at > self.first:
            text = self._text(at - 1)
            if text in (")", "]", "}"):
                at = self.match[at - 1]
            elif text in ("(", "[", "{", ",", ";", "return", "case") or text in ASSIGNMENTS:
                break
            else:
                at -= 1
        return at

    def _end(self, at, ends):
        """The token after the expression around token `at`."""
        while at < self.last:
            text = self._text(at)
            if text in (")", "]", "}", ";") or text in ends:
                break
            at = self.match[at] + 1 if text in PAIRS else at + 1
        return at

    def _opening(self, at):
        """The bracket around token `at`, or -1."""
        while at > self.first:
            at -= 1
            if self._text(at) in (")", "]", "}"):
                at = self.match[at]
            elif self._text(at) in PAIRS:
                return at
        return -1

    def _assigned(self, at):
        """Whether the assignment or initialization at token `at` takes a copy."""
        if at == self.first:
            return self.copied
        if self._text(at) in self.file.operators:
            return False
        if not self.file.constructs:
            return True
        start = self._start(at)
        variable = self.scope.get(self._text(start))
        return variable is not None and variable.type.kind in ("scalar", "pointer") and start + 1 == at

    def _bracket(self, at, end):
        """Whether tokens[at:end], all of a bracket or between its commas, are copied; None: it only groups."""
        open_ = self._opening(at)
        commas = "," in self.file.operators and "," in (self._text(at - 1), self._text(end))
        if open_ < 0:
            return not commas  # one of several expressions
        bracket, before = self._text(open_), self._text(open_ - 1)
        initializer = open_ == self.first or (open_ == self.first + 1 and before == "=")
        if bracket == "[":
            return "[]" not in self.file.operators
        if bracket == "{":
            if initializer or before in ("{", ",", "="):
                return self.copied and (initializer or not self.file.constructs)
            return self.names.is_copied_type([before])
        if initializer and open_ == self.first and not self._is_grouped(open_):
            return self.copied
        kind = self.reader.tokens[open_ - 1].kind if open_ > self.first else "sign"
        if before in _CONTROLS | _COPYING:
            return True
        if before in (">", ">>") and (less := self._arguments_of(open_ - 1)):
            return self._is_copied_by_template(less, open_ - 1)
        if before in (")", "]", "}") and not (before == ")" and self._cast_or_head(open_ - 1)):
            return False
        if kind != "word" or before in _STARTS:
            if commas:
                return False
            return None if self._text(end) == ")" else True
        if self._text(open_ - 2) in (".", "->") or before in self.scope:
            return False
        if self._text(open_ - 2) == "::":
            return self._text(open_ - 3) == "std" and self.file.is_pure(before)
        if before.startswith("labkit_") or before in self.file.by_value or self.file.is_known(before):
            return True
        return before not in self.file.own and self.names.is_copied_type([before])

    def _is_grouped(self, open_):
        """Whether the parentheses are a part of an expression, not those of ``int x(y);``."""
        return self.match[open_] + 1 < self.last

    def _cast_or_head(self, close):
        open_ = self.match[close]
        return self._text(open_ - 1) in _CONTROLS or self.names.is_cast(open_ + 1, close, self.scope)

    def _arguments_of(self, close):
        """The place of the ``<`` in ``f<int>(v)``, of which `close` is the ``>``; 0: it is a comparison."""
        depth, open_ = 0, close + 1
        while open_ > self.first + 1:
            open_ -= 1
            depth += {">": 1, ">>": 2, "<": -1}.get(self._text(open_), 0)
            if depth <= 0:
                is_name = self.reader.tokens[open_ - 1].kind == "word" and self._text(open_ - 1) not in self.scope
                return open_ if is_name else 0
        return 0

    def _is_copied_by_template(self, less, close):
        """Whether ``static_cast<int>(v)`` or ``f<int>(v)`` copies v."""
        name, words = self._text(less - 1), [self._text(at) for at in range(less + 1, close)]
        if name.endswith("_cast"):
            return self.names.is_copied_type(words)
        if self._text(less - 2) in (".", "->", "::") or {"&", "&&", "decltype"} & set(words):
            return False
        known = self.names.parameters | self.file.constants
        kinds = {self.file.type_of([word]).kind for word in words if re.match(r"[A-Za-z_]", word) and word not in known}
        return not kinds & {"class", "reference"} and name in self.file.by_value
