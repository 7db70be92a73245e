"""Bad inputs to both commands: a sentence names what is wrong, the exit status is a documented one, no file changes."""

import builtins
import errno
import hashlib
import io
import json
import os
import re
import shlex
import shutil
import stat
import subprocess
import sys

import pytest

import labkit.cli
from hostcuda import command

pytestmark = pytest.mark.thorough("tools of the repository")

KERNEL = 'extern "C" __global__ void f(float *x) { x[threadIdx.x] = 1; }\n'
PROGRAM = "int main() { return 0; }\n"


def write_case(array='"shape": [32]', **more):
    """Return the JSON of a case for `KERNEL`."""
    case = {"grid": [1], "block": [32], "arguments": {"x": 0}, **more}
    return json.dumps([case]).replace('"x": 0', f'"x": {{{array}}}')


def write_notebook(**cell):
    """Return the JSON of a notebook with one cell that answers an exercise."""
    cell = {
        "cell_type": "code",
        "id": "a",
        "metadata": {},
        "execution_count": None,
        "outputs": [],
        "source": ["%%kernel 04 --exercise 04a\n", "// nothing"],
        **cell,
    }
    return json.dumps({"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5})


FILES = {
    "ok.cu": PROGRAM,
    "ok.py": "print('hello')\n",
    "kernel.cu": KERNEL,
    "case.json": write_case(),
    "empty": "",
    "blank.cu": "",
    "empty.json": "",
    "empty.ipynb": "",
    "no_kernel.cu": "int helper(int a) { return a; }\n",
    "two.cu": KERNEL + KERNEL.replace("void f", "void g"),
    "number.cu": 'extern "C" __global__ void f(int n) { }\n',
    "error.cu": 'extern "C" __global__ void f(float *x) { x[0] = ; }\n',
    "error_main.cu": "int main() { return 0 }\n",
    "error_reference.py": "def reference(:\n",
    "raises.py": "def reference(x):\n    raise KeyError('missing')\n",
    "exits.py": "import sys\nsys.exit(0)\n",
    "no_reference.py": "x = 1\n",
    "short.py": "def reference(x):\n    return x[:1]\n",
    "binary.cu": b"\x7fELF\x00\x01\xff\xfe",
    "latin.py": b"# caf\xe9\n",
    "words.txt": "These are words.\n",
    "page.ipynb": write_notebook(),
    "again/page.ipynb": write_notebook(),
    "source.ipynb": write_notebook(source=5),
    "outputs.ipynb": write_notebook(outputs=5),
    "texts.ipynb": '{"cells": ["a", 3], "nbformat": 4, "nbformat_minor": 5, "metadata": {}}',
    "cells.ipynb": '{"cells": 3, "nbformat": 4, "nbformat_minor": 5, "metadata": {}}',
    "version.ipynb": '{"cells": [], "nbformat": 9, "nbformat_minor": 5, "metadata": {}}',
    "deep.ipynb": "[" * 100_000,
    "binary.ipynb": b"\xff\xfe\x00",
    "no_cells.ipynb": '{"nbformat": 4, "nbformat_minor": 5, "metadata": {}}',
    "trailing.json": "[],",
    "deep.json": "[" * 100_000,
    "null.json": "null",
    "object.json": "{}",
    "tolerance.json": json.dumps({"cases": json.loads(write_case()), "rtol": "small"}),
    "negative.json": json.dumps({"cases": json.loads(write_case()), "atol": -1}),
    "colour.json": write_case(colour="red"),
    "bytes.json": write_case(shared_bytes="many"),
    "threads.json": write_case(block=[4096]),
    "blocks.json": write_case(grid=[0]),
    "shape.json": write_case('"shape": [-1]'),
    "letters.json": write_case('"values": ["a"]'),
    "dtype.json": write_case('"shape": [32], "dtype": "float99"'),
    "fill.json": write_case('"shape": [32], "fill": "magic"'),
    "huge.json": write_case('"shape": [99999999999]'),
    "no_argument.json": write_case(arguments={}),
    "many.json": write_case(arguments={"n": "many"}),
    "number.json": "3",
    "text.json": '["f"]',
    "nan.json": "[NaN]",
    "digits.json": f"[{'9' * 5000}]",
    "binary.json": b"\xff\xfe\x00",
    "unknown.json": '{"cases": [], "colour": "red"}',
    "null_cases.json": '{"cases": null}',
    "number_kernel.json": '{"cases": [], "kernel": 3}',
    "empty_case.json": "[{}]",
    "number_grid.json": write_case(grid=1),
    "half_block.json": write_case(block=[1.5]),
    "list_arguments.json": write_case(arguments=[1]),
    "class/alice/04a.cu": "// nothing\n",
    "class/bob/04a.cu": "// nothing else\n",
    "alice_04a.zip": b"PK\3\4 no archive",
    "roster.csv": "name,id,email\nalice,1,alice@example.org\n",
    "empty.csv": "",
    "long.csv": f"name,id,email\n{'x' * 200_000},1,a\n",
    "zoe.toml": "[[marks]]\nstudent = 'zoe'\nexercise = '04a'\ninvalid = 'copied'\n",
    "keys.toml": "late = 1\nlate = 2\n",
    "columns/manifest.csv": "file,when\nalice,now\n",
    "columns/alice/04a.cu": "// nothing\n",
    "yesterday/manifest.csv": "file,submitted_at\nalice,yesterday\n",
    "yesterday/alice/04a.cu": "// nothing\n",
    "no_text.csv": b"\xff\xfe\x00\x01",
    "table.csv": "name,id\nAda Lovelace,1\n",
    "full/notes.txt": "mine\n",
    "marked/grades.csv": "the marks of last year\n",
    "größe λ.txt": "Ångström\n",
    "error/exercise.py": "def (:\n",
    "raises/exercise.py": "raise RuntimeError('no weights')\n",
    "exits/exercise.py": "import sys\nsys.exit(0)\n",
    "nothing/exercise.py": "",
    "five/exercise.py": "EXERCISE = 5\n",
}
LINKS = {"loop.cu": "loop.cu", "gone.cu": "no-such.cu", "link.csv": "words.txt"}
LONG = 280 * "n"  # longer than a file's name may be
BREAK = "first\nsecond"

# What both commands refuse in their frame, and what one function refuses for several of them, is
# here once.
# the arguments, with LONG and BREAK in place of these names, and the words that the answer must
# have
HOSTCUDA = [
    ("sanitise ok.cu", "'sanitise'"),
    ("''", "No such command ''"),
    ("LONG", "No such command 'nnn"),
    ("doctor --jsn", "--jsn"),
    ("doctor now", "(now)"),
    ("run", "PROGRAM"),
    ("run --strct ok.cu", "no option or program --strct"),
    ("run ok.cu --engine=gpu", "--engine=gpu behind ok.cu"),
    ("run BREAK.cu", r"no program first\nsecond.cu"),
    ("run /dev/null", "no program /dev/null"),
    ("run page.ipynb", "page.ipynb is a notebook"),
    ("run --timeout 5s ok.cu", "'--timeout'"),
    ("run --timeout 1e400 ok.cu", "a time limit of inf s"),
    ("run --output-limit 1.5 ok.cu", "'--output-limit'"),
    ("run --engine CPU ok.cu", "engine = 'CPU'"),
    ("run --options -D ok.cu", "-D has no value"),
    ("run no_kernel.cu", "no_kernel.cu has no main"),
    ("run binary.cu", "binary.cu has no main"),
    ("run --timeout nan ok.cu", "a time limit of nan s"),
    ("run --timeout -1 ok.cu", "a time limit of -1 s"),
    ("run --output-limit -1 ok.cu", "'--output-limit'"),
    ("run --options no-such.cu ok.cu", "no-such.cu, one of the options, is no file"),
    ("run full", "no program full"),
    ("run loop.cu", "no program loop.cu"),
    ("run ok.cu/x.cu", "no program ok.cu/x.cu"),
    ("run 'größe λ.txt'", "größe λ.txt is no program"),
    ("profile --csv", "'--csv' requires an argument"),
    ("profile --csv ../no-such/x.csv ok.cu", "no folder ../no-such for x.csv"),
    ("profile --csv BREAK/x.csv ok.cu", r"no folder first\nsecond for x.csv"),
    ("profile --csv /proc/x.csv ok.cu", "cannot write to /proc"),
    ("profile --csv /dev/null ok.cu", "/dev/null is a link or a device"),
    ("profile --units H200 --engine tpu ok.cu", "no other --engine"),
    ("profile --units H200 no-such.cu", "no program no-such.cu"),
    ("profile --engine 'cpu gpu' ok.cu", "engine = 'cpu gpu'"),
    ("profile --nvc ok.cu", "no option or program --nvc"),
    ("profile --csv '' ok.cu", ". is a folder"),
    ("profile --csv ok.cu/x.csv ok.cu", "no folder ok.cu for x.csv"),
    ("profile --csv words.txt ok.cu", "words.txt is there, and is no table of an earlier run"),
    ("profile --csv ok.cu ok.cu", "ok.cu is there, and is no table of an earlier run"),
    ("profile --csv gone.cu ok.cu", "gone.cu is a link or a device"),
    ("profile --csv link.csv ok.cu", "link.csv is a link or a device"),
    ("profile --csv pipe ok.cu", "pipe is a link or a device"),
    ("profile --timeout 0 ok.cu", "a time limit of 0 s"),
    ("profile --units H900 ok.cu", "no rates of 'H900'"),
    ("profile --units H200 --lines ok.cu", "no --lines"),
    ("profile ok.cu --csv x.csv", "--csv behind ok.cu"),
    ("lines kernel.cu", "no case says how to launch kernel.cu: write one into kernel.json"),
    ("lines kernel.cu --cases case.json --case 2", "no case 2: the file has case 1 alone"),
    ("step kernel.cu --cases case.json --case 0", "'--case': 0 is not in the range x>=1"),
    ("step kernel.cu --thread x", "x is no index: write X,Y,Z, such as 5,0,0"),
    ("step kernel.cu --thread ²", "² is no index"),  # a digit, and no number
    ("sanitize --tool all,memcheck ok.cu", "no tool 'all,memcheck'"),
    ("sanitize --tool BREAK ok.cu", r"no tool 'first\nsecond'"),
    ("sanitize --tol memcheck ok.cu", "no option or program --tol"),
    ("sanitize page.ipynb", "page.ipynb is a notebook"),
    ("sanitize --csv table.csv ok.cu", "table.csv is there, and is no table of an earlier run"),
    ("sanitize ok.cu --csv=x.csv", "--csv=x.csv behind ok.cu"),
    ("check .", ". cannot be read: Is a directory"),
    ("check BREAK.cu", r"first\nsecond.cu cannot be read"),
    ("check binary.cu", "binary.cu cannot be read: it is no text in UTF-8"),
    ("check kernel.cu --cases trailing.json", "trailing.json cannot be read: it is no JSON"),
    ("check kernel.cu --cases deep.json", "deep.json cannot be read: it is no JSON"),
    ("check kernel.cu --cases tolerance.json", "rtol is a number from 0, not 'small'"),
    ("check kernel.cu --cases negative.json", "atol is a number from 0, not -1"),
    ("check kernel.cu --cases colour.json", "no colour"),
    ("check kernel.cu --cases bytes.json", "shared_bytes an integer"),
    ("check kernel.cu --previous empty.json", "empty.json cannot be read: it is no JSON"),
    ("check kernel.cu --previous null.json", "null.json is no report"),
    ("check kernel.cu --previous object.json", "object.json is no report"),
    ("check kernel.cu --previous case.json", "case.json is no report"),
    ("check kernel.cu --reference latin.py", "latin.py cannot be read: it is no text in UTF-8"),
    ("check kernel.cu --options -O3", "-O3"),
    ("check kernel.cu --options '-DN=4 more.cu'", "more.cu"),
    ("check kernel.cu --seconds -5", "'--seconds'"),
    ("check", "'KERNEL.cu'"),
    ("check loop.cu", "loop.cu cannot be read: Too many levels of symbolic links"),
    ("check LONG.cu", "File name too long"),
    ("check kernel.cu --reference full", "full cannot be read: Is a directory"),
    ("check kernel.cu --seconds 301", "'--seconds'"),
    ("check kernel.cu --options '\"'", "cannot be read: No closing quotation"),
    ("check kernel.cu --options=-Inope", "-Inope is not taken here"),
    ("check kernel.cu --cases binary.json", "binary.json cannot be read: it is no text in UTF-8"),
    ("check kernel.cu --cases digits.json", "digits.json cannot be read: it is no JSON"),
    ("check kernel.cu --cases number.json", "the file of cases has a list, or cases"),
    ("check kernel.cu --cases unknown.json", "no colour"),
    ("check kernel.cu --cases null_cases.json", "cases is a list"),
    ("check kernel.cu --cases number_kernel.json", "kernel and options are texts"),
    ("check kernel.cu --cases text.json", "not 'f'"),
    ("check kernel.cu --cases nan.json", "not nan"),
    ("check kernel.cu --cases empty_case.json", "case 1 has no arguments, block, grid"),
    ("check kernel.cu --cases number_grid.json", "grid and block are lists of integers"),
    ("check kernel.cu --cases half_block.json", "grid and block are lists of integers"),
    ("check kernel.cu --cases list_arguments.json", "arguments an object"),
    ("--nope", "--nope"),
]

VERDICTS = [  # of the two commands that give one: also the exit status
    ("check error.cu --cases case.json", 4, "expected primary-expression before ';'"),
    ("check no_kernel.cu --cases case.json", 5, "there is no kernel"),
    ("check blank.cu", 5, "there is no kernel 'kernel': it has none at all"),
    ("check two.cu --cases case.json", 5, "the module's kernels are f, g"),
    ("check kernel.cu --kernel g --cases case.json", 5, "there is no kernel 'g'"),
    ("check kernel.cu --cases threads.json", 5, "block.x is 4096"),
    ("check kernel.cu --cases blocks.json", 5, "grid.x is 0"),
    (
        "check kernel.cu --cases shape.json",
        5,
        "case 1: the shape of x is a list of integers from 0, not [-1].",
    ),
    ("check kernel.cu --cases letters.json", 5, "case 1: the array x cannot be made"),
    ("check kernel.cu --cases dtype.json", 5, "'float99'"),
    ("check kernel.cu --cases fill.json", 5, "'magic'"),
    ("check kernel.cu --cases huge.json", 5, "the array x has more than 256 MB"),
    ("check kernel.cu --cases no_argument.json", 5, "give x"),
    ("check number.cu --cases many.json", 5, "the parameter `int n` takes a number"),
    (
        "check kernel.cu --cases case.json --reference error_reference.py",
        5,
        "SyntaxError: invalid syntax",
    ),
    ("check kernel.cu --cases case.json --reference raises.py", 5, "KeyError: 'missing'"),
    (
        "check kernel.cu --cases case.json --reference exits.py",
        5,
        "the reference fails: SystemExit",
    ),
    (
        "check kernel.cu --cases case.json --reference no_reference.py",
        5,
        "no function named reference",
    ),
    ("check kernel.cu --cases case.json --reference short.py", 5, "it has 1 elements"),
    ("sanitize no_kernel.cu", 4, "no_kernel.cu has no main"),
    ("sanitize error_main.cu", 4, "error_main.cu:1:22: error: expected ';'"),
    ("run error_main.cu", 1, "error_main.cu:1:22: error: expected ';'"),
    ("profile error_main.cu", 1, "error_main.cu failed with exit status 1"),
]

LABKIT = [
    ("labs", "'labs'"),
    ("check", "'N'"),
    ("check 0", "no rung 0"),
    ("check 1,2", "'1,2' is no rung's number: give one or more, as in labkit check 1 4 7"),
    ("check tiling", "'tiling' is no rung's number"),
    ("bench ²", "'²' is no rung's number"),
    ("check 1 --sorce kernel.cu", "--sorce"),
    ("check 1 --source", "'--source' requires an argument"),
    ("check 1 --source BREAK.cu", r"no kernel file first\nsecond.cu"),
    ("check 1 --source binary.cu", "binary.cu, line 1: 0xff is no UTF-8"),
    (
        "check 1 --source no_kernel.cu",
        "no_kernel.cu takes the place of 01 baseline and has to define conv",
    ),
    ("check 1 --source page.ipynb", "page.ipynb takes the place"),
    ("check -1", "-1"),
    ("check 9999999999999999999999", "no rung 9999999999999999999999"),
    ("check 1 2 --source kernel.cu", "a kernel of the ladder has nine"),
    ("check 1 --source loop.cu", "no kernel file loop.cu"),
    ("check 1 --source LONG.cu", "File name too long"),
    ("bench 1 --layer lenet86-0", "no layer 'lenet86-0'"),
    ("bench 1 --batch 1.5", "'--batch'"),
    ("bench 1 --batch 2147483648", "a batch of 2147483648"),
    ("bench 1 --csv roster.csv", "roster.csv is there"),
    ("bench 1 --batch 0", "a batch of 0"),
    ("bench 1 --batch 99999999", "needs 9958.40 GB"),
    ("device --engine ''", "'' is neither cpu nor gpu"),
    ("report page.ipynb/x", "no notebook 'page.ipynb/x'"),
    ("report BREAK", r"no notebook 'first\nsecond'"),
    ("report empty.ipynb", "empty.ipynb is no Jupyter notebook"),
    ("report source.ipynb", "source.ipynb is no Jupyter notebook: it has other JSON"),
    ("report outputs.ipynb", "outputs.ipynb is no Jupyter notebook: it has other JSON"),
    ("report page.ipynb again/page.ipynb", "same name"),
    ("report texts.ipynb", "texts.ipynb is no Jupyter notebook"),
    ("report --stored 1 --out /proc/x", "cannot write to /proc/x"),
    ("report ''", "no notebook ''"),
    ("report 1 no-such", "no notebook 'no-such'"),
    ("report cells.ipynb", "cells.ipynb is no Jupyter notebook: it has other JSON"),
    ("report version.ipynb", "Unsupported nbformat version 9"),
    ("report binary.ipynb", "binary.ipynb is no Jupyter notebook"),
    ("report --out full --stored 1", "full has files that `labkit report` did not write"),
    ("report --out LONG --stored 1", "File name too long"),
    ("store no_cells.ipynb --as-is", "no_cells.ipynb is no Jupyter notebook"),
    ("store deep.ipynb --as-is", "deep.ipynb is no Jupyter notebook"),
    ("site --repository ''", "'' names no repository"),
    ("site --repository a/b/c", "'a/b/c' names no repository"),
    ("site --repository 'a/b; rm'", "'a/b; rm' names no repository"),
    ("site --out .", ". has files that `labkit site` did not write"),
    ("site --out ok.cu/x", "cannot write to ok.cu/x"),
    ("exercise new /proc/x/y", "cannot write /proc/x/y"),
    ("exercise start", "'EXERCISE'"),
    ("exercise start 04a 04b", "(04b)"),
    ("exercise start words.txt", "no exercise 'words.txt'"),
    ("exercise start error", "exercise.py fails: SyntaxError: invalid syntax"),
    ("exercise start raises", "exercise.py fails: RuntimeError: no weights"),
    ("exercise start exits", "exercise.py fails: SystemExit: 0"),
    ("exercise start nothing", "exercise.py defines no exercise"),
    ("exercise start five", "exercise.py defines no exercise"),
    ("exercise tset 04a", "'tset'"),
    ("exercise new full", "full exists"),
    ("exercise new loop.cu", "loop.cu exists"),
    ("exercise new ok.cu/x", "cannot write ok.cu/x"),
    ("exercise new LONG", "File name too long"),
    ("exercise test full", "full is no exercise: it has no exercise.py"),
    ("grade ''", "no file or folder ''"),
    ("grade class ''", "no file or folder ''"),
    ("grade class --out empty", "cannot write to empty/results"),
    ("grade class --out /proc/x", "cannot write to /proc/x"),
    ("grade class --roster empty.csv", "empty.csv has no column 'name'"),
    ("grade class --roster long.csv", "long.csv cannot be read"),
    ("grade class --format canvas", "--format canvas needs --roster"),
    ("grade class --rules keys.toml", "keys.toml cannot be read"),
    ("grade class --rules zoe.toml --roster roster.csv", "zoe.toml: the roster has no student zoe"),
    ("grade class --due 04a=2026-13-01T00:00+00:00", "'2026-13-01T00:00+00:00' is no time"),
    ("grade class --points 04a=ten", "'ten' is no number"),
    ("grade class --partial 150%", "'150%' is no number from 0 to 1"),
    ("grade class --dask nowhere", "no Dask scheduler at 'nowhere'"),
    ("grade class --exercise ''", "no exercise ''"),
    ("grade columns", "columns/manifest.csv has no column 'submitted_at'"),
    ("grade yesterday", "yesterday/manifest.csv, line 2: 'yesterday' is no time"),
    ("grade --out full", "no results in full"),
    ("grade alice_04a.zip --prune", "--prune removes"),
    ("grade", "no results in grades"),
    ("grade class --out LONG", "File name too long"),
    ("grade class --out marked", "marked has files that `labkit grade` did not write"),
    ("grade class --format excel", "no format 'excel'"),
    ("grade class --jobs 0", "'--jobs'"),
    ("grade class --roster full", "full cannot be read: Is a directory"),
    ("grade class --roster no_text.csv", "Save it as CSV UTF-8"),
    ("grade class --rules no-such.toml", "no-such.toml cannot be read: No such file or directory"),
    ("grade class --rules binary.json", "binary.json cannot be read"),
    ("grade class --due 2026-12-01T23:59", "'2026-12-01T23:59' is no time"),
    ("grade class --points 99z=3", "no exercise '99z'"),
    ("grade class --points -1", "'-1' is no number from 0"),
    ("grade class --points 1/0", "'1/0' is no number from 0"),
    ("grade class --points nan", "'nan' is no number from 0"),
    ("grade class --exercise full", "full is no exercise"),
    ("similarity ''", "no file or folder ''"),
    ("similarity alice_04a.zip", "alice_04a.zip is neither a notebook nor a .cu file"),
    ("similarity empty.ipynb", "empty.ipynb is not a notebook"),
    ("similarity source.ipynb", "source.ipynb is not a notebook of format 4: it has other JSON"),
    ("similarity texts.ipynb", "texts.ipynb is not a notebook of format 4: it has other JSON"),
    ("similarity class --exercise 05a", "no hand-in to these exercises"),
    ("similarity class --out roster.csv", "roster.csv is there"),
    ("similarity class --out /proc/x/y.html", "cannot write /proc/x/y.html"),
    ("similarity class --most 0", "'--most'"),
    ("similarity class --out full", "full is there, and is no page of an earlier run"),
    ("similarity class --out link.csv", "link.csv is there, and is no page of an earlier run"),
    ("autograder --image 99z", "no exercise '99z'"),
    ("autograder --gradescope 04a --out /proc/x.zip", "cannot write /proc/x.zip"),
    ("autograder --gradescope 04a --out alice_04a.zip", "alice_04a.zip is there, and is no grader"),
    ("autograder 04a", "say --gradescope with the exercises"),
    ("autograder --image --gradescope 04a", "say --gradescope with the exercises"),
    ("autograder --image --out full", "full is not an empty folder"),
    ("autograder --image --out ok.cu/x", "cannot write to ok.cu/x"),
    ("autograder --gradescope 04a --out words.txt", "words.txt is there, and is no grader"),
    ("autograder --gradescope", "say --gradescope with the exercises"),
    ("autograder --gradescope 04a --out link.csv", "link.csv is there, and is no grader"),
    ("student --out .", ". is not an empty folder"),
    ("student --out ok.cu/x", "cannot write to ok.cu/x"),
]

LOCKED = [  # what may not be read
    ("hostcuda", "check locked.cu", "locked.cu cannot be read: Permission denied"),
    (
        "hostcuda",
        "check kernel.cu --cases locked.json",
        "locked.json cannot be read: Permission denied",
    ),
    (
        "hostcuda",
        "check kernel.cu --previous locked.json",
        "locked.json cannot be read: Permission denied",
    ),
    (
        "hostcuda",
        "check kernel.cu --reference locked.py",
        "locked.py cannot be read: Permission denied",
    ),
    ("labkit", "report locked.ipynb", "locked.ipynb: Permission denied"),
    ("hostcuda", "run locked.py", "locked.py: Permission denied"),
    ("hostcuda", "run locked/x.cu", "locked/x.cu: Permission denied"),
    ("labkit", "check 1 --source locked.cu", "locked.cu: Permission denied"),
    ("labkit", "check 1 --source locked/x.cu", "locked/x.cu: Permission denied"),
    ("labkit", "report locked/x.ipynb", "locked/x.ipynb: Permission denied"),
    (
        "labkit",
        "report --stored 1 --out locked/x",
        "locked/x/00_start_here.html: Permission denied",
    ),
    ("labkit", "site --out locked/x", "locked/x: Permission denied"),
    ("labkit", "exercise new locked/x", "locked/x: Permission denied"),
    ("labkit", "exercise start locked", "locked/exercise.py: Permission denied"),
    ("labkit", "grade class --out locked/x", "locked/x: Permission denied"),
    ("labkit", "grade locked", "locked/manifest.csv: Permission denied"),
    ("labkit", "autograder --image --out locked/x", "locked/x: Permission denied"),
    ("labkit", "student --out locked/x", "locked/x: Permission denied"),
    ("labkit", "grade class --roster locked.csv", "locked.csv cannot be read: Permission denied"),
    ("labkit", "grade class --rules locked.toml", "locked.toml cannot be read: Permission denied"),
    ("labkit", "similarity locked_04a.cu", "locked_04a.cu cannot be read: Permission denied"),
]


def list_files(folder):
    """Return the type of all that is below a folder, with the digest of each file and the target of each link."""
    return {
        path.relative_to(folder): (
            stat.S_IFMT(path.lstat().st_mode),
            os.readlink(path)
            if path.is_symlink()
            else path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest(),
        )
        for path in folder.rglob("*")
    }


def forbid(usual, name):
    """Return a function that opens files as `usual` does, but for those that have a name in their path."""

    def call(path, *arguments, **options):
        """Call the function, but refuse access to files with `name` in their path."""
        if name in str(path):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return usual(path, *arguments, **options)

    return call


@pytest.fixture
def desk(tmp_path, monkeypatch):
    """Return the working directory: a folder with `FILES`, links and a pipe, which no command may change."""
    for name, content in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    for name, target in LINKS.items():
        (tmp_path / name).symlink_to(target)
    os.mkfifo(tmp_path / "pipe")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def ask(desk, monkeypatch, capfd):
    """Return a function that calls a command: (exit status, stdout, stderr)."""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # of an exercise.py
    # the commands set these
    for variable, value in (("ENGINE", "cpu"), ("WARNINGS", ""), ("OUTPUT_LIMIT", "")):
        monkeypatch.setenv(f"HOSTCUDA_{variable}", value)

    def call(name, line, locked=""):
        """Run a command line, which may leave no files; those with `locked` in their path cannot be opened."""
        before = list_files(desk)
        words = [word.replace("LONG", LONG).replace("BREAK", BREAK) for word in shlex.split(line)]
        monkeypatch.setattr(sys, "argv", [name, *words])
        with monkeypatch.context() as patched:
            for module, function, part in (
                (io, "open", ""),
                (builtins, "open", ""),
                (os, "stat", "/"),
            ):
                if locked:
                    patched.setattr(
                        module, function, forbid(getattr(module, function), locked + part)
                    )
            with pytest.raises(SystemExit) as done:
                (command if name == "hostcuda" else labkit.cli).main()
        out, err = capfd.readouterr()
        assert list_files(desk) == before
        return done.value.code, out, err

    return call


def require_plain(text, words):
    """Fail unless a text has these words, no long line, no traceback, and no exception's name but those in the words.

    A name in the words is that of an exception in the reader's own Python.
    """
    assert words in text
    assert "Traceback" not in text and max(map(len, text.splitlines())) <= 400
    assert set(re.findall(r"\b\w+(?:Error|Exception)\b|\bSystemExit\b", text)) <= set(
        re.findall(r"\w+", words)
    ), text


def require_one_sentence(name, words, status, out, err):
    """Fail unless a command ended with one sentence on standard error, or with its usage and one."""
    assert (status, out) in ((1, ""), (2, "")), (out, err)
    lines = [line for line in err.splitlines() if line]
    lines = [line for line in lines if status == 1 or not line.startswith(("Usage: ", "Try ", " "))]
    assert len(lines) == 1 and lines[0].startswith("Error: " if status == 2 else f"{name}: "), err
    require_plain(" ".join(err.split()) if status == 2 else err, words)


@pytest.mark.parametrize(("line", "words"), HOSTCUDA, ids=[line for line, _ in HOSTCUDA])
def test_hostcuda_answers_a_bad_input_with_one_sentence(line, words, ask):
    require_one_sentence("hostcuda", words, *ask("hostcuda", line))


@pytest.mark.parametrize(("line", "words"), LABKIT, ids=[line for line, _ in LABKIT])
def test_labkit_answers_a_bad_input_with_one_sentence(line, words, ask):
    require_one_sentence("labkit", words, *ask("labkit", line))


@pytest.mark.parametrize(("line", "status", "words"), VERDICTS, ids=[line for line, *_ in VERDICTS])
def test_a_bad_kernel_or_program_gets_a_verdict(line, status, words, ask):
    ended, out, err = ask("hostcuda", line)
    assert ended == status
    require_plain(out + err, words)


@pytest.mark.parametrize(
    ("name", "line", "words"), LOCKED, ids=[f"{name} {line}" for name, line, _ in LOCKED]
)
def test_what_may_not_be_read_is_named(name, line, words, ask, tmp_path):
    """With functions that refuse: to root nothing is forbidden."""
    (file,) = (word for word in line.split() if "locked" in word)
    if "." in file.partition("/")[0]:
        (tmp_path / file).write_text("nothing\n")
    else:
        (tmp_path / "locked").mkdir()
    require_one_sentence(name, words, *ask(name, line, "locked"))


@pytest.mark.parametrize(
    ("variable", "value", "line", "words"),
    [
        ("HOSTCUDA_ENGINE", "tpu", "hostcuda run ok.cu", "tpu"),
        ("HOSTCUDA_ENGINE", "tpu", "hostcuda sanitize ok.cu", "tpu"),
        ("HOSTCUDA_ENGINE", "tpu", "labkit check 1", "tpu"),
        ("HOSTCUDA_ENGINE", "tpu", "labkit grade class", "tpu"),
        ("HOSTCUDA_WORKERS", "many", "hostcuda run ok.cu", "many"),
        ("HOSTCUDA_WORKERS", "²", "hostcuda run ok.cu", "²"),
        ("HOSTCUDA_MEMORY_MB", "-5", "labkit check 1", "-5"),
        ("HOSTCUDA_EXECUTION_MODE", "third", "labkit check 1", "third"),
        ("HOSTCUDA_CHECK", "lint", "hostcuda run ok.cu", "lint"),
        ("HOSTCUDA_CHECK", "lint", "hostcuda run ok.py", "lint"),
        ("HOSTCUDA_OUTPUT_LIMIT", "x", "hostcuda run ok.cu", "'--output-limit'"),
        ("HOSTCUDA_OUTPUT_LIMIT", "-1", "hostcuda profile ok.cu", "'--output-limit'"),
        ("CXX", '"', "hostcuda run ok.cu", """needs a C++ compiler, and CXX='"' is not one"""),
        ("CXX", " ", "hostcuda run ok.cu", "needs a C++ compiler, and CXX=' ' is not one"),
        (
            "CXX",
            "no-such",
            "hostcuda run ok.cu",
            "needs a C++ compiler, and CXX='no-such' is not one",
        ),
    ],
)
def test_a_bad_variable_is_named(variable, value, line, words, desk):
    """As a process: an engine in use reads most of them once."""
    before, environment = (
        list_files(desk),
        {**os.environ, "HOSTCUDA_ENGINE": "cpu", variable: value},
    )
    done = subprocess.run(
        [sys.executable, "-m", *line.split()], env=environment, capture_output=True, text=True
    )
    assert list_files(desk) == before
    if variable == "CXX":  # its remedy takes several lines
        assert (done.returncode, done.stdout) == (1, "")
        require_plain(done.stderr, words)
    else:
        require_one_sentence(line.split()[0], words, done.returncode, done.stdout, done.stderr)


def test_a_full_disk_is_one_sentence(desk, monkeypatch, capfd):
    def copy(source, target):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(source), None, str(target))

    monkeypatch.setattr(shutil, "copy2", copy)
    monkeypatch.setattr(sys, "argv", ["labkit", "student", "--out", "edition"])
    with pytest.raises(SystemExit) as done:
        labkit.cli.main()
    require_one_sentence("labkit", "No space left on device", done.value.code, *capfd.readouterr())
