"""Print how many processor seconds a small program takes, the first time, changed and again, beside an earlier commit.

    python benchmarks/first_answer.py COMMIT [ROUNDS]

A round runs and sanitizes the same program with both versions, one after the other: on a cache that
is new, then with a changed constant, then as it is. The table has the median of the rounds, and
the cost of `hostcuda prepare` where a version has it. What else the machine does changes
processor seconds less than the time by the clock.
"""

import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

HOME = Path(__file__).resolve().parents[1]
PROGRAM = """#include <cstdio>
__global__ void scale(float *x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = CONSTANT * x[i];
}
int main() {
    float host[1000], *x;
    for (int i = 0; i < 1000; i++) host[i] = i;
    cudaMalloc(&x, sizeof host);
    cudaMemcpy(x, host, sizeof host, cudaMemcpyHostToDevice);
    scale<<<8, 128>>>(x, 1000);
    cudaMemcpy(host, x, sizeof host, cudaMemcpyDeviceToHost);
    printf("%g\\n", host[999]);
    cudaFree(x);
}
"""
COMMANDS = ("run", "sanitize")


def measure(engine: Path, cache: Path, *arguments: str) -> float:
    """Run a command of `hostcuda`, of the engine in that folder; return its processor seconds with its children's."""

    def read() -> float:
        """Return the processor seconds of the children that have ended."""
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return usage.ru_utime + usage.ru_stime

    environment = {
        **os.environ,
        "PYTHONPATH": str(engine),
        "HOSTCUDA_ENGINE": "cpu",
        "HOSTCUDA_CACHE_DIR": str(cache),
        "PYTHONDONTWRITEBYTECODE": "",  # a user's modules are compiled once, too
    }
    before = read()
    subprocess.run(
        [sys.executable, "-m", "hostcuda", *arguments],
        env=environment,
        check=True,
        stdout=subprocess.DEVNULL,
    )
    return read() - before


def has_prepare(engine: Path) -> bool:
    """Return whether this version of the engine has `hostcuda prepare`."""
    return (engine / "hostcuda" / "prepare.py").is_file()


def run_rounds(engines: dict[str, Path], rounds: int, folder: Path) -> dict[tuple, list[float]]:
    """Return the processor seconds of each (what was run, version), a number per round."""
    seconds: dict[tuple, list[float]] = {}
    program, constant = folder / "program.cu", 1

    def write_program() -> None:
        """Write the program with a constant that no version has compiled."""
        nonlocal constant
        constant += 1
        program.write_text(PROGRAM.replace("CONSTANT", f"{constant}.5f"))

    for engine in engines.values():  # Python's compiled modules are there from now on
        measure(engine, folder / "warm", "--version")
    for number in range(rounds):
        for command in COMMANDS:
            caches = {version: folder / f"{command}-{number}-{version}" for version in engines}
            for what in ("first", "changed", "again"):
                if what != "again":
                    write_program()
                for version, engine in engines.items():
                    taken = measure(engine, caches[version], command, str(program))
                    seconds.setdefault((f"{command}, {what}", version), []).append(taken)
            for cache in caches.values():
                shutil.rmtree(cache)
        for version, engine in engines.items():
            if has_prepare(engine):
                cache = folder / f"prepared-{number}"
                taken = measure(engine, cache, "prepare")
                seconds.setdefault(("prepare", version), []).append(taken)
                for command in COMMANDS:
                    write_program()
                    taken = measure(engine, cache, command, str(program))
                    what = f"{command}, first after prepare"
                    seconds.setdefault((what, version), []).append(taken)
                shutil.rmtree(cache)
    return seconds


def main(commit: str, rounds: int = 3) -> None:
    """Measure this checkout beside a commit of it, and print the table as Markdown."""
    with tempfile.TemporaryDirectory() as place:
        folder, tree = Path(place), Path(place, "before")
        subprocess.run(
            ["git", "-C", HOME, "worktree", "add", "--quiet", "--detach", tree, commit], check=True
        )
        try:
            engines = {commit[:12]: tree / "engine", "now": HOME / "engine"}
            seconds = run_rounds(engines, rounds, folder)
        finally:
            subprocess.run(["git", "-C", HOME, "worktree", "remove", "--force", tree], check=True)
    print(f"| processor seconds | {' | '.join(engines)} |\n|---|{'---|' * len(engines)}")
    for what in dict.fromkeys(what for what, _ in seconds):
        cells = [
            f"{statistics.median(seconds[what, version]):.2f}" if (what, version) in seconds else ""
            for version in engines
        ]
        print(f"| {what} | {' | '.join(cells)} |")


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    main(sys.argv[1], *map(int, sys.argv[2:]))
