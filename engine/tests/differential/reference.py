"""The reference: it runs a batch of kernels as a plain C++ program (``reference.h``), independent of the engine."""

import os
import re
import subprocess
import tempfile
from pathlib import Path

import numpy as np

from . import WORDS

HEADER = Path(__file__).with_name("reference.h")
FLAGS = [
    "-std=gnu++17",
    "-O1",
    "-ffp-contract=off",
    "-fno-strict-aliasing",
    "-U_FORTIFY_SOURCE",
    "-w",
]
# g++ 12 moves stores out of the loop of kernel d1912, and loses them
FLAGS += ["-fno-tree-loop-im"]
SANITIZE = [
    "-fsanitize=undefined",
    "-fno-sanitize=alignment,vptr",
    "-fno-sanitize-recover=undefined",
]
_DYNAMIC = re.compile(r"\bextern\s+__shared__\s+([^;]+?)(\w+)\s*\[\s*\]\s*;")


class Illegal(Exception):
    """A kernel whose behaviour CUDA does not define, or which does not compile."""


def run(batch, words, sanitize=False):
    """Run the cases of a batch.

    Parameters
    ----------
    batch : compare.Batch
    words : np.ndarray
        The input of each kernel, uint32.
    sanitize : bool
        Whether undefined behaviour of C++ is an error, too.

    Returns
    -------
    dict
        Maps a case's name to the outputs for each of its n (uint32, n × WORDS), or to an `Illegal`
        that says why not.
    """
    if not batch.cases:
        return {}
    try:
        output = _run_program(batch, words, sanitize)
    except Illegal as wrong:
        if len(batch.cases) == 1:
            return {batch.cases[0].name: wrong}
        return {
            name: out for half in batch.halves() for name, out in run(half, words, sanitize).items()
        }
    results, lines = {}, iter(np.frombuffer(output, np.uint32).reshape(-1, 1 + WORDS))
    for case in batch.cases:
        outs = [next(lines) for _ in case.ns]
        bad = [out[1:].tobytes().rstrip(b"\0").decode() for out in outs if out[0]]
        results[case.name] = Illegal(bad[0]) if bad else np.stack(outs)[:, 1:]
    return results


def compiler():
    """Return the compiler's command."""
    return os.environ.get("CXX", "g++").split()


def _run_program(batch, words, sanitize):
    text = _DYNAMIC.sub(
        r"\1 *const \2 = reinterpret_cast<\1 *>(reference::dynamic_memory);", batch.text
    )
    launches = [
        f"reference::compare_orders(dim3({_join(case.grid)}), dim3({_join(case.block)}),\n"
        f"    [](unsigned *out, const unsigned *in, int n) {{ {case.name}(out, in, n); }}, {n}, words);"
        for case in batch.cases
        for n in case.ns
    ]
    main = "\n".join(
        ["int main() {", "const unsigned *const words = reference::input();", *launches, "}", ""]
    )
    with tempfile.TemporaryDirectory(prefix="reference-") as folder:
        Path(folder, "reference.cpp").write_text(
            f'#include "{HEADER}"\n#line 1 "kernels.cu"\n{text}\n{main}'
        )
        flags = FLAGS + SANITIZE * sanitize
        _run_checked([*compiler(), *flags, "-o", "reference", "reference.cpp"], folder, b"", 300)
        return _run_checked(["./reference"], folder, words.tobytes(), 300)


def _run_checked(command, folder, data, seconds):
    try:
        done = subprocess.run(command, cwd=folder, input=data, capture_output=True, timeout=seconds)
    except subprocess.TimeoutExpired:
        raise Illegal(f"{command[0]} takes more than {seconds} s") from None
    if done.returncode:
        errors = [
            line for line in done.stderr.decode(errors="replace").splitlines() if "error:" in line
        ]
        raise Illegal("\n".join(errors[:5]) or f"{command[0]} ended with {done.returncode}")
    return done.stdout


def _join(sizes):
    return ", ".join(map(str, sizes))
