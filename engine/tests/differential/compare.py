"""Runs kernels in both gears of the engine, or on a GPU, and holds the bits against the reference.

Each kernel is ``void name(unsigned *out, const unsigned *in, int n)``; both arrays have ``WORDS`` words. Many kernels
are compiled at once, since that takes most of the time; what goes wrong is then looked at kernel by kernel.
"""

import os
import re
import warnings
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

import hostcuda
from hostcuda.api import compiler, driver
from hostcuda.host import cache

from . import WORDS, reference

CASES = Path(__file__).with_name("cases")
GEARS = ("loops", "fibers")
ON_A_GPU = ("gpu",)  # in place of the gears
OPTIONS = ["-fmad=false"]  # else a gear may fuse what the other cannot, see docs/gears.md
NOT_COMPILED = "its thread loops do not compile"


@dataclass
class Case:
    """A kernel, what stands beside it in the source, and its launches: one for each n."""

    name: str
    text: str
    before: str = ""  # what stands before all kernels
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
        return self.prelude + "".join(case.before for case in self.cases) + "".join(case.text for case in self.cases)

    def halves(self):
        middle = len(self.cases) // 2
        return Batch(self.prelude, self.cases[:middle]), Batch(self.prelude, self.cases[middle:])

    def only(self, case):
        return Batch(self.prelude, [case])


@dataclass
class Result:
    """What came of a case: ``same``, ``illegal`` (the reference refuses it), or what is to be mended."""

    case: Case
    verdict: str = "same"
    detail: str = ""
    gear: str = "?"  # of the compilation that may choose thread loops
    why_fibers: str = ""
    wrong: list = field(default_factory=list)  # gears that differ or fail

    def blame(self, gear, verdict, detail):
        if self.verdict == "same":
            self.verdict, self.detail = verdict, f"{gear}: {detail}"
        self.wrong.append(gear)


def words():
    """The input of every kernel: 16 random bits in each word."""
    return np.random.default_rng(8).integers(0, 1 << 16, WORDS).astype(np.uint32)


def compare(batch, cache_dir=None, sanitize=False, gears=GEARS):
    """Run a batch in both gears and in the reference.

    Parameters
    ----------
    batch : Batch
    cache_dir : bool or path, optional
        As in `hostcuda.api.compiler.SourceModule`. Without one, what the reference says is cached, too.
    sanitize : bool
        Whether the reference refuses undefined behaviour of C++, too.
    gears : sequence of str
        The gears to run.

    Returns
    -------
    list of Result
        In the order of the cases.
    """
    given = words()
    expected = _expected(batch, given) if cache_dir is None and not sanitize else reference.run(batch, given, sanitize)
    results = {case.name: Result(case) for case in batch.cases}
    for name, outs in expected.items():
        if isinstance(outs, reference.Illegal):
            results[name].verdict, results[name].detail = "illegal", str(outs)
    legal = Batch(batch.prelude, [case for case in batch.cases if results[case.name].verdict == "same"])
    for gear in gears:
        # What the loops left to fibers has run on them: its text for the compiler is the same.
        rest = [case for case in legal.cases if gear != "fibers" or results[case.name].gear != "fibers"]
        for part, module in _modules(Batch(batch.prelude, rest), gear, cache_dir):
            for case in part.cases:
                _hold(results[case.name], case, gear, module, given, expected[case.name])
    return list(results.values())


def _expected(batch, given):
    """What the reference gives, from the cache if it was asked before."""
    launches = [(case.name, case.block, case.grid, case.ns) for case in batch.cases]
    key = cache.digest("reference", reference.HEADER.read_text(), reference.compiler(), batch.text, repr(launches))

    def make(path):
        found = reference.run(batch, given)
        outs = {name: str(out) if isinstance(out, reference.Illegal) else out for name, out in found.items()}
        with path.open("wb") as file:
            np.savez_compressed(file, **outs)

    with np.load(cache.obtain(f"reference/{key[:40]}.npz", make)) as file:
        return {name: out if out.ndim else reference.Illegal(str(out)) for name, out in file.items()}


