"""Whether a Python program imports a package, seen from its text."""

import re

# what may stand before a package in the same statement: "numpy as np, "
_OTHERS = r"(?:[\w.]+(?:[ \t]+as[ \t]+\w+)?[ \t]*,[ \t]*)*"


def imports(text: str, package: str) -> bool:
    """Return whether a program imports a package; `text`, the program's, need not be valid Python.

    `package` is a regular expression of the name, such as "cupy" or "pycuda|cupy".
    """
    # `_OTHERS`: packages before it in the same statement, such as "os, numpy as np, "
    statement = rf"^\s*(?:import\s+{_OTHERS}|from\s+)(?:{package})\b"
    return bool(re.search(statement, text, re.MULTILINE))
