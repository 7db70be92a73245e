"""Measure `make report` and `make test` in a fresh clone, cold and warm.

    python -m labkit.recording.timings            print the table
    python -m labkit.recording.timings --write    also put it into README.md, between the markers `timings`

Cold: nothing installed, nothing in any cache, no CUDA toolkit on the path; the packages are downloaded. Warm: once
more.
"""

import argparse
import datetime
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from labkit.recording import readme
from labkit.spec.devices import device

ROOT = readme.ROOT


def run(command: list[str], folder: Path, environment: dict) -> float:
    """Seconds that a command takes; what it prints passes through, and if it fails, so does this script."""
    began = time.monotonic()
    done = subprocess.run(command, cwd=folder, env=environment, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed: no timings")
    return time.monotonic() - began


def without_cuda(path: str) -> str:
    """A PATH without the folders in which nvcc or nvidia-smi are found, and without this environment's own."""
    folders = [folder for folder in path.split(os.pathsep) if folder and folder != str(Path(sys.prefix) / "bin")]
    return os.pathsep.join(f for f in folders if not any((Path(f) / name).exists() for name in ("nvcc", "nvidia-smi")))


def main() -> None:
    """Clone, measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="put the table into README.md")
    arguments = parser.parse_args()
    seconds = {}
    with tempfile.TemporaryDirectory(prefix="labkit-timings-") as scratch:
        clone, caches = Path(scratch, "clone"), Path(scratch, "caches")
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("LABKIT_", "PYTHON"))}
        environment |= {
            "PATH": without_cuda(os.environ["PATH"]), "PIP_NO_CACHE_DIR": "1", "LABKIT_ENGINE": "cpu",
            "LABKIT_CACHE_DIR": str(caches), "XDG_CACHE_HOME": str(caches),
        }  # fmt: skip
        for state in ("cold", "warm"):
            for target in ("report", "test"):
                seconds[target, state] = run(["make", target], clone, environment)
    here = device()
    lines = ["| | cold | warm |", "|---|---:|---:|"]
    for target in ("report", "test"):
        cells = (f"{seconds[target, state]:.0f} s" for state in ("cold", "warm"))
        lines.append(f"| `make {target}` | {' | '.join(cells)} |")
    today, processor = f"{datetime.date.today():%-d %B %Y}", f"{os.cpu_count()} cores ({here.name})"
    lines += [
        "",
        f"{today}, {processor}, Python {platform.python_version()}, no GPU. Cold is a fresh clone with nothing "
        "installed: its first command also downloads and installs the environment. Warm is the same once more.",
    ]
    table = "\n".join(lines)
    print(table)
    if arguments.write:
        readme.put("timings", table)


if __name__ == "__main__":
    main()
