"""The command: what it prints, its exit status, and no traceback for what the engine refuses."""

import json
import os
import subprocess
import sys

import pytest

import hostcuda
from hostcuda import command as cli

pytestmark = pytest.mark.thorough("tools and documents of the engine")

COMMANDS = (
    "check",
    "doctor",
    "lines",
    "mcp",
    "prepare",
    "profile",
    "pycuda",
    "run",
    "sanitize",
    "step",
)


def test_help_lists_the_commands(hostcuda_command):
    status, out, _ = hostcuda_command("--help")
    assert status == 0
    for name in COMMANDS:
        assert f" {name} " in out
    assert "..." not in out.replace("[ARGS]...", "")  # no summary is cut short


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself(hostcuda_command, name):
    status, out, _ = hostcuda_command(name, "--help")
    assert status == 0
    assert f"Usage: hostcuda {name}" in out
    assert "[[" not in out and "bool" not in out  # an argument is named once; a flag takes no value


def test_help_has_a_short_form_and_shells_complete_commands(hostcuda_command, monkeypatch):
    # it would find that of `make`
    monkeypatch.setenv("_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION", "1")
    assert hostcuda_command("run", "-h") == hostcuda_command("run", "--help")
    status, out, _ = hostcuda_command("--show-completion", "bash")
    assert status == 0
    assert "_HOSTCUDA_COMPLETE=complete_bash" in out


@pytest.mark.parametrize(
    ("shell", "typed", "found", "other"),
    [
        ("bash", {"COMP_WORDS": "hostcuda sani", "COMP_CWORD": "1"}, "sanitize", "profile"),
        ("zsh", {"_TYPER_COMPLETE_ARGS": "hostcuda sani"}, "sanitize", "profile"),
        ("zsh", {"_TYPER_COMPLETE_ARGS": "hostcuda run --engine g"}, "gpu", "cpu"),
        (
            "bash",
            {"COMP_WORDS": "hostcuda sanitize --tool r", "COMP_CWORD": "3"},
            "racecheck",
            "memcheck",
        ),
    ],
)
def test_what_a_shell_asks_when_a_word_is_completed(shell, typed, found, other):
    environment = {**os.environ, **typed, "_HOSTCUDA_COMPLETE": f"complete_{shell}"}
    done = subprocess.run(
        [sys.executable, "-m", "hostcuda"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert found in done.stdout and other not in done.stdout


@pytest.mark.parametrize("name", ["profile", "sanitize"])
def test_json_is_alone_on_the_standard_output(hostcuda_command, tmp_path, write_program, name):
    program, csv = write_program("print('hello')\n", "program.py"), tmp_path / "rows.csv"
    status, out, err = hostcuda_command(name, "--engine", "cpu", "--json", "--csv", csv, program)
    report = json.loads(out)
    assert (status, err) == (0 if name == "profile" else 6, f"hello\n{csv}\n")
    assert (
        report == []
        if name == "profile"
        else (report["verdict"], report["status"]) == ("not_checked", 6)
    )
    assert csv.is_file()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run", "no-such-program.cu"], "no-such-program.cu"),
        (["profile", "--engine", "cpu", "--timeout", "0", __file__], "a time limit of 0 s: give"),
        (
            ["sanitize", "--engine", "cpu", "--timeout", "-1", __file__],
            "a time limit of -1 s: give",
        ),
        (["sanitize", "--engine", "cpu", "--tool", "lint", __file__], "memcheck, racecheck"),
        (
            ["profile", "--csv", "no-such-folder/x.csv", __file__],
            "there is no folder no-such-folder for x.csv",
        ),
        (
            ["profile", "--csv", __file__, __file__],
            "test_command.py is there, and is no table of an earlier run",
        ),
        (
            ["sanitize", "--csv", __file__, __file__],
            "test_command.py is there, and is no table of an earlier run",
        ),
    ],
)
def test_refusals_are_one_line(hostcuda_command, arguments, words):
    status, out, err = hostcuda_command(*arguments)
    assert status == 1
    assert err.startswith("hostcuda: ")
    assert words in err
    assert len(err.splitlines()) == 1
    assert "Traceback" not in out + err


