"""Write the engine for a browser: a folder with all files that a page's worker loads.

The compilers come from npm, with the versions and digests in ``js/package-lock.json``. Node runs
them on the engine's own files, and the results are kept in the engine's cache.
"""

from __future__ import annotations

import functools
import gzip
import io
import json
import re
import shutil
import subprocess
import tarfile
import tempfile
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from hostcuda.errors import EngineError
from hostcuda.files import write
from hostcuda.host import cache

_HERE = Path(__file__).parent
_PACKAGE, _JS = _HERE.parent, _HERE / "js"
_MODULES = _JS / "node_modules"
MISSING = f"npm ci --ignore-scripts --prefix {_JS}"
# The engine's Python that compiles kernels: modules, and rooms.
_PYTHON = (
    "__init__",
    "errors",
    "files",
    "findings",
    "limits",
    "metrics",
    "processor",
    "settings",
    "source",
    "temporary",
)
_ROOMS = ("build", "check", "frontend", "host", "loops", "wasm")
_OWN = (
    "engine.mjs",
    "worker.mjs",
    "service.mjs",
    "compiler.mjs",
    "instance.mjs",
    "kernel.mjs",
    "asyncify.mjs",
    "half.mjs",
)
# modules that each page imports, in this order
_STARTED = ("hostcuda.wasm.boot", "hostcuda.wasm.page")
_CLANG, _PYODIDE = _MODULES / "@yowasp" / "clang" / "gen", _MODULES / "pyodide"
_PLAIN = {
    "clang/bundle.js": _CLANG / "bundle.js",
    **{f"clang/llvm.core{number}.wasm": _CLANG / f"llvm.core{number}.wasm" for number in (2, 3, 4)},
    **{
        f"pyodide/{name}": _PYODIDE / name
        for name in ("pyodide.mjs", "pyodide.asm.mjs", "pyodide-lock.json")
    },
}
_BINARYEN = _MODULES / "binaryen" / "index.js"
# Stored compressed, so that a visitor's download is small whatever the server does.
_LARGE = {
    "clang/llvm.core.wasm": _CLANG / "llvm.core.wasm",
    "clang/llvm-resources.tar": _CLANG / "llvm-resources.tar",
    "pyodide/pyodide.asm.wasm": _PYODIDE / "pyodide.asm.wasm",
    "pyodide/python_stdlib.zip": _PYODIDE / "python_stdlib.zip",
}
_NEEDED = (
    "include/c++/v1/",
    "include/wasm32-wasip1/",
    "lib/wasm32-wasip1/",
    "lib/wasm32-unknown-wasip1/",
)
# the compiler's own headers
_OF_C = tuple(f"include/{name}" for name in ("st", "__", "li", "fl", "in"))
_NOT_NEEDED = ("include/c++/v1/__cxx03/", "include/wasm32-wasip1/wasi/")
_LICENCES = """\
What this folder ships, beside the lab itself (MIT):

{packages}
@yowasp/clang holds clang and lld, of LLVM (Apache-2.0 with LLVM exceptions), its C++ library and compiler-rt (the
same), and wasi-libc (Apache-2.0 with LLVM exceptions, Apache-2.0, MIT). pyodide (MPL-2.0; its source:
https://github.com/pyodide/pyodide) holds CPython {python} (PSF-2.0). The texts of these licences follow.
"""


def missing() -> str:
    """Return what is not installed, and the command that installs it; empty if everything is there."""
    if not shutil.which("node"):
        return "the playground's compilers need node: install Node.js 20 or newer"
    absent = [
        path.name for path in (*_PLAIN.values(), *_LARGE.values(), _BINARYEN) if not path.is_file()
    ]
    return f"the playground's compilers are not installed: {MISSING}" if absent else ""


