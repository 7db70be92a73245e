"""Texts between markers in README.md and other pages, written by the program that measures them.

The table of the ladder, for example, stands between <!-- ladder:begin --> and <!-- ladder:end -->.
"""

import datetime
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Annotated

from typer import Argument

from hostcuda.files import write
from labkit.base.errors import LabError
from labkit.base.numerals import ms, three
from labkit.base.paths import PACKAGE
from labkit.page import overview
from labkit.records.recorded import Recorded
from labkit.spec.devices import device

ROOT = PACKAGE.parent
_RESULTS, _PERFORMANCE, _QUESTIONS = "docs/results.md", "engine/docs/performance.md", "docs/faq.md"
_PAGES = {"versus": _RESULTS, "network": _RESULTS, "engine": _PERFORMANCE, "check": _PERFORMANCE, "cards": _QUESTIONS}


def page(name: str) -> Path:
    """Return the file that has the markers `name`: the README, unless they are in another page."""
    return ROOT / _PAGES.get(name, "README.md")


def replace_marked(name: str, text: str, path: Path | None = None) -> bool:
    """Replace the text between the markers `name` in a Markdown file; the file is written whole or not at all.

    Parameters
    ----------
    name : str
        As in ``<!-- name:begin -->``.
    text : str
        Markdown, without the markers.
    path : Path, optional
        In place of `page`.

    Returns
    -------
    bool
        Whether the file changed.

    Raises
    ------
    LabError
        The file lacks the pair of markers, or has it more than once.
    """
    path = path or page(name)
    old = path.read_text(encoding="utf-8")
    begin, end = f"<!-- {name}:begin -->", f"<!-- {name}:end -->"
    if (old.count(begin), old.count(end)) != (1, 1) or old.index(begin) > old.index(end):
        raise LabError(f"{path} needs one line {begin} and one line {end} after it")
    new = f"{old.partition(begin)[0]}{begin}\n{text.strip()}\n{end}{old.partition(end)[2]}"
    if new != old:
        write(path, new)
    return new != old


def format_ladder(results: Recorded) -> str:
    """Return the ladder for the README; the best of each column in FP32 and in FP16 is bold."""
    table, every = overview.format_cells(results), overview.list_rows(results)
    fastest = every[~every["label"].str.contains("TF32")]  # it rounds the factors, so it is not the best in FP32
    fastest = fastest.loc[fastest.groupby(["layer", "dtype"])["op_ms"].idxmin()]
    best = set(zip(fastest["shown"], fastest["layer"], strict=True))
    lines = [f"| | {' | '.join(table.columns)} |", "|---|" + "---:|" * len(table.columns)]
    for label, line in table.iterrows():
        texts = [f"**{cell}**" if (label, layer) in best else cell for layer, cell in line.items()]
        lines.append(f"| {label} | {' | '.join(texts)} |")
    last = overview.format_layer_times(results)
    lines += [f"| *layer time* {label} | {' | '.join(line)} |" for label, line in last.iterrows()]
    return "\n".join([f"{overview.write_caption(results)} Bold: the best of a column in FP32 and in FP16.", "", *lines])


def format_network(results: Recorded) -> str:
    """Return `overview.network` for docs/results.md, in images per second, and the time of 100 images."""
    many = overview.network(results)
    few = overview.name_networks(results.network(100)).query("where == 'device' and pixels == 'float32'")
    few = few.groupby("network")["ms"].min()
    columns = [*many.columns, "100 images on the device"]
    lines = [f"| | {' | '.join(columns)} |", "|---|" + "---:|" * len(columns)]
    for label, row in many.iterrows():
        rates = [f"{three(10_000 / time / 1e3)} M/s" if time == time else "–" for time in row]
        lines.append(f"| {label} | {' | '.join(rates)} | {ms(few[label]) if label in few else '–'} |")
    first = results.network(10_000).iloc[0]
    software = first["software"].partition("PyTorch ")[2]
    chunks = many.index.str.endswith("streams").any()
    caption = (
        f"Images per second of lenet86's forward pass, 10,000 images, {results.device}, {first['date']}, PyTorch "
        f"{software}. From the host: from page-locked memory, to probabilities in it; the plain network from ordinary "
        "memory; PyTorch copies, then computes. A graph: all launches as one CUDA graph; with 100 images 50 passes."
        + " On streams: from the host in chunks, whose copies overlap with kernels, as ours do." * bool(chunks)
        + " Compiled: by torch.compile, run likewise." * bool(many.index.str.endswith("compiled").any())
    )
    return "\n".join([caption, "", *lines])


def readme(name: Annotated[str, Argument(help="As in <!-- NAME:begin -->.")]) -> None:
    """Put standard input between markers of a page."""
    written = "written" if replace_marked(name, sys.stdin.read()) else "was up to date"
    print(f"{page(name).relative_to(ROOT)}: {name} {written}")


def _time_command(command: list[str], folder: Path, environment: dict[str, str]) -> float:
    began = time.monotonic()
    if subprocess.run(command, cwd=folder, env=environment).returncode:
        raise LabError(f"{' '.join(command)} failed: there are no timings")
    return time.monotonic() - began


def _drop_cuda_folders(path: str) -> str:
    """Return a PATH without the folders that have nvcc or nvidia-smi, and without this environment's own."""
    folders = [Path(folder) for folder in path.split(os.pathsep) if folder]
    return os.pathsep.join(str(folder) for folder in folders if folder != Path(sys.prefix) / "bin"
                           and not any((folder / name).exists() for name in ("nvcc", "nvidia-smi")))


def timings() -> None:
    """Measure report and test in a fresh clone.

    Cold: nothing is installed or cached, and no CUDA toolkit is on the path. Warm: the same commands again.
    """
    lines = ["| | cold | warm |", "|---|---:|---:|"]
    with tempfile.TemporaryDirectory(prefix="labkit-timings-") as scratch:
        clone, caches = Path(scratch, "clone"), str(Path(scratch, "caches"))
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
        ours = ("LABKIT_", "HOSTCUDA_", "PYTHON")
        environment = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
        environment |= {"PATH": _drop_cuda_folders(os.environ["PATH"]), "PIP_NO_CACHE_DIR": "1",
                        "HOSTCUDA_ENGINE": "cpu", "LABKIT_CACHE_DIR": caches, "HOSTCUDA_CACHE_DIR": caches,
                        "XDG_CACHE_HOME": caches}
        cold, warm = ({target: _time_command(["make", target], clone, environment) for target in ("report", "test")}
                      for _ in range(2))
    lines += [f"| `make {target}` | {cold[target]:.0f} s | {warm[target]:.0f} s |" for target in cold]
    lines += ["", f"{datetime.date.today():%-d %B %Y}, {os.cpu_count()} cores ({device().name}), Python "
              f"{platform.python_version()}, no GPU. Cold is a fresh clone with nothing installed: its first command "
              "also downloads and installs the environment. Warm is the same once more."]
    print("\n".join(lines))
