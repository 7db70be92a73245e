"""Find what a source, without macros and with its headers, declares outside of kernels: types, functions, constants."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass, replace
from functools import lru_cache

from hostcuda.frontend.scan import Kernel, Scan, skip_registrations
from hostcuda.frontend.tokens import find_closing_parenthesis, lex, split_spans
from hostcuda.host.toolchain import INCLUDE
from hostcuda.loops.refusals import indexes_by_truth
from hostcuda.loops.words import (
    BARRIER,
    BUILT_IN,
    CLASSES,
    FIBERS_ONLY,
    INDICES,
    KEYWORDS,
    PURE,
    SPECIFIERS,
    TYPES,
    VECTORS,
)

# an operator like operator+; operator() has to be called
_OPERATOR = re.compile(r"\boperator\b(?!\s*\(\s*\))")
# enum class name
_CLASS = re.compile(r"\b(struct|class|union|enum)\b(?:\s+(?:class|struct))?\s*(\w*)")
_ATTRIBUTES = re.compile(
    r"\b(?:__attribute__|__launch_bounds__|alignas|__align__|decltype|noexcept|requires|explicit|throw)\s*@"
)
# HOSTCUDA_ATOMIC_FETCH(int, atomicAdd, add, +)
_MACRO_CALL = re.compile(r"^HOSTCUDA_\w+\(([^()]*)\)", re.MULTILINE)
# of int (*name)(int): (*name)
_PARENTHESIZED = re.compile(r"\(\s*(?:[*&]|const\b|\w+\s*::|\s)*(\w+)\s*[)\[]")
_SAFE_HEADERS = (
    "math",
    "half",
    "bfloat16",
    "atomic",
    "texture",
    "vector_types",
    "xorwow",
    "philox",
)
# words by which a loop can wait for another thread
_WATCHES_MEMORY = re.compile(r"atomic\w*$|volatile$|__ldc[gv]$")
_DROPPED_FROM_TYPES = SPECIFIERS | CLASSES | {"volatile", "__restrict__", "__restrict"}
_FUNCTION_WORDS = {
    "__device__",
    "__host__",
    "__forceinline__",
    "__noinline__",
    "friend",
    "virtual",
    "explicit",
}


class File:
    """The declarations of a source, a `Scan`, without the bodies of its kernels (`bodies`, a list of `Kernel`).

    A *harmful* function or type is one for which a kernel that uses it has to run on fibers.
    """

    def __init__(self, scan: Scan, bodies: Iterable[Kernel]):
        self.declarations = declarations = list(
            _find_declarations(scan, [(body.open, body.close) for body in bodies])
        )
        self.declared = set().union(*(d.names for d in declarations))
        # also parameters and the like
        self.source_words = self.declared.union(*(d.words for d in declarations))
        # names of constants somewhere; the compiler proves that it is here
        self.constants = _find_constants(scan)
        self.types = {}  # name of each type of the source -> its kind, as `find_kind` returns it
        for declaration in declarations:
            self._add_types(declaration)
        # functions of the source whose parameters are copies of their arguments
        self.by_value = self._find_by_value()
        uses = [d.uses for d in declarations]
        watchers = [
            d for d in declarations if any(map(_WATCHES_MEMORY.match, re.findall(r"\w+", d.body)))
        ]
        # Names of functions and classes that look at memory that another thread may change
        # meanwhile.
        self.memory_watchers = spread_to_users(
            uses, {name: "" for d in watchers for name in d.names}
        ).keys()
        # Name of a function or type -> the word for which a kernel that uses it runs on fibers.
        self.harmful = spread_to_users(uses, {**self._map_operands(), **self._map_harmful()})

    def is_unique(self, name: str) -> bool:
        """Return whether a name has one meaning in the source, so that code with it may move to another place."""
        # the declarations of the name, and those that have it as a parameter
        declarations = [d for d in self.declarations if name in d.words | d.names]
        if name in self.declared and (name in _list_safe_names() or PURE.fullmatch(name)):
            return False  # it is a function of the library, too
        # a function and its prototype have the same head; only the function has a body
        heads = {" ".join(d.head.split()) for d in declarations}
        return len(heads) <= 1 and sum(bool(d.body) for d in declarations) <= 1

    def find_kind(self, words: list[str], parameters: Set[str] = frozenset()) -> str:
        """Return the kind of the type that consists of the list `words`, such as ["const", "float", "*"].

        It is "scalar" (also of an enumeration); "pointer"; "reference"; "vector", whose members are
        scalars; "struct", which has nothing but data; "class", which is anything else; or
        "assumed", which the compiler has to prove to be a scalar or a pointer. `parameters`: the
        names of types that are parameters of the kernel's template.
        """
        if "(" in words and {"alignas", "__align__"} & set(words):
            # without the "(16)" of alignas(16)
            words = words[: words.index("(")] + words[words.index(")") + 1 :]
        # without const, struct and the like
        words = [word for word in words if word not in _DROPPED_FROM_TYPES]
        if words[:2] == ["std", "::"] and words[2:3] and words[2] in TYPES:
            words = words[2:]
        # a type that is not known may be a reference, too
        if not words or "decltype" in words or "&" in words or "&&" in words:
            return "reference"
        if "*" in words:
            # pointers to functions or arrays are not understood
            return "pointer" if not {"(", "["} & set(words) else "class"
        if words == ["auto"]:
            return "assumed"
        # source_words: the words in the source's own declarations, which may give them another meaning
        if not set(words) & self.source_words and set(words) <= TYPES:
            return "vector" if words[0] in VECTORS else "scalar"
        if len(words) > 1:
            return "class"
        if words[0] in self.types:
            return self.types[words[0]]
        return "assumed" if words[0] in parameters else "class"

    def _add_types(self, declaration: _Declaration) -> None:
        """Add the types that a `_Declaration` defines, or names by ``using`` or ``typedef``, to `types`."""
        words = [token.text for token in lex(declaration.head)]
        if declaration.keyword:  # it defines a type
            plain_kind = "scalar" if declaration.keyword == "enum" else "struct"
            for name in declaration.tags:
                self._add_type(name, plain_kind if self._is_plain(declaration) else "class")
        elif words[:1] == ["using"] and words[2:3] == ["="]:  # using name = type
            self._add_type(words[1], self.find_kind(words[3:]))
        elif words[:1] == ["template"] and "using" in words:
            self._add_type(words[words.index("using") + 1], "class")
        elif words[:1] == ["typedef"]:  # typedef type name
            is_last_name = not {"(", "[", ","} & set(words)  # else any of its words may be the name
            for name in (
                words[-1:] if is_last_name else {*filter(str.isidentifier, words[1:])} - TYPES
            ):
                self._add_type(name, self.find_kind(words[1:-1]) if is_last_name else "class")

    def _is_plain(self, declaration: _Declaration) -> bool:
        """Return whether a `_Declaration` is of an enumeration, or of a type that has only data, and no references."""
        if declaration.keyword in ("enum", "typedef"):
            return declaration.keyword == "enum"
        head = re.sub(r"\b(?:__align__|alignas|__attribute__)\s*\([^;{]*\)", "", declaration.head)
        # without heads of types in it
        body = re.sub(r"\b(?:struct|union)\s*\w*\s*\{", "", declaration.body[1:])
        kinds = {self.types.get(word) for word in re.findall(r"\w+", body)}
        # bases, methods, first values
        has_more = re.search(r":|\btemplate\b", head) or re.search(r"[(&~:={]", body)
        return not (has_more or kinds & {"class", "reference"})

    def _add_type(self, name: str, kind: str) -> None:
        """Add a type to `types`; a name that has two kinds in different scopes becomes a "class": anything."""
        if self.types.setdefault(name, kind) != kind:
            self.types[name] = "class"

    def is_pure(self, word: str) -> bool:
        """Return whether a word is a function of the library that has no effects and depends on its arguments only."""
        # source_words: the words in the source's own declarations, which may give it another meaning
        return word not in self.source_words and bool(PURE.fullmatch(word))

    def is_known(self, word: str) -> bool:
        """Return whether a word is a function of CUDA or the C library whose call may stay in a thread loop.

        A thread loop is the C++ loop over the threads of a block that replaces a kernel's body. Such
        a function neither waits for other threads nor depends on which thread calls it.
        """
        # source_words: the words in the source's own declarations, which may give it another meaning
        return word not in self.source_words and (
            word in _list_safe_names() or bool(PURE.fullmatch(word))
        )

    def is_type(self, word: str) -> bool:
        """Return whether a word is one of CUDA's or C++'s types, and the source gives it no other meaning."""
        return word in TYPES and word not in self.source_words

    def _map_operands(self) -> dict[str, str]:
        """Return a dict: name of a type to which an operator that the source defines may apply -> why fibers."""
        # If the operands are not understood, they may be all types but the built-in ones.
        operands, vectors = set(), {*VECTORS, *(f"make_{name}" for name in VECTORS)}
        tags = {tag for d in self.declarations for tag in d.tags}
        for declaration in self.declarations:
            if _OPERATOR.search(declaration.head):
                types = set(re.findall(r"\w+", declaration.head))
                # else: using, typedef
                are_known = "template" not in types and not types & self.types.keys() - tags
                types &= tags | vectors
                operands |= (
                    types
                    if are_known and types
                    else {*self.types, *CLASSES, *TYPES, "std"} - BUILT_IN
                )
        # threadIdx is a vector
        operands |= vectors | INDICES | {"threadIdx"} if operands & vectors else set()
        return dict.fromkeys(operands, "operators of the source")

    def _map_harmful(self) -> dict[str, str]:
        """Return a dict: name of a function or class whose own text needs fibers -> the word or construct that does."""
        harmful = {}
        for declaration in self.declarations:
            names, words = declaration.uses
            fiber_words = [
                w
                for w in words
                if w in ("threadIdx", BARRIER, "hostcuda") or FIBERS_ONLY.fullmatch(w)
            ]
            looks_at_memory = names & self.memory_watchers or any(
                word.startswith("__threadfence") for word in words
            )
            if words & {"while", "for", "do"} and looks_at_memory:
                why = "a loop that may wait"
            elif fiber_words:  # `rewrite` has made the word "hostcuda" of inline PTX
                why = "inline PTX" if fiber_words == ["hostcuda"] else min(fiber_words)
            elif declaration.keyword and not self._is_plain(declaration):
                why = f"the class {min(declaration.tags or names)}"
            elif _OPERATOR.search(declaration.body):  # of a class in a function
                why = "operators of the source"
            elif indexes_by_truth(declaration.text, 0, len(declaration.text)):
                why = "a comparison as an index"
            else:
                continue
            harmful.update(dict.fromkeys(names, why))
        return harmful

    def _find_by_value(self) -> set[str]:
        """Return the set of names of the functions all of whose overloads get copies of their arguments."""
        by_value = {}
        for declaration in self.declarations:
            head, functions = declaration.head, declaration.functions
            # if there are several, as in f(int) g(int), it is not known which of them is one
            for name in functions:
                starts = [match.end() for match in re.finditer(rf"\b{name}\s*\(", head)]
                is_copied = (
                    len(functions) == 1 and bool(starts) and self._has_copies(head, starts[-1])
                )
                by_value[name] = is_copied and by_value.get(name, True)
        return {name for name, is_copied in by_value.items() if is_copied}

    def _has_copies(self, head: str, at: int) -> bool:
        """Return whether a function gets copies of all arguments; its parameters begin at position `at` of `head`."""
        parameters = head[at : find_closing_parenthesis(head, at - 1)]
        if set("&({") & set(parameters) or {"decltype", "auto"} & set(
            re.findall(r"\w+", parameters)
        ):
            return False
        # types that are its parameters
        template = set(re.findall(r"(?:class|typename)\s+(\w+)", head))
        texts = [
            re.findall(r"\w+|[*]|::", re.split(r"[=\[]", parameter)[0])
            for parameter in parameters.split(",")
        ]
        # words[:-1]: without the parameter's name. A pointer is copied, whatever it points to.
        kinds = {
            self.find_kind(words[:-1] or words, template)
            for words in texts
            if words and "*" not in words
        }
        return not kinds & {"class", "reference"}


@lru_cache(1)
def _list_safe_names() -> set[str]:
    """Return the set of names of the library's functions that neither wait nor ask which thread calls them."""
    texts = [(INCLUDE / "hostcuda" / f"{name}.h").read_text() for name in _SAFE_HEADERS]
    text = re.sub(r"//.*", "", "\n".join([*texts, (INCLUDE / "cuComplex.h").read_text()]))
    # Functions that the headers define or call, and those that macros define:
    # HOSTCUDA_ATOMIC_FETCH(int, atomicAdd)
    words = set(re.findall(r"\b(\w+)\s*\(", text)) | set(
        re.findall(r"\w+", " ".join(_MACRO_CALL.findall(text)))
    )
    words |= {
        "__threadfence",
        "__threadfence_block",
        "__threadfence_system",
        "memcpy",
        "memset",
        "memcmp",
    }
    words |= {
        "clock",
        "clock64",
        "malloc",
        "free",
        "isnan",
        "isinf",
        "isfinite",
        "signbit",
        "frexp",
        "ldexp",
        "modf",
    }
    return words - KEYWORDS


