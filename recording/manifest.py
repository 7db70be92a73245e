"""The manifest of data/, written anew by this command; the other commands keep it up to date."""

from labkit.base import manifest as kept
from recording.options import Folder


def manifest(out: Folder = None) -> None:
    """Accept the files of data/, say what has changed.

    Its digests, data/MANIFEST.sha256, are written anew.
    """
    there = (out or kept.data_dir()) / kept.NAME
    for line in kept.problems(out) if there.is_file() else [f"{there} is new"]:
        print(line)
    kept.renew(out)
