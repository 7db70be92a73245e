"""Thread loops: rewrite a kernel so that it runs all threads of a block by itself.

On fibers, a kernel is called once per thread, and a barrier switches to the next thread. This module writes a second
version of a kernel, which is called once per block (MCUDA; Stratton, Stone and Hwu, 2008). It is split at its barriers
into regions, and each region is in a loop over the threads, so that no barrier is left and the compiler can vectorize::

    __shared__ float tile[32];                        __shared__ float tile[32];
    int i = threadIdx.x;                              float kept_x[threads];
    float x = in[i];                                  LABKIT_THREADS { ... kept_x[t] = in[i]; tile[i] = kept_x[t]; }
    tile[i] = x;                                      LABKIT_THREADS { ... out[i] = kept_x[t] + tile[31 - i]; }
    __syncthreads();
    out[i] = x + tile[31 - i];

That is correct if all threads of a block reach each barrier together. So a barrier may be inside of a loop or an ``if``
only if the condition is *uniform*: made of the kernel's arguments, constants, ``blockIdx``, ``blockDim``, ``gridDim``,
and variables that get only uniform values at places that all threads reach. Memory is never uniform. Variables are:

uniform     one per block, computed once, outside of the loops over the threads
recomputed  constants such as ``row = blockIdx.y * 16 + threadIdx.y``: their declaration is repeated in each region
kept        those that live across a barrier: an array with an element per thread
local       all others: in one region

The reader of C++ here knows statements, declarations and the operators that change a variable. It need not know more,
because whatever it does not understand is a reason to run the kernel on fibers, as is all that needs more than
barriers: warp functions, cooperative groups, device functions that wait or ask for their thread, spin locks, printf.
"""

import re
from dataclasses import dataclass, field
from typing import NamedTuple

from labkit.cpu.source import kernel_bodies, presumed_line

__all__ = ["PREFIX", "add_loops"]


class _Fibers(Exception):
    """The kernel runs on fibers; the message is the reason."""


# ---------------------------------------------------------------------------------------------------------------------
# Tokens


class _Token(NamedTuple):
    kind: str  # word, number, text or sign
    text: str
    start: int
    end: int


_TOKEN = re.compile(
    r"""(?P<word>[A-Za-z_]\w*) | (?P<number>\.?\d(?:'?[\w.]|(?<=[eEpP])[+-])*) | (?P<text>"[^"]*"|'[^']*')
      | (?P<sign>->\*|<<=|>>=|\.\.\.|->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|::|[^\s\w])""",
    re.VERBOSE,
)
_PAIRS = {"(": ")", "[": "]", "{": "}"}
_ASSIGNMENTS = {"=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>="}
_STEPS = {"++", "--"}

_TYPES = {
    "void", "bool", "char", "short", "int", "long", "float", "double", "signed", "unsigned", "auto",
    "size_t", "ptrdiff_t", "int8_t",
    "int16_t", "int32_t", "int64_t", "uint8_t", "uint16_t", "uint32_t", "uint64_t", "uint", "half", "half2",
    "__half", "__half2", "__nv_bfloat16", "__nv_bfloat162", "dim3", "cuComplex", "cuFloatComplex", "cuDoubleComplex",
    *(f"{kind}{n}" for n in "1234" for kind in ("char", "uchar", "short", "ushort", "int", "uint", "long", "ulong",
                                                "longlong", "ulonglong", "float", "double")),
}  # fmt: skip
_BUILT_IN = {"void", "bool", "char", "short", "int", "long", "float", "double", "signed", "unsigned", "auto"}
_SPECIFIERS = {"const", "constexpr", "static", "register", "inline", "__shared__", "alignas", "__align__", "typename"}
_RESTRICT = {"__restrict__", "__restrict", "const"}
_KEYWORDS = {"if", "for", "while", "do", "switch", "return", "else", "sizeof", "operator"}
_INDICES = {"blockIdx", "blockDim", "gridDim", "warpSize"}
# Functions with the same result for the same arguments, which they do not change.
_PURE = re.compile(
    r"min|max|abs|sizeof|alignof|(static|reinterpret|const)_cast|make_\w+|__\w+2\w+|__u?mul24|u?(min|max)|"
    r"f(abs|min|max|loor|ma)f?|(ceil|sqrt|rsqrt|pow|exp|exp2|log|log2|sin|cos|round|trunc|rint|tanh)f?|__popcz?|__clz|__ffs"
)
# What only fibers do: other waiting than at barriers, and questions for the running thread.
_FIBERS_ONLY = re.compile(
    r"__sync(?!threads$)\w*|__shfl\w*|__(ballot|any|all|activemask|nanosleep)(_sync)?|__(match|reduce)_\w+|nvcuda|wmma|"
    r"cooperative_groups|this_(thread_block|grid|multi_grid|thread)|tiled_partition|coalesced_threads|thread_block_tile|"
    r"v?f?printf|puts|assert|__trap|__brkpt|__builtin_trap|abort|exit|atomicCAS\w*|atomicExch\w*|volatile|"
    r"asm|__asm|__asm__|throw|try|catch|goto|co_\w+|alloca|__builtin_alloca|setjmp|longjmp|thread_local|__thread|"
    r"cuda|cg|cub|barrier|pipeline|thread_block|grid_group|thread_group|coalesced_group"
)
_BARRIER = "__syncthreads"


def _tokens(code, start, end):
    return [_Token(m.lastgroup, m.group(), *m.span()) for m in _TOKEN.finditer(code, start, end)]


_TRUTHS = {"==", "!=", "<", ">", "<=", ">=", "&&", "||", "!"}


def _indexes_by_truth(tokens):
    """Whether an array's index may be true or false: a comparison, or a variable that got one.

    g++ since 12 computes wrong addresses of such elements if it vectorizes the loop for AVX-512 and without its gather
    instructions: it takes the bits of the comparison for bytes.
    """
    text = [token.text for token in tokens]

    def is_truth(first, last):
        words = text[first:last]
        return "?" not in words and any(
            words[i] in names or (word in _TRUTHS and not (word == "<" and words[i - 1].endswith("_cast")))
            for i, word in enumerate(words)
            if word != ">" or not any(each.endswith("_cast") for each in words)
        )

    def end(at, ends):
        depth = 0
        while at < len(text) and (depth or text[at] not in ends):
            depth += (text[at] in _PAIRS) - (text[at] in _PAIRS.values())
            if depth < 0:
                break
            at += 1
        return at

    names = {text[i + 1] for i in range(len(text) - 1) if text[i] == "bool" and tokens[i + 1].kind == "word"}
    for at in range(1, len(text) - 1):
        if text[at] == "=" and tokens[at - 1].kind == "word" and is_truth(at + 1, end(at + 1, {";", ",", ")"})):
            names.add(text[at - 1])
    return any(text[at] == "[" and is_truth(at + 1, end(at + 1, {"]"})) for at in range(len(text)))


# ---------------------------------------------------------------------------------------------------------------------
# Statements


@dataclass(eq=False)
class _Node:
    """A statement: tokens[first:last].

    Attributes
    ----------
    kind : str
        block, if, for, while, do, switch, barrier, declaration, return, break, continue, type, or expression.
    start : int
        Where its text starts, with the directives and comments before it.
    parts : dict
        Name -> span of tokens (condition, first, step) or node (then, otherwise, body).
    children : list of _Node
        All nodes in it, in order.
    """

    kind: str
    first: int
    last: int
    start: int
    parts: dict = field(default_factory=dict)
    children: list = field(default_factory=list)
    barrier: bool = False


