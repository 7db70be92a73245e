"""Counters: held against Nsight Compute's, through every way a program can end."""

import importlib
import os
import re
import sys
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from running import IMPORTS

import hostcuda
from hostcuda import profile as profile_module
from hostcuda.errors import EngineError
from hostcuda.gpu import nsight
from hostcuda.limits import MULTIPROCESSOR, occupancy
from hostcuda.metrics import COUNTED
from hostcuda.profile import profile_script, watch

pytestmark = pytest.mark.thorough("breadth of check mode: a module compiled per case")

PROGRAM = '''
module = SourceModule("""__global__ void twice(float *x) { x[blockIdx.x * 32 + threadIdx.x] *= 2; }
__global__ void forever(volatile float *x) { while (x[0] == 0) ; }
__global__ void silent(int *x) { for (unsigned i = 0; i != 1; i += 2) ; x[0] = 1; }
__global__ void beyond(float *x) { x[128 + threadIdx.x] = 1; }
""")
twice = module.get_function("twice")
x = cuda.mem_alloc(4 * 128)
cuda.memset_d8(x, 0, 4 * 128)
def launch(count=1):
    for _ in range(count):
        twice(x, grid=(4, 1), block=(32, 1, 1))
    cuda.Context.synchronize()
def ctrl_c(seconds):
    """Pressed in the terminal that this runs in, after so long."""
    threading.Timer(seconds, os.kill, [os.getppid(), signal.SIGINT]).start()
def out_of_time(seconds):
    """The time limit of who started this is over, after so long; see the fixture `limit`."""
    threading.Timer(seconds, os.kill, [os.getppid(), signal.SIGUSR1]).start()
def start(name):
    print("starting", flush=True)
    module.get_function(name)(x, block=(32, 1, 1))
    cuda.Context.synchronize()
'''


@pytest.fixture
def program(write_program):
    return lambda rest: str(write_program(IMPORTS + PROGRAM + rest, "program.py"))


@pytest.fixture
def command(program, hostcuda_command):
    """Return a function that runs `hostcuda profile` on a program: exit status, stdout, stderr."""
    return lambda rest, *options: hostcuda_command(
        "profile", "--engine", "cpu", *options, program(rest)
    )


def test_the_command_prints_and_writes_csv(command, tmp_path):
    status, out, _ = command(
        "launch(3)\nprint('the program speaks')", "--csv", str(tmp_path / "out.csv")
    )
    assert status == 0 and "the program speaks" in out and "twice" in out
    table = pd.read_csv(tmp_path / "out.csv")
    assert len(table) == 3 and (table[COUNTED["global_load_requests"]] == 4).all()
    assert (table[COUNTED["global_load_sectors"]] == 16).all()


@pytest.mark.parametrize(
    ("rest", "options", "status", "printed", "words"),
    [
        ("launch()\nos._exit(7)", [], 7, ["twice"], ["exit status 7"]),
        ("launch()\nos.kill(os.getpid(), 9)", [], 137, ["twice"], ["SIGKILL"]),
        (
            "launch()\nprint('waiting', flush=True)\ntime.sleep(600)",
            ["--timeout", "4"],
            124,
            ["twice", "waiting"],
            ["was stopped"],
        ),
        (
            "launch()\nstart('beyond')\nlaunch()",
            [],
            1,
            ["twice", "launch 1, kernel beyond", "one past the end of"],
            ["LaunchError"],
        ),
        (
            "launch()\nSourceModule('__global__ void f() { nowhere(); }')",
            [],
            1,
            ["twice"],
            ["kernel.cu:1", "nowhere"],
        ),
    ],
    ids=["crash", "signal", "time limit", "fault", "compile error"],
)
def test_what_was_counted_is_kept(command, rest, options, status, printed, words):
    ended, out, err = command(rest, *options)
    assert (
        ended == status
        and all(text in out for text in printed)
        and all(text in err for text in words)
    )
    assert "disable pass" not in err


