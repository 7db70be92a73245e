"""Options that several commands of `python -m recording` have."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from labkit import LENET72, LENET86, LabError, Layer
from labkit.ladder.rung import Rung
from labkit.ladder.rungs import LADDER, rung

LAYERS = (*LENET86, *LENET72)

Rungs = Annotated[
    list[str] | None, Argument(metavar="RUNG", help="Names or numbers (tuning, 7); all by default.")
]
Device = Annotated[str, Option(metavar="NAME", help="Compare with what was recorded there.")]
Dry = Annotated[bool, Option("--dry", help="Keep nothing.")]
Folder = Annotated[Path | None, Option(metavar="DIR", help="Keep it there, in place of data/.")]
Layers = Annotated[list[str] | None, Option("--layer", help='"lenet86 layer 2"; may be repeated.')]
Batches = Annotated[list[int] | None, Option("--batch", help="Images; may be repeated.")]
Repeat = Annotated[int | None, Option(help="Timed runs of each.")]


def choose_rungs(names: list[str] | None) -> list[Rung]:
    """Return the rungs with these names or numbers ("tuning", "7"); the whole ladder if there are none.

    Raises LabError if a name is of no rung.
    """
    return (
        [rung(int(name) if name.isdigit() else name) for name in names] if names else list(LADDER)
    )


def choose_layers(names: list[str] | None) -> list[Layer]:
    """Return the layers of lenet86 and lenet72 with these names, by default all; LabError if a name is of no layer."""
    layers_by_name = {layer.name: layer for layer in LAYERS}
    if unknown := set(names or ()) - set(layers_by_name):
        raise LabError(
            f"--layer {', '.join(sorted(unknown))}: it is one of {', '.join(layers_by_name)}"
        )
    return [layer for name, layer in layers_by_name.items() if name in (names or layers_by_name)]