class _Reader:
    """The statements of a function's body."""

    def __init__(self, code, start, end):
        self.tokens = _tokens(code, start, end)
        self.match = self._match()
        self.begin = start

    def _match(self):
        match, stack = {}, []
        for at, token in enumerate(self.tokens):
            if token.text in _PAIRS:
                stack.append(at)
            elif token.text in _PAIRS.values():
                if not stack or _PAIRS[self.tokens[stack[-1]].text] != token.text:
                    raise _Fibers("its brackets are not paired")
                match[stack.pop()] = at
        if stack:
            raise _Fibers("its brackets are not paired")
        return {**match, **{close: open_ for open_, close in match.items()}}

    def text(self, at):
        return self.tokens[at].text if 0 <= at < len(self.tokens) else ""

    def statement(self, at):
        """The node of the statement at token `at`."""
        begin = self.tokens[at - 1].end if at else self.begin
        node = self._statement(at)
        node.start = begin
        nodes = [part for part in node.parts.values() if isinstance(part, _Node)] if node.kind != "block" else []
        node.children = node.children or nodes
        node.barrier = node.kind == "barrier" or any(child.barrier for child in node.children)
        return node

    def _statement(self, at):
        word = self.text(at)
        if word == "{":
            return self._block(at)
        if word == "if":
            return self._if(at)
        if word == "for":
            return self._for(at)
        if word in ("while", "switch"):
            close = self._parentheses(at + 1)
            body = self.statement(close + 1)
            return _Node(word, at, body.last, 0, {"condition": (at + 2, close), "body": body})
        if word == "do":
            body = self.statement(at + 1)
            close = self._parentheses(body.last + 1)
            return _Node("do", at, close + 2, 0, {"body": body, "condition": (body.last + 2, close)})
        if word in ("case", "default"):
            while self.text(at) != ":":
                at = self.match.get(at, at) + 1
            return self.statement(at + 1)
        if word == "else" or (self.tokens[at].kind == "word" and self.text(at + 1) == ":"):
            raise _Fibers(f"it has the label {word}")
        return self._simple(at)

    def _block(self, at):
        node, close = _Node("block", at, self.match[at] + 1, 0), self.match[at]
        at += 1
        while at < close:
            if self.text(at) == ";":
                at += 1
                continue
            child = self.statement(at)
            node.children.append(child)
            at = child.last
        return node

    def _if(self, at):
        open_ = at + 2 if self.text(at + 1) == "constexpr" else at + 1
        close = self._parentheses(open_)
        parts = {"condition": (open_ + 1, close), "then": self.statement(close + 1)}
        last = parts["then"].last
        if self.text(last) == "else":
            parts["otherwise"] = self.statement(last + 1)
            last = parts["otherwise"].last
        return _Node("if", at, last, 0, parts)

    def _for(self, at):
        close = self._parentheses(at + 1)
        body = self.statement(close + 1)
        ends = [i for i in self._outer(at + 2, close) if self.text(i) == ";"]
        if len(ends) != 2:
            raise _Fibers("it has a for loop over a range")
        first, second = ends
        parts = {"first": (at + 2, first), "condition": (first + 1, second), "step": (second + 1, close), "body": body}
        return _Node("for", at, body.last, 0, parts)

    def _simple(self, at):
        end = next((i for i in self._outer(at, len(self.tokens)) if self.text(i) == ";"), None)
        if end is None:
            raise _Fibers("a statement does not end")
        words = [token.text for token in self.tokens[at:end]]
        kind = "expression"
        if _BARRIER in words:
            if words != [_BARRIER, "(", ")"]:
                raise _Fibers(f"{_BARRIER} is not a statement of its own")
            kind = "barrier"
        elif words[0] in ("return", "break", "continue"):
            if len(words) > 1:
                raise _Fibers("it returns a value")
            kind = words[0]
        elif words[0] in ("using", "typedef", "static_assert", "struct", "class", "union", "enum"):
            kind = "type"
        elif self.declares(at, end):
            kind = "declaration"
        return _Node(kind, at, end + 1, 0)

    def _parentheses(self, at):
        if self.text(at) != "(":
            raise _Fibers("a statement is not understood")
        return self.match[at]

    def _outer(self, first, last):
        """The tokens that are not in brackets (of which only the opening ones are given)."""
        at = first
        while at < last:
            yield at
            at = self.match[at] + 1 if self.text(at) in _PAIRS else at + 1

    def split(self, first, last, separator=","):
        """Spans of tokens[first:last] between its outer separators."""
        spans = []
        for at in self._outer(first, last):
            if self.text(at) == separator:
                spans.append((first, at))
                first = at + 1
        return [*spans, (first, last)]

    # -- declarations

    def declares(self, first, last):
        """Whether the statement is a declaration."""
        after = self.type_end(first, last)
        if after is None:
            return False
        while self.text(after) in ("*", "&", "&&") or self.text(after) in _RESTRICT:
            after += 1
        return after < last and self.tokens[after].kind == "word" and (
            after + 1 == last or self.text(after + 1) in ("=", "[", ",", "(", "{")
        )  # fmt: skip

    def type_end(self, first, last):
        """The token after the specifiers and the type that start at `first`; None: there is no type."""
        at, named = first, False
        while at < last:
            word = self.text(at)
            if word in ("alignas", "__align__") and self.text(at + 1) == "(":
                at = self.match[at + 1] + 1
            elif word in _SPECIFIERS:
                at += 1
            elif word in _BUILT_IN:
                at, named = at + 1, True
            elif self.tokens[at].kind == "word" and not named and word not in _RESTRICT:
                at, named = self._qualified(at, last), True
            else:
                break
        return at if named and at > first else None

    def _qualified(self, at, last):
        """The token after a name like ``a::b<c>::d``."""
        while True:
            at += 1
            if self.text(at) == "<":
                depth, end = 0, at
                while end < last:
                    depth += {"<": 1, ">": -1, ">>": -2}.get(self.text(end), 0)
                    end += 1
                    if depth <= 0:
                        break
                if depth != 0:
                    return at
                at = end
            if self.text(at) != "::":
                return at
            at += 1

    def declarators(self, first, last):
        """[(name's token, pointer signs, span of array bounds, span of the initializer)] of a declaration."""
        found, at = [], self.type_end(first, last)
        for begin, end in self.split(at, last):
            name = begin
            while self.text(name) in ("*", "&", "&&") or self.text(name) in _RESTRICT:
                name += 1
            bounds = name + 1
            while self.text(bounds) == "[" and bounds < end:
                bounds = self.match[bounds] + 1
            if name >= end or self.tokens[name].kind != "word":
                raise _Fibers("a declaration is not understood")
            if bounds < end and self.text(bounds) not in ("=", "(", "{"):
                raise _Fibers(f"the declaration of {self.text(name)} is not understood")
            signs = " ".join(token.text for token in self.tokens[begin:name])
            found.append((name, signs, (name + 1, bounds), (bounds, end)))
        return found


# ---------------------------------------------------------------------------------------------------------------------
# Variables and what changes them


