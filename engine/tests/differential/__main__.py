"""Compare the modes of the CPU engine, or a GPU, with the reference: random kernels, or the cases of files.

python -m tests.differential FIRST COUNT      the seeds from FIRST on, in batches of 20
python -m tests.differential --cases FILE ... the cases of files; of all without a name
"""

import argparse
import collections
import multiprocessing
import re
import sys
import tempfile
import time
from multiprocessing import connection
from pathlib import Path

from hostcuda.host import cache

from .compare import CASES, MODES, ON_A_GPU, Result, compare, read
from .generator import BATCH, Kernel, batch, tools_of
from .minimize import minimize

SECONDS = 900  # for a batch


def main():
    parser = argparse.ArgumentParser(
        prog="python -m tests.differential",
        description=__doc__,
        formatter_class=argparse.RawTextHelpFormatter,
    )
    parser.add_argument("first", type=int, nargs="?", help="the first seed")
    parser.add_argument("count", type=int, nargs="?", default=BATCH, help="how many seeds")
    parser.add_argument("--cases", nargs="*", type=Path, help="the cases of these files, or all")
    parser.add_argument(
        "--gpu", action="store_true", help="hold an NVIDIA GPU against the reference, not the modes"
    )
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    parser.add_argument(
        "--minimize",
        action="store_true",
        help="print each wrong kernel without what it does not need",
    )
    parser.add_argument(
        "--sanitize",
        action="store_true",
        help="the reference refuses undefined behaviour of C++, too",
    )
    parser.add_argument("--source", action="store_true", help="print the batch's source only")
    options = parser.parse_args()
    if options.cases is not None:
        batches = [read(path) for path in options.cases or sorted(CASES.glob("*.cu"))]
    elif options.first is None:
        parser.error("give the first seed, or --cases")
    else:
        last = options.first + options.count
        batches = map(_make_batch, range(options.first - options.first % BATCH, last, BATCH))
        batches = (_select(whole, options.first, last) for whole in batches)
    if options.source:
        print(*(part.text for part in batches), sep="\n")
        return 0
    cache.scratch()  # made here, so that it is removed here: the processes below are killed
    start, tally, reasons = time.monotonic(), collections.Counter(), collections.Counter()
    for result in _run_all(batches, options):
        tally[result.verdict] += 1
        if result.verdict in ("same", "differs"):
            tally[f"on {result.execution_mode}"] += 1
            if result.why_fibers:
                reasons[re.sub(r"\d+", "N", result.why_fibers)] += 1
        if result.verdict != "same":
            print(f"{result.case.name} {result.verdict}: {result.detail}", flush=True)
        if options.minimize and result.wrong and options.cases is None:
            seed = int(result.case.name[1:])
            kernel = Kernel(seed, tools_of(seed // BATCH))
            print(
                _isolated(lambda modes, kernel=kernel: minimize(kernel, modes), result.wrong),
                flush=True,
            )
    tally_text = ", ".join(f"{count} {what}" for what, count in sorted(tally.items()))
    print(f"{tally_text}, {time.monotonic() - start:.0f} s")
    for reason, count in reasons.most_common(25):
        print(f"{count:6} {reason}")
    return int(
        any(
            tally[verdict]
            for verdict in tally
            if verdict not in ("same", "illegal", "on loops", "on fibers")
        )
    )


def _make_batch(first):
    return batch(first // BATCH)


def _select(whole, first, last):
    whole.cases = [case for case in whole.cases if first <= int(case.name[1:]) < last]
    return whole


# --------------------------------------------------------------------------------------------------
# Processes: a kernel may end the process that runs it, or never end


def _start(function, *arguments):
    here, there = multiprocessing.get_context("fork").Pipe(duplex=False)

    def child():
        there.send(function(*arguments))

    process = multiprocessing.get_context("fork").Process(target=child, daemon=True)
    process.start()
    there.close()
    return process, here, time.monotonic() + SECONDS


def _isolated(function, *arguments):
    process, here, _ = _start(function, *arguments)
    try:
        return here.recv() if here.poll(SECONDS) else "it does not end"
    except EOFError:
        return "the process ended"
    finally:
        process.kill()
        process.join()


def _compare(part, options):
    with tempfile.TemporaryDirectory(prefix="differential-") as folder:
        return compare(part, folder, options.sanitize, ON_A_GPU if options.gpu else MODES)


def _run_all(batches, options):
    """Yield the results of batches, as they come; a batch that ends its process is halved."""
    waiting, running = iter(batches), {}
    more = []
    while True:
        while len(running) < options.jobs and (part := more.pop() if more else next(waiting, None)):
            process, here, end = _start(_compare, part, options)
            running[here] = process, end, part
        if not running:
            return
        ready = connection.wait(list(running), timeout=5)
        late = [
            here
            for here, (_, end, _) in running.items()
            if time.monotonic() > end and here not in ready
        ]
        for here in [*ready, *late]:
            process, _, part = running.pop(here)
            try:
                results = here.recv() if here in ready else None
            except EOFError:
                results = None
            process.kill()
            process.join()
            if results is not None:
                yield from results
            elif len(part.cases) > 1:
                more += part.halves()
            else:
                why = "it ends the process" if here in ready else f"it takes more than {SECONDS} s"
                yield Result(
                    part.cases[0], "fails", why, wrong=[*(ON_A_GPU if options.gpu else MODES)]
                )


if __name__ == "__main__":
    sys.exit(main())