# with accesses in the loop, and without any
@pytest.mark.parametrize("kernel", ["forever", "silent"])
def test_a_kernel_that_never_ends_is_stopped_and_counted_until_then(
    command, limit, kernel, tmp_path
):
    csv = tmp_path / "out.csv"
    rest = f"launch()\nout_of_time(1)\nstart('{kernel}')"
    status, out, err = command(rest, "--no-nvcc", "--timeout", "300", "--csv", str(csv))
    assert status == 124 and "starting" in out and "was stopped" in err
    assert re.search(
        rf"launch 1, kernel {kernel}, block \(0,0,0\), thread \(\d+,0,0\) was stopped", out
    )
    table = pd.read_csv(csv).set_index("kernel")
    assert table["source"].to_dict() == {
        "twice": profile_module.COUNTED,
        kernel: profile_module.ABANDONED,
    }
    assert table.loc["twice", COUNTED["global_load_requests"]] == 4
    assert (table.loc[kernel, COUNTED["global_load_requests"]] > 0) == (kernel == "forever")


def test_ctrl_c_keeps_what_was_counted(command, tmp_path):
    csv = tmp_path / "out.csv"
    status, out, err = command("launch()\nctrl_c(1)\nstart('forever')", "--csv", str(csv))
    assert status == 130 and "was interrupted" in err
    assert re.search(
        r"launch 1, kernel forever, block \(0,0,0\), thread \(\d+,0,0\) was stopped", out
    )
    assert pd.read_csv(csv)["kernel"].tolist() == ["twice", "forever"]


def test_a_program_that_launches_nothing(command, tmp_path):
    status, out, _ = command("", "--csv", str(tmp_path / "out.csv"))
    assert status == 0 and "No kernel was launched" in out
    table = pd.read_csv(tmp_path / "out.csv")
    assert table.empty and {"launch", "kernel", "source", *COUNTED.values()} <= set(table)


def test_ten_thousand_launches(program):
    profile = profile_script(program("launch(10_000)"), engine="cpu", capture=True)
    assert profile.ended.status == 0 and len(profile.table) == 10_000
    assert profile.value("global_load_requests", "twice") == 40_000
    assert len(repr(profile).splitlines()) < 10


def test_a_notebook_is_no_program(tmp_path):
    (tmp_path / "a.ipynb").touch()
    with pytest.raises(EngineError, match="a notebook"):
        profile_script(str(tmp_path / "a.ipynb"))


LOCAL = """
numbers = cuda.to_device(np.arange(64, dtype=np.int32))
for name in ("kept", "given", "chosen"):
    SourceModule('''
        __device__ __noinline__ void fill(int *t, const int *a) { for (int i = 0; i < 40; i++) t[i] = a[i]; }
        __global__ void given(int *a, int n) { int t[40]; fill(t, a); a[threadIdx.x] = t[(threadIdx.x + n) % 40]; }
        __global__ void kept(int *a, int n) {
            int t[40];
            for (int i = 0; i < 40; i++) t[i] = a[i];
            a[threadIdx.x] = t[(threadIdx.x + n) % 40];
        }
        struct number { int i; };
        __global__ void chosen(number *a, int n) {
            const number none = {n};
            number mine = threadIdx.x < 20 ? a[threadIdx.x] : none;
            a[threadIdx.x].i = mine.i + 1;
        }''').get_function(name)(numbers, np.int32(3), block=(32, 1, 1))
cuda.Context.synchronize()
"""


def test_local_requests_are_those_that_can_be_seen(program):
    """The 40 stores to an array whose address another function gets are counted; other variables stay in registers."""
    profile = profile_script(program(LOCAL), engine="cpu", capture=True)
    assert profile.ended.status == 0, profile.ended.output
    local = profile.table.set_index("kernel")["lab__local_requests_address_taken.sum"]
    assert local["given"] == 40 and np.isnan(local["kept"]) and np.isnan(local["chosen"])
    assert "local requests (address taken)" in repr(profile)


PTXAS = """ptxas info    : Compiling entry function 'twice' for 'sm_90'
    24 bytes stack frame, 8 bytes spill stores, 12 bytes spill loads
ptxas info    : Used 40 registers, used 1 barriers, 2048 bytes smem
"""
NVCC = """#!/bin/sh
if [ "$1" = --version ]; then echo "release 13.0, V13.0.1"; exit; fi
for last; do :; done
if grep -q forever "$last"; then cat HERE/ptxas >&2; else echo 'kernel.cu(1): error: not for a GPU' >&2; exit 2; fi
echo "$@" >> HERE/calls
"""