@dataclass(eq=False)
class _Variable:
    """A parameter, or a variable of a scope that has a barrier.

    Attributes
    ----------
    role : str
        uniform, recomputed, kept or local (see the module's text).
    specifiers : str
        Its type as declared, without pointers and array bounds.
    uses : set of int
        The regions that name it.
    """

    name: str
    specifiers: str = ""
    signs: str = ""
    bounds: tuple = (0, 0)
    initializer: tuple = (0, 0)
    role: str = "uniform"
    shared: bool = False
    addressed: bool = False  # or referenced, or changed in a way that is not understood
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
class _Effects:
    uses: set = field(default_factory=set)
    changes: set = field(default_factory=set)
    addressed: set = field(default_factory=set)

    def add(self, other):
        self.uses |= other.uses
        self.changes |= other.changes
        self.addressed |= other.addressed


_OPERAND_ENDS = {")", "]"}


class _Names:
    """Which variables a piece of code uses and changes."""

    def __init__(self, reader, macros, by_value):
        self.reader, self.macros, self.by_value = reader, macros, by_value

    def expression(self, first, last, scope, hidden=frozenset()):
        """The `_Effects` of tokens[first:last]; `scope` maps names to variables, `hidden` are names declared inside."""
        effects, text = _Effects(), self.reader.text
        for at in range(first, last):
            token = self.reader.tokens[at]
            if token.kind != "word" or text(at - 1) in (".", "->", "::"):
                continue
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
            if after in _ASSIGNMENTS or after in _STEPS or (before in _STEPS and after not in ("[", "->")):
                effects.changes.add(variable)
            elif after == "(" or (after == "[" and (end > at + 1 or not (variable.array or "*" in variable.signs))):
                effects.addressed.add(variable)  # it is an object, or a member of it is an array
            elif before == "&" and not self.is_operand(at - 2, scope):
                effects.addressed.add(variable)
            elif variable.array:
                effects.changes.add(variable)
                if not self._is_element(end, variable):
                    effects.addressed.add(variable)
            elif before in ("(", ",", "?", ":", "{") and after in (")", ",", ":", "}") and self._may_take_reference(at):
                effects.addressed.add(variable)
        for at in range(first, last):  # (a ? b : c) = d, &(a), ++(a)
            if text(at) != ")":
                continue
            before = self.reader.match[at] - 1
            changed = text(at + 1) in _ASSIGNMENTS or text(at + 1) in _STEPS or text(before) in _STEPS
            if (changed and text(before) != "*") or (text(before) == "&" and not self.is_operand(before - 1, scope)):
                effects.addressed |= self.expression(before + 2, at, scope, hidden).uses
        return effects

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
        return words or token.text in _OPERAND_ENDS

    def _is_cast(self, first, last, scope):
        """Whether the parentheses around tokens[first:last] may be those of a cast."""
        return all(
            (token.kind == "word" and token.text not in scope and token.text not in _INDICES | {"threadIdx"})
            or token.text in ("*", "&", "::", "<", ">", ",")
            for token in self.reader.tokens[first:last]
        )

    def _may_take_reference(self, at):
        """Whether the variable at token `at`, alone between commas, is an argument that may be a reference."""
        while at > 0:
            at -= 1
            text = self.reader.text(at)
            if text in _OPERAND_ENDS or text == "}":
                at = self.reader.match[at]
            elif text in ("(", "[", "{"):
                break
        if self.reader.text(at) != "(":
            return self.reader.text(at) == "{"  # a braced list can initialize a class with references
        before = self.reader.text(at - 1)
        kind = self.reader.tokens[at - 1].kind if at else "sign"
        if before in ("if", "while", "switch", "for", "return") or before in _TYPES or _PURE.fullmatch(before):
            return False
        if before in self.macros.functions or before in self.by_value or before.startswith("atomic"):
            return False
        if before == ">":  # static_cast<int>(v)
            depth, begin = 0, at
            while begin > 0:
                begin -= 1
                depth += {">": 1, ">>": 2, "<": -1}.get(self.reader.text(begin), 0)
                if depth == 0:
                    break
            return not _PURE.fullmatch(self.reader.text(begin - 1)) or "&" in [
                self.reader.text(i) for i in range(begin, at)
            ]
        return kind == "word" or before in _OPERAND_ENDS

    def statement(self, node, scope, hidden=frozenset()):
        """The `_Effects` of a statement without barriers. Names that it declares hide the variables of `scope`."""
        effects, hidden = _Effects(), set(hidden)
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
        effects, seen = _Effects(), set(hidden)
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


# ---------------------------------------------------------------------------------------------------------------------
# Macros, constants and functions of the source


class _Macros:
    """The macros of the source, of its headers and of the options."""

    def __init__(self, scans):
        self.bodies = {}  # name -> words of all its definitions
        self.harmful = {}  # name -> why a kernel that uses it needs fibers
        self.constant = set()
        self.functions = set()  # with parameters: expressions of values
        for scan in scans:
            for directive in scan.directives:
                match = re.match(r"\s+(\w+)(\([^)]*\))?(.*)", directive.rest, re.DOTALL)
                if directive.word == "define" and match:
                    self._add(match[1], match[2], match[3].replace("\\\n", "  "))
        changed = True
        while changed:
            changed = False
            for name, (words, _, pure) in self.bodies.items():
                if name not in self.harmful and words & self.harmful.keys():
                    self.harmful[name], changed = self.harmful[next(iter(words & self.harmful.keys()))], True
                known = {
                    w for w in words if w in self.constant or w in _TYPES or w in self.functions or _PURE.fullmatch(w)
                }
                if pure and name not in self.constant and known == words:
                    self.constant.add(name)
                    changed = True
                if name in self.functions and known | (words & _INDICES) != words:
                    self.functions.remove(name)
                    changed = True

    def _add(self, name, parameters, body):
        tokens = _tokens(body, 0, len(body))
        texts = {token.text for token in tokens}
        words = {token.text for token in tokens if token.kind == "word"}
        words -= set(re.findall(r"\w+", parameters or ""))
        statements = {"return", "break", "continue", "if", "for", "while", "do", "switch", "else", "case", _BARRIER}
        if words & statements or texts & (_ASSIGNMENTS | _STEPS | {";", "{", "}", "&", "[]", "#", "##", '"'}):
            self.harmful[name] = f"it uses the macro {name}"
        if any(_FIBERS_ONLY.fullmatch(word) for word in words):
            self.harmful[name] = f"it uses the macro {name}"
        if parameters and not texts & {"[", "->", "&", "{", ";", "#", "##"}:
            self.functions.add(name)
        pure = not parameters and not texts & {"[", "->", "&", "{", ";"}
        before = self.bodies.get(name, (set(), set(), True))
        self.bodies[name] = before[0] | words, before[1] | texts, before[2] and pure

    def words(self, name, seen=()):
        """The words in the body of a macro, with those of the macros in it."""
        if name not in self.bodies or name in seen:
            return set()
        words = set(self.bodies[name][0])
        return words.union(*(self.words(word, (*seen, name)) for word in words))


def _constants(scan, macros):
    """Names of constants at namespace scope whose values do not depend on memory."""
    names = set(macros.constant)
    for match in re.finditer(r"\b(?:constexpr|const)\b", scan.code):
        start = scan.declaration_start(match.start())
        end = scan.code.find(";", match.end())
        if end < 0 or scan.scope(match.start()) != "" or "__constant__" in scan.code[start:end]:
            continue
        try:
            reader = _Reader(scan.code, start, end)
            if reader.declares(0, len(reader.tokens)):
                for name, signs, bounds, initializer in reader.declarators(0, len(reader.tokens)):
                    if not signs and bounds[0] == bounds[1] and initializer[0] < initializer[1]:
                        names.add(reader.text(name))
        except (_Fibers, KeyError, IndexError):
            continue
    for match in re.finditer(r"\benum\b[^;{}()]*\{([^{}]*)\}", scan.code):
        names |= set(re.findall(r"(?:^|,)\s*(\w+)", match[1]))
    return names


