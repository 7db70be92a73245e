"""The engine's headers for kernels and for programs, precompiled: they take most of the time to compile a small one."""

import re

from hostcuda.errors import CompileError
from hostcuda.host import cache, toolchain

_PLAIN = "hostcuda.h"
_HOST = toolchain.INCLUDE / "hostcuda" / "host.h"
WITHOUT_MACROS = "hostcuda_undef.h"


def find_folder(command: list[str], flags: list[str], program: bool) -> tuple[str, tuple[str, ...]]:
    """Return where the cache has the engine's precompiled header: the folder's name, and the names of its files.

    The files are a stub that includes the header, its precompiled form, and one that removes macros of the
    C library. The folder depends on the compiler's `command` and `flags`. `program`: the header for a
    whole program, not for a kernel alone.
    """
    kind = ("program",) if program else ()
    precompiled = f"{_PLAIN}.{'pch' if toolchain.is_clang(command) else 'gch'}"
    key = cache.digest(toolchain.fingerprint(command), *kind, *flags)
    return f"prelude-{key[:24]}", (_PLAIN, precompiled, WITHOUT_MACROS)


def make_prelude(
    command: list[str], flags: list[str], name: str = _PLAIN, program: bool = False
) -> str:
    """Precompile the engine's header for these flags into the cache; return the path to use with ``-include``.

    For a `program` the header also has the runtime API. With the `name` `WITHOUT_MACROS` the path
    is that of a second file beside it, which removes the macros of the C library: in the source they
    have been expanded already. `command` is the compiler's. The files are made together, since a
    sandbox cannot add one to the folder. If the header does not compile, its own path is returned.
    """
    header = toolchain.INCLUDE / _PLAIN
    # files: the stub, the precompiled header, the ``#undef``s
    folder, files = find_folder(command, flags, program)
    line = [*command, *flags, f"-I{toolchain.INCLUDE}", "-x", "c++-header"]
    is_clang = toolchain.is_clang(command)
    headers = [header, _HOST] if program else [header]

    def run(arguments, problem):
        """Return what the compiler prints; raise CompileError with the sentence `problem` if it fails."""
        whole_command = [*line, *arguments]
        status, out, err = toolchain.run(whole_command)
        if status:
            raise CompileError(problem, whole_command, out, err)
        return out

    def make(place):
        """Write the three files into the folder `place`: the stub, the precompiled header, and the ``#undef``s.

        The stub includes the headers; for ``-include stub`` g++ reads the precompiled header instead.
        """
        cache.trim("prelude-*", keep=12)
        cache.trim(".prelude-*", keep=0)  # unfinished folders of processes that were killed
        (place / _PLAIN).write_text("".join(f'#include "{path}"\n' for path in headers))
        # The header itself, not the stub: clang++ remembers the file's path, and this folder moves.
        output = ["-Wno-pragma-once-outside-header"] * is_clang
        for path in headers[:-1]:
            output += ["-include", str(path)]
        output += ["-o", str(place / files[1]), str(headers[-1])]
        run(output, "the engine's header does not compile")
        # -dM: list the macros that are defined
        out = run(
            ["-E", "-dM", "-include", str(header), str(_HOST)],
            "the engine's header cannot be preprocessed",
        )
        # all but the engine's own, one of which is printf
        names = re.findall(r"(?m)^#define ((?!HOSTCUDA|hostcuda|printf\b)[A-Za-z]\w*)", out)
        undefined = "".join(f"#undef {name}\n" for name in sorted(names))
        (place / WITHOUT_MACROS).write_text(undefined)

    try:
        made = cache.obtain_folder(folder, files, make)
    except CompileError:  # compiling the kernel reports the error
        return str(header)  # the text of a program includes the other header, too
    cache.touch(made)  # just used: `trim` keeps it
    return str(made / name)
