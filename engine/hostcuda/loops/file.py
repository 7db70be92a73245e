"""Find what a source declares outside of its kernels: types, constants and functions.

The source is what the compiler sees: macros are expanded, and the user's headers are part of it.
"""

import re
from dataclasses import dataclass, replace
from functools import lru_cache

from hostcuda.frontend.brackets import find_closing_parenthesis, split
from hostcuda.frontend.scan import skip_registrations
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
    lex,
)

_OPERATOR = re.compile(r"\boperator\b(?!\s*\(\s*\))")
_CLASS = re.compile(r"\b(struct|class|union|enum)\b(?:\s+(?:class|struct))?\s*(\w*)")
_ATTRIBUTES = re.compile(
    r"\b(?:__attribute__|__launch_bounds__|alignas|__align__|decltype|noexcept|requires|explicit|throw)\s*@"
)
_MACRO_CALL = re.compile(r"^HOSTCUDA_\w+\(([^()]*)\)", re.MULTILINE)  # functions that a macro of the headers defines
_PARENTHESIZED = re.compile(r"\(\s*(?:[*&]|const\b|\w+\s*::|\s)*(\w+)\s*[)\[]")  # int (*name)(int)
_SAFE_HEADERS = ("math", "half", "bfloat16", "atomic", "texture", "vector_types", "xorwow", "philox")
_DROPPED_FROM_TYPES = SPECIFIERS | CLASSES | {"volatile", "__restrict__", "__restrict"}
_FUNCTION_WORDS = {"__device__", "__host__", "__forceinline__", "__noinline__", "friend", "virtual", "explicit"}