def _without_arguments(head):
    """A declaration without its template's head, and with ``@`` for its parentheses and what is between them."""
    head = re.sub(r"\btemplate\s*<[^;{(]*?>(?=\s*\w)", " ", head)
    while (shorter := re.sub(r"\([^()]*\)", "@", head)) != head:
        head = shorter
    return head


def _use(name, harmful):
    """The reason for which a kernel that uses the name runs on fibers."""
    return f"{name} uses {harmful[name]}" if name != harmful[name] else f"it uses {name}"


def _functions(scans, kernels):
    """What the kernels may call: (name -> the word for which it needs fibers, functions without references)."""
    pieces, by_value = [], {}  # (names that the piece defines, its words, its text)
    registered = re.compile(r"\bLABKIT_KERNEL\w*\(")
    for scan in scans:
        skipped = [span for s, span in kernels if s is scan]
        at = 0
        while match := re.compile(r"[;{]").search(scan.code, at):
            at = match.end()
            start = scan.declaration_start(match.start())
            if scan.scope(match.start()) is None or any(a <= match.start() < b for a, b in skipped):
                continue
            end = match.end()
            if match.group() == "{":
                if re.search(r"\bnamespace\b[^()=]*$|\bextern\s*\"[^\"]*\"\s*$", scan.code[start : match.start()]):
                    continue
                end = at = scan.closing.get(match.start(), len(scan.code) - 1) + 1
            while found := registered.search(scan.code, start, match.start()):
                start = _closing(scan.code, found.end() - 1) + 1
            piece = scan.code[start:end]
            head = scan.code[start : match.start()]
            plain = _without_arguments(head)
            names = set(re.findall(r"([A-Za-z_]\w*)\s*(?:[=\[,@]|$)", plain))
            if re.search(r"\b(?:struct|class|union)\b", plain):
                names |= set(re.findall(r"\b(?:struct|class|union)\s+(?:__\w+__\s+)*(\w+)", head))
                names |= set(re.findall(r"(\w+)\s*\(", piece))
            pieces.append((names - _TYPES - _SPECIFIERS - _KEYWORDS, set(re.findall(r"\w+", piece)), piece))
            function = re.search(r"(\w+)\s*\(", head)
            if match.group() == "{" and function:
                by_value.setdefault(function[1], []).append("&" not in head[function.end() :])
    harmful = {}
    for names, words, piece in pieces:
        found = [w for w in words if w in ("threadIdx", _BARRIER, "labkit") or _FIBERS_ONLY.fullmatch(w)]
        for name in names if found else ():
            harmful[name] = "inline PTX" if found == ["labkit"] else min(found)
        if not found and _indexes_by_truth(_tokens(piece, 0, len(piece))):
            harmful.update(dict.fromkeys(names, "a comparison as an index"))
    changed = True
    while changed:
        changed = False
        for names, words, _ in pieces:
            found = words & harmful.keys()
            for name in names - harmful.keys() if found else ():
                harmful[name], changed = harmful[min(found)], True
    return harmful, {name for name, several in by_value.items() if all(several)}


# ---------------------------------------------------------------------------------------------------------------------
# One kernel: what is uniform


@dataclass(eq=False)
class _Step:
    """A step of the kernel at a place that all its threads reach: a statement, or one variable of a declaration.

    Attributes
    ----------
    kind : str
        declaration, statement, barrier, loop, if, jump or type.
    scope : dict
        Name -> variable, at this place.
    update : tuple or None
        (variable, span of the operand) if it is a statement like ``v += operand``.
    bodies : list of list of _Step
        Of a loop or an if that has a barrier.
    """

    kind: str
    node: _Node
    scope: dict
    effects: _Effects
    variable: _Variable | None = None
    update: tuple | None = None
    first: list = field(default_factory=list)  # of a for loop
    bodies: list = field(default_factory=list)
    late: list = field(default_factory=list)  # what each thread does after each round of a for loop: spans of its step


@dataclass(eq=False)
class _Region:
    """Statements between two barriers, which a loop over the threads runs."""

    number: int
    steps: list = field(default_factory=list)
    returns: bool = False

    def uses(self):
        """The variables that its statements name."""
        return set().union(*(step.effects.uses for step in self.steps))

    def kept(self):
        """Those that live across a barrier."""
        return {variable for variable in self.uses() if variable.role == "kept"}


