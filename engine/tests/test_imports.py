"""The engine's modules import each other in one direction only."""

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import hostcuda

pytestmark = pytest.mark.core("the order of the modules, in a second")

PACKAGE = Path(hostcuda.__file__).parent
MODULES = {
    ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__"): path
    for path in PACKAGE.rglob("*.py")
}


def imports(text, modules=MODULES):
    """Yield the modules that a text imports, at its top or within functions."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in modules)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, "write the module's whole name"
            for alias in node.names:
                name = f"{node.module}.{alias.name}"
                if name in modules or node.module in modules:
                    yield name if name in modules else node.module


def in_order(graph):
    """Return the nodes, each after those that it leads to."""
    return [*TopologicalSorter(graph).static_order()]


def test_no_module_imports_itself_by_way_of_others():
    graph = {name: {*imports(path.read_text())} for name, path in MODULES.items()}
    assert {*in_order(graph)} == {*MODULES}
    assert (
        "hostcuda.host.toolchain" in graph["hostcuda.build.unit"]
        and "hostcuda" in graph["hostcuda.processes"]
    )


def test_no_room_imports_itself_by_way_of_others():
    rooms = {}
    for name, path in MODULES.items():
        room = ".".join(name.split(".")[:2])
        rooms.setdefault(room, set()).update(
            ".".join(module.split(".")[:2]) for module in imports(path.read_text())
        )
    for room, others in rooms.items():
        others.discard(room)
    in_order(rooms)


def only_imports(text):
    """Return whether a module's text has no function or class of its own, but names of other modules."""
    tree = ast.parse(text)
    own = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return any(imports(text)) and not any(isinstance(node, own) for node in ast.walk(tree))


def test_a_thing_has_one_name():
    bare = {name for name, path in MODULES.items() if only_imports(path.read_text())}
    choosing = {f"hostcuda.{name}" for name in ("activity", "autoinit", "compiler", "driver")}
    run = {"hostcuda.__main__", "hostcuda.agent.__main__", "hostcuda.wasm.boot"}
    assert bare == choosing | run | {"hostcuda.api.driver"}  # PyCUDA's module, of five parts


def test_a_circle_is_found_in_functions_too():
    texts = {
        "a": "from b import c",
        "b": "",
        "b.c": "def f():\n    import a\n    from a import other",
    }
    graph = {name: {*imports(text, texts)} for name, text in texts.items()}
    assert graph == {"a": {"b.c"}, "b": set(), "b.c": {"a"}}
    with pytest.raises(CycleError):
        in_order(graph)