class File:
    """The declarations of a source."""

    def __init__(self, scan, bodies):
        self.pieces = pieces = list(_find_pieces(scan, [(body.open, body.close) for body in bodies]))
        self.declared = set().union(*(piece.names for piece in pieces))
        self.source_words = self.declared.union(*(piece.words for piece in pieces))  # also all others in their heads
        self.constants = _find_constants(scan)  # names of constants somewhere; the compiler proves that it is here
        self.types = {}  # name of each type of the source -> its kind, as `type_of` returns it
        for piece in pieces:
            self._add_types(piece)
        self.by_value = self._find_by_value()  # functions of the source whose parameters are copies of their arguments
        uses = [piece.uses for piece in pieces]
        watchers = [piece for piece in pieces if any(map(_WATCHES_MEMORY.match, re.findall(r"\w+", piece.body)))]
        # Functions and classes that look at memory that another thread may change meanwhile.
        self.memory_watchers = spread_to_users(uses, {name: "" for piece in watchers for name in piece.names}).keys()
        # Name of a function or type -> the word for which a kernel that uses it runs on fibers.
        self.harmful = spread_to_users(uses, {**self._map_operands(), **self._map_harmful()})

    def is_unique(self, name):
        """Return whether a name means the same wherever it is known: it is declared once, or not at all."""
        pieces = [piece for piece in self.pieces if name in piece.words | piece.names]
        heads, bodies = {" ".join(piece.head.split()) for piece in pieces}, [piece for piece in pieces if piece.body]
        if name in self.declared and (name in _list_safe_names() or PURE.fullmatch(name)):
            return False
        return len(heads) <= 1 and len(bodies) <= 1

    # -- types

    def type_of(self, words, parameters=frozenset()):
        """Return the kind of type that a declaration's words name; `parameters` are those of the kernel's template.

        It is scalar (also of an enumeration); pointer; reference; vector, whose members are scalars; struct, which has
        nothing but data; class, which is anything else; or assumed, a scalar or a pointer if the compiler agrees.
        """
        if "(" in words and {"alignas", "__align__"} & set(words):
            words = words[: words.index("(")] + words[words.index(")") + 1 :]
        words = [word for word in words if word not in _DROPPED_FROM_TYPES]
        if words[:2] == ["std", "::"] and words[2:3] and words[2] in TYPES:
            words = words[2:]
        if not words or "decltype" in words or "&" in words or "&&" in words:
            return "reference"
        if "*" in words:
            return "pointer" if not {"(", "["} & set(words) else "class"
        if words == ["auto"]:
            return "assumed"
        if not set(words) & self.source_words and set(words) <= TYPES:
            return "vector" if words[0] in VECTORS else "scalar"
        if len(words) > 1:
            return "class"
        if words[0] in self.types:
            return self.types[words[0]]
        return "assumed" if words[0] in parameters else "class"

    def _add_types(self, piece):
        """Add the types that a declaration defines, or names by ``using`` or ``typedef``, with their kinds."""
        words = [token.text for token in lex(piece.head, 0, len(piece.head))]
        if piece.keyword:
            kind = "class" if not self._is_plain(piece) else "scalar" if piece.keyword == "enum" else "struct"
            for name in piece.tags:
                self._add_type(name, kind)
        elif words[:1] == ["using"] and words[2:3] == ["="]:
            self._add_type(words[1], self.type_of(words[3:]))
        elif words[:1] == ["template"] and "using" in words:
            self._add_type(words[words.index("using") + 1], "class")
        elif words[:1] == ["typedef"]:
            is_last_name = not {"(", "[", ","} & set(words)  # else any of its words may be the name
            for name in words[-1:] if is_last_name else {*filter(str.isidentifier, words[1:])} - TYPES:
                self._add_type(name, self.type_of(words[1:-1]) if is_last_name else "class")

    def _is_plain(self, piece):
        """Return whether a type is an enumeration, or has nothing but data: no values of its own, no references."""
        head = re.sub(r"\b(?:__align__|alignas|__attribute__)\s*\([^;{]*\)", "", piece.head)
        body = re.sub(r"\b(?:struct|union)\s*\w*\s*\{", "", piece.body[1:])
        kinds = {self.types.get(word) for word in re.findall(r"\w+", body)}
        has_more = re.search(r":|\btemplate\b", head) or re.search(r"[(&~:={]", body)  # bases, methods, first values
        return piece.keyword == "enum" or not (piece.keyword == "typedef" or has_more or kinds & {"class", "reference"})

    def _add_type(self, name, kind):
        """Add a type; a name that has two kinds in different scopes may be anything, as a class may."""
        if self.types.setdefault(name, kind) != kind:
            self.types[name] = "class"

    # -- functions

    def is_pure(self, word):
        """Return whether a function has no effects and gives the same for the same arguments."""
        return word not in self.source_words and bool(PURE.fullmatch(word))

    def is_known(self, word):
        """Return whether CUDA or the C library has the function, and it neither waits nor asks for its thread."""
        return word not in self.source_words and (word in _list_safe_names() or bool(PURE.fullmatch(word)))

    def is_type(self, word):
        """Return whether a word is one of CUDA's or C++'s types."""
        return word in TYPES and word not in self.source_words

    def _map_operands(self):
        """Map what operators outside of classes may apply to, as `harmful`: types, and threadIdx, a vector."""
        operands, vectors = set(), {*VECTORS, *(f"make_{name}" for name in VECTORS)}
        tags = {tag for piece in self.pieces for tag in piece.tags}
        for piece in self.pieces:
            if _OPERATOR.search(piece.head):
                types = set(re.findall(r"\w+", piece.head))
                are_known = "template" not in types and not types & self.types.keys() - tags
                types &= tags | vectors
                operands |= types if are_known and types else {*self.types, *CLASSES, *TYPES, "std"} - BUILT_IN
        operands |= vectors | INDICES | {"threadIdx"} if operands & vectors else set()
        return dict.fromkeys(operands, "operators of the source")

    def _map_harmful(self):
        """Map names to the word for which their use needs fibers, but not names that use such names."""
        harmful = {}
        for piece in self.pieces:
            names, words = piece.uses
            fiber_words = [w for w in words if w in ("threadIdx", BARRIER, "hostcuda") or FIBERS_ONLY.fullmatch(w)]
            if words & {"while", "for", "do"} and (piece.names & self.memory_watchers or any(map(_FENCE.match, words))):
                why = "a loop that may wait"
            elif fiber_words:
                why = "inline PTX" if fiber_words == ["hostcuda"] else min(fiber_words)
            elif piece.keyword and not self._is_plain(piece):
                why = f"the class {min(piece.tags or names)}"
            elif _OPERATOR.search(piece.body):  # of a class in a function
                why = "operators of the source"
            elif indexes_by_truth(piece.text, 0, len(piece.text)):
                why = "a comparison as an index"
            else:
                continue
            harmful.update(dict.fromkeys(names, why))
        return harmful

    def _find_by_value(self):
        """Return the functions all of whose overloads get copies of their arguments."""
        by_value = {}
        for piece in self.pieces:
            for name in piece.functions:  # if there are several, it is not known which of them is one
                starts = [match.end() for match in re.finditer(rf"\b{name}\s*\(", piece.head)]
                is_copied = len(piece.functions) == 1 and starts and self._has_copies(piece.head, starts[-1])
                by_value[name] = bool(is_copied) and by_value.get(name, True)
        return {name for name, is_copied in by_value.items() if is_copied}

    def _has_copies(self, head, at):
        """Return whether a function's parameters, which start at `at`, are all copied from its arguments."""
        parameters = head[at : find_closing_parenthesis(head, at - 1)]
        if set("&({") & set(parameters) or {"decltype", "auto"} & set(re.findall(r"\w+", parameters)):
            return False
        template = set(re.findall(r"(?:class|typename)\s+(\w+)", head))
        texts = [re.findall(r"\w+|[*]|::", re.split(r"[=\[]", parameter)[0]) for parameter in parameters.split(",")]
        kinds = {self.type_of(words[:-1] or words, template) for words in texts if words and "*" not in words}
        return not kinds & {"class", "reference"}


