"""The sandbox: what a command can see, how it is stopped, and which results count."""

import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from hostcuda import sandbox
from hostcuda.errors import EngineError
from hostcuda.host import toolchain
from hostcuda.sandbox import Limits, SandboxEnded, View, runs, seccomp, write_answer
from hostcuda.settings import HOME

pytestmark = pytest.mark.thorough("programs that reach their limits: a minute")

needs_sandbox = pytest.mark.skipif(bool(sandbox.why_not()), reason=sandbox.why_not())

KERNEL = 'extern "C" __global__ void twice(float *y) { y[threadIdx.x] *= 2; }\n'

CHECK = "profile,memcheck,racecheck,initcheck,synccheck"  # as the grader

# What a grader's child does: the nonce first, then the submission.
CHILD = f"""
import sys
import numpy as np
sys.path[:0] = [{str(HOME)!r}]
from hostcuda.api import driver
from hostcuda.api.compiler import SourceModule
from hostcuda import untrusted
from hostcuda.sandbox import write_answer
nonce = sys.stdin.read()
source = open("kernel.cu").read()
untrusted.guard(source)
driver.init()
context = driver.Device(0).make_context()
y = np.arange(4, dtype=np.float32)
SourceModule(source, no_extern_c=True).get_function("twice")(
    driver.InOut(y), grid=(1, 1), block=(4, 1, 1))
write_answer("answer", nonce, dict(y=y.tolist()))
"""


def python(program, scratch, *arguments, **options):
    return sandbox.run(
        [sys.executable, "-I", "-c", program, *map(str, arguments)], scratch, **options
    )


def shell(line, scratch, **options):
    return sandbox.run(["sh", "-c", line], scratch, **options)


# --------------------------------------------------------------------------------------------------


@needs_sandbox
def test_it_sees_no_files_but_those_that_it_needs(tmp_path, monkeypatch):
    monkeypatch.setenv("SECRET_TOKEN", "1234")
    scratch, other, granted = tmp_path / "one", tmp_path / "other", tmp_path / "given"
    for folder in (scratch, other, granted):
        folder.mkdir()
        (folder / "kernel.cu").write_text("mine")
    hidden = [
        *map(
            str,
            (other, "/etc/passwd", "/etc/shadow", "/home", Path.home() / ".ssh", Path(__file__)),
        )
    ]
    program = (
        "import os, sys\n"
        "assert not [path for path in sys.argv[2:] if os.path.exists(path)]\n"
        "assert open(sys.argv[1]).read() == open('kernel.cu').read() == 'mine'\n"
        "open('result', 'w').write('kept'); open('/tmp/private', 'w').write('lost')\n"
        "print(sorted(name for name in os.environ if not name.startswith('L')))\n"
        "print([int(name) for name in os.listdir('/proc') if name.isdigit()])\n"
    )
    ended = python(program, scratch, granted / "kernel.cu", *hidden, view=View((granted,)))
    assert (ended.status, ended.problem, ended.stderr) == (0, "", "")
    names, processes = map(eval, ended.stdout.splitlines())
    assert set(names) <= {
        "CXX",
        "HOME",
        "HOSTCUDA_CACHE_DIR",
        "HOSTCUDA_CHECK",
        "HOSTCUDA_ENGINE",
        "MKL_NUM_THREADS",
        "OMP_NUM_THREADS",
        "OPENBLAS_NUM_THREADS",
        "PATH",
        "PWD",
        "PYTHONDONTWRITEBYTECODE",
        "PYTHONPATH",
        "PYTHONSAFEPATH",
        "TMPDIR",
    }
    assert len(processes) < 5 and os.getpid() not in processes
    assert (scratch / "result").read_text() == "kept" and not Path("/tmp/private").exists()


@needs_sandbox
def test_it_can_write_nothing_else(tmp_path):
    program = (
        "import os, sys\n"
        "for path in ['/', '/usr', '/etc', '/dev', '/dev/shm', '/proc/sys/kernel', *sys.argv[1:]]:\n"
        "    try: open(os.path.join(path, 'x'), 'w')\n"
        "    except OSError: continue\n"
        "    print(path)\n"
    )
    granted = tmp_path / "given"
    granted.mkdir()
    granted.chmod(0o777)
    (tmp_path / "one").mkdir()
    ended = python(
        program, tmp_path / "one", sys.prefix, sys.base_prefix, granted, view=View((granted,))
    )
    assert (ended.status, ended.stdout) == (0, "")


