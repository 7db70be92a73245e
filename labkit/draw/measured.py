"""Tables of measurements, as the charts read them."""

from collections.abc import Iterable

import pandas as pd

from labkit.base.errors import LabError
from labkit.draw.style import join_parts


class Measured:
    """Measurements to draw, from a table of `bench`, from recorded results, or from any table with these columns.

    `who` is the drawing function, for messages; `device` and `date` replace what the source says. ``rows`` has the
    layers by name and no figures of a whole network; ``note`` says that the times are not a GPU's, or is empty.
    """

    def __init__(self, source, columns: Iterable[str], who: str, device: str | None = None, date: str | None = None):
        own, rows = (None, source) if hasattr(source, "columns") else (source, source.table)
        self.who, self.note = who, rows.attrs.get("note", "")
        if "layer" in rows:
            rows = rows.assign(layer=rows["layer"].map(name_of))
            rows = rows[rows["layer"] != ""]
        require_columns(rows, columns, who)
        if not self.note and "engine" in rows and (rows["engine"] == "cpu").any():
            self.note = "Not GPU times: measured on the CPU engine."
        devices = rows["device"].unique() if "device" in rows else ()
        self.device = name_of(device) or getattr(own, "device", "") or (devices[0] if len(devices) == 1 else "")
        self.date = date or getattr(own, "date", "")
        self.rows = rows

    def only(self, layer=None, batch: int | None = None) -> int | None:
        """Keep the rows of a layer, if one is given, and of a batch, by default the largest; return the batch."""
        if batch is None and "batch" in self.rows:
            batch = int(self._select("layer", layer)["batch"].max())
        for column, value in (("layer", layer), ("batch", batch)):
            self.rows = self._select(column, value)
        return batch

    def _select(self, column, value):
        """Return the rows with this value in a column; all rows if the value is None or there is no such column."""
        if value is None or column not in self.rows:
            return self.rows
        rows = self.rows[self.rows[column] == name_of(value)]
        if not len(rows):
            values = ", ".join(map(str, self.rows[column].unique()))
            raise LabError(f"{self.who} found no row with {column} = {name_of(value)!r}; the table has {values}")
        return rows

    def subtitle(self, *parts: object) -> str:
        """Join the parts, the device and the date in one line."""
        return join_parts(*parts, "" if self.note else self.device, self.date)  # the note names the device


def require_columns(table: pd.DataFrame, columns: Iterable[str], who: str) -> None:
    """Refuse a table that lacks a column or has no row."""
    missing = [column for column in columns if column not in table]
    if missing:
        raise LabError(f"{who} needs the columns {', '.join(columns)}; the table lacks {', '.join(missing)}")
    if not len(table):
        raise LabError(f"{who} got a table without a row: measure, record or trace something first")


def name_of(thing) -> str:
    """Return the name of a `Layer` or a device; a name as it is."""
    return getattr(thing, "name", thing)
