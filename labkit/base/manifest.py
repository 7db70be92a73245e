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

    Raises LabError if it cannot be read, or if its SHA-256 is not the one in the manifest of its folder:
    the list of the SHA-256 of all files there. A folder may have no manifest: its files are not checked.
    """
    try:
        content, root = path.read_bytes(), _find_root(path)
        if root and not _is_listed(root, path, content):
            # `write` of another process may have written the file, but not yet its line of the manifest:
            # look again when it has released the lock
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
    """Write a file, whole or not at all; return its path.

    If its folder has a manifest, the list of the SHA-256 of all files there, its line is written, too.
    """
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
    """Return a sentence, such as "a.csv is missing", for each file of a folder that is not as its manifest says.

    The manifest lists the SHA-256 of each file. The folder is `data/` by default.
    """
    root = root or data_dir()
    listed, present = digests(root), _hash_files(root)  # file name -> SHA-256
    found = []
    for name in sorted(listed.keys() | present.keys()):
        if name not in present:
            found.append(f"{name} is missing")
        elif name not in listed:
            found.append(f"{name} is not in {NAME}")
        elif listed[name] != present[name]:
            found.append(f"{name} is damaged")
    return found


def renew(root: Path | None = None) -> None:
    """Write the manifest of a folder, by default `data/`, anew: the SHA-256 of each file that is there."""
    root = root or data_dir()
    # so that `write` of another process does not change a file or the manifest in between
    with files.locked(root / NAME):
        _write_manifest(root, _hash_files(root))


def digests(root: Path) -> dict[str, str]:
    """Return file name -> SHA-256 as the manifest of a folder lists them.

    Raises LabError if the manifest is missing or damaged. The files are not read.
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
        digest, name = line.groups()
        listed[name] = digest
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
