"""Texts between markers: what a script measured, written into README.md by that script.

In a Markdown file, a part that a script owns stands between two comments:

    <!-- timings:begin -->
    ...
    <!-- timings:end -->

From another script: ``readme.put("timings", text)``. From a shell: ``some-command | python -m labkit.recording.readme timings``.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))  # scripts run from a checkout, installed or not

from labkit.base.errors import LabError  # noqa: E402
from labkit.base.files import write  # noqa: E402

README = ROOT / "README.md"


def put(name: str, text: str, path: Path = README) -> bool:
    """Replace what stands between the markers `name` in a Markdown file; the file is whole at any moment.

    Parameters
    ----------
    name : str
        As in ``<!-- name:begin -->``.
    text : str
        Markdown, without the markers.
    path : Path

    Returns
    -------
    bool
        Whether the file changed.

    Raises
    ------
    LabError
        The file lacks the pair of markers, or has it more than once.
    """
    old = Path(path).read_text(encoding="utf-8")
    begin, end = f"<!-- {name}:begin -->", f"<!-- {name}:end -->"
    if (old.count(begin), old.count(end)) != (1, 1) or old.index(begin) > old.index(end):
        raise LabError(f"{path} needs one line {begin} and one line {end} after it")
    pattern = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.DOTALL)
    new = pattern.sub(lambda _: f"{begin}\n{text.strip()}\n{end}", old)
    if new != old:
        write(path, new)
    return new != old


def main() -> None:
    """Put standard input between the markers that the first argument names."""
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit(f"usage: some-command | {sys.argv[0]} NAME    (fills <!-- NAME:begin --> ... in README.md)")
    try:
        changed = put(sys.argv[1], sys.stdin.read())
    except LabError as error:
        sys.exit(str(error))
    print(f"README.md: {sys.argv[1]} {'written' if changed else 'was up to date'}")


if __name__ == "__main__":
    main()