class _Split:
    """Splits one kernel at its barriers."""

    def __init__(self, scan, body, macros, constants, harmful, by_value):
        self.scan, self.body, self.macros = scan, body, macros
        self.constants = constants | set(re.findall(r"\w+", body.head))
        self.harmful = harmful
        words = set(re.findall(r"\w+", scan.code[body.open : body.close]))
        if not any(_BARRIER in {word, *macros.words(word)} for word in words):
            waits = [_use(word, harmful) for word in words & harmful.keys() if harmful[word] != "threadIdx"]
            raise _Fibers(min(waits, default="it has no barrier"))
        self.guesses = {}  # name -> whether it is defined, as #ifdef inside of the kernel asks
        self.source, code = self._chosen_branches()
        self.reader = _Reader(code, body.open + 1, body.close)
        self.names = _Names(self.reader, macros, by_value)
        self.regions, self.variables, self.steps, self.parameters = [], [], [], []
        self._refuse_words()

    def text(self):
        """The second version of the kernel."""
        root, at = [], 0
        while at < len(self.reader.tokens):
            if self.reader.text(at) == ";":
                at += 1
                continue
            root.append(self.reader.statement(at))
            at = root[-1].last
        scope = self._parameters()
        self.root = self._plan(root, dict(scope), in_loop=False)
        self._find_uniform()
        self._require_uniform()
        items = self._form(self.root)
        self._assign_roles()
        return _Writer(self, items).text()

    # -- what cannot be split

    def _chosen_branches(self):
        """The text and the code, with spaces instead of the branches that ``#ifdef`` leaves out of the kernel.

        A macro that the source does not define may come from the system. So the second version starts with a directive
        that refuses to compile if a guess was wrong.
        """
        text, code, branches, at = self.scan.text, self.scan.code, [], self.body.open

        def leave_out(start, end):
            nonlocal text, code
            blank = re.sub(r"[^\n]", " ", text[start:end])
            text, code = text[:start] + blank + text[end:], code[:start] + blank + code[end:]

        for directive in self.scan.directives:
            if not self.body.open < directive.start < self.body.close or directive.word == "pragma":
                continue
            name = directive.rest.strip()
            if directive.word not in ("ifdef", "ifndef", "else", "endif"):
                raise _Fibers(f"it has #{directive.word} inside")
            if branches and not all(branches):
                leave_out(at, directive.start)
            if directive.word in ("ifdef", "ifndef"):
                self.guesses[name] = name in self.macros.bodies
                branches.append(self.guesses[name] == (directive.word == "ifdef"))
            elif not branches:
                raise _Fibers("it starts within #if")
            elif directive.word == "else":
                branches[-1] = not branches[-1]
            else:
                branches.pop()
            leave_out(directive.start, directive.end)
            at = directive.end
        return text, code

    def _refuse_words(self):
        if self.body.name.endswith(">"):
            raise _Fibers("it is a specialization of a template")
        before = self.scan.code[self.body.start : self.body.marker_end]
        if set(re.findall(r"(\w+)\s*\(", before)) - {"__launch_bounds__", "__attribute__"}:
            raise _Fibers("a macro stands before it")
        for word in re.findall(r"\w+", self.scan.code[self.body.name_end : self.body.open]):
            if word in self.harmful:
                raise _Fibers(f"{word} uses {self.harmful[word]}")
        for at, token in enumerate(self.reader.tokens):
            before, after = self.reader.text(at - 1), self.reader.text(at + 1)
            if token.text == "[" and (
                at == 0 or not (before in _OPERAND_ENDS or self.reader.tokens[at - 1].kind == "word")
            ):
                raise _Fibers("it has a lambda expression")
            if token.kind != "word":
                if token.text in ('"', "'", "\\", "#", "@"):
                    raise _Fibers("a literal is not understood")
                continue
            if _FIBERS_ONLY.fullmatch(token.text):
                raise _Fibers(f"it uses {token.text}")
            if token.text in self.harmful and before not in (".", "->"):
                raise _Fibers(_use(token.text, self.harmful))
            for word in (token.text, *self.macros.words(token.text)):
                if word in self.macros.harmful:
                    raise _Fibers(self.macros.harmful[word])
                if _FIBERS_ONLY.fullmatch(word) or word in ("this", "operator", "extern"):
                    raise _Fibers(f"it uses {word}")
            if token.text == "labkit" and self.reader.text(at + 2) != "dynamic_shared":
                raise _Fibers("it has inline PTX")
            if token.text == "static" and after not in ("constexpr", "__shared__", "const"):
                raise _Fibers("it has a static variable")
            if token.text in _INDICES | {"threadIdx"} and before == "::":
                raise _Fibers(f"it uses ::{token.text}")

        self._refuse_waiting_atomics()
        if _indexes_by_truth(self.reader.tokens):
            raise _Fibers("it uses a comparison as an index")

    def _refuse_waiting_atomics(self):
        """A loop that looks at the result of an atomic operation may wait for another thread of the block."""
        text, match = self.reader.text, self.reader.match
        if not {"while", "for", "do"} & {token.text for token in self.reader.tokens}:
            return
        for at, token in enumerate(self.reader.tokens):
            if not token.text.startswith("atomic") or text(at + 1) != "(":
                continue
            before = text(at - 1) if at else ";"
            after_condition = before == ")" and text(match[at - 1] - 1) in ("if", "for", "while", "constexpr")
            unused = before in (";", "{", "}", "else", "do") or after_condition
            if not (unused and text(match[at + 1] + 1) == ";"):
                raise _Fibers(f"it uses the result of {token.text}, and may wait for it")

    def _line(self, at):
        return presumed_line(self.scan, self.reader.tokens[at].start)

    # -- the places that all threads reach

    def _parameters(self):
        code = self.scan.code
        open_ = code.index("(", self.body.name_end)
        reader = _Reader(code, open_ + 1, code.rindex(")", open_, self.body.open))
        scope = {}
        if [token.text for token in reader.tokens] in ([], ["void"]):
            return scope
        for first, last in reader.split(0, len(reader.tokens)):
            end = reader.type_end(first, last)
            while end is not None and end < last and (reader.text(end) in ("*", "&") or reader.text(end) in _RESTRICT):
                end += 1
            if end is None or "&" in [token.text for token in reader.tokens[first:last]]:
                raise _Fibers("a parameter is not understood")
            if end == last:  # it has no name
                continue
            if end + 1 != last and reader.text(end + 1) != "[":
                raise _Fibers("a parameter is not understood")
            words = [token.text for token in reader.tokens[first:end]]
            star = words.index("*") if "*" in words else len(words)
            variable = _Variable(reader.text(end), " ".join(words[:star]), " ".join(words[star:]))
            scope[variable.name] = variable
            self.variables.append(variable)
        self.parameters = list(self.variables)
        return scope

    def _plan(self, nodes, scope, in_loop):
        """The steps of a block whose names are added to `scope`."""
        steps = []
        for node in nodes:
            for step in self._steps_of(node, scope, in_loop):
                self.steps.append(step)
                steps.append(step)
        return steps

    def _steps_of(self, node, scope, in_loop):
        if node.kind == "declaration":
            yield from self._declare(node.first, node.last - 1, node, scope)
        elif node.barrier:
            yield self._control(node, scope, in_loop)
        else:
            effects = self.names.statement(node, scope)
            kind = "type" if node.kind == "type" else "statement"
            step = _Step(kind, node, dict(scope), effects)
            if node.kind == "expression":
                step.update = self._update(node.first, node.last - 1, scope)
            escaping = _escapes(node)
            if (escaping - {"return"} and in_loop) or node.kind == "return":
                step.kind = "jump"
            elif "return" in escaping and self._is_jump(node):
                step.kind = "jump?"
            yield step

    def _control(self, node, scope, in_loop):
        inner, parts = dict(scope), node.parts
        if node.kind == "barrier":
            return _Step("barrier", node, inner, _Effects())
        if node.kind == "switch":
            raise _Fibers("it has a barrier in a switch")
        if node.kind == "block":
            step = _Step("block", node, inner, _Effects())
            step.bodies.append(self._plan(node.children, inner, in_loop))
            return step
        step = _Step("loop" if node.kind != "if" else "if", node, inner, _Effects())
        if node.kind == "for":
            first = parts["first"]
            if self.reader.declares(*first):
                step.first = list(self._declare(*first, node, inner))
                self.steps += step.first
            elif first[0] != first[1]:
                raise _Fibers(f"the loop around its barrier in line {self._line(node.first)} declares no counter")
            step.scope = dict(inner)
        step.effects = self.names.expression(*parts["condition"], inner)
        if node.kind == "for":
            step.effects.add(self.names.expression(*parts["step"], inner))
        for name in ("then", "otherwise", "body"):
            if name in parts:
                child = parts[name]
                nodes = child.children if child.kind == "block" else [child]
                step.bodies.append(self._plan(nodes, dict(inner), in_loop or step.kind == "loop"))
        return step

    def _declare(self, first, last, node, scope):
        reader = self.reader
        end = reader.type_end(first, last)
        words = [token.text for token in reader.tokens[first:end]]
        for name, signs, bounds, initializer in reader.declarators(first, last):
            scope_before = dict(scope)
            variable = _Variable(reader.text(name), self._source(first, end), signs, bounds, initializer)
            variable.shared = "__shared__" in words
            variable.place = name
            at = bounds[0]
            while at < bounds[1]:
                variable.dimensions += ((at, reader.match[at]),)
                at = reader.match[at] + 1
            effects = self.names.expression(first, end, scope)
            effects.add(self.names.expression(*bounds, scope))
            effects.add(self.names.expression(*initializer, scope))
            variable.needs = set(effects.uses)
            if "&" in signs:
                effects.addressed |= self.names.expression(*initializer, scope).uses
            effects.uses.add(variable)
            scope[variable.name] = variable
            self.variables.append(variable)
            yield _Step("declaration", node, scope_before, effects, variable)

    def _update(self, first, last, scope):
        """(variable, span of the operand) of ``v = ...``, ``v += ...``, ``v++``, ``++v``; else None."""
        reader = self.reader
        words = [token.text for token in reader.tokens[first:last]]
        if len(words) == 2 and set(words) & _STEPS:
            name = words[1] if words[0] in _STEPS else words[0]
            return (scope[name], (first, first)) if name in scope else None
        if len(words) > 2 and words[0] in scope and words[1] in _ASSIGNMENTS:
            return scope[words[0]], (first + 2, last)
        return None

    @staticmethod
    def _is_jump(node):
        """Whether the statement is ``if (...) return;``, or the same with break or continue."""
        if node.kind in ("return", "break", "continue"):
            return True
        if node.kind != "if" or "otherwise" in node.parts:
            return False
        then = node.parts["then"]
        if then.kind == "block" and len(then.children) == 1:
            then = then.children[0]
        return then.kind in ("return", "break", "continue")

    # -- uniform values

    def is_uniform(self, first, last, scope, more=frozenset(), roles=("uniform",)):
        """Whether an expression has the same value in all threads of a block.

        Variables of other `roles` and the words `more` can be allowed, too.
        """
        reader = self.reader
        for at in range(first, last):
            kind, word = reader.tokens[at][:2]
            before, after = reader.text(at - 1), reader.text(at + 1)
            if kind == "sign":
                if word in _ASSIGNMENTS or word in _STEPS or word in ("[", "->", "->*", ";", "{", "}", "..."):
                    return False
                unary = at == first or not self.names.is_operand(at - 1, scope)
                if (word == "&" and unary) or (word == "*" and unary and after not in (")", "*", "const")):
                    return False
            elif kind == "word" and before not in (".",):
                variable = scope.get(word)
                if after == "::" and word in ("std", "labkit"):
                    continue
                if before == "::" and not (_PURE.fullmatch(word) or word == "dynamic_shared"):
                    return False
                if variable is not None:
                    if after == "(" or (not variable.shared and variable.role not in roles):
                        return False
                    continue
                if word in more or word in _INDICES or word in _TYPES or word in _SPECIFIERS:
                    continue
                if word in ("true", "false", "nullptr", "dynamic_shared") or _PURE.fullmatch(word):
                    continue
                if word not in (self.macros.functions if after == "(" else self.constants):
                    return False
            elif kind == "text":
                return False
        return True

    def _initializer(self, variable):
        first, last = variable.initializer
        return (first + 1, last) if first < last and self.reader.text(first) == "=" else (first, last)

    def _find_uniform(self):
        """Take the role `uniform` from all variables that may differ between threads, until none is left."""
        changed = True

        def demote(variables):
            nonlocal changed
            for variable in variables:
                if variable.role == "uniform" and not variable.shared:
                    variable.role, changed = "local", True

        while changed:
            changed = False
            for step in self.steps:
                effects, variable = step.effects, step.variable
                demote(v for v in effects.addressed if not v.constant)
                if step.kind == "declaration":
                    demote(effects.changes - {variable})
                    if variable.array or "&" in variable.signs or (
                        not self.is_uniform(*self._initializer(variable), step.scope)
                    ):  # fmt: skip
                        demote([variable])
                elif step.kind == "loop" and step.node.kind == "for":
                    for span in self._loop_steps(step):
                        update = self._update(*span, step.scope)
                        if update is None or not self.is_uniform(*update[1], step.scope):
                            demote(self.names.expression(*span, step.scope).changes)
                elif step.update and self.is_uniform(*step.update[1], step.scope):
                    demote(effects.changes - {step.update[0]})
                else:
                    demote(effects.changes)
        for step in self.steps:
            for variable in step.effects.addressed:
                variable.addressed = True

    def _loop_steps(self, step):
        first, last = step.node.parts["step"]
        return self.reader.split(first, last) if first < last else []

    def _require_uniform(self):
        for step in self.steps:
            line = self._line(step.node.first)
            if step.kind in ("loop", "if"):
                span = step.node.parts["condition"]
                counters = [s.variable for s in step.first]
                steps = [self._update(*span, step.scope) for span in self._loop_steps(step)] if counters or (
                    step.node.kind == "for") else []  # fmt: skip
                if not self.is_uniform(*span, step.scope) or any(v.role != "uniform" for v in counters):
                    what = "loop" if step.kind == "loop" else "if"
                    raise _Fibers(
                        f"the barrier in the {what} of line {line} depends on values that may differ between threads"
                    )
                for span, update in zip(self._loop_steps(step) if steps else (), steps, strict=True):
                    if update and update[0].role == "uniform":
                        update[0].changed_uniformly.append(step.node.first)
                    elif any(each.kind == "jump" and "continue" in _escapes(each.node) for each in self._within(step)):
                        raise _Fibers(f"the loop around its barrier in line {line} is not understood")
                    else:
                        step.late.append(span)
            if step.kind == "jump":
                if not self._is_jump(step.node) or not self._condition_is_uniform(step):
                    raise _Fibers(
                        f"the jump of line {line}, past a barrier, depends on values that may differ between threads"
                    )
            elif step.kind == "jump?":
                step.kind = "jump" if self._condition_is_uniform(step) else "statement"
            if step.update and step.update[0].role == "uniform":
                step.update[0].changed_uniformly.append(step.node.first)
            if step.kind == "type" and any(v.role != "uniform" for v in step.effects.uses):
                raise _Fibers("it has a type that depends on a variable")

    def _within(self, step):
        for each in (each for body in step.bodies for each in body):
            yield each
            yield from self._within(each)

    def _condition_is_uniform(self, step):
        return "condition" not in step.node.parts or self.is_uniform(*step.node.parts["condition"], step.scope)

    # -- regions

    def _form(self, steps):
        """The items of a block: regions, and steps that are done once per block. The order is that of the statements,
        but what is uniform moves before the region that it stands in."""
        items, region = [], None

        def once(step, close):
            nonlocal region
            if close or (region and step.variable and self._names_it(region, step.variable.name)):
                region = None
            items.insert(len(items) - (region is not None), step)

        for step in steps:
            if step.kind == "barrier":
                region = None
            elif step.kind in ("loop", "if", "block"):
                region = None
                for first, last in step.late:
                    node = _Node("late", first, last, self.reader.tokens[first].start)
                    effects = self.names.expression(first, last, step.scope)
                    step.bodies[0].append(_Step("statement", node, step.scope, effects))
                step.items = [self._form(body) for body in step.bodies]
                items.append(step)
            elif step.kind in ("jump", "type"):
                once(step, close=True)
            elif step.kind == "declaration" and (step.variable.role == "uniform" or step.variable.shared):
                once(step, close=False)
            elif step.update and step.update[0].role == "uniform":
                once(step, close=region is not None and step.update[0] in region.uses())
            else:
                if region is None:
                    region = _Region(len(self.regions))
                    self.regions.append(region)
                    items.append(region)
                region.steps.append(step)
                region.returns |= "return" in _escapes(step.node)
                if step.variable:
                    step.variable.region = region.number
                for variable in step.effects.uses:
                    variable.uses.add(region.number)
                for variable in step.effects.changes | step.effects.addressed:
                    variable.changes.add(region.number)
        return items

    def _names_it(self, region, name):
        """Whether a region has that name, which must not be that of a later declaration."""
        nodes = [step.node for step in region.steps]
        return any(token.text == name for node in nodes for token in self.reader.tokens[node.first : node.last])

    def _assign_roles(self):
        for parameter in self.parameters:
            if parameter.role != "uniform":
                parameter.role = "kept"
        for step in self.steps:
            variable = step.variable
            if variable is None or variable.role == "uniform" or variable.shared:
                continue
            if variable.uses <= {variable.region}:
                continue
            if self._can_recompute(step):
                variable.role = "recomputed"
                continue
            variable.role = "kept"
            if len(variable.dimensions) > 1:  # measured: on fibers such tiles stay in registers
                raise _Fibers(f"the array {variable.name} of each thread is faster on fibers")
            words = set(re.findall(r"\w+", variable.specifiers))
            if "auto" in words or "&" in variable.signs:
                raise _Fibers(f"{variable.name}, which lives across a barrier, is a reference or auto")
            if "constexpr" in words or "static" in words:
                raise _Fibers(f"{variable.name}, which lives across a barrier, is not understood")

    def _can_recompute(self, step):
        """Whether to repeat the declaration in each region: it is cheap, and its value never changes."""
        variable = step.variable
        changed = any(variable in other.effects.changes | other.effects.addressed for other in self.steps)
        first, last = self._initializer(variable)
        if (changed and not variable.constant) or variable.array or "&" in variable.signs or first == last:
            return False
        words = set(re.findall(r"\w+", variable.specifiers))
        if not (words & (_BUILT_IN | {"size_t", "uint"}) or "*" in variable.signs):
            return False
        if not self.is_uniform(first, last, step.scope, {"threadIdx"}, ("uniform", "recomputed")):
            return False
        names = [each.name for each in self.variables]
        if any(names.count(each.name) > 1 for each in (variable, *variable.needs)):
            return False  # where the declaration is repeated, another variable may have that name
        if any(at > variable.place for need in variable.needs for at in need.changed_uniformly):
            return False
        return not any(self._is_costly(at, first, step.scope) for at in range(first, last))

    def _is_costly(self, at, first, scope):
        """Whether token `at` divides a value that differs between threads, and not by a constant."""
        reader = self.reader
        if reader.text(at) not in ("/", "%"):
            return False
        divisor = reader.tokens[at + 1]
        if divisor.kind == "number" or divisor.text in self.constants:
            return False
        start = at
        while start > first:
            text = reader.text(start - 1)
            if text in _OPERAND_ENDS:
                start = reader.match[start - 1]
            elif text in ("*", "/", "%", ".") or reader.tokens[start - 1].kind != "sign":
                start -= 1
            else:
                break
        dividend = reader.tokens[start:at]
        differs = any(
            token.text == "threadIdx" or (token.text in scope and scope[token.text].role == "recomputed")
            for token in dividend
        )
        return differs or divisor.kind != "word" or (divisor.text in scope and scope[divisor.text].role != "uniform")

    def _source(self, first, last):
        """The text of tokens[first:last]."""
        return self.source[self.reader.tokens[first].start : self.reader.tokens[last - 1].end] if first < last else ""


