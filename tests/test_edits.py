"""The edits of the rungs and the programs of `recording/`: they are right, and their recorder reads them."""

import shutil
from types import SimpleNamespace

import pandas as pd
import pytest
from typer.testing import CliRunner

import labkit
from hostcuda.errors import EngineError
from labkit.base.errors import LabError
from labkit.measure.check import TEST_SHAPES
from labkit.spec import devices
from labkit.spec.layers import LENET28
from recording import edits, estimates
from recording.__main__ import app
from recording.keep import stamp

pytestmark = pytest.mark.thorough("recorders: only the makers of data/ run them")

EDITS, PROGRAMS = edits.read_edits(), edits.every_program()
SMALL = next((layer, batch) for layer, batch in TEST_SHAPES if layer.name == "small and odd")
SIZES = {  # of the others 4096
    "transpose": 64,
    "sgemm": 64,
    "stencil": 64,
    "stencil3d": 32,
    "bilinear": 64,
    "mandelbrot": 64,
    "matvec": 64,
    "maxpool": 128,
}
MUTANTS = {  # by program: what its check has to find
    "bilinear": ("0.5f * (row % 2)", "0.25f * (row % 2)"),
    "conv1d": ("k < 17; ++k)\n        sum += weights", "k < 16; ++k)\n        sum += weights"),
    "copy": ("y[i] = x[i]", "y[i] = x[i ^ 1]"),
    "gather": ("y[i] = x[places[i]]", "y[i] = x[places[i ^ 1]]"),
    "gelu": ("v * v * v)));\n}\n\nint", "v * v)));\n}\n\nint"),
    "horner": ("k <= 128", "k < 8"),
    "mandelbrot": ("+ column] = steps(column, row, n)", "+ column] = steps(row, 0, n)"),
    "matvec": ("int column = lane; column < n", "int column = lane; column < n - 32"),
    "maxpool": ("fmaxf(lower.x, lower.y)", "lower.x"),
    "reduce_shuffle": ("lane < 8", "lane < 7"),
    "reduce_tree": ("apart < 256", "apart < 128"),
    "rmsnorm": ("warp < 8", "warp < 7"),
    "saxpy": ("a * x[i] + y[i]", "x[i] + y[i]"),
    "scan": ("i >= apart", "i > apart"),
    "sgemm_blocked": ("[(row0 + y + 16 * i) * n + column0", "[(row0 + y + 16 * j) * n + column0"),
    "sgemm_naive": (
        "int k = 0; k < n; ++k)\n        sum += a[row",
        "int k = 1; k < n; ++k)\n        sum += a[row",
    ),
    "sgemm_tiled": ("k < 16", "k < 15"),
    "softmax": ("k < 16; ++k)\n        sum +=", "k < 15; ++k)\n        sum +="),
    "special": ("k < 64; ++k)\n        sum += expf", "k < 63; ++k)\n        sum += expf"),
    "stencil3d": ("x[i - n * n] + x[i + n * n]);\n}\n\nint", "2 * x[i - n * n]);\n}\n\nint"),
    "strided": ("y[i] = x[8 * i]", "y[i] = x[i]"),
    "stencil": ("column == n - 1", "column == n"),
    "transpose_naive": ("y[column * n + row + i]", "y[column * n + row]"),
    "transpose_padded": (
        "tile[threadIdx.x][threadIdx.y + i]",
        "tile[threadIdx.y + i][threadIdx.x]",
    ),
    "transpose_tiled": ("i < 32; i += 8)\n        y", "i < 24; i += 8)\n        y"),
}


def size_of(path):
    return str(SIZES.get(path.stem.partition("_")[0], 4096))


# ---------------------------------------------------------------------------------------- the edits
def test_every_file_has_a_row():
    files = [edit.variant.path.name for edit in EDITS]
    assert (
        sorted(files) == sorted(path.name for path in edits.EDITS.glob("*.cu")) and len(files) == 30
    )
    assert pd.read_csv(edits.EDITS / "edits.csv")["idea"].str.endswith(".").all()


@pytest.mark.parametrize("edit", EDITS, ids=lambda edit: edit.variant.path.stem)
def test_an_edit_is_right(edit):
    """On a small layer; `python -m recording edits` checks the layers that it times."""
    assert edit.variant.path.name.startswith(f"{edit.variant.rung.number:02d}_")
    assert edit.variant != edit.start and edit.variant.options == edit.start.options
    for layer in edit.layers:
        edit.variant.supports(layer)
    labkit.check(edit.variant, [SMALL], quiet=True)


def test_a_row_chooses_options_and_layers(tmp_path):
    shutil.copy(edits.EDITS / "01_float4_row.cu", tmp_path)
    (tmp_path / "edits.csv").write_text(
        "file,rung,options,layers,idea\n01_float4_row.cu,1,block=32x8,lenet86 layer 2 + lenet72 layer 1,Wide loads.\n"
    )
    (edit,) = edits.read_edits(tmp_path)
    assert edit.variant.options == {"block": (32, 8)} and edit.start == labkit.variant(
        1, block=(32, 8)
    )
    assert edit.layers == (labkit.LENET86[1], labkit.LENET72[0]) and edit.idea == "Wide loads."
    (tmp_path / "01_float4_row.cu").unlink()
    with pytest.raises(LabError, match="there is no kernel file"):
        edits.read_edits(tmp_path)


