"""What a notebook page states: the engine it runs on, predictions, and claims that are checked."""

from __future__ import annotations

import html
import importlib
import sys
from types import EllipsisType

import pandas as pd

import hostcuda
from hostcuda.tables import HTML
from labkit.base.errors import LabError
from labkit.base.tables import table
from labkit.spec.devices import device

_NOT_GPU = (
    "Times measured on this page are this computer's, <b>not a GPU's</b>. Results, counts and accuracies are the same "
    "on both engines. GPU times are recorded ones, labelled with device and date."
)
_GPU = "Times measured on this page are this GPU's. Recorded times are labelled with device and date."

class ClaimFailed(LabError, AssertionError):
    """A sentence of a page that the figures contradict."""


def setup() -> HTML:
    """Start the engine, add the cell magics ``%%kernel`` and ``%%cuda``, and show what the engine's times mean.

    Raises
    ------
    EngineError
        ``HOSTCUDA_ENGINE`` names an engine that this machine does not have.
    """
    hostcuda.ensure_context()
    if shell := getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)():
        importlib.import_module("labkit.page.cells").load_ipython_extension(shell)
    here = device()
    note = _GPU if here.engine == "gpu" else _NOT_GPU
    name = "GPU" if here.engine == "gpu" else "CPU engine"
    colour = "46,160,67" if here.engine == "gpu" else "232,150,30"  # transparent, for light and dark pages
    style = f"padding:.6em 1em;border-left:4px solid rgb({colour});background:rgba({colour},.14)"
    page = f'<div class="lab-engine" style="{style}"><b>{name}: {html.escape(here.name)}.</b> {note}</div>'
    plain = note.replace("<b>", "").replace("</b>", "")
    return HTML(page, f"{name}: {here.name}. {plain}")


class Prediction:
    """Expected numbers, to be compared with the measured ones."""

    def __init__(self, **expected: float):
        self.expected = expected

    def against(self, **measured: float) -> HTML:
        """Compare measurements with the predictions: both, and their ratio (none for a predicted 0).

        Parameters
        ----------
        **measured
            By the names of the predictions.

        Raises
        ------
        LabError
            A name was not predicted.
        """
        unknown = set(measured) - set(self.expected)
        if unknown:
            raise LabError(f"{unknown.pop()!r} was not predicted; the predictions are {', '.join(self.expected)}")
        rows = [
            {"quantity": name.replace("_", " "), "predicted": self.expected[name], "measured": value,
             "measured over predicted": value / self.expected[name] if self.expected[name] else float("nan")}
            for name, value in measured.items()
        ]
        return table(pd.DataFrame(rows), "Prediction and measurement")


def predict(**expected: float | EllipsisType) -> Prediction:
    """Predict measurements as ``name=number``; ``.against()`` compares them with the measured numbers. Dots in place of
    a number are a place that has not been filled in yet."""
    return Prediction(**{name: float("nan") if value is ... else value for name, value in expected.items()})


_OTHERWISE = (
    "The sentence is about the device that it names. Another one has other caches, bandwidth and clock rates, and a "
    "short run varies by some per cent: measure again, then ask which of these has changed."
)


def claim(text: str, holds: bool, here: bool | None = None) -> None:
    """State a sentence that the figures must support.

    Parameters
    ----------
    text : str
        The sentence. A claim about time names its device.
    holds : bool
        Whether the recorded or counted figures support it.
    here : bool, optional
        Whether the measurement on this device agrees. It is printed and cannot fail, because another GPU may differ. On
        the CPU engine it is not printed, because its times say nothing about GPUs.

    Raises
    ------
    ClaimFailed
        `holds` is false.
    """
    if not holds:
        raise ClaimFailed(f"the figures contradict: {text}")
    print(f"✓ {text}")
    if here is not None and device().engine == "gpu":
        print(f"  {device().name}, measured here: {'agrees' if here else f'does not agree. {_OTHERWISE}'}")
