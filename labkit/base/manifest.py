"""The manifest of `data/`: the SHA-256 of each file that the lab reads there, in the format of `sha256sum`.

A file is used only if its content is what was recorded. Each recorder writes a file and its line of
the manifest. A folder in place of `data/` is checked, too, if it has a manifest.
"""

import hashlib
import re
from pathlib import Path

from hostcuda import files
from labkit.base.errors import LabError
from labkit.base.installation import find_checkout, write_restore_command
from labkit.base.paths import data_dir

NAME = "MANIFEST.sha256"
_DEEPEST = 3  # folders from a file to the manifest: counters/exact/
_LINE = re.compile(r"([0-9a-f]{64})  (\S.*)")


def read(path: Path) -> bytes:
    """Return the content of a file.

    Raises LabError if it cannot be read, or is not what its manifest says: the list of the SHA-256 of
    all files of its folder, if there is one.
    """
    try:
        content, root = path.read_bytes(), _find_root(path)
        if root and not _is_listed(root, path, content):
            # `write` of another process may have written the file, but not its line
            with files.locked(root / NAME):
                content = path.read_bytes()
                if not _is_listed(root, path, content):
                    raise LabError(
                        f"{path} is damaged: its SHA-256 is not that of {NAME}. {_remedy(root, path)}"
                    )
        return content
    except OSError as error:
        remedy = f". {_remedy(root, path)}" if (root := _find_root(path)) else ""
        raise LabError(f"cannot read {path}: {error.strerror}{remedy}") from None


def write(path: Path | str, content: str | bytes) -> Path:
    """Write a file, whole or not at all, and its line of the manifest if its folder has one; return the file."""
    root = _find_root(Path(path))
    if root is None:
        return files.write(path, content)
    with files.locked(root / NAME):
        recorded = digests(root)  # before the file is written: it raises if the manifest is damaged
        files.write(path, content)
        digest = hashlib.sha256(Path(path).read_bytes()).hexdigest()
        _write_manifest(root, recorded | {_relative_name(root, path): digest})
    return Path(path)


def problems(root: Path | None = None) -> list[str]:
    """Return "a.csv is missing" or the like for each file of a folder, by default `data/`, that is not as listed."""
    root = root or data_dir()
    listed, present = digests(root), _hash_files(root)
    return [
        f"{name} {'is missing' if name not in present else 'is damaged' if name in listed else f'is not in {NAME}'}"
        for name in sorted(listed.keys() | present.keys())
        if listed.get(name) != present.get(name)
    ]


def renew(root: Path | None = None) -> None:
    """Write the manifest of a folder, by default `data/`, anew from the files that are there."""
    root = root or data_dir()
    with files.locked(root / NAME):
        _write_manifest(root, _hash_files(root))


def digests(root: Path) -> dict[str, str]:
    """Return file name -> SHA-256 as the manifest of a folder lists them.

    Raises LabError if it is damaged.
    """
    try:
        lines = [
            _LINE.fullmatch(line) for line in (root / NAME).read_text(encoding="utf-8").splitlines()
        ]
    except (OSError, ValueError) as error:
        raise LabError(
            f"cannot read {root / NAME} ({error}). {_remedy(root, root / NAME)}"
        ) from None
    listed = {}
    for number, line in enumerate(lines, 1):
        if line is None:
            raise LabError(
                f"{root / NAME} is damaged: line {number} is not a digest and a file. "
                f"{_remedy(root, root / NAME)}"
            )
        listed[line[2]] = line[1]
    return listed


def _find_root(path: Path) -> Path | None:
    """Return the folder whose manifest a file belongs to; None for files of folders that have none."""
    parents, own = path.resolve().parents, data_dir().resolve()
    # Any depth of data/; of another folder, as in a test or for a reader's own records, the nearest
    # manifest.
    return (
        own
        if own in parents
        else next((folder for folder in parents[:_DEEPEST] if (folder / NAME).is_file()), None)
    )


def _relative_name(root: Path, path: Path | str) -> str:
    """Return a file's name as the manifest of `root` writes it: "weights/lenet86.npz"."""
    return Path(path).resolve().relative_to(root.resolve()).as_posix()


def _is_listed(root: Path, path: Path, content: bytes) -> bool:
    """Return whether the manifest of `root` lists the file `path` with the digest of this content."""
    return digests(root).get(_relative_name(root, path)) == hashlib.sha256(content).hexdigest()


def _hash_files(root: Path) -> dict[str, str]:
    """Return file name -> SHA-256 of all files in a folder, without hidden ones and README.md, for people only."""
    return {
        _relative_name(root, path): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in root.rglob("*")
        if path.is_file() and path.name not in (NAME, "README.md") and not path.name.startswith(".")
    }


def _write_manifest(root: Path, recorded: dict[str, str]) -> None:
    """Write the manifest of a folder from file name -> SHA-256, a line per file in the order of the names."""
    files.write(
        root / NAME, "".join(f"{digest}  {name}\n" for name, digest in sorted(recorded.items()))
    )


def _remedy(root: Path, path: Path) -> str:
    """Return the sentence that says how to restore the file `path`, which the manifest of `root` contradicts."""
    # A folder in place of data/ is a copy of it: the file's original has the same name in data/.
    name = f"data/{_relative_name(root, path)}"
    own = root.resolve() == data_dir().resolve()
    accept = (
        "; if it was recorded on purpose, accept it with `python -m recording manifest`"
        if find_checkout()
        else ""
    )
    return (
        f"Restore it with `{write_restore_command(name)}`{accept}"
        if own
        else f"Copy it there again from a good one; the lab's own comes back with `{write_restore_command(name)}`"
    )