def write_engine(
    out: Path,
    more: Mapping[str, bytes] | None = None,
    data: Mapping[str, bytes] | None = None,
    modules: Iterable[str] = (),
) -> None:
    """Write into a folder all files of the engine that a web page needs to compile and run kernels in the browser.

    EngineError if something is not installed, or the engine's files do not compile.

    Parameters
    ----------
    out : Path
    more : mapping of str to bytes
        Further files for Python's path in the page, by their names.
    data : mapping of str to bytes
        Further files of the folder, which `Service` (js/service.mjs) fetches.
    modules : iterable of str
        Modules among `more` that a page imports at its start, besides the engine's.
    """
    if why := missing():
        raise EngineError(why)
    for name in _OWN:
        write(out / name, (_JS / name).read_bytes())
    for name, path in _PLAIN.items():
        write(out / name, path.read_bytes())
    # Binaryen's JavaScript holds its WebAssembly as a string: they become two files
    write(out / "binaryen.js", _remove_wasm(_BINARYEN.read_text(encoding="utf-8")))
    python = _zip({**engine_files(), **(more or {})})
    own = {
        "python.zip": python,
        "cache.zip": _compile_engine(),
        # the memory of a Python that has imported all modules: a page that loads it need not start one
        "memory.bin": _start_python(python, (*_STARTED, *modules)),
        "binaryen.wasm": _unpack_binaryen(),
        **(data or {}),
    }
    # mtime=0: the same content gives the same file
    packed = {name: _compress(path) for name, path in _LARGE.items()}
    packed |= {name: gzip.compress(content, 6, mtime=0) for name, content in own.items()}
    for name, content in packed.items():
        write(out / f"{name}.z", content)
    # name -> (compressed bytes, bytes); a gzip file ends with the size of what it holds
    sizes = {
        name: (len(content), int.from_bytes(content[-4:], "little"))
        for name, content in packed.items()
    }
    write(out / "sizes.json", json.dumps(sizes))
    write(out / "licences.txt", _list_licences())


def engine_files() -> dict[str, bytes]:
    """Return the engine's files for Python's path in the browser, {name: content}; some replace those for Linux."""
    # `_PYTHON` has the names of modules, `_ROOMS` those of packages
    files = {f"hostcuda/{name}.py": _PACKAGE / f"{name}.py" for name in _PYTHON}
    for part in _ROOMS:
        files |= {
            f"hostcuda/{part}/{path.name}": path for path in sorted((_PACKAGE / part).glob("*.py"))
        }
    for part in ("include", "runtime"):
        # files of the second folder, for WebAssembly, replace Linux's of the first
        for place in (_PACKAGE / part, _HERE / part):
            files |= {
                f"hostcuda/{part}/{path.relative_to(place).as_posix()}": path
                for path in sorted(place.rglob("*"))
                if path.is_file() and "__pycache__" not in path.parts and path.suffix != ".py"
            }
    return {name: path.read_bytes() for name, path in files.items()}


def _zip(files: Mapping[str, bytes]) -> bytes:
    """Return a zip file of contents by name; the same files give the same bytes: sorted, with a fixed date."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_STORED) as whole:
        for name, content in sorted(files.items()):
            whole.writestr(zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0)), content)
    return data.getvalue()


def _compress(path: Path) -> bytes:
    """Return a file from npm, compressed; of the compiler's archive only the files that kernels need."""

    def write_compressed(to: Path) -> None:
        """Write the compressed content to the file `to`."""
        data = _trim_archive(path) if path.suffix == ".tar" else path.read_bytes()
        to.write_bytes(gzip.compress(data, 6, mtime=0))

    name = f"wasm-{cache.digest(path.name, path.stat().st_size, *_key())[:24]}.z"
    return cache.obtain(name, write_compressed).read_bytes()


