"""How long `make report` and `make test` take in a fresh clone, cold and warm.

Cold: nothing installed, nothing in any cache, no CUDA toolkit on the path; the packages are downloaded. Warm: the same
once more.
"""

import datetime
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Annotated

from typer import Option

from labkit.base.errors import LabError
from labkit.base.paths import PACKAGE
from labkit.recording.readme import put
from labkit.spec.devices import device

TARGETS = ("report", "test")
STATES = ("cold", "warm")


def seconds(command: list[str], folder: Path, environment: dict[str, str]) -> float:
    """The time that a command takes; its output passes through.

    Raises
    ------
    LabError
        If it fails.
    """
    began = time.monotonic()
    if subprocess.run(command, cwd=folder, env=environment).returncode:
        raise LabError(f"{' '.join(command)} failed: there are no timings")
    return time.monotonic() - began


def without_cuda(path: str) -> str:
    """A PATH without the folders that have nvcc or nvidia-smi, and without this environment's own."""
    folders = [Path(folder) for folder in path.split(os.pathsep) if folder]
    return os.pathsep.join(str(folder) for folder in folders if folder != Path(sys.prefix) / "bin"
                           and not any((folder / name).exists() for name in ("nvcc", "nvidia-smi")))  # fmt: skip


def table() -> str:
    """Clone, measure, and give the table in Markdown."""
    with tempfile.TemporaryDirectory(prefix="labkit-timings-") as scratch:
        clone, caches = Path(scratch, "clone"), Path(scratch, "caches")
        subprocess.run(["git", "clone", "--quiet", str(PACKAGE.parent), str(clone)], check=True)
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("LABKIT_", "PYTHON"))}
        environment |= {
            "PATH": without_cuda(os.environ["PATH"]), "PIP_NO_CACHE_DIR": "1", "LABKIT_ENGINE": "cpu",
            "LABKIT_CACHE_DIR": str(caches), "XDG_CACHE_HOME": str(caches),
        }  # fmt: skip
        took = {(target, state): seconds(["make", target], clone, environment)
                for state in STATES for target in TARGETS}  # fmt: skip
    today = f"{datetime.date.today():%-d %B %Y}"
    return "\n".join([
        "| | cold | warm |", "|---|---:|---:|",
        *(f"| `make {each}` | {' | '.join(f'{took[each, state]:.0f} s' for state in STATES)} |" for each in TARGETS),
        "",
        f"{today}, {os.cpu_count()} cores ({device().name}), Python {platform.python_version()}, no GPU. Cold is a "
        "fresh clone with nothing installed: its first command also downloads and installs the environment. Warm is "
        "the same once more.",
    ])  # fmt: skip


def timings(write: Annotated[bool, Option("--write", help="Write the table into README.md, too.")] = False) -> None:
    """Measure `make report` and `make test` in a fresh clone."""
    print(text := table())
    if write:
        put("timings", text)