@needs_sandbox
def test_the_compiler_finds_no_file_of_the_machine(tmp_path):
    (tmp_path / "include.cpp").write_text('#include "/etc/passwd"\n')
    (tmp_path / "incbin.cpp").write_text('asm(".incbin \\"/etc/shadow\\"");\n')
    for name in ("include", "incbin"):
        ended = shell(f"${{CXX:-c++}} -c {name}.cpp", tmp_path)
        assert ended.status == 1 and ("No such file" in ended.stderr or "not found" in ended.stderr)


# --------------------------------------------------------------------------------------------------

HOG = "kept = []\nwhile True: kept.append(b'1' * (8 << 20))"
NAMELESS = """import mmap, os, time
kept = []
for i in range(9):
    file = open(str(i), 'wb+')
    os.unlink(str(i)); file.write(bytes(9 << 20)); file.flush()
    kept.append(file)
    del file
    time.sleep(0.2)
"""
FILLED = "i=0; while :; do i=$((i+1)); head -c 1000000 /dev/zero > $i; done"


@pytest.mark.parametrize(
    ("program", "limits", "problem"),
    [
        ("while True: pass", Limits(seconds=0.5), "took longer than 0.5 s"),
        (
            "import signal, time\nsignal.signal(15, signal.SIG_IGN)\ntime.sleep(99)",
            Limits(seconds=0.5),
            "took longer ",
        ),
        ("while True: pass", Limits(processor_seconds=1), "used more than 1 s of processor time"),
        (
            "import os\nwhile True:\n  if not os.fork():\n    for _ in range(10**6): pass\n"
            "    os._exit(0)\n  os.wait()",
            Limits(processor_seconds=1),
            "used more than 1 s of processor time",
        ),
        (HOG, Limits(memory=200 << 20), "used more than 200 MB of memory"),
        (
            "import os\nos.execlp('sh', 'sh', '-c', " + repr(FILLED) + ")",
            Limits(scratch=20 << 20),
            "wrote more than 20 MB of files",
        ),
        (
            "i = 0\nwhile True:\n  open(str(i), 'w').close(); i += 1",
            Limits(files=1000),
            "wrote more than 1,000 files",
        ),
        (
            "import signal\nsignal.signal(signal.SIGXFSZ, signal.SIG_DFL)\nopen('big', 'wb').write(bytes(9 << 20))",
            Limits(file=1 << 20),
            "wrote a file of more than 1 MB",
        ),
        (NAMELESS, Limits(scratch=20 << 20), "wrote more than 20 MB of files"),
        (
            NAMELESS.replace("kept.append(file)", "kept.append(mmap.mmap(file.fileno(), 4096))"),
            Limits(scratch=40 << 20, file=16 << 20),
            "wrote more than 40 MB of files",
        ),
        ("import os; os.abort()", None, "was ended by SIGABRT"),
        ("raise SystemExit(3)", None, "ended with exit status 3"),
    ],
    ids=[
        "loop",
        "deaf",
        "processor",
        "processors",
        "memory",
        "files",
        "empty files",
        "one file",
        "open files without a name",
        "mapped files without a name",
        "abort",
        "exit",
    ],
)
@needs_sandbox
def test_a_limit_stops_it(tmp_path, program, limits, problem):
    ended = python(program, tmp_path, limits=limits)
    assert ended.problem.startswith(problem)
    with pytest.raises(EngineError, match=f"there is no result: the program {problem}"):
        sandbox.read_answer(ended, tmp_path / "answer", "nonce")


@needs_sandbox
def test_private_files_in_memory_are_limited(tmp_path):
    ended = shell("head -c 9000000 /dev/zero > /tmp/big", tmp_path, limits=Limits(scratch=4 << 20))
    assert ended.status == 1 and "No space left" in ended.stderr


@needs_sandbox
def test_a_flood_is_cut(tmp_path):
    ended = shell("yes PASS; ", tmp_path, limits=Limits(seconds=0.4, output=1000))
    assert ended.problem and ended.stdout == "PASS\n" * 200 and ended.peak_memory < 50 << 20


# --------------------------------------------------------------------------------------------------


def graded(scratch, source, child=CHILD):
    """Run a child that grades; return how it ended, and the nonce that it was given."""
    (scratch / "kernel.cu").write_text(source)
    word = sandbox.make_nonce()
    return python(child, scratch, check=CHECK, stdin=word), word