def _trim_archive(path: Path) -> bytes:
    """Return the tar archive of the compiler's files without those that no kernel needs."""
    content, parts = path.read_bytes(), []
    block = 512  # bytes: whole blocks are copied, and a file's last one is padded
    with tarfile.open(path) as archive:
        for member in archive:
            name = member.name
            of_c = name.count("/") == 1 and name.startswith(_OF_C)
            if (
                member.isdir()
                or of_c
                or (name.startswith(_NEEDED) and not name.startswith(_NOT_NEEDED))
            ):
                parts.append(
                    content[member.offset : member.offset_data + -(-member.size // block) * block]
                )
    return b"".join([*parts, bytes(2 * block)])  # two empty blocks end an archive


def _compile_engine() -> bytes:
    """Return a zip file with the engine's runtime and the header for kernels, compiled; the cache keeps it."""
    files = engine_files()

    def compile_files(to: Path) -> None:
        """Compile in node, and write the zip file to `to`."""
        failure = "the engine's own files do not compile to WebAssembly"
        _run_python(failure, _zip(files), "compile", to)

    # the last has the compiler's flags
    inputs = ("include/", "runtime/", "host/", "build/", "check/mode", "wasm/toolchain")
    parts = [
        part
        for name, data in files.items()
        if name.startswith(tuple(f"hostcuda/{prefix}" for prefix in inputs))
        for part in (name, data)
    ]
    name = f"wasm-{cache.digest(*parts, *_key('build.mjs', 'compiler.mjs'))[:24]}.zip"
    return cache.obtain(name, compile_files).read_bytes()


def _start_python(python: bytes, modules: Iterable[str]) -> bytes:
    """Return Python's memory after it has started and imported modules of the zip file `python`; the cache keeps it."""

    def start(to: Path) -> None:
        """Start Python in node, and write its memory to the file `to`."""
        _run_python("Python does not start", python, "start", to, *modules)

    name = f"wasm-{cache.digest(python, *modules, *_key('build.mjs', 'compiler.mjs'))[:24]}.bin"
    return cache.obtain(name, start).read_bytes()


def _unpack_binaryen() -> bytes:
    """Return the WebAssembly that Binaryen's JavaScript holds as a string; the cache keeps it."""
    name = f"wasm-{cache.digest(*_key('unpack.mjs'))[:24]}.wasm"
    # a function of the path to write to
    make = functools.partial(_run, "the WebAssembly of binaryen is not found", "unpack.mjs")
    return cache.obtain(name, make).read_bytes()


def _run_python(failure: str, python: bytes, task: str, *arguments: Path | str) -> None:
    """Run a task of ``js/build.mjs``, "compile" or "start", with the zip file `python` on Python's path.

    EngineError that begins with `failure` if it fails.
    """
    with tempfile.TemporaryDirectory() as folder:
        archive = Path(folder, "python.zip")
        archive.write_bytes(python)
        _run(failure, "build.mjs", archive, task, *arguments)


def _run(failure: str, script: str, *arguments: Path | str) -> None:
    """Run a script of ``js/`` in node; raise an EngineError that begins with `failure` if it fails."""
    result = subprocess.run(
        ["node", _JS / script, *arguments], capture_output=True, text=True, check=False
    )
    if result.returncode:
        raise EngineError(f"{failure}:\n{result.stderr.strip()}")


def _remove_wasm(text: str) -> str:
    """Return Binaryen's JavaScript without its string of WebAssembly; it exports the function that starts it."""
    for pattern, new in ((r"`\\0asm(?:[^`\\]+|\\.)*`", "``"), (r"=await (\w+)\(\)", r"=\1")):
        text, count = re.subn(pattern, new, text, flags=re.DOTALL)
        if count != 1:
            raise EngineError(f"binaryen is not what it was: {pattern} was found {count} times")
    return text


def _key(*scripts):
    """Return what the results of scripts of ``js/`` depend on: the packages' versions, and the scripts' texts."""
    return [(_JS / name).read_bytes() for name in ("package-lock.json", *scripts)]


def _list_licences() -> str:
    """Return the text of ``licences.txt``: what the folder ships, with its versions and licences."""
    packages = json.loads((_JS / "package-lock.json").read_bytes())["packages"]
    shipped = {
        name.removeprefix("node_modules/"): facts
        for name, facts in packages.items()
        if name.removeprefix("node_modules/") in ("@yowasp/clang", "binaryen", "pyodide")
    }
    lines = "".join(
        f"{name} {facts['version']}: {facts['license']}\n" for name, facts in shipped.items()
    )
    version = json.loads((_PYODIDE / "pyodide-lock.json").read_text())["info"]["python"]
    texts = licence_texts() | {"binaryen": (_MODULES / "binaryen" / "LICENSE").read_text()}
    parts = (f"\n{'-' * 100}\n{name}\n\n{text}" for name, text in sorted(texts.items()))
    return _LICENCES.format(packages=lines, python=version) + "".join(parts)


def licence_texts() -> dict[str, str]:
    """Return the texts of licences that packages of npm leave out, by what they are for: "llvm", "cpython", ..."""
    folder = Path(__file__).with_name("licences")
    return {path.stem: path.read_text(encoding="utf-8") for path in folder.glob("*.txt")}
