"""The engine's modules import each other in one direction only."""

import ast
import importlib
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
        and "hostcuda" in graph["hostcuda.tools.processes"]
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


def test_a_public_name_has_all_of_its_module():
    public = {name: path.read_text() for name, path in MODULES.items() if name.count(".") == 1}
    pairs = [(name, *imports(text)) for name, text in public.items() if "import *" in text]
    assert ("hostcuda.profile", "hostcuda.tools.profile") in pairs and len(pairs) == 12
    for public_module, module in (map(importlib.import_module, pair) for pair in pairs):
        names = getattr(
            module, "__all__", [name for name in vars(module) if not name.startswith("_")]
        )
        assert all(getattr(public_module, name) is getattr(module, name) for name in names)


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
