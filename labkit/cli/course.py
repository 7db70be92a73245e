"""Commands for the course's folder: start, lab."""

import contextlib
import importlib.util
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

import labkit
from labkit.base import installation
from labkit.base.errors import LabError
from labkit.base.paths import PACKAGE

# The options with which JupyterLab gets the lab's own extension and settings.
JUPYTERLAB = (
    f"--LabApp.extra_labextensions_path={PACKAGE / 'page' / 'labextensions'}",
    f"--LabApp.app_settings_dir={PACKAGE / 'page' / 'labsettings'}",
)


def start(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="The folder to work in; it is made.")
    ],
) -> None:
    """Lay out the notebooks in a folder, to work in.

    Nothing is overwritten: a second call adds what is missing.
    """
    from labkit.notebooks.course import lay_out

    done = lay_out(folder)
    count = len(done.added)
    print(f"{folder}: {count or 'no'} file{'s' * (count != 1)} added")
    if done.changed:
        names = ", ".join(map(str, done.changed))
        print(
            f"These are not the lab's of version {labkit.__version__}, and stay as they are: {names}"
        )
    if not installation.find_checkout():
        print(f'To open it: cd "{folder}" && labkit lab')


def lab(context: typer.Context) -> None:
    """Open the notebooks of the current folder in JupyterLab.

    JupyterLab's own options can follow: --no-browser --port 9000.
    """
    from nbformat import sign

    from labkit.notebooks import execute

    pages = execute.list_notebooks()
    if importlib.util.find_spec("jupyterlab") is None:
        command = installation.write_install_command("lab")
        raise LabError(f"JupyterLab is not installed: {command}")
    notary = sign.NotebookNotary()
    for path in pages:  # only of a signed notebook does JupyterLab show all stored outputs
        with contextlib.suppress(LabError):  # JupyterLab says what is wrong with a file
            notary.sign(execute.read(path).nb)
    os.chdir(execute.folder().parent)
    # JUPYTERLAB: options for the lab's own extension. Without --allow-root JupyterLab refuses to run as root.
    options = [*JUPYTERLAB, "--notebook-dir=.", *["--allow-root"] * (os.geteuid() == 0)]
    command = [sys.executable, "-m", "jupyterlab", *options, *context.args]
    os.execv(sys.executable, [*command, f"notebooks/{execute.FIRST}"])
