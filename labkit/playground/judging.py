"""What the playground's JavaScript asks of the lab: what an exercise is, and what an attempt at it is worth.

``js/worker.mjs`` imports it in Pyodide. Arguments and answers are text in JSON.
"""

from __future__ import annotations

import json
import re
from types import SimpleNamespace

from hostcuda.source import constant_arrays, has_dynamic_shared
from labkit.base.errors import LabError
from labkit.base.paths import cuda_src
from labkit.exercises.exercise import Exercise, exercise
from labkit.exercises.judge import Ran, advice, judge
from labkit.ladder.source import NVCC_OPTIONS

# clang does not tell what has no value from what may have none. The judge hears g++'s words of the latter.
_UNSET = re.compile(r"variable '(\w+)' (?:is|may be) uninitialized when (?:used|captured)(?: here)?")
STORED: dict = {}  # of each exercise, by its number
ARRAYS = b""


def load(stored: str, arrays: bytes) -> None:
    """Take what the site has of the exercises."""
    global ARRAYS
    STORED.update(json.loads(stored))
    ARRAYS = bytes(arrays)


def _bytes(array):
    return ARRAYS[array["at"] : array["at"] + array["bytes"]]


def _exercise(number: str) -> Exercise:
    asked = exercise(number)
    if not asked.subject.cases:
        asked.subject.load(STORED[number]["cases"], _bytes)
    return asked


def exercises() -> str:
    """All exercises, for a page."""
    return json.dumps([_shown(number, stored) for number, stored in STORED.items()])


def _shown(number, stored):
    if stored["missing"]:
        return {"number": number, **stored}
    asked = _exercise(number)
    return {"number": number, "title": asked.title, "page": asked.page, "start": asked.start, "lines": asked.lines,
            "goals": [{"what": goal.what, "wanted": goal.wanted} for goal in asked.goals], "hints": len(asked.hints),
            "missing": ""}


def plan(number: str, source: str) -> str:
    """How an attempt is compiled and run: ``cases``, each with what `hostcuda.wasm.page.compile` and the worker of the
    kernels take; or ``refused``, why it cannot be one."""
    asked, stored = _exercise(number), STORED[number]
    try:
        text = asked.attempt(source)
    except LabError as error:
        return json.dumps({"refused": str(error)})
    names = constant_arrays(text)
    constant = stored["constant"] if stored["constant"] in names or not stored["constant"] else None
    if stored["constant"] and constant is None and len(names) == 1:
        constant = names[0]
    extern_c = "no_extern_c" not in stored and 'extern "C"' not in text
    compiled = {"source": f'#line 1 "{stored["file"]}"\n{text}', "extern_c": extern_c,
                "include_dirs": [str(cuda_src())]}
    cases = []
    for case in stored["cases"]:
        launches = case["launches"]
        if "no_extern_c" in stored and not has_dynamic_shared(text):
            launches = [{**each, "shared": 0} for each in launches]
        same = {name: case[name] for name in ("name", "counted", "buffers", "runs")}
        cases.append({**same, "constant": constant, "launches": launches,
                      "compile": {**compiled, "options": [*NVCC_OPTIONS, *case["options"]]}})
    return json.dumps({"cases": cases})


def grade(number: str, source: str, events: str, arrays, hints: int) -> str:
    """What an attempt is worth.

    Parameters
    ----------
    events : str
        The grader's marks and the records of the launches, as `labkit.exercises.grader` writes them.
    arrays : list of list of dict
        For each case and run, the bytes of the arrays that the kernel wrote.
    hints : int
        The number of the hint that is due; 0: what a first attempt is told.
    """
    asked, stored = _exercise(number), STORED[number]
    happened = json.loads(_UNSET.sub(r"'\1' may be used uninitialized", events))
    done = judge(asked, source, Ran(SimpleNamespace(problem=""), happened, arrays))
    own = f'lab.solution("{number}")' if asked.solution else ""
    said = advice(done, hints or int(not done.follow), own, stored["times"] if done.passed else "")
    lines = [{"ok": line.ok, "text": line.text, "kind": line.kind} for line in done.lines]
    return json.dumps({"exercise": number, "verdict": done.verdict, "passed": done.passed, "lines": lines,
                       "advice": done.mistake or said, "hints": len(asked.hints),
                       "text": "\n".join(filter(None, [repr(done), "" if done.mistake else said]))})