@contextmanager
def _chosen(gear):
    before = os.environ.get("HOSTCUDA_GEAR")
    os.environ["HOSTCUDA_GEAR"] = gear
    try:
        yield
    finally:
        if before is None:
            del os.environ["HOSTCUDA_GEAR"]
        else:
            os.environ["HOSTCUDA_GEAR"] = before


def _modules(batch, gear, cache_dir):
    """Parts of a batch with their modules, or with the reason why a case has none.

    A batch is halved while it does not compile, or while one of its kernels sends the others to fibers.
    """
    if not batch.cases:
        return
    text = re.sub(r"(?m)^__global__", 'extern "C" __global__', batch.text)
    try:
        with _chosen(gear), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            module = _compiled(text, gear, cache_dir)
        spoiled = gear == "loops" and any(
            module.get_function(case.name).why_fibers == NOT_COMPILED for case in batch.cases
        )
    except Exception as error:  # whatever the front end ends with, it is about this batch
        module, spoiled = f"{type(error).__name__}: {error}", True
    if spoiled and len(batch.cases) > 1:
        for half in batch.halves():
            yield from _modules(half, gear, cache_dir)
    else:
        yield batch, module


def _compiled(text, gear, cache_dir):
    if gear in GEARS:
        return compiler.SourceModule(text, options=OPTIONS, no_extern_c=True, cache_dir=cache_dir)
    hostcuda.ensure_context()
    options = [*OPTIONS, "-std=c++17", "--expt-relaxed-constexpr"]
    return hostcuda.compiler.SourceModule(text, options=options, no_extern_c=True, cache_dir=cache_dir)


def _hold(result, case, gear, module, given, expected):
    if isinstance(module, str):
        result.blame(gear, "does not compile", module[:2000])
        return
    function = module.get_function(case.name)
    if gear == "loops":
        result.gear, result.why_fibers = function.gear, function.why_fibers
    cuda = driver if gear in GEARS else hostcuda.driver
    for n, right in zip(case.ns, expected, strict=True):
        out = np.zeros(WORDS, np.uint32)
        arguments = cuda.InOut(out), cuda.In(given), np.int32(n)
        try:
            function(*arguments, block=case.block, grid=case.grid, shared=case.shared)
        except Exception as error:
            result.blame(gear, "fails", f"n = {n}: {type(error).__name__}: {error}"[:2000])
            return
        if not np.array_equal(out, right):
            at = np.flatnonzero(out != right)
            detail = f"n = {n}: {len(at)} words, first out[{at[0]}] = {out[at[0]]}, not {right[at[0]]}"
            result.blame(gear, "differs", detail)
            return


# ---------------------------------------------------------------------------------------------------------------------
# Cases in files

_HEAD = re.compile(r"(?m)^// case (\w+)(?:: (.*))?\n")


def read(path):
    """The batch of a file of cases.

    A case begins with a line such as ``// case name: block 32 2, grid 3, shared 1024, n 3 10`` and ends at the next;
    what is not given is as in `Case`.
    """
    prelude, *parts = _HEAD.split(Path(path).read_text(encoding="utf-8"))
    cases = []
    for name, launch, text in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
        given = {}
        for word, *numbers in (entry.split() for entry in (launch or "").split(",") if entry.strip()):
            sizes = tuple(map(int, numbers))
            if word in ("block", "grid"):
                given[word] = (*sizes, 1, 1)[:3]
            elif word == "shared":
                given[word] = sizes[0]
            elif word == "n":
                given["ns"] = sizes
            else:
                raise ValueError(f"{path}: {name} has the unknown word {word!r} in its launch")
        cases.append(Case(name, text, **given))
    return Batch(prelude, cases)
