"""The CPU engine's compiler, on any machine: options, headers, messages, and the cache under bad conditions."""

import errno
import gc
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from running import run_python

import hostcuda.api.driver as cuda
from hostcuda import settings as paths
from hostcuda.api.compiler import SourceModule, compile
from hostcuda.build import messages
from hostcuda.build import modules as module_cache
from hostcuda.build import options as nvcc_options
from hostcuda.build.prelude import make_prelude
from hostcuda.build.unit import make_unit
from hostcuda.errors import EngineError
from hostcuda.host import cache, toolchain
from hostcuda.runtime.building import build_library
from hostcuda.source import warnings_about

pytestmark = pytest.mark.core("every kernel passes through it")

ROOT = Path(__file__).resolve().parents[2]
WRITE = "__global__ void f(int *y) { y[0] = %s; }"


def value(source, **keywords):
    """Return the int that kernel f writes."""
    y = np.full(1, -1, np.int32)
    SourceModule(source, **keywords).get_function("f")(cuda.Out(y), block=(1, 1, 1))
    return int(y[0])


def message(source, **keywords):
    with pytest.raises(cuda.CompileError) as caught:
        SourceModule(source, **keywords)
    return caught.value


@pytest.fixture
def fresh_cache(tmp_path, monkeypatch):
    """Make an empty cache folder that already has the runtime library and the prelude of the common one."""
    compile(WRITE % 1)
    for path in cache.directory().iterdir():
        if path.name.startswith(("runtime-", "prelude-")):
            (tmp_path / path.name).symlink_to(path)
    monkeypatch.setenv("HOSTCUDA_CACHE_DIR", str(tmp_path))
    return tmp_path


def compiled_files(folder):
    return sorted(p for p in (folder / "modules").rglob("*") if p.is_file())


# -- options


@pytest.mark.thorough("a module per option")
@pytest.mark.parametrize(
    ("expression", "options", "expected"),
    [
        ("N", ["-DN=7"], 7),
        ("N", ["-D", "N=8"], 8),
        ("N", ["--define-macro=N=9"], 9),
        ("N", ["-DN"], 1),
        ("TWICE(4)", ["-DTWICE(x)=((x) + (x))"], 8),
        ("N", ["-DN=1", "-UN", "-DN=2"], 2),
        ("__CUDA_ARCH__", [], 900),
        ("__CUDA_ARCH__", ["-arch=sm_80"], 800),
        ("__CUDA_ARCH__", ["--gpu-architecture", "compute_75"], 750),
        ("__cplusplus >= 202002", ["-std=c++20"], 1),
        ("__cplusplus >= 201703", ["--std", "c++11"], 1),
        ("isnan(__int_as_float(-1))", ["--use_fast_math"], 1),
        (
            "6",
            [
                "-O3",
                "-lineinfo",
                "-Xptxas",
                "-v,-O3",
                "-Xcompiler=-Wall",
                "--maxrregcount=32",
                "-w",
                "-m64",
                "-gencode",
                "arch=compute_80,code=sm_80",
                "--expt-relaxed-constexpr",
                "-rdc=true",
            ],
            6,
        ),
        ("5", ["-G"], 5),
    ],
)
def test_options(expression, options, expected):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert value(WRITE % expression, options=options) == expected


def test_a_kernel_that_ptxas_shall_not_optimize_takes_less_time_to_compile(monkeypatch):
    """It has the same precompiled header, for its threads one after the other, and its warnings are kept, too."""
    options = ["-Xptxas", "-v,-O1"]
    fused = """__global__ void f(int *y) {  // 0 if it were not fused
  float a = 1 - 0x1p-12f * y[0];
  y[0] = (int)((a * a - (1 + 0x1p-11f)) * 0x1p24f);
}"""
    assert value(fused, options=options) == value(fused) == 1
    usual, quick = make_unit("", ()), make_unit("", options)
    assert [flag for flag in quick.flags if flag.startswith("-O")] == ["-O3", "-O1"]
    assert quick.key != usual.key and quick.make_prelude() == usual.make_prelude()
    wrong = f"{WRITE % 'n'} // {time.time_ns()}".replace("{ ", "{ int n; ")
    first, run = make_unit(wrong).warnings(), toolchain.run
    monkeypatch.setattr(toolchain, "run", lambda line, cwd: run(line * ("-E" in line), cwd))
    assert "'n' is used uninitialized" in first and make_unit(wrong).warnings() == first