@lru_cache(1)
def _list_safe_names():
    """Return the names of the library's functions that neither wait nor ask which thread calls them.

    A kernel that calls these alone may run as a loop over its threads.
    """
    texts = [(INCLUDE / "hostcuda" / f"{name}.h").read_text() for name in _SAFE_HEADERS]
    text = re.sub(r"//.*", "", "\n".join([*texts, (INCLUDE / "cuComplex.h").read_text()]))
    words = set(re.findall(r"\b(\w+)\s*\(", text)) | set(re.findall(r"\w+", " ".join(_MACRO_CALL.findall(text))))
    words |= {"__threadfence", "__threadfence_block", "__threadfence_system", "memcpy", "memset", "memcmp", "printf"}
    words |= {"clock", "clock64", "malloc", "free", "isnan", "isinf", "isfinite", "signbit", "frexp", "ldexp", "modf"}
    return words - KEYWORDS


# -- pieces: declarations at namespace scope


@dataclass
class _Piece:
    """A declaration: what stands before its braces, the braces, all of it, and the names that it may declare."""

    head: str
    body: str
    text: str
    names: set
    words: set = frozenset()  # of its head
    functions: tuple = ()  # what may be the name of a function
    keyword: str = ""  # of a class or an enumeration; or typedef
    tags: tuple = ()

    @property
    def uses(self):
        """Its names, and the words in it, as `spread_to_users` expects them."""
        return self.names, {*re.findall(r"\w+", self.text), *self.tags}


def _read_piece(head, body, after=""):
    """Return the `_Piece` with this head and body; `after` is the text from its braces to the semicolon."""
    plain = _strip_arguments(head)
    names = set(re.findall(r"([A-Za-z_]\w*)\s*(?:[=\[,@]|$)", plain))
    for match in _PARENTHESIZED.finditer(head.partition("=")[0]):
        if head.count("(", 0, match.start()) == head.count(")", 0, match.start()):
            names.add(match[1])
    names -= TYPES | SPECIFIERS | KEYWORDS | _FUNCTION_WORDS
    words = set(re.findall(r"[A-Za-z_]\w*", head.partition("=")[0])) - TYPES - SPECIFIERS - KEYWORDS - _FUNCTION_WORDS
    text = head + body
    unattributed = re.sub(r"\b(?:__align__|alignas|__attribute__)\s*@|\[\[[^\]]*\]\]", " ", plain)
    type_head = re.split(r"(?<!:):(?!:)", unattributed)[0]  # without bases
    class_ = _CLASS.search(type_head)
    if body and re.search(r"\b(?:struct|class|union|enum)\b[^@=]*$", type_head):
        return _read_type(_Piece(head, body, text, names, words), type_head, class_, after)
    if class_ and not body:  # a forward declaration, or a variable
        names.add(class_[2])
    if member := re.search(r"(\w+)\s*::\s*(?:~|operator\b)|(\w+)\s*::\s*\w+\s*@", plain):
        names.add(member[1] or member[2])
    functions = re.findall(r"(\w+)\s*@", _ATTRIBUTES.sub(" ", plain))
    return _Piece(head, body, text, names - {""}, words, tuple(set(functions) - {"operator"}))


