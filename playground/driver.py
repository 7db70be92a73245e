"""Drive Chromium for measurements, by its pipe for developer tools.

Playwright and chromedriver let the browser record its network, and then it keeps the bodies of all
answers: 31 MB for this engine, and once more for its service worker. So a measurement of memory
needs a driver that does not. It uses a profile on disk, as a reader's browser does: a private
window keeps its caches in memory.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
_KEYS = {"Enter": ("Enter", 13), "a": ("KeyA", 65)}  # code, number
_MODIFIERS = {"Alt": 1, "Control": 2, "Shift": 8}


class Chromium:
    """A Chromium with an empty profile and one page; a `with` ends it and removes the profile."""

    def __init__(self):
        """Start it, and open an empty page."""
        executable = next(filter(None, map(shutil.which, BROWSERS)))
        self._profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        arguments = [
            "--headless",
            "--remote-debugging-pipe",
            "--no-first-run",
            "--disable-background-networking",
            f"--user-data-dir={self._profile.name}",
            *(["--no-sandbox"] if os.geteuid() == 0 else []),  # root has no sandbox
        ]
        (reads, self._to), (self._from, writes) = os.pipe(), os.pipe()
        # the browser reads commands from file 3 and writes answers to file 4
        command = f'exec "$0" "$@" 3<&{reads} 4>&{writes}'
        self._process = subprocess.Popen(
            ["sh", "-c", command, executable, *arguments],
            pass_fds=(reads, writes),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(reads)
        os.close(writes)
        self._ids, self._rest = itertools.count(1), b""
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        attached = self.send("Target.attachToTarget", targetId=target, flatten=True)
        self._page = attached["sessionId"]

    def __enter__(self) -> Chromium:
        """Return itself."""
        return self

    def __exit__(self, *raised) -> None:
        """End the browser."""
        os.close(self._to)  # it ends when nobody can send commands any more
        self._process.wait()
        os.close(self._from)
        self._profile.cleanup()

    def send(self, method: str, session: str | None = None, **parameters) -> dict:
        """Send a command of the DevTools protocol to the browser or a session, and return its answer.

        Over both pipes go texts in JSON, each with a zero byte behind it.
        """
        message = {"id": next(self._ids), "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            # `_rest`: what was read behind the last answer
            text, found, self._rest = self._rest.partition(b"\0")
            if not found:
                piece = os.read(self._from, 1 << 20)
                if not piece:
                    raise EOFError("the browser has ended")
                self._rest = text + piece
                continue
            answer = json.loads(text)
            if answer.get("id") != message["id"]:
                continue  # an event
            if "error" in answer:
                raise RuntimeError(f"{method}: {answer['error']['message']}")
            return answer["result"]

    def evaluate(self, function: str, *arguments):
        """Call a function of JavaScript in the page, and return its result; a promise is awaited.

        `function` is its text, such as "(a, b) => a + b"; the arguments and the result are values
        that JSON can hold. Raises RuntimeError if the function throws.
        """
        call = f"({function})(...{json.dumps(arguments)})"
        answer = self.send(
            "Runtime.evaluate", self._page, expression=call, awaitPromise=True, returnByValue=True
        )
        if "exceptionDetails" in answer:
            thrown = answer["exceptionDetails"]
            raise RuntimeError(thrown.get("exception", {}).get("description", thrown["text"]))
        return answer["result"].get("value")

    def goto(self, address: str) -> None:
        """Open an address, and wait until the page is loaded."""
        self.send("Page.navigate", self._page, url=address)
        # the address, too: at first the page before may answer
        while not self.evaluate(
            "address => document.readyState === 'complete' && location.href.startsWith(address)",
            address,
        ):
            time.sleep(0.05)

    def press(self, keys: str) -> None:
        """Press a key together with the keys that are held meanwhile: "Control+Enter"."""
        *held, key = keys.split("+")  # the last one is pressed
        code, number = _KEYS[key]
        about = {"key": key, "code": code, "windowsVirtualKeyCode": number}
        about["modifiers"] = sum(_MODIFIERS[name] for name in held)
        for kind in ("rawKeyDown", "keyUp"):
            self.send("Input.dispatchKeyEvent", self._page, type=kind, **about)

    def write(self, text: str) -> None:
        """Insert a text at the page's cursor, in place of what is selected."""
        self.send("Input.insertText", self._page, text=text)

    def processes(self) -> dict[int, str]:
        """Return the browser's processes, {id: type}; the type of a process that runs pages is "renderer"."""
        known = self.send("SystemInfo.getProcessInfo")["processInfo"]
        return {int(process["id"]): process["type"] for process in known}


def memory(process: int) -> tuple[int, int]:
    """Return a process's memory in bytes: its share of all memory (PSS), and what it shares with no other."""
    try:
        # a line is "Pss: 12 kB"; the first one is a heading
        lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()[1:]
    except OSError:  # it has ended
        return 0, 0
    sizes = {
        name: int(size.split()[0]) * 1024 for name, _, size in (x.partition(":") for x in lines)
    }
    return sizes["Pss"], sizes["Private_Clean"] + sizes["Private_Dirty"]
