"""The results of a class as files: a table, a page per student, a ranking. They load nothing from any network."""

from __future__ import annotations

import datetime
import hashlib
import io
import json
import math
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import jinja2
import pandas as pd

import labkit
from hostcuda.files import write
from labkit.base.numerals import three
from labkit.classroom.grading import Result
from labkit.exercises.exercise import exercise, exercises, number
from labkit.notebooks import STYLE

_TEMPLATES = Path(__file__).parent / "template"


def write_all(results: Sequence[Result], out: Path, ranking: bool = False) -> list[Path]:
    """Write ``grades.csv``, ``grades.json`` and a page per student; with `ranking`, ``ranking.html`` too.

    Parameters
    ----------
    results : sequence of Result
    out : Path
    ranking : bool
        The page shows the students' names, as their files have them, and why something could not be graded.

    Returns
    -------
    list of Path
        The files; the first is the table.
    """
    results = sorted(results, key=lambda each: (each.student, each.exercise))
    text = io.StringIO()
    table(results).to_csv(text, index=False)
    written = [write(out / "grades.csv", text.getvalue())]
    written.append(write(out / "grades.json", json.dumps([asdict(each) for each in results], indent=1) + "\n"))
    students = {each.student: [other for other in results if other.student == each.student] for each in results}
    for student, own in students.items():
        written.append(_page(out / f"{_safe(student)}.html", "student.html.j2", student=student, results=own,
                             tried=sum(bool(each.exercise) for each in own), passed=sum(each.passed for each in own),
                             titles=_titles(own)))
    if ranking:
        written.append(_page(out / "ranking.html", "ranking.html.j2", rankings=rankings(results),
                             ungraded=[each for each in results if not each.lines]))
    return written


def table(results: Sequence[Result]) -> pd.DataFrame:
    """A row per submission: student, exercise, points (1 or 0), verdict, what is wrong first, seconds."""
    return pd.DataFrame(
        {
            "student": each.student,
            "exercise": each.exercise,
            "points": int(each.passed),
            "verdict": each.verdict,
            "why": next((text.replace("\n", "; ") for ok, text in each.lines if ok is False), ""),
            "seconds": each.seconds,
        }
        for each in results
    )


def rankings(results: Sequence[Result]) -> list[dict]:
    """For each exercise its title, its goals and the students who met them, the best number of the first goal first.

    Equal numbers share a rank. Times stand beside it, for each device that has measured one.
    """
    found = []
    for asked in exercises().values():
        met = [each for each in results if each.exercise == asked.number and each.passed]
        if not met:
            continue
        first = asked.goals[0]
        sign = -1 if first.at_least is not None else 1
        met.sort(key=lambda each: (sign * each.reached.get(first.what, math.inf), each.student))
        devices = sorted({device for each in met for device in each.op_ms})
        rows, rank, last = [], 0, None
        for place, each in enumerate(met, 1):
            best = each.reached.get(first.what)
            rank, last = (rank, last) if best == last else (place, best)
            reached = [number(each.reached.get(goal.what, math.nan)) for goal in asked.goals]
            times = [three(each.op_ms[device]) if device in each.op_ms else "" for device in devices]
            rows.append({"rank": rank, "student": each.student, "reached": reached + times})
        goals = [goal.what for goal in asked.goals] + [f"op time on the {device} (ms)" for device in devices]
        found.append({"number": asked.number, "title": asked.title, "goals": goals, "rows": rows})
    return found


def _titles(results: Sequence[Result]) -> dict[str, str]:
    known = exercises()
    return {each.exercise: exercise(each.exercise).title if each.exercise in known else "" for each in results}


def _safe(name: str) -> str:
    """A student's name as that of a file, which no other student and no other page has."""
    safe = "".join(c if c.isalnum() or c in "-_. " else "_" for c in name).strip(". ")[:50]
    return safe if safe == name != "ranking" else f"{safe}-{hashlib.sha256(name.encode()).hexdigest()[:6]}"


def _page(path: Path, template: str, **values) -> Path:
    environment = jinja2.Environment(loader=jinja2.FileSystemLoader(_TEMPLATES), autoescape=True, trim_blocks=True,
                                     lstrip_blocks=True)
    style = STYLE.read_text(encoding="utf-8")
    today = datetime.date.today().isoformat()
    text = environment.get_template(template).render(style=style, today=today, version=labkit.__version__, **values)
    return write(path, text)
