"""The command `labkit`.

A sub-command imports what it needs when it runs: `labkit --help` loads neither NumPy nor nbconvert.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer
from typer.core import TyperGroup

import labkit
from labkit.base import files, installation
from labkit.base.errors import LabError


class _Commands(TyperGroup):
    def invoke(self, ctx: typer.Context) -> object:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as stop:  # here, because typer itself drops the message
            print(f"labkit: {stop}" if str(stop) else "", file=sys.stderr)
            raise typer.Exit(130) from None


app = typer.Typer(
    name="labkit",
    cls=_Commands,
    help="The CUDA convolution lab: the convolution layers of a LeNet, optimized in CUDA C step by step, with or "
    "without a GPU.",
    epilog="LABKIT_ENGINE=cpu or gpu chooses the engine; by default it is the GPU where there is one.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

Notebooks = Annotated[
    list[str] | None,
    typer.Argument(metavar="NOTEBOOK", help='A file, a name ("01_baseline") or a number ("1"); all by default.'),
]


def _among(*values: str) -> Callable[[], list[str]]:
    """What shells complete the value of an option to."""
    return lambda: list(values)


def _use(engine: str | None) -> str | None:
    """Let this process, and those that it starts, use an engine; before anything asks for the device."""
    if engine:
        os.environ["LABKIT_ENGINE"] = engine
    return engine


Use = Annotated[
    str | None,
    typer.Option(
        "--engine",
        metavar="cpu|gpu",
        autocompletion=_among("cpu", "gpu"),
        callback=_use,
        help="The GPU, where there is one, by default.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Csv = Annotated[Path | None, typer.Option("--csv", metavar="FILE", help="Write the table to FILE, too.")]


def main() -> None:
    """Run the command. A `LabError` becomes one line and exit status 1, Ctrl-C status 130, without a traceback."""
    for stream in (sys.stdout, sys.stderr):  # a terminal without some of our characters gets the others
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    try:
        app(prog_name="labkit")
    except LabError as error:
        _fail(str(error))
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in installation.NOTEBOOKS:
            raise
        _fail(f"this needs {error.name}, which comes with the lab's extra for notebooks: {installation.notebooks()}")
    except Exception as error:
        if type(error).__module__.partition(".")[0] not in ("pycuda", "labkit"):  # of an engine: a message
            raise
        _fail(str(error))


def _fail(message: str) -> None:
    print(f"labkit: {message}", file=sys.stderr)
    raise SystemExit(1)


def _version(asked: bool) -> None:
    if asked:
        print(f"labkit {labkit.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    pass


@app.command()
def doctor(
    json: Json = False,
) -> None:
    """List what this machine has and lacks, with a remedy for each. Exit status 1 if the lab cannot run."""
    from labkit.report import doctor

    report = doctor.examine()
    if json:
        from json import dumps

        print(dumps(report.as_dict(), indent=2, ensure_ascii=False))
    else:
        doctor.show(report)
    raise typer.Exit(0 if report.ready else 1)


@app.command()
def device(engine: Use = None, json: Json = False) -> None:
    """Describe the device that kernels run on."""
    found = labkit.device()
    if json:
        from dataclasses import asdict
        from json import dumps
        from math import inf

        known = {name: None if value == inf else value for name, value in asdict(found).items()}  # JSON has no infinity
        print(dumps(known, indent=2, ensure_ascii=False, default=str))
    else:
        print(found)


@app.command()
def grade(
    submissions: Annotated[
        list[Path],
        typer.Argument(metavar="SUBMISSION...", help="Notebooks, .cu files (04a.cu in a student's folder, or "
                       "alice_04a.cu), or folders of them."),
    ],
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="The folder to write to.")] = Path("grades"),
    json: Annotated[bool, typer.Option("--json", help="Print the results as JSON, too.")] = False,
    ranking: Annotated[bool, typer.Option("--ranking", help="Write a page that ranks those who met a goal.")] = False,
    jobs: Annotated[
        int | None, typer.Option("--jobs", metavar="N", min=1, help="Submissions at a time; by default one per core.")
    ] = None,
    unsafe: Annotated[
        bool, typer.Option("--unsafe", help="Run others' kernels without a sandbox where there is none.")
    ] = False,
) -> None:  # fmt: skip
    """Grade what students have handed in: a table, a page for each.

    Each kernel runs in a sandbox. A run that was stopped goes on where it was; what has not changed is not graded
    again.
    """
    from collections import Counter
    from json import dumps

    from tqdm import tqdm

    from labkit.exercises import classroom
    from labkit.exercises.submissions import submissions as handed_in
    from labkit.report import grades

    found = handed_in(submissions)
    with tqdm(total=len(found), unit="submission", file=sys.stderr, disable=None) as bar:
        results = classroom.grade_all(found, out, jobs, unsafe, lambda result: bar.update())
    written = grades.write_all(classroom.read_results(out), out, ranking)  # those of earlier runs, too
    if json:
        print(dumps([vars(each) for each in results], indent=1))
    else:
        for verdict, count in Counter(each.verdict for each in results if each.lines).most_common():
            print(f"{count:5}  {verdict}")
        if ungraded := [each for each in results if not each.lines]:
            print(f"{len(ungraded):5}  not graded:")
        for each in ungraded:
            print(f"{'':7}{' '.join(filter(None, [each.student, each.exercise]))}: {each.verdict}")
        students = len({each.student for each in results})
        print(f"{written[0]}, and a page for {f'each of {students} students' if students > 1 else 'one student'}")


@app.command()
def student(
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="A new folder.")] = Path("build/student"),
    nbgrader: Annotated[bool, typer.Option("--nbgrader", help="Mark the exercises' cells for nbgrader.")] = False,
) -> None:
    """Write an edition of the lab without solutions."""
    from labkit.report import student

    files = student.write_edition(out, nbgrader)
    print(f"{out}: {len(files)} files")


@app.command()
def colab(
    repository: Annotated[
        str, typer.Argument(metavar="OWNER/NAME", help="Where the lab is published on GitHub.")
    ],
    out: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="The folder to write to.")
    ] = Path("build/colab"),
    requirement: Annotated[
        str | None, typer.Option("--install", metavar="WHAT", help="What pip installs; the repository by default.")
    ] = None,
) -> None:
    """Write an edition for Google Colab.

    Each notebook installs the lab in its first cell. Push the folder to the branch "colab"; the command prints the
    badge that opens its first page.
    """
    from labkit.report import colab

    files = colab.write_edition(out, repository, requirement)
    print(f"{out}: {len(files)} notebooks", colab.badge(repository, "notebooks/00_start_here.ipynb"), sep="\n")


@app.command()
def report(
    notebook: Notebooks = None,
    stored: Annotated[
        bool, typer.Option("--stored", help="Export the outputs stored in the notebooks; execute nothing.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="The folder to write to; reports/ by default.")
    ] = None,
    engine: Use = None,
) -> None:
    """Execute the notebooks and write HTML pages that need no network."""
    from labkit.report import html

    with _Bar() as bar:
        pages = html.make(notebook or (), out, stored=stored, progress=bar)
    print(pages[0].path.parent / "index.html")
    if any(page.failure for page in pages):
        raise typer.Exit(1)


@app.command()
def site(
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="The folder to write to.")] = Path("build/site"),
    repository: Annotated[
        str | None, typer.Option("--repository", metavar="OWNER/NAME", help="Where the lab is published on GitHub.")
    ] = None,
) -> None:
    """Write the site: stored report, documents, API reference.

    Its pages load nothing from elsewhere. Exit status 1 if a link leads nowhere.
    """
    from labkit.report import site

    print(site.make(out, repository)[0])


@app.command()
def store(
    notebook: Notebooks = None,
    as_is: Annotated[
        bool, typer.Option("--as-is", help="Execute nothing; rewrite the files in canonical form.")
    ] = False,
    engine: Use = None,
) -> None:
    """Execute the notebooks and store their outputs in them.

    In canonical form: no metadata but tags and where the outputs were made. A notebook that fails is left alone.
    """
    from labkit.report import execute

    chosen = [execute.read(path) for path in execute.find(notebook or ())]
    for each in chosen:
        files.require_writable(each.path.parent)  # before minutes of work
    with _Bar() as bar:
        for each in chosen:
            bar.start(each)
            if not as_is:
                execute.run(each, bar)
            if not each.failure:
                execute.store(each)
            bar.finish(each)
    if any(each.failure for each in chosen):
        raise typer.Exit(1)


@app.command()
def check(
    rung: Annotated[list[int], typer.Argument(metavar="N", help="Numbers of rungs.")],
    source: Annotated[
        Path | None, typer.Option(metavar="FILE.cu", help="A kernel of your own in place of the rung's.")
    ] = None,
    sanitize: Annotated[
        bool, typer.Option("--sanitize", help="Search for races, invalid addresses and uninitialized memory, too.")
    ] = False,
    engine: Use = None,
    json: Json = False,
) -> None:
    """Check that rungs compute the convolution, on odd shapes."""
    import pandas as pd

    reports = [
        labkit.check(labkit.variant(number, source=source), sanitize=sanitize, quiet=json) for number in rung
    ]
    if json:
        print(_rows(pd.concat([each.table.assign(variant=each.label) for each in reports])))


@app.command()
def bench(
    rung: Annotated[list[int], typer.Argument(metavar="N", help="Numbers of rungs.")],
    layer: Annotated[str, typer.Option(metavar="NET-L", help='"lenet86-1", "lenet86-2", "lenet72-1", …')] = "lenet86-2",
    batch: Annotated[list[int] | None, typer.Option(help="Images; may be given several times.")] = None,
    record: Annotated[bool, typer.Option("--record", help="Keep the results in data/results/.")] = False,
    engine: Use = None,
    json: Json = False,
    csv: Csv = None,
) -> None:
    """Check rungs of the ladder, then measure op time and layer time."""
    from labkit.records import results

    _require_folder(csv)
    chosen, variants = _layer(layer), [labkit.variant(number) for number in rung]
    for each in batch or ():
        chosen.x_shape(each)  # refuses a bad batch before the checks
    for variant in variants:
        labkit.check(variant, quiet=json)
    table = labkit.bench(variants, chosen, batch or None)
    if json:
        print(_rows(table))
    else:
        print(labkit.table(table, columns={
            "label": "variant", "batch": "B", "op_ms": "op time (ms)", "layer_ms": "layer time (ms)",
            "images_s": "images/s", "x_reference": "time over reference",
        }))
    if csv:
        files.write(csv, table.to_csv(index=False, lineterminator="\n"))
    if record:
        print(results.record(table), file=_beside(json))


@app.command()
def train(
    network: Annotated[str, typer.Option("--network", metavar="NAME", help="lenet86.")] = "lenet86",
    name: Annotated[
        str,
        typer.Option(
            "--dataset",
            metavar="NAME",
            autocompletion=_among("digits", "fashion-mnist", "mnist"),
            help="digits, fashion-mnist or mnist.",
        ),
    ] = "digits",
    seed: Annotated[int, typer.Option(help="Of the initial weights, the order and the distortion of images.")] = 1,
    epochs: Annotated[
        int | None, typer.Option(help="Default: 40 of the digits, 8 of fashion-mnist, 4 of mnist.")
    ] = None,
    batch: Annotated[int | None, typer.Option(help="Images per step; 32 by default.")] = None,
    rate: Annotated[
        float | None, typer.Option(help="Largest learning rate; 0.03 by default. It rises, then falls to 0.")
    ] = None,
    momentum: Annotated[
        float | None, typer.Option(help="Part of the last step that a step repeats; 0.9 by default.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE.npz", help="In place of data/weights/NETWORK-DATASET.npz.")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume/--fresh", help="Go on from the checkpoint of the same settings, or begin anew.")
    ] = True,
    checkpoint: Annotated[
        Path | None, typer.Option("--checkpoint", metavar="FILE", help="In place of one in the cache per settings.")
    ] = None,
    every: Annotated[
        float, typer.Option(min=0, metavar="S", help="Seconds between checkpoints; 0 for one after every step.")
    ] = 10.0,
    engine: Use = None,
) -> None:
    """Train a network with the lab's own kernels.

    Writes its weights, and beside them a record of how they were made. An interrupted training resumes from its
    checkpoint and ends with the same weights.
    """
    from tqdm import tqdm

    from labkit.network import trainer as training

    given = {"epochs": epochs, "batch": batch, "rate": rate, "momentum": momentum}
    options = {option: value for option, value in given.items() if value is not None}
    with training.Trainer(name, network, seed, **options) as trainer:
        held_out = training.dataset(name, "test")
        print(trainer.data, held_out, sep="\n")
        with tqdm(total=trainer.settings.steps, unit="step", mininterval=0.5, delay=0.2) as bar:

            def show(trainer):
                if recent := trainer.losses[-20:]:
                    bar.set_postfix(loss=f"{sum(recent) / len(recent):.3f}", refresh=False)
                bar.update(trainer.step - bar.n)

            path, record = training.train(trainer, held_out, out, checkpoint, not resume, every, show)
    print(f"{record['training seconds']:.0f} s; accuracy {record['training accuracy']} on the training images, "
          f"{record['held-out accuracy']} on the {len(held_out)} held-out ones ({record['split']}); wrote {path}")
    if out is None:
        back = installation.restore("data/weights")
        print(f"The notebooks load these weights now; `{back}` brings back the lab's own")


@app.command()
def pycuda() -> None:
    """Fetch PyCUDA's Python modules for the CPU engine.

    A program that imports pycuda.gpuarray, elementwise, reduction and their like needs them; pip fetches them from
    PyCUDA's source package (its licence is MIT). On a GPU an installed PyCUDA is used.
    """
    from labkit.cpu import pycuda

    print(pycuda.fetch())


Program = Annotated[
    str,
    typer.Argument(metavar="PROGRAM", help="A Python program that uses labkit.cuda, or a .cu file with a main."),
]
Options = Annotated[
    str, typer.Option("--options", metavar="OPTIONS", help='nvcc\'s for a .cu file: "-DN=4 -I include more.cpp".')
]
Arguments = Annotated[list[str] | None, typer.Argument(metavar="ARGUMENT", help="Its arguments.")]
Engine = Annotated[
    str | None,
    typer.Option(
        "--engine",
        metavar="cpu|gpu",
        autocompletion=_among("cpu", "gpu"),
        help="Where to run it; the engine in use by default.",
    ),
]
Timeout = Annotated[float | None, typer.Option("--timeout", metavar="S", help="Stop the program after S seconds.")]
_PROGRAM = {"allow_interspersed_args": False, "ignore_unknown_options": True}  # what follows PROGRAM is its own


@app.command(context_settings=_PROGRAM)
def run(
    context: typer.Context, script: Program, args: Arguments = None, options: Options = "", engine: Engine = None
) -> None:
    """Run a program, on either engine.

    A .cu file is compiled with its host code: its kernels run on the CPU engine where there is no GPU. A Python program
    may import PyCUDA.
    """
    from shlex import split

    from labkit.evidence import child

    _warn_of_options(context, script, args or ())
    on = child.engine(engine)
    ended = child.run(child.program(script, args or (), on, split(options)), {"LABKIT_ENGINE": on})
    if ended.status:
        raise typer.Exit(ended.status if ended.status > 0 else 128 - ended.status)


@app.command(context_settings=_PROGRAM)
def profile(
    context: typer.Context,
    script: Program,
    args: Arguments = None,
    csv: Annotated[Path | None, typer.Option("--csv", metavar="FILE", help="Write one row per launch to FILE.")] = None,
    json: Json = False,
    engine: Engine = None,
    timeout: Timeout = None,
    nvcc: Annotated[
        bool, typer.Option("--nvcc/--no-nvcc", help="Without a GPU: registers and occupancy from nvcc, if it is there.")
    ] = True,
    options: Options = "",
) -> None:
    """Run a program and count the memory accesses of its launches.

    One row per launch, under Nsight Compute's names for the counters.
    """
    from shlex import split

    from labkit.evidence.profile import profile_script

    _warn_of_options(context, script, args or ())
    _require_folder(csv)
    found = profile_script(
        script, args or (), engine, timeout, capture=json, nvcc=nvcc, on_the_cpu="--engine cpu", options=split(options)
    )
    print(found.ended.output, end="", file=sys.stderr)
    print(_rows(found.table) if json else found)
    if csv:
        files.write(csv, found.table.to_csv(index=False, lineterminator="\n"))
        print(csv, file=_beside(json))
    _after(found.ended, script)


@app.command(context_settings=_PROGRAM)
def sanitize(
    context: typer.Context,
    script: Program,
    args: Arguments = None,
    tool: Annotated[
        str,
        typer.Option(
            "--tool",
            metavar="NAME",
            autocompletion=_among("memcheck", "racecheck", "initcheck", "synccheck", "all"),
            help="memcheck, racecheck, initcheck, synccheck or all.",
        ),
    ] = "all",
    csv: Annotated[
        Path | None, typer.Option("--csv", metavar="FILE", help="Write one row per finding to FILE.")
    ] = None,
    json: Json = False,
    engine: Engine = None,
    timeout: Timeout = None,
    options: Options = "",
) -> None:
    """Run a program and find the errors of its kernels.

    Bad addresses, races, uninitialized memory and divergent barriers. Exit status 1 if anything was found, 0 if not.
    """
    from shlex import split

    from labkit.evidence.sanitize import sanitize_script

    _warn_of_options(context, script, args or ())
    _require_folder(csv)
    found = sanitize_script(script, args or (), tool, engine, timeout, capture=json, options=split(options))
    print(found.ended.output, end="", file=sys.stderr)
    print(_rows(found.table) if json else found)
    if csv:
        files.write(csv, found.table.to_csv(index=False, lineterminator="\n"))
        print(csv, file=_beside(json))
    if not found.clean and not found.ended.interrupted:
        raise typer.Exit(1)
    _after(found.ended, script)


def _rows(table) -> str:
    """A table as JSON: a list with an object per row."""
    return table.to_json(orient="records", indent=2, default_handler=str)


def _beside(json: bool):
    """Where to print what does not belong to the result: JSON has the standard output for itself."""
    return sys.stderr if json else sys.stdout


def _require_folder(csv: Path | None) -> None:
    """Refuse a file that cannot be written, before minutes of work."""
    if csv and not csv.parent.is_dir():
        raise LabError(f"there is no folder {csv.parent} for {csv.name}: make it, or choose another")
    if csv:
        files.require_writable(csv.parent)


def _warn_of_options(context: typer.Context, script: str, args: list[str]) -> None:
    """Warn of the program's arguments that this command has as options, too: they may be in the wrong place."""
    own = {name for each in context.command.params for name in (*each.opts, *each.secondary_opts) if name[:1] == "-"}
    if both := [each for each in args if each.partition("=")[0] in own]:
        print(f"labkit: {script} itself gets {', '.join(both)}: put options of labkit in front of it", file=sys.stderr)


