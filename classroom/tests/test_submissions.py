"""Hand-ins of students are found, and one sentence tells what cannot be graded and why."""

import json
import os
import shutil
import stat
import subprocess
import time
import tracemalloc

import nbformat
import pytest
from notebook_files import write_notebook

from labkit.base.errors import LabError
from labkit.base.paths import PACKAGE
from labkit.exercises import exercise as module
from labkit.exercises.exercise import add, exercise
from labkit.ladder.source import find_functions
from labkit_classroom import grading, reading
from labkit_classroom import submissions as handed_in
from labkit_classroom.submissions import list_unused_entries, submissions

pytestmark = pytest.mark.thorough("a class of hand-ins: minutes")

KERNEL = "__global__ void conv() {}\n"
HEAD = "%%kernel 04 --exercise 04a"


def hand_in(folder, *names):
    """Write kernels below a folder; return the submissions that are found in it."""
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(KERNEL)
    return submissions([folder])


@pytest.mark.parametrize("above", ["", "\n  \n"], ids=["first line", "lines above"])
def test_kernel_cells_are_found_with_the_lines_of_the_cell(tmp_path, above):
    path = write_notebook(
        tmp_path / "alice.ipynb", "import labkit as lab", f"{above}{HEAD} --name mine\n{KERNEL}"
    )
    (entry,) = submissions([path])
    assert (entry.student, entry.exercise) == ("alice", "04a")
    assert entry.answer == f"{above.replace(' ', '')}// {HEAD} --name mine\n{KERNEL}"


def test_a_part_of_a_kernel_is_completed_with_the_starting_code(tmp_path):
    start = exercise("10b").start
    own = start[slice(*find_functions(start)["conv"])].replace("__syncthreads();", "__syncwarp();")
    path = write_notebook(
        tmp_path / "alice.ipynb", f"%%kernel 10 --part --exercise 10b --name mine\n{own}"
    )
    other = write_notebook(
        tmp_path / "bob.ipynb", "%%kernel 10 --part --exercise 10b\n__global__ void other() {}\n"
    )
    (tmp_path / "carol_10b.cu").write_text(own)
    entry, refused, file = submissions([path, other, tmp_path / "carol_10b.cu"])
    assert entry.answer.replace(
        "// %%kernel 10 --part --exercise 10b --name mine\n", ""
    ) == start.replace(start[slice(*find_functions(start)["conv"])], own)
    assert exercise("10b").attempt(file.answer) == start.replace(
        start[slice(*find_functions(start)["conv"])], own
    )
    assert refused.problem.startswith(
        "the cell has to define one of the kernel's functions, arrange, "
    )


def test_the_lowest_cell_counts_whatever_ran_last(tmp_path):
    first, second = (f"{HEAD}\n{KERNEL}// {word}" for word in ("first", "second"))
    path = write_notebook(tmp_path / "bob.ipynb", first, second)
    nb = nbformat.read(path, 4)
    nb.cells[0].execution_count, nb.cells[1].execution_count = 7, 2
    nbformat.write(nb, path)
    (entry,) = submissions([path])
    assert entry.answer.endswith("// second")


@pytest.mark.parametrize(
    ("file", "student"),
    [
        ("carol/04a.cu", "carol"),
        ("carol_04a.cu", "carol"),
        ("04a_carol.cu", "carol"),
        ("dave/4a.cu", "dave"),
        ("erin_04A.CU", "erin"),
    ],
)
def test_a_kernel_file_belongs_to_a_student_and_an_exercise(tmp_path, file, student):
    (entry,) = hand_in(tmp_path, file)
    assert (entry.student, entry.exercise, entry.answer, entry.problem) == (
        student,
        "04a",
        KERNEL,
        "",
    )


def test_the_folder_says_whose_it_is_whatever_the_name_of_a_file(tmp_path):
    hand_in(
        tmp_path,
        "alice/00a.cu",
        "mallory/alice_00a.cu",
        "mallory/04_tiling/bob_04a.cu",
        "eve/my kernel.cu",
    )
    write_notebook(tmp_path / "mallory" / "alice.ipynb", f"%%kernel 01 --exercise 01b\n{KERNEL}")
    (tmp_path / "mallory" / "alice_02a.cu").symlink_to("/etc/hostname")
    problems = {
        (submission.student, submission.exercise): submission.problem
        for submission in submissions([tmp_path])
    }
    assert {key for key, problem in problems.items() if not problem} == {
        ("alice", "00a"),
        ("mallory", "04a"),
        ("mallory", "01b"),
        ("mallory", "00a"),
    }
    assert {key[0] for key in problems} == {"alice", "mallory", "eve"}
    entries = hand_in(tmp_path, "mallory/00a.cu")
    problems = {
        (submission.student, submission.exercise): submission.problem for submission in entries
    }
    assert problems["alice", "00a"] == ""
    assert (
        problems["mallory", "00a"]
        == "it was handed in twice, in 00a.cu and alice_00a.cu: leave one"
    )


