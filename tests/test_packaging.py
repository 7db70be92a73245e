"""The set-up: dependencies are declared once and repeated faithfully, and the lock installs what was reviewed."""

import ast
import fnmatch
import importlib
import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version
from suites import MARKS

import labkit
from labkit.base.errors import LabError
from recording import version

pytestmark = pytest.mark.thorough("tools of the repository")

ROOT = Path(labkit.__file__).resolve().parent.parent
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT = PYPROJECT["project"]
EXTRAS = PROJECT["optional-dependencies"]
ENGINE = tomllib.loads((ROOT / "engine" / "pyproject.toml").read_text())["project"]
# The packages that labkit knows nothing of, with their folders.
PARTS = {"labkit_classroom": "classroom", "labkit_playground": "playground"}
PART_PROJECTS = {
    name: tomllib.loads((ROOT / folder / "pyproject.toml").read_text())["project"]
    for name, folder in PARTS.items()
}
PROJECTS = {"labkit": PROJECT, "hostcuda": ENGINE, **PART_PROJECTS}
# installed from this repository, and from no registry
LOCAL = {project["name"] for project in PROJECTS.values()}
NEEDED = [*PROJECT["dependencies"], *EXTRAS["notebooks"]]  # in a checkout
LOCKS = {
    "requirements.lock": "test",
    "requirements-lab.lock": "lab",
    "requirements-browser.lock": "browser",
    "requirements-types.lock": "types",
}

# conda-forge's name -> PyPI's, where they differ: the variants without their graphical and optional
# parts.
CONDA = {"matplotlib-base": "matplotlib", "nbconvert-core": "nbconvert"}
# What only conda has to bring: the interpreter, pip, make and the compilers.
CONDA_ONLY = {"python", "pip", "make", "cxx-compiler", "cuda-nvcc", "cuda-version"}


def requirements(lines):
    """Map each name to its range."""
    parsed = map(Requirement, lines)
    return {canonicalize_name(requirement.name): requirement.specifier for requirement in parsed}


def everything(project):
    """Return all that a project declares, extras included."""
    extras = project.get("optional-dependencies", {}).values()
    return [*project["dependencies"], *(line for extra in extras for line in extra)]


def elsewhere(declared):
    """Return what a registry has to provide: all that is declared except this repository's own packages."""
    return {name: allowed for name, allowed in declared.items() if name not in LOCAL}


DECLARED = elsewhere(requirements(everything(PROJECT)))
OF_THE_ENGINE = requirements(everything(ENGINE))


def locked(name):
    """Map each name in a lock file to (version, number of hashes)."""
    packages = {}
    for entry in re.split(r"\n(?=\S)", (ROOT / name).read_text()):
        match = re.match(r"([\w.-]+)==([\w.+!-]+)", entry)
        if match:
            packages[canonicalize_name(match[1])] = (
                Version(match[2]),
                len(re.findall(r"--hash=sha256:\w{64}", entry)),
            )
    return packages


@pytest.mark.parametrize(
    "line",
    sorted(
        line
        for line in {line for project in PROJECTS.values() for line in everything(project)}
        if not line.startswith(f"{PROJECT['name']}[")  # an extra that brings another one
    ),
)
def test_every_dependency_has_both_bounds(line):
    bounds = {bound.operator for bound in Requirement(line).specifier}
    assert bounds == {">=", "<"}, f"{line}: a lower bound and the next major version"


@pytest.mark.parametrize(("name", "extra"), LOCKS.items())
def test_locks_pin_all_that_is_declared(name, extra):
    pins = locked(name)
    lines = [
        *NEEDED,
        *ENGINE["dependencies"],
        *EXTRAS[extra],
        *PYPROJECT["build-system"]["requires"],
    ]
    declared = elsewhere(requirements(lines))
    assert declared.keys() <= pins.keys()
    assert not LOCAL & pins.keys()  # `make venv` installs these from the checkout
    for package, allowed in declared.items():
        assert pins[package][0] in allowed, (
            f"{package} in {name} is outside the range: run make lock"
        )
    assert all(hashes for _, hashes in pins.values())
    text = (ROOT / name).read_text()
    assert "://" not in text
    assert not re.search(r"^\s*-[-\w]*(index|find-links|host)", text, re.MULTILINE)


