"""Find the lines that make an attempt wrong: parts of it become as in the solution, and it is run again.

With the solution this is delta debugging between the attempt and the solution (Zeller and Hildebrandt, "Simplifying
and Isolating Failure-Inducing Input", 2002). For an attempt that goes another way, small changes are
tried. What is said of a line is shown by a run.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from hostcuda.source import code_only, find_pairs, kernel_names
from labkit.exercises.differences import (
    WORD,
    Changes,
    Difference,
    apply,
    is_balanced,
    list_differences,
    list_lines,
)
from labkit.exercises.exercise import join_words
from labkit.exercises.text import BARRIER, describe_slip, find_other_lines

_MOST_PARTS = 16  # of an attempt that differ from the solution: with more, it goes another way
_MOST_LINES = 3  # that are named
_MOST_PHRASES = 2  # of one sentence
_MOST_TOGETHER = 6  # changes of which needless ones are looked for
_LIKELY = 48  # mutations that are tried before parts are left out of the solution
_STATEMENTS = {
    "for": "a loop",
    "while": "a loop",
    "if": "a condition",
    "{": "a brace",
    "}": "a brace",
}
# the right side of a comparison
_BOUND = re.compile(r"(?:[<>]=?|[=!]=) ([A-Za-z_]\w*)\b(?![\[(.])")
_CHANGE = "with a change"  # where it stands in is not known
_LEAVES = re.compile(r"without `(?:return|continue|break);`")
_QUOTED = 60  # characters of a line that are quoted
# "sum[i] +=": the name, and the operator before =
_TARGET = re.compile(r"(\w+)(?:\[[^=;]*\])?(?:\.\w+)? *([-+*/%&|^]|<<|>>)?=(?!=)")


def find_repair(
    source: str,
    solution: str,
    screen: Callable[[Sequence[str]], Iterator[bool]],
    is_right: Callable[[str], bool],
    mutations: Sequence[Difference] = (),
) -> Changes:
    """Return the fewest changes found that make a wrong attempt right; () if none are.

    They make a part of the attempt as in the solution, if one is enough; or all that the solution
    cannot do without, if this is in at most `_MOST_LINES` lines. Else they are one of the mutations.

    Parameters
    ----------
    source, solution : str
    screen : callable
        Yields for each of several texts whether it may be right, by a quick look. It need not be read to
        the end.
    is_right : callable
        Returns whether a text is right.
    mutations : sequence of Difference
        Other changes of the attempt, to be tried one by one at last.
    """
    refuted: set[str] = set()  # texts that are wrong
    differences = list_differences(source, solution)
    parts = _part_by_lines(differences)  # lists of differences in the same lines

    def find_first(choices: Sequence[Changes]) -> Changes:
        """Return the first of the choices with which the attempt is right, or ()."""
        texts = {
            text: choice for choice in choices if (text := apply(source, choice)) not in refuted
        }
        for (text, choice), may_be_right in zip(
            texts.items(), screen([*texts]) if texts else (), strict=True
        ):
            if may_be_right and is_right(text):
                return choice
            refuted.add(text)
        return ()

    def leave_out_needless(changes: Changes) -> Changes:
        """Return those of a few changes that are right together, none of which can be left out."""
        if len(changes) > _MOST_TOGETHER:
            return changes
        for each in changes:
            if others := [other for other in changes if other is not each]:
                changes = find_first([others]) or changes
        return changes

    def list_slips(changes: Changes) -> list[Changes]:
        """Return the mutations in the lines of these changes: one of them may be all that is wrong."""
        lines = {*list_lines(changes)}
        return [choice for choice in small if {*list_lines(choice)} <= lines]

    small = [(each,) for each in mutations]
    # too many differences: the attempt goes another way than the solution
    if not 0 < len(parts) <= _MOST_PARTS:
        return find_first(small)
    if len(alone := find_first(parts)) > 1:  # one difference of this part may be enough
        alone = find_first([(each,) for each in alone]) or leave_out_needless(alone)
    # What is added may be there in another line already, with a slip: a change of that says more.
    only_adds = not any(source[each.begin : each.end].strip() for each in alone)
    if len(list_lines(alone)) == 1 and not only_adds:
        description = _describe(source, alone)
        if not description.is_vague:
            # "With another index of `y` in line 24" says less than which word or term of it is wrong.
            if not description.slips:
                return find_first(list_slips(alone)) or alone
            # "without the factor `gridDim.y`" says more than "where another name belongs"
            if any("where another" in slip for slip in description.slips):
                named = [choice for choice in list_slips(alone) if choice[0].phrase]
                return find_first(named) or alone
            return alone
    # The likeliest mutations, and those of its lines, before a part of several lines: a change of one word says more.
    if enough := find_first([*list_slips(alone), *small[:_LIKELY]]) or alone:
        return enough
    # A part is needless if the attempt is right with all other differences made as in the solution.
    others = [[each for each in differences if each not in part] for part in parts]
    is_needless = screen([apply(source, other) for other in others])
    needed = [
        each
        for part, needless in zip(parts, is_needless, strict=True)
        for each in part
        if not needless
    ]
    if 0 < len(list_lines(needed)) <= _MOST_LINES and is_right(apply(source, needed)):
        return find_first(list_slips(needed)) or leave_out_needless(needed)
    return find_first(small[_LIKELY:])  # the other mutations


def describe_repair(source: str, changes: Changes, outcome: str) -> str:
    """Return the sentences on what has to change in an attempt, after which `outcome` is true; "" without changes.

    With the outcome "the results are right": "With another condition in line 5, the results are right."
    """
    if not changes:
        return ""
    description = _describe(source, changes)
    sentence = f"{description.what[0].upper()}{description.what[1:]} {outcome}."
    return " ".join([*description.slips, sentence])


class _Description(NamedTuple):
    """What has to change in an attempt, in words.

    Attributes
    ----------
    slips : list of str
        Sentences on lines that differ from the right ones by a word or two.
    what : str
        "with another condition in line 5,": what is said before "the results are right".
    is_vague : bool
        Whether it names a line alone.
    """

    slips: list[str]
    what: str
    is_vague: bool = False


def _describe(source: str, changes: Changes) -> _Description:
    """Return what one or more changes of an attempt are."""
    if phrase := changes[0].phrase or _describe_move(source, changes):
        return _Description([], f"{phrase},")
    # lines that differ from the right ones by a word or two are told first, in sentences of their own
    code, repaired = code_only(source), code_only(apply(source, changes))
    slips = [
        f"Line {number} {slip}"
        for number, words, right in find_other_lines(code, repaired)
        if (slip := describe_slip(words, right))
    ]
    begun = Counter(each.first for each in changes)  # line -> how many changes begin in it
    # (phrase, place) of each change; where one says no more than "a change", neither do the others
    phrases = [_describe_change(code, each, is_alone=begun[each.first] == 1) for each in changes]
    vague = {place for phrase, place in phrases if phrase == _CHANGE}
    phrases = [
        *dict.fromkeys((_CHANGE if place in vague else phrase, place) for phrase, place in phrases)
    ]
    # beside another condition, `return;` is not what is wrong: the condition may ask for the opposite
    phrases = [
        (phrase, place)
        for phrase, place in phrases
        if not (_LEAVES.fullmatch(phrase) and ("with another condition", place) in phrases)
    ]
    is_long = len(phrases) > _MOST_PHRASES
    # " to ": a change of several lines, "in lines 5 to 7", of which no more is known
    if is_long or any(phrase == _CHANGE and " to " in place for phrase, place in phrases):
        lines = [*map(str, list_lines(changes))]
        if len(lines) > 1 and not slips:  # not each of them need be wrong
            what = f"it is enough to change lines {join_words(lines)}: then"
        else:
            what = f"{_CHANGE} in line{'s' * (len(lines) > 1)} {join_words(lines)},"
        return _Description(slips, what, is_vague=True)
    what = join_words([f"{phrase} {place}" for phrase, place in phrases])
    return _Description(slips, f"{what},", is_vague=bool(vague))


def _describe_move(source: str, changes: Changes) -> str:
    """Return "with line 9 moved behind line 5" if the changes are no more than that; else ""."""
    added = [each for each in changes if each.right.strip()]
    removed = [each for each in changes if not each.right.strip()]
    if not len(added) == len(removed) == 1:
        return ""
    lines = code_only(source).split("\n")
    first, last, behind = removed[0].first, removed[0].last, added[0].last
    moved = lines[first - 1 : last]
    if behind < first:
        lines = [*lines[:behind], *moved, *lines[behind : first - 1], *lines[last:]]
    else:
        lines = [*lines[: first - 1], *lines[last:behind], *moved, *lines[behind:]]
    if "".join("".join(lines).split()) != "".join(code_only(apply(source, changes)).split()):
        return ""
    which = f"line {first}" if first == last else f"lines {first} to {last}"
    return f"with {which} moved behind line {behind}"


def _describe_change(code: str, change: Difference, is_alone: bool) -> tuple[str, str]:
    """Return what has to change, and where: ("with another condition", "in line 5"), ("without `c = 0;`", "in ...").

    `is_alone` says whether no other change begins in its line.
    """
    right, own = change.right.strip(), " ".join(code[change.begin : change.end].split())
    line = f"line{'s' * (change.last > change.first)} {change.first}"
    if change.last > change.first:
        line += f" to {change.last}"
    if not own and "\n" in change.right:
        return f"with {_name_statement(right, code)}", f"behind {line}"
    # of several changes in a line, one that takes a whole statement away
    is_telling = is_alone or own.endswith(";")
    if not right and is_telling and len(own) <= _QUOTED and is_balanced(own):
        return f"without `{own}`", f"in {line}"
    if change.last > change.first or ";" in right:
        return _CHANGE, f"in {line}"
    start = change.end - len(code[change.begin : change.end].lstrip())  # without white space
    before = code[code.rfind("\n", 0, start) + 1 : start]
    if not is_alone and re.match(
        r"\s*for\b", before
    ):  # several changes: which part is which is not known
        return "with another head of the loop", f"in {line}"
    return f"with {_name_role(before, code)}", f"in {line}"


def _name_statement(text: str, code: str) -> str:
    """Return what a text adds: "a barrier", "a loop that changes `sum`"; it names only what the code names."""
    if barrier := BARRIER.search(text):
        is_conditional = re.search(r"\bif\b[^;{}]*$", text[: barrier.start()])
        return "a barrier under a condition" if is_conditional else "a barrier"
    kind = _STATEMENTS.get(WORD.findall(text)[0], "a statement")
    # of the first pair of parentheses: the condition itself
    head = text[
        : min((end for begin, end, depth in find_pairs(text, "()") if not depth), default=0)
    ]
    bounds = [name for name in _BOUND.findall(head) if re.search(rf"\b{name}\b", code)]
    if kind == "a condition" and bounds:
        return f"a condition that compares with `{bounds[-1]}`"
    targets = [each for each in _TARGET.finditer(text) if re.search(rf"\b{each[1]}\b", code)]
    # of a declaration of several variables no single one is the point
    if not targets or kind == "a brace" or (kind == "a statement" and "," in text and targets[1:]):
        return kind
    return f"{kind} that {'changes' if targets[-1][2] else 'sets'} `{targets[-1][1]}`"


def _name_role(before: str, code: str) -> str:
    """Return what a change stands in, by the text before it in its line of the code: "another condition"."""
    opened = []  # the positions of the brackets that are open where the change is
    for place, sign in enumerate(before):
        if sign in "([{":
            opened.append(place)
        elif sign in ")]}" and opened:
            opened.pop()
    for place in reversed(opened):
        name = re.search(r"(\w+) *(?:\[[^\[\]]*\])*$", before[:place])
        if not name:
            continue
        if before[place] == "[":
            is_array = re.search(r"\b(?:__shared__|half|int|float4?) +$", before[: name.start()])
            return f"another {'size' if is_array else 'index'} of `{name[1]}`"
        if name[1] == "for":
            parts = ("another first value", "another condition", "another step")
            return parts[min(before.count(";", place), 2)]
        if name[1] in ("if", "while"):
            return "another condition"
        is_kernel = name[1] in kernel_names(code)
        return f"other {'parameters' if is_kernel else 'arguments'} of `{name[1]}`"
    targets = _TARGET.findall(re.split(r"[;{}]", before)[-1])
    return f"another value for `{targets[-1][0]}`" if targets else _CHANGE.removeprefix("with ")


def _part_by_lines(differences: Iterable[Difference]) -> list[Changes]:
    """Return the differences in parts: those of one line, and of lines that one of them joins, are together."""
    parts: list[list[Difference]] = []
    for each in differences:
        if parts and each.first <= parts[-1][-1].last:
            parts[-1].append(each)
        else:
            parts.append([each])
    return parts
