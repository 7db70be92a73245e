"""What this machine has, what it lacks, and one command for each thing that is missing.

Nothing is changed. What could crash (a compiler, a driver, PyCUDA) runs in a process of its own.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

import hostcuda
from hostcuda import files, settings, temporary
from hostcuda.errors import CompileError, EngineError
from hostcuda.host import toolchain

OK, MISSING, UNUSED, SLOW = "ok", "missing", "not needed", "slow"
# seconds of one program; of a kernel, which may compile the engine's own files
_TIMEOUT, _COMPILING = (60, 240)
_NO_ANSWER = "did not answer within"


@dataclasses.dataclass(frozen=True)
class Requirement:
    """One thing that an engine can use.

    Attributes
    ----------
    what : str
    state : {"ok", "missing", "not needed", "slow"}
        "not needed": absent, and this machine works without it. "slow": its trial did not end in
        time.
    found : str
        The version or the place; or what is wrong.
    remedy : str
        The command that installs or repairs it; empty if nothing is missing.
    """

    what: str
    state: str
    found: str
    remedy: str = ""


@dataclasses.dataclass(frozen=True)
class Report:
    """All requirements that were examined, and the engine that follows from them.

    Attributes
    ----------
    findings : list of Requirement
    engine : {"gpu", "cpu", None}
        The engine that will be used; None if there is none.
    why : str
        The reason; without an engine, what is missing.
    """

    findings: list[Requirement]
    engine: str | None
    why: str

    @property
    def ready(self) -> bool:
        """Whether kernels can run, on either engine."""
        return self.engine is not None

    def __getitem__(self, what: str) -> Requirement:
        return next(finding for finding in self.findings if finding.what == what)

    def as_dict(self) -> dict:
        """Return the report as a dict, for `hostcuda doctor --json`."""
        return {"ready": self.ready, **dataclasses.asdict(self)}


def examine() -> Report:
    """Examine everything that an engine can use, and return the report."""
    gpus = _list_gpus()
    # Whether this machine should run kernels on a GPU: else what only a GPU needs is not missing.
    # [1]: the value of HOSTCUDA_ENGINE; [0] is the name under which it is set.
    for_gpu = (
        bool(gpus) or settings.variable("ENGINE")[1].lower() == "gpu" or _has_nvidia_hardware()
    )
    findings = [
        _report_engine(),
        Requirement("Python", OK, f"{platform.python_version()}, {sys.executable}"),
        _examine_compiler(),
        _examine_driver(gpus, for_gpu),
        _examine_gpus(gpus, for_gpu),
        _examine_nvcc(for_gpu),
        _examine_package("PyCUDA", _PYCUDA, for_gpu, _make_pip_command("pycuda>=2025.1,<2027")),
        _examine_package("CUPTI", _CUPTI, for_gpu, _make_pip_command("cupti-python>=12.6,<14")),
        _examine_cache(),
        _examine_prepared(),
    ]
    engine, why = _choose_engine(findings)
    return Report(findings, engine, why)


def _run(command: list[str], seconds: int = _TIMEOUT, **environment: str) -> tuple[int, str]:
    """Run a command with more environment variables; return (exit status, output): 124 if too slow, 127 if not run."""
    try:
        result = subprocess.run(
            command,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return 124, f"{command[0]} {_NO_ANSWER} {seconds} s"
    except OSError as error:
        return 127, f"{command[0]}: {error.strerror}"
    return result.returncode, result.stdout.decode("utf-8", "replace").strip()


def _ask_python(code: str, seconds: int = _TIMEOUT, **environment: str) -> tuple[int, str]:
    """Run Python code that may crash, in a process with this package; return (exit status, last line of output)."""
    prelude = f"import sys; sys.path[:] = {[str(settings.HOME), *sys.path]!r}\n"
    status, text = _run(
        [sys.executable, "-W", "ignore", "-c", prelude + code], seconds, **environment
    )
    return status, text.splitlines()[-1] if text else f"it ended with status {status}"


def _choose_install_command(**by_manager: str) -> str:
    """Return this system's command that installs a package, whose name per manager is given: `apt="g++", conda="gxx"`.

    `macos` and `otherwise` are whole commands. An active conda environment comes before the
    system's package manager.
    """
    sudo = "" if hasattr(os, "geteuid") and os.geteuid() == 0 else "sudo "
    if sys.platform == "darwin" and "macos" in by_manager:
        return by_manager["macos"]
    if os.environ.get("CONDA_PREFIX") and "conda" in by_manager:
        return f"conda install -c conda-forge {by_manager['conda']}"
    for manager, program, verb in (
        ("apt", "apt-get", "install"),
        ("dnf", "dnf", "install"),
        ("pacman", "pacman", "-S"),
        ("zypper", "zypper", "install"),
        ("apk", "apk", "add"),
    ):
        if manager in by_manager and shutil.which(program):
            return f"{sudo}{program} {verb} {by_manager[manager]}"
    return by_manager["otherwise"]


def _make_pip_command(requirement: str) -> str:
    """Return the command that installs a Python package for this interpreter; `requirement` is as pip takes it."""
    return f'"{sys.executable}" -m pip install "{requirement}"'


def _report_engine() -> Requirement:
    """Report this engine's version and place, the machine, and whether it is a container."""
    machine = f"{platform.system()} {platform.machine()}{', in a container' if _is_in_container() else ''}"
    return Requirement(
        "hostcuda", OK, f"{hostcuda.__version__}, {Path(hostcuda.__file__).parent}; {machine}"
    )


