"""The engine's sandbox (`hostcuda.sandbox`) as the grader uses it: the lab is in it, but for the solutions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from hostcuda import sandbox, untrusted
from hostcuda.sandbox import Limits, SandboxEnded, View
from labkit.base.paths import PACKAGE, PYTHONPATH, SERIES
from labkit.exercises.exercise import ATTEMPT_S, FILE_BYTES
from labkit.ladder.source import NVCC_OPTIONS

VIEW = View((PACKAGE, Path(__file__).resolve().parent), (SERIES,), PYTHONPATH)
_ENDING_S = 10  # of the time of an attempt: to start it, and to end it on a busy machine
LIMITS = Limits(seconds=ATTEMPT_S - _ENDING_S, file=FILE_BYTES)
_REMEDY = "With --unsafe it runs as you, and can read, change and send all that you can"


def why_not() -> str:
    """Return in one sentence why no kernel can be run in a sandbox here, or ""."""
    # VIEW: the files that a kernel would see in it
    return sandbox.why_not(VIEW)


def available() -> bool:
    """Return whether kernels can be run in a sandbox here."""
    return not why_not()


def require(unsafe: bool = False) -> None:
    """Raise EngineError, which says why, if kernels cannot be graded: without g++, or (unless `unsafe`) a sandbox."""
    if not unsafe:  # VIEW: the files that a kernel would see; _REMEDY ends the error's message
        sandbox.require(VIEW, _REMEDY)
    untrusted.require_gcc()


def precompile(check: str) -> tuple[Path, ...]:
    """Compile what the engine needs for these tools of check mode and the lab's options; return the files' paths.

    `check` has the tools, separated by commas: "memcheck,racecheck". The files are kept in the engine's
    cache, so that no submission waits for them.
    """
    return sandbox.precompile(check, tuple(NVCC_OPTIONS))


def describe_walls() -> str:
    """Return a sentence that says which walls, such as those around network and files, stand here, and which do not."""
    # VIEW: the files that a kernel sees within them
    return sandbox.describe_walls(VIEW)


def describe_unusual() -> str:
    """Return `describe_walls` if kernels were run in a container, or without one of the sandbox's walls; else ""."""
    if not sandbox.try_walls.cache_info().currsize:
        # no kernels were run: `try_walls` is called before the first, and caches its result
        return ""
    # a wall -> why it cannot stand here, or ""
    unusual = sandbox.in_container() or any(sandbox.try_walls(VIEW).values())
    return describe_walls() if unusual else ""


def run(
    command: Sequence[str],
    scratch: Path,
    *,
    check: str | None = None,
    environment: Mapping[str, str] | None = None,
    stdin: str = "",
    limits: Limits = LIMITS,
    unsafe: bool = False,
) -> SandboxEnded:
    """Run a command of the lab in the sandbox, to its end or to a limit; EngineError if there is none.

    `scratch` is a folder of this command alone, where it can leave files. `check` are the tools of
    the engine's check mode, as in ``HOSTCUDA_CHECK``; `environment` is added to the command's, which
    otherwise has nothing of this process's; `stdin` is what the command reads. If `unsafe` and there
    is no sandbox, the command runs under the limits alone.
    """
    return sandbox.run(
        command,
        scratch,
        view=VIEW,  # the files that the command sees: those of the lab, without solutions
        unsafe=unsafe,
        remedy=_REMEDY,
        check=check,
        options=NVCC_OPTIONS,
        environment=environment,
        stdin=stdin,
        limits=limits,
    )
