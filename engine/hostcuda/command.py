"""The command `hostcuda`.

A sub-command imports what it needs when it runs: `hostcuda --help` loads neither NumPy nor pandas.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from json import dumps, loads
from pathlib import Path
from typing import Annotated, Any

import typer

import hostcuda
from hostcuda import files, terminal
from hostcuda.terminal import Json, among

app = terminal.application(
    "hostcuda",
    hostcuda.__version__,
    "Runs, profiles and sanitizes CUDA programs: on an NVIDIA GPU, or on this machine's processor.",
)


def main() -> None:
    """Run the command hostcuda, with the arguments of the command line."""
    os.environ["HOSTCUDA_WARNINGS"] = "1"  # programs show the compiler's warnings
    terminal.run(app, "hostcuda")


@app.command()
def doctor(json: Json = False) -> None:
    """List what this machine has and lacks, with a remedy for each.

    Exit status 1 if no engine runs.
    """
    from hostcuda import doctor

    report = doctor.examine()
    if json:
        print(dumps(report.as_dict(), indent=2, ensure_ascii=False))
    else:
        doctor.show(report)
    raise typer.Exit(0 if report.ready else 1)


@app.command()
def prepare() -> None:
    """Compile the engine's own files ahead of time.

    The runtime library with and without check mode and the precompiled headers go into the cache.
    They take half a minute on two cores, and nothing if they are there.
    """
    from hostcuda.prepare import prepare

    prepare()


@app.command()
def pycuda() -> None:
    """Fetch PyCUDA's Python modules for the CPU engine.

    A program that imports pycuda.gpuarray, elementwise, reduction and their like needs them; pip
    fetches them from PyCUDA's source package (its licence is MIT). On a GPU an installed PyCUDA is
    used.
    """
    from hostcuda.programs import pycuda

    print(pycuda.fetch())


Program = Annotated[
    str,
    typer.Argument(
        metavar="PROGRAM",
        help="A Python program that uses hostcuda, PyCUDA, CuPy or cuda.core, or a .cu file with a main.",
    ),
]
Options = Annotated[
    str,
    typer.Option(
        "--options", metavar="OPTIONS", help='nvcc\'s for a .cu file: "-DN=4 -I include more.cpp".'
    ),
]
Arguments = Annotated[
    list[str] | None, typer.Argument(metavar="ARGUMENT", help="Its arguments, or -- and these.")
]
Engine = Annotated[
    str | None,
    typer.Option(
        "--engine",
        metavar="cpu|gpu",
        autocompletion=among("cpu", "gpu"),
        help="Where to run it; the engine in use by default.",
    ),
]
Timeout = Annotated[
    float | None, typer.Option("--timeout", metavar="S", help="Stop the program after S seconds.")
]
Most = Annotated[
    int | None,
    typer.Option(
        "--output-limit",
        metavar="BYTES",
        min=0,
        envvar="HOSTCUDA_OUTPUT_LIMIT",
        show_envvar=False,
        help="Print at most BYTES of the program's output.",
    ),
]
Csv = Annotated[
    Path | None,
    typer.Option(
        "--csv", metavar="FILE", help="Write one row per launch, or per finding, to FILE."
    ),
]
Tool = Annotated[
    str,
    typer.Option(
        "--tool",
        metavar="NAME",
        help="memcheck, racecheck, initcheck, synccheck or all.",
        autocompletion=among("memcheck", "racecheck", "initcheck", "synccheck", "all"),
    ),
]
# arguments after PROGRAM belong to it
_PROGRAM = {"allow_interspersed_args": False, "ignore_unknown_options": True}


@app.command(context_settings=_PROGRAM)
def run(
    context: typer.Context,
    script: Program,
    args: Arguments = None,
    options: Options = "",
    engine: Engine = None,
    timeout: Timeout = None,
    most: Most = None,
    strict: Annotated[
        bool,
        typer.Option(
            "--strict", help="Exit status 1 if the program ignores an error and ends with 0."
        ),
    ] = False,
) -> None:
    """Run a program, on either engine.

    A .cu file is compiled with its host code: its kernels run on the CPU engine where there is no
    GPU. A Python program may import PyCUDA, CuPy or cuda.core. The exit status is the program's; 124 after a timeout.
    An error that the program did not look at is the last line of its standard error output.
    """
    from hostcuda import processes

    if os.environ.get("HOSTCUDA_CHECK"):
        from hostcuda.check import mode  # noqa: F401  an unknown tool is refused here, not in the program

    args = _prepare(context, script, args or [], most)
    on = processes.engine(engine)
    # added to the variables of this process
    environment = {"HOSTCUDA_ENGINE": on, **({"HOSTCUDA_STRICT": "1"} if strict else {})}
    ended = processes.run(
        processes.program(script, args, on, processes.split_options(options)), environment, timeout
    )
    if ended.status is None:
        print(f"hostcuda: {script} {ended.problem}", file=sys.stderr)
    if ended.status != 0:
        raise typer.Exit(_find_shell_status(ended))


@app.command(context_settings=_PROGRAM)
def profile(
    context: typer.Context,
    script: Program,
    args: Arguments = None,
    csv: Csv = None,
    json: Json = False,
    engine: Engine = None,
    timeout: Timeout = None,
    nvcc: Annotated[
        bool,
        typer.Option(
            "--nvcc/--no-nvcc",
            help="Without a GPU: registers and occupancy from nvcc, if it is there.",
        ),
    ] = True,
    units: Annotated[
        str | None,
        typer.Option(
            "--units", metavar="CARD", help="How busy each kernel keeps the units of a GPU: H200."
        ),
    ] = None,
    options: Options = "",
    lines: Annotated[
        bool, typer.Option("--lines", help="Count each source line with accesses by itself.")
    ] = False,
    most: Most = None,
) -> None:
    """Run a program and count the memory accesses of its launches.

    One row per kernel; with --csv or --json one per launch, under Nsight Compute's names for the
    counters. With --lines one per line of the source. With --units how busy each unit of a GPU is,
    by the counts, and which is the busiest.
    """
    from hostcuda import processes
    from hostcuda.profile import profile_script

    args, words = _prepare(context, script, args or [], most), processes.split_options(options)
    files.require_place(csv)
    if units is not None:
        if lines or engine not in (None, "cpu"):
            context.fail(
                "--units runs on the CPU engine and has one row per kernel: no --lines, no other --engine"
            )
        _profile_units(script, args, units, timeout, csv, json, words)
        return
    profile = profile_script(script, args, engine, timeout, capture=json, nvcc=nvcc, options=words)
    table = profile.lines() if lines else profile.table
    shown = f"{profile.note}\n{table.to_string(index=False)}" if lines else profile
    if json:
        shown = table.to_json(orient="records", indent=2, default_handler=str)
    _print(profile.ended, shown)
    _write(csv, table, json)
    _exit_on_failure(profile.ended, script)


@app.command(context_settings=_PROGRAM)
def sanitize(
    context: typer.Context,
    script: Program,
    args: Arguments = None,
    tool: Tool = "all",
    csv: Csv = None,
    json: Json = False,
    engine: Engine = None,
    timeout: Timeout = None,
    options: Options = "",
    most: Most = None,
    strict: Annotated[
        bool,
        typer.Option(
            "--strict",
            help="Notes of copies that are partly unset count as findings; a program that ignores an error ends "
            "with status 1.",
        ),
    ] = False,
) -> None:
    """Run a program and find the errors of its kernels.

    Bad addresses, races, uninitialized memory and divergent barriers. The last line and the exit
    status are the verdict: 0 pass, 1 unsafe (something was found), 3 wrong result (the program
    itself failed), 4 compile error, 5 refused (a call or launch), 6 not checked, 124 hang. With
    --json an object with the verdict and the findings.
    """
    from hostcuda import processes
    from hostcuda.sanitize import sanitize_script

    args, words = _prepare(context, script, args or [], most), processes.split_options(options)
    files.require_place(csv)
    findings = sanitize_script(
        script, args, tool, engine, timeout, capture=json, options=words, strict=strict
    )
    _print(findings.ended, dumps(findings.as_dict(), indent=2, default=str) if json else findings)
    if csv:
        _write(csv, findings.table, json)
    verdict, reason = findings.outcome
    if findings.ended.problem:
        print(
            f"hostcuda: {script} {findings.ended.problem}; above is what was seen before",
            file=sys.stderr,
        )
    if not json:
        # of a compiler's messages the first error, else the first line
        first = next(
            (line for line in reason.splitlines() if "error: " in line), reason.partition("\n")[0]
        )
        # `findings.verdict()` is the last line of what was printed: not once more
        detail = "" if reason.startswith(findings.verdict()) else f": {first}"
        print(f"verdict: {verdict} (exit status {findings.status}){detail}")
    raise typer.Exit(findings.status)


Source = Annotated[
    Path, typer.Argument(metavar="KERNEL.cu", help="Kernels alone, or a program with a main.")
]
Cases = Annotated[
    Path | None, typer.Option("--cases", metavar="FILE", help="The cases; KERNEL.json if there.")
]
Kernel = Annotated[
    str, typer.Option("--kernel", metavar="NAME", help="Which kernel, if there are several.")
]
Seconds = Annotated[
    int, typer.Option("--seconds", metavar="S", min=5, max=300, help="For all of it.")
]
Case = Annotated[
    int, typer.Option("--case", metavar="N", min=1, help="Which of the cases, from 1.")
]
Start = Annotated[
    int, typer.Option("--start", metavar="N", min=0, help="Leave out so many rows at the begin.")
]


@app.command()
def check(
    source: Source,
    cases: Cases = None,
    reference: Annotated[
        Path | None,
        typer.Option(
            "--reference", metavar="FILE", help="def reference(**arguments); KERNEL.py if there."
        ),
    ] = None,
    previous: Annotated[
        Path | None,
        typer.Option(
            "--previous", metavar="FILE", help="An earlier report (--json) to compare with."
        ),
    ] = None,
    kernel: Kernel = "",
    options: Options = "",
    json: Json = False,
    repairs: Annotated[
        bool, typer.Option("--repairs/--no-repairs", help="Try repairs of what is found.")
    ] = True,
    seconds: Seconds = 60,
) -> None:
    """Check a kernel on its cases, and print one report.

    docs/agents.md of the engine says what the cases look like. The exit status is the verdict, as
    of sanitize: 0 pass, 1 unsafe, 3 wrong result, 4 compile error, 5 refused, 6 not checked, 124
    hang.
    """
    from hostcuda import agent, sanitize

    text = _read(source)
    beside = source.with_suffix(".py")
    reference = reference or (beside if beside.is_file() else None)
    job = _read_cases(source, cases, kernel, options)
    before = _read(previous, loads) if previous else None
    if previous and not (isinstance(before, dict) and "verdict" in before):
        terminal.fail("hostcuda", f"{previous} is no report of an earlier check --json")
    report = agent.check(
        text,
        reference=_read(reference) if reference else "",
        previous=before,
        repairs=repairs,
        seconds=seconds,
        **job,  # cases, and maybe kernel, options, rtol, atol
    )
    print(dumps(report, ensure_ascii=False) if json else agent.as_text(report))
    raise typer.Exit(sanitize.STATUS[report["verdict"].replace("_", " ")])


@app.command()
def lines(
    source: Source,
    cases: Cases = None,
    case: Case = 1,
    kernel: Kernel = "",
    options: Options = "",
    start: Start = 0,
    json: Json = False,
    seconds: Seconds = 60,
) -> None:
    """Count the accesses of each line of a launch.

    For each line, the elements are shown that the lanes of its worst request access. The cases are
    those of check.
    """
    _look("lines", source, cases, case, kernel, options, json, seconds=seconds, start=start)


@app.command()
def step(
    source: Source,
    cases: Cases = None,
    case: Case = 1,
    thread: Annotated[
        str, typer.Option("--thread", metavar="X,Y,Z", help="Index of the thread in its block.")
    ] = "0,0,0",
    block: Annotated[
        str, typer.Option("--block", metavar="X,Y,Z", help="Index of the block in the grid.")
    ] = "0,0,0",
    kernel: Kernel = "",
    options: Options = "",
    start: Start = 0,
    json: Json = False,
    seconds: Seconds = 60,
) -> None:
    """Follow one thread of a launch from line to line.

    For each line, the variables that it set and its accesses are shown. The cases are those of
    check.
    """
    places = {"thread": _read_index(thread), "block": _read_index(block)}
    _look(
        "step", source, cases, case, kernel, options, json, seconds=seconds, start=start, **places
    )


def _look(
    what: str,
    source: Path,
    cases: Path | None,
    number: int,
    kernel: str,
    options: str,
    json: bool,
    **more: Any,
) -> None:
    """Print what `hostcuda.agent.look` finds in one launch of a kernel; exit status 6 if it finds nothing.

    `what` is "lines" or "step", `number` that of the case, from 1, and `more` are further arguments
    of `look`. The others are the command's options.
    """
    from hostcuda import agent, sanitize
    from hostcuda.agent import looking

    text, job = _read(source), _read_cases(source, cases, kernel, options)
    if not job["cases"]:
        terminal.fail(
            "hostcuda",
            f"no case says how to launch {source.name}: write one into {source.with_suffix('.json').name} "
            f"beside it, or name a file with --cases. `hostcuda check {source.name}` proposes one",
        )
    if number > (count := len(job["cases"])):  # it is 1 or more
        terminal.fail(
            "hostcuda",
            f"there is no case {number}: the file has {f'cases 1 to {count}' if count > 1 else 'case 1 alone'}",
        )
    case, kernel = job["cases"][number - 1], job.get("kernel", "")
    answer = agent.look(what, text, kernel, case, options=job.get("options", ""), **more)
    print(dumps(answer, ensure_ascii=False) if json else looking.as_text(answer))
    if "why_none" in answer:
        raise typer.Exit(sanitize.STATUS["not checked"])


def _read_index(text: str) -> list[int]:
    """Return an index "x,y,z", "x,y" or "x" as three integers, 0 for one that is left out.

    Another text ends the command with a message.
    """
    parts = text.split(",")
    if len(parts) > 3 or not all(part.strip().isdecimal() for part in parts):
        terminal.fail("hostcuda", f"{text} is no index: write X,Y,Z, such as 5,0,0")
    return [*map(int, parts), 0, 0][:3]


def _read_cases(source: Path, cases: Path | None, kernel: str, options: str) -> dict[str, Any]:
    """Return the keyword arguments of `hostcuda.agent.check` that a file of cases and the command line give.

    The file is `cases`, or else the one beside the source ("k.json" for "k.cu") if it exists. It has a
    list of cases, or an object with "cases", "kernel", "options", "rtol" and "atol", all optional.
    `kernel` and `options` replace those of the file unless they are empty. "cases" is always in the
    result. A file of another form ends the command with a message.
    """
    beside = source.with_suffix(".json")
    file = cases or (beside if beside.is_file() else None)
    content = _read(file, loads) if file else []
    job = {"cases": content} if isinstance(content, list) else content
    if not isinstance(job, dict) or (
        unknown := job.keys() - {"cases", "kernel", "options", "rtol", "atol"}
    ):
        known = f"no {min(unknown)}" if isinstance(job, dict) else "nothing else"
        terminal.fail(
            "hostcuda",
            f"the file of cases has a list, or cases, kernel, options, rtol, atol, and {known}",
        )
    job.setdefault("cases", [])
    return job | {
        name: value for name, value in (("kernel", kernel), ("options", options)) if value
    }


def _read(path: Path, parse: Callable[[str], Any] = str) -> Any:
    """Return a file's text, parsed by `parse`; end the command with a message if it cannot be read."""
    try:
        return parse(path.read_text())
    except UnicodeDecodeError:
        why = "it is no text in UTF-8"
    except (OSError, ValueError, RecursionError) as error:
        why = getattr(error, "strerror", None) or f"it is no JSON: {str(error).partition(';')[0]}"
    terminal.fail("hostcuda", f"{path} cannot be read: {why}")


