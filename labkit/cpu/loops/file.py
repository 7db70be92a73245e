"""What the kernels of a source may use: its macros, constants and functions."""

import re
from itertools import pairwise

from labkit.cpu.loops.reader import Reader
from labkit.cpu.loops.refusals import indexes_by_truth
from labkit.cpu.loops.words import (
    ASSIGNMENTS,
    BARRIER,
    FIBERS_ONLY,
    INDICES,
    KEYWORDS,
    OPERAND_ENDS,
    PURE,
    SPECIFIERS,
    STEPS,
    TYPES,
    Fibers,
    tokens,
)


class File:
    """A source and its headers.

    Attributes
    ----------
    macros : Macros
    constants : set of str
        Names of constants whose values do not depend on memory.
    harmful : dict
        Name of a function or type -> the word for which a kernel that uses it runs on fibers.
    by_value : set of str
        Functions whose parameters are no references.
    """

    def __init__(self, scans, bodies):
        self.macros = Macros(scans)
        self.constants = set().union(*(_constants(each, self.macros) for each in scans))
        self.harmful, self.by_value = _functions(scans, [(scans[0], (body.open, body.close)) for body in bodies])


class Macros:
    """The macros of the source, of its headers and of the options."""

    def __init__(self, scans):
        self.bodies = {}  # name -> words of all its definitions
        self.harmful = {}  # name -> why a kernel that uses it needs fibers
        self.constant = set()
        self.functions = set()  # with parameters: expressions of values
        self.plain = set()  # with parameters: expressions without calls
        self.threads = set()  # that stand for threadIdx.x
        self.addressing = set()  # with parameters, whose addresses they may take
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
                    w for w in words if w in self.constant or w in TYPES or w in self.functions or PURE.fullmatch(w)
                }
                if pure and name not in self.constant and known == words:
                    self.constant.add(name)
                    changed = True
                if name in self.functions and known | (words & INDICES) != words:
                    self.functions.remove(name)
                    changed = True

    def _add(self, name, parameters, body):
        found = tokens(body, 0, len(body))
        texts = {token.text for token in found}
        words = {token.text for token in found if token.kind == "word"}
        words -= set(re.findall(r"\w+", parameters or ""))
        statements = {"return", "break", "continue", "if", "for", "while", "do", "switch", "else", "case", BARRIER}
        if "&" in texts and parameters:
            self.addressing.add(name)
        elif "&" in texts:
            self.harmful[name] = f"it uses the macro {name}"
        if words & statements or texts & (ASSIGNMENTS | STEPS | {";", "{", "}", "[]", "#", "##", '"'}):
            self.harmful[name] = f"it uses the macro {name}"
        if any(FIBERS_ONLY.fullmatch(word) for word in words):
            self.harmful[name] = f"it uses the macro {name}"
        reads = any(b.text == "*" and a.kind == "sign" and a.text not in OPERAND_ENDS for a, b in pairwise(found))
        reads |= bool(found) and found[0].text == "*"
        if parameters and not reads and not texts & {"[", "->", "&", "{", ";", "#", "##"}:
            self.functions.add(name)
        given = {"", *re.findall(r"\w+", parameters or ""), *TYPES}
        calls = [a.text for a, b in pairwise(found) if b.text == "(" and a.kind == "word" and a.text not in given]
        for names, fits in (
            (self.plain, parameters and all(PURE.fullmatch(name) for name in calls)),
            (self.threads, [token.text for token in found] == ["threadIdx", ".", "x"]),
        ):
            if not fits:
                names.discard(name)
            elif name in names or name not in self.bodies:  # of all its definitions
                names.add(name)
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
            reader = Reader(scan.code, start, end)
            if reader.declares(0, len(reader.tokens)):
                for name, signs, bounds, initializer in reader.declarators(0, len(reader.tokens)):
                    if not signs and bounds[0] == bounds[1] and initializer[0] < initializer[1]:
                        names.add(reader.text(name))
        except (Fibers, KeyError, IndexError):
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


def closing(code, at):
    """The place of the parenthesis that closes the one at or after `at`."""
    depth = 0
    for match in re.compile(r"[()]").finditer(code, at):
        depth += 1 if match.group() == "(" else -1
        if depth == 0:
            return match.start()
    return len(code)


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
                start = closing(scan.code, found.end() - 1) + 1
            piece = scan.code[start:end]
            head = scan.code[start : match.start()]
            plain = _without_arguments(head)
            names = set(re.findall(r"([A-Za-z_]\w*)\s*(?:[=\[,@]|$)", plain))
            if re.search(r"\b(?:struct|class|union)\b", plain):
                names |= set(re.findall(r"\b(?:struct|class|union)\s+(?:__\w+__\s+)*(\w+)", head))
                names |= set(re.findall(r"(\w+)\s*\(", piece))
            pieces.append((names - TYPES - SPECIFIERS - KEYWORDS, set(re.findall(r"\w+", piece)), piece))
            function = re.search(r"(\w+)\s*\(", head)
            if match.group() == "{" and function:
                by_value.setdefault(function[1], []).append("&" not in head[function.end() :])
    harmful = {}
    for names, words, piece in pieces:
        found = [w for w in words if w in ("threadIdx", BARRIER, "labkit") or FIBERS_ONLY.fullmatch(w)]
        for name in names if found else ():
            harmful[name] = "inline PTX" if found == ["labkit"] else min(found)
        if not found and indexes_by_truth(tokens(piece, 0, len(piece))):
            harmful.update(dict.fromkeys(names, "a comparison as an index"))
    changed = True
    while changed:
        changed = False
        for names, words, _ in pieces:
            found = words & harmful.keys()
            for name in names - harmful.keys() if found else ():
                harmful[name], changed = harmful[min(found)], True
    return harmful, {name for name, several in by_value.items() if all(several)}
