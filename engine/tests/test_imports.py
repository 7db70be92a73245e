"""The engine's modules import each other, and its runtime's files call each other, in one direction only."""

import ast
import re
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import hostcuda
from hostcuda.frontend.scan import Scan, find_function_name

pytestmark = pytest.mark.core("the order of the modules, in a second")

PACKAGE = Path(hostcuda.__file__).parent
MODULES = {
    ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__"): path
    for path in PACKAGE.rglob("*.py")
}


def walk(node):
    """Yield the nodes of a tree, without those in ``if TYPE_CHECKING:``, which never run."""
    if not (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"):
        yield node
        for child in ast.iter_child_nodes(node):
            yield from walk(child)


def imports(text, modules=MODULES):
    """Yield the modules that a text imports when it runs, at its top or within functions."""
    for node in walk(ast.parse(text)):
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
    run = {"hostcuda.__main__"}
    assert bare == choosing | run | {"hostcuda.api.driver"}  # PyCUDA's module, of five parts


def test_a_circle_is_found_in_functions_too():
    texts = {
        "a": "from b import c",
        "b": "",
        "b.c": "def f():\n    import a\n    from a import other",
        "d": "if TYPE_CHECKING:\n    import a",
    }
    graph = {name: {*imports(text, texts)} for name, text in texts.items()}
    assert graph == {"a": {"b.c"}, "b": set(), "b.c": {"a"}, "d": set()}
    with pytest.raises(CycleError):
        in_order(graph)


# ------------------------------------------------------------------- The runtime's files, in C++
RUNTIME = PACKAGE / "runtime"
_FILES = re.compile(r"^//   (\w+\.(?:cpp|h)(?:, \w+\.cpp)*) ", re.MULTILINE)
# What runtime.h lets others call from above: where the host waits, and where a stack begins.
DOORS = {"wait_for_device", "fiber_main", "loops_main", "pause_kernel", "let_kernel_run"}


def read_order():
    """Return the lists of files that runtime.h has in one line, in order; those of parts.h are one list."""
    rows, parts = (
        _FILES.findall((RUNTIME / name).read_text()) for name in ("runtime.h", "parts.h")
    )
    return [parts if row == "parts.h" else row.split(", ") for row in rows]


def read_functions(path):
    """Return (code, {name: body} of the functions that a file of the runtime defines)."""
    scan = Scan(path.read_text())
    bodies = {}
    for open_, close in scan.closing.items():
        name = find_function_name(scan.code, scan.declaration_start(open_))
        if name and scan.scope(open_) is not None:
            bodies[name] = bodies.get(name, "") + scan.code[open_:close]
    return scan.code, bodies


def named_in(code):
    """Return the words of a C++ text that are neither members nor local functions."""
    words = set(re.findall(r"(?<![.\w])(?<!->)[A-Za-z_]\w*", code))
    return words - set(re.findall(r"\bauto (\w+) =", code))


def list_calls():
    """Return {file: {function of a header: the lowest file that defines it}}, of functions that the file lacks."""
    place = {file: number for number, files in enumerate(read_order()) for file in files}
    headers = [read_functions(path) for path in RUNTIME.glob("*.h")]
    inline = {name: named_in(body) for _, bodies in headers for name, body in bodies.items()}
    declared = {name for code, _ in headers for name in re.findall(r"(\w+)\s*\(", code)} - {*inline}
    files = {path.name: read_functions(path) for path in RUNTIME.glob("*.cpp")}
    owner, calls = {}, {}
    for file in sorted(files, key=lambda file: -place[file]):  # the lowest last: it stays
        owner |= dict.fromkeys(declared & files[file][1].keys(), file)
    for file, (code, own) in files.items():
        words = set().union(*(named_in(body) for body in own.values()))
        while more := set().union(*(inline[word] for word in words & inline.keys())) - words:
            words |= more
        if "namespace check" not in code:  # what is in it has another name elsewhere
            words -= {word for word, other in owner.items() if "namespace check" in files[other][0]}
        calls[file] = {word: owner[word] for word in words & owner.keys() - own.keys()}
    return calls


def test_the_runtimes_files_call_each_other_in_the_order_of_its_header():
    order, calls = read_order(), list_calls()
    place = {file: number for number, files in enumerate(order) for file in files}
    assert [file for files in order for file in files].count("check.cpp") == 1
    assert place.keys() == calls.keys() and sum(map(len, order)) == len(place)
    told = set(re.findall(r"\b(\w+)\(", (RUNTIME / "check.h").read_text().partition("#undef")[0]))
    down = {
        name: f"{file} calls {name} of {other}"
        for file, names in calls.items()
        for name, other in names.items()
        if place[other] > place[file] and name not in told | {"watch_copied"}
    }
    assert down.keys() == DOORS, [text for name, text in down.items() if name not in DOORS]
    # what the compiler's symbols show, too
    assert calls["pool.cpp"]["run_block"] == "scheduler.cpp"
    assert calls["spins.cpp"]["now"] == "system.cpp" and "find_work" in calls["warps.cpp"]


def test_the_runtimes_headers_include_each_other_in_one_direction():
    included = {
        path.name: set(re.findall(r'^#include "(\w+\.h)"', path.read_text(), re.MULTILINE))
        for path in [*RUNTIME.glob("*.h"), *RUNTIME.glob("*.cpp")]
    }
    in_order(included)
    block = {file for file, headers in included.items() if "fibers.h" in headers}
    parts = {file for file, headers in included.items() if "parts.h" in headers}
    assert not block & parts and parts == {
        file for files in read_order() for file in files if "check.cpp" in files
    }
