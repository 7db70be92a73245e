"""The command `python -m recording`: each sub-command writes one part of data/ or docs/."""

import sys

import typer

from hostcuda.errors import EngineError
from recording.cards import cards
from recording.compare_counters import compare_counters
from recording.compare_sanitizers import compare_sanitizers
from recording.counters import counters
from recording.cudnn import cudnn
from recording.device import device
from recording.digits import digits
from recording.edits import edits
from recording.errors import errors
from recording.estimates import estimates
from recording.experiments import experiments
from recording.framework import framework
from recording.manifest import manifest
from recording.network import network
from recording.pictures import pictures
from recording.readme import readme, timings
from recording.streams import streams
from recording.sweep import sweep
from recording.times import times
from recording.train import train
from recording.training import training
from recording.versus import versus

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
for command in (times, counters, sweep, streams, cudnn, versus, framework, network, errors, edits, estimates,
                experiments, compare_counters, compare_sanitizers, training, train, pictures, cards, readme, timings,
                digits, device, manifest):
    app.command()(command)


@app.callback()
def _help() -> None:
    """Measure and count what data/ and docs/ hold.

    Results are kept piece by piece: an interrupted command loses only the piece it was at.
    """


def main() -> None:
    """Run the command. A `LabError` becomes one line and exit status 1, without a traceback."""
    try:
        app(prog_name="python -m recording")
    except EngineError as error:
        sys.exit(f"recording: {error}")


if __name__ == "__main__":
    main()
