"""Variants that run in a process of their own, to be counted, sanitized or traced.

This module, as ``python -m labkit.evidence.child``, is the program that runs them; a tracer is one, too.
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
from hostcuda.errors import EngineError, type_of
from labkit.base.errors import LabError
from labkit.ladder.plan import Plan
from labkit.ladder.variants import Variant, as_variants
from labkit.spec.layers import Layer


def watch_variants(watch: Callable, variants: Variant | int | Iterable[Variant | int], layer: Layer, batch: int,
                   engine: str | None, timeout: float | None, **options: object) -> tuple[Any, list[dict]]:
    """Run the command of `prepare_command` under ``watch(command)``, and return its result and `read_runs`.

    `watch` is `hostcuda.profile.watch`, or that of `hostcuda.sanitize`; it gets `engine`, `timeout` and the options.
    For the other parameters see `prepare_command`.
    """
    with temporary.folder() as folder:
        command = prepare_command(folder, variants, layer, batch)
        return watch(command, engine=engine, timeout=timeout, capture=True, **options), read_runs(folder)


def require_one(of: Variant | int, user: str) -> Variant:
    """Return the variant that `of` stands for; LabError, with the `user`'s name, if there are several."""
    chosen = as_variants(of)
    if len(chosen) != 1:
        raise LabError(f"{user} takes one variant, and got {len(chosen)}")
    return chosen[0]


def trace(variant: Variant, layer: Layer, module: str, check: str, purpose: str, **more) -> list[dict]:
    """Run a variant on one image under the CPU engine's mode `check`; return the rows that `module` writes of it.

    `module` calls `trace_plans` when it is run, and gets `more`. Raises LabError if the kernel failed, EngineError
    with the `purpose` and the last output if the process did.
    """
    with temporary.folder() as folder:
        command = prepare_command(folder, variant, layer, 1, module, **more)
        ended = processes.run(command, {"HOSTCUDA_ENGINE": "cpu", "HOSTCUDA_CHECK": check}, timeout=600, capture=True)
        read_runs(folder)
        rows = processes.lines(folder / "rows")
    if rows and "refused" in rows[0]:
        raise LabError(rows[0]["refused"])
    ended.require(purpose)
    return rows


def prepare_command(folder: Path, variants: Variant | int | Iterable[Variant | int], layer: Layer, batch: int,
                    module: str = "labkit.evidence.child", **more) -> list[str]:
    """Return the command that runs each variant once on random images and writes a line per variant to `folder`/ran.

    Another `module` does something else with the plans that `load_plans` gives it, and with `more`. Raises LabError if
    `layer` is not a layer, a variant does not support it, or the batch is not a positive integer.
    """
    chosen = as_variants(variants)
    if not isinstance(layer, Layer):
        problem = "no layer is given" if layer is None else f"layer is {type_of(layer)}"
        raise LabError(f"{problem}: give one layer, such as lab.LENET86[0]")
    for variant in chosen:
        variant.launches(layer, batch)
    (folder / "job").write_bytes(pickle.dumps((chosen, layer, int(batch), more)))
    return [sys.executable, "-m", module, str(folder)]


def read_runs(folder: Path) -> list[dict]:
    """Return a record of each variant that ran: label, rung, launches. Raises CompileError if one does not compile."""
    if (folder / "refused").is_file():
        raise hostcuda.driver.CompileError(*json.loads((folder / "refused").read_text()))
    return processes.lines(folder / "ran")


def load_plans(folder: Path) -> Iterator[tuple[Plan, dict]]:
    """Yield each variant's plan with its images loaded, and what else `prepare_command` got. Runs in the child."""
    hostcuda.ensure_context()
    variants, layer, batch, more = pickle.loads((folder / "job").read_bytes())
    rng = np.random.default_rng(2)
    x, k = rng.random(layer.x_shape(batch), np.float32), rng.random(layer.k_shape, np.float32)
    with open(folder / "ran", "w", buffering=1) as log:
        for variant in variants:
            try:
                plan = variant.plan(layer, batch)
            except hostcuda.driver.CompileError as error:
                (folder / "refused").write_text(json.dumps([error.msg, error.command_line, error.stdout, error.stderr]))
                return
            with plan:
                plan.load(x, k)
                hostcuda.driver.Context.synchronize()
                record = {"label": variant.label, "rung": variant.rung.number, "launches": len(plan.launches)}
                log.write(json.dumps(record) + "\n")  # before it runs, so that a fault is attributed to this variant
                yield plan, more


def run_and_wait(plan: Plan) -> None:
    """Run a plan, and wait for its end."""
    plan.run()
    hostcuda.driver.Context.synchronize()


def trace_plans(list_rows: Callable[..., list[dict]]) -> None:
    """Write the rows of each plan for `trace`, or why there are none. `list_rows` gets the plan and `more`."""
    folder = Path(sys.argv[1])
    for plan, more in load_plans(folder):
        try:
            rows = list_rows(plan, **more)
        except (EngineError, hostcuda.driver.LaunchError) as error:
            (folder / "rows").write_text(json.dumps({"refused": str(error)}) + "\n")
            raise
        (folder / "rows").write_text("".join(json.dumps(row) + "\n" for row in rows))


if __name__ == "__main__":
    for plan, _ in load_plans(Path(sys.argv[1])):
        run_and_wait(plan)