@app.command()
def mcp() -> None:
    """Serve checks to a coding agent.

    The server speaks the Model Context Protocol over standard input and output.
    """
    try:
        from hostcuda.agent.server import server
    except ModuleNotFoundError as error:
        terminal.fail(
            "hostcuda", f"the server needs the package {error.name}: pip install 'hostcuda[mcp]'"
        )
    server.run("stdio")


def _profile_units(
    script: str,
    args: list[str],
    device: str,
    timeout: float | None,
    csv: Path | None,
    json: bool,
    options: list[str],
) -> None:
    """Run a program on the CPU engine, and print how busy its kernels keep the units of the GPU `device`."""
    from hostcuda import processes
    from hostcuda.profile import recorded
    from hostcuda.units import card, units

    card(device)  # refused before minutes of work
    records, _, ended = recorded(
        processes.program(script, args, "cpu", options), timeout, capture=json
    )
    _print(ended, "")
    if not records:
        _exit_on_failure(ended, script)
    busy = units(records, device)
    print(busy.table.to_json(orient="records", indent=2) if json else busy.summary())
    _write(csv, busy.table, json)
    _exit_on_failure(ended, script)


def _print(ended, result: object) -> None:
    """Print the captured output of `ended`, from `processes.run`, on standard error, the result on standard output."""
    limit = os.environ.get("HOSTCUDA_OUTPUT_LIMIT")
    print(ended.output[: int(limit) if limit else None], end="", file=sys.stderr)
    print(result, end="\n" if result else "")


