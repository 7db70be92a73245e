"""The playground judges without NumPy: what it says is what the lab says, word for word."""

import json
import subprocess
import sys

import numpy as np
import pytest

from hostcuda import processes, temporary
from labkit.base.errors import CheckFailed
from labkit.exercises import attempts, grade
from labkit.exercises.exercise import exercise
from labkit.exercises.judge import judge
from labkit.exercises.trial import list_trials
from labkit.measure.compare import compare, compare_array, unwritten
from labkit.measure.symptoms import Products
from labkit.spec.reference import conv_float64, error_scale
from labkit_playground import comparison, data, site

pytestmark = pytest.mark.thorough("the playground, in browsers")


def said(function, *arguments):
    """Return the message of the CheckFailed that a call raises; "" if it raises none."""
    try:
        function(*arguments)
    except CheckFailed as wrong:
        return str(wrong)
    return ""


def flat(array):
    return np.asarray(array, np.float64).ravel().tolist()


def both(y, x, k, allowed):
    """Return what the lab and the playground say about an output."""
    expected, title = conv_float64(x, k), "on a layer, B = 2 (integers)"
    array = comparison.Array(
        y.tobytes(), y.dtype.name, y.shape, flat(expected), flat(np.atleast_1d(allowed))
    )
    inputs = Products(flat(x), flat(k), x.shape, k.shape)
    return (
        said(compare, y, expected, allowed, y.dtype, title, (x, k)),
        said(comparison.compare, array, title, inputs),
    )


def wrong_outputs():
    """Yield outputs of a convolution with mistakes that the checker names, and with others, in float and half."""
    rng = np.random.default_rng(7)
    for dtype in (np.float32, np.float16):
        x, k = (
            rng.integers(-4, 5, shape).astype(np.float32) for shape in ((2, 2, 7, 7), (5, 2, 3, 3))
        )
        right = conv_float64(x, k).astype(dtype)
        unset = np.full(right.nbytes, 0xFF, np.uint8).view(dtype).reshape(right.shape)
        one = right.copy()
        one[1, 3, 2, 4] += 1
        part = right.copy()
        part[:, 2:] = unset[:, 2:]
        odd = right.copy()
        odd[0, 0, 0, :3] = np.nan, np.inf, -np.inf
        for y in (
            right,
            unset,
            np.zeros_like(right),
            one,
            part,
            odd,
            -right,
            right * dtype(100),
            right.reshape(5, 2, 5, 5).swapaxes(0, 1),
            right.swapaxes(2, 3),
            np.roll(right, 1, 3),
            np.roll(right, -1, 1),
            conv_float64(x, k[:, :, ::-1, ::-1]).astype(dtype),
            conv_float64(x, k.swapaxes(2, 3)).astype(dtype),
        ):
            yield np.ascontiguousarray(y), x, k, 0.0
        yield (
            right + np.asarray(rng.normal(0, 0.01, right.shape), dtype),
            x,
            k,
            1e-4 * error_scale(x, k),
        )


def test_a_wrong_convolution_is_described_alike():
    messages = set()
    for y, x, k, allowed in wrong_outputs():
        mine, theirs = both(y, x, k, allowed)
        assert mine == theirs
        messages |= {line for line in mine.splitlines() if line.startswith("It looks")}
    assert len(messages) >= 9  # the mistakes are recognized


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_an_output_that_nobody_wrote_has_the_same_mark(dtype):
    dtype = np.dtype(dtype)
    assert comparison._UNWRITTEN[dtype.itemsize] == unwritten(dtype).tobytes()


@pytest.mark.parametrize("dtype", ["float32", "int32", "uint32"])
def test_a_wrong_array_is_described_alike(dtype):
    rng = np.random.default_rng(3)
    expected = rng.integers(0, 100, (6, 9)).astype(dtype)
    for places in ([], [(2, 5)], [(0, 0), (5, 8)]):
        got = expected.copy()
        for place in places:
            got[place] += 7
        array = comparison.Array(got.tobytes(), dtype, got.shape, flat(expected), [0.5])
        title = "out, here,"
        assert said(compare_array, title, got, expected, 0.5) == said(
            comparison.compare_array, title, array
        )


# --------------------------------------------------------------------------------------------------
# The modules of the page, in a Python without NumPy

CHILD = """
import json, sys
sys.path = [sys.argv[1], *(path for path in sys.path if "site-packages" not in path)]
from labkit_playground import judging
folder = sys.argv[1]
judging.load(open(folder + "/exercises.json").read())
asked = json.load(open(folder + "/asked.json"))
later = f"{folder}/later/{asked['number']}"
judging.add(asked["number"], open(later + ".json").read(), open(later + ".bin", "rb").read())
arrays = [[{name: bytes.fromhex(data) for name, data in run.items()} for run in runs] for runs in asked["arrays"]]
said = judging.grade(asked["number"], asked["source"], json.dumps(asked["events"]), arrays, 1)
print(json.dumps({"grade": json.loads(said), "exercises": json.loads(judging.exercises()),
                  "numpy": "numpy" in sys.modules and hasattr(sys.modules["numpy"], "array")}))
"""


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """Write the page's modules and data as its Python finds them."""
    folder = tmp_path_factory.mktemp("page")
    for name, content in site.python_files().items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    (folder / "later").mkdir()
    for name, content in data.collect(["04", "07 step=rows", "11"]).items():
        (folder / name).write_bytes(content)
    return folder


def judged(tree, asked, source):
    """Return the lab's judgement of an attempt, and that of the page's modules on the same run."""
    with temporary.folder() as folder:
        command, environment = attempts.write_job(asked, source, folder)
        outcome = attempts.collect_result(
            asked, folder, processes.run(command, environment, 300, capture=True)
        )
    mine = judge(asked, source, outcome)
    arrays = [
        [{name: array.tobytes().hex() for name, array in run.items()} for run in runs]
        for runs in outcome.arrays
    ]
    (tree / "asked.json").write_text(
        json.dumps(
            {"number": asked.number, "source": source, "events": outcome.events, "arrays": arrays}
        )
    )
    process = subprocess.run(
        [sys.executable, "-I", "-c", CHILD, str(tree)], capture_output=True, text=True, check=True
    )
    return mine, json.loads(process.stdout)


@pytest.mark.parametrize(("number", "which"), [("00a", 0), ("04a", 2), ("P1a", 3), ("08a", 1)])
def test_the_page_judges_as_the_lab(tree, number, which):
    asked = exercise(number)
    (source,) = [*list_trials(asked)][which].attempt
    mine, page = judged(tree, asked, source)
    assert page["grade"]["verdict"] == mine.verdict
    assert [(line["ok"], line["text"], line["kind"]) for line in page["grade"]["lines"]] == [
        (line.ok, line.text, line.kind) for line in mine.lines
    ]
    assert page["grade"]["text"].startswith(repr(mine))
    advice = grade._write_advice(mine, source, record=False)
    assert page["grade"]["advice"] == (mine.mistake or advice)
    assert not page["numpy"]


def test_it_offers_the_kernels_of_parts_1_and_2_and_of_practice(tree):
    stored = json.loads((tree / "exercises.json").read_text())
    offered = {number for number, judged in stored.items() if not judged["missing"]}
    assert len(offered) >= 36 and {"04a", "P5b"} <= offered and not {"11a", "14a", "P8a"} & offered
    assert all(
        case["launches"] and case["runs"]
        for number in offered
        for case in json.loads((tree / "later" / f"{number}.json").read_text())
    )
