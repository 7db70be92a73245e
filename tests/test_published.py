"""The table of data/published/README.md: every step of the reports, with a page and a row of the lab that exist."""

import re

import pandas as pd
import pytest

import labkit as lab
from labkit.base.paths import data_dir
from labkit.ladder.options import format_option
from labkit.ladder.tables import as_options
from labkit.networks.lenet28 import EXPERIMENTS
from labkit.notebooks import execute
from recording.__main__ import app

pytestmark = pytest.mark.core("the table that the pages are compared with")

COLUMNS = ["report", "step", "what", "page", "here", "there", "h200"]
TRAINING = "14_training"
STEPS = pd.concat(
    [
        pd.read_csv(data_dir() / "published" / name, dtype={"report": str})
        for name in ("op_times.csv", "training.csv")
    ]
)[["report", "step"]].drop_duplicates()


def _read_rows():
    """Return the table of data/published/README.md."""
    lines = (data_dir() / "published" / "README.md").read_text(encoding="utf-8").splitlines()
    cells = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in lines
        if re.match(r"\| 00\d \|", line)
    ]
    assert all(len(cell) == len(COLUMNS) for cell in cells)
    return pd.DataFrame(cells, columns=COLUMNS)


ROWS = _read_rows()
every_row = pytest.mark.parametrize(
    "row",
    list(ROWS.itertuples(index=False, name="Row")),
    ids=lambda row: f"{row.report} {row.step}".replace("*", ""),
)


def test_every_step_that_was_published_has_one_row():
    of_the_files = ROWS[~ROWS["step"].str.startswith("*")]
    listed = list(of_the_files[["report", "step"]].itertuples(index=False, name=None))
    assert len(listed) == len(set(listed))
    assert set(listed) == set(STEPS.itertuples(index=False, name=None))
    described = ROWS[ROWS["step"].str.startswith("*")]
    assert described["step"].str.fullmatch(r"\*[^*]+\*").all()
    assert not described.duplicated(["report", "step"]).any()


@every_row
def test_a_row_is_complete_and_its_page_exists(row):
    assert all(row)
    # The page of the training belongs to report 001, and to nothing else.
    assert (row.page == TRAINING) == (row.report == "001")
    if row.page != TRAINING:
        assert (execute.folder() / f"{row.page}.ipynb").is_file()


@every_row
def test_the_row_here_exists(row):
    here = re.fullmatch(r"`([^`]+)`", row.here)[1]
    name, _, chosen = here.partition(", ")
    if name == "streams":
        assert not lab.recorded("H200").streams(7, **as_options(chosen)).empty
    elif name.startswith("training: "):
        assert name.removeprefix("training: ") in EXPERIMENTS
        assert row.page == TRAINING
    elif here.startswith("lab."):
        assert callable(getattr(lab, here.removeprefix("lab.")))
    elif here.startswith("python -m recording "):
        assert here.split()[-1] in [
            command.callback.__name__ for command in app.registered_commands
        ]
    else:
        kernel = lab.variant(name, **as_options(chosen))
        assert all(
            f"{option}={format_option(kernel.options[option])}" in chosen
            for option in as_options(chosen)
        )
        assert not lab.recorded("H200").select(kernel, lab.LENET86[0], 10_000).empty
