"""Similar hand-ins are found, whatever their names, order and layout."""

import itertools
import re
from pathlib import Path

import html5lib
import numpy as np
import pytest
from typer.testing import CliRunner

from labkit.cli import app
from labkit.exercises.exercise import exercise
from labkit.notebooks import clean
from labkit_classroom import similarity
from labkit_classroom.submissions import Submission

pytestmark = pytest.mark.thorough("a class of hand-ins: minutes")

SOFTMAX = Path(__file__).parent / "similar" / "softmax"
# Eight kernels by as many authors, and the lab's own.
INDEPENDENT = {path.stem: path.read_text() for path in sorted(SOFTMAX.glob("*.cu"))} | {
    "lab": exercise("P5a").solution
}
COPIES = {path.stem: path.read_text() for path in sorted(SOFTMAX.glob("copies/*.cu"))}  # HOW_AUTHOR


def handed_in(**texts):
    return [Submission(student, "P5a", text) for student, text in texts.items()]


def test_renamed_reordered_and_reformatted_copies_rank_above_all_others():
    pairs = similarity.find_pairs(handed_in(**INDEPENDENT, **COPIES), most=1000)
    ranked = [{*pair.students} for pair in pairs]
    assert {how.partition("_")[0] for how in COPIES} == {"renamed", "reordered", "reformatted"}
    assert all(pair in ranked[:3] for pair in ({how, how.partition("_")[2]} for how in COPIES))
    assert pairs[2].alike > 0.5 and pairs[3].alike < 0.45
    assert [pair.alike for pair in pairs] == sorted((pair.alike for pair in pairs), reverse=True)
    scores = [pair.alike for pair in similarity.find_pairs(handed_in(**INDEPENDENT), most=1000)]
    assert max(scores) < 0.45


def test_the_same_text_is_alike_and_what_the_starting_code_has_is_not():
    text = INDEPENDENT["dora"]
    (same,) = similarity.find_pairs(handed_in(a=text, b=text))
    assert same.alike == pytest.approx(1)
    assert "".join(piece for piece, _ in same.texts[0]) == text
    both = "".join(piece for piece, marked in same.texts[0] if marked)
    assert "best = maxima[w][q]" in both and "__global__" not in both
    start = exercise("P5a").start
    assert similarity.find_pairs(handed_in(a=start, b=start)) == []
    # other exercises
    assert similarity.find_pairs([*handed_in(a=text), Submission("b", "P5b", text)]) == []
    assert (
        similarity.find_pairs([*handed_in(a=text), Submission("b", "P5a", text, "handed in twice")])
        == []
    )


def test_a_class_in_parts_is_the_same_as_in_one(monkeypatch):
    rng = np.random.default_rng(1)
    own = [{tuple(run) for run in rng.integers(0, 3, (60, 4)).astype(str)} for _ in range(7)]
    common, smaller = similarity._weigh_common_runs(own)
    monkeypatch.setattr(similarity, "_COLUMNS", 5)
    np.testing.assert_allclose(similarity._weigh_common_runs(own)[0], common, rtol=1e-5)
    assert (common <= smaller * (1 + 1e-6)).all()
    count = {run: sum(run in runs for runs in own) for runs in own for run in runs}
    for a, b in itertools.combinations(range(7), 2):
        assert common[a, b] == pytest.approx(
            sum(np.log(8 / count[run]) for run in own[a] & own[b]), rel=1e-5
        )


def test_texts_that_are_too_short_are_counted():
    start = exercise("01a").start
    other = start.replace("blockIdx.x", "blockIdx.y")
    texts = {
        "a": start,
        "b": other,
        "c": f"// mine\n{other}",
        "d": start.replace("blockIdx.x", "blockIdx.z"),
    }
    handed_in = [Submission(student, "01a", text) for student, text in texts.items()]
    assert other != start and similarity.find_pairs(handed_in) == []
    assert similarity.report_short(handed_in) == [
        "01a: 3 too short to compare, 2 of them equal to another"
    ]


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (
            "int x = threadIdx.x * blockDim.y; a.y = v.x;",
            "int name = threadIdx . x * blockDim . y ; name . y = name . x ;",
        ),
        (
            "float best = helper(x, fmaxf(a, 1.f)); /* no */ __syncthreads();",
            "float name = helper ( name , fmaxf ( name , 1.f ) ) ; __syncthreads ( ) ;",
        ),
        (
            "__device__ float helper(int n) { return helper(n); }",
            "__device__ float name ( int name ) return name ( name ) ;",
        ),
    ],
)
def test_names_that_are_not_the_authors_stay(source, words):
    assert " ".join(word for word, _, _ in similarity.tokenize(source)) == words


def test_the_page_shows_pairs_side_by_side_and_runs_nothing(tmp_path):
    text = INDEPENDENT["dora"] + '// </pre><script>alert(1)</script> "&amp;"\n'
    for name, source in {"eve<script>": text, "dora": text, "ada": INDEPENDENT["ada"]}.items():
        (tmp_path / "in" / name).mkdir(parents=True)
        (tmp_path / "in" / name / "P5a.cu").write_text(source)
    out = tmp_path / "similarity.html"
    output = (
        CliRunner()
        .invoke(app, ["similarity", str(tmp_path / "in"), "--out", str(out), "--most", "1"])
        .stdout
    )
    assert output.splitlines() == [
        " 100 %  P5a  dora and eve<script>",
        f"{out}: a reason to look, not a verdict",
    ]
    page = html5lib.HTMLParser(strict=True).parse(out.read_text())
    tags = {
        element.tag.rpartition("}")[2]: element
        for element in page.iter()
        if isinstance(element.tag, str)
    }
    assert not {*tags} & {"script", "img", "link", "iframe"}
    listings = [element for element in page.iter() if str(element.tag).endswith("}pre")]
    assert ["".join(element.itertext()) for element in listings] == [text.rstrip() + "\n"] * 2
    assert "A reason to look, not a verdict" in "".join(page.itertext())


def test_the_classes_of_the_templates_are_the_pages_own():
    templates = Path(similarity.__file__).parent.glob("template/*.j2")
    used = {
        word
        for path in templates
        for words in re.findall(r'class="([^"{]*)', path.read_text())
        for word in words.split()
    }
    assert used and used <= clean._OF_THE_PAGE | {"html"}  # a table's, which places nothing
