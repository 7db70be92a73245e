"""Small changes of a kernel, one of which may undo a slip: another comparison, a number more, a barrier.

They need no solution: a run shows which of them makes a wrong kernel right.
"""

import re
from collections.abc import Collection

from hostcuda.source import code_only
from labkit.exercises.differences import WORD, Difference, apply
from labkit.exercises.kernel_parts import FIRST, list_kernels
from labkit.exercises.statements import change_statements
from labkit.exercises.words import change_words

_MOST = 160  # changes of a text that are listed
_LIKELY = 1  # rank of changes that come before all others


def list_mutations(
    source: str, suspects: Collection[int] = (), solution: str = ""
) -> list[Difference]:
    """Return small changes of a wrong kernel, to be tried one by one: one that helps tells where the mistake is.

    Those that undo the more frequent mistakes come first. Of these, and of the others, those in suspected lines
    come first, then those in lines that the solution does not have.

    Parameters
    ----------
    source : str
    suspects : collection of int
        The numbers of the lines that a finding names. Barriers are added near them alone.
    solution : str
        The text of right code.
    """
    code = code_only(source)
    kernels = list_kernels(code)
    function = re.search(r"\b__(?:global|device)__\s", code)
    begin = code.find("{", function.start() if function else 0)  # of the first function's body
    found = [*change_statements(code, kernels, suspects), *change_words(code, kernels)]
    right = {tuple(WORD.findall(line)) for line in code_only(solution).split("\n")}
    own = {  # the numbers of the lines that the solution does not have
        number
        for number, line in enumerate(code.split("\n"), 1)
        if tuple(WORD.findall(line)) not in right
    }
    # (rank, 0 is the likeliest; change). Left out are changes before the first function's body, and of a
    # string: `code`, from which they are made, does not have it.
    ranked = [
        (rank, change)
        for rank, change in found
        if change.begin > begin and '"' not in source[change.begin : change.end]
    ]
    # the likelier changes first; of these the suspected lines, then those that set what these use
    setting = _find_setting_lines(code, suspects)
    ranked.sort(
        key=lambda each: (
            each[0] != FIRST,
            each[0] > _LIKELY,
            each[1].first not in suspects,
            each[1].first not in own & setting,
            each[1].first not in own,
            each[1].first not in setting,
            each[0],
        )
    )
    by_text: dict[str, Difference] = {}  # each text once
    for _, change in ranked:
        if len(by_text) < _MOST and (text := apply(source, [change])) != source:
            by_text.setdefault(text, change)
    return [*by_text.values()]


def _find_setting_lines(code: str, suspects: Collection[int]) -> set[int]:
    """Return the numbers of the lines that set a variable which a suspected line uses."""
    lines = code.split("\n")
    used = {
        word
        for number in suspects
        if 0 < number <= len(lines)
        for word in WORD.findall(lines[number - 1])
    }
    return {
        number
        for number, line in enumerate(lines, 1)
        if used & {*re.findall(r"\b(\w+) [-+*/]?=(?!=)", line)}
    }