@needs_sandbox
def test_a_kernel_runs_in_it(tmp_path):
    ended, word = graded(tmp_path, KERNEL)
    assert (ended.status, ended.stderr) == (0, "")
    assert sandbox.read_answer(ended, tmp_path / "answer", word) == {"y": [0, 2, 4, 6]}


@needs_sandbox
def test_the_first_kernel_of_a_new_cache_finds_all_that_the_engine_compiles(tmp_path, monkeypatch):
    """It takes seconds: a new cache has neither the engine's library nor its header."""
    monkeypatch.setenv("HOSTCUDA_CACHE_DIR", str(tmp_path / "cache"))
    sandbox.precompile.cache_clear()
    try:
        (tmp_path / "scratch").mkdir()
        ended, _ = graded(tmp_path / "scratch", KERNEL)
        assert (ended.status, ended.stderr) == (0, "")
    finally:
        sandbox.precompile.cache_clear()


@needs_sandbox
def test_it_cannot_change_the_cache_of_who_runs_it(tmp_path):
    files = [
        file
        for path in sandbox.precompile(CHECK)
        for file in ([path] if path.is_file() else path.iterdir())
    ]
    assert len(files) > 1
    # not their times: other tests use the same files meanwhile
    before = [file.read_bytes() for file in files]
    made = "/tmp/hostcuda-made"
    attempt = (
        f"for f in /tmp/hostcuda/* {made}/*; do echo >> $f; touch $f; done; rm -rf {made}/*; "
        f"ls /tmp/hostcuda {made}"
    )
    ended = shell(attempt, tmp_path, check=CHECK)
    listed = 2 * (len(sandbox.precompile(CHECK)) + 1)  # two folders, each with its name
    assert len(ended.stdout.split()) == listed and f"rm: cannot remove '{made}/" in ended.stderr
    assert [file.read_bytes() for file in files] == before


FORGED = {
    "leaves": (
        "#include <cstdlib>\n" + KERNEL.replace("{", '{ printf("PASS\\n"); exit(0); '),
        "calls exit, which is no function of CUDA",
    ),
    "writes it": (
        "#include <cstdio>\n#include <unistd.h>\n"
        'static int before = [] { FILE *f = fopen("answer", "w"); '
        'fputs("{\\"nonce\\": \\"\\", \\"record\\": {\\"y\\": [1]}}", f); fclose(f); _exit(0); return 0; }();\n'
        + KERNEL,
        "which is no function of CUDA",
    ),
    "finds a function by its address": (
        KERNEL.replace("{", "{ ((void (*)(int))((char *)&expf + 64))(0); "),
        "line 1: the kernel calls a function by a",
    ),
}


@needs_sandbox
@pytest.mark.parametrize(("source", "sentence"), FORGED.values(), ids=FORGED)
def test_a_forged_result_is_none(tmp_path, source, sentence):
    ended, word = graded(tmp_path, source)
    assert ended.status == 1 and sentence in ended.stderr
    with pytest.raises(EngineError, match="there is no result"):
        sandbox.read_answer(ended, tmp_path / "answer", word)


@needs_sandbox
def test_without_the_check_of_symbols_a_forged_result_has_no_nonce(tmp_path):
    source, _ = FORGED["writes it"]
    ended, word = graded(
        tmp_path,
        source.replace("_exit(0); ", ""),
        CHILD.replace("untrusted.guard(source)", "") + "\n"
        "import os; os.rename('answer', 'right')\n"
        "SourceModule(source + ' ', no_extern_c=True)",
    )
    assert ended.status == 0 and (tmp_path / "answer").exists()
    assert sandbox.read_answer(ended, tmp_path / "right", word) == {"y": [0, 2, 4, 6]}
    with pytest.raises(
        EngineError,
        match="there is no result: the program ended before it could write one, or another",
    ):
        sandbox.read_answer(ended, tmp_path / "answer", word)


TOWER = """constexpr long f(int n, long s) { return n ? f(n - 1, s) + f(n - 1, s + (1l << n)) : s; }
constexpr long all = f(60, 0);
"""


@needs_sandbox
def test_a_constant_that_takes_long_to_compute_does_not_compile(tmp_path):
    ended, _ = graded(tmp_path, TOWER + KERNEL)
    assert ended.status == 1 and re.search(r":[12]:\d+: error: .*constexpr", ended.stderr)


