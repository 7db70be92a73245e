"""Print how many processor seconds the first answers take, the first time, changed and again, beside an earlier commit.

    python benchmarks/first_answer.py COMMIT [ROUNDS [NEW]]

A round runs and sanitizes the same program with all versions, one after the other: with a changed
constant, then as it is. It also runs cells of a notebook: a changed
kernel of rung 04 with `lab.check`, and one of exercise 04a with `lab.grade`, in a new kernel of
Jupyter and a second time. NEW more rounds begin with a new cache, also after `hostcuda prepare`
where a version has it. The table has the median of the rounds. The commit is there twice, so that its two columns show
how much of a difference is chance. What else the machine does changes processor seconds less than
the time by the clock.
"""

import json
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
# It prints the processor seconds of cells; its argument changes the kernels in each of them.
NOTEBOOK = r"""
import json, re, resource, sys
from IPython.core.interactiveshell import InteractiveShell
from labkit.exercises.exercise import exercise
from labkit.ladder.variants import variant

def read():
    usages = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)

shell = InteractiveShell.instance()
shell.run_cell("import labkit as lab; lab.setup()").raise_error()
seconds = {}
for time in ("first", "changed"):
    for what, source, options in (
        ("lab.check", variant(4).source, ""),
        ("lab.grade", exercise("04a").start, "--exercise 04a"),
    ):
        never = f"if (gridDim.z == 60{sys.argv[1]}{len(seconds)}) return;"
        source = re.sub(r"(__global__[^{]*[{])", rf"\1\n    {never}", source, count=1)
        name = '"04a", mine' if options else "mine"
        before = read()
        for cell in (f"%%kernel 04 {options} --name mine\n{source}", f"_ = {what}({name})"):
            shell.run_cell(cell).raise_error()
        seconds[f"{what}, {time}"] = read() - before
print("\n" + json.dumps(seconds))
"""


def run_python(tree: Path, cache: Path, *arguments: str) -> str:
    """Run Python with the engine and the lab in the folder `tree`, and another cache folder; return what it prints."""
    environment = {
        **os.environ,
        "PYTHONPATH": f"{tree}{os.pathsep}{tree / 'engine'}",
        "HOSTCUDA_ENGINE": "cpu",
        "HOSTCUDA_CACHE_DIR": str(cache),
        "LABKIT_PROGRESS": str(cache.with_suffix(".progress")),
        "PYTHONDONTWRITEBYTECODE": "",  # a user's modules are compiled once, too
    }
    return subprocess.run(
        [sys.executable, *arguments],
        env=environment,
        cwd=cache.parent,
        check=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ).stdout


def measure(tree: Path, cache: Path, *arguments: str) -> float:
    """Run a command of `hostcuda` with the engine in the folder `tree`; return the processor seconds that it took.

    Those of its child processes are included.
    """

    def read() -> float:
        """Return the processor seconds of the children that have ended."""
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return usage.ru_utime + usage.ru_stime

    before = read()
    run_python(tree, cache, "-m", "hostcuda", *arguments)
    return read() - before


class Rounds:
    """The processor seconds of what was run, a number per round for each version.

    Attributes
    ----------
    trees : dict of str to Path
        The folders of the versions.
    folder : Path
        For the program and the caches.
    seconds : dict
        (what was run, version) -> numbers.
    """

    def __init__(self, trees: dict[str, Path], folder: Path):
        self.trees, self.folder, self.constant = trees, folder, 1
        self.program = folder / "program.cu"
        self.seconds: dict[tuple[str, str], list[float]] = {}
        for (
            tree
        ) in trees.values():  # modules of Python and the engine's own files are there from now on
            for command in COMMANDS:
                self._write_program()
                measure(tree, folder / "warm", command, str(self.program))
            run_python(tree, folder / "warm", "-c", NOTEBOOK, "1")

    def _write_program(self) -> None:
        """Write the program with a constant that no version has compiled."""
        self.constant += 1
        self.program.write_text(PROGRAM.replace("CONSTANT", f"{self.constant}.5f"))

    def _note(self, what: str, version: str, taken: float) -> None:
        """Note the seconds of something, and show them as long as the table is not there."""
        self.seconds.setdefault((what, version), []).append(taken)
        print(f"{what}, {version}: {taken:.2f}", file=sys.stderr, flush=True)

    def _run(self, what: str, command: str, cache: Path) -> None:
        """Run the program with all versions."""
        for version, tree in self.trees.items():
            taken = measure(tree, cache / version, command, str(self.program))
            self._note(f"{command}, {what}", version, taken)

    def run_warm(self, number: int) -> None:
        """Measure programs whose kernels have changed, the same programs again, and a notebook's cells.

        The cache has the engine's own compiled files already. `number` is the round's.
        """
        warm = self.folder / "warm"
        for command in COMMANDS:
            self._write_program()
            for what in ("changed", "again"):
                for version, tree in self.trees.items():
                    # each version has a copy of the program, and compiles it on its own
                    taken = measure(tree, warm, command, self._copy_program(version))
                    self._note(f"{command}, {what}", version, taken)
        for version, tree in self.trees.items():
            cells = f"{number + 2}{[*self.trees].index(version)}"
            output = run_python(tree, warm, "-c", NOTEBOOK, cells)
            for what, taken in json.loads(output.splitlines()[-1]).items():
                self._note(what, version, taken)

    def _copy_program(self, version: str) -> str:
        """Write the program as only this version compiles it; return its path."""
        path = self.folder / f"program-{[*self.trees].index(version)}.cu"
        path.write_text(f"{self.program.read_text()}// {version}\n")
        return str(path)

    def run_new(self) -> None:
        """Measure what takes longest, because the cache is empty: the first program, and `hostcuda prepare`."""
        new = self.folder / "new"
        for command in COMMANDS:
            self._write_program()
            self._run("first", command, new)
            shutil.rmtree(new)
        for version, tree in self.trees.items():
            if (tree / "engine/hostcuda/prepare.py").is_file():
                self._note("prepare", version, measure(tree, new, "prepare"))
                for command in COMMANDS:
                    self._write_program()
                    taken = measure(tree, new, command, str(self.program))
                    self._note(f"{command}, first after prepare", version, taken)
                shutil.rmtree(new)


def main(commit: str, rounds: int = 3, new: int = 1) -> None:
    """Measure this checkout beside a commit of it, `new` times with new caches, and print the table as Markdown."""
    with tempfile.TemporaryDirectory() as place:
        folder, tree = Path(place), Path(place, "before")
        subprocess.run(
            ["git", "-C", HOME, "worktree", "add", "--quiet", "--detach", tree, commit], check=True
        )
        try:
            name = commit[:8]
            # the commit is measured twice: the difference tells how exact the figures are
            trees = {name: tree, f"{name}, again": tree, "now": HOME}
            measured = Rounds(trees, folder)
            for number in range(rounds):
                measured.run_warm(number)
            for _ in range(new):
                measured.run_new()
        finally:
            subprocess.run(["git", "-C", HOME, "worktree", "remove", "--force", tree], check=True)
    print(f"| processor seconds | {' | '.join(trees)} |\n|---|{'---|' * len(trees)}")
    seconds = measured.seconds
    for what in dict.fromkeys(what for what, _ in seconds):
        cells = [
            f"{statistics.median(seconds[what, version]):.2f}" if (what, version) in seconds else ""
            for version in trees
        ]
        print(f"| {what} | {' | '.join(cells)} |")


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3, 4):
        sys.exit(__doc__)
    main(sys.argv[1], *map(int, sys.argv[2:]))