def _after(ended, script: str) -> None:
    """Exit with the status of the program that failed, as a shell reports it."""
    if ended.problem:
        print(f"labkit: {script} {ended.problem}; above is what was seen before", file=sys.stderr)
        status = 124 if ended.status is None else ended.status if ended.status > 0 else 128 - ended.status
        raise typer.Exit(status)


def _layer(name: str):
    from labkit.spec.layers import PRESETS

    named = {f"{network}-{i}": layer for network, preset in PRESETS.items() for i, layer in enumerate(preset, 1)}
    if name not in named:
        raise LabError(f"there is no layer {name!r}; there are {', '.join(named)}")
    return named[name]


class _Bar:
    """The progress of a report: a bar for the current notebook, one line for each finished one."""

    def __enter__(self):
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        self.console = Console(highlight=False, stderr=True)
        self.bar = Progress(
            TextColumn("  {task.description}"), BarColumn(30), MofNCompleteColumn(), TextColumn("cells"),
            TimeElapsedColumn(), console=self.console, transient=True,
        )
        if self.console.is_terminal:
            self.bar.start()
        return self

    def __exit__(self, *error):
        if self.console.is_terminal:
            self.bar.stop()

    def start(self, notebook):
        self.task = self.bar.add_task(notebook.name, total=None)

    def cell(self, notebook, done, of):
        self.bar.update(self.task, completed=done, total=of)

    def finish(self, notebook):
        self.bar.remove_task(self.task)
        took = f"  {notebook.seconds:.0f} s" if notebook.seconds else ""
        if notebook.failure:
            self.console.print(f"[red]✗[/] {notebook.name}{took}")
            self.console.print(f"  {notebook.failure.message}", markup=False, style="red", soft_wrap=True)
        else:
            self.console.print(f"[green]✓[/] {notebook.name}{took}")
