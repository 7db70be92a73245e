"""The lab's kernels as jobs, which a program in a process of its own runs once each, for the recorders.

That program is `python -m recording.jobs FOLDER`: it runs the jobs in FOLDER/jobs.
"""

import functools
import json
import os
import pickle
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import hostcuda
from hostcuda import processes, temporary
from labkit import LENET86, LabError, Layer, Network, device, variant
from labkit.base.paths import cuda_src
from labkit.exercises.exercise import Case, Exercise, exercise, exercises
from labkit.ladder.buffers import images_with_nan
from labkit.ladder.rungs import LADDER
from labkit.ladder.source import digest
from labkit.ladder.variants import Variant, solutions, variants

BATCH = 2
TEXTBOOK = Path(__file__).parent / "textbook.cu"
N = 1 << 14  # elements of a vector
_VECTOR, _MATRIX = ((64, 1), (256, 1, 1), N), ((4, 4), (32, 32, 1), 128)
GEOMETRY = {  # kernel in textbook.cu -> grid, block, its argument n
    "saxpy": _VECTOR,
    "copy_stride2": ((32, 1), (256, 1, 1), N),
    "copy_stride32": ((2, 1), (256, 1, 1), N),
    "copy_offset1": _VECTOR,
    "copy_float4": ((16, 1), (256, 1, 1), N),
    "transpose_naive": _MATRIX,
    "transpose_shared": _MATRIX,
    "transpose_padded": _MATRIX,
    "reduction": _VECTOR,
    "histogram": _VECTOR,
    "ranks": _VECTOR,
    "stencil": _VECTOR,
    "im2col": ((4, 9), (256, 1, 1), 32),
    "gemm": ((8, 8), (16, 16, 1), 128),
    "wmma": ((16, 1), (32, 1, 1), 16),
}


@dataclass(frozen=True)
class Job:
    """Kernels to launch on one shape: a variant's, a network's with that variant inside, or others.

    The others are one of textbook.cu, or the solution of an exercise of the practice pages.
    """

    # a rung's label, "00 network", "practice" or "textbook": jobs that are recorded together
    group: str
    program: str  # "04 tiling, tile=32"; a practice page and a file
    shape: str  # a layer's name; a case's; of textbook.cu the kernel's
    source: str  # a digest: counters of another source are not those of this job
    variant: Variant | None = None
    layer: Layer | None = None
    batch: int = BATCH
    exercise: str = ""  # its number

    def compile(self) -> None:
        """Compile the kernels of a variant into the engine's cache; other kernels are compiled when they run."""
        if self.variant:
            self.variant.precompile(self.variant.defines(self.layer))

    def run(self) -> dict[str, int]:
        """Launch the job's kernels on random inputs; return {"launches": 12, "images": 2}.

        These are the number of launches, and the images that the first one computes (0 if it
        computes no images).
        """
        if self.exercise:
            return {"launches": _run_solution(self.exercise), "images": 0}
        if not self.variant:
            _run_textbook(self.shape)
            return {"launches": 1, "images": 0}
        rng = np.random.default_rng(0)
        x, k = (
            rng.random(shape, np.float32)
            for shape in (self.layer.x_shape(self.batch), self.layer.k_shape)
        )
        if self.program != self.variant.label:  # the job of `make_network_job`, "00 network"
            Network(conv=self.variant).forward(x)
            # the network's other kernel: the search for NaN in an output
            y = self.layer.y_shape(self.batch)
            images_with_nan(hostcuda.driver.to_device(np.zeros(y, np.float32)), y, np.float32)
            return {"launches": 12, "images": self.batch}  # 12: both together
        with self.variant.plan(self.layer, self.batch) as plan:
            plan.load(x, k)
            plan.run()
            plan.result()
            return {"launches": len(plan.launches), "images": plan.images}


def make_job(variant: Variant, layer: Layer, batch: int = BATCH) -> Job:
    """Return the job for a variant's kernels on a layer, in the group of the variant's rung.

    Its `source` is a digest of all that is compiled.
    """
    source = digest(f"{variant.source}{''.join(variant.headers)}{variant.defines(layer)}")
    return Job(variant.rung.label, variant.label, layer.name, source, variant, layer, batch)


def list_ladder_jobs() -> list[Job]:
    """Return jobs for the kernels of the ladder, its sub-steps and the exercises' solutions, on lenet86's layers."""
    # Left out: variants with the source, headers and constants of an earlier one of their rung, and
    # those whose code differs between the engines.
    jobs_by_code: dict[tuple, Job] = {}  # (rung's number, layer, digest of the source) -> first job
    for rung in LADDER:
        portable = [
            candidate
            for candidate in (*variants(rung.number), *solutions(rung.number))
            if not candidate.architecture_specific
        ]
        for layer in LENET86:
            for job in (make_job(candidate, layer) for candidate in portable):
                jobs_by_code.setdefault((rung.number, layer, job.source), job)
    return list(jobs_by_code.values())


def make_network_job() -> Job:
    """Return the job for the network's own kernels: a forward pass with rung 08's convolutions; a search for NaN."""
    conv, layer = variant("fp16"), LENET86[0]
    own = "".join((cuda_src() / name).read_text() for name in ("00_network.cu", "buffers.cu"))
    source = digest(f"{conv.source}{conv.defines(layer)}{own}")
    return Job(
        group="00 network",
        program="00 network",
        shape="lenet86, fp16",
        source=source,
        variant=conv,
        layer=layer,
    )


