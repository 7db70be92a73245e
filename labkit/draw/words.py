"""What the charts share: reading tables of measurements."""

from labkit.base.errors import LabError


class Measured:
    """Measurements to draw, from a table of `bench`, from recorded results, or from any table with these columns.

    Parameters
    ----------
    source : DataFrame or Recorded
        As `bench` returns it, or as `recorded` does.
    columns : sequence of str
        Columns that have to be there.
    who : str
        The drawing function, for messages.
    device, date : optional
        In place of what the source says.

    Attributes
    ----------
    rows : DataFrame
        ``layer`` by name; figures of a whole network are left out.
    device, date : str
        Empty where the source does not say.
    note : str
        What must be said beside times that are not a GPU's; else empty.

    Raises
    ------
    LabError
        If a column is missing or no row is left.
    """

    def __init__(self, source, columns, who, device=None, date=None):
        own, rows = (None, source) if hasattr(source, "columns") else (source, source.table)
        self.note = rows.attrs.get("note", "")
        need(rows, columns, who)
        rows = rows.copy(deep=False)
        if "layer" in rows:
            rows["layer"] = rows["layer"].map(layer_name)
            rows = rows[rows["layer"] != ""]
        if not len(rows):
            raise LabError(f"{who} got a table without a row: measure or load something first")
        if not self.note and "engine" in rows and (rows["engine"] == "cpu").any():
            self.note = "Not GPU times: measured on the CPU engine."
        devices = rows["device"].unique() if "device" in rows else ()
        self.device = layer_name(device) or getattr(own, "device", "") or (devices[0] if len(devices) == 1 else "")
        self.date = date or getattr(own, "date", "")
        self.rows = rows

    def only(self, who, **wanted):
        """Keep the rows that match, of those columns that there are; None means any."""
        for column, value in wanted.items():
            if value is None or column not in self.rows:
                continue
            known = ", ".join(str(each) for each in self.rows[column].unique())
            self.rows = self.rows[self.rows[column] == layer_name(value)]
            if not len(self.rows):
                raise LabError(f"{who} found no row with {column} = {layer_name(value)!r}; the table has {known}")
        return self

    def subtitle(self, *parts):
        """Parts, device and date in one line."""
        device = "" if self.note else self.device  # the note names it
        return "   ·   ".join(str(part) for part in (*parts, device, self.date) if part)


def need(table, columns, who):
    """Refuse a table that lacks a column."""
    missing = [column for column in columns if column not in table]
    if missing:
        raise LabError(f"{who} needs the columns {', '.join(columns)}; the table lacks {', '.join(missing)}")


def layer_name(layer):
    """A layer's name, of a `Layer` or of its name; likewise of a device."""
    return getattr(layer, "name", layer)
