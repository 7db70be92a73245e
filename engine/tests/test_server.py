"""The server of ``hostcuda mcp`` among programs that attack it: a sentence each, little memory, nothing left behind.

It needs the package mcp (``hostcuda[mcp]``) and a sandbox.
"""

import importlib.util
import itertools
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from hostcuda import processes
from hostcuda.sandbox import why_not
from hostcuda.temporary import PREFIX

pytestmark = [
    pytest.mark.thorough("each call is a process, and compiles: minutes"),
    pytest.mark.skipif(not importlib.util.find_spec("mcp"), reason="the package mcp is missing"),
    pytest.mark.skipif(bool(why_not()), reason="there is no sandbox"),
]

MOST_MEMORY = 300 << 20  # of the server, and of its processes outside of the sandbox
ARRAY = {"shape": [32], "dtype": "float32"}
CASE = {"grid": [1], "block": [32], "arguments": {"x": ARRAY, "y": ARRAY}}
KERNEL = "__global__ void k(const float *x, float *y) {{ int i = threadIdx.x; {} }}\n"
RIGHT = KERNEL.format("y[i] = 2 * x[i];")
REFERENCE = "def reference(x, y):\n    return 2 * x\n"


class Server:
    """A server, and the requests that it has not answered yet."""

    def __init__(self, folder):
        """Start a server whose temporary folders lie in `folder`, and its conversation."""
        self.folder, self._numbers = folder, itertools.count(1)
        folder.mkdir(exist_ok=True)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "hostcuda", "mcp"],
            env={**os.environ, "TMPDIR": str(folder)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        client = {"name": "test", "version": "1"}
        opening = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client}
        self.ask("initialize", **opening)
        self._write(json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}))

    def _write(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def send(self, method, **parameters):
        """Send a request; return its number."""
        number = next(self._numbers)
        request = {"jsonrpc": "2.0", "id": number, "method": method, "params": parameters}
        self._write(json.dumps(request))
        return number

    def ask(self, method, **parameters):
        """Send a request and return its answer."""
        number = self.send(method, **parameters)
        answer = json.loads(self.process.stdout.readline())
        assert answer["id"] == number
        return answer

    def call(self, tool, **arguments):
        """Call a tool; return its text, and its structured answer, or None for an error."""
        answer = self.ask("tools/call", name=tool, arguments=arguments)
        if "error" in answer:
            return answer["error"]["message"], None
        result = answer["result"]
        return result["content"][0]["text"], result.get("structuredContent")

    def find_left_over(self, started=()):
        """Return which temporary folders and processes there are: the server's, and of those that it has `started`.

        Those that are ending get some seconds.
        """
        until = time.monotonic() + 20
        while True:
            left = [*self.folder.glob(f"{PREFIX}*")]
            left += [process for process in started if (process / "exe").exists()]
            left += processes.list_descendants(self.process.pid)[1:]
            if not left or time.monotonic() > until:
                return left
            time.sleep(0.1)

    def close(self):
        """End the server as a client does that ends: also one that was killed."""
        self.process.stdin.close()
        self.process.stdout.close()
        return self.process.wait(60)


def check(source=RIGHT, reference=REFERENCE, **more):
    """Return the call of a check."""
    call = {"source": source, "cases": [CASE], "reference": reference, "repairs": False}
    return "check", {**call, "seconds": 30, **more}


def attack(line, seconds=30):
    """Return the call of a check whose reference, which is Python in the sandbox, runs a line before it answers."""
    text = f"import os, subprocess, sys, time\ndef reference(x, y):\n    {line}\n    return 2 * x\n"
    return check(reference=text, seconds=seconds)


def replace_file(name, line):
    """Return the call of a check whose reference removes a file of the run, and runs a line."""
    return attack(f"os.path.lexists('{name}') and os.unlink('{name}'); {line}; os._exit(0)")


def program(line):
    """Return the call of a program in C++ whose main has a line."""
    source = f"#include <cstdio>\n#include <unistd.h>\nint main() {{ {line} }}\n"
    return "run_program", {"source": source, "seconds": 5}


GUARD = KERNEL.format("if (i < 31) y[i] = 2 * x[i + 1];")
FILES = "for i in range(20_000): open(str(i), 'w').close()"
# What is called, and a part of the text of its answer. What an attack does after its answer may end it, or not.
CALLS = {
    "right": (check(), "pass"),
    "wrong": (check(KERNEL.format("y[i] = 3 * x[i];")), "wrong result"),
    "out of bounds": (check(KERNEL.format("y[i] = 2 * x[i + 1];")), "out of bounds, line 1"),
    "shifted": (check(GUARD), "wrong result"),
    "no C++": (check("__global__ void k( {"), "compile error"),
    "no kernel": (check(kernel="other"), "no kernel 'other'"),
    "lines": (("lines", {"source": RIGHT, "case": CASE}), "sectors"),
    "step": (
        ("step", {"source": RIGHT, "case": CASE, "thread": [1, 0, 0], "block": [0, 0, 0]}),
        "sets",
    ),
    "capabilities": (("capabilities", {}), "Walls that stand"),
    "half of a surrogate pair": (check("\ud800"), "half of a surrogate pair"),
    "half of a pair in a name": (check(kernel="k\udc00"), "half of a surrogate pair"),
    "no case": (check(cases=[]), "at least 1 item"),
    "number out of range": (check(rtol=-1), "rtol is a number from 0"),
    "option": (check(options="-include /etc/passwd"), "the option -include is not taken"),
    "long source": (check(RIGHT + " " * (1 << 17)), "at most 131072 characters"),
    "hang": (
        check(
            KERNEL.format("volatile float *p = y; p[0] = 1; while (p[0] > 0) p[0] = 1;"), seconds=5
        ),
        "hang",
    ),
    "prints without end": (program('while (1) puts("pass pass pass pass pass");'), "hang"),
    "prints without end from Python": (attack("while True: print('pass' * 999)", 5), "in time"),
    "answer of 85 MB": (attack("open('answers', 'ab').write(bytes(85 << 20))"), "more than 8 MB"),
    "records of 85 MB": (attack("open('launches', 'wb').write(bytes(85 << 20))"), "more than 8 MB"),
    "many records": (attack("open('answers', 'a').write('{}\\n' * 50_000)"), "20,000 lines"),
    "link": (replace_file("answers", "os.symlink('/etc/passwd', 'answers')"), "no plain file"),
    "link for events": (
        replace_file("launches.events", "os.symlink('/etc/passwd', 'launches.events')"),
        "no plain file",
    ),
    "pipe": (replace_file("launches", "os.mkfifo('launches')"), ""),
    "/dev": (attack("open('/dev/zeros', 'wb').write(bytes(1 << 20))"), "the reference fails"),
    "/dev/shm": (
        attack("open('/dev/shm/zeros', 'wb').write(bytes(1 << 20))"),
        "the reference fails",
    ),
    "large files": (
        attack("[open(str(i), 'wb').write(bytes(100 << 20)) for i in range(9)]; time.sleep(9)"),
        "256 MB of files",
    ),
    "20,000 files": (attack(f"{FILES}\n    time.sleep(9)"), "10,000 files"),
    "forks": (attack("while True: os.fork()", 5), ""),
    "memory": (attack("kept = [bytes(1 << 26) + b'1' for i in range(99)]"), ""),
    "processor time": (attack("while True: pass", 5), "in time"),
    "malformed record": (
        attack("""open('answers', 'a').write('{"wrong": [1], "case": 3}\\n')"""),
        "",
    ),
    "no JSON": (attack("open('answers', 'a').write('{{{\\n[1]\\n\\x00\\n')"), "pass"),
    "deep record": (attack("open('answers', 'a').write('[' * 100_000)"), ""),
    "malformed launch": (attack("""open('launches', 'a').write('{"kernel": []}\\n')"""), ""),
    "exit": (attack("os._exit(0)"), ""),
    "kill": (attack("os.kill(-1, 9)"), ""),
    "parent": (attack("os.kill(os.getppid(), 9); time.sleep(1)"), ""),
    "keys": (attack("import ctypes; assert ctypes.CDLL(None).syscall(250, 0, -3, 0) < 0"), "pass"),
    "x32": (program('printf("%ld", syscall(0x40000000 + 41, 2, 1, 0));'), "-1"),
    "network": (attack("import socket; socket.create_connection(('127.0.0.1', 22), 1)"), "Error"),
    "comparison changed": (
        check(KERNEL.format("y[i] = 0 * x[i];"), "np.abs = lambda *a: np.zeros(32)\n" + REFERENCE),
        "wrong result",
    ),
    "process that stays": (attack("os.fork()"), "the reference fails"),
    "closed folder": (attack("os.makedirs('a/b'); os.chmod('a', 0); time.sleep(1)"), ""),
}
# These may pass: the kernel is right, and what else its reference does is without effect.
PASS = {"right", "no JSON", "deep record", "keys", "closed folder"}


class Memory(threading.Thread):
    """The largest memory of a process, and of it with its children outside of the sandbox, from samples."""

    def __init__(self, process):
        """Sample `process`, a process number, from `start` to `end`."""
        super().__init__(daemon=True)
        self.process, self.own, self.whole, self._done = process, 0, 0, threading.Event()

    def run(self):
        """Sample twenty times per second."""
        while not self._done.wait(0.05):
            places, total = [self.process], 0
            while places:
                process = Path(f"/proc/{places.pop()}")
                try:
                    if (process / "comm").read_text().strip() in ("bwrap", "prlimit"):
                        continue  # the sandbox's own limit holds
                    for task in (process / "task").iterdir():
                        places += (task / "children").read_text().split()
                except OSError:
                    continue
                size = processes.resident_bytes(process)
                total += size
                self.own = max(self.own, size) if process.name == str(self.process) else self.own
            self.whole = max(self.whole, total)

    def end(self):
        """End the samples."""
        self._done.set()
        self.join()


@pytest.fixture(scope="module")
def watched(tmp_path_factory):
    """Start a server for all calls, and sample its memory."""
    server = Server(tmp_path_factory.mktemp("server") / "temporary")
    for name in (
        "capabilities",
        "right",
        "prints without end",
    ):  # the engine's own files are compiled
        server.call(CALLS[name][0][0], **CALLS[name][0][1])
    memory = Memory(server.process.pid)
    memory.start()
    yield server, memory
    memory.end()
    own, whole = memory.own >> 20, memory.whole >> 20
    print(f"at most {own} MB in the server, {whole} MB with its processes outside of the sandbox")
    assert server.close() == 0


EVERY = pytest.mark.exhaustive("200 calls in a row to one server: ten minutes")
TURNS = [0, *(pytest.param(turn, marks=EVERY) for turn in range(1, 5))]


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("turn", TURNS)
def test_a_call_gets_a_sentence_and_leaves_nothing(watched, turn, name):
    server, memory = watched
    (tool, arguments), words = CALLS[name]
    text, answer = server.call(tool, **arguments)
    assert words in text and "without an answer" not in text and len(text) <= 2100
    assert (answer or {}).get("verdict") != "pass" or name in PASS
    assert "root:" not in json.dumps([text, answer])
    assert server.find_left_over() == []
    assert memory.whole < MOST_MEMORY


def begin_endless_call(server):
    """Begin a call that does not end by itself; return when its code runs in the sandbox."""
    server.send("tools/call", name="check", arguments=attack("while True: pass", 300)[1])
    until = time.monotonic() + 120
    while time.monotonic() < until:
        names = set()
        for process in processes.list_descendants(server.process.pid):
            try:
                names.add((process / "comm").read_text().strip())
            except OSError:  # it has just ended
                continue
        if "bwrap" in names and [*server.folder.glob(f"{PREFIX}*/launches*")]:
            return
        time.sleep(0.1)
    raise AssertionError("the call does not begin")


@pytest.mark.parametrize("which", ["client", "server"])
def test_a_killed_client_or_server_leaves_nothing(tmp_path, which):
    server = Server(tmp_path / "temporary")
    try:
        begin_endless_call(server)
        started = processes.list_descendants(server.process.pid)[1:]
        if which == "server":
            server.process.send_signal(signal.SIGKILL)
        server.close()
        assert server.find_left_over(started) == []
    finally:
        server.process.kill()
        server.process.wait()
