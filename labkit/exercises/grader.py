"""Run an attempt in the CPU engine's check mode: the child process of `labkit.exercises.grade`.

``python -m labkit.exercises.grader FOLDER`` reads the attempt from `FOLDER/attempt.cu`, the
exercise from `FOLDER/exercise`, and the inputs of its cases from `FOLDER/inputs`. It writes the
arrays that the kernel wrote, and notes its steps in `FOLDER/events`, between the engine's records
of the launches. It judges nothing: the parent process judges these files, and the expected results
stay there.

With ``--case 2`` after the folder, it runs several texts on the case 2 alone, each in a process of
its own: that of ``FOLDER/0`` leaves its files there.

With ``--untrusted`` after the folder, somebody else has written the attempt. It is checked before
it is compiled and loaded (see `hostcuda.untrusted`), and its files are packed into one answer, with
a word from standard input.
"""

import base64
import contextlib
import functools
import json
import os
import pickle
import resource
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

import hostcuda
from hostcuda import checking, processes
from hostcuda.errors import EngineError
from labkit.exercises.exercise import FILE_BYTES, RUN_S, TEXT_S, TEXT_WAIT_S, Exercise, receive

_MESSAGE = 1 << 16  # characters that are kept of a message of the compiler or the engine


def run_texts(folder: Path, number: int) -> None:
    """Run the sources in a folder's numbered folders on one case, each in a process with limits of time.

    `write_texts` has written them; `number` is that of the case. Their arrays and events go to their folders.
    """
    # once for all texts: most exercises need it, and what it imports
    import labkit.exercises.practice  # noqa: F401

    for own_folder in sorted(path for path in folder.iterdir() if path.name.isdecimal()):
        if process := os.fork():  # this process only waits for the new one
            os.waitpid(process, 0)
            continue
        _limit_process()
        signal.alarm(TEXT_WAIT_S)  # its signal ends the process
        os.environ["HOSTCUDA_CHECK_OUT"] = str(own_folder / "events")
        try:
            # in the new process alone: loading an exercise may start the engine
            exercise, _ = receive(folder)
            inputs = pickle.loads((folder / "inputs").read_bytes())[number]
            source = (own_folder / "attempt.cu").read_text(encoding="utf-8")
            with _note_errors():
                hostcuda.ensure_context()
                # nothing is left to do at its end: only an untrusted attempt packs its answer
                _run_case(exercise, source, number, inputs, own_folder, lambda: None, TEXT_S)
        finally:
            os._exit(0)  # ends the new process without the parent's clean-up


def main(folder: Path, untrusted: bool = False) -> None:
    """Run the attempt that `hand_over` has written into a folder, and write its arrays and events there.

    An `untrusted` attempt, of a stranger in a sandbox, is refused if its text is more than a kernel. Its
    arrays and events are packed into one file, with the word that this process reads from standard
    input. Any other attempt gets limits of time and memory here.
    """
    exercise, source = receive(folder)
    # a secret of the parent: without it no attempt can write an answer that the parent accepts
    word = sys.stdin.read() if untrusted else ""
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # an attempt must not read the standard input
    finish: Callable[[], None] = lambda: None
    if untrusted:
        from hostcuda.sandbox import write_answer  # before the attempt runs

        finish = functools.partial(_pack, folder, functools.partial(write_answer, word=word))
    else:  # a sandbox has limits of its own
        _limit_process()
    # `_run` calls `finish` itself before it ends the process of an attempt that takes too long
    _run(exercise, source, folder, untrusted, finish)
    finish()


def _run(
    exercise: Exercise, source: str, folder: Path, untrusted: bool, finish: Callable[[], None]
) -> None:
    """Run the attempt on each case until one has a finding; write arrays, and marks for `labkit.exercises.judge`.

    The arrays of run 1 of case 0 go to "0-1-y.npy". An `untrusted` source is refused if it is more
    than a kernel. `finish` is called if a case does not end, as `_watch_case` says.
    """
    subject = exercise.subject
    with _note_errors():
        if untrusted:
            # here: a reader's own attempt needs neither
            from hostcuda.untrusted import guard, refuse

            refuse(source, subject.headers)  # raises EngineError if the text is more than a kernel
            # from here on, the process loads no module that calls the host
            guard(source, subject.headers)
        hostcuda.ensure_context()
        subject.prepare(source)
        _mark(
            "warnings", text=subject.warnings(source)[:_MESSAGE], filled=checking.fills_variables()
        )
        inputs = pickle.loads((folder / "inputs").read_bytes())
        for number in range(len(subject.cases)):
            _run_case(exercise, source, number, inputs[number], folder, finish)
            if any(record.findings for record in checking.launches()):
                break
        _mark("done")