def _escapes(node):
    """The jumps out of a statement: return, and break and continue of loops around it."""
    if node.kind in ("return", "break", "continue"):
        return {node.kind}
    jumps = set().union(*(_escapes(child) for child in node.children))
    if node.kind in ("for", "while", "do"):
        jumps -= {"break", "continue"}
    elif node.kind == "switch":
        jumps -= {"break"}
    return jumps


# ---------------------------------------------------------------------------------------------------------------------
# One kernel: the text


PREFIX = "labkit_loops_"  # of the names of second versions
_KEPT_BYTES = 48 << 10  # of a thread at most, for what lives across a barrier


class _Writer:
    """Writes a split kernel."""

    def __init__(self, split, items):
        self.split, self.items = split, items
        self.reader, self.scan = split.reader, split.scan
        self.out = []
        self.masked = any(region.returns for region in split.regions[:-1]) or (
            any(region.returns for region in split.regions) and split.regions[-1] not in items
        )

    def text(self):
        """The definition of the kernel's second version."""
        body, scan = self.split.body, self.scan
        for macro, defined in self.split.guesses.items():
            self.out.append(f"\n#if{'n' if defined else ''}def {macro}\n#error\n#endif")
        self._line_of(body.start)
        name = scan.text[body.name_start : body.name_end]
        marked = f"{scan.text[body.start : body.marker_end]} __attribute__((noinline))"
        self.out.append(marked + scan.text[body.marker_end : body.name_start] + PREFIX + name)
        self.out.append(scan.text[body.name_end : body.open])
        self.out.append("{ LABKIT_BLOCK\n")
        if self.masked:
            self.out.append("LABKIT_MASK\n")
        for parameter in self.split.parameters:
            if parameter.role == "kept":
                kept = f"labkit_kept_{parameter.name}"
                self._keep(parameter)
                each = "for (size_t labkit_t = 0; labkit_t < labkit_threads; ++labkit_t)"
                self.out.append(f"{each} {kept}[labkit_t] = {parameter.name};\n")
        self._items(self.items)
        self.out.append("}\n")
        return "".join(self.out)

    def _line_of(self, at):
        self.out.append(f"\n#line {presumed_line(self.scan, at)}\n")

    def _items(self, items):
        for item in items:
            if isinstance(item, _Region):
                self._region(item)
            elif item.kind == "declaration":
                self._line_of(self.reader.tokens[item.variable.place].start)
                self.out.append(self._declaration(item.variable) + "\n")
            elif item.kind in ("loop", "if", "block"):
                self._control(item)
            else:
                self._copy(item.node)

    def _control(self, step):
        node, parts = step.node, step.node.parts
        self._line_of(self.reader.tokens[node.first].start)
        if node.kind == "for":
            counters = ", ".join(self._declarator(each.variable) for each in step.first)
            declared = f"{step.first[0].variable.specifiers} {counters}" if step.first else ""
            once = ", ".join(self._span(span) for span in self.split._loop_steps(step) if span not in step.late)
            self.out.append(f"for ({declared}; {self._span(parts['condition'])}; {once}) {{")
        elif node.kind == "do":
            self.out.append("do {")
        elif node.kind == "block":
            self.out.append("{")
        else:
            kind = "if constexpr" if self.reader.text(node.first + 1) == "constexpr" else node.kind
            self.out.append(f"{kind} ({self._span(parts['condition'])}) {{")
        self._items(step.items[0])
        self.out.append("}")
        if len(step.items) > 1:
            self.out.append(" else {")
            self._items(step.items[1])
            self.out.append("}")
        self.out.append(f" while ({self._span(parts['condition'])});\n" if node.kind == "do" else "\n")

    def _span(self, span):
        return self.split._source(*span)

    def _declarator(self, variable, name=None):
        signs = f"{variable.signs} " if variable.signs else ""
        name = name or variable.name
        return f"{signs}{name}{self._span(variable.bounds)} {self._span(variable.initializer)}".rstrip()

    def _declaration(self, variable):
        return f"{variable.specifiers} {self._declarator(variable)};"

    # -- regions

    def _region(self, region):
        variables = self.split.variables
        kept = [v for v in variables if v.role == "kept" and region.number in v.uses]
        for variable in kept:
            if variable.region == region.number:
                self._keep(variable)
        self.out.append("LABKIT_THREADS { LABKIT_THREAD\n")
        if self.masked:
            self.out.append("if (!labkit_live[labkit_t]) continue;\n")
        for variable in self._recomputed(region):
            self._line_of(self.reader.tokens[variable.place].start)
            self.out.append(self._declaration(variable) + "\n")
        for variable in kept:
            if variable.region != region.number:
                self.out.append(self._fetch(variable) + "\n")
        self.out.append("{\n")
        for step in region.steps:
            if step.kind != "declaration":
                self._copy(step.node, region)
            elif step.variable.role != "recomputed":
                self._declare(step.variable)
        for variable in kept:
            if not variable.addressed and (variable.region == region.number or region.number in variable.changes):
                self.out.append(f"labkit::copy(labkit_kept_{variable.name}[labkit_t], {variable.name});\n")
        self.out.append("}\n")
        if region.returns:
            self.out.append(f"labkit_end_{region.number}:;\n")
        self.out.append("}\n")
        if region.returns and self.masked:
            self.out.append("LABKIT_RETURN_IF_NONE_LEFT\n")

    def _keep(self, variable):
        """Declare the array of a kept variable. All threads of a block have them on one stack (runtime/scheduler.cpp)."""
        most = _KEPT_BYTES // sum(each.role == "kept" for each in self.split.variables)
        kept = f"labkit_kept_{variable.name}"
        self.out.append(f"\n{self._kept_type(variable)} {kept}[labkit_threads]{self._span(variable.bounds)};\n")
        self.out.append(f'static_assert(sizeof *{kept} <= {most}, "this variable needs fibers");\n')

    def _recomputed(self, region):
        """The recomputed variables that a region needs, in the order of their declarations."""
        needed = {v for v in region.uses() if v.role == "recomputed"}
        grew = True
        while grew:
            more = {v for each in needed for v in each.needs if v.role == "recomputed"} - needed
            needed |= more
            grew = bool(more)
        return [v for v in self.split.variables if v in needed]

    def _fetch(self, variable):
        """The declaration of a kept variable in a region after its first one: a copy, unless something refers to it."""
        name, type_ = variable.name, self._kept_type(variable)
        if variable.addressed:
            return f"auto &{name} = labkit_kept_{name}[labkit_t];"
        if variable.array:
            return f"{type_} {name}{self._span(variable.bounds)}; labkit::copy({name}, labkit_kept_{name}[labkit_t]);"
        if "restrict" in variable.signs:
            type_ += " __restrict__"
        return f"{type_} {name} = labkit_kept_{name}[labkit_t];"

    def _declare(self, variable):
        self._line_of(self.reader.tokens[variable.place].start)
        if variable.role != "kept" or not variable.addressed:
            self.out.append(self._declaration(variable) + "\n")
            return
        kept = f"labkit_kept_{variable.name}[labkit_t]"
        if variable.initializer[0] != variable.initializer[1]:
            first = f"labkit_first_{variable.name}"
            self.out.append(f"{variable.specifiers} {self._declarator(variable, first)};\n")
            kept = f"labkit::keep({kept}, {first})"
        self.out.append(f"auto &{variable.name} = {kept};\n")

    @staticmethod
    def _kept_type(variable):
        """The type of a kept variable, without the const of the variable itself."""
        if "*" not in variable.signs:
            return re.sub(r"\b(const|register)\b\s*", "", variable.specifiers) + " "
        before, star, _ = variable.signs.rpartition("*")
        return f"{variable.specifiers} {before}{star}"

    def _copy(self, node, region=None):
        """A statement with its directives. A `region` marks threads that return."""
        begin, tokens = node.start, self.reader.tokens
        self._line_of(begin)
        # Sums in an array are vectorized as they are on fibers, not across the threads.
        unroll = region is not None and not any(v.array or "*" in v.signs for v in region.kept())
        edits = [
            (d.start, d.end, _unrolled(d.rest) if unroll else "")
            for d in self.scan.directives
            if begin <= d.start < tokens[node.last - 1].end and self.split.source[d.start : d.end].strip()
        ]
        if region is not None:
            for at in range(node.first, node.last):
                if tokens[at].text == "return":
                    mask = "labkit_live[labkit_t] = false; " if self.masked else ""
                    jump = f"{{ {mask}goto labkit_end_{region.number}; }}"
                    edits.append((tokens[at].start, tokens[at + 1].end, jump))
        at = begin
        for start, end, new in sorted(edits):
            self.out += [self.split.source[at:start], new]
            at = end
        self.out.append(self.split.source[at : tokens[node.last - 1].end] + (";\n" if node.kind == "late" else "\n"))