# files that Docker makes, and Podman and its like
_MARKS = (Path("/.dockerenv"), Path("/run/.containerenv"))


def _is_in_container() -> bool:
    """Return whether this process runs in a container, of Docker, of Podman and its like, or of Kubernetes."""
    return any(mark.exists() for mark in _MARKS) or bool(os.environ.get("KUBERNETES_SERVICE_HOST"))


def _examine_compiler() -> Requirement:
    """Examine the host compiler: compile and run one line, then a kernel in each mode."""
    what = "C++ compiler"
    remedy = _choose_install_command(
        macos='docker run -it --rm -v "$PWD":/here -w /here python:3.13 bash',
        conda="cxx-compiler",
        apt="g++",
        dnf="gcc-c++",
        pacman="gcc",
        zypper="gcc-c++",
        apk="g++",
        otherwise="conda install -c conda-forge cxx-compiler",
    )
    try:
        command = toolchain.find()
    except CompileError as error:
        return Requirement(
            what,
            MISSING,
            str(error).split("\n")[0],
            "unset CXX" if os.environ.get("CXX") else remedy,
        )
    with temporary.folder() as folder:
        source, program = folder / "line.cpp", folder / "line"
        source.write_text(
            "#include <cmath>\nint main() { return std::lround(std::sqrt(1764.0)) == 42 ? 0 : 1; }\n"
        )
        status, output = _run([*command, "-std=gnu++17", "-O1", str(source), "-o", str(program)])
        if status == 0:
            status, output = _run([str(program)])
    if status:
        reason = output.splitlines()[-1] if output else f"status {status}"
        return _report_failure(
            what, f"{command[0]} cannot compile and run one line: {reason}", remedy
        )
    for mode, tools in _MODES.items():
        if problem := _find_failure(tools):
            if variable := re.match(r"HOSTCUDA_\w+", problem):  # the compiler is not to blame
                return Requirement(what, MISSING, problem, f"unset {variable[0]}")
            problem = (
                f"{' '.join(command)} compiles C++, but {mode} does not work with it: {problem}"
            )
            return _report_failure(what, problem, "unset CXX" if os.environ.get("CXX") else remedy)
    _, version = _run([*command, "--version"])
    version = version.partition("\n")[0] or "no version"
    return Requirement(what, OK, f"{version}, {shutil.which(command[0])}")


