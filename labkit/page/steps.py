"""Follow a thread of a kernel, line by line: a table, and in JupyterLab a walk through it."""

import html
import json
import zlib
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from labkit.base.errors import LabError
from labkit.evidence.steps import follow_thread
from labkit.ladder.variants import Variant, as_variants
from labkit.spec.layers import LENET86, Layer, as_layer

_NOTE = (
    "Values are those after the line. In x, k and y the index is that of the whole array. Compiled without "
    "optimization, so a sum may differ from the GPU's in its last digit."
)
_LEFT = ' style="text-align:left"'  # JupyterLab: right
# Without its first line, a comment. ID stands for the id of the page's <div>, DATA for a list with
# a text per row.
_WALK = Path(__file__).with_name("walk.js").read_text(encoding="utf-8").partition("\n")[2].rstrip()


class Steps:
    """The steps of one thread.

    Prints as a table; in JupyterLab there are buttons to walk through it.

    Attributes
    ----------
    table : DataFrame
        A row per line that the thread ran: ``step`` from 1, ``line``, ``code``, ``changed`` (the
        variables that the line changed, with their values after it, a dict), ``values`` (all values
        known after it, a dict), ``accesses`` (a list of dicts: op, space, name, index, value). A
        value that has not been set is None.
    """

    def __init__(self, rows: pd.DataFrame, about: str, first: int, most: int):
        self.table, self._about, self._first, self._most = rows, about, first, most

    def _select_shown(self) -> pd.DataFrame:
        """Return the rows of `table` that are shown: at most `most` steps from step `first` on."""
        return self.table.iloc[self._first - 1 : self._first - 1 + self._most]

    @property
    def _caption(self) -> str:
        """The kernel, layer and thread, and which steps are shown if not all are: ", steps 3 to 42 of 1,000"."""
        steps = self._select_shown()
        last = self._first + len(steps) - 1
        return self._about + f", steps {self._first} to {last} of {len(self.table):,}" * (
            len(steps) < len(self.table)
        )

    def __repr__(self) -> str:
        steps = self._select_shown()
        texts = steps[["step", "line", "code"]].assign(
            did=[*map(_describe, steps["accesses"], steps["changed"])]
        )
        return f"{self._caption}\n{_NOTE}\n{texts.rename(columns={'did': 'what it did'}).to_string(index=False)}"

    def _repr_html_(self) -> str:
        """Return a table of the steps, and a script that puts buttons for walking through them above it."""
        steps = self._select_shown()
        rows = "".join(
            f'<tr><td class="figure">{row.step}</td><td class="figure">{row.line}</td><td{_LEFT}>'
            + "<br>".join(
                filter(
                    None,
                    (
                        f"<code>{html.escape(row.code)}</code>",
                        html.escape(_describe(row.accesses, row.changed)),
                    ),
                )
            )
            + "</td></tr>"
            for row in steps.itertuples()
        )
        page = (
            f'<table><caption{_LEFT}>{html.escape(self._caption)}<div class="lab-note">{_NOTE}</div></caption>'
            '<thead><tr><th class="figure">step</th><th class="figure">line</th>'
            f"<th{_LEFT}>code, and what it did</th></tr></thead><tbody>{rows}</tbody></table>"
        )
        name = f"labkit-steps-{zlib.crc32(page.encode()):08x}"  # the same in each execution
        states = [*map(_format_values, steps["line"], steps["code"], steps["values"])]
        data = json.dumps(states).replace("<", "\\u003c")  # no "</script>" may end the script
        walk = _WALK.replace("ID", name, 1).replace("DATA", data, 1)
        return f'<div id="{name}">{page}</div><script>{walk}</script>'


def _format_values(line: int, code: str, values: dict) -> str:
    """Return all known values after a step, as two lines of text: "line 12: ++c;" and "c = 1,  sum = 0.5"."""
    text = ",  ".join(
        f"{name} = {_format(value)}" for name, value in values.items() if value is not None
    )
    return f"line {line}: {code}\n{text}"


def _format(value) -> str:
    """Return a value as text: floats with at most five digits, arrays and structs in braces."""
    if value is None:
        return "not set"
    if isinstance(value, float):
        return f"{value:.5g}"
    if isinstance(value, list):
        return f"{{{', '.join(map(_format, value))}}}"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{name}: {_format(member)}' for name, member in value.items())}}}"
    return str(value)


def _describe(accesses: Sequence[dict], changed: dict) -> str:
    """Return as text what a line loaded ("ld"), then what it stored and changed: "tile[0, 3] is 0.5; sum = 1.5".

    An access is {"op": "ld", "space": "shared", "name": "tile", "index": [0, 3], "value": 0.5}.
    """
    memory = [
        f"{access['name']}[{', '.join(map(str, access['index']))}] {'is' if access['op'] == 'ld' else 'becomes'} "
        f"{_format(access['value'])}"
        for access in sorted(accesses, key=lambda access: access["op"] != "ld")
    ]
    return "; ".join([*memory, *(f"{name} = {_format(value)}" for name, value in changed.items())])


def step(
    of: Variant | int,
    thread: Sequence[int] = (0, 0, 0),
    block: Sequence[int] = (0, 0, 0),
    layer: Layer | str = LENET86[1],
    kernel: str | None = None,
    first: int = 1,
    most: int = 40,
) -> Steps:
    """Follow one thread of your kernel line by line, with the values of its variables.

    The CPU engine runs the kernel on one image, without optimization. The thread is followed twice,
    and memory that has not been set has other contents each time: what differs is shown as "not
    set".

    Parameters
    ----------
    of : Variant or rung number
        Your kernel, as a ``%%kernel`` cell gives it.
    thread, block : sequence of int
        Index of the thread in its block, and of the block: up to three numbers each.
    layer : Layer or its name
    kernel : str, optional
        Which of the variant's kernels; by default the first one that is launched.
    first, most : int
        The first step that is shown, from 1, and how many.

    Returns
    -------
    Steps

    Raises
    ------
    LabError
        There is no such thread, block, kernel or step; the kernel failed; or threads cannot be
        followed here.
    CompileError
        It does not compile.
    """
    for name, value in (("first", first), ("most", most)):
        if not isinstance(value, int) or value < 1:
            raise LabError(f"{name} = {value!r}: give a whole number from 1")
    layer = as_layer(layer)
    # A row: {"line": 12, "values": {"sum": 1.5, "c": 0}, "changed": ["sum"], "accesses": [...]},
    # with all values known.
    rows = follow_thread(of, layer, thread, block, kernel)
    chosen = as_variants(of)[0]
    if first > len(rows):
        raise LabError(
            f"first = {first}: this thread makes {len(rows):,} steps in {chosen.file_name}"
        )
    lines = chosen.source.splitlines()
    steps = pd.DataFrame(
        [
            {
                "step": number,
                "line": row["line"],
                "code": lines[row["line"] - 1].split("//")[0].strip(),
                "changed": {name: row["values"][name] for name in row["changed"]},
                "values": row["values"],
                "accesses": row["accesses"],
            }
            for number, row in enumerate(rows, 1)
        ]
    )
    # three numbers each: those not given are 0
    where = f"thread {(*thread, 0, 0)[:3]} of block {(*block, 0, 0)[:3]}"
    return Steps(steps, f"{chosen.label}, {layer.name}: {where}", first, most)
