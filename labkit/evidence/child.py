"""Variants that run in a process of their own, to be counted, sanitized or traced.

This module, as ``python -m labkit.evidence.child``, is the program that runs them; a tracer is one,
too.
"""

from __future__ import annotations

import json
import pickle
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import hostcuda
from hostcuda import processes, temporary
from hostcuda.errors import EngineError
from labkit.base.errors import LabError
from labkit.base.progress import show_progress
from labkit.ladder.plan import Plan
from labkit.ladder.variants import Variant, as_variants
from labkit.spec.layers import Layer, as_layer


def watch_variants(
    task: str,
    watch: Callable,
    variants: Variant | int | Iterable[Variant | int],
    layer: Layer | str,
    batch: int,
    engine: str | None,
    timeout: float | None,
    **options: object,
) -> tuple[Any, list[dict]]:
    """Run variants in a child process that is watched; return what `watch` returns, and a dict per variant that ran.

    `read_runs` says what these dicts hold. `task`, such as "counting", begins the line that shows
    the progress. `watch` is the function of `hostcuda.profile` or of `hostcuda.sanitize`: it runs a
    command under a profiler or a sanitizer, with `engine`, `timeout` [s] and the options. The other
    parameters, and the errors, are those of `prepare_command`.
    """
    with temporary.folder() as folder:
        chosen = as_variants(variants)
        # the child writes what `read_runs` reads
        command = prepare_command(folder, chosen, layer, batch)
        labels = [variant.label for variant in chosen]
        with show_progress(
            len(labels),
            f"{task} {', '.join(labels)} on {as_layer(layer).name}",
            # how many have ended: the child writes a variant's line before it runs the variant
            lambda: max(0, len(processes.lines(folder / "ran")) - 1),
        ):
            result = watch(command, engine=engine, timeout=timeout, capture=True, **options)
        return result, read_runs(folder)


def require_one(variant: Variant | int, caller: str) -> Variant:
    """Return the variant, given itself or by its rung's number; LabError, which names the caller, for several."""
    chosen = as_variants(variant)
    if len(chosen) != 1:
        raise LabError(f"{caller} takes one variant, and got {len(chosen)}")
    return chosen[0]


def trace(
    variant: Variant,
    layer: Layer,
    module: str,
    check: str,
    purpose: str,
    timeout: float = 600,
    batch: int = 1,
    **arguments: object,
) -> list[dict]:
    """Run a variant on a few images in a child process, on the CPU engine; return the rows that the child has written.

    The child runs `module`, which calls `trace_plans`, under the tool `check` of the engine's check
    mode ("": outside of it), for at most `timeout` seconds; `arguments` go to the function that
    lists the rows. Raises LabError if the kernel failed, EngineError with the `purpose` ("following
    a thread") and the last output if the process did, CompileError if the variant does not compile.
    """
    with temporary.folder() as folder:
        command = prepare_command(folder, variant, layer, batch, module, **arguments)
        environment = {"HOSTCUDA_ENGINE": "cpu", "HOSTCUDA_CHECK": check}
        ended = processes.run(command, environment, timeout, capture=True)
        read_runs(folder)  # called because it raises CompileError
        rows = processes.lines(folder / "rows")
    # why the kernel failed, from `trace_plans`: it says more than the process's last output
    if rows and "refused" in rows[0]:
        raise LabError(rows[0]["refused"])
    ended.require(purpose)
    return rows


def prepare_command(
    folder: Path,
    variants: Variant | int | Iterable[Variant | int],
    layer: Layer | str,
    batch: int,
    module: str = "labkit.evidence.child",
    **arguments: object,
) -> list[str]:
    """Write the file "job" to `folder`; return the command, a list of words, that does the job in a child process.

    By default it runs each variant once on random images. Another `module` does something else with
    the plans and the `arguments` that `load_plans` yields. Raises LabError if a variant cannot
    compute the layer, or the batch is no positive integer.
    """
    chosen, layer = as_variants(variants), as_layer(layer)
    for variant in chosen:
        variant.launches(layer, batch)  # called because it raises LabError
    (folder / "job").write_bytes(pickle.dumps((chosen, layer, int(batch), arguments)))
    return processes.own_program(module, str(folder))


def read_runs(folder: Path) -> list[dict]:
    """Return a dict per variant that the child began to run: label, rung (its number), launches (how many).

    Raises CompileError if a variant did not compile in the child.
    """
    # `load_plans` writes both files: a list of CompileError's arguments, and a dict per line
    if (folder / "refused").is_file():
        raise hostcuda.driver.CompileError(*json.loads((folder / "refused").read_text()))
    return processes.lines(folder / "ran")


def load_plans(folder: Path) -> Iterator[tuple[Plan, dict]]:
    """Yield, in the child process, a plan that is ready to run per variant, and the `arguments` of `prepare_command`.

    A plan is the variant compiled for the layer, with its arrays on the device: here random images
    and weights. For each, a line is added to the file "ran" in `folder`, which `read_runs` reads.
    If one does not compile, the error is written to the file "refused", and no more are yielded.
    """
    hostcuda.ensure_context()
    # `prepare_command` has written the job
    variants, layer, batch, arguments = pickle.loads((folder / "job").read_bytes())
    rng = np.random.default_rng(2)
    x, k = rng.random(layer.x_shape(batch), np.float32), rng.random(layer.k_shape, np.float32)
    with open(folder / "ran", "w", buffering=1) as log:  # 1: line by line, so a crash loses none
        for variant in variants:
            try:
                plan = variant.plan(layer, batch)
            except hostcuda.driver.CompileError as error:
                (folder / "refused").write_text(
                    json.dumps([error.msg, error.command_line, error.stdout, error.stderr])
                )
                return
            with plan:
                plan.load(x, k)
                hostcuda.driver.Context.synchronize()
                record = {
                    "label": variant.label,
                    "rung": variant.rung.number,
                    "launches": len(plan.launches),
                }
                # before it runs, so that a fault is attributed to this variant
                log.write(json.dumps(record) + "\n")
                yield plan, arguments


def run_and_wait(plan: Plan) -> None:
    """Run a plan, and wait for its end."""
    plan.run()
    hostcuda.driver.Context.synchronize()


def trace_plans(list_rows: Callable[..., list[dict]]) -> None:
    """Write, for `trace`, the dicts of ``list_rows(plan, **arguments)``, or {"refused": why}, as lines of JSON."""
    folder = Path(sys.argv[1])  # the child's command ends with it
    for plan, arguments in load_plans(folder):  # one: `trace` takes one variant
        try:
            rows = list_rows(plan, **arguments)
        except (EngineError, hostcuda.driver.LaunchError) as error:
            (folder / "rows").write_text(json.dumps({"refused": str(error)}) + "\n")
            raise
        (folder / "rows").write_text("".join(json.dumps(row) + "\n" for row in rows))


if __name__ == "__main__":
    for plan, _ in load_plans(Path(sys.argv[1])):
        run_and_wait(plan)