def test_arch_keyword():
    assert value(WRITE % "__CUDA_ARCH__", arch="sm_86") == 860


def test_an_unknown_option_warns_once():
    nvcc_options._ignored_options.discard("--no-such-option")
    with pytest.warns(UserWarning, match="'--no-such-option'"):
        assert value(WRITE % 1, options=["--no-such-option"]) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert value(WRITE % 1, options=["--no-such-option"]) == 1


def test_a_full_disk_is_not_the_compilers_fault(tmp_path):
    full = tmp_path / "g++"
    full.write_text(
        "#!/bin/sh\necho 'fatal error: error writing to /tmp/x.s: No space left on device' >&2; exit 1\n"
    )
    full.chmod(0o755)
    with pytest.raises(
        EngineError, match=r"^the disk of .*, where g\+\+ writes, is full: free some space there"
    ):
        toolchain.run([str(full), "-c", "a.cpp"])


# -- headers


def test_headers_are_found_rewritten_and_watched(tmp_path):
    sub = tmp_path / "sub"
    sub.mkdir()
    (tmp_path / "outer.cuh").write_text('#pragma once\n#include "sub/inner.cuh"\n')
    (sub / "inner.cuh").write_text(
        '#include "beside.cuh"\n__device__ int *scratch() { extern __shared__ int s[]; return s; }\n'
    )
    (sub / "beside.cuh").write_text("#define N 1\n")
    source = '#include "outer.cuh"\n#include "outer.cuh"\n' + WRITE % "scratch()[0] = N"
    source = source.replace("{ y", "{ extern __shared__ int s[]; y")
    y = np.zeros(1, np.int32)
    for n in (1, 2, 1):
        (sub / "beside.cuh").write_text(f"#define N {n}\n")
        f = SourceModule(source, include_dirs=[str(tmp_path)]).get_function("f")
        f(cuda.Out(y), block=(1, 1, 1), shared=4)
        assert y[0] == n


def test_include_options(tmp_path):
    (tmp_path / "n.h").write_text("#define N 3\n")
    assert value('#include "n.h"\n' + WRITE % "N", options=[f"-I{tmp_path}"]) == 3
    assert value("#include <n.h>\n" + WRITE % "N", options=["-I", str(tmp_path)]) == 3
    assert value(WRITE % "N", options=["-I", str(tmp_path), "-include", "n.h"]) == 3


# -- what the compiler says


def test_errors_have_the_users_line():
    error = message(
        "__global__ void f(float *x)\n{\n  extern __shared__\n    float s[];\n  x[0] = s[0] + missing;\n}"
    )
    assert error.msg.startswith("compilation of kernel.cu failed:\nkernel.cu:")
    assert str(error).count("kernel.cu:5:17: error: ") == 1 and "missing" in error.msg
    assert "hostcuda" not in error.stderr and "kernel.cpp" not in error.stderr
    assert error.command_line[0] == toolchain.find()[0]
    assert error.command_line[0] not in str(error) and "-std=" not in str(error)


def test_errors_honour_line_directives():
    error = message(
        '#line 40 "lesson/01_baseline.cu"\n#include <math.h>\n__global__ void f() { missing(); }'
    )
    assert error.msg.startswith("compilation of lesson/01_baseline.cu failed:")
    assert "lesson/01_baseline.cu:41:23: error:" in error.msg


