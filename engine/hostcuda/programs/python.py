"""Run a Python program that imports PyCUDA, CuPy or cuda.core, unchanged.

``python -m hostcuda.programs.python PROGRAM.py [ARGUMENT ...]`` lets it import the engine under
their names.
"""

import runpy
import sys
from pathlib import Path

from hostcuda.programs import cuda_core, cupy, pycuda
from hostcuda.programs.imports import imports

# pattern of the module that a program imports -> the function that puts the engine in its place
_STAND_INS = {
    r"pycuda": pycuda.install,
    r"cupy": cupy.install,
    r"cuda\.core|cuda\s+import\s+core": cuda_core.install,
}


def main(arguments: list[str]) -> None:
    """Run a Python program as ``__main__``, with the engine in place of the GPU packages that it imports.

    `arguments` has the program's path and its own arguments. Changes `sys.argv` and `sys.path`.
    """
    text = Path(arguments[0]).read_text(errors="replace")
    for module, install in _STAND_INS.items():
        if imports(text, module):
            install()
    sys.argv[:] = arguments
    if not sys.flags.safe_path:  # without the option -P of `processes.own_program`
        del sys.path[0]  # the working folder
    sys.path.insert(0, str(Path(arguments[0]).resolve().parent))
    runpy.run_path(arguments[0], run_name="__main__")


if __name__ == "__main__":
    main(sys.argv[1:])
