"""Note on which engine the tests have passed, so that `make test` need not repeat them there.

``python tests/passed.py`` ends with status 0 if they have passed with exactly these files, this compiler, these
packages, settings and tools; ``python tests/passed.py --note`` notes that they have. CI removes the note, so it runs
them always; so does pytest by itself.
"""

import hashlib
import os
import platform
import shutil
import sys
from pathlib import Path

from hostcuda import checking, files

ROOT = Path(__file__).resolve().parent.parent
NOTE = ROOT / "build" / "tests-passed"
MADE = {"build", "__pycache__", ".pytest_cache", ".hypothesis"}  # folders that programs here write
LADDER = ("cuda_src", "ladder", "spec")  # of labkit, where it is beside the engine: docs/gears.md has its kernels, too
TOOLS = ("aarch64-linux-gnu-g++", "bwrap", "clang++", "g++", "nvcc", "qemu-aarch64")  # tests are skipped without them


def state():
    """Return a digest of all that the outcome of the tests depends on."""
    sha = hashlib.sha256()
    for folder in (ROOT, *(ROOT.parent / "labkit" / name for name in LADDER)):
        for path in sorted(folder.rglob("*")):
            parts = path.relative_to(folder).parts
            if path.is_file() and not MADE.intersection(parts) and ".egg-info" not in parts[0]:
                sha.update(repr((parts, path.read_bytes())).encode())
    folders = map(Path, filter(os.path.isdir, sys.path))
    packages = sorted(path.name for folder in folders for path in folder.glob("*-[0-9]*-info"))
    settings = sorted(item for item in os.environ.items() if item[0].startswith(("HOSTCUDA_", "CUDA_")))
    tools = [shutil.which(tool) for tool in TOOLS]
    sha.update(repr((checking.fingerprint(), sys.version, platform.platform(), packages, settings, tools)).encode())
    return sha.hexdigest()


def main():
    if sys.argv[1:] == ["--note"]:
        files.write(NOTE, state())
    elif not NOTE.is_file() or NOTE.read_text() != state():
        sys.exit(1)
    else:
        print("The engine's tests have passed with this engine; `make clean` forgets that.")


if __name__ == "__main__":
    main()
