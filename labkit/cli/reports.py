"""Commands for the notebooks and their pages: report, site, store."""

from pathlib import Path
from typing import Annotated

import typer

from hostcuda import files
from labkit.cli.options import Use

Notebooks = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="NOTEBOOK", help='A file, a name ("01_baseline") or a number ("1"); all by default.'
    ),
]


def report(
    notebook: Notebooks = None,
    stored: Annotated[
        bool,
        typer.Option(
            "--stored", help="Export the outputs stored in the notebooks; execute nothing."
        ),
    ] = False,
    fresh: Annotated[
        bool,
        typer.Option(
            "--fresh", help="Execute notebooks that have not changed since the last time, too."
        ),
    ] = False,
    companions: Annotated[
        bool,
        typer.Option(
            "--all", help="Execute the closer looks, too; else their pages show the stored outputs."
        ),
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="The folder to write to; reports/ by default."),
    ] = None,
    engine: Use = None,
) -> None:
    """Execute the notebooks and write pages that need no network.

    They run side by side, one per core; a cell that measures has the machine alone. The closer
    looks are executed with --all, or by name.
    """
    from labkit.notebooks import html

    # `engine` was used when the option was read: `Use`. `companions`: the closer looks, notebooks that
    # belong to another one and may be skipped. (): all notebooks.
    with _Bar() as bar:
        pages = html.make(
            notebook or (), out, stored=stored, progress=bar, fresh=fresh, companions=companions
        )
    print(pages[0].path.parent / "index.html")
    if any(page.failure for page in pages):
        raise typer.Exit(1)


def site(
    out: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="The folder to write to.")
    ] = Path("build/site"),
    repository: Annotated[
        str | None,
        typer.Option(
            "--repository", metavar="OWNER/NAME", help="Where the lab is published on GitHub."
        ),
    ] = None,
) -> None:
    """Write the site: stored report, documents, API reference.

    Its pages load nothing from elsewhere. Exit status 1 if a link leads nowhere.
    """
    from labkit.notebooks import site

    # The first file is index.html. A link that leads nowhere raises an EngineError, which ends the
    # command with status 1.
    print(site.make(out, repository)[0])
    if not (out / "playground").is_dir():
        typer.echo("without the playground: `make playground` builds it", err=True)


def store(
    notebook: Notebooks = None,
    as_is: Annotated[
        bool, typer.Option("--as-is", help="Execute nothing; rewrite the files in canonical form.")
    ] = False,
    engine: Use = None,
) -> None:
    """Execute the notebooks and store their outputs in them.

    In canonical form: no metadata but tags and where the outputs were made. A notebook that fails
    is left alone.
    """
    from labkit.notebooks import execute

    # `engine` was used when the option was read: `Use`. (): all notebooks
    chosen = [execute.read(path) for path in execute.find(notebook or ())]
    for item in chosen:
        files.require_writable(item.path.parent)  # raises now, before minutes of work
    with _Bar() as bar:
        for item in chosen:
            bar.start(item)
            if not as_is:
                execute.run(item, bar)
            if not item.failure:
                execute.store(item)
            bar.finish(item)
    if any(item.failure for item in chosen):
        raise typer.Exit(1)


class _Bar:
    """The progress of a report: a bar for each notebook that runs, one line for each finished one.

    `labkit.notebooks` calls `start`, `cell` after each cell, and `finish`, with a notebook that has
    a name and, in the end, `seconds`, `since` (when it was executed, if that result was kept; else
    "") and `failure` or None.
    """

    def __enter__(self):
        """Draw the bars on the standard error output if that is a terminal; return self."""
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
        )

        self.tasks = {}
        self.console = Console(highlight=False, stderr=True)
        self.bar = Progress(
            TextColumn("  {task.description}"),
            BarColumn(30),
            MofNCompleteColumn(),
            TextColumn("cells"),
            TimeElapsedColumn(),
            console=self.console,
            transient=True,
        )
        if self.console.is_terminal:
            self.bar.start()
        return self

    def __exit__(self, *error):
        """Stop the bar, if there is one: a file and a pipe have none."""
        if self.console.is_terminal:
            self.bar.stop()

    def start(self, notebook):
        """Show a bar for a notebook that starts."""
        self.tasks[notebook] = self.bar.add_task(notebook.name, total=None)

    def cell(self, notebook, done, total):
        """Move a notebook's bar: `done` of a `total` of code cells have run."""
        self.bar.update(self.tasks[notebook], completed=done, total=total)

    def finish(self, notebook):
        """Remove a notebook from the progress bar; print its time, or its failure.

        A notebook of which a kept result was used has `since`, the date of that execution.
        """
        self.bar.remove_task(self.tasks.pop(notebook))
        took = f"  {notebook.seconds:.0f} s" if notebook.seconds else ""
        if notebook.since:
            took = f"  unchanged since its execution of {notebook.since}"
        if notebook.failure:
            self.console.print(f"[red]✗[/] {notebook.name}{took}")
            # without markup: a message may have brackets, as in x[i]
            self.console.print(
                f"  {notebook.failure.message}", markup=False, style="red", soft_wrap=True
            )
        else:
            self.console.print(f"[green]✓[/] {notebook.name}{took}")
