"""Run kernels in both modes of the engine, or on a GPU, and compare the bits with the reference.

Each kernel is ``void name(unsigned *out, const unsigned *in, int n)``; both arrays have ``WORDS``
words. Many kernels are compiled at once, since that takes most of the time; a batch that goes wrong
is then looked at kernel by kernel.
"""

import os
import re
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from unittest import mock

import numpy as np

import hostcuda
from hostcuda.api import compiler, driver
from hostcuda.host import cache

from . import WORDS, reference

CASES = Path(__file__).with_name("cases")
MODES = ("loops", "fibers")
ON_A_GPU = ("gpu",)  # in place of the modes
# else one mode may fuse operations that the other cannot, see docs/execution.md
OPTIONS = ["-fmad=false"]
NOT_COMPILED = "its thread loops do not compile"


@dataclass
class Case:
    """A kernel, the text that belongs beside it in the source, and its launches: one for each n."""

    name: str
    text: str
    before: str = ""  # the text that belongs before all kernels
    block: tuple = (64, 1, 1)
    grid: tuple = (1, 1, 1)
    shared: int = 0
    ns: tuple = (3,)


@dataclass
class Batch:
    """Cases that are compiled together, after a text that all of them need."""

    prelude: str
    cases: list

    @property
    def text(self):
        return (
            self.prelude
            + "".join(case.before for case in self.cases)
            + "".join(case.text for case in self.cases)
        )

    def halves(self):
        middle = len(self.cases) // 2
        return Batch(self.prelude, self.cases[:middle]), Batch(self.prelude, self.cases[middle:])

    def only(self, case):
        return Batch(self.prelude, [case])


@dataclass
class Result:
    """The result of a case: ``same``, ``illegal`` (the reference refuses it), or what is to be repaired."""

    case: Case
    verdict: str = "same"
    detail: str = ""
    execution_mode: str = "?"  # that of the compilation that may choose thread loops
    why_fibers: str = ""
    wrong: list = field(default_factory=list)  # modes that differ or fail

    def blame(self, mode, verdict, detail):
        if self.verdict == "same":
            self.verdict, self.detail = verdict, f"{mode}: {detail}"
        self.wrong.append(mode)


def words():
    """Return the input of every kernel: 16 random bits in each word."""
    return np.random.default_rng(8).integers(0, 1 << 16, WORDS).astype(np.uint32)


def compare(batch, cache_dir=None, sanitize=False, modes=MODES):
    """Run a batch in both modes and in the reference.

    Parameters
    ----------
    batch : Batch
    cache_dir : bool or path, optional
        As in `hostcuda.api.compiler.SourceModule`. Without one, the reference's results are cached,
        too.
    sanitize : bool
        Whether the reference refuses undefined behaviour of C++, too.
    modes : sequence of str
        The modes to run.

    Returns
    -------
    list of Result
        In the order of the cases.
    """
    data = words()
    expected = (
        _run_cached(batch, data)
        if cache_dir is None and not sanitize
        else reference.run(batch, data, sanitize)
    )
    results = {case.name: Result(case) for case in batch.cases}
    for name, outs in expected.items():
        if isinstance(outs, reference.Illegal):
            results[name].verdict, results[name].detail = "illegal", str(outs)
    legal = Batch(
        batch.prelude, [case for case in batch.cases if results[case.name].verdict == "same"]
    )
    for mode in modes:
        # A kernel that the loops left to fibers has run on them: its text for the compiler is the
        # same.
        rest = [
            case
            for case in legal.cases
            if mode != "fibers" or results[case.name].execution_mode != "fibers"
        ]
        for part, module in _compile_modules(Batch(batch.prelude, rest), mode, cache_dir):
            for case in part.cases:
                _compare_case(results[case.name], case, mode, module, data, expected[case.name])
    return list(results.values())


