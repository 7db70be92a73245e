"""Lay out the course in a folder to work in."""

from dataclasses import dataclass
from pathlib import Path

from hostcuda.files import require_writable, write
from labkit.base.paths import course_dir

# The notebooks, and the documents that they link to.
SHIPPED = (
    "notebooks/[!.]*.ipynb",
    "notebooks/[!.]*/[!.]*.ipynb",
    "docs/glossary.md",
    "docs/results.md",
    "docs/images/*",
)


@dataclass
class LaidOut:
    """What `lay_out` has found and done, as paths in the folder."""

    added: list[Path]
    changed: list[Path]  # they were there with another content, and are as they were


def lay_out(folder: Path) -> LaidOut:
    """Copy the notebooks and their documents to a folder, which is made if it is not there.

    A file that is there stays as it is. Returns the paths, relative to the folder, of the files that
    were added, and of those that were there with another content. EngineError if the folder cannot
    be written.
    """
    require_writable(folder)
    laid_out = LaidOut([], [])
    for pattern in SHIPPED:
        for path in sorted(course_dir().glob(pattern)):
            name = path.relative_to(course_dir())
            target = folder / name
            # a link that leads nowhere is there, too, but does not "exist"
            if not (target.exists() or target.is_symlink()):
                require_writable(target.parent)
                write(target, path.read_bytes())
                laid_out.added.append(name)
            elif not (target.is_file() and target.read_bytes() == path.read_bytes()):
                laid_out.changed.append(name)
    return laid_out
