"""Write the API reference in Markdown, from the docstrings of the public names."""

from __future__ import annotations

import ast
import importlib
import inspect
import textwrap
from pathlib import Path

import labkit
from labkit.base.paths import PACKAGE

_HEAD = """# API reference

What `import labkit as lab` gives: every name is `lab.NAME`. The names are imported when they are first used. Most of
the commands of `labkit --help` call one of these functions. The engine below them, `hostcuda`, has
[a page of its own](../engine/docs/interface.md).
"""


def make_reference() -> str:
    """Return the reference as one page: `labkit`'s names by the package that defines them, then `labkit.draw`'s."""
    parts = [_HEAD]
    groups = _group_names(PACKAGE / "__init__.pyi")  # {"draw": ["ladder", ...], ...}
    # Classes with an entry of their own. Others get one after the first function that returns them.
    described = {
        thing for name in labkit.__all__ if inspect.isclass(thing := getattr(labkit, name))
    }
    for package in sorted(groups, key="base".__eq__):  # `base`, which the others use, comes last
        about = inspect.getdoc(importlib.import_module(f"labkit.{package}")).splitlines()[0]
        parts.append(f"## labkit.{package}\n\n{about}\n")
        for name in groups[package]:
            thing = getattr(labkit, name)
            parts.append(_describe(f"lab.{name}", thing))
            if (result := _find_result_class(thing)) and result not in described:
                described.add(result)
                parts.append(_describe(result.__name__, result))
    parts.append("## labkit.draw\n\nEach function draws one figure, on the page or into a file.\n")
    for names in _group_names(PACKAGE / "draw" / "__init__.pyi").values():
        parts += [_describe(f"lab.draw.{name}", getattr(labkit.draw, name)) for name in names]
    return "\n".join(parts)


def _group_names(stub: Path) -> dict[str, list[str]]:
    """Return the names that a stub (.pyi) exports, by the package or module that defines them: {"base": ["check"]}."""
    groups: dict[str, list[str]] = {}
    for node in ast.parse(stub.read_text(encoding="utf-8")).body:
        # "from . import draw" is a module: it has no entry
        if isinstance(node, ast.ImportFrom) and node.module:
            groups.setdefault(node.module.partition(".")[0], []).extend(
                alias.name for alias in node.names
            )
    return groups


def _find_result_class(thing: object) -> type | None:
    """Return the class of the lab that a function returns, or None."""
    name = (
        getattr(thing, "__annotations__", {}).get("return") if inspect.isfunction(thing) else None
    )
    # With postponed annotations it is a text.
    returned = getattr(inspect.getmodule(thing), name, None) if isinstance(name, str) else name
    return (
        returned
        if inspect.isclass(returned) and returned.__module__.startswith("labkit.")
        else None
    )


def _describe(name: str, thing: object, level: int = 3) -> str:
    """Return a name's entry in Markdown: heading of this level, value or signature, docstring, a class's methods."""
    if not callable(thing):
        return f"{'#' * level} {name}\n\n```text\n{thing}\n```\n"
    text = f"{_format_signature(name, thing)}\n\n{inspect.getdoc(thing) or ''}"
    parts = [f"{'#' * level} {name}\n", f"```text\n{text}\n```\n"]
    if inspect.isclass(thing):
        ours = [
            base
            for base in reversed(thing.__mro__)
            if base.__module__.startswith(("labkit.", "hostcuda."))
        ]
        for member, value in {
            name: value for base in ours for name, value in vars(base).items()
        }.items():
            if not member.startswith("_") and inspect.isfunction(value):
                parts.append(_describe(f"{name}.{member}", value, level + 1))
            elif not member.startswith("_") and isinstance(value, property):
                parts.append(
                    f"{'#' * (level + 1)} {name}.{member}\n\n```text\n{inspect.getdoc(value) or ''}\n```\n"
                )
    return "\n".join(parts)


def _format_signature(name: str, thing: object) -> str:
    """Return "lab.name(parameters) -> result" as the source has it: defaults by name, not by value."""
    called = thing.__init__ if inspect.isclass(thing) and "__init__" in vars(thing) else thing
    try:
        (node,) = ast.parse(textwrap.dedent(inspect.getsource(called))).body
    except (OSError, TypeError):  # a dataclass's __init__ has no source
        node = None
    if not isinstance(node, ast.FunctionDef):
        fields = getattr(thing, "__dataclass_fields__", {})
        return f"{name}({', '.join(f'{item.name}: {item.type}' for item in fields.values() if item.init)})"
    result = f" -> {ast.unparse(node.returns)}" if node.returns and called is thing else ""
    parameters = ast.unparse(node.args).removeprefix("self").removeprefix(", ")
    return textwrap.fill(f"{name}({parameters}){result}", 100, subsequent_indent="    ")
