"""Measure the kernels of the site in Chromium: page 04 on a first visit, a table of all exercises, Stop, memory.

    make playground site && .venv/bin/python playground/benchmark.py [--rounds 2] [--page] [04a 05a …]

The site is served from `build/site`; with `--page`, page 04 alone is measured. A figure is the
seconds until the result, and in
parentheses the seconds of processor time that the page and its workers used: on a busy machine,
about what a free one would need. It is the best of `--rounds`, with the machine's load beside it.
Each round has another text, so that everything is compiled. Memory is that of the page's process
(PSS), sampled four times per second during one session with all exercises.
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

from playwright.sync_api import Browser, Page, Playwright, sync_playwright

from labkit.exercises.exercise import Exercise, exercises
from labkit.exercises.subjects import Numbers

SITE = Path(__file__).resolve().parent.parent / "build" / "site"
METHODS = ("runExercise", "checkExercise", "grade", "grade")  # the first "grade" is of the start
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
ENDLESS = {
    "source": "__global__ void f(volatile float *y) { while (y[0] != 5) y[1] = y[0]; }",
    "launch": {"kernel": "f", "grid": 1, "block": 1, "arguments": ["y"]},
    "inputs": {"y": {"type": "float32", "length": 4}},
}
# OPEN starts the engine on an empty page, and ASKED measures one of its methods.
OPEN = "import('/playground/lab.mjs').then(({ Lab }) => (globalThis.lab = new Lab()).init())"
ASKED = """async ([method, request]) => {
    const start = performance.now(), { ok, passed, messages, memory } = await lab.ask(method, request);
    return { seconds: (performance.now() - start) / 1000, ok: ok ?? passed, messages, memory };
}"""
# Playwright's own waiting looks at the page in each frame, which takes time and memory of the page's process.
SAYS = """(status, text) => new Promise(done => {
    const look = () => status.textContent.includes(text) && done();
    new MutationObserver(look).observe(status, { childList: true, characterData: true, subtree: true });
    look();
})"""
STOPPED = """async ([request, wait]) => {
    const running = lab.run(request).catch(error => error.name);
    await new Promise(done => setTimeout(done, wait));
    const start = performance.now(), ended = running.then(() => performance.now() - start);
    await lab.stop();
    return [await ended / 1000, (performance.now() - start) / 1000];
}"""


class _Quiet(http.server.SimpleHTTPRequestHandler):
    """Answer requests for the files of a folder, and count the bytes that are sent."""

    sent = 0  # bytes of files, to all browsers

    def log_message(self, *about):
        """Say nothing."""

    def copyfile(self, source, outputfile):
        """Send a file, and count its bytes."""
        _Quiet.sent += os.fstat(source.fileno()).st_size
        super().copyfile(source, outputfile)


@contextlib.contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serve a folder while a `with` lasts; yield its address."""
    server = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(_Quiet, directory=folder)
    )
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}/"
    server.shutdown()


class Watch(threading.Thread):
    """A thread that samples the memory of a browser's page processes until `ended` is set.

    `now` is the latest sample, that of the largest process [MB]; `most` is the largest since `take`.
    """

    def __init__(self, browser: Browser):
        """Watch the processes that the browser has for pages now."""
        super().__init__(daemon=True)
        processes = browser.new_browser_cdp_session().send("SystemInfo.getProcessInfo")[
            "processInfo"
        ]
        self.processes = [
            int(process["id"]) for process in processes if process["type"] == "renderer"
        ]
        self.now = self.most = 0
        self.ended = threading.Event()

    def run(self) -> None:
        """Sample until `ended` is set."""
        while not self.ended.wait(0.25):
            self.now = max(map(self._read_bytes, self.processes)) // 1_000_000
            self.most = max(self.most, self.now)

    def take(self) -> int:
        """Return the largest sample [MB] since the last call."""
        most, self.most = self.most, self.now
        return most

    def read_processor_s(self) -> float:
        """Return the processor seconds that the processes have used so far."""
        rows = [
            Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
            for process in self.processes
        ]
        # after the name: 11 and 12 are the ticks in the program and in the kernel (man proc_pid_stat)
        return sum(int(row[11]) + int(row[12]) for row in rows) / os.sysconf("SC_CLK_TCK")

    @staticmethod
    def _read_bytes(process: int) -> int:
        """Return a process's share of memory (PSS) [bytes]; 0 if it has ended."""
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/{process}/smaps_rollup").read_text().splitlines():
                if line.startswith("Pss:"):
                    return int(line.split()[1]) * 1024
        return 0