# ------------------------------------------------------------------------------------- the programs
@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_a_program_runs_and_checks_itself(path):
    result = edits.run_program(path, "cpu", size_of(path))
    assert result["name"] == path.stem and result["size"] == int(size_of(path)) and result["ms"] > 0
    assert f"void {result['kernel']}(" in path.read_text()


@pytest.mark.thorough
@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_a_wrong_program_says_so(path, tmp_path):
    right, wrong = MUTANTS[path.stem]
    assert right in path.read_text()
    shutil.copy(path.with_name("program.cuh"), tmp_path)
    (tmp_path / path.name).write_text(path.read_text().replace(right, wrong))
    with pytest.raises(EngineError, match=rf"failed with exit status 1(?s:.*){path.stem}: "):
        edits.run_program(tmp_path / path.name, "cpu", size_of(path))


def test_a_size_that_is_no_multiple_is_refused():
    with pytest.raises(EngineError, match="a multiple of 1024"):
        edits.run_program(edits.PROGRAMS / "copy.cu", "cpu", "1000")


@pytest.mark.parametrize(
    "line", ["copy,4096,copy_float4", "copy,4096,copy_float4,-1", "copy,4096,copy_float4,0", ""]
)
def test_another_line_is_refused(tmp_path, line):
    (tmp_path / "program.py").write_text(f"print({line!r})")
    with pytest.raises(LabError, match=r"program\.py has to print one line, name,size,kernel,ms"):
        edits.run_program(tmp_path / "program.py", "cpu")


# ------------------------------------------------------------------------------------- the recorder
def record(folder, *arguments):
    return CliRunner().invoke(app, ["edits", "--folder", str(folder), *arguments])


def test_nothing_is_recorded_without_a_gpu(tmp_path, monkeypatch):
    monkeypatch.setattr(
        devices, "device", lambda: SimpleNamespace(engine="cpu", name="a processor")
    )
    assert "edits are timed on a GPU" in str(record(tmp_path).exception)
    assert not [*tmp_path.iterdir()]


def test_what_is_measured_is_kept(tmp_path, monkeypatch):
    """The recorder takes the CPU engine for a GPU; there are two edits and two programs, and one program fails."""
    layers = {"01_float4_row": SMALL[:1], "01_sum_per_row": (SMALL[0], LENET28[0])}
    few = [
        edit._replace(layers=layers[edit.variant.path.stem])
        for edit in EDITS
        if edit.variant.path.stem in layers
    ]

    def run_program(path, engine, size="512", repeats="20"):
        if path.stem != "scan":
            raise EngineError(f"{path.name} fails")
        return {"name": "scan", "size": int(size), "kernel": "scan_block", "ms": 1.5}

    monkeypatch.setattr(edits, "require_gpu", lambda rule: None)
    monkeypatch.setattr(edits, "stamp", lambda table: stamp(table, device_name="a GPU"))
    monkeypatch.setattr(edits, "read_edits", lambda: few)
    monkeypatch.setattr(edits, "run_program", run_program)
    for _ in range(2):  # the last one replaces what the one before has kept
        outcome = record(tmp_path, "--batch", "1", "--repeat", "1")
        assert outcome.exit_code == 0, outcome.output
        assert "01_sum_per_row.cu" in outcome.output and "FAILED copy.cu fails" in outcome.output
    rows, programs = (pd.read_csv(tmp_path / f"{name}.csv") for name in ("edits", "programs"))
    assert set(zip(rows["label"], rows["layer"], strict=True)) == {
        (label, layer.name)
        for edit in few
        for layer in edit.layers
        for label in ("baseline", f"baseline, {edit.variant.path.name}")
    }
    assert len(rows) == 5
    assert (
        (rows["op_ms"] > 0).all()
        and (rows["device"] == "a GPU").all()
        and rows["date"].notna().all()
    )
    assert programs.drop(columns="date").to_dict("records") == [
        {"device": "a GPU", "name": "scan", "size": size, "kernel": "scan_block", "ms": 1.5}
        for size in (512, edits.size_of("scan"))
    ]


# ------------------------------------------------------------------------------------ the intervals
def test_a_unit_has_an_interval_if_what_was_not_fitted_was_predicted_well():
    def predicted(unit, ratios, kernels=4):
        return pd.DataFrame(
            {
                "unit": unit,
                "unlike": "",
                "label": [f"{unit} {n % kernels}" for n in range(len(ratios))],
                "op_ms": ratios,
                "estimate": 1.0,
            }
        )

    narrow, wide = [0.9, 1.0, 1.1, 1.2] * 5, [0.5, 1.0, 1.0, 3.0] * 5
    unseen = pd.concat(
        [predicted("good", narrow), predicted("bad", wide), predicted("rare", narrow, kernels=2)]
    )
    refused = predicted("good", [9.0] * 20).assign(unlike="it is divergent")
    found = estimates.find_intervals(
        predicted("good", [0.7, 1.0] * 10), pd.concat([unseen, refused])
    )
    assert found == {"good": (0.7, 1.2)}