def test_errors_found_in_the_engines_headers_point_at_the_user():
    error = message("\nstruct S { int n; virtual void g() {} };\n__global__ void f(S s) { }\n")
    assert "kernel.cu:3:" in error.msg and "cannot have virtual functions" in error.msg
    assert "launch.h" not in error.stderr


def test_many_errors_end():
    assert message("\n".join(f"int a{i} = b{i};" for i in range(200))).stderr.count("error:") <= 21


# -- limits that ptxas checks


TOO_MUCH_SHARED = (
    "__shared__ int s[64 * 1024 / 4]; s[threadIdx.x] = 1; __syncthreads(); y[0] = s[1];"
)
TOO_MUCH_CONSTANT = "__constant__ float a[16000], b[1000]; __global__ void f(float *y) { *y = a[threadIdx.x] + b[0]; }"


@pytest.mark.parametrize(
    ("source", "options", "words"),
    [
        (WRITE % 1, ["-D"], "the nvcc option -D has no value"),
        ("template <int N> __global__ void f() {}", [], "no_extern_c=True"),
        (
            "__device__ int g(int); __global__ void f(int *y) { y[0] = g(1); }",
            [],
            "g is declared and used, but not",
        ),
        (
            f"__global__ void f(int *y) {{ {TOO_MUCH_SHARED} }}",
            [],
            "kernel 'f' uses too much shared data: 65536 bytes",
        ),
        (TOO_MUCH_CONSTANT, [], "too much global constant data: 68000 bytes"),
    ],
)
def test_what_nvcc_or_ptxas_would_refuse(source, options, words):
    assert words in message(source, options=options).msg


# -- the cache


def test_a_second_compile_comes_from_the_cache(fresh_cache, monkeypatch):
    source = WRITE % "41"
    assert value(source) == 41
    files = compiled_files(fresh_cache)
    assert len(files) == 2
    monkeypatch.setattr(toolchain, "run", lambda *_, **__: pytest.fail("the compiler ran"))
    assert value(source) == 41
    assert compiled_files(fresh_cache) == files


def test_the_precompiled_header_is_used(monkeypatch):
    if toolchain.is_clang(toolchain.find()):
        pytest.skip("-H of g++ tells which headers it took precompiled")
    errors, run = [], toolchain.run

    def run_and_keep_errors(command, cwd=None):
        done = run([*command, "-H"] if "-shared" in command else command, cwd)
        errors.append(done[2])
        return done

    monkeypatch.setattr(toolchain, "run", run_and_keep_errors)
    for options in ([], ["--use_fast_math"]):
        errors.clear()
        compile(WRITE % time.time_ns(), options=options, cache_dir=False)
        assert "! " in errors[-1] and "hostcuda.h.gch" in errors[-1]


def test_modules_of_one_source_have_their_own_variables():
    source = "__device__ int n; __global__ void f(int *y) { y[0] = ++n; }"
    first, second = (SourceModule(source).get_function("f") for _ in range(2))
    y = np.zeros(1, np.int32)
    seen = []
    for function in (first, first, second):
        function(cuda.Out(y), block=(1, 1, 1))
        seen.append(int(y[0]))
    assert seen == [1, 2, 1]


def test_modules_of_one_source_may_be_loaded_by_many_threads_at_once(monkeypatch):
    source = "__device__ int n; __global__ void f(int *y) { y[0] = ++n; } // from threads"
    # all but the first thread make a copy
    copyfile, started = (shutil.copyfile, threading.Barrier(5))

    def copy_all_at_once(*paths):
        with suppress(threading.BrokenBarrierError):
            started.wait(timeout=5)
        copyfile(*paths)

    monkeypatch.setattr(
        module_cache, "shutil", SimpleNamespace(copyfile=copy_all_at_once, rmtree=shutil.rmtree)
    )
    cuda.init()
    with ThreadPoolExecutor(6) as pool:
        modules = list(pool.map(SourceModule, [source] * 6))
    assert len({module.module._path for module in modules}) == 6
    for _ in range(2):
        y = np.zeros(1, np.int32)
        seen = [
            module.get_function("f")(cuda.Out(y), block=(1, 1, 1)) or int(y[0])
            for module in modules
        ]
    assert seen == [2] * 6