def test_moodles_folders_begin_with_the_name(tmp_path):
    entries = hand_in(
        tmp_path,
        "Ann Ode_4711_assignsubmission_file_/kernel_04a.cu",
        "Bo Li_4712_assignsubmission_file/essay.pdf",
    )
    assert [(entry.student, entry.exercise) for entry in entries] == [
        ("Ann Ode", "04a"),
        ("Bo Li", ""),
    ]


@pytest.mark.parametrize(
    "name", ["04_tiling", "04_tiling (1)", "04-homework", "04", "tiling/04_tiling"]
)
def test_a_notebook_in_a_folder_belongs_to_the_outermost(tmp_path, name):
    for student in ("alice", "erin"):
        write_notebook(tmp_path / student / f"{name}.ipynb", f"{HEAD}\n{KERNEL}")
    assert [entry.student for entry in submissions([tmp_path])] == ["alice", "erin"]


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("kernel.cu", KERNEL, "kernel.cu does not say which exercise it answers"),
        ("frank_99z.cu", KERNEL, "there is no exercise '99z'"),
        ("grace.ipynb", "not JSON", "grace.ipynb is not a notebook"),
        ("heidi_04a.cu", b"\xff\xfe", "heidi_04a.cu, line 1: 0xff is no UTF-8"),
        ("judy_04a.cu", "\n", "judy_04a.cu is empty: hand in the whole kernel"),
    ],
)
def test_what_cannot_be_graded_says_why(tmp_path, name, text, says):
    (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    (entry,) = submissions([tmp_path / name])
    assert says in entry.problem
    assert str(tmp_path) not in entry.problem


def test_nothing_to_grade(tmp_path):
    with pytest.raises(LabError, match="there is nothing to grade"):
        submissions([tmp_path])
    with pytest.raises(LabError, match="there is no file or folder"):
        submissions([tmp_path / "missing"])


def test_a_student_who_has_handed_in_other_files_or_none_is_listed(tmp_path):
    write_notebook(tmp_path / "alice.ipynb", f"{HEAD}\n{KERNEL}")
    (tmp_path / "frank").mkdir()
    nothing = "there is no .ipynb or .cu file"
    entries = hand_in(
        tmp_path,
        "alice.pdf",
        "bob.docx",
        "bob_04a.zip",
        ".hidden",
        "carol/04a.cu",
        "carol/notes.txt",
        "eve/notes.txt",
    )
    assert {submission.student: submission.problem for submission in entries} == {
        "alice": "",
        "carol": "",
        "bob": f"{nothing}, only bob.docx and bob_04a.zip",
        "eve": f"{nothing}, only the folder eve",
        "frank": f"{nothing}, only the folder frank",
    }
    entries = submissions(sorted(tmp_path.glob("[!.]*/")))  # each folder named by itself
    assert {
        submission.student: submission.problem for submission in entries if not submission.exercise
    } == {"eve": f"{nothing} in the folder", "frank": f"{nothing} in the folder"}


@pytest.mark.skipif(os.geteuid() != 0, reason="gives a file to another user")
def test_a_hard_link_is_read_only_where_the_file_has_the_folders_owner(tmp_path):
    (tmp_path / "in").mkdir()
    for owner, name in ((0, "alice"), (65534, "eve")):
        (tmp_path / name).write_text(KERNEL)
        os.chown(tmp_path / name, owner, -1)
        os.link(tmp_path / name, tmp_path / "in" / f"{name}_04a.cu")
    alice, eve = submissions([tmp_path / "in"])
    assert (alice.problem, alice.answer) == ("", KERNEL)
    assert (
        eve.problem
        == "eve_04a.cu is a second name of a file that belongs to somebody else: hand in a copy"
    )


def test_neither_links_nor_paths_lead_to_another_students_kernel(tmp_path):
    hand_in(tmp_path, "alice/04a.cu")
    (tmp_path / "eve_04a.cu").symlink_to(tmp_path / "alice" / "04a.cu")
    (tmp_path / "mallory_04a.cu").write_text(str(tmp_path / "alice" / "04a.cu"))
    by_student = {submission.student: submission for submission in submissions([tmp_path])}
    assert "is a link: hand in the file itself" in by_student["eve_04a"].problem
    with pytest.raises(LabError, match="has to define conv"):
        exercise("04a").subject.source(by_student["mallory"].answer)


@pytest.mark.parametrize(
    ("cell", "says"),
    [
        (f"%%kernel 04\n{KERNEL}", "has no kernel cell with --exercise"),
        ("n = 3; lab.grade('12a', n, 5); n = 4", "12a: write the numbers into the call"),
        ("lab.grade('12a', count, 5)", "12a: write the numbers into the call"),
        # which Python cannot write
        (f"lab.grade('12a', 0x{'f' * 5000})", "12a: write the numbers into the call"),
        ("lab.grade({[]: 1})", ""),
        ("lab.grade()", ""),
        ("lab.grade('99z', 1)", ""),
    ],
)
def test_a_cell_that_answers_nothing_is_told(tmp_path, cell, says):
    (entry,) = submissions([write_notebook(tmp_path / "alice.ipynb", cell)])
    assert entry.problem and says in entry.problem


def test_a_file_was_handed_in_when_it_was_changed_or_when_a_manifest_says(tmp_path):
    hand_in(tmp_path, *(names := ("alice/04a.cu", "bob_04a.cu", "submission_7/week 4/04b.cu")))
    for name in names:
        os.utime(tmp_path / name, (1_800_000_000,) * 2)
    manifest = tmp_path / "manifest.csv"
    manifest.write_text(
        "File,Submitted_at,Student\nsubmission_7,2026-12-01T23:59:30+01:00,carol\n"
        "bob_04a.cu,2026-12-02T08:00Z,\n"
    )
    assert {
        entry.student: (entry.exercise, entry.submitted_at, entry.clock)
        for entry in submissions([tmp_path])
    } == {
        "alice": ("04a", "2027-01-15T08:00:00+00:00", "file"),
        "bob": ("04a", "2026-12-02T08:00:00+00:00", "manifest.csv"),
        "carol": ("04b", "2026-12-01T22:59:30+00:00", "manifest.csv"),
    }
    manifest.write_text("file,submitted_at\nbob_04a.cu,2026-12-02 08:00\n")
    with pytest.raises(
        LabError,
        match=r"manifest.csv, line 2: '2026-12-02 08:00' is no time with an offset from UTC",
    ):
        submissions([tmp_path])


def test_lines_of_a_manifest_that_match_no_file_are_told(tmp_path):
    hand_in(tmp_path, "carol/week 4/04a.cu", "bob_04a.cu", "dan/essay.pdf")
    names = ("carol", "bob_04a.cu", "dan/essay.pdf", "bob_4a.cu", "carol/week 4", "eve")
    (tmp_path / "manifest.csv").write_text(
        "file,submitted_at\n" + "".join(f"{name},2026-12-01T00:00Z\n" for name in names)
    )
    assert list_unused_entries(tmp_path) == ["bob_4a.cu", "carol/week 4", "eve"]
    assert (
        list_unused_entries(tmp_path / "carol")
        == list_unused_entries(tmp_path / "bob_04a.cu")
        == []
    )


def test_a_manifest_that_may_be_the_students_own_says_nothing(tmp_path):
    hand_in(tmp_path, "alice/04a.cu", "mallory/04a.cu")
    (tmp_path / "mallory" / "manifest.csv").write_text(
        "file,submitted_at,student\n04a.cu,2020-01-01T00:00Z,alice\n"
    )
    entries = submissions([tmp_path / "alice", tmp_path / "mallory"])
    assert [(entry.student, entry.clock) for entry in entries] == [
        ("alice", "file"),
        ("mallory", "file"),
    ]
    assert [submission.clock for submission in submissions([tmp_path / "mallory"], "mallory")] == [
        "file"
    ]


def test_half_a_character_does_not_stop_the_class(tmp_path):
    (entry,) = submissions(
        [write_notebook(tmp_path / "alice.ipynb", "%%kernel 04 --exercise 04a\n// \\ud800\n")]
    )
    path = tmp_path / "bob.ipynb"
    path.write_text((tmp_path / "alice.ipynb").read_text().replace("\\\\ud800", "\\ud800"))
    (entry,) = submissions([path])
    assert entry.answer.encode() and "ud800" in entry.answer


def test_a_name_that_is_no_text_is_told_like_any_other(tmp_path):
    entries = hand_in(tmp_path, *map(os.fsdecode, (b"\xff_04a.cu", b"\xff\xfe.docx")))
    assert [submission.student for submission in entries] == [r"\xff", r"\xff\xfe"]
    for submission in entries:
        (submission.student + submission.problem).encode()


def test_all_may_be_of_one_student(tmp_path):
    hand_in(tmp_path, "README.md", "week 4/alice_04a.cu", "04b.cu", "notes/plan.txt")
    entries = submissions([tmp_path], "bob")
    assert [(sent.student, sent.exercise, sent.problem) for sent in entries] == [
        ("bob", "04b", ""),
        ("bob", "04a", ""),
    ]
    (nothing,) = submissions([tmp_path / "notes"], "bob")
    assert (nothing.student, nothing.problem) == ("bob", "there is no .ipynb or .cu file")


# --------------------------------------------------------------------------------------------------
# Names: none of a hand-in is a path


@pytest.fixture
def evil(tmp_path, monkeypatch):
    """Write a handed-in folder below the working directory, with an exercise.py that must not run."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(module, "_added", {})
    folder = tmp_path / "in" / "mallory" / "saxpy"
    folder.mkdir(parents=True)
    (folder / "exercise.py").write_text("open('PWNED', 'w')")
    shutil.copytree(folder, tmp_path / "saxpy")
    yield folder
    assert not (tmp_path / "PWNED").exists()


PATHS = (
    "in/mallory/saxpy",
    "./in/mallory/saxpy",
    "saxpy",
    "saxpy/",
    "in/../saxpy",
    "~/saxpy",
    "in/mallory/saxpy/x/..",
    "in\\\\mallory\\\\saxpy",
    "\\u0000/saxpy",
    "/",
)


@pytest.mark.parametrize("name", [*PATHS, "{tmp_path}/saxpy"])
@pytest.mark.parametrize(
    "cell",
    [
        "lab.grade('{}', 1)",
        "%%cuda x --exercise {}\n" + KERNEL,
        "%%kernel 04 --exercise={}\n" + KERNEL,
        "lab.grade({{'{}': 1}}, '{}')",
    ],
)
def test_no_path_of_a_hand_in_is_loaded(evil, tmp_path, name, cell):
    write_notebook(
        tmp_path / "in" / "mallory" / "n.ipynb", cell.format(*[name.format(tmp_path=tmp_path)] * 2)
    )
    (entry,) = submissions([tmp_path / "in"])
    assert entry.problem and entry.student == "mallory"
    assert "there is no exercise" in entry.problem or "has no kernel cell" in entry.problem


def test_the_name_of_an_added_exercise_is_that_exercise_wherever_the_grader_stands(evil, tmp_path):
    added = add(PACKAGE.parent / "tests" / "exercises" / "own" / "saxpy")
    for folder in ("saxpy", "in/mallory/saxpy"):
        write_notebook(
            tmp_path / "in" / "mallory" / "n.ipynb",
            f"%%cuda x --exercise {folder}\n{added.solution}",
        )
        (entry,) = submissions([tmp_path / "in"])
        assert (entry.exercise, entry.problem) == ("saxpy", "")
    assert grading.digest_task("saxpy") == grading.digest_task(added.folder)
    assert grading.list_changed_starts(tmp_path, [entry]) == []
    assert added.attempt(entry.answer) == entry.answer


@pytest.mark.parametrize(
    "name",
    [
        "in\nmallory",
        "\x1b[2J\x1b[31mbob",
        "alice\u202egpj",
        "bob\u200b",
        "\x07",
        "a\rb",
        "\u2028",
        "\U000e0041",
        " ",
        "_1_assignsubmission_file",
    ],
)
def test_a_name_is_shown_as_it_is(tmp_path, name):
    (entry,) = hand_in(tmp_path, f"{name}/{name}.cu")
    assert (
        entry.student + entry.problem
    ).isprintable() and "does not say which exercise" in entry.problem
    assert (
        entry.student == name
        or "\\" in entry.student
        or not name.strip("_1abcdefghijklmnopqrstuvwxyz")
    )


@pytest.mark.parametrize(
    "name", ["Zoë", "Łukasz Żak", "王小明", "नमस्ते", "می\u200cخواهم", "O'Neil-Smith, Jr."]
)
def test_names_of_any_language_stay(tmp_path, name):
    (entry,) = hand_in(tmp_path, f"{name}/04a.cu")
    assert (entry.student, entry.problem) == (name, "")


def test_two_badly_named_files_are_told_as_bad_names(tmp_path):
    entries = hand_in(tmp_path, "eve/kernel.cu", "eve/mine.cu", "eve/04a.cu")
    problems = {submission.exercise: submission.problem for submission in entries}
    assert [*problems] == ["04a", ""] and problems["04a"] == ""
    unnamed = problems[""]
    assert (
        "kernel.cu does not say" in unnamed
        and "mine.cu does not say" in unnamed
        and "twice" not in unnamed
    )


# --------------------------------------------------------------------------------------------------
# Sizes: whatever is handed in, reading it takes little, and the others are read


def book(*sources, **more):
    cells = [{"cell_type": "code", "source": source} for source in sources]
    return json.dumps({"cells": cells, "metadata": {}, "nbformat": 4} | more)


POISON = {
    "an endless import": (book("import " + "a." * 30_000 + "a; lab.grade('12a', 1)"), ""),
    "forty thousand assignments": (
        book("\n".join(f"a{i} = 1" for i in range(40_000))),
        "code cell 1 of",
    ),
    "a list of ten million": (
        book("x = [" + "1," * 9_500_000 + "]"),
        "has more than 500,000 values",
    ),
    "a million values": (book() + ' "' + "[{}]," * 400_000, "has more than 500,000 values"),
    "many cells": (book(*["pass"] * 1001), "has more than 1,000 cells"),
    "many names": (
        book(*[f"%%cuda x --exercise z{i}\n" for i in range(999)]),
        "more than 100 exercises are named",
    ),
    "a long name": (book("%%cuda x --exercise " + "z" * 60_000), "there is no exercise 'zzz"),
    "deep": ('{"cells": ' + "[" * 100_000, "is not a notebook"),
    "deep objects": ('{"cells": ' + '{"a":' * 100_000, "is not a notebook"),
    "a huge integer": (book(a=1)[:-2] + "9" * 5000 + "}", "is not a notebook"),
    "not a number": (book("pass", a=float("nan")), "has no kernel cell"),
    "numbers for texts": ('{"cells": [{"cell_type": "code", "source": 7}]}', "is not a notebook"),
    "texts for cells": ('{"cells": "code"}', "is not a notebook"),
    "an older format": (
        '{"worksheets": [{"cells": []}], "nbformat": 3}',
        "format 4: it has no 'cells'",
    ),
    "half a character": (book("\ud800 lab.grade('12a', '\udfff')"), "has no kernel cell"),
    "UTF-16": (book("pass").encode("utf-16"), "has no kernel cell"),
    "no text": (b"\xff\xfe\xff", "is not a notebook"),
    "null bytes": (b"\0" * 1000, "is not a notebook"),
    "nested lists": (book("lab.grade('12a', " + "[" * 900 + "]" * 900 + ")"), "has no kernel cell"),
    "minus": (book("lab.grade('12a', " + "-" * 900 + "1)"), ""),
    "many calls": (book("lab.grade('12a', 1, 2);" * 2800), ""),
    "a long call": (book("lab.grade('12a'" + ", 1" * 20_000 + ")"), "12a: write the numbers"),
    "quotes": (book("lab.grade " + "'\\" * 30_000), "has no kernel cell"),
    "brackets": (book("grade(" * 10_000), "has no kernel cell"),
    "parentheses": (
        book("%%kernel 10 --exercise 10b --part\n" + "(" * 30_000 + ")" * 30_000 + "{}"),
        "has to define",
    ),
    "a long kernel": (book("%%kernel 04 --exercise 04a\n" + "//" * 5_000_000), None),
    "spaces": (
        book(" " * 60_000 + "%%kernel" + " --exercise" * 5 + " " * 5000),
        "there is no exercise '--exercise'",
    ),
    "a line of options": (book("%%kernel " + "--exercise" * 6000 + "\n"), None),
}


@pytest.mark.parametrize(("text", "says"), POISON.values(), ids=POISON)
def test_a_poisoned_notebook_takes_little_and_the_others_are_read(tmp_path, text, says):
    (tmp_path / "mallory.ipynb").write_bytes(text if isinstance(text, bytes) else text.encode())
    write_notebook(tmp_path / "alice.ipynb", f"{HEAD}\n{KERNEL}")
    tracemalloc.start()
    began = time.process_time()
    entries = submissions([tmp_path])
    seconds, (_, peak) = time.process_time() - began, tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert seconds < 20 and peak < 200e6  # traced it is several times slower
    own = [submission for submission in entries if submission.student == "mallory"]
    assert [submission.problem for submission in entries if submission.student == "alice"] == [""]
    assert 1 <= len(own) <= 101 and all(
        len(entry.answer) < 70_000 and len(entry.exercise) <= 60 for entry in own
    )
    assert says is None or says in " ".join(submission.problem for submission in own)


def test_a_huge_notebook_is_not_read(tmp_path):
    with (tmp_path / "mallory.ipynb").open("wb") as file:
        file.truncate(1 << 40)
    (entry,) = submissions([tmp_path])
    assert "mallory.ipynb has more than 20 MB" in entry.problem


def test_a_folder_of_one_student_is_read_to_a_limit(tmp_path):
    for index in range(300):
        (tmp_path / "mallory").mkdir(exist_ok=True)
        (tmp_path / "mallory" / f"x{index}.cu").write_text("")
    inside = tmp_path / "eve"
    inside.mkdir()
    here = os.open(inside, os.O_RDONLY)
    # deeper than Python may recurse; each below the last, because no path may be so long
    for _ in range(1500):
        os.mkdir("a", dir_fd=here)
        below = os.open("a", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(os.open("04a.cu", os.O_CREAT, dir_fd=here))
    os.close(here)
    (tmp_path / "alice_04a.cu").write_text(KERNEL)
    by_student = {submission.student: submission for submission in submissions([tmp_path])}
    # pytest, which removes old folders, would recurse
    subprocess.run(["rm", "-rf", str(inside)], check=True)
    assert {*by_student} == {"mallory", "eve", "alice"} and by_student["alice"].answer == KERNEL
    assert "there is no .ipynb or .cu file, only the folder eve" in by_student["eve"].problem
    assert len(by_student["mallory"].problem) <= 1000


NO_FILES = {
    "link": lambda path, secret: path.symlink_to(secret / "04a.cu"),
    "folder link": lambda path, secret: path.with_suffix("").symlink_to(secret),
    "pipe": lambda path, secret: os.mkfifo(path),
    "device": lambda path, secret: path.symlink_to("/dev/zero"),
    "socket": lambda path, secret: os.mknod(path, stat.S_IFSOCK | 0o600),
    "folder": lambda path, secret: (path / "x").mkdir(parents=True),
    "unreadable": lambda path, secret: path.touch(0),  # not for root
}


@pytest.mark.parametrize("kind", NO_FILES)
def test_what_is_no_file_is_not_opened(tmp_path, kind):
    path, secret = tmp_path / "in" / "mallory" / "04a.cu", tmp_path / "secret"
    for folder in (path.parent, secret):
        folder.mkdir(parents=True)
    (secret / "04a.cu").write_text("secret")
    NO_FILES[kind](path, secret)
    by_student = {
        submission.student: submission for submission in hand_in(tmp_path / "in", "alice_04a.cu")
    }
    assert {*by_student} == {"alice", "mallory"}
    assert by_student["mallory"].problem and "secret" not in by_student["mallory"].answer


def test_what_takes_long_to_read_holds_nobody_else(tmp_path, monkeypatch):
    for name in ("ada", "bob", "cleo"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "04a.cu").write_text(f"// {name}\n")
    (tmp_path / "bob" / "04b.cu").write_text("// late\n")
    read = handed_in._read_or_explain

    def hang(file, *arguments):
        """Read a file, but never end with bob's 04b."""
        while file.parent.name == "bob" and file.stem == "04b":
            pass
        return read(file, *arguments)

    monkeypatch.setattr(handed_in, "_read_or_explain", hang)
    monkeypatch.setattr(
        handed_in, "read_limited", lambda items, read: reading.read_limited(items, read, seconds=1)
    )
    found = {(item.student, item.exercise): item for item in submissions([tmp_path])}
    for name in ("ada", "bob", "cleo"):
        assert found[name, "04a"].answer == f"// {name}\n"
    assert found["bob", ""].problem.startswith(
        "04b.cu was not read: to read what was handed in took"
    )


@pytest.mark.parametrize(
    "end", [os.abort, lambda: os.kill(os.getpid(), 9), lambda: bytes(2 << 30), lambda: os._exit(0)]
)
def test_a_reader_that_ends_early_loses_only_what_follows(end):
    assert reading.read_limited([1, 2, 3], lambda item: end() if item == 2 else item) == [
        1,
        None,
        None,
    ]
