"""State the engine, predictions and claims of a notebook page, and check the claims."""

import datetime
import html
import importlib
import re
import sys
from types import EllipsisType

import pandas as pd

import hostcuda
from hostcuda.tables import HTML
from labkit.base.errors import LabError
from labkit.base.tables import table
from labkit.exercises import progress
from labkit.spec.devices import device

_ENGINES = {
    "gpu": ("GPU", "46,160,67", "Times measured on this page are this GPU's."),
    "cpu": (
        "CPU engine",
        "232,150,30",
        "Results are those of a GPU, and so are the counts, except for the "
        "differences listed in data/counters.md. This computer's times are <b>not a GPU's</b>: pages show recorded "
        "ones instead.",
    ),
}  # the name, a colour for light and dark pages, and what it means
_STORED = "If that is not today, the page shows stored outputs: run the cells to get your own."
_EMPTY = "To compare your own prediction, write numbers in place of ... and run both cells again"
_OTHERWISE = (
    "The sentence is about the device that it names. Another one has other caches, bandwidth and clock "
    "rates, and a short run varies by some per cent: measure again, then ask which of these has changed."
)


class ClaimFailed(LabError, AssertionError):
    """A sentence of a page that the figures contradict."""


def setup() -> HTML:
    """Start the engine; in a notebook, add the magics ``%%kernel`` and ``%%cuda``; return a note of what times mean.

    Raises
    ------
    EngineError
        ``HOSTCUDA_ENGINE`` names an engine that this machine does not have.
    """
    hostcuda.ensure_context()
    # IPython is not imported for this: in a notebook it is there already
    get_shell = getattr(sys.modules.get("IPython"), "get_ipython", None)
    if get_shell and (shell := get_shell()):
        importlib.import_module("labkit.page.cells").load_ipython_extension(shell)
    here = device()
    return banner(here.engine, here.name, datetime.date.today())


def banner(engine: str, name: str, day: datetime.date) -> HTML:
    """Return a note for a page: the engine ("gpu" or "cpu") and device of its outputs, the day, what times mean."""
    kind, colour, meaning = _ENGINES[engine]
    when = f"These cells ran on {day.day} {day:%B %Y}."
    style = f"padding:.6em 1em;border-left:4px solid rgb({colour});background:rgba({colour},.14)"
    page = (
        f'<div class="lab-engine" style="{style}"><b>{kind}: {html.escape(name)}.</b> {when} {_STORED} {meaning} '
        "Recorded times name their device and date.</div>"
    )
    # the second argument is the plain text, for a terminal
    return HTML(page, html.unescape(re.sub("<[^>]*>", "", page)))


class Prediction:
    """Expected numbers, to be compared with the measured ones."""

    def __init__(self, **expected: float | EllipsisType):
        self.expected = expected

    def against(self, **measured: float) -> HTML:
        """Return a table of measurements, predictions and their ratios (none for a predicted 0, or for ``...``).

        `measured` are the numbers by the names of their predictions. LabError if a name was not
        predicted.
        """
        if unknown := set(measured) - set(self.expected):
            raise LabError(
                f"{unknown.pop()!r} was not predicted; the predictions are {', '.join(self.expected)}"
            )
        guesses = {
            name: float("nan") if self.expected[name] is ... else self.expected[name]
            for name in measured
        }
        rows = [
            {
                "quantity": name.replace("_", " "),
                "predicted": guess,
                "measured": measured[name],
                "measured over predicted": measured[name] / guess if guess else float("nan"),
            }
            for name, guess in guesses.items()
        ]
        is_incomplete = ... in self.expected.values()
        # _EMPTY: asks to write numbers in place of ...
        return table(
            pd.DataFrame(rows), "Prediction and measurement" + f". {_EMPTY}" * is_incomplete
        )


def predict(**expected: float | EllipsisType) -> Prediction:
    """Predict measurements as ``name=number``; ``.against()`` of the result compares them with the measured numbers.

    ``name=...`` is a number that the reader has not written yet. All are noted in
    `progress.predicted` for `labkit.grade`: a goal that names a prediction is not met while that
    number is another one than was counted.
    """
    if not expected:
        raise LabError(
            "nothing is predicted: give each number a name, such as lab.predict(ratio=2)"
        )
    progress.predicted.update(expected)
    return Prediction(**expected)


def claim(text: str, holds: bool, here: bool | None = None) -> None:
    """Print a sentence that the figures must support.

    Parameters
    ----------
    text : str
        The sentence. A claim about time names its device.
    holds : bool
        Whether the recorded or counted figures support it.
    here : bool, optional
        Whether the measurement on this device agrees. It is printed and cannot fail, because
        another GPU may differ. On the CPU engine it is not printed, because its times say nothing
        about GPUs.

    Raises
    ------
    ClaimFailed
        `holds` is false.
    """
    if not holds:
        raise ClaimFailed(f"the figures contradict: {text}")
    print(f"✓ {text}")
    if here is not None and device().engine == "gpu":
        print(
            f"  {device().name}, measured here: {'agrees' if here else f'does not agree. {_OTHERWISE}'}"
        )
