"""The engine's header for kernels, precompiled: it takes most of the time to compile a small kernel."""

import re

from hostcuda.errors import CompileError
from hostcuda.host import cache, toolchain

_PLAIN = "hostcuda.h"
WITHOUT_MACROS = "hostcuda_undef.h"


def make_prelude(command: list[str], flags: list[str], name: str = _PLAIN) -> str:
    """Return the path to ``-include``: the engine's header, precompiled for these flags into the cache if that works.

    With the `name` `WITHOUT_MACROS` it is that of a second file beside it, which removes the macros
    of the C library: in the source they have been expanded already. `command` is the compiler's.
    Both files are made together, since a sandbox cannot add one to the folder.
    """
    header = toolchain.INCLUDE / _PLAIN
    folder = f"prelude-{cache.digest(toolchain.fingerprint(command), *flags)[:24]}"
    line = [*command, *flags, f"-I{toolchain.INCLUDE}", "-x", "c++-header"]
    is_clang = toolchain.is_clang(command)
    precompiled = f"{_PLAIN}.{'pch' if is_clang else 'gch'}"

    def run(arguments, problem):
        """Return what the compiler prints; raise CompileError with the sentence `problem` if it fails."""
        whole = [*line, *arguments]
        status, out, err = toolchain.run(whole)
        if status:
            raise CompileError(problem, whole, out, err)
        return out

    def make(place):
        """Write the precompiled header, its stub (for ``-include stub`` g++ reads both), and the list of macros."""
        cache.trim("prelude-*")
        cache.trim(".prelude-*", keep=0)  # of processes that were killed
        (place / _PLAIN).write_text(f'#include "{header}"\n')
        # The header itself, not the stub: clang++ remembers the file's path, and this folder moves.
        output = ["-Wno-pragma-once-outside-header"] * is_clang
        output += ["-o", str(place / precompiled), str(header)]
        run(output, "the engine's header does not compile")
        host = toolchain.INCLUDE / "hostcuda" / "host.h"
        out = run(
            ["-E", "-dM", "-include", str(header), str(host)],
            "the engine's header cannot be preprocessed",
        )
        names = re.findall(r"(?m)^#define ((?!HOSTCUDA|hostcuda|printf\b)[A-Za-z]\w*)", out)
        undefined = "".join(f"#undef {name}\n" for name in sorted(names))
        (place / WITHOUT_MACROS).write_text(undefined)

    try:
        made = cache.obtain_folder(folder, (_PLAIN, precompiled, WITHOUT_MACROS), make)
    except CompileError:  # compiling the kernel reports the error
        return str(header)
    cache.touch(made)
    return str(made / name)
