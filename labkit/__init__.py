"""The CUDA convolution lab: optimize the convolutions of a LeNet in CUDA C, and see why each step worked or not.

Everything that a notebook needs is a name of this package; `__init__.pyi` says where each is
defined. A name is imported when it is first used, so that ``import labkit`` stays light and picks
no engine. :mod:`hostcuda` chooses the engine (a GPU, or the CPU engine that runs the same ``.cu``
source) when something first runs; ``HOSTCUDA_ENGINE=cpu`` or ``gpu`` decides for it.
"""

import contextlib
import sys
from typing import Any

import lazy_loader

__version__ = "2.0.0"
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

if _shell := getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)():
    # the first use of one loads this package as an extension
    for _magic in ("cuda", "hostcuda", "kernel", "program"):
        _shell.magics_manager.register_lazy(_magic, __name__)
    with contextlib.suppress(ImportError):  # an IPython before 8.6 has no such completers
        from .page import completion

        completion.register(_shell)


def load_ipython_extension(shell: Any) -> None:
    """Add ``%%kernel`` and ``%%cuda`` to a notebook, when IPython runs ``%load_ext labkit``."""
    from .page import cells  # here, because it loads slowly, and `import labkit` stays light

    cells.load_ipython_extension(shell)
