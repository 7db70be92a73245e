"""What editors can read of labkit: names to complete, their parameters, types and docstrings."""

import ast
import inspect
from pathlib import Path

import jedi
import pytest
from IPython.core.completer import CompletionContext

import labkit
from labkit.page import completion

pytestmark = pytest.mark.thorough("tools of the repository")

PACKAGE = Path(labkit.__file__).resolve().parent
MOST_USED = {
    "check": {"variant", "layers", "sanitize"},
    "bench": {"variants", "layer", "batch"},
    "variant": {"which", "source", "options"},
}


@pytest.fixture(scope="module")
def project():
    return jedi.Project(PACKAGE.parent)


def test_jedi_completes_every_public_name(project):
    names = {
        completion.name
        for completion in jedi.Script("import labkit as lab\nlab.", project=project).complete()
    }
    assert set(labkit.__all__) <= names


@pytest.mark.parametrize(("name", "parameters"), MOST_USED.items())
def test_jedi_shows_parameters_and_the_docstring(project, name, parameters):
    source = f"import labkit as lab\nlab.{name}("
    (signature,) = jedi.Script(source, project=project).get_signatures()
    assert parameters <= {parameter.name for parameter in signature.params}
    assert inspect.getdoc(getattr(labkit, name)) in signature.docstring()


@pytest.mark.parametrize("name", MOST_USED)
def test_jedi_completes_in_a_running_notebook(name):
    completions = jedi.Interpreter(f"lab.{name[:-1]}", [{"lab": labkit}]).complete()
    assert name in [completion.name for completion in completions]


@pytest.mark.parametrize(
    ("begun", "found", "not_found"),
    [
        ("thr", {"threadIdx"}, set()),  # CUDA's
        ("__sync", {"__syncthreads", "__syncwarp"}, {"__shared__"}),
        ("y[atomicA", {"atomicAdd"}, set()),
        ("wei", {"weights"}, {"weird"}),  # the kernel's own, not those of a comment
        ("pri", set(), {"print"}),  # Python's
    ],
)
def test_names_of_a_kernel_cell_are_completed(begun, found, not_found):
    def complete(text):
        context = CompletionContext("", text, len(begun), 4, None)
        return completion.complete(context)

    lines = (
        "__global__ void conv(const float *weights)  // weird",
        "{",
        "    int column = 3;",
        begun,
        "}",
    )
    answer = complete("\n".join(["%%kernel 01 --name mine", *lines]))
    names = {item.text for item in answer["completions"]}
    assert found <= names and not names & not_found and answer["suppress"]
    assert answer["matched_fragment"] == begun.rpartition("[")[2]
    assert complete("\n".join(["# Python", *lines])) == {"completions": []}


def test_the_stub_exports_each_name_as_type_checkers_read_it():
    """``from .a import b as b``: without the second name a stub's import is private (PEP 484)."""
    stub = ast.parse((PACKAGE / "__init__.pyi").read_text(encoding="utf-8"))
    imports = [
        alias for node in stub.body if isinstance(node, ast.ImportFrom) for alias in node.names
    ]
    assert all(alias.asname == alias.name for alias in imports)
    assert {alias.name for alias in imports} == set(labkit.__all__) - {"__version__"}
    assert (PACKAGE / "py.typed").is_file()


@pytest.mark.parametrize(
    "name", [name for name in labkit.__all__ if inspect.isfunction(getattr(labkit, name))]
)
def test_what_is_public_has_types(name):
    """That it has a docstring, too, is tested with the API reference."""
    untyped = [
        parameter.name
        for parameter in inspect.signature(getattr(labkit, name)).parameters.values()
        if parameter.annotation is parameter.empty and parameter.kind is not parameter.VAR_KEYWORD
    ]
    assert not untyped, f"{name}: annotate {', '.join(untyped)}"
