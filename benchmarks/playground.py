"""Measure the playground in Chromium: a table of all exercises, the first visit, Stop, memory.

    make playground && .venv/bin/python benchmarks/playground.py [--rounds 2] [04a 05a …]

The page is served from `build/playground`. A figure is the seconds until the result, and in parentheses the seconds of
processor time that the page and its workers used: on a busy machine, about what a free one would need. The best of
`--rounds`; the load of the machine stands beside it. Each round is another text, so that everything is compiled. Memory
is that of the page's process (PSS), looked at four times per second during one session with all exercises.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import http.server
import os
import shutil
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

from labkit.exercises.exercise import Exercise, exercises
from labkit.exercises.subjects import Numbers

SITE = Path(__file__).resolve().parent.parent / "build" / "playground"
METHODS = ("runExercise", "checkExercise", "grade", "grade")
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
ENDLESS = {
    "source": "__global__ void f(volatile float *y) { while (y[0] != 5) y[1] = y[0]; }",
    "launch": {"kernel": "f", "grid": 1, "block": 1, "arguments": ["y"]},
    "inputs": {"y": {"type": "float32", "length": 4}},
}
# The engine of a page of its own; `asked` measures a method of it.
OPEN = "import('/lab.mjs').then(({ Lab }) => (globalThis.lab = new Lab()).init())"
ASKED = """async ([method, request]) => {
    const start = performance.now(), { ok, passed, messages, memory } = await lab.ask(method, request);
    return { seconds: (performance.now() - start) / 1000, ok: ok ?? passed, messages, memory };
}"""
STOPPED = """async ([request, wait]) => {
    const running = lab.run(request).catch(error => error.name);
    await new Promise(done => setTimeout(done, wait));
    const start = performance.now(), ended = running.then(() => performance.now() - start);
    await lab.stop();
    return [await ended / 1000, (performance.now() - start) / 1000];
}"""


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *about):
        """Say nothing."""


@contextlib.contextmanager
def served(folder: Path) -> Iterator[str]:
    """The address of a folder."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Quiet, directory=folder))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}/"
    server.shutdown()


class Watch(threading.Thread):
    """Looks at a browser's processes that hold pages, until it is ended: `now` and `most` in MB, of the largest."""

    def __init__(self, browser: Browser):
        super().__init__(daemon=True)
        processes = browser.new_browser_cdp_session().send("SystemInfo.getProcessInfo")["processInfo"]
        self.processes = [int(each["id"]) for each in processes if each["type"] == "renderer"]
        self.now = self.most = 0
        self.ended = threading.Event()

    def run(self) -> None:
        """Look."""
        while not self.ended.wait(0.25):
            self.now = max(map(self._bytes, self.processes)) // 1_000_000
            self.most = max(self.most, self.now)

    def take(self) -> int:
        """The most since it was last asked."""
        most, self.most = self.most, self.now
        return most

    def processor(self) -> float:
        """Seconds that they have used."""
        fields = [Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split() for each in self.processes]
        return sum(int(each[11]) + int(each[12]) for each in fields) / os.sysconf("SC_CLK_TCK")

    @staticmethod
    def _bytes(process):
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/{process}/smaps_rollup").read_text().splitlines():
                if line.startswith("Pss:"):
                    return int(line.split()[1]) * 1024
        return 0


def load() -> float:
    """The machine's, over the last minute."""
    return os.getloadavg()[0]


def first_visit(browser: Browser, address: str) -> float:
    """Seconds from the address of an exercise to the result of its starting code, with nothing in any cache."""
    visitor = browser.new_context()
    page, start = visitor.new_page(), time.monotonic()
    page.goto(f"{address}#00a")
    page.get_by_role("button", name="Run").click()
    page.get_by_text("It ran on").wait_for(timeout=120_000)
    took = time.monotonic() - start
    visitor.close()
    return took


def row(page: Page, watch: Watch, asked: Exercise, rounds: int) -> list[tuple[float, float]]:
    """Seconds of Run, of Count and check, and of Grade, of start and solution; with those of the processor."""
    best = [(1e9, 1e9)] * 4
    for turn in range(rounds):
        for i, method in enumerate(METHODS):
            text = asked.start if i == 2 else asked.solution
            request = {"exercise": asked.number, "source": f"{text}\n// {turn}, {i}\n"}
            before = watch.processor()
            done = page.evaluate(ASKED, [method, request])
            used = watch.processor() - before
            if i != 2 and not done["ok"]:
                print(f"{asked.number} {method}: not as it should be: {done['messages']}", file=sys.stderr)
            best[i] = tuple(map(min, best[i], (done["seconds"], used)))
    return best


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("numbers", nargs="*", help="exercises; all if absent")
    parser.add_argument("--rounds", type=int, default=2)
    options = parser.parse_args()
    offered = {number: each for number, each in exercises().items()
               if not isinstance(each.subject, Numbers) and (number < "12" or number[0] == "P")}
    with served(SITE) as address, sync_playwright() as playwright:
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []  # root has no sandbox
        browser = playwright.chromium.launch(executable_path=next(filter(None, map(shutil.which, BROWSERS))),
                                             args=arguments)
        visits = [(first_visit(browser, address), load()) for _ in range(options.rounds)]
        print(f"First result on an empty cache: {min(visits)[0]:.1f} s at load {min(visits)[1]:.1f}\n")
        page = browser.new_page()
        page.set_default_timeout(0)
        page.goto(f"{address}licences.txt")
        page.evaluate(OPEN)
        watch = Watch(browser)
        watch.start()
        print("| | Run | Count and check | Grade, start | Grade, solution | load | MB |", "|---" * 7 + "|", sep="\n")
        most, rows = 0, []
        for number in options.numbers or offered:
            rows.append(row(page, watch, offered[number], options.rounds))
            taken = watch.take()
            most = max(most, taken)
            figures = [*(f"{seconds:.1f} ({used:.1f})" for seconds, used in rows[-1]), f"{load():.1f}", str(taken)]
            print("|", " | ".join([number, *figures]), "|", flush=True)
        most_of = [" (".join(f"{max(each):.1f}" for each in zip(*column, strict=True)) + ")"
                   for column in zip(*rows, strict=True)]
        print("|", " | ".join(["most", *most_of, "", str(most)]), "|")
        stops = [(name, *page.evaluate(STOPPED, [request, wait])) for name, request, wait in (
            ("a kernel", ENDLESS, 6000), ("a compilation", {**ENDLESS, "source": f"{ENDLESS['source']} // anew"}, 100))]
        for name, ended, ready in stops:
            print(f"\nStop of {name}: ended after {ended:.2f} s, ready after {ready:.2f} s; load {load():.1f}")
        watch.ended.set()
        browser.close()


if __name__ == "__main__":
    main()
