"""Compile the runtime library and a module for aarch64 with CXX, a cross compiler; print their paths."""

import platform
import sys
from pathlib import Path

platform.machine = lambda: "aarch64"

from labkit.cpu import compiler, native, toolchain  # noqa: E402 - they look at the machine

run = toolchain.run


def run_for_aarch64(command, cwd=None):
    """A cross compiler does not know this machine's processor."""
    return run([word for word in command if word != "-march=native"], cwd)


toolchain.run = run_for_aarch64
build = compiler._prepare(Path(sys.argv[1]).read_text(), None, True, None, None)
print(native.build())
print(compiler._build(build, keep=False, cache_dir=None))
