"""The frame of a command in a terminal: what `hostcuda` and `labkit` have in common."""

import errno
import io
import sys
import warnings
from collections.abc import Callable
from typing import Annotated, NoReturn

import typer
from typer.core import TyperGroup

from hostcuda.errors import EngineError

# What may be wrong with any path: a message, and no error of this program.
_PATH_ERRORS = (
    errno.ENAMETOOLONG,
    errno.ELOOP,
    errno.ENOSPC,
    errno.EDQUOT,
    errno.EACCES,
    errno.EPERM,
    errno.EROFS,
)


class _Commands(TyperGroup):
    """A command with sub-commands, which prints the message of an `Interrupted` when Ctrl-C ends it."""

    def invoke(self, ctx: typer.Context) -> object:
        """Run a sub-command; Ctrl-C ends it with its message, if it has one, and exit status 130."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as stop:  # here, because typer itself drops the message
            # without a message only a line break, behind the terminal's ^C
            print(f"{self.name}: {stop}" if str(stop) else "", file=sys.stderr)
            raise typer.Exit(130) from None


def application(name: str, version: str, about: str) -> typer.Typer:
    """Return a command with the option ``--version``, to which sub-commands can be added.

    Parameters
    ----------
    name, version : str
        Printed by ``--version``.
    about : str
        The first lines of its help.
    """
    app = typer.Typer(
        name=name,
        cls=_Commands,  # prints a message when Ctrl-C ends a command
        help=about,
        epilog="HOSTCUDA_ENGINE=cpu or gpu chooses the engine; by default it is the GPU where there is one.",
        context_settings={"help_option_names": ["-h", "--help"]},
        no_args_is_help=True,
        pretty_exceptions_enable=False,  # `run` below writes the messages of errors
        rich_markup_mode=None,  # help in plain text
    )

    def show_version(is_given: bool) -> None:  # typer calls it before it looks at the sub-command
        if is_given:
            print(f"{name} {version}")
            raise typer.Exit

    option = typer.Option(
        "--version", callback=show_version, is_eager=True, help="Print the version and stop."
    )

    @app.callback()
    def options(
        version: Annotated[bool, option] = False,
    ) -> None:  # typer reads --version from this signature
        pass

    return app


def run(app: Callable, name: str) -> None:
    """Run the command `name`; an `EngineError` or a warning becomes one line, and Ctrl-C prints no traceback.

    After an error the exit status is 1, after Ctrl-C 130 (from typer).
    """
    # a terminal without some of our characters gets question marks
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    try:
        with warnings.catch_warnings():
            warnings.showwarning = lambda message, *_: print(
                f"{name}: warning: {message}", file=sys.stderr
            )
            app(prog_name=name)
    except Exception as error:
        if isinstance(error, OSError) and error.errno in _PATH_ERRORS:
            # an error in copying a file names two: filename2 is the one that was written
            path = error.filename2 or error.filename
            fail(name, f"{path}: {error.strerror}" if path else error.strerror or str(error))
        # PyCUDA's and the engine's exceptions say what the user's program did wrong. Any other one is a bug
        # of this program, and keeps its traceback.
        package = type(error).__module__.partition(".")[0]
        if not isinstance(error, EngineError) and package not in ("pycuda", "hostcuda"):
            raise
        fail(name, str(error))


def fail(name: str, message: str) -> NoReturn:
    """Print a message of the command `name`, with its arguments' line breaks escaped, and exit with status 1."""
    # The message may have an argument, "a\nb/c.py", or its folder alone, "a\nb". It stays on one line.
    for given in (
        part
        for word in sys.argv
        for part in (word, word.rpartition("/")[0])
        if not part.isprintable()
    ):
        message = message.replace(given, repr(given)[1:-1])
    print(f"{name}: {message}", file=sys.stderr)
    raise SystemExit(1)


def among(*values: str) -> Callable[[], list[str]]:
    """Return a function that returns the possible values of an option, with which a shell completes it."""
    return lambda: list(values)


Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
