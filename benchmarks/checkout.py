"""Time the README's two commands in a fresh clone: `make report` and `make test`, cold and warm.

    python benchmarks/checkout.py                                        print the table
    python benchmarks/checkout.py | python scripts/readme.py timings     write it into the README

Cold means a clone of this checkout's last commit, no virtual environment, no compiled kernel: the time of the
downloads depends on the network. Warm is the same command once more. Both run on the CPU engine, with nothing of a
CUDA toolkit on the path.
"""

import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from datetime import date
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def run(command: list[str], folder: Path, environment: dict) -> float:
    """Seconds that a command takes; its output goes to this program's standard error, and a failure is the end."""
    start = time.perf_counter()
    done = subprocess.run(command, cwd=folder, env=environment, stdout=sys.stderr, stderr=sys.stderr)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed in {folder} with status {done.returncode}")
    return time.perf_counter() - start


def environment_without_cuda(cache: Path) -> dict:
    """This environment, less every folder of the path that holds nvcc, with a cache of its own."""
    folders = os.environ["PATH"].split(os.pathsep)
    kept = [folder for folder in folders if not (Path(folder) / "nvcc").exists()]
    found = shutil.which("nvcc", path=os.pathsep.join(kept))
    assert found is None, found
    return {**os.environ, "PATH": os.pathsep.join(kept), "LABKIT_ENGINE": "cpu", "LABKIT_CACHE_DIR": str(cache)}


def main() -> None:
    rows = {"make report": [], "make test": []}
    with tempfile.TemporaryDirectory(prefix="labkit-checkout-") as scratch:
        clone = Path(scratch) / "lab"
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
        environment = environment_without_cuda(Path(scratch) / "cache")
        for _ in ("cold", "warm"):
            for command, seconds in rows.items():
                seconds.append(run(command.split(), clone, environment))
    print("| | cold | warm |\n|---|---:|---:|")
    for command, (cold, warm) in rows.items():
        print(f"| `{command}` | {cold:.0f} s | {warm:.0f} s |")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    print(f"\n{cores} cores, no GPU, Python {platform.python_version()}, {date.today().isoformat()}. "
          "`make test` came second: its cold time is without the installation.")


if __name__ == "__main__":
    main()
