"""Show what a call that takes seconds is doing, and how far it is."""

from __future__ import annotations

import io
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tqdm import tqdm

from hostcuda import settings

DELAY_S = 2  # a call that is done by then shows nothing
_TICK_S = 1  # between two looks at the time
_PATIENCE_S = 5  # for a step; then the line gets its advice
_shown = threading.Lock()  # held while a line is shown: a call inside of another one shows none


@contextmanager
def show_progress(
    total: int | None,
    task: str = "measuring",
    count: Callable[[], int] | None = None,
    advice: str = "",
) -> Iterator[tqdm]:
    """Show a line with `task`, how far it is and for how long, from `DELAY_S` seconds on to the end of the block.

    Yields tqdm's bar, whose `update` the block calls once per step.

    Parameters
    ----------
    total : int or None
        The number of steps; None if it is not known.
    task : str
        What is being done; the bar's `set_description_str` changes it.
    count : callable, optional
        Returns how many steps another process has done; the block then calls no `update`.
    advice : str
        What to do if a step does not end: the line shows it once a step takes `_PATIENCE_S`.

    In a notebook the line stands on standard output, because standard error is shown in red. There
    is no line with TQDM_DISABLE, as in a report, nor where standard error is no terminal, nor
    inside the block of another call that shows one.
    """
    in_notebook = settings.in_notebook()
    # The lock `_shown` is held while a line is shown. It is taken last: only if the other two permit a line.
    is_hidden = (
        bool(os.environ.get("TQDM_DISABLE"))
        or not (in_notebook or sys.stderr.isatty())
        or not _shown.acquire(blocking=False)
    )
    # A hidden bar writes into memory. It counts, too, and tqdm's own `disable` would stop that.
    file = io.StringIO() if is_hidden else sys.stdout if in_notebook else sys.stderr
    steps = ": {n_fmt} of {total_fmt} [{elapsed}<{remaining}]{postfix}" if total else ": {elapsed}"
    ended = threading.Event()
    with tqdm(
        total=total,
        desc=task,
        delay=DELAY_S,
        leave=False,
        file=file,
        disable=False,
        bar_format=f"{{desc}}{steps}",
    ) as bar:

        def look() -> None:
            """Show the line again each second until the block ends: it may be in a single long step.

            If no step has ended for `_PATIENCE_S`, the line has the advice.
            """
            # `since`: when the last step ended
            pause, done, since = DELAY_S, 0, time.monotonic()
            while not ended.wait(pause):
                if count:
                    bar.n = count()
                if bar.n != done:
                    done, since = bar.n, time.monotonic()
                is_late = advice and time.monotonic() - since > _PATIENCE_S
                bar.set_postfix_str(advice if is_late else "", refresh=False)
                bar.refresh()
                # `refresh` does not set it, and without it `close` takes the line for one that was
                # never shown, and leaves it there
                bar.last_print_t = time.time()
                pause = _TICK_S  # the first pause was the delay

        looker = threading.Thread(target=look, daemon=True)
        if not is_hidden:
            looker.start()
        try:
            yield bar
        finally:
            ended.set()
            if not is_hidden:
                looker.join()
                _shown.release()