@dataclass
class _Declaration:
    """A declaration at namespace scope: a function, a type, variables."""

    head: str  # the text before its braces or semicolon
    body: str  # the braces and what is in them; "" without braces
    text: str  # both
    names: set[str]  # that it may declare
    words: Set[str] = frozenset()  # of its head
    # names before parentheses, of which one may be the function that it declares
    functions: tuple[str, ...] = ()
    keyword: str = (
        ""  # of a type: struct, class, union or enum; or typedef, of pointers or references to it
    )
    tags: tuple[str, ...] = ()  # the names of the type

    @property
    def uses(self) -> tuple[set[str], set[str]]:
        """The pair (names that it declares, words in it): if one of the words is harmful, so are the names."""
        return self.names, {*re.findall(r"\w+", self.text), *self.tags}


def _read_declaration(head: str, body: str, after: str = "") -> _Declaration:
    """Return the `_Declaration` with this head and body; `after` is the text from its braces to the semicolon."""
    plain = _strip_arguments(head)  # in which "@" stands for each pair of parentheses
    # the last words of int a = 1, b[2], f(...)
    names = set(re.findall(r"([A-Za-z_]\w*)\s*(?:[=\[,@]|$)", plain))
    for match in _PARENTHESIZED.finditer(head.partition("=")[0]):
        # not within parentheses
        if head.count("(", 0, match.start()) == head.count(")", 0, match.start()):
            names.add(match[1])
    names -= TYPES | SPECIFIERS | KEYWORDS | _FUNCTION_WORDS
    words = (
        set(re.findall(r"[A-Za-z_]\w*", head.partition("=")[0]))
        - TYPES
        - SPECIFIERS
        - KEYWORDS
        - _FUNCTION_WORDS
    )
    text = head + body
    unattributed = re.sub(r"\b(?:__align__|alignas|__attribute__)\s*@|\[\[[^\]]*\]\]", " ", plain)
    type_head = re.split(r"(?<!:):(?!:)", unattributed)[0]  # without bases
    class_ = _CLASS.search(type_head)
    if class_ and body and re.search(r"\b(?:struct|class|union|enum)\b[^@=]*$", type_head):
        return _read_type(_Declaration(head, body, text, names, words), type_head, class_, after)
    if class_ and not body:  # a forward declaration, or a variable
        names.add(class_[2])
    if member := re.search(r"(\w+)\s*::\s*(?:~|operator\b)|(\w+)\s*::\s*\w+\s*@", plain):
        # T::~T(), T::f() count as declarations of T: who uses T may use them
        names.add(member[1] or member[2])
    functions = re.findall(r"(\w+)\s*@", _ATTRIBUTES.sub(" ", plain))
    return _Declaration(head, body, text, names - {""}, words, tuple(set(functions) - {"operator"}))


