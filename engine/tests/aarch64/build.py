"""Compile the runtime library and a module for aarch64 with CXX, a cross compiler, and read the module's layout.

The arguments are the module's source and the command of drive.cpp, which prints where the kernels
are. This program prints the paths of the runtime, of the module and of a file with its layout, in
the form that drive.cpp reads.
"""

import ctypes
import platform
import subprocess
import sys
from pathlib import Path

platform.machine = lambda: "aarch64"

from hostcuda.build import modules  # noqa: E402 - these look at the machine
from hostcuda.build.unit import make_unit  # noqa: E402
from hostcuda.host import toolchain  # noqa: E402 - these look at the machine
from hostcuda.runtime.building import build_library  # noqa: E402 - these look at the machine
from hostcuda.runtime.layout import layout  # noqa: E402

# to read the names of variables; elsewhere the runtime brings it
ctypes.CDLL("libstdc++.so.6", ctypes.RTLD_GLOBAL)
run = toolchain.run


def run_for_aarch64(command, cwd=None):
    """Run a command without -march=native: a cross compiler does not know this machine's processor."""
    return run([word for word in command if word != "-march=native"], cwd)


def lines(module, functions):
    """Yield the lines of a module's layout, for the module loaded at address 0."""
    parts = layout(module, 0, functions)
    yield "text", *parts.text
    for patch in parts.patches:
        yield "patch", patch.at or 0, patch.value, patch.kind
    for variable in parts.watched:
        yield (
            "watch",
            variable.at or 0,
            variable.bytes,
            variable.space,
            (variable.name or b"-").decode(),
        )
    for function in functions:
        static = parts.statics[parts.functions[function]][0]
        yield "static", function, static.count, static.bytes
        for array in static.arrays[: static.count]:
            image = -1 if array.image is None else array.image
            yield "array", array.bytes, array.place, array.hidden, image, array.name.decode()


toolchain.run = run_for_aarch64
source, *drive = sys.argv[1:]
halves = make_unit(Path(source).read_text(), no_extern_c=True)
runtime, module = (
    build_library(),
    modules.obtain(halves, False, None, lambda start, duration: None)["path"],
)
addresses = subprocess.run(
    [*drive, runtime, module], capture_output=True, text=True, check=True
).stdout
file = Path(f"{module}.layout")
file.write_text(
    "".join(
        " ".join(map(str, line)) + "\n" for line in lines(module, [*map(int, addresses.split())])
    )
)
print(runtime, module, file, sep="\n")