def list_textbook_jobs() -> list[Job]:
    """Return a job per kernel of textbook.cu. Its source is its function and all templates."""
    # Functions, with their comments, are apart by an empty line before a line that is neither
    # indented nor a brace. The keys of GEOMETRY are the names of the kernels.
    functions = re.split(r"\n\n(?=[^ }])", TEXTBOOK.read_text())
    sources = {
        name: "".join(
            text for text in functions if text.startswith("template") or f" {name}(" in text
        )
        for name in GEOMETRY
    }
    # group, program, shape and source; a textbook kernel has a single shape, named after it
    return [Job("textbook", "textbook", name, digest(source)) for name, source in sources.items()]


@functools.cache
def _compile_textbook():
    """Return textbook.cu as a `SourceModule`; messages name its own lines."""
    text = f'#line 1 "{TEXTBOOK.name}"\n{TEXTBOOK.read_text()}'
    return hostcuda.compiler.SourceModule(text, options=["-std=c++17"], no_extern_c=True)


def _run_textbook(name: str) -> None:
    """Launch a kernel of textbook.cu on random integers and wait."""
    rng, (grid, block, n) = np.random.default_rng(1), GEOMETRY[name]
    # the histogram's counts depend on them
    data = {kernel: rng.integers(0, 1000, N) for kernel in GEOMETRY}
    x, y = (
        hostcuda.driver.to_device(data[name].astype(np.float32)),
        hostcuda.driver.mem_alloc(4 * N),
    )
    hostcuda.driver.memset_d8(y, 0, 4 * N)
    _compile_textbook().get_function(name)(
        np.intp(int(x)), np.intp(int(y)), np.int32(n), grid=grid, block=block
    )
    hostcuda.driver.Context.synchronize()


def list_practice_jobs() -> list[Job]:
    """Return jobs for the solutions of the practice pages' exercises, on the shapes whose counts are their goals."""
    return [
        Job(
            group="practice",
            program=f"{task.page.replace('_', ' ')}, {task.file.name}",
            shape=_find_counted_case(task).name,
            source=digest(task.solution),
            exercise=task.number,
        )
        for task in exercises().values()
        if task.page.startswith("P")  # a practice page, such as P1_transpose
    ]


def _find_counted_case(solved: Exercise) -> Case:
    """Return the exercise's first case whose counts are compared with its goals."""
    return next(case for case in solved.subject.cases if case.counted)


def _run_solution(number: str) -> int:
    """Run the solution of an exercise on its counted case; return the number of launches."""
    solved = exercise(number)
    # the arguments of each launch
    launches = solved.subject.inputs(case := _find_counted_case(solved))
    # this generator launches them
    for _ in solved.subject.execute(solved.solution, case, launches):
        pass
    return len(launches)


def list_all_jobs() -> list[Job]:
    """Return jobs for all kernels of the lab, and for those of textbook.cu."""
    return [*list_ladder_jobs(), make_network_job(), *list_practice_jobs(), *list_textbook_jobs()]


def compile_all(jobs: Iterable[Job]) -> None:
    """Compile the jobs' sources side by side, each once.

    A source that does not compile fails when its job runs.
    """
    device()  # cached from here on: the threads have no context
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for job in {job.source: job for job in jobs}.values():
            pool.submit(job.compile)


@contextmanager
def write_program(
    jobs: Sequence[Job],
) -> Iterator[tuple[list[str], Callable[[int], list[tuple[Job, dict]]]]]:
    """Yield the command of a program that runs jobs, and a function that tells which job made each launch.

    Call the function when the program has ended, with the number of launches that a profiler saw.
    It returns (job, result of `Job.run`) for each launch, in order, and raises LabError if the jobs
    made another number of launches. The program's files are removed at the end.
    """
    with temporary.folder() as folder:
        (folder / "jobs").write_bytes(pickle.dumps(list(jobs)))

        def find_owners(launches: int) -> list[tuple[Job, dict]]:
            """Return (job, result of its `run`) per launch; the program has written the results to the file "ran"."""
            # fewer results than jobs, if the program has failed in one
            results = zip(jobs, processes.lines(folder / "ran"), strict=False)
            launched = [(job, result) for job, result in results for _ in range(result["launches"])]
            if len(launched) != launches:
                raise LabError(
                    f"{launches} launches were counted, but the jobs of {jobs[0].program} and the next "
                    f"{len(jobs) - 1} made {len(launched)}: they cannot be matched"
                )
            return launched

        yield [sys.executable, "-m", "recording.jobs", str(folder)], find_owners


def _run_jobs(folder: Path) -> None:
    """Run the jobs of a folder; write what each `Job.run` returns to the file "ran" there, a line of JSON per job."""
    hostcuda.ensure_context()
    jobs = pickle.loads((folder / "jobs").read_bytes())
    compile_all(jobs)
    # written line by line: if a job ends the process, the lines of those before it are there
    with open(folder / "ran", "w", buffering=1) as log:
        for job in jobs:
            log.write(json.dumps(job.run()) + "\n")


if __name__ == "__main__":
    _run_jobs(Path(sys.argv[1]))