def _run_cached(batch, data):
    """Return the reference's results, from the cache if they are there."""
    launches = [(case.name, case.block, case.grid, case.ns) for case in batch.cases]
    key = cache.digest(
        "reference", reference.HEADER.read_text(), reference.compiler(), batch.text, repr(launches)
    )

    def make(path):
        results = reference.run(batch, data)
        outs = {
            name: str(out) if isinstance(out, reference.Illegal) else out
            for name, out in results.items()
        }
        with path.open("wb") as file:
            np.savez_compressed(file, **outs)

    with np.load(cache.obtain(f"reference/{key[:40]}.npz", make)) as file:
        return {
            name: out if out.ndim else reference.Illegal(str(out)) for name, out in file.items()
        }


def _compile_modules(batch, mode, cache_dir):
    """Yield parts of a batch with their modules, or with the reason why a case has none.

    A batch is halved while it does not compile, or while one of its kernels sends the others to
    fibers.
    """
    if not batch.cases:
        return
    text = re.sub(r"(?m)^__global__", 'extern "C" __global__', batch.text)
    try:
        with mock.patch.dict(os.environ, HOSTCUDA_EXECUTION_MODE=mode), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            module = _compile(text, mode, cache_dir)
        spoiled = mode == "loops" and any(
            module.get_function(case.name).why_fibers == NOT_COMPILED for case in batch.cases
        )
    except Exception as error:  # any error of the front end is about this batch
        module, spoiled = f"{type(error).__name__}: {error}", True
    if spoiled and len(batch.cases) > 1:
        for half in batch.halves():
            yield from _compile_modules(half, mode, cache_dir)
    else:
        yield batch, module


def _compile(text, mode, cache_dir):
    if mode in MODES:
        return compiler.SourceModule(text, options=OPTIONS, no_extern_c=True, cache_dir=cache_dir)
    hostcuda.ensure_context()
    options = [*OPTIONS, "-std=c++17", "--expt-relaxed-constexpr"]
    return hostcuda.compiler.SourceModule(
        text, options=options, no_extern_c=True, cache_dir=cache_dir
    )


def _compare_case(result, case, mode, module, data, expected):
    if isinstance(module, str):
        result.blame(mode, "does not compile", module[:2000])
        return
    function = module.get_function(case.name)
    if mode == "loops":
        result.execution_mode, result.why_fibers = function.execution_mode, function.why_fibers
    cuda = driver if mode in MODES else hostcuda.driver
    for n, right in zip(case.ns, expected, strict=True):
        out = np.zeros(WORDS, np.uint32)
        arguments = cuda.InOut(out), cuda.In(data), np.int32(n)
        try:
            function(*arguments, block=case.block, grid=case.grid, shared=case.shared)
        except Exception as error:
            result.blame(mode, "fails", f"n = {n}: {type(error).__name__}: {error}"[:2000])
            return
        if not np.array_equal(out, right):
            at = np.flatnonzero(out != right)
            detail = (
                f"n = {n}: {len(at)} words, first out[{at[0]}] = {out[at[0]]}, not {right[at[0]]}"
            )
            result.blame(mode, "differs", detail)
            return


# --------------------------------------------------------------------------------------------------
# Cases in files

_HEAD = re.compile(r"(?m)^// case (\w+)(?:: (.*))?\n")


def read(path):
    """Read the batch from a file of cases.

    A case begins with a line such as ``// case name: block 32 2, grid 3, shared 1024, n 3 10`` and
    ends at the next; what is missing is as in `Case`.
    """
    prelude, *parts = _HEAD.split(Path(path).read_text(encoding="utf-8"))
    cases = []
    for name, launch, text in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
        facts = {}
        for word, *numbers in (
            entry.split() for entry in (launch or "").split(",") if entry.strip()
        ):
            sizes = tuple(map(int, numbers))
            if word in ("block", "grid"):
                facts[word] = (*sizes, 1, 1)[:3]
            elif word == "shared":
                facts[word] = sizes[0]
            elif word == "n":
                facts["ns"] = sizes
            else:
                raise ValueError(f"{path}: {name} has the unknown word {word!r} in its launch")
        cases.append(Case(name, text, **facts))
    return Batch(prelude, cases)