@pytest.fixture
def fake_nvcc(monkeypatch, tmp_path):
    """Put a stand-in in the place of nvcc: it refuses all but `PROGRAM`'s own source."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "ptxas").write_text(PTXAS)
    (folder / "nvcc").write_text(NVCC.replace("HERE", str(folder)))
    (folder / "nvcc").chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)
    return folder


def test_registers_come_from_nvcc(program, fake_nvcc):
    """The kernel `twice` gets them, from the same source given twice; another source is refused."""
    rest = """
launch(2)
for i in range(2):
    SourceModule("__global__ void host(int *x) { x[0] = 1; }").get_function("host")(x, block=(1, 1, 1))
SourceModule("__global__ void twice(float *x) { /* forever */ }", options=["-DA=1", "-arch", "sm_80"]).get_function(
    "twice")(x, grid=(1, 1), block=(32, 1, 1), shared=40_000)
cuda.Context.synchronize()
"""
    profile = profile_script(program(rest), engine="cpu", capture=True)
    table = profile.table.set_index("kernel")
    assert (
        profile.value("registers", "twice") == 40
        and profile.value("static_shared_bytes", "twice") == 2048
    )
    assert table.loc["twice", "launch__registers_per_thread"].tolist() == [40, 40, 40]
    assert table.loc["twice", "sm__maximum_warps_per_active_cycle_pct"].tolist() == [50, 50, 7.8125]
    facts = table.loc["twice", ["local_bytes", "spill_store_bytes", "spill_load_bytes"]]
    assert facts.drop_duplicates().to_numpy().tolist() == [[24, 8, 12]]
    assert set(table.loc["twice", "source"]) == {
        "CPU engine, counted; registers: nvcc 13.0.1, sm_90"
    }
    assert table.loc["host", "launch__registers_per_thread"].isna().all()
    assert set(table.loc["host", "source"]) == {profile_module.COUNTED}
    assert "nvcc 13" not in profile.note, "a figure's line is the same on every machine"
    assert "Registers and occupancy: nvcc 13.0.1, sm_90." in repr(profile)
    assert (
        "Kernels without registers were refused by nvcc: kernel.cu(1): error: not for a GPU"
        in profile.note
    )
    calls = (fake_nvcc / "calls").read_text().splitlines()
    assert len(calls) == 2 and all("-arch=sm_90" in call and "sm_80" not in call for call in calls)
    assert sum("-DA=1" in call for call in calls) == 1


def test_registers_can_be_left_out(program, fake_nvcc):
    profile = profile_script(program("launch()"), engine="cpu", capture=True, nvcc=False)
    assert (
        "launch__registers_per_thread" not in profile.table and not (fake_nvcc / "calls").exists()
    )


@pytest.fixture
def on_gpu(monkeypatch, tmp_path):
    """Return a function that puts a stand-in in the place of ncu, as on a machine with a GPU; None: there is no ncu."""

    def put(ncu):
        (tmp_path / "ncu").write_text(ncu or "")
        (tmp_path / "ncu").chmod(0o755)
        monkeypatch.setattr(nsight, "find", lambda tool: str(tmp_path / "ncu") if ncu else None)
        monkeypatch.setattr(hostcuda, "why_no_gpu", lambda: None)

    return put


FORBIDDEN = """#!/bin/sh
while [ "$1" != --log-file ]; do shift; done
echo '==PROF== Connected to process 1' > "$2"
echo '==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters' >> "$2"
exit 1
"""


@pytest.mark.parametrize(
    ("ncu", "why"),
    [
        (None, "ncu is not on this machine"),
        (FORBIDDEN, "permits counters only to administrators (ERR_NVGPUCTRPERM)"),
    ],
)
@pytest.mark.parametrize("program", [["script.py"], ["-P", "-m", "module"]])
def test_without_counters_events_stand_in(ncu, why, program, on_gpu, tmp_path, capsys):
    """Rows of a GPU without counters hold event times and resources, and a line says why."""
    on_gpu(ncu)
    row = (
        '{"kernel": "conv", "grid": [2, 1, 1], "block": [64, 1, 1], "time_ns": 1500, "registers": 30, '
        '"shared_bytes": 0, "local_bytes": 0, "occupancy_pct": 100.0}'
    )
    fake = tmp_path / "python"  # in the place of `python -m hostcuda.gpu.launches FILE SCRIPT`
    fake.write_text(
        f"#!/bin/sh\necho $*\nwhile [ $1 != -m ]; do shift; done\nprintf '%s\\n' '{row}' > $3\n"
    )
    fake.chmod(0o755)
    profile = watch([str(fake), *program], engine="gpu", capture=True)
    options = [
        word for word in program if word == "-P"
    ]  # of Python itself: before the module that times
    words = profile.ended.output.split()
    assert words[: len(options)] == options and words[-1] == program[-1]
    assert profile.table["source"].tolist() == [profile_module.EVENTS]
    assert profile.value("time_ns", "conv") == 1500 and profile.value("registers", "conv") == 30
    assert why in profile.note and "the engine 'cpu' counts without a GPU" in profile.note
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert why in line
    with pytest.raises(EngineError, match="no counter 'global_sectors'"):
        profile.value("global_sectors", "conv")


def test_a_gpu_that_is_not_there_is_told_before_anything_runs(monkeypatch, program):
    monkeypatch.setattr(
        hostcuda, "why_no_gpu", lambda: "PyCUDA is not installed: pip install pycuda"
    )
    with pytest.raises(EngineError, match="no GPU to use: PyCUDA is not installed"):
        profile_script(program("launch()"), engine="gpu")


def test_what_was_stopped_on_a_gpu_is_not_run_again(on_gpu):
    """The time limit applies once to ncu without counters and a kernel without an end."""
    on_gpu(FORBIDDEN.replace("exit 1", "echo once; sleep 600"))
    profile = watch(["/bin/echo", "again"], engine="gpu", timeout=2, capture=True)
    assert profile.ended.stopped and profile.ended.output == "once\n"
    assert "only to administrators" in profile.note and profile.table.empty


@pytest.mark.parametrize(
    ("arch", "threads", "registers", "shared", "share"),
    [
        ("sm_90", 256, 32, 0, 1.0),
        ("sm_90", 256, 30, 1024, 1.0),
        ("sm_90", 256, 40, 0, 0.75),  # 5 * 256 registers per warp: 51 warps, 6 blocks of 8
        ("sm_90", 1024, 64, 0, 0.5),  # one block only: two need 131072 registers
        ("sm_90", 32, 32, 0, 0.5),  # 32 blocks of one warp
        ("sm_90", 256, 32, 100_000, 0.25),  # two blocks fit into shared memory
        ("sm_75", 256, 32, 0, 1.0),
        ("sm_75", 256, 32, 32768, 0.5),  # before Ampere the driver takes no shared memory
    ],
)
def test_occupancy(arch, threads, registers, shared, share):
    assert occupancy(threads, registers, shared, MULTIPROCESSOR[arch]) == share


@pytest.mark.parametrize(
    ("capability", "known"),
    [
        ((major, minor), MULTIPROCESSOR[f"sm_{major}{minor}"])
        for major, minor in ((7, 5), (8, 0), (8, 6), (8, 9), (9, 0))
    ],
)
def test_the_limits_of_a_device_are_those_of_the_table(monkeypatch, capability, known):
    attributes = {
        "MAX_THREADS_PER_MULTIPROCESSOR": 32 * known["warps"],
        "MAX_REGISTERS_PER_MULTIPROCESSOR": known["registers"],
        "MAX_SHARED_MEMORY_PER_MULTIPROCESSOR": known["shared"],
    }
    names = SimpleNamespace(**{name: name for name in attributes})
    driver = SimpleNamespace(device_attribute=names)
    monkeypatch.setitem(sys.modules, "pycuda", SimpleNamespace(driver=driver))
    monkeypatch.delitem(sys.modules, "hostcuda.gpu.launches", raising=False)
    limits = importlib.import_module("hostcuda.gpu.launches").limits
    device = SimpleNamespace(
        compute_capability=lambda: capability, get_attribute=attributes.__getitem__
    )
    assert limits(device) == known
    assert [row["blocks"] for row in MULTIPROCESSOR.values()] == [16, 32, 16, 24, 32]