def _report_failure(what: str, problem: str, remedy: str) -> Requirement:
    """Return the requirement `what` as missing, because of a `problem`, or as slow if it was only too slow."""
    if _NO_ANSWER not in problem:
        return Requirement(what, MISSING, problem, remedy)
    problem = problem.replace("does not work with it", "did not end in time").replace(
        "cannot", "did not"
    )
    return Requirement(
        what, SLOW, f"{problem}. This machine is slow or busy: try again later", "hostcuda doctor"
    )


_MODES = {
    "running a kernel": "",
    "profiling": "profile",
    "sanitizing": "memcheck,racecheck,initcheck,synccheck",
}
_KERNEL = """
import sys
try:
    import numpy, hostcuda.api.driver as cuda
    from hostcuda import checking
    from hostcuda.api.compiler import SourceModule
    body = "__shared__ int s[32]; int t = threadIdx.x; s[t] = t; __syncthreads(); y[t] = s[31 - t];"
    y = numpy.zeros(32, numpy.int32)
    SourceModule(f"__global__ void f(int *y) {{ {body} }}").get_function("f")(cuda.Out(y), block=(32, 1, 1))
    seen = [site["op"] for launch in checking.launches() for site in launch.sites]
    if y[0] != 31:
        sys.exit("a small kernel has a wrong result")
    if "profile" in checking.TOOLS and sorted(seen) != ["ld", "st", "st"]:
        sys.exit(f"of the accesses ld, st, st of a small kernel it sees {', '.join(seen) or 'none'}")
except Exception as error:
    sys.exit(" ".join(str(error).split())[:300])
"""


def _find_failure(tools: str) -> str:
    """Return why the CPU engine cannot run a kernel with these tools of check mode; empty if it can."""
    status, output = _ask_python(_KERNEL, _COMPILING, HOSTCUDA_CHECK=tools)
    return output if status else ""


def _list_gpus() -> list[tuple[str, str]]:
    """Return (name, driver version) of every GPU, from nvidia-smi or else from the driver's library."""
    if shutil.which("nvidia-smi"):
        status, output = _run(
            ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
        )
        rows = [[part.strip() for part in line.split(",")] for line in output.splitlines()]
        if status == 0 and rows and all(len(row) == 2 for row in rows):
            return [(name, version) for name, version in rows]
    return _list_gpus_by_library()


def _list_gpus_by_library() -> list[tuple[str, str]]:
    """Return (name, "for CUDA 12.4") of every GPU, from the driver's library, for machines without nvidia-smi."""
    status, output = _ask_python(
        "import ctypes\n"
        "cuda = ctypes.CDLL('libcuda.so.1')\n"
        "assert cuda.cuInit(0) == 0\n"
        "count, version, name = ctypes.c_int(), ctypes.c_int(), ctypes.create_string_buffer(100)\n"
        "assert cuda.cuDeviceGetCount(ctypes.byref(count)) == 0\n"
        "cuda.cuDriverGetVersion(ctypes.byref(version))\n"
        "names = [cuda.cuDeviceGetName(name, 100, i) or name.value.decode() for i in range(count.value)]\n"
        "print('|'.join([f'for CUDA {version.value // 1000}.{version.value % 1000 // 10}', *names]))\n"
    )
    if status:
        return []
    version, *names = output.split("|")
    return [(name, version) for name in names]


def _has_nvidia_hardware() -> bool:
    """Return whether an NVIDIA display controller is plugged in, with or without a driver."""
    for device in Path("/sys/bus/pci/devices").glob("*"):
        with contextlib.suppress(OSError):
            vendor, kind = (device / "vendor").read_text(), (device / "class").read_text()
            # PCI's numbers: NVIDIA, display controllers
            if vendor.strip() == "0x10de" and kind.startswith("0x03"):
                return True
    return False


def _report_absence(what: str, for_gpu: bool, problem: str, remedy: str) -> Requirement:
    """Return the requirement `what`, which is absent and only GPUs need: missing if `for_gpu`, else not needed.

    `for_gpu`: this machine has a GPU, or is asked to use one. `problem` and `remedy` are for the former.
    """
    if for_gpu:
        return _report_failure(what, problem, remedy)
    return Requirement(what, UNUSED, "for an NVIDIA GPU, and there is none here")