def _read_type(piece, type_head, class_, after):
    """Return a piece that defines a type, with its keyword, its tags and what it names beside them."""
    tag = re.search(r"([A-Za-z_]\w*)\s*(?:<.*)?$", re.sub(r"\bfinal\b", "", type_head[class_.end(1) :]))
    tags = [tag[1]] if tag and tag[1] not in CLASSES else []
    declarators = re.findall(r"[A-Za-z_]\w*", after.partition("=")[0])  # variables, or the names of a typedef
    tags += declarators if "typedef" in type_head else []
    enumerators = re.findall(r"(?:^|[{,])\s*(\w+)", piece.body) if class_[1] == "enum" else []
    keyword = "typedef" if set("*&[(") & set(after) else class_[1]  # of pointers or references to it
    names = (piece.names | {*tags, *declarators, *enumerators}) - {""}
    return replace(piece, names=names, keyword=keyword, tags=tuple(tags))


def _find_pieces(scan, kernels):
    """Yield the `_Piece`s of a text without its kernels; `kernels` are the spans of their bodies."""
    at = 0
    while match := re.compile(r"[;{]").search(scan.code, at):
        at = match.end()
        start = scan.declaration_start(match.start())
        if scan.scope(match.start()) is None or any(a <= match.start() < b for a, b in kernels):
            continue
        end = match.end()
        if match.group() == "{":
            if scan.scope(match.end()) is not None:  # of a namespace
                continue
            end = at = scan.closing.get(match.start(), len(scan.code) - 1) + 1
        start = skip_registrations(scan, start, match.start())
        body = scan.code[match.start() : end] if match.group() == "{" else ""
        yield _read_piece(scan.code[start : match.start()], body, scan.code[end : scan.code.find(";", end)])


def _find_constants(scan):
    """Return the names of constants at namespace scope, and of enumerators."""
    names = set()
    for match in re.finditer(r"\b(?:constexpr|const)\b", scan.code):
        declaration = scan.code[scan.declaration_start(match.start()) : scan.code.find(";", match.end())]
        if scan.scope(match.start()) is not None and "__constant__" not in declaration:
            plain = _strip_arguments(declaration)
            parts = [plain[slice(*span)] for span in split(plain, ",")]
            names |= {name[1] for part in parts if (name := re.match(r"[^=&*\[@{]*?(\w+)\s*[={]", part))}
    for match in re.finditer(r"\benum\b[^;{}()]*\{([^{}]*)\}", scan.code):
        names |= set(re.findall(r"(?:^|,)\s*(\w+)", match[1]))
    return names


def _strip_arguments(head):
    """Return a declaration without its template's head; ``@`` replaces parentheses and what they hold."""
    while (shorter := re.sub(r"\([^()]*\)", "@", head)) != head:
        head = shorter
    return re.sub(r"\btemplate\s*<[^;{]*?>(?=\s*\w)", " ", head)


_FENCE = re.compile(r"__threadfence")
_WATCHES_MEMORY = re.compile(r"atomic\w*$|volatile$|__ldc[gv]$")


def spread_to_users(uses, reasons):
    """Extend `reasons` (name -> reason) to all names that use such a name; `uses`: (names, words) by declaration."""
    harmful = reasons.keys()
    while users := [(names - harmful, words & harmful) for names, words in uses if words & harmful and names - harmful]:
        for names, words in users:
            reasons.update(dict.fromkeys(names, reasons[min(words)]))
    return reasons
