"""What pages use: tables, predictions, claims; and the names that the package offers them."""

import datetime
import inspect
import pkgutil
import re
import subprocess
import sys
from types import SimpleNamespace

import pandas as pd
import pytest

import labkit
from hostcuda.errors import EngineError
from labkit.base.errors import LabError
from labkit.base.tables import table
from labkit.measure.check import CheckFailed
from labkit.notebooks import execute
from labkit.page import claims as page
from labkit.page import times as times_of_a_page
from labkit.spec.layers import LENET86

pytestmark = pytest.mark.thorough("pages as they are published")


def test_every_public_name_is_there():
    for name in labkit.__all__:
        assert getattr(labkit, name) is not None
    assert set(labkit.__all__) <= set(dir(labkit))
    assert len(labkit.__all__) <= 41
    with pytest.raises(AttributeError, match="No labkit attribute convolve"):
        _ = labkit.convolve


def list_functions(package):
    """Yield (name, function) of what a package exports: functions, and methods of the lab's classes."""
    for name in package.__all__:
        thing = getattr(package, name)
        members = {name: thing} if inspect.isfunction(thing) else {}
        if inspect.isclass(thing) and thing.__module__.startswith("labkit."):
            members = {f"{name}.{key}": value for key, value in vars(thing).items()}
        for key, value in members.items():
            is_public = not key.rpartition(".")[2].startswith("_") or key.endswith(".__init__")
            if inspect.isfunction(value) and is_public:
                yield key, value


def test_pages_use_names_of_the_stubs_and_these_have_types():
    code = "\n".join(
        cell["source"]
        for path in execute.list_notebooks()
        for cell in execute.read(path).nb.cells
        if cell["cell_type"] == "code"
    )
    for package, pattern in (
        (labkit, r"\blab\.([A-Za-z]\w*)"),
        (labkit.draw, r"\blab\.draw\.(\w+)"),
    ):
        assert {*re.findall(pattern, code)} <= {*package.__all__}
        for name, function in list_functions(package):
            signature = inspect.signature(function)
            types = [parameter.annotation for parameter in signature.parameters.values()]
            types = types[1:] if "." in name else types  # without self
            if not name.endswith(".__init__"):
                types.append(signature.return_annotation)
            assert inspect.Parameter.empty not in types, name


def test_no_module_hides_a_public_function():
    """A package of labkit becomes its attribute when it is imported."""
    packages = {module.name for module in pkgutil.iter_modules(labkit.__path__)}
    assert packages & set(labkit.__all__) == {"draw"}


def test_setup_says_which_engine_and_what_its_times_mean():
    banner = page.setup()
    assert labkit.device().name in banner.page
    assert repr(banner).startswith("CPU engine" if labkit.device().engine == "cpu" else "GPU")
    if labkit.device().engine == "cpu":
        assert "<b>not a GPU's</b>" in banner.page
    assert "<" not in repr(banner)


@pytest.mark.parametrize(
    ("modules", "heavy"),
    [
        ("labkit", "numpy pandas matplotlib hostcuda tqdm typer nbconvert"),
        ("labkit, labkit.draw", "matplotlib pandas"),
        (
            # run kernels
            "labkit.evidence.child, labkit.evidence.steps, labkit.evidence.accesses, labkit.exercises.grader",
            "matplotlib pandas",
        ),
        ("labkit.networks.images", "pooch requests"),
    ],
)
def test_import_is_light(modules, heavy):
    code = (
        f"import sys, {modules}; print(*(name for name in {heavy.split()} if name in sys.modules))"
    )
    process = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert process.stdout == "\n"


@pytest.mark.parametrize(
    ("engine", "begins"), [("gpu", "GPU: NVIDIA <H200>"), ("cpu", "CPU engine: NVIDIA <H200>")]
)
def test_a_stored_banner_is_known_by_its_date(engine, begins):
    banner = page.banner(engine, "NVIDIA <H200>", datetime.date(2026, 11, 3))
    assert repr(banner).startswith(
        f"{begins}. These cells ran on 3 November 2026. If that is not today, the page"
    )
    assert "NVIDIA &lt;H200&gt;" in banner.page
    assert f"{datetime.date.today():%B %Y}" in page.setup().page


def test_a_column_that_a_table_lacks_is_refused():
    """What tables look like is on the pages, whose outputs nbval compares; here is what no page has."""
    with pytest.raises(EngineError, match=r"no column 'c' in this table; it has a, b"):
        table(pd.DataFrame({"a": [1], "b": [2.5]}), columns={"c": "third"})


def test_a_table_escapes_its_texts_and_shows_its_note():
    frame = pd.DataFrame({"label": ["01 <baseline>"]})
    frame.attrs["note"] = "Not GPU times."
    assert "01 &lt;baseline&gt;" in table(frame).page and "Not GPU times." in table(frame).page


