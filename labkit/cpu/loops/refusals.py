"""The reasons for which a kernel runs on fibers that its words tell."""

import re

from labkit.cpu.loops.words import FIBERS_ONLY, INDICES, OPERAND_ENDS, PAIRS, Fibers

_TRUTHS = {"==", "!=", "<", ">", "<=", ">=", "&&", "||", "!"}


def indexes_by_truth(tokens):
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
            depth += (text[at] in PAIRS) - (text[at] in PAIRS.values())
            if depth < 0:
                break
            at += 1
        return at

    names = {text[i + 1] for i in range(len(text) - 1) if text[i] == "bool" and tokens[i + 1].kind == "word"}
    for at in range(1, len(text) - 1):
        if text[at] == "=" and tokens[at - 1].kind == "word" and is_truth(at + 1, end(at + 1, {";", ",", ")"})):
            names.add(text[at - 1])
    return any(text[at] == "[" and is_truth(at + 1, end(at + 1, {"]"})) for at in range(len(text)))


def use(name, harmful):
    """The reason for which a kernel that uses the name runs on fibers."""
    return f"{name} uses {harmful[name]}" if name != harmful[name] else f"it uses {name}"


def refuse(kernel):
    """Raise `Fibers` if a kernel has words that need fibers."""
    reader, harmful, macros = kernel.reader, kernel.file.harmful, kernel.file.macros
    if kernel.body.name.endswith(">"):
        raise Fibers("it is a specialization of a template")
    before = kernel.scan.code[kernel.body.start : kernel.body.marker_end]
    if set(re.findall(r"(\w+)\s*\(", before)) - {"__launch_bounds__", "__attribute__"}:
        raise Fibers("a macro stands before it")
    for word in re.findall(r"\w+", kernel.scan.code[kernel.body.name_end : kernel.body.open]):
        if word in harmful:
            raise Fibers(f"{word} uses {harmful[word]}")
    inline = (at for at, token in enumerate(reader.tokens) if token.text == "labkit")
    if any(reader.text(at + 2) != "dynamic_shared" for at in inline):
        raise Fibers("it has inline PTX")
    for at, token in enumerate(reader.tokens):
        before, after = reader.text(at - 1), reader.text(at + 1)
        if token.text == "[" and (at == 0 or not (before in OPERAND_ENDS or reader.tokens[at - 1].kind == "word")):
            raise Fibers("it has a lambda expression")
        if token.kind != "word":
            if token.text in ('"', "'", "\\", "#", "@"):
                raise Fibers("a literal is not understood")
            continue
        if token.text == "volatile" and _is_of_memory(reader, at):
            continue
        if FIBERS_ONLY.fullmatch(token.text):
            raise Fibers(f"it uses {token.text}")
        if token.text in harmful and before not in (".", "->"):
            raise Fibers(use(token.text, harmful))
        for word in (token.text, *macros.words(token.text)):
            if word in macros.harmful:
                raise Fibers(macros.harmful[word])
            if FIBERS_ONLY.fullmatch(word) or word in ("this", "operator", "extern"):
                raise Fibers(f"it uses {word}")
        if token.text == "static" and after not in ("constexpr", "__shared__", "const"):
            raise Fibers("it has a static variable")
        if token.text in INDICES | {"threadIdx"} and before == "::":
            raise Fibers(f"it uses ::{token.text}")
    _refuse_waiting_atomics(reader, macros)
    if indexes_by_truth(reader.tokens):
        raise Fibers("it uses a comparison as an index")


def _is_of_memory(reader, at):
    """Whether ``volatile`` at token `at` says how memory is accessed that threads share: no variable is volatile."""
    ends = {";", "{", "}", "(", ")", "=", "[", ","}
    first, last = at, at
    while first > 0 and reader.text(first - 1) not in ends:
        first -= 1
    while last + 1 < len(reader.tokens) and reader.text(last + 1) not in ends:
        last += 1
    after = [reader.text(i) for i in range(at, last + 1)]
    return "*" in after or "__shared__" in [*after, *(reader.text(i) for i in range(first, at))]


def _refuse_waiting_atomics(reader, macros):
    """A loop that looks at the result of an atomic operation may wait for another thread of the block."""
    text, match = reader.text, reader.match
    if not {"while", "for", "do"} & {token.text for token in reader.tokens}:
        return
    for at, token in enumerate(reader.tokens):
        if text(at + 1) != "(" or not any(
            word.startswith("atomic") for word in (token.text, *macros.words(token.text))
        ):  # fmt: skip
            continue
        before = text(at - 1) if at else ";"
        after_condition = before == ")" and text(match[at - 1] - 1) in ("if", "for", "while", "constexpr")
        unused = before in (";", "{", "}", "else", "do") or after_condition
        if not (unused and text(match[at + 1] + 1) == ";"):
            raise Fibers(f"it uses the result of {token.text}, and may wait for it")