def _write(csv: Path | None, table, json: bool) -> None:
    """Write the DataFrame `table` to the file `csv`, unless that is None, and print the path.

    If `json`, the standard output has JSON alone, so the path is printed on standard error.
    """
    if csv:
        files.write(csv, table.to_csv(index=False, lineterminator="\n"))
        print(csv, file=sys.stderr if json else sys.stdout)


def _prepare(context: typer.Context, script: str, args: list[str], most: int | None) -> list[str]:
    """Set HOSTCUDA_OUTPUT_LIMIT to `most`, if given; return the program's arguments without a ``--`` that begins them.

    Without a ``--``, an argument that is an option of this command ends it with a message: it belongs in
    front of the program.
    """
    if most is not None:
        os.environ["HOSTCUDA_OUTPUT_LIMIT"] = str(most)
    if args[:1] == ["--"]:
        return args[1:]
    own = {
        name
        for param in context.command.params
        for name in (*param.opts, *param.secondary_opts)
        if name[:1] == "-"
    }
    if both := [argument for argument in args if argument.partition("=")[0] in own]:
        context.fail(
            f"{', '.join(both)} behind {script}: put options of {context.command_path} in front of the "
            "program, and -- in front of its own arguments if they have such names"
        )
    return args


def _exit_on_failure(ended, script: str) -> None:
    """Exit with a message and the program's status, as a shell reports it, if `ended`, of `processes.run`, failed."""
    if ended.problem:
        print(f"hostcuda: {script} {ended.problem}; above is what was seen before", file=sys.stderr)
        raise typer.Exit(_find_shell_status(ended))


def _find_shell_status(ended) -> int:
    """Return the exit status that a shell has for `ended`, of `processes.run`.

    It is the program's own, 124 after a time-out, or 128 + n after signal n.
    """
    return (
        124 if ended.status is None else ended.status if ended.status >= 0 else 128 - ended.status
    )