def _read_type(
    declaration: _Declaration, type_head: str, class_: re.Match[str], after: str
) -> _Declaration:
    """Return a declaration that defines a type, with its keyword, its tags and its other names.

    `type_head` is its head without attributes and bases, `class_` the match of `_CLASS` in it, and
    `after` the text from its braces to the semicolon.
    """
    tag = re.search(
        r"([A-Za-z_]\w*)\s*(?:<.*)?$", re.sub(r"\bfinal\b", "", type_head[class_.end(1) :])
    )
    tags = [tag[1]] if tag and tag[1] not in CLASSES else []
    # variables, or the names of a typedef
    declarators = re.findall(r"[A-Za-z_]\w*", after.partition("=")[0])
    tags += declarators if "typedef" in type_head else []
    enumerators = re.findall(r"(?:^|[{,])\s*(\w+)", declaration.body) if class_[1] == "enum" else []
    # of pointers or references to it
    keyword = "typedef" if set("*&[(") & set(after) else class_[1]
    names = (declaration.names | {*tags, *declarators, *enumerators}) - {""}
    return replace(declaration, names=names, keyword=keyword, tags=tuple(tags))


def _find_declarations(scan: Scan, kernels: list[tuple[int, int]]) -> Iterator[_Declaration]:
    """Yield the `_Declaration`s of a `Scan` without its kernels, whose bodies are the spans `kernels` of positions."""
    at = 0
    while match := re.compile(r"[;{]").search(scan.code, at):
        at = match.end()
        start = scan.declaration_start(match.start())
        if scan.scope(match.start()) is None or any(a <= match.start() < b for a, b in kernels):
            continue  # in a function or class, or in a kernel
        end = match.end()
        if match.group() == "{":
            # the brace of a namespace, in which declarations stand
            if scan.scope(match.end()) is not None:
                continue
            end = at = scan.closing.get(match.start(), len(scan.code) - 1) + 1
        # behind a HOSTCUDA_KERNEL(name), without a semicolon
        start = skip_registrations(scan, start, match.start())
        body = scan.code[match.start() : end] if match.group() == "{" else ""
        yield _read_declaration(
            scan.code[start : match.start()], body, scan.code[end : scan.code.find(";", end)]
        )