def _unrolled(rest):
    """What replaces a pragma: the compiler is to unroll the loops that the source wants unrolled."""
    match = re.fullmatch(r"\s+unroll\s*\(?\s*(\d*)\s*\)?\s*", rest)
    return f"LABKIT_UNROLL({min(int(match[1] or 16), 64)})" if match else ""


# ---------------------------------------------------------------------------------------------------------------------


_REGISTRATION = re.compile(r"\bLABKIT_KERNEL(?P<bounds>_BOUNDS)?\(")


def _closing(code, at):
    depth = 0
    for match in re.compile(r"[()]").finditer(code, at):
        depth += 1 if match.group() == "(" else -1
        if depth == 0:
            return match.start()
    return len(code)


def add_loops(text, others=()):
    """Add to the kernels of a source versions that run as thread loops.

    Parameters
    ----------
    text : str
        A source as `labkit.cpu.source.rewrite` has written it.
    others : iterable of str
        What is compiled before it: the options' macros, and the user's headers.

    Returns
    -------
    str
        The source. Each kernel is registered with its second version, or with the reason for which it has none.
    """
    scan, bodies = kernel_bodies(text)
    scans = [scan, *(kernel_bodies(other)[0] for other in others)]
    macros = _Macros(scans)
    constants = set().union(*(_constants(each, macros) for each in scans))
    harmful, by_value = _functions(scans, [(scan, (body.open, body.close)) for body in bodies])
    edits, reasons = [], {}
    for body in bodies:
        try:
            if sum(other.name == body.name for other in bodies) > 1:
                raise _Fibers("it is overloaded")
            second = _Split(scan, body, macros, constants, harmful, by_value).text()
        except _Fibers as reason:
            reasons[body.name] = str(reason)
            continue
        except (KeyError, IndexError, ValueError, RecursionError):
            reasons[body.name] = "a statement is not understood"
            continue
        reasons[body.name] = ""
        edits.append((body.marker_end, body.marker_end, " __attribute__((cold, noinline))"))
        after = f"\n#line {presumed_line(scan, body.close)}\n"
        edits.append((body.close + 1, body.close + 1, second + after))
    for match in _REGISTRATION.finditer(scan.code):
        end = _closing(scan.code, match.end() - 1)
        expression, bounds = scan.text[match.end() : end], "1024"
        if match["bounds"]:
            close = _closing(scan.code, match.end())
            bounds, expression = scan.text[match.end() : close + 1], scan.text[close + 1 : end].lstrip(", ")
        name = re.match(r"\w+", expression)
        reason = reasons.get(name.group(), "it is not in this file") if name else "it is overloaded"
        for word in re.findall(r"\w+", expression):
            if not reason and word in harmful:
                reason = f"{word} uses {harmful[word]}"
        loops = "" if reason else PREFIX + expression
        new = f'LABKIT_KERNEL_LOOPS({bounds}, ({loops}), "{reason}", {expression})'
        edits.append((match.start(), end + 1, new))
    pieces, at = [], 0
    for start, end, new in sorted(edits):
        pieces += [text[at:start], new]
        at = end
    return "".join(pieces) + text[at:]
