"""Bad inputs to both commands: one sentence says what is wrong, exit status 1 or 2, and no file changes."""

import errno
import hashlib
import os
import re
import shlex
import shutil
import stat
import subprocess
import sys

import pytest

import hostcuda
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
    "größe λ.txt": "Ångström\n",
    "ok programs/größe λ.csv": "mine,too\n1,2\n",
    "deep.json": "[" * 100_000,
    "digits.json": f"[{'9' * 5000}]",
    "nan.json": "[NaN]",
    "null.json": '{"cases": null}',
    "empty_case.json": "[{}]",
    "number_grid.json": '[{"grid": 1, "block": [32], "arguments": {}}]',
    "no_grid.json": '[{"grid": [], "block": [32], "arguments": {}}]',
    "half_block.json": '[{"grid": [1], "block": [1.5], "arguments": {}}]',
    "list_arguments.json": '[{"grid": [1], "block": [32], "arguments": [1]}]',
    "number_kernel.json": '{"cases": [], "kernel": 3}',
    "list_options.json": '{"cases": [], "options": ["-DN"]}',
    "object.json": '{"cases": {"a": 1}}',
    "cells.ipynb": '{"cells": 3, "nbformat": 4, "nbformat_minor": 5, "metadata": {}}',
    "version.ipynb": '{"cells": [], "nbformat": 9, "nbformat_minor": 5, "metadata": {}}',
    "deep.ipynb": "[" * 100_000,
    "binary.ipynb": b"\xff\xfe\x00",
    "cut.csv": 'name,id\n"Ada,1\n',
    "marked/grades.csv": "the marks of last year\n",
}
LONG = 300 * "n"  # longer than a file's name may be

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
run --timeout inf ok.cu
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
sanitize --timeout inf ok.cu
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
run 'größe λ.txt'
run 'größe λ.cu'
run ' '
run LONG.cu
run LONG
run ok.cu/x.cu
run loop.cu
run gone.cu
run --options -I ok.cu
run --options no-such.cu ok.cu
run empty.cu
profile --csv ok.cu/x.csv ok.cu
profile --csv LONG.csv ok.cu
profile --csv 'ok programs/größe λ.csv' ok.cu
profile --csv loop.cu ok.cu
profile --csv gone.cu ok.cu
profile --csv link.csv ok.cu
profile --csv pipe ok.cu
profile --estimate H200 --engine gpu ok.cu
profile --estimate H200 --lines ok.cu
sanitize --csv ok.cu/x.csv ok.cu
sanitize --csv link.csv ok.cu
sanitize --csv table.csv ok.cu
sanitize --tool memcheck,lint ok.cu
sanitize --tool MEMCHECK ok.cu
check LONG.cu
check loop.cu
check binary.json
check kernel.cu --cases full
check kernel.cu --cases LONG
check kernel.cu --cases deep.json
check kernel.cu --cases digits.json
check kernel.cu --cases nan.json
check kernel.cu --cases null.json
check kernel.cu --cases empty_case.json
check kernel.cu --cases number_grid.json
check kernel.cu --cases no_grid.json
check kernel.cu --cases half_block.json
check kernel.cu --cases list_arguments.json
check kernel.cu --cases number_kernel.json
check kernel.cu --cases list_options.json
check kernel.cu --cases object.json
check kernel.cu --previous deep.json
check kernel.cu --options=-Inope
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
check 99999999999999999999999999
check 1 --source LONG.cu
check 1 --source loop.cu
check 1 --source ok.cu/x.cu
check 1 --source 'größe λ.txt'
bench 1 --batch 1 --batch 0
bench 1 --batch 99999999999999999999
bench 1 --layer λ
bench 1 --csv ok.cu/x.csv
bench 1 --csv LONG.csv
bench 1 --csv link.csv
bench 1 --csv pipe
bench 1 --batch 99999999
report LONG
report cells.ipynb
report version.ipynb
report deep.ipynb
report binary.ipynb
report full
report 1 no-such
report --stored 1 --out ok.cu/x
report --stored 1 --out LONG
store cells.ipynb --as-is
store deep.ipynb --as-is
store binary.ipynb
site --out ok.cu/x
site --out LONG
exercise new ok.cu/x
exercise new LONG
exercise new loop.cu
exercise start LONG
exercise start ''
grade LONG
grade loop.cu
grade class --roster cut.csv
grade class --rules no-such.toml
grade class --rules full
grade class --rules roster.csv
grade class --rules own/exercise.toml
grade class --rules binary.json
grade class --roster LONG
grade class --roster loop.cu
grade class --out ok.cu/x
grade class --out LONG
grade class --out marked
grade class --out class
grade class --points nan
grade class --points 1e999
grade class --partial nan
grade class --jobs -1
grade class --format ''
similarity class --most nan
similarity loop.cu
similarity broken.ipynb
similarity class --out full
similarity class --out words.txt
similarity class --out link.csv
autograder --gradescope 04a --out ok.cu/x
autograder --gradescope 04a --out LONG
autograder --gradescope 04a --out link.csv
autograder --image --out ok.cu/x
student --out ok.cu/x
student --out LONG
"""

CASES = [
    (name, line) for name, lines in (("hostcuda", HOSTCUDA), ("labkit", LABKIT)) for line in lines.strip().splitlines()
]


def list_files(folder):
    """Return the type of all that is below a folder, with the digest of each file and the target of each link."""
    return {str(path.relative_to(folder)): (
        stat.S_IFMT(path.lstat().st_mode),
        os.readlink(path) if path.is_symlink() else path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest(),
    ) for path in folder.rglob("*")}


@pytest.fixture
def desk(tmp_path):
    """Return a folder with what a reader may have: programs, tables, hand-ins, and much that is none of these."""
    for name, content in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    for name, target in (("loop.cu", "loop.cu"), ("gone.cu", "no-such.cu"), ("link.csv", "words.txt")):
        (tmp_path / name).symlink_to(target)
    os.mkfifo(tmp_path / "pipe")
    return tmp_path


def require_one_sentence(name, status, out, err):
    """Fail unless a command ended with a usage error, or with one line on standard error alone."""
    assert status in (1, 2), (out, err)
    *usage, said = re.sub(r"\n(?! )", "\0", err.strip()).split("\0") if status == 2 else err.splitlines()
    if hostcuda.engine() == "gpu" and status == 1:  # nvcc's lines, and those about a fault, follow the sentence
        usage, said = (), err.partition("\n")[0]
    assert said.startswith("Error: " if status == 2 else f"{name}: "), err
    assert all(text.startswith(("Usage: ", "Try ")) for text in usage if text.strip()), err
    assert "Traceback" not in out + err and not out


@pytest.mark.parametrize(("name", "line"), CASES, ids=[f"{name} {line}" for name, line in CASES])
def test_a_bad_input_is_one_sentence_and_loses_nothing(name, line, desk, monkeypatch, capfd):
    monkeypatch.chdir(desk)
    monkeypatch.setattr(sys, "argv", [name, *shlex.split(line.replace("LONG", LONG))])
    for variable in ("HOSTCUDA_ENGINE", "HOSTCUDA_WARNINGS", "HOSTCUDA_OUTPUT_LIMIT"):  # which the commands set
        monkeypatch.setenv(variable, os.environ.get(variable, ""))
    before = list_files(desk)
    with pytest.raises(SystemExit) as done:
        (command if name == "hostcuda" else labkit.cli).main()
    require_one_sentence(name, done.value.code, *capfd.readouterr())
    assert list_files(desk) == before


@pytest.mark.parametrize(("variable", "value", "line"), [
    ("HOSTCUDA_ENGINE", "tpu", "hostcuda run ok.cu"),
    ("HOSTCUDA_ENGINE", "tpu", "hostcuda sanitize ok.cu"),
    ("HOSTCUDA_ENGINE", "tpu", "labkit check 1"),
    ("HOSTCUDA_ENGINE", "tpu", "labkit grade class"),
    ("HOSTCUDA_WORKERS", "many", "hostcuda run ok.cu"),
    ("HOSTCUDA_MEMORY_MB", "-5", "labkit check 1"),
    ("HOSTCUDA_GEAR", "third", "labkit check 1"),
    ("HOSTCUDA_CHECK", "lint", "hostcuda run ok.cu"),
    ("HOSTCUDA_CHECK", "lint", "hostcuda run ok.py"),
    ("HOSTCUDA_OUTPUT_LIMIT", "x", "hostcuda run ok.cu"),
    ("HOSTCUDA_OUTPUT_LIMIT", "-1", "hostcuda profile ok.cu"),
])
def test_a_bad_variable_is_one_sentence_and_loses_nothing(variable, value, line, desk):
    """As a process: an engine in use reads most of them once."""
    name, *arguments = line.split()
    before, environment = list_files(desk), {**os.environ, "HOSTCUDA_ENGINE": "cpu", variable: value}
    done = subprocess.run([sys.executable, "-m", name, *arguments], cwd=desk, env=environment, capture_output=True,
                          text=True, check=False)
    require_one_sentence(name, done.returncode, done.stdout, done.stderr)
    assert list_files(desk) == before


def test_a_full_disk_is_one_sentence(desk, monkeypatch, capfd):
    def copy(source, target):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(source), None, str(target))

    monkeypatch.chdir(desk)
    monkeypatch.setattr(shutil, "copy2", copy)
    monkeypatch.setattr(sys, "argv", ["labkit", "student", "--out", "edition"])
    with pytest.raises(SystemExit) as done:
        labkit.cli.main()
    out, err = capfd.readouterr()
    require_one_sentence("labkit", done.value.code, out, err)
    assert err.startswith("labkit: edition/") and err.endswith(": No space left on device\n")


@pytest.mark.parametrize("value", ['"', " ", "no-such-compiler"])
def test_a_bad_compiler_is_named_with_its_remedy(value, desk):
    before = list_files(desk)
    done = subprocess.run([sys.executable, "-m", "hostcuda", "run", "ok.cu"], cwd=desk, capture_output=True, text=True,
                          check=False, env={**os.environ, "HOSTCUDA_ENGINE": "cpu", "CXX": value})
    assert done.returncode == 1 and not done.stdout
    assert done.stderr.startswith(f"hostcuda: the CPU engine needs a C++ compiler, and CXX={value!r} is not one")
    assert "Traceback" not in done.stderr and list_files(desk) == before
