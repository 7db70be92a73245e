"""Commands about this machine: doctor, device."""

import dataclasses
import json
import math

import typer

import labkit
from hostcuda.terminal import Json
from labkit.cli.options import Use


def doctor(as_json: Json = False) -> None:
    """List what this machine has and lacks, with a remedy for each.

    Exit status 1 if the lab cannot run.
    """
    from hostcuda.doctor import show
    from labkit.cli.doctor import examine

    report = examine()
    if as_json:
        print(json.dumps(report.as_dict(), indent=2, ensure_ascii=False))
    else:
        show(report, "The lab")
    raise typer.Exit(0 if report.ready else 1)


def device(engine: Use = None, as_json: Json = False) -> None:
    """Describe the device that kernels run on."""
    in_use = labkit.device()  # `engine` was used when the option was read: `Use`
    if as_json:
        facts = dataclasses.asdict(in_use)
        # a rate that is not known is infinite, and JSON has no infinity
        shown = {name: None if value == math.inf else value for name, value in facts.items()}
        print(json.dumps(shown, indent=2, ensure_ascii=False, default=str))
    else:
        print(in_use)