def _examine_driver(gpus: list[tuple[str, str]], for_gpu: bool) -> Requirement:
    """Examine NVIDIA's driver, which answers if there are `gpus`: (name, driver version) each."""
    if gpus:
        return Requirement("NVIDIA driver", OK, gpus[0][1])
    if _is_in_container():
        remedy = "docker run --gpus all IMAGE"  # a container uses the driver of its host
    elif shutil.which("ubuntu-drivers"):
        remedy = "sudo ubuntu-drivers install"
    else:
        remedy = _choose_install_command(
            apt="nvidia-driver",
            dnf="akmod-nvidia",
            pacman="nvidia",
            zypper="nvidia-open-driver-G06-signed-kmp-meta",
            otherwise="see https://www.nvidia.com/drivers",
        )
    return _report_absence(
        "NVIDIA driver", for_gpu, "does not answer (nvidia-smi and libcuda.so.1)", remedy
    )


def _examine_gpus(gpus: list[tuple[str, str]], for_gpu: bool) -> Requirement:
    """Report the GPUs, given as (name, driver version), in words: "2 × NVIDIA H200"."""
    if gpus:
        names = [name for name, _ in gpus]
        return Requirement(
            "GPU", OK, ", ".join(f"{names.count(name)} × {name}" for name in dict.fromkeys(names))
        )
    return _report_absence("GPU", for_gpu, "none answers", "export HOSTCUDA_ENGINE=cpu")


def _examine_nvcc(for_gpu: bool) -> Requirement:
    """Examine nvcc on the path: its release, such as "release 12.4", and its place."""
    path = shutil.which("nvcc")
    if path:
        status, text = _run(["nvcc", "--version"])
        release = next((line for line in text.splitlines() if "release" in line), text[-100:])
        if status == 0:
            return Requirement(
                "nvcc", OK, f"{release.split(', ')[-2] if ', ' in release else release}, {path}"
            )
        return _report_failure("nvcc", f"{path} does not work: {text[-100:]}", _find_nvcc_remedy())
    return _report_absence(
        "nvcc", for_gpu, "not on the path; PyCUDA compiles kernels with it", _find_nvcc_remedy()
    )


def _find_nvcc_remedy() -> str:
    """Return the command that puts an installed nvcc on the path, or the one that installs it."""
    for toolkit in (os.environ.get("CUDA_HOME"), "/usr/local/cuda", "/opt/cuda"):
        if toolkit and (Path(toolkit) / "bin" / "nvcc").is_file():
            return f'export PATH="{toolkit}/bin:$PATH"'
    return _choose_install_command(
        conda="cuda-nvcc",
        apt="nvidia-cuda-toolkit",
        dnf="cuda-toolkit",
        pacman="cuda",
        zypper="cuda-toolkit",
        otherwise="conda install -c conda-forge cuda-nvcc",
    )


_PYCUDA = "import pycuda; print(pycuda.VERSION_TEXT)"
_CUPTI = "from cupti import cupti; from importlib.metadata import version; print(version('cupti-python'))"


def _examine_package(what: str, code: str, for_gpu: bool, remedy: str) -> Requirement:
    """Examine whether a Python package, which only a GPU needs, imports; `code` does so and prints its version."""
    status, output = _ask_python(code)
    if status == 0:
        return Requirement(what, OK, output)
    return _report_absence(what, for_gpu, f"does not import: {output}", remedy)


def _examine_cache() -> Requirement:
    """Examine whether the folder for compiled kernels can be used: it is created, and has to be this user's own."""
    try:
        return Requirement("cache", OK, str(files.private(settings.cache_dir())))
    except EngineError as error:
        return Requirement(
            "cache",
            MISSING,
            f"{error}. Until then every process compiles its kernels again",
            'export HOSTCUDA_CACHE_DIR="$(mktemp -d)"',
        )  # a name nobody can guess


