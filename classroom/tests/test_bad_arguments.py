"""A hundred bad inputs to both commands: one sentence says what is wrong, exit status 1 or 2, and no file changes."""

import hashlib
import os
import re
import shlex
import sys

import pytest

import labkit.cli
from hostcuda import command

pytestmark = pytest.mark.thorough("tools of the repository")

PROGRAM = '#include <cstdio>\n__global__ void f(int *x) { *x = 1; }\nint main() { printf("hello\\n"); }\n'
FILES = {
    "ok.cu": PROGRAM,
    "kernel.cu": 'extern "C" __global__ void f(float *x) { x[threadIdx.x] = 1; }\n',
    "empty.cu": "",
    "latin.cu": b"// caf\xe9\n",
    "ok.py": "print('hello')\n",
    "words.txt": "These are words.\n",
    "table.csv": "name,id\nAda Lovelace,1\n",
    "broken.json": '{"cases": [',
    "number.json": "3",
    "unknown.json": '{"cases": [], "colour": "red"}',
    "list.json": '["f"]',
    "binary.json": b"\xff\xfe\x00",
    "roster.csv": "who,what\nada,1\n",
    "twice.csv": "name,id,email\nAda,1,ada@x.org\nAda,1,ada@x.org\n",
    "no_table.csv": b"\xff\xfe\x00\x01",
    "broken.ipynb": "{",
    "list.ipynb": "[]",
    "class/alice/04a.cu": "// nothing\n",
    "class/notes.txt": "Thursday\n",
    "full/notes.txt": "mine\n",
    "own/exercise.toml": "number = ",
}

HOSTCUDA = """
--nope
runn
run
run no-such.cu
run words.txt
run .
run full
run latin.cu --engine
run --engine tpu ok.cu
run --engine= ok.cu
run --timeout one ok.cu
run --timeout 0 ok.cu
run --timeout -1 ok.cu
run --timeout nan ok.cu
run --output-limit -1 ok.cu
run --output-limit many ok.cu
run --options '"' ok.cu
run ok.cu --timeout 3
run ok.cu --options=-G
run ok.py --strict
run --engine gpu ''
run --nope
profile
profile no-such.cu
profile --csv no-such/x.csv ok.cu
profile --csv words.txt ok.cu
profile --csv full ok.cu
profile --csv ok.cu ok.cu
profile --csv '' ok.cu
profile --estimate H900 ok.cu
profile --estimate '' ok.cu
profile --engine tpu ok.cu
profile --timeout 0 ok.cu
profile --timeout -3 ok.cu
profile --options "'" ok.cu
profile ok.cu --csv x.csv
profile ok.cu --json
profile ok.cu --no-nvcc
sanitize
sanitize no-such.cu
sanitize --tool lint ok.cu
sanitize --tool '' ok.cu
sanitize --csv no-such/x.csv ok.cu
sanitize --csv words.txt ok.cu
sanitize --engine tpu ok.cu
sanitize --timeout 0 ok.cu
sanitize --timeout soon ok.cu
sanitize --options '"' ok.cu
sanitize ok.cu --tool racecheck
sanitize ok.cu --csv=x.csv
check
check no-such.cu
check .
check latin.cu
check kernel.cu more.cu
check kernel.cu --cases no-such.json
check kernel.cu --cases broken.json
check kernel.cu --cases number.json
check kernel.cu --cases unknown.json
check kernel.cu --cases binary.json
check kernel.cu --previous no-such.json
check kernel.cu --previous broken.json
check kernel.cu --previous binary.json
check kernel.cu --reference no-such.py
check kernel.cu --reference full
check kernel.cu --seconds 1
check kernel.cu --seconds 301
check kernel.cu --seconds soon
check kernel.cu --options '"'
check kernel.cu --previous number.json
check kernel.cu --cases list.json
doctor now
pycuda now
mcp now
"""

LABKIT = """
--nope
reprot
check
check one
check 42
check -1
check 1.5
check 1 42
check 1 --engine tpu
check 1 --source no-such.cu
check 1 --source full
check 1 --source latin.cu
check 1 --source empty.cu
check 1 2 --source kernel.cu
bench
bench 42
bench 1 --layer lenet86
bench 1 --layer ''
bench 1 --batch 0
bench 1 --batch -4
bench 1 --batch many
bench 1 --csv no-such/x.csv
bench 1 --csv words.txt
bench 1 --csv full
bench 1 --engine tpu
device --engine tpu
device now
doctor now
report no-such
report 99
report 01_baselin
report broken.ipynb
report list.ipynb
report words.txt
report --out words.txt --stored 1
report --out full --stored 1
report --engine tpu 1
report ''
store no-such
store 99
store broken.ipynb
store words.txt
store list.ipynb --as-is
site --out words.txt
site --out full
site --repository nowhere
site now
exercise nope
exercise new
exercise new full
exercise new words.txt
exercise start 99z
exercise start no-such
exercise start own
exercise test 99z
exercise test own
exercise test full
grade
grade no-such
grade class --out words.txt
grade class --format excel
grade class --roster no-such.csv
grade class --roster roster.csv
grade class --roster no_table.csv
grade class --roster full
grade class --due tomorrow
grade class --due 99z=2026-12-01T23:59+01:00
grade class --due 2026-12-01T23:59
grade class --points many
grade class --points -1
grade class --points 99z=3
grade class --points 1/0
grade class --partial 2
grade class --partial half
grade class --exercise 99z
grade class --exercise own
grade class --jobs 0
grade class --jobs many
grade class/alice/04a.cu --prune
grade --prune
similarity
similarity no-such
similarity class --most 0
similarity class --exercise 99z
autograder
autograder 04a
autograder --gradescope
autograder --gradescope --image 04a
autograder --gradescope 99z
autograder --image own
autograder --image --out full
autograder --gradescope 04a --out full
autograder --gradescope 04a --out words.txt
student --out full
student --out words.txt
student now
"""

CASES = [
    (name, line) for name, lines in (("hostcuda", HOSTCUDA), ("labkit", LABKIT)) for line in lines.strip().splitlines()
]


def list_files(folder):
    """Return the digest of each file and the names of all folders below one."""
    return {str(path.relative_to(folder)): path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest()
            for path in folder.rglob("*")}


@pytest.fixture
def desk(tmp_path):
    """Return a folder with what a reader may have: programs, tables, hand-ins, and much that is none of these."""
    for name, content in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return tmp_path


@pytest.mark.parametrize(("name", "line"), CASES, ids=[f"{name} {line}" for name, line in CASES])
def test_a_bad_input_is_one_sentence_and_loses_nothing(name, line, desk, monkeypatch, capsys):
    monkeypatch.chdir(desk)
    monkeypatch.setattr(sys, "argv", [name, *shlex.split(line)])
    for variable in ("HOSTCUDA_ENGINE", "HOSTCUDA_WARNINGS", "HOSTCUDA_OUTPUT_LIMIT"):  # which the commands set
        monkeypatch.setenv(variable, os.environ.get(variable, ""))
    before = list_files(desk)
    with pytest.raises(SystemExit) as done:
        (command if name == "hostcuda" else labkit.cli).main()
    out, err = capsys.readouterr()
    assert done.value.code in (1, 2), (out, err)
    assert list_files(desk) == before
    *usage, said = re.sub(r"\n(?! )", "\0", err.strip()).split("\0") if done.value.code == 2 else err.splitlines()
    assert said.startswith("Error: " if done.value.code == 2 else f"{name}: "), err
    assert all(text.startswith(("Usage: ", "Try ")) for text in usage if text.strip()), err
    assert "Traceback" not in out + err and not out
