"""Measure how much slower the CPU engine's check mode is than its run mode, rung by rung.

    python benchmarks/check_mode.py [BATCH]
    python benchmarks/check_mode.py | python -m recording readme check   and write it into engine/docs/performance.md

Run mode, the counters and all the checks each have a child process with one worker, because check
mode has one. The processes take turns, so that other load on the machine affects all of them alike.
A row gives the shortest of several runs of the op, in processor time, on the layers of lenet86;
every access is counted. The table goes to stderr, a sentence to stdout. The exit status is 1 if the
counters are more than 20 times slower than run mode anywhere.
"""

import argparse
import datetime
import functools
import os
import subprocess
import sys
import time

import numpy as np

import labkit
from labkit.ladder.rungs import LADDER

RUNGS = [rung for rung in LADDER if rung.number]
MODES = {"run": "", "counters": "profile", "checks": "memcheck,racecheck,initcheck,synccheck"}
ROUNDS = 5
MOST = 20


def serve(batch):
    """Be a child process of `start`: time the kernel that each line of the input asks for.

    A line is "tiling 1": a rung's name and the index of a layer. The answer is a line with the
    processor seconds of the op, the less of two runs.
    """
    plans = {}
    for line in sys.stdin:
        name, index = line.split()
        layer = labkit.LENET86[int(index)]
        if (name, index) not in plans:
            plan = plans[name, index] = labkit.variant(name).plan(layer, batch)
            plan.load(
                np.zeros(layer.x_shape(batch), np.float32), np.zeros(layer.k_shape, np.float32)
            )
            plan.run()  # warms up
            plan.result()
        plan, best = plans[name, index], float("inf")
        for _ in range(2):
            start = time.process_time()
            plan.run()
            plan.result()
            best = min(best, time.process_time() - start)
        print(best, flush=True)


def start(batch, tools):
    """Start the child process of one mode; `tools` is the value of HOSTCUDA_CHECK, empty for run mode."""
    environment = {
        **os.environ,
        "HOSTCUDA_ENGINE": "cpu",
        "HOSTCUDA_WORKERS": "1",
        "HOSTCUDA_CHECK": tools,
    }
    command = [sys.executable, __file__, "--serve", str(batch)]
    return subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def ask(child, name, index):
    """Let a child process of `start` run a rung on a layer, by their name and index; return its processor seconds."""
    child.stdin.write(f"{name} {index}\n")
    child.stdin.flush()
    return float(child.stdout.readline())


say = functools.partial(print, file=sys.stderr, flush=True)


def measure(children):
    """Yield (rung, layer, {mode: least processor seconds}) for every rung and layer, then end the children.

    `children` maps a mode to its child process. They are asked in turns.
    """
    for rung in RUNGS:
        for index, layer in enumerate(labkit.LENET86):
            best = dict.fromkeys(children, float("inf"))
            for _ in range(ROUNDS):
                for key, child in children.items():
                    best[key] = min(best[key], ask(child, rung.name, index))
            yield rung, layer, best
    for child in children.values():
        child.stdin.close()
        child.wait()


def main(batch):
    """Measure how much slower check mode is; print a table on stderr and sentences for the documents on stdout.

    The exit status is 1 if counting takes more than MOST times as long as running.
    """
    say(
        f"batch {batch}, one worker; processor time of an op in ms, and how many times slower than run mode\n"
    )
    say(f"{'rung, layer':24}{'run':>9}{'counters':>10}{'':>8}{'checks':>10}")
    ratios = []
    for rung, layer, best in measure({mode: start(batch, tools) for mode, tools in MODES.items()}):
        ratio = {mode: best[mode] / best["run"] for mode in best}
        ratios.append(ratio)
        say(
            f"{f'{rung.number:02} {layer.name}':24}{1e3 * best['run']:9.2f}{1e3 * best['counters']:10.1f}"
            f"{ratio['counters']:7.1f}x{1e3 * best['checks']:10.1f}{ratio['checks']:7.1f}x"
        )
    counters, checks = ([ratio[mode] for ratio in ratios] for mode in ("counters", "checks"))
    text = (
        f"**Counting.** A kernel takes {min(counters):.1f} to {max(counters):.1f} times as long as in `hostcuda run` "
        "if hostcuda counts its memory accesses.\n\n"
        f"**Checking.** With all four checks of `hostcuda sanitize`, a kernel takes {min(checks):.0f} to "
        f"{max(checks):.0f} times as long as in `hostcuda run`.\n\n"
        "These times of counting and checking are for the lab's kernels "
        f"{RUNGS[0].number:02} to {RUNGS[-1].number:02} on both layers of lenet86 with {batch} images. "
        f"The processor was an {labkit.device().name}, {datetime.date.today()}."
    )
    print(text)
    sys.exit(max(counters) > MOST)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("batch", nargs="?", type=int, default=4, help="images (4)")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options.batch)
    else:
        main(options.batch)