def test_misspelt_arguments_are_a_usage_error(hostcuda_command):
    assert hostcuda_command("runn")[0] == 2
    assert hostcuda_command("profile", "--timeout", "one", __file__)[0] == 2


def test_a_bug_keeps_its_traceback(monkeypatch):
    def bug(prog_name):
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(cli, "app", bug)
    monkeypatch.setenv("HOSTCUDA_WARNINGS", "1")  # as in `command`
    with pytest.raises(ZeroDivisionError):
        cli.main()


@pytest.mark.parametrize("name", ["run", "profile", "sanitize"])
def test_an_option_of_the_command_behind_the_program_is_refused(
    name, hostcuda_command, write_program
):
    program = write_program("import sys\nprint(*sys.argv[1:])\n", "program.py")
    status, out, err = hostcuda_command(
        name, "--engine", "cpu", program, "--timeout", "3", "--options=-G", "--other"
    )
    assert status == 2 and not out
    assert (
        f"--timeout, --options=-G behind {program}: put options of hostcuda {name} in front"
        in " ".join(err.split())
    )


def test_a_warning_is_one_line_without_the_engines_own_source(write_program):
    line = [sys.executable, "-m", "hostcuda", "run", "--engine", "cpu", "--options", "--nope"]
    ended = subprocess.run(
        [*line, write_program("int main() { return 0; }\n")], capture_output=True, text=True
    )
    assert (
        ended.stderr
        == "hostcuda: warning: the CPU engine ignores the unknown nvcc option '--nope'\n"
    )


@pytest.mark.parametrize(
    ("behind", "given", "status"),
    [
        (["0"], ["0"], 0),
        (["7"], ["7"], 7),
        (["--epochs", "3", "-x"], ["--epochs", "3", "-x"], 0),
        (["--", "--csv", "out.csv", "--", "--other"], ["--csv", "out.csv", "--", "--other"], 0),
    ],
)
def test_the_program_gets_its_arguments_and_gives_the_status(
    hostcuda_command, write_program, behind, given, status
):
    program = write_program(
        "import sys\nprint(*sys.argv[1:], flush=True)\nsys.exit(sys.argv[1] == '7' and 7)\n",
        "program.py",
    )
    ended, out, _ = hostcuda_command("run", "--engine", "cpu", program, *behind)
    assert (ended, out.split()) == (status, given)


def test_python_m_hostcuda_and_a_light_start():
    """As a process, with nothing heavy imported for a question as small as the version."""
    code = (
        "import sys\nsys.argv = ['hostcuda', '--version']\n"
        "try:\n    import hostcuda.__main__\nfinally:\n    print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    version, modules = done.stdout.split("\n", 1)
    assert version == f"hostcuda {hostcuda.__version__}"
    assert not {"numpy", "pandas", "matplotlib", "labkit", "pycuda", "pydantic"} & set(
        modules.split()
    )


LOOKED_AT = """__global__ void stride(const float *x, float *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[2 * i];
}
"""


def test_lines_and_steps_of_a_kernel(hostcuda_command, tmp_path):
    """Two kinds of check mode, which compile: ten seconds."""
    file = tmp_path / "stride.cu"
    file.write_text(LOOKED_AT)
    arguments = {"x": {"shape": [200], "fill": "arange"}, "y": {"shape": [100]}, "n": 100}
    cases = [{"grid": [4], "block": [32], "arguments": arguments}]
    file.with_suffix(".json").write_text(json.dumps(cases))
    status, out, _ = hostcuda_command("lines", file)
    assert status == 0 and "loads of x, 4 bytes each: 4 requests, 25 sectors" in out
    assert "the worst: 8, warp 0 of block (0,0,0), elements 0, 2, … 62" in out
    status, out, _ = hostcuda_command("step", file, "--thread", "3", "--block", "1")
    assert status == 0 and out == (
        "line 2: int i = blockIdx.x * blockDim.x + threadIdx.x;\n  i = 35\n"
        "line 3: if (i < n) y[i] = x[2 * i];\n  ld x[70] = 70.0\n  st y[35] = 70.0\n"
    )
    status, out, _ = hostcuda_command("step", file, "--thread", "40")
    assert status == 6 and out.startswith("the launch has no thread (40, 0, 0) of block (0, 0, 0)")
    assert hostcuda_command("lines", file, "--case", "2")[0] != 0