def _run_case(
    exercise: Exercise,
    source: str,
    number: int,
    inputs: list,
    folder: Path,
    finish: Callable[[], None],
    limit: float = RUN_S,
) -> None:
    """Run the attempt on the case of this number; write its arrays into the folder.

    `finish` and `limit` are those of `_watch_case`.
    """
    case = exercise.subject.cases[number]
    with _watch_case(case.name, finish, limit):
        for run, arrays in enumerate(exercise.subject.execute(source, case, inputs)):
            for name, array in arrays.items():
                np.save(folder / f"{number}-{run}-{name}.npy", array, allow_pickle=False)


@contextlib.contextmanager
def _note_errors() -> Iterator[None]:
    """Mark how a kernel or its compilation fails in the block, in place of raising it."""
    try:
        yield
    except hostcuda.driver.CompileError as error:
        output = f"{error.stderr or ''}\n{error.stdout or ''}".strip()
        # the engine itself refuses too much shared memory: then no compiler has written anything
        _mark("compile", text=(output or str(error.msg))[:_MESSAGE])
    # TypeError: a kernel has other parameters than the launch has arguments
    except (EngineError, hostcuda.driver.Error, MemoryError, TypeError) as error:
        checking.take()  # writes the records of the launches up to now
        _mark("failed", text=str(error)[:_MESSAGE], fault=isinstance(error, hostcuda.driver.Error))


def _limit_process() -> None:
    """Set limits for this process, so that an attempt cannot fill the disk: no core dump, huge file or printed text."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_BYTES, FILE_BYTES))
    with contextlib.suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _pack(folder: Path, write: Callable[..., None]) -> None:
    """Collect a folder's arrays and events in its file `answer`, by `write`: a sandbox returns one file."""
    arrays = {
        path.stem: base64.b64encode(path.read_bytes()).decode() for path in folder.glob("*.npy")
    }
    events = processes.lines(Path(os.environ["HOSTCUDA_CHECK_OUT"]))
    write(folder / "answer", record={"events": events, "arrays": arrays})


@contextlib.contextmanager
def _watch_case(name: str, finish: Callable[[], None], limit: float) -> Iterator[None]:
    """Mark where the launches of a case begin and end; call `finish` and end the process if they take too long.

    They may take `limit` seconds of this process's time, without the compiler's, and five times as
    many seconds in all.
    """
    case_ended = threading.Event()

    def end_if_late() -> None:
        """Wait in a thread of its own for the end of the case; mark it as endless and end the process if it is late."""
        start, processor_start = time.monotonic(), time.process_time()
        while not case_ended.wait(0.2):
            seconds = time.monotonic() - start
            # Processor time counts, because a right kernel takes long on a busy machine; but it may
            # also wait forever.
            if seconds > limit and (
                time.process_time() - processor_start > limit or seconds > 5 * limit
            ):
                _mark("endless", case=name)
                finish()
                os._exit(0)

    checking.take()  # writes the records of earlier launches, before the mark
    _mark("case", case=name)
    threading.Thread(target=end_if_late, daemon=True).start()
    try:
        yield
        checking.take()
        _mark("ran", case=name)
    finally:
        case_ended.set()


def _mark(mark: str, **facts) -> None:
    """Append an event to the file in which the engine writes its records of launches, as a line of JSON."""
    with open(os.environ["HOSTCUDA_CHECK_OUT"], "a", encoding="utf-8") as file:
        file.write(json.dumps({"mark": mark, **facts}) + "\n")


if __name__ == "__main__":
    if sys.argv[2:3] == ["--case"]:
        run_texts(Path(sys.argv[1]), int(sys.argv[3]))
    else:
        main(Path(sys.argv[1]), untrusted="--untrusted" in sys.argv[2:])