def _examine_prepared() -> Requirement:
    """Return whether the engine's own files are compiled; programs compile what is missing."""
    what, remedy = "prepared", "hostcuda prepare"
    with contextlib.suppress(CompileError, EngineError, OSError):
        from hostcuda.prepare import is_prepared  # it is not needed where something else fails

        if is_prepared():
            return Requirement(what, OK, "the runtime library and precompiled headers are compiled")
        return Requirement(
            what, UNUSED, "the first program of each kind compiles the engine's own files", remedy
        )
    return Requirement(what, UNUSED, "no compiler, or no cache")


def _choose_engine(findings: list[Requirement]) -> tuple[str | None, str]:
    """Return the engine that a new process chooses, "gpu", "cpu" or None for none, and the reason in words."""
    # a terminal shows it while it lasts
    waiting = (
        "Trying the engine: with an empty cache it compiles its own files first, half a minute …"
    )
    with Console(stderr=True).status(waiting):
        status, choice = _ask_python(
            "try:\n    import hostcuda\n    hostcuda.ensure_context()\n    "
            "print(hostcuda.engine())\nexcept Exception as error:\n    sys.exit(' "
            "'.join(str(error).split()))\n"
        )
    if status or choice not in ("gpu", "cpu"):
        return None, choice.rstrip(".")
    by_name = {finding.what: finding for finding in findings}
    if choice == "cpu" and by_name["C++ compiler"].state == SLOW:
        return choice, "the C++ compiler is here, but its trial did not end in time"
    if choice == "cpu" and by_name["C++ compiler"].state != OK:
        return (
            None,
            "there is neither a GPU that PyCUDA can use nor a C++ compiler for the CPU engine",
        )
    name, value = settings.variable("ENGINE")
    if value.lower() not in ("", "auto"):
        return choice, f"{name}={value} asks for it"
    if choice == "gpu":
        return choice, "PyCUDA imports and a GPU answers"
    lacking = [
        name for name in ("NVIDIA driver", "GPU", "PyCUDA") if by_name[name].state == MISSING
    ]
    return (
        choice,
        f"missing for the GPU: {', '.join(lacking)}" if lacking else "there is no NVIDIA GPU here",
    )


def show(report: Report, what: str = "CUDA") -> None:
    """Print a report: a table, the remedies, and a sentence that says whether `what`, e.g. "CUDA", runs here."""
    console = Console(highlight=False)
    marks = {OK: ("✓", "green"), MISSING: ("✗", "red"), UNUSED: ("–", "dim"), SLOW: ("?", "yellow")}
    try:
        "✓✗–".encode(console.encoding)
    except UnicodeEncodeError:  # a terminal without these characters
        marks = {
            OK: ("+", "green"),
            MISSING: ("x", "red"),
            UNUSED: ("-", "dim"),
            SLOW: ("?", "yellow"),
        }
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for finding in report.findings:
        mark, colour = marks[finding.state]
        table.add_row(
            Text(mark, colour),
            Text(finding.what),
            Text(finding.found, "dim" if colour == "dim" else ""),
        )
    console.print(table)
    for finding in report.findings:
        if finding.remedy:
            console.print(Text(f"\n{finding.what}: ", "bold").append(finding.found, "not bold"))
            console.print(Text(f"    {finding.remedy}", "cyan"), soft_wrap=True)
    console.print()
    if report.ready:
        name = "GPU" if report.engine == "gpu" else "CPU engine"
        console.print(
            Text(f"{what} runs here, on the {name}: {report.why}.", "bold green"), soft_wrap=True
        )
        if report.engine == "cpu":
            console.print("Results and counts are real there; times are not GPU times.")
    else:
        # a report with further requirements, such as the lab's, may have an engine and lack another thing
        why = report.why if report.engine is None else "see above"
        console.print(Text(f"{what} cannot run here yet: {why}.", "bold red"), soft_wrap=True)