def test_a_compiler_that_takes_too_much_processor_time_is_stopped(tmp_path, monkeypatch):
    monkeypatch.setattr(toolchain, "processor_seconds", 1)
    macros = "".join(f"#define A{k + 1} {f'A{k} ' * 8}\n" for k in range(20))
    (tmp_path / "macros.cpp").write_text(f"{macros}A20\n")
    for command in (
        [*toolchain.find(), "-fsyntax-only", str(tmp_path / "macros.cpp")],
        [sys.executable, "-c", "while True: pass"],  # as clang, which is one process
    ):
        with pytest.raises(EngineError, match="the compiler used more than 1 s of processor time"):
            toolchain.run(command)


RIGHT = SandboxEnded(0, "", 1.0, 0, "", "")


def test_an_answer_is_a_plain_file_with_the_nonce(tmp_path):
    path, word = tmp_path / "answer", sandbox.make_nonce()
    write_answer(path, word, {"y": [1.5]})
    assert sandbox.read_answer(RIGHT, path, word) == {"y": [1.5]}
    (tmp_path / "link").symlink_to(path)
    os.link(path, tmp_path / "hard")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    (tmp_path / "text").write_text("PASS")
    (tmp_path / "list").write_text("[]")
    (tmp_path / "deep").write_text("[" * 100_000)
    write_answer(tmp_path / "other", sandbox.make_nonce(), {"y": [1.5]})
    write_answer(tmp_path / "none", word, [1.5])
    for name in (
        "answer",
        "hard",
        "link",
        "pipe",
        "folder",
        "text",
        "list",
        "deep",
        "other",
        "none",
        "missing",
    ):
        with pytest.raises(EngineError, match="there is no result: the program ended before"):
            sandbox.read_answer(RIGHT, tmp_path / name, word)
    (tmp_path / "hard").unlink()
    with pytest.raises(EngineError, match="there is no result"):
        sandbox.read_answer(RIGHT, path, word, most=10)


@pytest.fixture
def tried_anew():
    """Forget whether there is a sandbox, before and after."""
    sandbox.why_not.cache_clear()
    yield
    sandbox.why_not.cache_clear()


def test_without_a_sandbox_it_says_why_and_refuses(tmp_path, monkeypatch, tried_anew):
    monkeypatch.setattr(sandbox.shutil, "which", lambda name: None)
    assert sandbox.why_not() == "bubblewrap is missing: sudo apt install bubblewrap"
    with pytest.raises(
        EngineError, match=r"not run without a sandbox: bubblewrap is missing: .* Ask"
    ):
        sandbox.run(["touch", "ran"], tmp_path, remedy="Ask")
    assert not (tmp_path / "ran").exists()
    ended = sandbox.run(
        [sys.executable, "-c", HOG], tmp_path, limits=Limits(memory=200 << 20), unsafe=True
    )
    assert ended.problem == "used more than 200 MB of memory"
    ended = sandbox.run(["sh", "-c", "echo $HOSTCUDA_CACHE_DIR"], tmp_path, unsafe=True)
    assert ended == SandboxEnded(0, "", ended.seconds, ended.peak_memory, f"{tmp_path}/cache\n", "")


def test_a_sandbox_that_does_not_work_says_so(tmp_path, monkeypatch, tried_anew):
    fake = tmp_path / "bwrap"
    fake.write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2; exit 1\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(runs, "_make_environment", lambda *_: {"PATH": os.environ["PATH"]})
    assert (
        "does not work here (bwrap: No permissions to create new namespace): allow"
        in sandbox.why_not()
    )


@pytest.mark.parametrize("name", ["HOSTCUDA_SANDBOX", "LABKIT_SANDBOX"])
def test_a_container_needs_a_root_and_its_walls(monkeypatch, name):
    monkeypatch.setenv(name, "container")
    monkeypatch.setattr(sandbox.os, "geteuid", lambda: 1000)
    assert "has to be root" in sandbox.why_not.__wrapped__()
    monkeypatch.setattr(sandbox.os, "geteuid", lambda: 0)
    failed = SandboxEnded(126, "failed", 0.0, 0, "", "no setpriv\n")
    monkeypatch.setattr(runs, "run_untried", lambda *_, **__: failed)
    assert (
        sandbox.why_not.__wrapped__()
        == "this container does not let commands run as other users (no setpriv)"
    )
    monkeypatch.setattr(runs, "run_untried", lambda *_, **__: replace(failed, status=0, problem=""))
    holes = dict.fromkeys(sandbox.WALLS, "") | {"files": "a kernel writes to /tmp"}
    monkeypatch.setattr(sandbox, "try_walls", lambda view: holes)
    assert (
        sandbox.why_not.__wrapped__()
        == "the wall around the file system is missing: a kernel writes to /tmp"
    )


