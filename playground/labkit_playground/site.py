"""Write the files of the playground's page: the engine for a browser, and the data of the exercises."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from hostcuda.files import write
from hostcuda.wasm.site import engine_files, write_engine
from labkit.base.paths import PACKAGE, SERIES, cuda_src
from labkit.spec import layers
from labkit_playground.data import collect

_HERE = Path(__file__).parent
# The lab's own modules that judge, as they are; below, files that replace others in the page.
_MODULES = (
    "base/__init__",
    "base/errors",
    "base/paths",
    "exercises/arithmetic",
    "exercises/barriers",
    "exercises/causes",
    "exercises/exercise",
    "exercises/judge",
    "exercises/misses",
    "exercises/practice",
    "exercises/text",
    "exercises/wrong_results",
    "ladder/__init__",
    "ladder/messages",
    "ladder/source",
    "measure/__init__",
    "measure/symptoms",
)
_NAMES = {
    "exercise": "SOURCE, Attempt, Bound, Case, Exercise, Goal, Mistake, counted",
    "subjects": "HIDDEN, LAYERS, LAYER_1, InPlaceOf, Kernels, Numbers, Output, "
    "draw_floats, draw_summands, launch, whole_number",
}
_STARTED = ("labkit_playground.judging", "labkit_playground.rungs")  # js/worker.mjs imports them
_STANDING = {
    "labkit/__init__.py": "",
    "labkit/spec/__init__.py": "",
    "labkit/exercises/__init__.py": "".join(
        f"from labkit.exercises.{module} import {names}\n" for module, names in _NAMES.items()
    ),
    "numpy.py": '"""There is no NumPy here: what exercises compute with it was computed when the site was built."""\n\n'
    "from types import SimpleNamespace\n\nndarray = object\nrandom = SimpleNamespace(Generator=object)\n",
}


def write_lab(out: Path, rungs: Iterable[str] = ()) -> None:
    """Write ``lab.mjs`` and all that it loads into a folder; engine/docs/browser.md says how a page uses it.

    It is the JavaScript module by which a page checks and grades kernels. `rungs` are those of which a
    page can check kernels, with their options: "04", "07 step=rows".
    The folder ``engine`` has the engine, the lab's own modules, and the exercises' data.

    Raises
    ------
    EngineError
        The compilers are not installed; the message has the command.
    """
    write_engine(out / "engine", _read_lab(), collect(rungs), _STARTED)
    for path in sorted((_HERE / "js").iterdir()):
        write(out / path.name, path.read_bytes())


def python_files() -> dict[str, bytes]:
    """Return the contents of the files on Python's path in the page, by name: the engine's and the lab's."""
    return {**engine_files(), **_read_lab()}


def _read_lab() -> dict[str, bytes]:
    """Return the contents of the lab's own files on Python's path in the page, by name."""
    files = {f"labkit/{name}.py": (PACKAGE / f"{name}.py").read_bytes() for name in _MODULES}
    files |= {
        f"labkit_playground/{name}.py": (_HERE / f"{name}.py").read_bytes()
        for name in ("__init__", "comparison", "judging", "rungs")
    }
    files["labkit/exercises/subjects.py"] = (_HERE / "subjects.py").read_bytes()
    files["labkit/spec/layers.py"] = _write_layers().encode()
    files |= {name: text.encode() for name, text in _STANDING.items()}
    patterns = (
        (SERIES, "*/*/exercise.py"),
        (SERIES, "*/*/hints.md"),
        (SERIES, "*/*/*.cu"),
        (cuda_src(), "*.cuh"),
    )
    for place, pattern in patterns:
        files |= {
            f"labkit/{path.relative_to(PACKAGE)}": path.read_bytes()
            for path in sorted(place.glob(pattern))
        }
    return files


def _write_layers() -> str:
    """Return the text of a module that stands for `labkit.spec.layers`: the two networks' layers as named tuples."""
    definitions = "".join(
        f"{name} = {getattr(layers, name).layers!r}\n" for name in ("LENET72", "LENET86")
    )
    return f"from collections import namedtuple\n\nLayer = namedtuple('Layer', 'name C H W M K')\n{definitions}"