def test_the_copy_goes_with_its_module():
    first, second = (SourceModule(WRITE % "'c'") for _ in range(2))
    buffer = cuda.module_from_buffer(compile(WRITE % "'d'"))
    cached, *copies = (Path(module._path) for module in (first.module, second.module, buffer))
    assert all(path.parent == cache.scratch() and path.is_file() for path in copies)
    del first, second, buffer
    gc.collect()
    assert cached.is_file() and not any(path.exists() for path in copies)


@pytest.mark.parametrize("damage", [b"", b"not a library", None])
def test_a_damaged_file_is_rebuilt(fresh_cache, damage):
    source = WRITE % "42"
    compile(source)
    for path in compiled_files(fresh_cache):
        path.write_bytes(path.read_bytes()[:-100] if damage is None else damage)
    assert value(source) == 42


def test_a_damaged_runtime_or_header_is_made_again(tmp_path, monkeypatch):
    command = toolchain.find()
    toolchain.fingerprint(command)
    made = []

    def write_the_output(line, cwd=None):
        if "-o" not in line:  # the list of macros
            return 0, "#define EOF (-1)\n", ""
        made.append(Path(line[line.index("-o") + 1]))
        made[-1].write_bytes(b"compiled")
        return 0, "", ""

    monkeypatch.setattr(toolchain, "run", write_the_output)
    monkeypatch.setenv("HOSTCUDA_CACHE_DIR", str(tmp_path))
    for damage in (None, b"comp", b"Compiled", b""):
        for obtain in (build_library, lambda: make_prelude(command, ["-O3"])):
            path = Path(obtain())
            path = path if path.suffix == ".so" else next(path.parent.glob("*.?ch"))
            if damage is not None:
                path.write_bytes(damage)
                assert Path(obtain()).exists()
            assert path.read_bytes() == b"compiled"
            if path.suffix != ".so":  # a sandbox reads the folder as another user
                assert path.parent.stat().st_mode & 0o005 == 0o005
    names = [path.name.partition(".")[2] for path in made]
    assert names.count("so") == 4
    # and once that of sources without options
    assert sum(name.endswith("ch") for name in names) == 4 + 1


