"""Find the words of a kernel for which it has to run on fibers."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hostcuda.frontend.tokens import Token
from hostcuda.loops.order import find_declared_names, walk_with_parents
from hostcuda.loops.reader import Reader
from hostcuda.loops.words import (
    BARRIER,
    FIBERS_ONLY,
    INDICES,
    KEYWORDS,
    MEETING,
    RESTRICT,
    WARP_FUNCTIONS,
    NeedsFibers,
)

if TYPE_CHECKING:
    from hostcuda.loops.steps import KernelPlan

_REFUSED_WORDS = {"this", "operator", "extern", "decltype", "typeof", "__typeof__"}
_DIGRAPHS = {"<%", "%>", "<:", ":>"}  # which C++ reads as brackets
_BEFORE_PARENTHESES = {  # words that call nothing, or a function in which thread loops can wait
    *KEYWORDS,
    *WARP_FUNCTIONS,
    BARRIER,
    MEETING,
    "constexpr",
    "static_assert",
    "alignas",
    "__align__",
    "decltype",
    "alignof",
    "noexcept",
    "catch",
    "case",
    "__attribute__",
    "const",
    *RESTRICT,
}
_TRUTH_OPERATORS = {"==", "!=", "<", ">", "<=", ">=", "&&", "||", "!"}


def indexes_by_truth(code: str, start: int, end: int) -> bool:
    """Return whether an array's index in code[start:end] may be a truth value: a comparison, or a variable with one.

    g++ since 12 computes wrong addresses of such elements if it vectorizes the loop for AVX-512
    without its gather instructions: it reads the bits of the comparison as bytes. If the brackets
    are not paired, return True.
    """
    try:
        reader, truth_names = Reader(code, start, end), set()
    except NeedsFibers:
        return True

    def is_truth(first: int, *ends: str) -> bool:
        """Return whether the expression from token `first` to one of the signs `ends` may be a truth value."""
        text = " ".join(
            reader.text(at) for at in range(first, reader.find_end(first, len(reader.tokens), ends))
        )
        # The "<" of static_cast<int> compares nothing. The value of ``c ? a : b`` is a or b, no truth
        # value.
        words = re.sub(r"_cast < [^<>]* >", " ", text).split()
        return "?" not in words and not {*words}.isdisjoint(truth_names | _TRUTH_OPERATORS)

    for at, (kind, word, *_) in enumerate(reader.tokens):
        before = reader.text(at - 1)
        if kind == "word" and before == "bool":
            truth_names.add(word)
        if word == "=" and before.isidentifier() and is_truth(at + 1, ";", ","):
            truth_names.add(before)
    # without ends, the index goes on to the closing bracket
    return any(token.text == "[" and is_truth(at + 1) for at, token in enumerate(reader.tokens))


def explain_use(name: str, harmful: dict[str, str]) -> str:
    """Return why a kernel that uses a name has to run on fibers: "it uses the class Stack", "f uses threadIdx".

    `harmful` maps such names to their causes: {"Stack": "the class Stack", "f": "threadIdx"}.
    """
    # The cause of a class has the class's name in it; that of a function is what the function uses.
    return (
        f"{name} uses {harmful[name]}"
        if name not in harmful[name].split()
        else f"it uses {harmful[name]}"
    )


def refuse(kernel: KernelPlan) -> None:
    """Raise `NeedsFibers` if a kernel has a word for which it has to run on fibers, such as inline PTX.

    On fibers each thread of a block has a stack of its own; other kernels are rewritten as loops over
    the threads. This is called before the kernel is split into steps for that.
    """
    # `harmful`: name of a function or class that needs fibers -> why, "threadIdx"
    reader, file, harmful = kernel.reader, kernel.file, kernel.file.harmful
    if kernel.body.name.endswith(">"):
        raise NeedsFibers("it is a specialization of a template")
    declared = {reader.text(at) for at in find_declared_names(reader, reader.read_statements())}
    signature = kernel.scan.code[kernel.body.name_end : kernel.body.open]
    head_words = re.findall(r"\w+", kernel.body.template_head + signature)
    # `INDICES`: CUDA's other variables that differ between blocks or launches, such as blockIdx
    if redeclared := {*file.declared, *declared, *head_words} & {*INDICES, "threadIdx"}:
        raise NeedsFibers(f"the source has a {min(redeclared)} of its own")
    if harmful_words := harmful.keys() & set(head_words):  # in the body `_refuse_token` finds them
        raise NeedsFibers(explain_use(min(harmful_words), harmful))
    engine_calls = (at for at, token in enumerate(reader.tokens) if token.text == "hostcuda")
    # In this text inline PTX is written as hostcuda::ptx::..., and an extern __shared__ array as
    # hostcuda::dynamic_shared(): the word behind the "::", two tokens on, tells them apart.
    if any(reader.text(at + 2) != "dynamic_shared" for at in engine_calls):
        raise NeedsFibers("it has inline PTX")
    for at, token in enumerate(reader.tokens):
        _refuse_token(kernel, at, token, declared)
    _refuse_waiting(kernel)
    if indexes_by_truth(kernel.scan.code, kernel.body.open + 1, kernel.body.close):
        raise NeedsFibers("it uses a comparison as an index")


def _refuse_token(kernel: KernelPlan, at: int, token: Token, declared: set[str]) -> None:
    """Raise `NeedsFibers` if token `at`, with those beside it, needs fibers; `declared`: the names of variables."""
    reader, harmful = kernel.reader, kernel.file.harmful
    before, after = reader.text(at - 1), reader.text(at + 1)
    # A "[" that follows no operand begins a lambda expression.
    if token.text == "[" and (
        at == 0 or not (before in (")", "]") or reader.tokens[at - 1].kind == "word")
    ):
        raise NeedsFibers("it has a lambda expression")
    if token.text == "{" and before == "(":
        raise NeedsFibers("it has a statement in an expression")
    if token.kind != "word":
        joined = at > 0 and reader.tokens[at - 1].end == token.start  # no space is between the two
        if token.text in ('"', "'", "\\", "#", "@") or (
            joined and before + token.text in _DIGRAPHS
        ):
            raise NeedsFibers("a literal is not understood")
        return
    if token.text == "volatile" and _is_of_shared_memory(reader, at):
        return
    if FIBERS_ONLY.fullmatch(token.text) or token.text in _REFUSED_WORDS:
        raise NeedsFibers(f"it uses {token.text}")
    if token.text in harmful and (after == "(" or before not in (".", "->")):
        raise NeedsFibers(explain_use(token.text, harmful))
    if (
        after == "("
        and before not in (".", "->")
        and token.text not in declared
        and not _never_waits(kernel, at)
    ):
        raise NeedsFibers(f"it calls {token.text}, which thread loops do not know")
    if token.text == "static" and after not in ("constexpr", "__shared__", "const"):
        raise NeedsFibers("it has a static variable")
    if token.text in INDICES | {"threadIdx"} and before == "::":
        raise NeedsFibers(f"it uses ::{token.text}")


def _never_waits(kernel: KernelPlan, at: int) -> bool:
    """Return whether the word at token `at`, before parentheses, is no function or one that is known not to wait."""
    reader, file = kernel.reader, kernel.file
    word = reader.text(at)
    if reader.text(at - 1) == "::" and reader.text(at - 2) in ("std", "hostcuda"):
        return True
    known_words = _BEFORE_PARENTHESES | file.source_words | kernel.effects_reader.parameters
    return (
        word in known_words
        or word.startswith("hostcuda_")
        or file.is_type(word)
        or file.is_known(word)
    )


def _is_of_shared_memory(reader: Reader, at: int) -> bool:
    """Return whether the ``volatile`` at token `at` is of a ``__shared__`` variable, or of what a pointer points to."""
    ends = {";", "{", "(", "=", "[", ","}
    after = [reader.text(i) for i in range(at, reader.find_end(at, len(reader.tokens), ends))]
    before = [reader.text(i) for i in range(reader.find_start(at, 0, ends), at)]
    return "*" in after or "__shared__" in before + after


def _refuse_waiting(kernel: KernelPlan) -> None:
    """Raise `NeedsFibers` for a loop that may wait for another thread.

    That is one that reads volatile memory. The result of an atomic operation may get into a loop by a
    variable, so nothing in a kernel with a loop may use one.
    """
    reader = kernel.reader
    text, match = reader.text, reader.match
    if not {"while", "for", "do"} & {token.text for token in reader.tokens}:
        return
    for at, token in enumerate(reader.tokens):
        if text(at + 1) != "(" or not token.text.startswith("atomic"):
            continue
        before = text(at - 1) if at else ";"
        after_condition = before == ")" and text(match[at - 1] - 1) in (
            "if",
            "for",
            "while",
            "constexpr",
        )
        begins_statement = before in (";", "{", "}", "else", "do") or after_condition
        # it is not a statement of its own
        if not (begins_statement and text(match[at + 1] + 1) == ";"):
            raise NeedsFibers(f"it uses the result of {token.text}, and may wait for it")
    # names of volatile memory, and of functions that look at such memory
    names = _find_volatile_names(reader) | kernel.file.memory_watchers
    for node, _ in walk_with_parents(reader.read_statements()):
        if node.kind in ("for", "while", "do") and not (node.barrier or node.rendezvous):
            words = {
                token.text
                for token in reader.tokens[node.first : node.last]
                if token.kind == "word"
            }
            if names_in_loop := names & words:
                raise NeedsFibers(
                    f"it has a loop that looks at volatile {min(names_in_loop)}, and may wait for it"
                )


def _find_volatile_names(reader: Reader) -> set[str]:
    """Return the set of names by which a waiting loop may look at memory: volatile variables, and CUDA's words."""
    names = {
        "__ldcv",
        "__ldcg",
        "volatile",
        "__threadfence",
        "__threadfence_block",
        "__threadfence_system",
    }
    for at, token in enumerate(reader.tokens):
        if token.text == "volatile":
            end = reader.find_end(at, len(reader.tokens), {";", "=", "(", "["})
            names.add(reader.text(end - 1))  # of volatile int *name = ...
    return names