@pytest.mark.parametrize(
    ("package", "locks"),
    [
        ("playwright", ["requirements-browser.lock"]),
        ("jupyterlab", ["requirements-lab.lock"]),
        ("basedpyright", ["requirements-types.lock"]),
        ("nbval", ["requirements.lock"]),
    ],
)
def test_large_packages_are_apart(package, locks):
    assert [name for name in LOCKS if package in locked(name)] == locks


def test_the_locks_agree():
    for first, second in itertools.combinations(map(locked, LOCKS), 2):
        assert {
            package for package in first.keys() & second.keys() if first[package] != second[package]
        } == set()


def test_all_projects_ask_for_the_same_ranges():
    """For what they declare; and the lab's tests bring what the engine's tests import."""
    assert requirements(PROJECT["dependencies"]).keys() & LOCAL == {"hostcuda"}
    assert {project["requires-python"] for project in PROJECTS.values()} == {
        PROJECT["requires-python"]
    }
    for name in DECLARED.keys() & OF_THE_ENGINE.keys():
        assert DECLARED[name] == OF_THE_ENGINE[name], name
    for project in PART_PROJECTS.values():
        declared = requirements(everything(project))
        assert declared.keys() & LOCAL == {PROJECT["name"], ENGINE["name"]}
        assert elsewhere(declared).items() <= DECLARED.items(), (
            "the lock and environment.yml are made of the lab's"
        )
    assert (
        requirements(ENGINE["optional-dependencies"]["test"]).keys()
        <= requirements(EXTRAS["test"]).keys()
    )


def test_the_documents_install_the_engine_with_the_lab():
    for page in (ROOT / "README.md", *(ROOT / "docs").glob("*.md")):
        for line in re.findall(r"pip install.*", page.read_text(encoding="utf-8")):
            assert not re.search(r" \.(?=[ `\n]|$)", line) or "./engine ." in line, (
                f"{page.name}: {line}"
            )


def test_conda_environment_matches():
    environment = yaml.safe_load((ROOT / "environment.yml").read_text())
    *lines, from_pip = environment["dependencies"]
    pip = from_pip["pip"]
    conda = {
        name: SpecifierSet(allowed) for name, _, allowed in (line.partition(" ") for line in lines)
    }
    for name in CONDA_ONLY:
        conda.pop(name, None)
    ours = ["-e ./engine", "-e .", *(f"-e ./{folder}" for folder in PARTS.values())]
    assert pip[-len(ours) :] == ours
    del pip[-len(ours) :]
    listed = {canonicalize_name(CONDA.get(name, name)): allowed for name, allowed in conda.items()}
    apart = requirements(EXTRAS["browser"] + EXTRAS["types"]) | requirements(
        ENGINE["optional-dependencies"]["mcp"]
    )
    # conda has the toolkit itself
    beside = {*apart, *(name for name in OF_THE_ENGINE if name.startswith("nvidia-"))}
    everywhere = {
        name: allowed for name, allowed in (DECLARED | OF_THE_ENGINE).items() if name not in beside
    }
    assert {**listed, **requirements(pip)} == everywhere
    assert "python " + PROJECT["requires-python"] in lines


def test_the_build_group_is_the_build_system():
    assert PYPROJECT["dependency-groups"]["build"] == PYPROJECT["build-system"]["requires"]


def test_doctor_recommends_what_is_declared():
    text = (ROOT / "engine" / "hostcuda" / "doctor.py").read_text()
    for line in ENGINE["optional-dependencies"]["gpu"]:
        assert f'_make_pip_command("{line.split(";")[0]}")' in text