def test_a_large_file_is_read_once_until_it_changes_or_the_machine_restarts(tmp_path, monkeypatch):
    monkeypatch.setenv("HOSTCUDA_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(cache, "_LARGE", 3)
    path = cache.obtain("large", lambda file: file.write_bytes(b"content"))
    read, read_bytes = [], Path.read_bytes
    monkeypatch.setattr(Path, "read_bytes", lambda file: read.append(file) or read_bytes(file))

    def is_intact():
        """Ask as another process does; return the answer, and whether the file was read."""
        cache._intact_states.clear()
        read.clear()
        return cache.is_intact(path), read == [path]

    assert [is_intact() for _ in range(3)] == [(True, True), (True, False), (True, False)]
    monkeypatch.setattr(cache, "_read_boot", lambda: "the next start")
    assert [is_intact() for _ in range(2)] == [(True, True), (True, False)]
    path.write_bytes(b"conTent")
    assert [is_intact() for _ in range(2)] == [(False, True)] * 2


@pytest.mark.parametrize("compiler", ["g++", "clang++"])
def test_what_is_compiled_for_check_mode_is_found_there_and_tells_its_shared_memory(
    fresh_cache, monkeypatch, compiler
):
    """The size is read by a process that has loaded neither the file nor the runtime."""
    if not shutil.which(compiler):
        pytest.skip(f"needs {compiler}")
    monkeypatch.setenv("CXX", compiler)
    source = """__shared__ int of_all[2];
    __global__ void f(int *y) { __shared__ int a[24]; a[threadIdx.x] = 1; __syncthreads(); *y = a[0] + of_all[1]; }
    __global__ void g(int *y) { __shared__ int a[3]; a[threadIdx.x] = 1; __syncthreads(); *y = a[0]; }"""
    program = """
    import sys; from hostcuda import checking
    path = checking.precompile(("profile", "memcheck"), sys.argv[1])
    print([checking.read_shared_bytes(path, name) for name in ("f", "g", "h")])"""
    done = run_python(program, source, timeout=None)
    assert (done.returncode, done.stdout) == (0, "[104, 20, None]\n"), done.stderr
    files = compiled_files(fresh_cache)
    program = "import sys; from hostcuda.compiler import compile; compile(sys.argv[1])"
    done = run_python(program, source, timeout=None, HOSTCUDA_CHECK="profile,memcheck")
    assert (done.returncode, compiled_files(fresh_cache)) == (0, files)


@pytest.mark.skipif(not shutil.which("clang++"), reason="needs clang++")
def test_clang_says_nothing_of_flags_that_it_does_not_know(monkeypatch):
    monkeypatch.setenv("CXX", "clang++")
    warnings = warnings_about("__global__ void f(int *y) { int unused; *y = 1; }")
    assert "unused variable 'unused'" in warnings
    failed = str(message("__global__ void f(int *y) { *y = z; }", options=["-Xptxas", "-O1"]))
    assert "undeclared identifier 'z'" in failed
    for text in (warnings, failed):
        assert not re.search("unknown warning option|is not supported|generated", text)


def test_check_mode_can_be_imported_on_a_processor_that_the_engine_does_not_know():
    """So that the lab can be imported on a Mac, and says there what to do."""
    program = """
    import platform
    platform.machine = lambda: "arm64"
    import hostcuda.checking"""
    done = run_python(program, timeout=None)
    assert done.returncode == 0, done.stderr


def test_warnings_about_a_file_with_clang_in_its_path_are_kept(tmp_path):
    warning = (
        "/home/me/clang-course/my_clang.cu:3:5: warning: unused variable 'v' [-Wunused-variable]"
    )
    of_driver = "clang++: warning: argument unused during compilation: '-fno-gnu-unique'"
    assert messages.tidy(f"{of_driver}\n{warning}\n", tmp_path, "skeleton.cpp").strip() == warning


def test_an_entry_in_the_place_of_another_is_not_run(fresh_cache, tmp_path):
    """Both entries are intact, but the manifest and the library of one kernel stand under the other's key."""
    assert (value(WRITE % "58"), value(WRITE % "59")) == (58, 59)
    one, other = {path.parent for path in fresh_cache.rglob("manifest.json")}
    for source, target in ((one, tmp_path / "one"), (other, one), (tmp_path / "one", other)):
        source.rename(target)
    assert (value(WRITE % "58"), value(WRITE % "59")) == (58, 59)
    manifest = one / "manifest.json"
    manifest.write_text(
        manifest.read_text().replace('"headers": [', '"headers": [["/dev/null", "0"], ', 1)
    )
    assert (value(WRITE % "58"), value(WRITE % "59")) == (58, 59)
    assert "/dev/null" not in manifest.read_text()

    paths = [
        cache.obtain(name, lambda path: path.write_text(path.name)) for name in ("a.so", "b.so")
    ]
    for path, ending in ((paths[0], ""), (cache.digest_of(paths[0]), ".sha256")):
        path.write_bytes((fresh_cache / f"b.so{ending}").read_bytes())
    assert (
        cache.obtain("a.so", lambda path: path.write_text("made again")).read_text() == "made again"
    )


def check_that_the_cache_alone_is_lost(words):
    """Check that kernels run without a cache, and that the first of them warns."""
    with pytest.warns(UserWarning, match=words):
        assert value(WRITE % "55") == 55
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert value(WRITE % "56") == 56


def test_a_full_disk_costs_the_cache_and_nothing_else(fresh_cache, monkeypatch):
    publish = cache.publish

    def full(source, target):
        if target.is_relative_to(fresh_cache):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        publish(source, target)

    monkeypatch.setattr(cache, "publish", full)
    check_that_the_cache_alone_is_lost(
        r"cannot be written \(No space left on device\): set HOSTCUDA_CACHE_DIR"
    )


def test_a_full_temporary_folder_is_named(fresh_cache, monkeypatch):
    def full(source, target):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(cache, "publish", full)
    with pytest.warns(UserWarning, match="cannot be written"), pytest.raises(EngineError) as caught:
        compile(WRITE % "57")
    assert re.fullmatch(
        r"cannot write to \S+: No space left on device. Free some space there", str(caught.value)
    )


def test_others_cannot_plant_what_is_run(tmp_path, monkeypatch):
    """A folder that others can write to is not used."""
    folder = tmp_path / "cache"
    folder.mkdir()
    folder.chmod(0o777)
    for name in ("library.so", "library.so.sha256"):
        (folder / name).write_text(cache.digest(b"evil") if name.endswith("256") else "evil")
    monkeypatch.setenv("HOSTCUDA_CACHE_DIR", str(folder))
    with pytest.warns(UserWarning, match="can be changed by other users"):
        path = cache.obtain("library.so", lambda path: path.write_text("made here"))
    assert path.read_text() == "made here" and not path.is_relative_to(folder)


def test_a_failed_compile_leaves_nothing(fresh_cache):
    message("__global__ void f( {")
    assert compiled_files(fresh_cache) == []


def test_a_cache_that_cannot_be_written(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("HOSTCUDA_CACHE_DIR", str(tmp_path / "file" / "cache"))
    check_that_the_cache_alone_is_lost("set HOSTCUDA_CACHE_DIR to a folder of your own")


def test_cache_dir_keyword(tmp_path):
    assert value(WRITE % "45", cache_dir=tmp_path) == 45
    assert len(compiled_files(tmp_path)) == 2
    assert value(WRITE % "45", cache_dir=False) == 45


@pytest.mark.thorough("five seconds or more")
def test_two_processes_compile_the_same_kernel_at_once(fresh_cache):
    code = f"from hostcuda.api.compiler import compile; print(len(compile({WRITE % 46!r})))"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    started = [
        subprocess.Popen(
            [sys.executable, "-c", code],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        for _ in range(3)
    ]
    outputs = [process.communicate(timeout=60) for process in started]
    assert len({out for out, _ in outputs}) == 1 and outputs[0][0].strip().isdigit(), outputs
    assert len(compiled_files(fresh_cache)) == 2


def test_one_of_many_builds(tmp_path):
    builds = []

    def work(_):
        with cache.locked(tmp_path / "entry"):
            if not (tmp_path / "entry").exists():
                builds.append(1)
                time.sleep(0.05)
                cache.publish(b"done", tmp_path / "entry")

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    assert builds == [1]
    assert [p.name for p in tmp_path.iterdir()] == ["entry"]


def test_builds_that_fail_come_one_after_the_other(tmp_path):
    at_work, most, paths = [], [], []

    def make(path):
        at_work.append(path)
        most.append(len(at_work))
        paths.append(path)
        path.write_text("half")
        time.sleep(0.02)
        at_work.remove(path)
        raise ValueError("no")

    def work(_):
        with pytest.raises(ValueError, match="no"):
            cache.obtain(tmp_path / "entry", make)

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(work, range(12)))
    assert most == [1] * 12
    assert len(set(paths)) == 12 and not any(path.exists() for path in paths)
    assert list(tmp_path.iterdir()) == []


def test_old_entries_are_trimmed(fresh_cache):
    day = 24 * 3600
    for age in range(12):
        folder = fresh_cache / f"entry-{age:02}"
        folder.mkdir()
        (folder / "file").write_text("")
        os.utime(folder, times=(time.time() - (age - 8.5) * day,) * 2)
    cache.trim("entry-*", keep=5)
    assert [p.name for p in sorted(fresh_cache.glob("entry-*"))] == [
        f"entry-{age:02}" for age in range(10)
    ]


def test_modules_unused_for_a_month_are_removed_once_a_day(fresh_cache):
    modules = fresh_cache / "modules"

    def entry(number):
        before = {*modules.glob("*/*")}
        compile(WRITE % number)
        (added,) = {*modules.glob("*/*")} - before
        return added

    def age(path, days):
        os.utime(path, times=(time.time() - days * 24 * 3600,) * 2)

    used, idle = entry(50), entry(51)
    age(used, 31)
    age(idle, 31)
    compile(WRITE % 50)
    recent = entry(52)
    assert idle.exists()  # the day's search was at the first of them
    age(fresh_cache / ".trimmed", 1.1)
    entry(53)
    assert used.exists() and recent.exists() and not idle.exists()


def test_the_cache_is_where_the_paths_say(monkeypatch, tmp_path):
    for name in ("HOSTCUDA_CACHE_DIR", "LABKIT_CACHE_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", "~/elsewhere")
    assert cache.directory() == paths.cache_dir() == tmp_path / "elsewhere/hostcuda"


def test_keep(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert value(WRITE % "47", keep=True) == 47
    folder = Path(capsys.readouterr().out.removeprefix("*** compiler output in ").strip())
    assert (folder / "kernel.cu").read_text() == WRITE % "47"


# -- no compiler


@pytest.mark.parametrize(
    ("variable", "content", "words"),
    [
        ("PATH", "/nowhere", "none of g++, clang++, c++ is on the path"),
        ("PATH", "/nowhere", "sudo apt install g++"),
        ("CXX", "no-such-compiler -O3", "CXX='no-such-compiler -O3'"),
        ("CXX", "false", "false --version failed"),
    ],
)
def test_a_compiler_that_is_missing_or_does_not_work(monkeypatch, variable, content, words):
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv(variable, content)
    assert words in message(WRITE % "48").msg


def test_systems_without_elf_files(monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    assert "run hostcuda in a Linux container" in message(WRITE % "48").msg


# -- names, and the programs that are run


@pytest.mark.parametrize("name", ["kernel", "function", "name", "add", "call", "block", "conj"])
def test_a_kernel_may_have_a_name_that_the_engine_or_the_c_library_uses(name):
    y = np.zeros(1, np.int32)
    SourceModule(f"__global__ void {name}(int *x) {{ x[threadIdx.x] = 3; }}").get_function(name)(
        cuda.Out(y), block=(1, 1, 1)
    )
    assert y[0] == 3


def test_commands_run_at_the_same_time_without_semaphores(monkeypatch):
    """A sandbox without shared memory has no semaphores."""

    def refuse(*_):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr("multiprocessing.synchronize.SemLock.__init__", refuse)
    results = toolchain.run_all([["echo", str(n)] for n in range(9)])
    assert [out for _, out, _ in results] == [f"{n}\n" for n in range(9)]
    with pytest.raises(FileNotFoundError):
        toolchain.run_all([["echo", "1"], ["no-such-compiler"]])


@pytest.mark.parametrize("static", [False, True])
def test_the_shared_library_is_taken_where_the_compiler_has_only_the_static_one(tmp_path, static):
    compiler_ = tmp_path / "g++"
    compiler_.write_text(
        "#!/bin/sh\ncase $1 in *.6) echo /lib/libstdc++.so.6;; *) echo "
        f"{'' if static else '/lib/'}libstdc++.so;; esac\n"
    )
    compiler_.chmod(0o755)
    flags = toolchain.link_flags([str(compiler_)])
    assert any("-l:libstdc++.so.6" in flag for flag in flags) == static