@pytest.mark.parametrize(
    ("predicted", "measured", "rows"),
    [
        (
            {"op_time_ratio": 2.0, "share": 0.5},
            {"op_time_ratio": 3.0},
            [["op", "time", "ratio", "2", "3", "1.50"]],
        ),
        (
            {"conflicts": 0, "atomics": 0.0},
            {"conflicts": 12, "atomics": 0},
            [["conflicts", "0", "12", "–"], ["atomics", "0", "0", "–"]],
        ),
        (
            {"loads": ..., "share": 0.5},
            {"loads": 3, "share": 0.5},
            [["loads", "–", "3", "–"], ["share", "0.500", "0.500", "1"]],
        ),
    ],
)
def test_a_prediction_is_held_against_the_measurement(predicted, measured, rows):
    """One that is not filled in is a dash, and the caption says what to do."""
    panel = page.predict(**predicted).against(**measured)
    assert [line.split() for line in repr(panel).splitlines()[-len(rows) :]] == rows
    assert ("write numbers in place of ..." in repr(panel)) == (... in predicted.values())
    with pytest.raises(LabError, match="'bytes' was not predicted"):
        page.predict(**predicted).against(bytes=1)


@pytest.fixture
def on(monkeypatch):
    """Return a function that makes pages believe in a device."""

    def use(engine):
        """Pretend that this engine is in use."""
        device = SimpleNamespace(
            engine=engine, name="Some GPU" if engine == "gpu" else "a processor"
        )
        for module in (page, times_of_a_page):
            monkeypatch.setattr(module, "device", lambda: device)

    return use


def test_without_a_gpu_times_are_recorded_and_counts_are_counted(monkeypatch, on):
    monkeypatch.setattr(
        times_of_a_page, "bench", lambda *args, **options: pytest.fail("no time is measured")
    )
    on("cpu")
    panel = labkit.times([1, 2], LENET86[0], counts={"global_load_requests": "loads"})
    rows = [
        line.split()[-2:]
        for line in repr(panel).splitlines()
        if line.strip().startswith(("01", "02"))
    ]
    assert rows == [["78,400", "12.3"], ["39,200", "12.3"]]
    assert panel.op_ms.isna().all(axis=None) and list(panel.op_ms.index) == [
        "01 baseline",
        "02 constant",
    ]
    assert "op time here" not in panel.page and "no time is measured" in panel.page


def test_on_a_gpu_times_are_measured_and_a_readers_kernel_has_none_recorded(monkeypatch, on):
    mine = labkit.variant(1, source=labkit.variant(1).source + "// my own\n")
    measured = pd.DataFrame(
        {"layer": LENET86[0].name, "label": ["01 baseline", mine.label], "op_ms": [1.5, 2.5]}
    )
    on("gpu")
    monkeypatch.setattr(times_of_a_page, "bench", lambda *args, **options: measured)
    panel = labkit.times([1, mine], LENET86[0])
    rows = [line.split()[-2:] for line in repr(panel).splitlines() if line.strip().startswith("01")]
    assert rows == [["1.50", "12.3"], ["2.50", "–"]]
    assert panel.op_ms.at[mine.label, LENET86[0].name] == 2.5
    assert "Measured here on Some GPU, 1,000 images" in panel.page


def test_times_of_a_wrong_kernel_are_not_shown():
    wrong = labkit.variant(1, source=labkit.variant(1).source.replace("h >= Ho", "h >= Ho - 1"))
    with pytest.raises(CheckFailed, match="is wrong on"):
        labkit.times(wrong, LENET86[0])


@pytest.mark.parametrize("missing", [None, float("nan"), pd.NA, pd.NaT])
def test_what_is_missing_is_a_dash(missing):
    frame = pd.DataFrame(
        {"sizes": [[1, 2], (3, 4)], "count": pd.Series([7, missing], dtype=object)}
    )
    assert repr(table(frame)).split() == ["sizes", "count", "[1,", "2]", "7", "(3,", "4)", "–"]


def test_claim(capsys):
    page.claim("the sky is up", True)
    assert capsys.readouterr().out == "✓ the sky is up\n"
    with pytest.raises(page.ClaimFailed, match="the figures contradict: the sky is down"):
        page.claim("the sky is down", False)
    with pytest.raises(AssertionError):
        page.claim("a NaN is no evidence", float("nan") > 0)


@pytest.mark.parametrize(
    ("engine", "here", "verdict"),
    [
        ("gpu", True, "agrees"),
        ("gpu", False, f"does not agree. {page._OTHERWISE}"),
        ("gpu", None, ""),
        ("cpu", True, ""),
    ],
)
def test_only_a_gpu_agrees_or_not(capsys, on, engine, here, verdict):
    on(engine)
    page.claim("so", True, here=here)
    lines = capsys.readouterr().out.splitlines()
    assert lines == ["✓ so", *([f"  Some GPU, measured here: {verdict}"] if verdict else [])]
