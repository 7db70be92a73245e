"""Hand-ins that attack the grader: kernels are refused, and the sandbox holds programs.

Each file of `attacks` has a function that says whether it has reached its aim; those in `forged`
are kernels that try to pass.
"""

import re
import subprocess
import time
from pathlib import Path

import pytest

from hostcuda import untrusted
from hostcuda.errors import EngineError
from hostcuda.host import toolchain
from hostcuda.sandbox import Limits
from labkit.base.paths import PYTHONPATH
from labkit.exercises.exercise import exercise
from labkit_classroom import grading, sandbox

pytestmark = pytest.mark.thorough("a class of hand-ins: minutes")

ATTACKS = Path(__file__).parent / "attacks"
PROGRAMS = {path.stem: path.read_text() for path in sorted(ATTACKS.glob("*.cpp"))}
FORGED = {path.stem: path.read_text() for path in sorted(ATTACKS.glob("forged/*.cu"))}
ASKED = exercise("01b")
AT = "    y[h * Wo + w] = 0;\n"  # in its starting code

needs_sandbox = pytest.mark.skipif(not sandbox.available(), reason=sandbox.why_not())


def kernel(attack):
    """Return the starting code with an attack in it."""
    top, _, body = attack.partition("// ---\n")
    return f"{top}\n{ASKED.start.replace(AT, body + AT)}"


KERNELS = {
    **{name: kernel(program + "// ---\n    reached();\n") for name, program in PROGRAMS.items()},
    **{name: kernel(attack) for name, attack in FORGED.items()},
    **{path.stem: path.read_text() for path in ATTACKS.glob("known/*.cu")},
}
# Their texts may be those of kernels: they are stopped when they are compiled, loaded or run.
STOPPED_LATER = {
    "answer": 'identifier "written" is undefined in device code',
    "computed_length": "an array whose length is no constant",
    "exits_zero": "the kernel calls exit",
    "fill_disk": "compiles",
    "return_address": "out of bounds",
    "launch_bounds": "compiles",
    "shell": "the kernel calls system",
    "stack": "beyond the local variables of its function",
    "virtual": "calls a function by a pointer",
    "window": "is outside of its array",
    "window_cast": "accesses window, which is in registers or constant, as another type",
    "window_fixed": "accesses window, which is in registers or constant, as another type",
    "window_shadow": "is outside of its array",
}


@pytest.mark.parametrize("name", sorted({*KERNELS} - {*STOPPED_LATER}))
def test_what_is_no_kernel_is_refused(name):
    with pytest.raises(EngineError, match=r"line \d+: a submitted kernel "):
        untrusted.refuse(KERNELS[name])


@needs_sandbox
@pytest.mark.parametrize("name", STOPPED_LATER)
def test_what_looks_like_a_kernel_is_stopped(name):
    grade = grading.grade_in_sandbox(ASKED, KERNELS[name])
    assert not grade.passed and grade.verdict == "not right yet"
    assert STOPPED_LATER[name] in str(grade)


@needs_sandbox
@pytest.mark.parametrize("name", ["10b", "P8b", "14a", "P10b"])  # 15 s
def test_windows_are_not_found_in_right_kernels(name):
    """Local arrays by references, functions of which the compiler puts a part elsewhere, and bulk copies."""
    assert grading.grade_in_sandbox(exercise(name), exercise(name).solution).passed


# --------------------------------------------------------------------------------------------------


def together():
    """Return one program made of all attacks, which takes the name of the one to run."""
    headers = {line for text in PROGRAMS.values() for line in re.findall(r"(?m)^#include.*", text)}
    spaces = [f"namespace {name} {{\n{text}}}\n" for name, text in PROGRAMS.items()]
    cases = [
        f'    if (!strcmp(names[1], "{name}")) return puts({name}::reached() ? "REACHED" : "held"), 0;\n'
        for name in PROGRAMS
    ]
    main = f"int main(int, char **names)\n{{\n{''.join(cases)}    return 2;\n}}\n"
    includes = "\n".join(sorted({*headers, "#include <cstdio>", "#include <cstring>"}))
    return f"{includes}\n{''.join(spaces)}{main}"


def compiled(folder):
    """Compile all attacks into one program in a folder; return its path."""
    (folder / "attacks.cpp").write_text(together())
    subprocess.run(
        [*toolchain.find(), "-std=c++20", "-w", "-o", folder / "attacks", folder / "attacks.cpp"],
        check=True,
    )
    return folder / "attacks"


@pytest.fixture(scope="module")
def attacks(tmp_path_factory):
    """Return the compiled attacks, which lie beside another student's hand-in."""
    folder = tmp_path_factory.mktemp("attacks")
    other = folder / "handed-in" / "bob"
    other.mkdir(parents=True)
    (other / "04a.cu").write_text("bob's")
    return compiled(folder)


@needs_sandbox
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_sandbox_holds(attacks, tmp_path, name):
    limits = Limits(seconds=20, processes=40)
    (tmp_path / "attacks").write_bytes(attacks.read_bytes())
    (tmp_path / "attacks").chmod(0o755)
    ended = sandbox.run([str(tmp_path / "attacks"), name], tmp_path, limits=limits)
    assert "REACHED" not in ended.stdout
    assert "held" in ended.stdout or ended.status is None or ended.status < 0, ended
    if name == "stays":
        size = (tmp_path / name).stat().st_size
        time.sleep(0.3)
        assert (tmp_path / name).stat().st_size == size


def test_without_a_sandbox_they_reach_it(attacks):
    """Only those run that harm nothing."""
    for name in ("descriptors", "limits", "students", "solutions"):
        with open("/dev/null") as left_open:
            process = subprocess.run(
                [attacks, name],
                cwd=attacks.parent,
                capture_output=True,
                text=True,
                pass_fds=[left_open.fileno()],
                env={"PYTHONPATH": PYTHONPATH},
            )
        assert process.stdout == "REACHED\n", name
