"""Define the command `labkit`: a file per group of sub-commands, and what other packages add.

A sub-command imports what it needs when it runs: `labkit --help` loads neither NumPy nor nbconvert.
Another package adds sub-commands by entry points of the group "labkit.commands": the name of each,
and its function.
"""

from importlib.metadata import entry_points

import labkit
from hostcuda import terminal
from labkit.base import installation
from labkit.cli import course, exercise, machine, measure, reports

app = terminal.application(
    "labkit",
    labkit.__version__,
    "The CUDA convolution lab: the convolution layers of a LeNet, optimized in CUDA C step by step, with or without a "
    "GPU.",
)
for command in (
    course.start,
    machine.doctor,
    machine.device,
    reports.report,
    reports.site,
    reports.store,
    measure.check,
    measure.bench,
):
    app.command()(command)
# JupyterLab reads the arguments that follow
app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})(course.lab)
app.add_typer(exercise.app)
for added in sorted(entry_points(group="labkit.commands")):
    app.command(added.name)(added.load())


def main() -> None:
    """Run the command `labkit`.

    If it needs a package that only the notebooks use, and that is not installed, it ends with a
    message: the package's name, and the command that installs it.
    """
    try:
        terminal.run(app, "labkit")
    except ModuleNotFoundError as error:
        # "nbconvert" of "nbconvert.exporters"
        if (error.name or "").partition(".")[0] not in installation.NOTEBOOKS:
            raise
        terminal.fail(
            "labkit",
            f"this needs {error.name}, which comes with the lab's extra for notebooks: "
            f"{installation.write_install_command()}",
        )
