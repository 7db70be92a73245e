"""The API reference in Markdown, from the docstrings of the public names."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

import labkit
from labkit.base.paths import PACKAGE

_SECTION = re.compile(r"^([A-Z][\w ]+)\n-{3,}$", re.MULTILINE)  # a heading of NumPy's style
_ROLE = re.compile(r":\w+:`~?([^`]+)`")  # Sphinx's :mod:`labkit`
_LISTS = {"Parameters", "Attributes", "Returns", "Raises", "Yields"}

_HEAD = """# API reference

What `import labkit as lab` gives: every name is `lab.NAME`. The names are imported when they are first used. Most of
the commands of `labkit --help` call one of these functions. The engine below them, `hostcuda`, has
[a page of its own](../engine/docs/interface.md).
"""


def text() -> str:
    """The reference as one page: the names of `labkit`, by the package that defines them, then of `labkit.draw`."""
    parts = [_HEAD]
    groups = _grouped(PACKAGE / "__init__.pyi")
    known = {thing for name in labkit.__all__ if inspect.isclass(thing := getattr(labkit, name))}
    for package in sorted(groups, key="base".__eq__):  # what the others use comes last
        about = inspect.getdoc(importlib.import_module(f"labkit.{package}")).splitlines()[0]
        parts.append(f"## labkit.{package}\n\n{about}\n")
        for name in groups[package]:
            thing = getattr(labkit, name)
            parts.append(_entry(f"lab.{name}", thing))
            if (result := _result(thing)) and result not in known:
                known.add(result)
                parts.append(_entry(result.__name__, result))
    parts.append("## labkit.draw\n\nEach function draws one figure, on the page or into a file.\n")
    for names in _grouped(PACKAGE / "draw" / "__init__.pyi").values():
        parts += [_entry(f"lab.draw.{name}", getattr(labkit.draw, name)) for name in names]
    return "\n".join(parts)


def _grouped(stub: Path) -> dict[str, list[str]]:
    """The names that a stub exports, by the package or module that defines them."""
    groups: dict[str, list[str]] = {}
    for node in ast.parse(stub.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom) and node.module:  # "from . import draw" is a module: it has no entry
            groups.setdefault(node.module.partition(".")[0], []).extend(alias.name for alias in node.names)
    return groups


def _result(thing: object) -> type | None:
    """The class of the lab that a function returns."""
    name = getattr(thing, "__annotations__", {}).get("return") if inspect.isfunction(thing) else None
    found = getattr(inspect.getmodule(thing), name, None) if isinstance(name, str) else name
    return found if inspect.isclass(found) and found.__module__.startswith("labkit.") else None


def _entry(name: str, thing: object, level: int = 3) -> str:
    """The heading, signature and docstring of a name, and those of a class's public methods."""
    if not callable(thing):
        return f"{'#' * level} {name}\n\n```text\n{thing}\n```\n"
    about = _prose(inspect.getdoc(thing) or "")
    parts = [f"{'#' * level} {name}\n", f"```python\n{_signature(name, thing)}\n```\n", about]
    if inspect.isclass(thing):
        ours = [each for each in reversed(thing.__mro__) if each.__module__.startswith(("labkit.", "hostcuda."))]
        for member, value in {name: value for each in ours for name, value in vars(each).items()}.items():
            if not member.startswith("_") and inspect.isfunction(value):
                parts.append(_entry(f"{name}.{member}", value, level + 1))
            elif not member.startswith("_") and isinstance(value, property):
                parts.append(f"{'#' * (level + 1)} {name}.{member}\n\n{_prose(inspect.getdoc(value) or '')}")
    return "\n".join(parts)


def _signature(name: str, thing: object) -> str:
    """The definition's parameters and result as the source has them; defaults by their names, not by their values."""
    called = thing.__init__ if inspect.isclass(thing) and "__init__" in vars(thing) else thing
    try:
        (node,) = ast.parse(textwrap.dedent(inspect.getsource(called))).body
    except (OSError, TypeError):  # a dataclass's __init__ has no source
        node = None
    if not isinstance(node, ast.FunctionDef):
        fields = getattr(thing, "__dataclass_fields__", {})
        return f"{name}({', '.join(f'{each.name}: {each.type}' for each in fields.values() if each.init)})"
    parameters = [each for each in _split(ast.unparse(node.args)) if each not in ("self", "")]
    result = f" -> {ast.unparse(node.returns)}" if node.returns and called is thing else ""
    line = f"{name}({', '.join(parameters)}){result}"
    if len(line) <= 100:
        return line
    return "\n".join([f"{name}(", *(f"    {each}," for each in parameters), f"){result}"])


def _split(parameters: str) -> Iterator[str]:
    """The parts between the outermost commas."""
    depth, part = 0, ""
    for character in parameters + ",":
        depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(character, 0)
        if character == "," and depth == 0:
            yield part.strip()
            part = ""
        else:
            part += character


def _prose(docstring: str) -> str:
    """A docstring in NumPy's style as Markdown: its sections as lists of names."""
    first, *rest = _SECTION.split(_ROLE.sub(r"`\1`", docstring))
    parts = [first.strip(), ""]
    for title, body in zip(rest[::2], rest[1::2], strict=True):
        parts += [f"**{title}**", "", _listed(body) if title in _LISTS else body.strip(), ""]
    return "\n".join(parts)


def _listed(section: str) -> str:
    """``name : type`` with an indented text below, as an item of a list."""
    items: list[str] = []
    for line in section.strip("\n").splitlines():
        if line and not line[0].isspace():
            name, _, kind = line.partition(" : ")
            items.append(f"- `{name}`{f' ({kind})' if kind else ''}")
        elif line.strip() and items:
            items[-1] += ("\n  " if "\n" in items[-1] else ":\n  ") + line.strip()
    return "\n".join(items)