def _find_constants(scan: Scan) -> set[str]:
    """Return the set of names of constants at namespace scope, and of enumerators, in a `Scan`."""
    names = set()
    for match in re.finditer(r"\b(?:constexpr|const)\b", scan.code):
        declaration = scan.code[
            scan.declaration_start(match.start()) : scan.code.find(";", match.end())
        ]
        if scan.scope(match.start()) is not None and "__constant__" not in declaration:
            plain = _strip_arguments(declaration)
            # const int a = 1, b = 2
            parts = [plain[slice(*span)] for span in split_spans(plain, ",")]
            names |= {
                name[1] for part in parts if (name := re.match(r"[^=&*\[@{]*?(\w+)\s*[={]", part))
            }
    for match in re.finditer(r"\benum\b[^;{}()]*\{([^{}]*)\}", scan.code):
        names |= set(re.findall(r"(?:^|,)\s*(\w+)", match[1]))  # enum { a, b = 2 }
    return names


def _strip_arguments(head: str) -> str:
    """Return a declaration's text without its template's head; ``@`` replaces parentheses and what they hold."""
    while (shorter := re.sub(r"\([^()]*\)", "@", head)) != head:
        head = shorter
    return re.sub(r"\btemplate\s*<[^;{]*?>(?=\s*\w)", " ", head)


def spread_to_users(
    uses: list[tuple[set[str], set[str]]], reasons: dict[str, str]
) -> dict[str, str]:
    """Add to `reasons`, which says why names need fibers, the names that use these, directly or through others.

    A name is that of a function, a type or a variable. A kernel on fibers has a stack per thread.
    `uses` has a pair of sets for each declaration: the names that it declares, and the words in it.
    A name gets the reason of the first one in the alphabet that it uses. Returns `reasons`. For example,
    {"f": "threadIdx"} and a declaration ({"g"}, {"f", "x"}) give {"f": "threadIdx", "g": "threadIdx"}.
    """
    harmful = reasons.keys()  # a view, which grows with `reasons`
    # a round for each step of the way from a name to those that use it
    while users := [
        (names - harmful, words & harmful)
        for names, words in uses
        if words & harmful and names - harmful
    ]:
        for names, words in users:
            reasons.update(dict.fromkeys(names, reasons[min(words)]))
    return reasons