def read_load() -> float:
    """Return the machine's load, the mean over the last minute."""
    return os.getloadavg()[0]


def launch(playwright: Playwright) -> Browser:
    """Return a new Chromium, the first of BROWSERS that is installed; StopIteration if none is."""
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []  # root has no sandbox
    executable = next(filter(None, map(shutil.which, BROWSERS)))
    return playwright.chromium.launch(executable_path=executable, args=arguments)


def visit_page(playwright: Playwright, address: str) -> list[tuple]:
    """Return a row for each step of a first visit to page 04: seconds from the click on, and the cells of the table.

    The cells: what the step is, "1.2 (0.9)" (seconds, processor seconds), load, MB, MB loaded so
    far. The steps: the kernel as it is, checked; an edit; a race, by the sanitizer; 04a, solved.
    Nothing is in any cache, and the kernels are compiled each time.
    """
    browser, sent, rows = launch(playwright), _Quiet.sent, []
    page = browser.new_page()
    page.set_default_timeout(600_000)
    page.goto(f"{address}04_tiling.html")
    watch = Watch(browser)
    watch.start()

    def step(about, work, wait):
        """Call `work`, then `wait`, which returns when the step is done; append the row."""
        before, start = watch.read_processor_s(), time.monotonic()
        work()
        wait()
        seconds, used = time.monotonic() - start, watch.read_processor_s() - before
        figures = (f"{seconds:.1f} ({used:.1f})", f"{read_load():.1f}", str(watch.take()))
        rows.append((seconds, about, *figures, f"{(_Quiet.sent - sent) / 1e6:.1f}"))

    def edit(cell, old, new):
        """Replace the last `old` in the text of an open cell, without the cell's first line, by `new`."""
        text = cell.locator(".code").evaluate("code => code.textContent").partition("\n")[2]
        assert old in text
        before, _, after = text.rpartition(old)
        page.keyboard.press("Control+a")
        page.keyboard.insert_text(f"{before}{new}{after}")

    def find(text):
        """Return the first cell that can be edited and has a text."""
        return page.locator("[data-live]").filter(has_text=text).first

    def open_cell(cell):
        """Open the editor of a cell, and wait for it."""
        cell.get_by_role("button", name="Edit and run").click()
        cell.locator(".cm-content").wait_for()

    def press(keys):
        """Return a function that presses keys."""
        return lambda: page.keyboard.press(keys)

    def wait_for(cell, text):
        """Return a function that waits until a cell's status has a text."""
        return lambda: cell.locator(".status").evaluate(SAYS, text)

    kernel, exercise = find("%%kernel 04 --name"), find("%%kernel 04 --exercise 04a")

    def open_and_run():
        """Open the kernel's cell, and run it."""
        open_cell(kernel)
        page.keyboard.press("Control+Enter")

    step("first shapes are right", open_and_run, wait_for(kernel, "Right on the first"))
    step("all 15 shapes of this check", lambda: None, wait_for(kernel, "Passed."))
    step("a check of the unchanged kernel", press("Control+Enter"), wait_for(kernel, "Passed."))
    edit(kernel, "float sum = 0;", "float sum = 0.0f;")
    step(
        "first shapes after a change of the kernel",
        press("Control+Enter"),
        wait_for(kernel, "Right on the first"),
    )
    step("all 15 shapes of the second check", lambda: None, wait_for(kernel, "Passed."))
    edit(kernel, "__syncthreads();", "")
    step(
        "a race, reported at two lines",
        press("Control+Shift+Enter"),
        wait_for(kernel, "race at line"),
    )
    open_cell(exercise)
    edit(exercise, "tile[SIDE][SIDE]", "tile[SIDE][TILE + 32]")
    step("a grade of the solved exercise 04a", press("Alt+Enter"), wait_for(exercise, "goal met"))
    watch.ended.set()
    browser.close()
    return rows


