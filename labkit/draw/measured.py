"""Tables of measurements, as the charts read them."""

from collections.abc import Iterable

import pandas as pd

from labkit.base.errors import LabError
from labkit.draw.style import join_parts


class Measured:
    """Measurements to draw, from a table of `bench`, of recorded results, or any other one with these columns.

    `figure_name`, such as "draw.ladder", is for messages; `device` replaces what the table says.
    ``rows`` are the rows of layers, without those of a whole network; ``note`` says that the times
    are not a GPU's, or is empty.
    """

    def __init__(
        self,
        table: pd.DataFrame,
        columns: Iterable[str],
        figure_name: str,
        device: str = "",
        date: str = "",
    ):
        """Keep the rows of layers; LabError if the table lacks "label", "layer", "batch" or one of `columns`."""
        rows = table[table["layer"] != ""] if "layer" in table else table  # "": a whole network
        require_columns(rows, ["label", "layer", "batch", *columns], figure_name)
        # as `bench` sets it
        self.rows, self.figure_name, self.note = (rows, figure_name, table.attrs.get("note", ""))
        if not self.note and "engine" in rows and (rows["engine"] == "cpu").any():
            self.note = "Not GPU times: measured on the CPU engine."
        devices = rows["device"].unique() if "device" in rows else ()
        self.device, self.date = device or (devices[0] if len(devices) == 1 else ""), date
        self.is_recorded = "date" in rows  # as in all recorded times, and in no measured ones

    def keep(self, column: str, value: object) -> None:
        """Keep only the rows with this value in a column; LabError if there are none."""
        rows = self.rows[self.rows[column] == value]
        if not len(rows):
            values = ", ".join(map(str, self.rows[column].unique()))
            raise LabError(
                f"{self.figure_name} found no row with {column} = {value!r}; the table has {values}"
            )
        self.rows = rows

    def keep_largest_batch(self) -> int:
        """Keep only the rows of the largest batch, and return that batch."""
        batch = int(self.rows["batch"].max())
        self.keep("batch", batch)
        return batch

    def subtitle(self, *parts: object) -> str:
        """Return a figure's subtitle in one line: the parts that are not empty, the device and the date.

        The device is followed by "recorded" if the table has recorded times.
        """
        # a note, such as that these are no GPU's times, names the device already
        name = "" if self.note else self.device
        return join_parts(
            *parts, f"{name}, recorded" if name and self.is_recorded else name, self.date
        )


def require_columns(table: pd.DataFrame, columns: Iterable[str], figure_name: str) -> None:
    """Raise LabError, which names the figure, if a table lacks one of these columns or has no row."""
    if missing := [column for column in columns if column not in table]:
        raise LabError(
            f"{figure_name} needs the columns {', '.join(columns)}; the table lacks {', '.join(missing)}"
        )
    if not len(table):
        raise LabError(
            f"{figure_name} got a table without a row: measure, record or trace something first"
        )