@pytest.mark.parametrize(("name", "folder"), {"labkit": ".", "hostcuda": "engine", **PARTS}.items())
def test_package_data_is_complete(name, folder):
    settings = tomllib.loads((ROOT / folder / "pyproject.toml").read_text())
    patterns = settings["tool"]["setuptools"]["package-data"][name]
    package = ROOT / folder / name
    files = {
        path for path in package.rglob("*") if path.is_file() and "__pycache__" not in path.parts
    }
    shipped = {path for pattern in patterns for path in package.glob(pattern)}
    left = {
        path.relative_to(package).as_posix() for path in files - shipped if path.suffix != ".py"
    }
    assert not left, f"add them to package-data in pyproject.toml: {sorted(left)}"


def imported(path):
    """Yield the top-level modules that a file imports, without relative imports."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield node.module.partition(".")[0]


def test_nothing_of_the_engine_imports_the_lab():
    """Its tests and programs neither: lint-imports sees packages only."""
    lab = {*PROJECTS, "recording"} - {"hostcuda"}
    paths = [path for path in (ROOT / "engine").rglob("*.py") if "node_modules" not in path.parts]
    assert len(paths) > 150 and not [path for path in paths if lab & {*imported(path)}]
    assert lab & {*imported(ROOT / "benchmarks" / "execution.py")}


# Imported name -> PyPI's, where they differ, and what comes with something declared.
DISTRIBUTIONS = {
    "IPython": "ipykernel",
    "PIL": "matplotlib",
    "cupti": "cupti-python",
    "elftools": "pyelftools",
    "jedi": "ipykernel",
    "jupyter_client": "nbclient",
    "cloudpickle": "distributed",
    "dask": "distributed",
    "packaging": "pytest",
    "sklearn": "scikit-learn",
    "yaml": "distributed",
    "anyio": "mcp",
    "pydantic": "mcp",
}
BARE = ("base", "evidence", "ladder", "measure", "spec")  # what a wheel without extras has to run
PLUGIN = "pytest"  # which loads the engine's plugin itself
BESIDE = "torch"  # where it is installed: measured beside the lab's network
# Pyodide has them; `hostcuda.wasm.boot` is imported nowhere else
IN_A_BROWSER = {"pyodide", "hostcuda-js"}
RECORDING = {
    "scikit-learn",
    "scipy",
    "torch",
    "cuda",
    "triton",
}  # of four recorders; they say where it comes from


def test_everything_imported_is_declared():
    folders = ("tests", "engine/tests", *(f"{folder}/tests" for folder in PARTS.values()))
    tests = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    ours = {*PROJECTS, "recording", "suites"}.union(
        *((path.stem, path.parent.name) for path in tests)
    )
    extras = ENGINE["optional-dependencies"]
    engine = requirements(
        [*ENGINE["dependencies"], *extras["gpu"], *extras["nvcc"], *extras["mcp"]]
    )
    for folder, allowed in {
        "engine/hostcuda": {*engine, PLUGIN, *IN_A_BROWSER},
        "engine/tests": OF_THE_ENGINE,
        "benchmarks": requirements(NEEDED),
        "labkit": {*requirements(NEEDED), BESIDE},
        **{f"labkit/{name}": requirements(PROJECT["dependencies"]) for name in BARE},
        "recording": {*requirements(NEEDED), *RECORDING},
        **{
            f"{folder}/{name}": requirements(everything(PART_PROJECTS[name]))
            for name, folder in PARTS.items()
        },
        **dict.fromkeys(("tests", *PARTS.values()), DECLARED),
    }.items():
        paths = [path for path in (ROOT / folder).rglob("*.py") if "node_modules" not in path.parts]
        assert paths, folder
        for path in paths:
            beside = {other.stem for other in path.parent.glob("*.py")}
            for name in set(imported(path)) - set(sys.stdlib_module_names) - ours - beside:
                package = canonicalize_name(DISTRIBUTIONS.get(name, name))
                assert package in allowed, (
                    f"{path.relative_to(ROOT)} imports {name}: declare it in pyproject.toml"
                )


def test_version_is_one():
    assert "version" in PROJECT["dynamic"]
    for name, folder in {"labkit": ".", "hostcuda": "engine", **PARTS}.items():
        settings = tomllib.loads((ROOT / folder / "pyproject.toml").read_text())
        assert settings["tool"]["setuptools"]["dynamic"]["version"] == {
            "attr": f"{name}.__version__"
        }
        assert Version(importlib.import_module(name).__version__)


def test_all_are_under_one_licence_and_for_linux():
    for name, project in PROJECTS.items():
        licence = "MIT AND CC-BY-4.0" if name == "labkit" else "MIT"  # it ships the notebooks
        assert (project["license"], project["authors"]) == (licence, PROJECT["authors"])
        systems = [
            classifier
            for classifier in project["classifiers"]
            if classifier.startswith("Operating System")
        ]
        assert systems == ["Operating System :: POSIX :: Linux"]
    for folder in ("engine", *PARTS.values()):
        assert (ROOT / folder / "LICENSE").read_text() == (ROOT / "LICENSE").read_text()


@pytest.fixture
def checkout(tmp_path):
    """Copy what `make venv` reads to a folder of that name, with a Python whose pip never ends."""

    def make(name):
        """Return a copy of what `make venv` needs, and the command, whose Python waits in pip."""
        projects = (f"{folder}/pyproject.toml" for folder in ("engine", *PARTS.values()))
        for file in ("Makefile", "pyproject.toml", "requirements.lock", *projects):
            (tmp_path / name / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / file, tmp_path / name / file)
        python = tmp_path / "python"
        python.write_text(
            '#!/bin/sh\ncase "$1 $2" in "-m venv") mkdir -p "$3/bin"; cp "$0" "$3/bin/python";;\n'
            '"-m pip") echo $$ > pip; sleep 600 & echo $! >> pip; wait;; esac\n'
        )
        python.chmod(0o700)
        return tmp_path / name, ["make", "-s", "venv", f"PYTHON={python}"]

    return make


def _lives(process):
    state = Path(f"/proc/{process}/stat")
    return state.exists() and state.read_text().rpartition(")")[2].split()[0] != "Z"


@pytest.mark.parametrize("by", [signal.SIGKILL, signal.SIGTERM])
def test_no_pip_outlives_a_make_that_was_ended(checkout, by):
    folder, command = checkout("plain")
    path = os.pathsep.join(
        folder for folder in os.environ["PATH"].split(os.pathsep) if not Path(folder, "uv").exists()
    )
    making = subprocess.Popen(
        command, cwd=folder, env={**os.environ, "PATH": path}, stdout=subprocess.DEVNULL
    )
    until = time.monotonic() + 60
    while not (folder / "pip").exists() or (folder / "pip").read_text().count("\n") < 2:
        assert time.monotonic() < until and making.poll() is None
        time.sleep(0.05)
    making.send_signal(by)
    making.wait()
    pips = (folder / "pip").read_text().split()
    while any(map(_lives, pips)):
        assert time.monotonic() < until, "pip lives"
        time.sleep(0.1)


@pytest.mark.parametrize("character", ['"', "'", "$", "`", "\\"])
def test_a_path_that_breaks_scripts_is_refused(checkout, character):
    folder, command = checkout(f"a{character}b")
    process = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False, timeout=60
    )
    assert process.returncode == 2
    assert f"has {character} in it: move it to a folder without" in process.stderr


def test_the_image_has_what_the_lab_needs():
    lines = (ROOT / "Dockerfile").read_text()
    assert re.search(r"install .*\bg\+\+ .*\bmake\b", lines)
    stages = re.findall(r"^FROM \S+ AS (\w+)$", lines, re.MULTILINE)
    container = json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text())
    assert container["build"]["target"] in stages
    assert (
        ROOT / ".devcontainer" / container["build"]["dockerfile"]
    ).resolve() == ROOT / "Dockerfile"
    for command in (
        *re.findall(r"^RUN make (.*)$", lines, re.MULTILINE),
        container["postCreateCommand"][5:],
    ):
        subprocess.run(["make", "-n", *command.split()], cwd=ROOT, capture_output=True, check=True)


@pytest.mark.parametrize(
    ("arguments", "addresses"),
    [
        ("", ["--ip=0.0.0.0"]),
        ("--ip=127.0.0.1", ["--ip=127.0.0.1"]),
        ("--ip 127.0.0.1 --port 9000", ["--ip"]),
    ],
)
def test_jupyterlab_in_a_container_gets_one_address(arguments, addresses):
    command = [
        "make",
        "-n",
        "lab",
        "CONTAINER=/.dockerenv",
        f"ARGS={arguments}",
        "-o",
        ".venv-lab/.installed",
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    started = done.stdout[done.stdout.index("/labkit lab ") :].split()
    assert [word for word in started if word.startswith("--ip")] == addresses
    assert started.count("--no-browser") == 1


def test_the_version_to_cite_is_this_one():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["license"] == PROJECT["license"].partition(" ")[0]  # the code's
    assert [author["name"] for author in citation["authors"]] == [
        author["name"] for author in PROJECT["authors"]
    ]
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    versions = re.findall(r"^## (\S+) \((\S+)\)$", changes, re.MULTILINE)
    assert versions[0] == (labkit.__version__, str(citation["date-released"]))
    assert len(versions) == len(re.findall("^## ", changes, re.MULTILINE))  # each has its date


def test_the_version_is_one_and_one_command_writes_it(tmp_path, monkeypatch):
    assert all(found == {labkit.__version__} for found in version.find_versions().values())
    for name in version.PLACES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    monkeypatch.setattr(version, "ROOT", tmp_path)
    version.version("9.8.7")
    assert all(found == {"9.8.7"} for found in version.find_versions(tmp_path).values())
    with pytest.raises(LabError, match=r"'9\.8' is not a version"):
        version.version("9.8")


@pytest.mark.parametrize("name", PROJECTS)
def test_the_packages_have_one_version_and_need_each_other_in_it(name):
    assert importlib.import_module(name).__version__ == labkit.__version__
    assert PROJECTS[name]["dynamic"] == ["version"]  # read from the module
    major = Version(labkit.__version__).major
    ranges = requirements(everything(PROJECTS[name])).items()
    others = LOCAL - {PROJECTS[name]["name"]}
    assert {str(bounds) for package, bounds in ranges if package in others} <= {
        f"<{major + 1},>={major}"
    }


def test_a_script_of_the_playground_imports_from_others_what_they_define():
    """The scripts are not run: they need a browser, which is not installed everywhere."""
    trees = {path.stem: ast.parse(path.read_text()) for path in (ROOT / "playground").glob("*.py")}
    defined = {
        (script, getattr(node, "name", getattr(node, "id", None)))
        for script, tree in trees.items()
        for node in ast.walk(tree)
        if isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.Name))
        and not isinstance(getattr(node, "ctx", None), ast.Load)
    }
    imported = {
        (node.module, alias.name)
        for tree in trees.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module in trees
        for alias in node.names
    }
    assert imported and imported <= defined


SUITES = ["test", "thorough", "exhaustive"]
# the playground is built beside the three before it
ALL = ["test", "venv", "browser", "types", "floors", "playground", "thorough", "clang"]


@pytest.mark.parametrize(
    ("suites", "failing", "parts"),
    [
        ([], "", ALL),
        ([], "test", ALL[:1]),
        ([], "floors", ALL[:5]),
        ([], "playground", ALL),
        ([], "clang", ALL),
        (["test"], "", ALL[:1]),
        (["thorough"], "", ALL[1:]),
        (["exhaustive"], "", ["venv", "browser", "playground", "exhaustive"]),
    ],
)
def test_ci_stops_at_a_failure_and_says_how_long_each_part_took(suites, failing, parts, tmp_path):
    (tmp_path / ".ci").mkdir()
    (tmp_path / "bin").mkdir()
    (tmp_path / ".ci" / "run").write_bytes((ROOT / ".ci" / "run").read_bytes())
    there = dict.fromkeys(("apt-get", "clang++", "npm"), "true")
    # one of its parts that fails does so after the playground's first line
    make = (
        'echo "make $1"; test "$1" != playground || touch begun; '
        f'test "$1" != "{failing}" || {{ test "$1" != floors || until test -e begun; do :; done; false; }}'
    )
    for name, text in {"make": make, **there}.items():
        (tmp_path / "bin" / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / "bin" / name).chmod(0o755)
    path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", tmp_path / ".ci" / "run", *suites],
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
    )
    made = [line.split()[1] for line in done.stdout.splitlines() if line.startswith("make ")]
    assert made == parts
    stops = failing not in ("", "playground")  # whose tests are skipped then
    assert done.returncode == stops
    passed = re.findall(r"^ +\d+ s  make (\w+)(?:, beside others)?$", done.stdout, re.MULTILINE)
    assert passed == [program for program in made if not stops or program != failing]
    assert (
        re.findall(r"^failed after \d+ s: make (\w+)$", done.stdout, re.MULTILINE)
        == [failing][:stops]
    )
    # what ran beside the part that failed, or failed itself
    assert ("\n| make playground\n" in done.stdout) == (failing == "floors")
    assert ("it failed with status 1" in done.stdout) == (failing == "playground")


def test_each_suite_is_a_target_and_no_test_is_in_two():
    makefile = (ROOT / "Makefile").read_text()
    chosen = [re.findall('-m "(.+?)"', recipe) for recipe in re.split(r"\n(?=\w+:)", makefile)]
    assert [{*marks} for marks in chosen if marks] == [{mark} for mark in MARKS.values()]
    workflows = [path.read_text() for path in (ROOT / ".github" / "workflows").glob("*.yml")]
    assert all(re.search(rf"\.ci/run {suite}$", "".join(workflows), re.M) for suite in SUITES)
    assert all("\npermissions:\n" in workflow for workflow in workflows)
    terms = [
        dict.fromkeys(SUITES, False) | dict.fromkeys(marks, True)
        for marks in ((), ("thorough",), ("exhaustive",), ("thorough", "exhaustive"))
    ]
    assert all(sum(eval(mark, {}, term) for mark in MARKS.values()) == 1 for term in terms)


@pytest.mark.parametrize(
    ("file", "made"),
    [
        (
            ".gitignore",
            (".venv", ".venv-lab", "reports", "__pycache__", ".ipynb_checkpoints", "x.egg-info"),
        ),
        (".dockerignore", ("playground/node_modules",)),
    ],
)
def test_what_is_made_is_ignored(file, made):
    patterns = [pattern.strip("/") for pattern in (ROOT / file).read_text().split()]
    for target in made:
        assert any(fnmatch.fnmatch(target, pattern) for pattern in patterns), target


def test_the_architecture_is_the_folder_listing():
    """The table of docs/lab-architecture.md has every package, in the order of the layers' contract."""
    text = (ROOT / "docs" / "lab-architecture.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| *(\d*) *\| `(\w+)` \|", text[text.index("| layer |") :], re.MULTILINE)
    layers = [
        line.split(" | ") for line in PYPROJECT["tool"]["importlinter"]["contracts"][0]["layers"]
    ]
    expected = [
        (str(len(layers) - i) * (package == names[0]), package)
        for i, names in enumerate(layers)
        for package in names
    ]
    assert rows == [*expected, ("", "cuda_src")]
    folders = {
        path.parent.name for path in (ROOT / "labkit").glob("*/*") if path.suffix in (".py", ".cu")
    }
    assert {package for _, package in rows} == folders
