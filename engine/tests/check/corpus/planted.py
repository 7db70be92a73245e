"""The corpus of planted bugs: read its table from the .cu files, and launch its kernels.

    python planted.py [--fixed] [KERNEL]...        all kernels by default

A kernel's line ``//: kind="by one" grid=2 block=64 shared=0 args=f100,u64,100`` says what the bug
is and how it is launched. Arguments: fN and iN are N floats or ints that were set, uN were not, xN
were freed, null is a null pointer, a plain number an int, n the number of the launch, from 0, where
``launches=2`` asks for more than one. ``shared=0/256``: with the bug, repaired. The lines that a
tool may name end in ``// BUG``. The kernels of ``legal.cu`` have no bug.
"""

import re
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
TOOLS = {
    "bounds": "memcheck",
    "pointers": "memcheck",
    "overruns": "memcheck",
    "races": "racecheck",
    "barriers": "synccheck",
    "unset": "initcheck",
    "legal": "",
}


@dataclass(frozen=True)
class Bug:
    """One planted bug: its kernel, and the lines on which it shows."""

    kernel: str
    kind: str
    file: str
    tool: str
    grid: tuple[int, ...]
    block: tuple[int, ...]
    shared: tuple[int, int]
    launches: int
    args: tuple[str, ...]
    lines: tuple[int, ...]


def corpus() -> list[Bug]:
    """Return every bug, in the order of the files."""
    return [bug for path in sorted(HERE.glob("*.cu")) for bug in _read(path) if bug.tool]


def legal() -> list[Bug]:
    """Return the kernels without a bug that resemble one with a bug."""
    return _read(HERE / "legal.cu")


def _read(path: Path) -> list[Bug]:
    bugs: list[dict] = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if line.startswith("//:"):
            facts = dict(word.split("=", 1) for word in shlex.split(line[3:]))
            bugs.append(
                {
                    "kind": facts["kind"],
                    "file": path.name,
                    "tool": TOOLS[path.stem],
                    "grid": _shape(facts["grid"]),
                    "block": _shape(facts["block"]),
                    "shared": _pair(facts.get("shared", "0")),
                    "launches": int(facts.get("launches", 1)),
                    "args": tuple(facts["args"].split(",")),
                    "lines": [],
                }
            )
        elif match := re.match(r'extern "C" __global__ void (\w+)', line):
            bugs[-1]["kernel"] = match[1]
        elif line.endswith("// BUG"):
            bugs[-1]["lines"].append(number)
    return [Bug(**{**bug, "lines": tuple(bug["lines"])}) for bug in bugs]


def _shape(text: str) -> tuple[int, ...]:
    return (*map(int, text.split("x")), 1, 1)[:3]


def _pair(text: str) -> tuple[int, int]:
    planted, _, fixed = text.partition("/")
    return int(planted), int(fixed or planted)


def launch(bugs: list[Bug], fixed: bool) -> None:
    """Launch the kernels of the bugs.

    An error of the engine is printed and ends that launch, not the program.
    """
    import hostcuda.autoinit  # noqa: F401 - it makes the context
    import hostcuda.driver as cuda
    from hostcuda.compiler import SourceModule

    modules: dict = {}
    for bug in bugs:
        if bug.file not in modules:
            path = HERE / bug.file
            modules[bug.file] = SourceModule(
                f'#line 1 "{path}"\n{path.read_text()}',
                options=["-std=c++17", *["-DFIXED"] * fixed],
                no_extern_c=True,
                include_dirs=[str(HERE)],
            )
        buffers, arguments = [], []
        for code in bug.args:
            if code.isdigit():
                arguments.append(np.int32(code))
                continue
            if code in ("null", "n"):
                arguments.append(np.intp(0) if code == "null" else code)
                continue
            buffer = cuda.mem_alloc(4 * int(code[1:]))
            buffers.append((code[0], buffer))
            arguments.append(buffer)
            if code[0] in "fi":
                dtype = np.float32 if code[0] == "f" else np.int32
                cuda.memcpy_htod(buffer, np.arange(int(code[1:])).astype(dtype))
        arguments = [
            np.intp(int(argument)) if hasattr(argument, "free") else argument
            for argument in arguments
        ]
        for kind, buffer in buffers:
            if kind == "x":
                buffer.free()
        try:
            function = modules[bug.file].get_function(bug.kernel)
            for number in range(bug.launches):
                values = [
                    np.int32(number) if argument == "n" else argument for argument in arguments
                ]
                function(*values, grid=bug.grid, block=bug.block, shared=bug.shared[fixed])
            cuda.Context.synchronize()
            for kind, buffer in buffers:
                if kind != "x":
                    buffer.free()
        except cuda.Error as error:
            print(f"{bug.kernel}: {error}")


if __name__ == "__main__":
    kernels = [name for name in sys.argv[1:] if not name.startswith("--")]
    launch(
        [bug for bug in [*corpus(), *legal()] if not kernels or bug.kernel in kernels],
        "--fixed" in sys.argv,
    )
