"""The command `python -m recording`: each sub-command writes one part of data/ or docs/."""

import importlib
import sys

import typer

from hostcuda.errors import EngineError
from labkit.base import manifest as digests
from recording.network import errors
from recording.options import Folder
from recording.pytorch import framework
from recording.readme import cards

# Each module has the command of its name.
MODULES = (
    "times",
    "counters",
    "sweep",
    "streams",
    "cudnn",
    "versus",
    "versus_counters",
    "small",
    "network",
    "units",
    "experiments",
    "rings",
    "extension",
    "squares",
    "compare_counters",
    "compare_sanitizers",
    "training",
    "train",
    "pictures",
    "readme",
    "digits",
    "pages",
    "device",
    "version",
)

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
for name in MODULES:
    app.command()(getattr(importlib.import_module(f"recording.{name}"), name))
for command in (framework, errors, cards):
    app.command()(command)


@app.callback()
def _describe_program() -> None:
    """Measure and count what data/ and docs/ hold.

    Results are kept piece by piece: an interrupted command loses only the piece it was at.
    """


@app.command()
def manifest(out: Folder = None) -> None:
    """Accept the files of data/, say what has changed.

    Its digests, data/MANIFEST.sha256, are written anew; the other commands keep them up to date. So this is for
    files that were changed by hand.
    """
    path = (out or digests.data_dir()) / digests.NAME
    for line in digests.problems(out) if path.is_file() else [f"{path} is new"]:
        print(line)
    digests.renew(out)


def main() -> None:
    """Run the command. A `LabError` becomes one line and exit status 1, without a traceback."""
    try:
        app(prog_name="python -m recording")
    except EngineError as error:  # `LabError` is one
        sys.exit(f"recording: {error}")


if __name__ == "__main__":
    main()
