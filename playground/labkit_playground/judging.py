"""Answer the playground's JavaScript: what an exercise is, and what an attempt at it is worth.

``js/worker.mjs`` imports it in Pyodide. Arguments and answers are text in JSON.
"""

from __future__ import annotations

import json
import re
from types import SimpleNamespace

from hostcuda.source import constant_arrays, has_dynamic_shared
from labkit.base.errors import LabError
from labkit.base.paths import cuda_src
from labkit.exercises.exercise import exercise
from labkit.exercises.judge import ChildResult, judge, write_advice
from labkit.ladder.source import NVCC_OPTIONS

# clang does not tell a variable without a value from one that may have none. The judge gets g++'s
# words for the latter.
_UNSET = re.compile(
    r"variable '(\w+)' (?:is|may be) uninitialized when (?:used|captured)(?: here)?"
)
STORED: dict = {}  # the data of each exercise, by its number


def load(stored: str) -> None:
    """Keep the facts of the exercises for the functions below; `stored` is the text of ``exercises.json``."""
    STORED.update(json.loads(stored))


def add(number: str, cases: str, arrays) -> None:
    """Set the cases of an exercise, the inputs and right results with which its attempts are judged.

    `cases` is the text of its file ``later/04a.json``, `arrays` the bytes of ``later/04a.bin``.
    """
    data = bytes(arrays)
    STORED[number]["cases"] = json.loads(cases)
    # the function returns the bytes of {"at": offset, "bytes": their number, ...}
    exercise(number).subject.load(
        STORED[number]["cases"], lambda array: data[array["at"] : array["at"] + array["bytes"]]
    )


def exercises() -> str:
    """Return JSON: a list of what the page shows of each exercise, as `_describe` returns it."""
    return json.dumps([_describe(number, stored) for number, stored in STORED.items()])


def _describe(number: str, stored: dict) -> dict:
    """Return what the page shows of an exercise, such as title, starting code and goals.

    If it is not offered, "missing" says why, and there is no starting code; else it is "".
    """
    if stored["missing"]:
        return {"number": number, **stored}
    task = exercise(number)
    return {
        "number": number,
        "title": task.title,
        "page": task.page,
        "start": task.start,
        "lines": task.lines,
        "goals": [{"what": goal.what, "wanted": goal.wanted} for goal in task.goals],
        "hints": len(task.hints),
        "missing": "",
    }


def plan(number: str, source: str) -> str:
    """Return, as JSON, what the page's worker has to do to run an attempt: {"cases": [...]}, or {"refused": why}.

    A case has ``compile``, the arguments of the compilation; ``counted``, whether its accesses are
    counted; ``launches``, ``buffers`` and ``runs``, see `collect`; and ``constant``, the name of
    the ``__constant__`` array that gets the weights, or None. `source` is the text of the attempt,
    a cell without its first line.
    """
    task, stored = exercise(number), STORED[number]
    try:
        text = task.attempt(source)
    except LabError as error:
        return json.dumps({"refused": str(error)})
    names = constant_arrays(text)
    # whether the attempt replaces a rung's kernel, and is launched as that one is: only then is
    # "no_extern_c" stored, which says that the text has its own extern "C"
    in_place_of_rung = "no_extern_c" in stored
    # the array that gets the weights: the rung's own, else the only one that there is
    only = names[0] if in_place_of_rung and len(names) == 1 else None
    constant = stored["constant"] if stored["constant"] in names else only
    extern_c = not in_place_of_rung and 'extern "C"' not in text
    compiled = {
        "source": f'#line 1 "{stored["file"]}"\n{text}',
        "extern_c": extern_c,
        "include_dirs": [str(cuda_src())],
    }
    cases = []
    for case in stored["cases"]:
        launches = case["launches"]
        # an attempt without an `extern __shared__` array needs no bytes for one
        if in_place_of_rung and not has_dynamic_shared(text):
            launches = [{**launch, "shared": 0} for launch in launches]
        shared_fields = {name: case[name] for name in ("name", "counted", "buffers", "runs")}
        cases.append(
            {
                **shared_fields,
                "constant": constant,
                "launches": launches,
                "compile": {**compiled, "options": [*NVCC_OPTIONS, *case["options"]]},
            }
        )
    return json.dumps({"cases": cases})


def grade(number: str, source: str, events: str, arrays, hints: int) -> str:
    """Return the grade of an attempt as JSON: verdict, lines with their texts, advice.

    Parameters
    ----------
    number : str
        The exercise, "04a".
    source : str
        The attempt.
    events : str
        The grader's marks and the records of the launches, as `labkit.exercises.grader` writes
        them.
    arrays : list of list of dict
        For each case and run, the bytes of the arrays that the kernel wrote.
    hints : int
        The number of the hint that is due; 0 for the answer to a first attempt.
    """
    task, stored = exercise(number), STORED[number]
    # Clang's warnings get the words of g++, which the judge knows.
    records = json.loads(_UNSET.sub(r"'\1' may be used uninitialized", events))
    # The kernel ran in the page, so no process can have failed: the judge reads only `problem`.
    result = judge(task, source, ChildResult(SimpleNamespace(problem=""), records, arrays))
    # for the advice: the call that shows the solution, and a sentence with recorded times
    call = f'lab.solution("{number}")' if task.solution else ""
    times = stored["times"] if result.passed else ""
    # A first attempt gets the first hint, unless its advice is a thread that the reader can follow.
    text = write_advice(result, hints or int(not result.thread_advice), call, times)
    lines = [{"ok": line.ok, "text": line.text, "kind": line.kind} for line in result.lines]
    return json.dumps(
        {
            "exercise": number,
            "verdict": result.verdict,
            "passed": result.passed,
            "lines": lines,
            "advice": result.mistake or text,
            "hints": len(task.hints),
            "solution": task.solution,
            "text": "\n".join(filter(None, [repr(result), "" if result.mistake else text])),
        }
    )
