"""How much slower the CPU engine's check mode is than its run mode, rung by rung.

    python benchmarks/check_mode.py [BATCH]
    python benchmarks/check_mode.py | python -m recording readme check     and write the sentence into the README

Run mode, the counters and all the checks each have a child process with one worker, because check mode has one. The
processes take turns, so that other load on the machine affects all of them alike. A row gives the shortest of several
runs of the op, in processor time, on the layers of lenet86; every access is counted. The table goes to stderr, a
sentence to stdout. The exit status is 1 if the counters are more than 20 times slower than run mode anywhere.
"""

import datetime
import functools
import os
import subprocess
import sys
import time

import numpy as np

import labkit
from labkit.ladder.rungs import LADDER

RUNGS = [rung.number for rung in LADDER if rung.number]
MODES = {"run": "", "counters": "profile", "checks": "memcheck,racecheck,initcheck,synccheck"}
ROUNDS = 5
MOST = 20


def serve(batch):
    """For each line "rung layer" of the input, print the processor seconds of the op: the shorter of two runs."""
    plans = {}
    for line in sys.stdin:
        number, index = map(int, line.split())
        layer = labkit.LENET86[index]
        if (number, index) not in plans:
            plan = plans[number, index] = labkit.variant(number).plan(layer, batch)
            plan.load(np.zeros(layer.x_shape(batch), np.float32), np.zeros(layer.k_shape, np.float32))
            plan.run()  # warms up
            plan.result()
        plan, best = plans[number, index], float("inf")
        for _ in range(2):
            start = time.process_time()
            plan.run()
            plan.result()
            best = min(best, time.process_time() - start)
        print(best, flush=True)


def start(batch, tools):
    """The child process of one mode; `tools` for LABKIT_CHECK, empty for run mode."""
    environment = {**os.environ, "LABKIT_ENGINE": "cpu", "LABKIT_WORKERS": "1", "LABKIT_CHECK": tools}
    command = [sys.executable, __file__, "--serve", str(batch)]
    return subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def ask(child, number, index):
    """The seconds of one run in that child."""
    child.stdin.write(f"{number} {index}\n")
    child.stdin.flush()
    return float(child.stdout.readline())


def main():
    batch = int(sys.argv[1]) if len(sys.argv) > 1 else 4
    children = {mode: start(batch, tools) for mode, tools in MODES.items()}
    say = functools.partial(print, file=sys.stderr, flush=True)
    say(f"batch {batch}, one worker; processor time of an op in ms, and how many times slower than run mode\n")
    say(f"{'rung, layer':24}{'run':>9}{'counters':>10}{'':>8}{'checks':>10}")
    ratios = []
    for number in RUNGS:
        for index, layer in enumerate(labkit.LENET86):
            best = dict.fromkeys(children, float("inf"))
            for _ in range(ROUNDS):
                for mode, child in children.items():
                    best[mode] = min(best[mode], ask(child, number, index))
            ratio = {mode: best[mode] / best["run"] for mode in best}
            ratios.append(ratio)
            say(
                f"{f'{number:02} {layer.name}':24}{1e3 * best['run']:9.2f}{1e3 * best['counters']:10.1f}"
                f"{ratio['counters']:7.1f}x{1e3 * best['checks']:10.1f}{ratio['checks']:7.1f}x"
            )
    for child in children.values():
        child.stdin.close()
        child.wait()
    counters, checks = ([ratio[mode] for ratio in ratios] for mode in ("counters", "checks"))
    said = (
        f"Counting takes {min(counters):.1f} to {max(counters):.1f} times as long as running, all four checks together "
        f"{min(checks):.0f} to {max(checks):.0f} times: rungs {min(RUNGS):02} to {max(RUNGS):02}, both layers of "
        f"lenet86, {batch} images, {labkit.device().name}, {datetime.date.today()}."
    )
    print(said)
    sys.exit(max(counters) > MOST)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        serve(int(sys.argv[2]))
    else:
        main()
