"""How much slower the CPU engine's check mode is than its run mode, rung by rung.

    python benchmarks/check_mode.py [BATCH]

Both modes run in child processes, one worker each, because check mode has one. A row gives the best of five runs of the
op on LeNet86's two layers.
"""

import json
import os
import subprocess
import sys

RUNGS = range(1, 9)


def measure(batch):
    """Print the op times of all rungs as JSON: {"rung layer": seconds}."""
    import time

    import numpy as np

    import labkit

    times = {}
    for number in RUNGS:
        for layer in labkit.LENET86:
            with labkit.variant(number).plan(layer, batch) as plan:
                plan.load(np.zeros(layer.x_shape(batch), np.float32), np.zeros(layer.k_shape, np.float32))
                best = float("inf")
                for _ in range(6):  # the first one warms up
                    start = time.perf_counter()
                    plan.run()
                    plan.result()
                    best = min(best, time.perf_counter() - start)
            times[f"{number:02} {layer.name}"] = best
    print(json.dumps(times))


def times(batch, tools):
    """`measure` in a child process; `tools` for LABKIT_CHECK, empty for run mode."""
    environment = {**os.environ, "LABKIT_ENGINE": "cpu", "LABKIT_WORKERS": "1", "LABKIT_CHECK": tools}
    command = [sys.executable, __file__, "--measure", str(batch)]
    return json.loads(subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE).stdout)


def main():
    batch = int(sys.argv[1]) if len(sys.argv) > 1 else 4
    run = times(batch, "")
    profile = times(batch, "profile")
    everything = times(batch, "profile,memcheck,racecheck,initcheck,synccheck")
    print(f"batch {batch}, one worker; op times in ms, and how many times slower than run mode\n")
    print(f"{'rung, layer':24}{'run':>9}{'counters':>10}{'':>8}{'all tools':>11}")
    for name, seconds in run.items():
        print(
            f"{name:24}{1e3 * seconds:9.2f}{1e3 * profile[name]:10.1f}{profile[name] / seconds:7.1f}x"
            f"{1e3 * everything[name]:11.1f}{everything[name] / seconds:7.1f}x"
        )


if __name__ == "__main__":
    if sys.argv[1:2] == ["--measure"]:
        measure(int(sys.argv[2]))
    else:
        main()
