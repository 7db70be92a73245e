"""NumPy, loaded when it is first used.

Loading it takes as long as the rest of a small program in CUDA C++, which has no array of NumPy.
"""

from types import ModuleType
from typing import TYPE_CHECKING, Any

__all__ = ["np"]


class _NumPy(ModuleType):
    """A stand-in for the module `numpy`, which it loads when its first attribute is looked up."""

    def __getattr__(self, name: str) -> Any:
        """Load NumPy, and keep all that it has, so that this is called once."""
        import numpy

        vars(self).update(vars(numpy))
        return getattr(numpy, name)


if TYPE_CHECKING:
    import numpy as np
else:
    np = _NumPy("numpy")
