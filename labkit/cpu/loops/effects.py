"""Variables, and which of them a piece of code uses and changes."""

from dataclasses import dataclass, field

from labkit.cpu.loops.words import ASSIGNMENTS, INDICES, OPERAND_ENDS, PURE, STEPS, TYPES


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
    region: int = -1  # that of its declaration
    uses: set = field(default_factory=set)
    changes: set = field(default_factory=set)  # regions that may change it
    needs: set = field(default_factory=set)  # variables in its initializer
    changed_uniformly: list = field(default_factory=list)  # the blocks in which uniform statements change it
    dimensions: tuple = ()  # of an array: one entry each

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
    """Which variables a piece of code uses and changes."""

    def __init__(self, reader, macros, by_value):
        self.reader, self.macros, self.by_value = reader, macros, by_value

    def expression(self, first, last, scope, hidden=frozenset()):
        """The `Effects` of tokens[first:last]; `scope` maps names to variables, `hidden` are names declared inside."""
        effects, text = Effects(), self.reader.text
        for at in range(first, last):
            token = self.reader.tokens[at]
            if token.kind != "word" or text(at - 1) in (".", "->", "::"):
                continue
            if token.text in self.macros.addressing and text(at + 1) == "(":
                close = self.reader.match[at + 1]
                effects.addressed |= {scope[n] for n in self._words(at + 2, close) if n in scope and n not in hidden}
            for name in (token.text, *self.macros.words(token.text)):
                if name in scope and name not in hidden:
                    effects.uses.add(scope[name])
            variable = scope.get(token.text)
            if variable is None or token.text in hidden:
                continue
            end = at + 1  # of the variable with its members: v.x
            while text(end) == "." and not variable.array:
                end += 2
            before, after = text(at - 1), text(end)
            if after in ASSIGNMENTS or after in STEPS or (before in STEPS and after not in ("[", "->")):
                effects.changes.add(variable)
            elif after == "(" or (after == "[" and (end > at + 1 or not (variable.array or "*" in variable.signs))):
                effects.addressed.add(variable)  # it is an object, or a member of it is an array
            elif before == "&" and not self.is_operand(at - 2, scope):
                effects.addressed.add(variable)
            elif variable.array:
                effects.changes.add(variable)
                if not self._is_element(end, variable):
                    effects.addressed.add(variable)
            elif before in ("(", ",", "?", ":", "{") and self._may_take_reference(at, end, scope):
                effects.addressed.add(variable)
        for at in range(first, last):  # (a ? b : c) = d, &(a), ++(a)
            if text(at) != ")":
                continue
            before = self.reader.match[at] - 1
            changed = text(at + 1) in ASSIGNMENTS or text(at + 1) in STEPS or text(before) in STEPS
            if (changed and text(before) != "*") or (text(before) == "&" and not self.is_operand(before - 1, scope)):
                effects.addressed |= self.expression(before + 2, at, scope, hidden).uses
        return effects

    def _words(self, first, last):
        """The words of tokens[first:last] and of the macros in them."""
        for token in self.reader.tokens[first:last]:
            if token.kind == "word":
                yield token.text
                yield from self.macros.words(token.text)

    def _is_element(self, at, variable):
        """Whether an index for each dimension of an array stands at token `at`."""
        for _ in variable.dimensions:
            if self.reader.text(at) != "[":
                return False
            at = self.reader.match[at] + 1
        return self.reader.text(at) != "["

    def is_operand(self, at, scope):
        """Whether an operand ends at token `at`, so that a ``*`` or ``&`` after it has two."""
        if at < 0:
            return False
        token = self.reader.tokens[at]
        if token.text == ")" and self._is_cast(self.reader.match[at] + 1, at, scope):
            return False
        words = token.kind in ("word", "number") and token.text not in ("return", "else", "do", "case")
        return words or token.text in OPERAND_ENDS

    def _is_cast(self, first, last, scope):
        """Whether the parentheses around tokens[first:last] may be those of a cast."""
        return all(
            (token.kind == "word" and token.text not in scope and token.text not in INDICES | {"threadIdx"})
            or token.text in ("*", "&", "::", "<", ">", ",")
            for token in self.reader.tokens[first:last]
        )

    def _may_take_reference(self, at, end, scope):
        """Whether the variable tokens[at:end] is alone between commas, and an argument that may be a reference."""
        if self.reader.text(end) not in (")", ",", ":", "}"):
            return False
        while at > 0:
            at -= 1
            text = self.reader.text(at)
            if text in OPERAND_ENDS or text == "}":
                at = self.reader.match[at]
            elif text in ("(", "[", "{"):
                break
        if self.reader.text(at) != "(":
            return self.reader.text(at) == "{"  # a braced list can initialize a class with references
        before = self.reader.text(at - 1)
        kind = self.reader.tokens[at - 1].kind if at else "sign"
        if before in ("if", "while", "switch", "for", "return") or before in TYPES or PURE.fullmatch(before):
            return False
        if before in self.macros.functions or before in self.by_value or before.startswith(("atomic", "labkit_")):
            return False
        if before == ">":  # static_cast<int>(v)
            depth, begin = 0, at
            while begin > 0:
                begin -= 1
                depth += {">": 1, ">>": 2, "<": -1}.get(self.reader.text(begin), 0)
                if depth == 0:
                    break
            return not PURE.fullmatch(self.reader.text(begin - 1)) or "&" in [
                self.reader.text(i) for i in range(begin, at)
            ]
        if before == ")" and self._is_cast(first := self.reader.match[at - 1] + 1, at - 1, scope):
            return "&" in [self.reader.text(i) for i in range(first, at)]
        return kind == "word" or before in OPERAND_ENDS

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

    def declaration(self, first, last, scope, hidden):
        effects, seen = Effects(), set(hidden)
        effects.add(self.expression(first, self.reader.type_end(first, last), scope, seen))
        for name, signs, bounds, initializer in self.reader.declarators(first, last):
            seen.add(self.reader.text(name))
            for span in (bounds, initializer):
                effects.add(self.expression(*span, scope, seen))
            if "&" in signs:  # a reference can change what it is bound to
                effects.addressed |= self.expression(*initializer, scope, seen).uses
        return effects

    def declared(self, node):
        """The names that a statement adds to the scope that it is in."""
        if node.kind != "declaration":
            return set()
        return {self.reader.text(name) for name, *_ in self.reader.declarators(node.first, node.last - 1)}
