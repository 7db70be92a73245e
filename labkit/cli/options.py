"""Options that several commands have."""

import os
from typing import Annotated

import typer

from hostcuda.terminal import among


def _use(engine: str | None) -> str | None:
    """Set the engine, "cpu" or "gpu", for this process and those that it starts; return it.

    None changes nothing. Typer calls it when it reads the option, before anything asks for the
    device. Raises BadParameter, which Typer reports, for any other name.
    """
    if engine is not None and engine not in ("cpu", "gpu"):
        raise typer.BadParameter(f"{engine!r} is neither cpu nor gpu")
    if engine:
        os.environ["HOSTCUDA_ENGINE"] = engine
    return engine


def _read_rung(text: str) -> int:
    """Return the number of a rung; raise BadParameter, which Typer reports, for another text."""
    if not text.isdecimal():
        raise typer.BadParameter(
            f"{text!r} is no rung's number: give one or more, as in labkit check 1 4 7"
        )
    return int(text)


RungNumbers = Annotated[
    list[int],
    typer.Argument(
        metavar="N", parser=_read_rung, help="Numbers of rungs, with spaces between them: 1 4 7."
    ),
]
Use = Annotated[
    str | None,
    typer.Option(
        "--engine",
        metavar="cpu|gpu",
        autocompletion=among("cpu", "gpu"),
        callback=_use,
        help="The GPU, where there is one, by default.",
    ),
]
