"""Commands for the ladder: check, bench."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import labkit
from hostcuda import files
from hostcuda.terminal import Json
from labkit.base.errors import LabError
from labkit.cli.options import RungNumbers, Use

if TYPE_CHECKING:
    import pandas as pd

    from labkit.spec.layers import Layer


def check(
    rung: RungNumbers,
    source: Annotated[
        Path | None,
        typer.Option(metavar="FILE.cu", help="A kernel of your own in place of the rung's."),
    ] = None,
    sanitize: Annotated[
        bool,
        typer.Option(
            "--sanitize", help="Search for races, invalid addresses and uninitialized memory, too."
        ),
    ] = False,
    engine: Use = None,
    as_json: Json = False,
) -> None:
    """Check that rungs compute the convolution, on odd shapes."""
    import pandas as pd

    # `engine` was used when the option was read: `Use`. All variants are made before the first is
    # checked, so that a wrong number is refused at once. `labkit.check` prints a line for each, unless it is
    # quiet, and raises CheckFailed, which ends the command, if one is wrong.
    variants = [labkit.variant(number, source=source) for number in rung]
    reports = [labkit.check(variant, sanitize=sanitize, quiet=as_json) for variant in variants]
    if as_json:
        print(
            _format_json(
                pd.concat([report.table.assign(variant=report.label) for report in reports])
            )
        )


def bench(
    rung: RungNumbers,
    layer: Annotated[
        str, typer.Option(metavar="NET-L", help='"lenet86-1", "lenet86-2", "lenet72-1", …')
    ] = "lenet86-2",
    batch: Annotated[
        list[int] | None, typer.Option(help="Images; may be given several times.")
    ] = None,
    engine: Use = None,
    as_json: Json = False,
    csv: Annotated[
        Path | None, typer.Option("--csv", metavar="FILE", help="Write the table to FILE, too.")
    ] = None,
) -> None:
    """Check rungs of the ladder, then measure op and layer time.

    The op time is that of the kernels alone; the layer time has the copies from and to the host, too.
    """
    from labkit.spec.devices import device

    # `engine` was used when the option was read: `Use`
    files.require_place(csv)  # raises now if the table could not be written there later
    chosen, variants = _find_layer(layer), [labkit.variant(number) for number in rung]
    for images in batch or ():  # a bad batch is refused before the checks
        # of the variant that needs least; `labkit.bench` refuses others that do not fit
        size = min(chosen.bytes(images, variant.io_dtype) for variant in variants)
        available = device().memory_bytes
        if 0 < available < size:  # 0: not known
            raise LabError(
                f"{chosen} at B = {images} needs {size / 1e9:.2f} GB, and {device().name} has "
                f"{available / 1e9:.2f}: take a smaller batch"
            )
    for variant in variants:
        labkit.check(variant, quiet=as_json)
    table = labkit.bench(variants, chosen, batch or None)
    if as_json:
        print(_format_json(table))
    else:
        print(
            labkit.table(
                table,
                columns={
                    "label": "variant",
                    "batch": "B",
                    "op_ms": "op time (ms)",
                    "layer_ms": "layer time (ms)",
                    "images_s": "images/s",
                    "x_reference": "time over reference",  # what the device needs at its reference rates
                },
            )
        )
    if csv:
        files.write(csv, table.to_csv(index=False, lineterminator="\n"))


def _format_json(table: pd.DataFrame) -> str:
    """Return a table as JSON: a list with an object per row."""
    return table.to_json(orient="records", indent=2, default_handler=str)


def _find_layer(name: str) -> Layer:
    """Return a preset's layer by a name like "lenet86-1"; LabError, which lists the names, if there is none."""
    from labkit.spec.layers import PRESETS

    layers = {
        f"{network}-{i}": layer
        for network, preset in PRESETS.items()
        for i, layer in enumerate(preset, 1)
    }
    if name not in layers:
        raise LabError(f"there is no layer {name!r}; there are {', '.join(layers)}")
    return layers[name]
