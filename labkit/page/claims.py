"""What a notebook page states: the engine it runs on, predictions, and claims that are checked."""

from __future__ import annotations

import html

import pandas as pd

from labkit import cuda
from labkit.base.errors import LabError
from labkit.base.tables import HTML, table
from labkit.spec.devices import device

_NOT_GPU = (
    "Times measured on this page are this computer's, <b>not a GPU's</b>. Results, counts and accuracies are "
    "the same on both engines; GPU times are the recorded ones, labelled with their device and date."
)
_GPU = "Times measured on this page are this GPU's; recorded ones are labelled with their device and date."

class ClaimFailed(LabError, AssertionError):
    """A sentence of a page that the figures do not bear out."""


def setup() -> HTML:
    """Start the engine and say which one it is, and what its times mean.

    Raises
    ------
    LabError
        ``LABKIT_ENGINE`` asks for an engine that this machine cannot give.
    """
    cuda.ensure_context()
    here = device()
    note = _GPU if here.engine == "gpu" else _NOT_GPU
    name = "GPU" if here.engine == "gpu" else "CPU engine"
    colour = "46,160,67" if here.engine == "gpu" else "232,150,30"  # half-transparent: for light and dark pages
    style = f"padding:.6em 1em;border-left:4px solid rgb({colour});background:rgba({colour},.14)"
    page = f'<div class="lab-engine" style="{style}"><b>{name}: {html.escape(here.name)}.</b> {note}</div>'
    plain = note.replace("<b>", "").replace("</b>", "")
    return HTML(page, f"{name}: {here.name}. {plain}")


class Prediction:
    """Numbers written down before the measurement, to be held against it afterwards."""

    def __init__(self, **expected: float):
        self.expected = expected

    def against(self, **measured: float) -> HTML:
        """The predictions beside what was measured, and their ratio; of a predicted 0 there is none.

        Parameters
        ----------
        **measured
            The same names as were predicted.

        Raises
        ------
        LabError
            A name that was not predicted.
        """
        unknown = set(measured) - set(self.expected)
        if unknown:
            raise LabError(f"{unknown.pop()!r} was not predicted; predicted were {', '.join(self.expected)}")
        rows = [
            {"quantity": name.replace("_", " "), "predicted": self.expected[name], "measured": value,
             "measured over predicted": value / self.expected[name] if self.expected[name] else float("nan")}
            for name, value in measured.items()
        ]
        return table(pd.DataFrame(rows), "The prediction against the measurement")


def predict(**expected: float) -> Prediction:
    """Write down what you expect, as ``name=number``; hold it against the measurement with ``.against()``."""
    return Prediction(**expected)


def claim(text: str, holds: bool, here: bool | None = None) -> None:
    """State something that the figures must bear out.

    Parameters
    ----------
    text : str
        The sentence. A claim about time names its device.
    holds : bool
        Whether the recorded or counted figures bear it out.
    here : bool, optional
        Whether the device at hand agrees. It is said, and never fails: another GPU may well differ. On the
        CPU engine nothing is said, because its times decide nothing about GPUs.

    Raises
    ------
    ClaimFailed
        `holds` is false.
    """
    if not holds:
        raise ClaimFailed(f"not so: {text}")
    print(f"✓ {text}")
    if here is not None and device().engine == "gpu":
        print(f"  {device().name}, measured here: {'agrees' if here else 'does not agree'}")
