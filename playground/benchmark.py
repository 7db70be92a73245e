"""Measure the kernels of the site in Chromium: page 04 on a first visit, a table of all exercises, Stop, memory.

    make playground site && .venv/bin/python playground/benchmark.py [--rounds 2] [--page] [04a 05a …]

The site is served from `build/site`; with `--page`, page 04 alone is measured. A figure is the
seconds until the result, and in
parentheses the seconds of processor time that the page and its workers used: on a busy machine,
about what a free one would need. It is the best of `--rounds`, with the machine's load beside it.
Each round has another text, so that everything is compiled. Memory is sampled ten times per
second: "MB" is the peak of the page's process (PSS); "more" is the peak of what all processes of
the browser have beyond the open page, of memory that they share with no other (private memory).
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import http.server
import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from driver import Chromium, memory

from labkit.exercises.exercise import Exercise, exercises
from labkit_playground.data import find_reason

SITE = Path(__file__).resolve().parent.parent / "build" / "site"
METHODS = ("runExercise", "checkExercise", "grade", "grade")  # the first "grade" is of the start
ENDLESS = {
    "source": "__global__ void f(volatile float *y) { while (y[0] != 5) y[1] = y[0]; }",
    "launch": {"kernel": "f", "grid": 1, "block": 1, "arguments": ["y"]},
    "inputs": {"y": {"type": "float32", "length": 4}},
}
# OPEN starts the engine on an empty page, and ASKED measures one of its methods.
OPEN = """async () => {
    const { Lab } = await import('/playground/lab.mjs');
    await (globalThis.lab = new Lab()).init();
}"""
ASKED = """async (method, request) => {
    const start = performance.now(), { ok, passed, messages, memory } = await lab.ask(method, request);
    return { seconds: (performance.now() - start) / 1000, ok: ok ?? passed, messages, memory };
}"""
FIND = "text => [...document.querySelectorAll('[data-live]')].find(cell => cell.textContent.includes(text))"
OPEN_CELL = f"""async text => {{
    const cell = ({FIND})(text), wait = () => new Promise(done => setTimeout(done, 20));
    [...cell.querySelectorAll('button')].find(button => button.textContent.includes('Edit and run')).click();
    while (!cell.querySelector('.cm-content')) await wait();
    cell.querySelector('.cm-content').focus();
}}"""
CODE = f"text => ({FIND})(text).querySelector('.code').textContent"
SAYS = f"""(text, words) => new Promise(done => {{
    const status = ({FIND})(text).querySelector('.status'), look = () => status.textContent.includes(words) && done();
    new MutationObserver(look).observe(status, {{ childList: true, characterData: true, subtree: true }});
    look();
}})"""
STOPPED = """async (request, wait) => {
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
        # of the class: each request has an object of its own
        _Quiet.sent += os.fstat(source.fileno()).st_size
        super().copyfile(source, outputfile)


@contextlib.contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serve a folder while a `with` lasts; yield its address."""
    # port 0: any that is free
    server = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(_Quiet, directory=folder)
    )
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}/"
    server.shutdown()


class Watch(threading.Thread):
    """A thread that samples the memory of a browser's processes, which `processes` names, until `ended`.

    `most` is the largest share of a page's process, and `more` the largest growth of all processes'
    private memory, both in bytes.
    """

    def __init__(self, processes: dict[int, str]):
        """Watch these processes; their growth counts from now on."""
        super().__init__(daemon=True)
        self.processes, self.most, self.more = processes, 0, 0
        self.begin = sum(memory(process)[1] for process in processes)
        self.ended = threading.Event()

    def run(self) -> None:
        """Sample the memory of the browser's processes every 0.1 s, and keep its maxima, until `ended` is set."""
        while not self.ended.wait(0.1):
            processes = self.processes
            # Of each process its share of all memory (PSS), and what it shares with no other. A
            # "renderer" is a process that runs pages.
            sizes = {process: memory(process) for process in processes}
            pages = [sizes[process][0] for process in processes if processes[process] == "renderer"]
            private = sum(size for _, size in sizes.values())
            self.most, self.more = max(self.most, *pages), max(self.more, private - self.begin)

    def take(self, processes: dict[int, str]) -> tuple[str, str]:
        """Return the largest memory [MB, as texts] since the last call; from now on sample these processes.

        The first is the memory of the largest page, the second what all processes have added since
        the watch was made.
        """
        taken = tuple(str(size // 1_000_000) for size in (self.most, self.more))
        self.processes, self.most, self.more = processes, 0, 0
        return taken

    def read_processor_s(self) -> float:
        """Return the processor seconds that the pages' processes have used so far."""
        ticks = 0
        for process, kind in self.processes.items():
            if kind == "renderer":  # a process that runs pages
                with contextlib.suppress(OSError):  # it has ended
                    # what follows the program's name in brackets, which may have blanks
                    text = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2]
                    # proc_pid_stat(5): utime and stime, in user mode and in the kernel
                    ticks += sum(map(int, text.split()[11:13]))
        return ticks / os.sysconf("SC_CLK_TCK")


def read_load() -> float:
    """Return the machine's load, the mean over the last minute."""
    return os.getloadavg()[0]


def visit_page(address: str) -> list[tuple]:
    """Visit page 04 in a new browser, work through a few steps there, and return a row for each step.

    A row has the seconds from the click on, and the cells of a table: what the step is, "1.2 (0.9)"
    (seconds, processor seconds), the machine's load, the page's memory and what the processes have
    added (`Watch.take`), and the MB loaded so far. The steps: the kernel as it is, checked; an edit;
    a race, by the sanitizer; 04a, solved. Nothing is in any cache, and the kernels are compiled each
    time.
    """
    sent, rows = _Quiet.sent, []  # bytes that the server has sent before
    # a cell is found by the text of its first line
    kernel, exercise = "%%kernel 04 --name", "%%kernel 04 --exercise 04a"
    with Chromium() as browser:
        browser.goto(f"{address}04_tiling.html")
        time.sleep(1)  # until the page is drawn
        watch = Watch(browser.processes())
        watch.start()

        def step(about, work, cell, words):
            """Call `work`, wait until the status of a cell has these words, and append the row."""
            before, start = watch.read_processor_s(), time.monotonic()
            work()
            browser.evaluate(SAYS, cell, words)
            seconds, used = time.monotonic() - start, watch.read_processor_s() - before
            figures = (f"{seconds:.1f} ({used:.1f})", f"{read_load():.1f}")
            sizes = watch.take(browser.processes())
            rows.append((seconds, about, *figures, *sizes, f"{(_Quiet.sent - sent) / 1e6:.1f}"))

        def edit(cell, old, new):
            """Replace the last `old` in the text of an open cell, without the cell's first line, by `new`."""
            text = browser.evaluate(CODE, cell).partition("\n")[2]
            assert old in text
            before, _, after = text.rpartition(old)
            browser.press("Control+a")
            browser.write(f"{before}{new}{after}")

        def press(keys):
            """Return a function that presses keys."""
            return lambda: browser.press(keys)

        def open_and_run():
            """Open the kernel's cell, and run it."""
            browser.evaluate(OPEN_CELL, kernel)
            browser.press("Control+Enter")

        # in an open cell: Control+Enter checks the kernel, with Shift by the sanitizer; Alt+Enter grades
        first, passed = "Right on the first", "Passed."
        step("first shapes are right", open_and_run, kernel, first)
        step("all 15 shapes of this check", lambda: None, kernel, passed)
        step("a check of the unchanged kernel", press("Control+Enter"), kernel, passed)
        edit(kernel, "float sum = 0;", "float sum = 0.0f;")
        step("first shapes after a change of the kernel", press("Control+Enter"), kernel, first)
        step("all 15 shapes of the second check", lambda: None, kernel, passed)
        edit(kernel, "__syncthreads();", "")
        step("a race, reported at two lines", press("Control+Shift+Enter"), kernel, "race at line")
        browser.evaluate(OPEN_CELL, exercise)
        edit(exercise, "tile[SIDE][SIDE]", "tile[SIDE][TILE + 32]")
        step("a grade of the solved exercise 04a", press("Alt+Enter"), exercise, "goal met")
        watch.ended.set()
        watch.join()
    return rows


def measure_exercise(
    browser: Chromium, watch: Watch, asked: Exercise, rounds: int
) -> list[tuple[float, float]]:
    """Return (seconds, processor seconds) of four clicks: Run, Count and check, Grade of the start and of the solution.

    Each is the least of `rounds`. A click with a wrong result is printed on standard error.
    `asked` is the exercise. The clicks are calls of METHODS; the third grades the starting code,
    which need not be right.
    """
    best = [(1e9, 1e9)] * len(METHODS)
    for turn in range(rounds):
        for i, method in enumerate(METHODS):
            text = asked.start if i == 2 else asked.solution  # 2: the grade of the starting code
            # the comment makes each text a new one, so that it is compiled
            request = {"exercise": asked.number, "source": f"{text}\n// {turn}, {i}\n"}
            before = watch.read_processor_s()
            # ASKED: JavaScript that calls a method of the engine and returns {seconds, ok, messages}
            done = browser.evaluate(ASKED, method, request)
            used = watch.read_processor_s() - before
            if i != 2 and not done["ok"]:
                print(
                    f"{asked.number} {method}: not as it should be: {done['messages']}",
                    file=sys.stderr,
                )
            best[i] = tuple(map(min, best[i], (done["seconds"], used)))
    return best


def measure_exercises(address: str, chosen: list[Exercise], rounds: int) -> None:
    """Measure the exercises in one session of the browser; print a table, and how long the button Stop takes.

    Cells of the table: "1.2 (0.9)" (seconds, processor seconds) of each click; the machine's load;
    the memory of the page and what the processes have added [MB].
    """
    with Chromium() as browser:
        # a text of the site: an empty page, whose script may import the site's modules
        browser.goto(f"{address}playground/licences.txt")
        watch = Watch(browser.processes())
        watch.start()
        browser.evaluate(OPEN)  # starts the engine
        print(
            "| | Run | Count and check | Grade, start | Grade, solution | load | MB | more |",
            "|---" * 8 + "|",
            sep="\n",
        )
        sizes, rows = [], []
        for asked in chosen:
            rows.append(measure_exercise(browser, watch, asked, rounds))
            sizes.append(watch.take(browser.processes()))
            figures = [
                *(f"{seconds:.1f} ({used:.1f})" for seconds, used in rows[-1]),
                f"{read_load():.1f}",
                *sizes[-1],
            ]
            print("|", " | ".join([asked.number, *figures]), "|", flush=True)
        # "1.2 (0.9)" of each click: the most seconds and processor seconds of any exercise
        most_of = []
        for click in zip(*rows, strict=True):  # (seconds, processor seconds) of each exercise
            seconds, used = map(max, zip(*click, strict=True))
            most_of.append(f"{seconds:.1f} ({used:.1f})")
        most = [max(column, key=int) for column in zip(*sizes, strict=True)]
        print("|", " | ".join(["most", *most_of, "", *most]), "|")
        # Stop is pressed `wait` milliseconds after the run begins: while the kernel runs, or while
        # another text is compiled. STOPPED does it, and returns two times in seconds.
        for name, request, wait in (
            ("a kernel", ENDLESS, 6000),
            ("a compilation", {**ENDLESS, "source": f"{ENDLESS['source']} // anew"}, 100),
        ):
            ended, ready = browser.evaluate(STOPPED, request, wait)
            print(
                f"\nStop of {name}: ended after {ended:.2f} s, ready after {ready:.2f} s; load {read_load():.1f}"
            )
        watch.ended.set()
        watch.join()


def main() -> None:
    """Measure page 04 and the exercises in Chromium, and print the tables; options are those of the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("numbers", nargs="*", help="exercises; all if absent")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--page", action="store_true", help="page 04 alone")
    options = parser.parse_args()
    # without those that the playground does not offer, for which `find_reason` gives a reason
    offered = {number: asked for number, asked in exercises().items() if not find_reason(asked)}
    with served(SITE) as address:
        visits = [visit_page(address) for _ in range(options.rounds)]
        print("| page 04 | seconds | load | MB | more | loaded, MB |", "|---" * 6 + "|", sep="\n")
        for rows in zip(*visits, strict=True):  # a step's row in each visit
            # the smallest row is that of the fastest visit: it begins with the seconds, not printed
            print("|", " | ".join(min(rows)[1:]), "|")
        if not options.page:
            chosen = [offered[number] for number in options.numbers or offered]
            measure_exercises(address, chosen, options.rounds)


if __name__ == "__main__":
    main()
