"""The engine's header for kernels, precompiled: it takes most of the time to compile a small kernel."""

import re
from pathlib import Path

from hostcuda.errors import CompileError
from hostcuda.host import cache, toolchain

_PLAIN = "hostcuda.h"
WITHOUT_MACROS = "hostcuda_undef.h"


def make_prelude(command: list[str], flags: list[str], name: str = _PLAIN) -> str:
    """Return the path to ``-include``: the engine's header, precompiled for these flags into the cache if that works.

    With the `name` `WITHOUT_MACROS` it is that of a second file beside it, which removes the macros
    of the C library: in the source they have been expanded already. `command` is the compiler's.
    """
    header = toolchain.INCLUDE / _PLAIN
    folder = f"prelude-{cache.digest(toolchain.fingerprint(command), *flags)[:24]}"
    line = [*command, *flags, f"-I{toolchain.INCLUDE}", "-x", "c++-header"]

    def precompile(path):
        """Write the precompiled header to `path`, and its stub into the cache: for ``-include stub`` g++ reads both."""
        stub = cache.directory() / folder / _PLAIN
        cache.trim("prelude-*")
        cache.publish(f'#include "{header}"\n'.encode(), stub)
        status, out, err = toolchain.run([*line, "-o", str(path), str(stub)])
        if status:
            raise CompileError("the engine's header does not compile", line, out, err)

    def list_macros(path):
        """Write a file with an ``#undef`` for each macro of the C library to `path`."""
        host = toolchain.INCLUDE / "hostcuda" / "host.h"
        status, out, err = toolchain.run([*line, "-E", "-dM", "-include", str(header), str(host)])
        if status:
            raise CompileError("the engine's header cannot be preprocessed", line, out, err)
        names = re.findall(r"(?m)^#define ((?!HOSTCUDA|hostcuda|printf\b)[A-Za-z]\w*)", out)
        Path(path).write_text("".join(f"#undef {name}\n" for name in sorted(names)))

    try:
        precompiled = f"{_PLAIN}.{'pch' if toolchain.is_clang(command) else 'gch'}"
        path = cache.obtain(f"{folder}/{precompiled}", precompile)
        if name == WITHOUT_MACROS:
            return str(cache.obtain(f"{folder}/{name}", list_macros))
    except CompileError:  # compiling the kernel reports the error
        return str(header)
    cache.touch(path.parent)
    return str(path.with_suffix(""))
