"""Run the programs and their planted mistakes on a GPU, plain and under compute-sanitizer, and write what happens.

python -m tests.hopper.run_on_gpu tests/hopper/DEVICE.json

Needs compute capability 9.0, nvcc and compute-sanitizer, and no package. A program that does not end
is stopped: plain after 10 s, under a tool after 20 s, or 12 s if it hangs anyway. `table` writes the
results into a page.
"""

import contextlib
import datetime
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from .planted import FOLDER, PROGRAMS, list_variants

TARGET = "-gencode", "arch=compute_90a,code=sm_90a"
TOOLS = "memcheck", "racecheck", "synccheck"
PLAIN_S, TOOL_S, HANGING_S, RUNS, AT_ONCE = 10, 20, 12, 4, 12
MOST_BLOCKS = 12  # of a tool's report, of those that differ in more than threads and addresses


def find_sanitizer() -> str:
    """Return the path of compute-sanitizer, by PATH or where CUDA's toolkit puts it; exit if there is none."""
    places = "/usr/local/cuda/bin", "/usr/local/cuda/compute-sanitizer"
    found = shutil.which("compute-sanitizer", path=os.pathsep.join([os.environ["PATH"], *places]))
    return found or sys.exit("compute-sanitizer is not on this machine: put it on the PATH")


def run(command: list[str], limit: float) -> tuple[str, int | None, float]:
    """Return what a command prints, its exit status, None if it was stopped at the limit, and its seconds."""
    begin = time.monotonic()
    with tempfile.TemporaryFile("w+") as output:
        child = subprocess.Popen(command, stdout=output, stderr=output, start_new_session=True)
        try:
            status = child.wait(limit)
        except subprocess.TimeoutExpired:
            status = None
            os.killpg(child.pid, signal.SIGKILL)
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(10)  # a driver may need long to end a kernel
        output.seek(0)
        return output.read(), status, round(time.monotonic() - begin, 1)


def name_outcome(output: str, status: int | None) -> str:
    """Return "PASS", "FAIL", "hang" or "error: " with its text, of a program's output and exit status."""
    lines = output.splitlines() or [""]
    if status is None:
        return "hang"
    verdict = lines[-1].split()[:1]
    if verdict in (["PASS"], ["FAIL"]) and (len(lines) == 1 or verdict == ["PASS"]):
        return verdict[0]
    return "error: " + (lines[0] or f"exit status {status}")


def shorten(report: str) -> str:
    """Return the blocks of a report that differ in more than numbers: the first `MOST_BLOCKS`."""
    blocks: list[list[str]] = []
    for line in report.splitlines():
        if line.startswith("=========  ") and blocks:
            blocks[-1].append(line)
        elif line.strip("= "):
            blocks.append([line])
    different = {}
    for block in blocks:
        text = "\n".join(block)
        without = re.sub(r"0x[0-9a-f]+|\(\d+,\d+,\d+\)|Current Value.*|Incoming Value.*", "", text)
        different.setdefault(re.sub(r"(?<!:)\b\d+", "", without), text)
    # the summaries come last
    kept = [*different.values()]
    return "\n=========\n".join([*kept[:MOST_BLOCKS], *kept[max(MOST_BLOCKS, len(kept) - 2) :]])


def digest(program: str) -> str:
    """Return a digest of a program's source and of the header that it includes."""
    sources = FOLDER / f"{program}.cu", FOLDER / "instructions.h"
    return hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()[:16]


def compile_variant(variant: tuple[str, int], folder: Path) -> Path:
    """Compile a program with one of its mistakes, or with 0 for none; return the executable file."""
    program, bug = variant
    source, built = FOLDER / f"{program}.cu", folder / f"{program}.{bug}"
    options = [*TARGET, "-std=c++17", "-lineinfo", "-w", f"-DBUG={bug}"]
    subprocess.run(["nvcc", *options, "-o", str(built), str(source)], check=True)
    return built


def run_plain(program: Path) -> list[str]:
    """Return the outcomes of a program's runs: of four, or of one that hangs."""
    outcomes = []
    while len(outcomes) < RUNS and "hang" not in outcomes:
        outcomes.append(name_outcome(*run([str(program)], PLAIN_S)[:2]))
    return outcomes


def run_tool(sanitizer: str, program: Path, tool: str, limit: float = TOOL_S) -> dict:
    """Return outcome, seconds and report of a program under one of compute-sanitizer's tools."""
    more = ["--racecheck-report", "hazard"] if tool == "racecheck" else []
    log = program.with_name(f"{program.name}.{tool}")
    command = [sanitizer, "--tool", tool, *more, "--print-limit", "1000", "--show-backtrace", "no"]
    output, status, seconds = run([*command, "--log-file", str(log), str(program)], limit)
    report = log.read_text(errors="replace") if log.exists() else output
    outcome = name_outcome(output, status)
    return {"outcome": outcome, "seconds": seconds, "report": shorten(report)}


def main() -> None:
    """Compile, run, and write the results."""
    results, sanitizer, begin = Path(sys.argv[1]), find_sanitizer(), time.monotonic()
    query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    device, driver = run(query, 30)[0].splitlines()[0].split(", ")
    variants = list_variants()
    with tempfile.TemporaryDirectory() as name, ThreadPoolExecutor(AT_ONCE) as pool:
        folder = Path(name)
        first = compile_variant(("mbarrier", 0), folder)
        refusal = run_tool(sanitizer, first, "memcheck")["report"]
        if "not supported" in refusal:
            sys.exit(f"compute-sanitizer does not run on this machine: {refusal[:500]}")
        with ThreadPoolExecutor() as compilers:
            programs = [*compilers.map(lambda variant: compile_variant(variant, folder), variants)]
        print(f"{len(programs)} programs compiled, {time.monotonic() - begin:.0f} s", flush=True)
        rows = {}
        plain = pool.map(run_plain, programs)
        for (program, bug), built, outcomes in zip(variants, programs, plain, strict=True):
            rows[built] = {"program": program, "bug": bug, "plain": outcomes, "tools": {}}
        print(f"run, {time.monotonic() - begin:.0f} s", flush=True)
        # those that hang keep the GPU busy: last
        limits = {built: HANGING_S if "hang" in rows[built]["plain"] else TOOL_S for built in rows}
        order = sorted(programs, key=limits.get, reverse=True)
        jobs = [(built, tool, limits[built]) for built in order for tool in TOOLS]
        found = pool.map(lambda job: run_tool(sanitizer, *job), jobs)
        for (built, tool, _), of_tool in zip(jobs, found, strict=True):
            rows[built]["tools"][tool] = of_tool
    versions = {
        name: match[1] if (match := re.search(pattern, run([tool, "--version"], 30)[0])) else ""
        for name, tool, pattern in (
            ("compute-sanitizer", sanitizer, r"Version ([\d.]+)"),
            ("nvcc", "nvcc", r"\bV([\d.]+)"),
        )
    }
    written = {
        "device": device,
        "driver": driver,
        **versions,
        "date": datetime.date.today().isoformat(),
        "sources": {program: digest(program) for program in PROGRAMS},
        "rows": [*rows.values()],
    }
    results.write_text(json.dumps(written, indent=1) + "\n")
    print(f"{len(jobs)} reports, {time.monotonic() - begin:.0f} s: {results}")


if __name__ == "__main__":
    main()
