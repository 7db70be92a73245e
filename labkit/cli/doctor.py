"""Examine what this machine has and lacks, with one command for each thing that is missing.

`hostcuda.doctor` examines the engines; this module adds the lab's data and the packages of its
notebooks.
"""

import dataclasses
import importlib.util
import sys
from pathlib import Path

import labkit
from hostcuda import doctor
from hostcuda.doctor import MISSING, OK, UNUSED, Requirement
from hostcuda.errors import EngineError
from labkit.base import installation, manifest, paths
from labkit.base.errors import LabError
from labkit.networks import images
from labkit.networks.lenet86 import load_weights


class LabReport(doctor.Report):
    """All findings, and the engine that follows from them."""

    @property
    def ready(self) -> bool:
        """Whether the lab can run: on either engine, with the data that the repository ships."""
        return super().ready and self["data"].state == OK


def examine() -> LabReport:
    """Return findings on everything that the lab can use: engines, data, packages, data sets, cache."""
    engines = doctor.examine()
    engine_findings = [_adapt_remedy(finding) for finding in engines.findings]
    fetched = map(_check_fetched, ("fashion-mnist", "mnist"))
    findings = [
        _check_lab(),
        *engine_findings,
        _check_shipped(),
        _check_packages(),
        *fetched,
        _check_cache(),
    ]
    return LabReport(findings, engines.engine, engines.why)


def _adapt_remedy(finding: Requirement) -> Requirement:
    """Return an engine's finding with a checkout's own remedy: a container on a Mac, `make gpu` for a GPU in .venv.

    `hostcuda.doctor` names the finding, `what`; its `remedy` is a command, "" if nothing is
    missing.
    """
    root = installation.find_checkout()
    if finding.what == "C++ compiler" and finding.remedy and root and sys.platform == "darwin":
        container = f'docker run -it --rm -v "{root}":/lab -w /lab python:3.13'
        return dataclasses.replace(finding, remedy=f"{container} make report")
    if (
        finding.what in ("PyCUDA", "CUPTI")
        and finding.remedy
        and root
        and Path(sys.prefix) == root / ".venv"
    ):
        return dataclasses.replace(finding, remedy="make gpu")
    return finding


def _check_lab() -> Requirement:
    """Return the finding about the lab itself: version and place."""
    root = installation.find_checkout()
    where = f"a checkout, {root}" if root else f"an installed package, {paths.PACKAGE}"
    return Requirement("labkit", OK, f"{labkit.__version__}, {where}")


def _check_shipped() -> Requirement:
    """Return the finding about the repository's data: the images and weights that the notebooks begin with."""
    try:
        count = sum(len(images.dataset("digits", split)) for split in ("train", "test"))
        load_weights("digits")
        if wrong := manifest.problems():
            raise LabError(f"{'; '.join(wrong)} (see {manifest.NAME})")
    except EngineError as error:
        return Requirement("data", MISSING, str(error), installation.write_restore_command("data"))
    about = f"{count} digits and the network's weights, checksums as recorded, {paths.data_dir()}"
    return Requirement("data", OK, about)


def _check_packages() -> Requirement:
    """Return the finding about the packages that only notebooks, figures and reports need."""
    lacking = [name for name in installation.NOTEBOOKS if importlib.util.find_spec(name) is None]
    if not lacking:
        return Requirement("notebooks", OK, "figures, the notebooks and their reports")
    command = installation.write_install_command()
    if installation.find_checkout():
        return Requirement("notebooks", MISSING, f"not here: {', '.join(lacking)}", command)
    return Requirement(
        "notebooks", UNUSED, f"for figures, the notebooks and their reports: {command}"
    )


def _check_fetched(name: str) -> Requirement:
    """Return the finding about a data set that is fetched on demand, "mnist" or "fashion-mnist"."""
    try:
        folder = images.find_stored(name)
    except EngineError as error:
        return Requirement(name, UNUSED, str(error))
    if folder:
        return Requirement(name, OK, f"found, {folder}")
    return Requirement(name, UNUSED, "fetched and verified when a notebook first needs it")


def _check_cache() -> Requirement:
    """Return the finding about the cache that keeps fetched data sets."""
    try:
        return Requirement("data cache", OK, str(paths.private_cache()))
    except EngineError as error:
        return Requirement(
            "data cache", MISSING, str(error), 'export LABKIT_CACHE_DIR="$(mktemp -d)"'
        )
