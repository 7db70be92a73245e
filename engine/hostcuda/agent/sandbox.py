"""The sandbox of a kernel or program that an agent wrote: bubblewrap, without network, with bounded memory and time.

Visible are the system's programs, Python, this package and the engine's own compiled files;
writable is one folder. The environment has nothing of this process's but the compiler's name.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from hostcuda import processes
from hostcuda.errors import EngineError
from hostcuda.host import cache
from hostcuda.settings import HOME

MEMORY = 2 << 30  # bytes of all processes of a run together
# bytes of address space for Python and the engine, more than a program's own
_ENGINE_MEMORY = 4 << 30
_FILE = 256 << 20  # bytes of a file, and of /tmp


def why_not() -> str:
    """Return why there is no sandbox here; empty if there is one."""
    missing = [name for name in ("bwrap", "prlimit", "timeout") if not shutil.which(name)]
    return (
        f"{missing[0]} is missing: sudo apt install bubblewrap util-linux coreutils"
        if missing
        else ""
    )


def make_command(
    command: Sequence[str], folder: Path, seconds: float, environment: Mapping[str, str]
) -> list[str]:
    """Return the command line that runs a command in the sandbox; it can write to `folder` and a /tmp of its own.

    Create `folder`/cache, where the sandbox shows the engine's compiled files. The command gets
    `environment` and little else. After `seconds` it gets SIGINT, so that it keeps its records, and
    3 s later it is killed. An EngineError says that there is no bubblewrap.
    """
    if why := why_not():
        raise EngineError(f"code of an agent is not run without a sandbox: {why}")
    line = [
        "bwrap",
        "--unshare-user",
        "--unshare-all",
        "--disable-userns",
        "--die-with-parent",
        "--cap-drop",
        "ALL",
    ]
    line += [
        "--clearenv",
        "--proc",
        "/proc",
        "--dev",
        "/dev",
        "--size",
        str(_FILE),
        "--tmpfs",
        "/tmp",
    ]
    line += processes.bind_system()
    for name in ("alternatives", "ld.so.cache"):
        line += ["--ro-bind-try", f"/etc/{name}", f"/etc/{name}"]
    for path in dict.fromkeys(map(str, (sys.base_prefix, sys.prefix, HOME / "hostcuda"))):
        line += ["--ro-bind", path, path]
    line += ["--bind", str(folder), str(folder), "--chdir", str(folder)]
    kept = folder / "cache"
    kept.mkdir(mode=0o700, exist_ok=True)
    for path in (
        path
        for kind in ("runtime-*", "prelude-*")
        for path in cache.directory().resolve().glob(kind)
    ):
        line += ["--ro-bind", str(path), str(kept / path.name)]
    variables = {
        "PATH": f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin",
        "PYTHONPATH": str(HOME),
        "HOSTCUDA_CACHE_DIR": str(kept),
        "TMPDIR": "/tmp",
        "HOME": "/tmp",
        "LANG": "C.UTF-8",
        "OPENBLAS_NUM_THREADS": "1",
        **{name: os.environ[name] for name in ("CXX",) if name in os.environ},
    }
    for name, value in {**variables, **environment}.items():
        line += ["--setenv", name, value]
    limits = [
        "prlimit",
        f"--as={MEMORY + _ENGINE_MEMORY}",
        f"--fsize={_FILE}",
        "--nofile=256",
        "--core=0",
    ]
    return [
        *line,
        "--",
        *limits,
        "--",
        "timeout",
        "-s",
        "INT",
        "-k",
        "3",
        f"{seconds:.0f}",
        *command,
    ]