RECORDS = {
    "a link": "ln -s /etc/passwd $1",
    "a folder": "mkdir $1",
    "a pipe": "mkfifo $1",
    "two names": "echo {} > $1; ln $1 other",
    "85 MB": "head -c 85000000 /dev/zero > $1",
    "many lines": "yes {} | head -30000 > $1",
}


@pytest.mark.parametrize("attack", RECORDS)
def test_records_are_lines_of_a_plain_file(tmp_path, attack):
    subprocess.run(["sh", "-c", RECORDS[attack], "sh", "launches"], cwd=tmp_path, check=True)
    with pytest.raises(
        sandbox.NoResultError, match="the records of the run, launches, are not read: "
    ):
        sandbox.read_records(tmp_path / "launches")


def test_damaged_lines_are_no_records(tmp_path):
    path = tmp_path / "launches"
    path.write_text('{"a": 1}\n[1]\n{"b": 2\n' + "[" * 100_000 + "\n7\nnull\n\xff\n" + '{"c": 3}')
    assert sandbox.read_records(path) == [{"a": 1}, {"c": 3}]
    assert sandbox.read_records(tmp_path / "none") == []


# --------------------------------------------------------------------------------------------------


def test_no_two_commands_have_a_user_at_a_time():
    (first, kept), (second, other) = runs._take_user(), runs._take_user()
    assert first != second and {first, second} < {*runs._USERS}
    with kept, other:
        pass
    again, kept = runs._take_user()
    with kept:
        assert again == first


@needs_sandbox
def test_the_walls_stand():
    assert sandbox.try_walls() == dict.fromkeys(sandbox.WALLS, "")
    assert sandbox.describe_walls() == (
        "Walls that stand (bubblewrap): network, file system, processes, memory, system calls"
    )


@needs_sandbox
def test_a_missing_wall_is_found(tmp_path, monkeypatch):
    """Outside of the sandbox the probe reaches what each wall should keep from it."""

    def outside(command, scratch, view, stdin="", limits=None):
        return run(
            command, scratch, stdin=stdin, limits=Limits(memory=8 << 40, processes=99), walled=False
        )

    run = runs.run_untried
    monkeypatch.setattr(runs, "run_untried", outside)
    (tmp_path / "hidden").mkdir()
    (tmp_path / "hidden" / "solution.cu").touch()
    holes = sandbox.try_walls.__wrapped__(View((tmp_path,), (tmp_path / "hidden",)))
    assert (
        "reaches 127.0.0.1, reaches @hostcuda-" in holes["network"]
        and "libseccomp2" in holes["network"]
    )
    assert f"reads {tmp_path / 'hidden'}" in holes["files"] and "writes to" in holes["files"]
    assert (
        "signals the process that runs it" in holes["processes"]
        and "starts more than 16 processes" in holes["processes"]
    )
    assert "uses more than it may" in holes["memory"]
    assert "calls socket" in holes["calls"]
    monkeypatch.setattr(sandbox, "try_walls", lambda view: {**holes, "network": ""})
    assert sandbox.why_not.__wrapped__().startswith(
        "the wall around the file system is missing: a kernel reads "
    )
    monkeypatch.setattr(
        sandbox, "try_walls", lambda view: {**dict.fromkeys(holes, ""), "calls": holes["calls"]}
    )
    assert sandbox.why_not.__wrapped__() == ""
    assert "memory; missing: system calls (a kernel calls " in sandbox.describe_walls()


@needs_sandbox
def test_without_libseccomp_the_other_walls_stand(monkeypatch):
    monkeypatch.setattr(seccomp, "_LIBRARY", "libseccomp.so.none")
    holes = sandbox.try_walls.__wrapped__()
    assert holes.pop("calls").endswith(": sudo apt install libseccomp2") and not any(holes.values())
    with pytest.raises(OSError, match=r"libseccomp.so.none is missing or fails"):
        seccomp.load()