def measure_exercise(
    page: Page, watch: Watch, asked: Exercise, rounds: int
) -> list[tuple[float, float]]:
    """Return (seconds, processor seconds) of Run, of Count and check, and of Grade for start and solution.

    They are the least of `rounds`. What is not right is printed on standard error.
    """
    best = [(1e9, 1e9)] * len(METHODS)
    for turn in range(rounds):
        for i, method in enumerate(METHODS):
            text = asked.start if i == 2 else asked.solution
            # a comment that no other call has: everything is compiled
            request = {"exercise": asked.number, "source": f"{text}\n// {turn}, {i}\n"}
            before = watch.read_processor_s()
            done = page.evaluate(ASKED, [method, request])
            used = watch.read_processor_s() - before
            if i != 2 and not done["ok"]:
                print(
                    f"{asked.number} {method}: not as it should be: {done['messages']}",
                    file=sys.stderr,
                )
            best[i] = tuple(map(min, best[i], (done["seconds"], used)))
    return best


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("numbers", nargs="*", help="exercises; all if absent")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--page", action="store_true", help="page 04 alone")
    options = parser.parse_args()
    offered = {
        number: asked
        for number, asked in exercises().items()
        if not isinstance(asked.subject, Numbers) and (number < "12" or number[0] == "P")
    }
    with served(SITE) as address, sync_playwright() as playwright:
        visits = [visit_page(playwright, address) for _ in range(options.rounds)]
        print("| page 04 | seconds | load | MB | loaded, MB |", "|---" * 5 + "|", sep="\n")
        for steps in zip(*visits, strict=True):
            print("|", " | ".join(min(steps)[1:]), "|")
        if options.page:
            return
        browser = launch(playwright)
        page = browser.new_page()
        page.set_default_timeout(0)
        page.goto(f"{address}playground/licences.txt")
        page.evaluate(OPEN)
        watch = Watch(browser)
        watch.start()
        print(
            "| | Run | Count and check | Grade, start | Grade, solution | load | MB |",
            "|---" * 7 + "|",
            sep="\n",
        )
        most, rows = 0, []
        for number in options.numbers or offered:
            rows.append(measure_exercise(page, watch, offered[number], options.rounds))
            memory_mb = watch.take()
            most = max(most, memory_mb)
            figures = [
                *(f"{seconds:.1f} ({used:.1f})" for seconds, used in rows[-1]),
                f"{read_load():.1f}",
                str(memory_mb),
            ]
            print("|", " | ".join([number, *figures]), "|", flush=True)
        most_of = [
            " (".join(f"{max(figures):.1f}" for figures in zip(*column, strict=True)) + ")"
            for column in zip(*rows, strict=True)
        ]
        print("|", " | ".join(["most", *most_of, "", str(most)]), "|")
        stops = [
            (name, *page.evaluate(STOPPED, [request, wait]))
            for name, request, wait in (
                ("a kernel", ENDLESS, 6000),
                ("a compilation", {**ENDLESS, "source": f"{ENDLESS['source']} // anew"}, 100),
            )
        ]
        for name, ended, ready in stops:
            print(
                f"\nStop of {name}: ended after {ended:.2f} s, ready after {ready:.2f} s; load {read_load():.1f}"
            )
        watch.ended.set()
        browser.close()


if __name__ == "__main__":
    main()
