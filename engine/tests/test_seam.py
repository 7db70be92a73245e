"""The seam: which engine `hostcuda` chooses, and that its modules bear PyCUDA's names."""

import sys
import textwrap
from unittest import mock

import pytest
from running import run_python

import hostcuda
from hostcuda.errors import EngineError

pytestmark = pytest.mark.thorough("breadth of CUDA's API")


def python(code, path="", **environment):
    """Run code in a fresh interpreter; return (exit status, output, errors)."""
    done = run_python(code, PYTHONPATH=str(path), **environment)
    return done.returncode, done.stdout.strip(), done.stderr.strip()


FAKE_DRIVER = """
class Error(Exception): pass
class LogicError(Error): pass
ANSWER, COUNT, log = None, 1, []
def init():
    if ANSWER: raise LogicError(ANSWER)
class Context:
    current = None
    def push(self): log.append("push"); Context.current = self
    def pop(self): log.append("pop"); Context.current = None
    @staticmethod
    def get_device():
        if Context.current is None: raise LogicError("cuCtxGetDevice failed: invalid device context")
        return Device(0)
class Event:
    def __init__(self):
        if Context.current is None: raise LogicError("explicit_context_dependent failed: invalid device context")
class Device:
    def __init__(self, number): self.number = number
    @staticmethod
    def count(): return COUNT
    def retain_primary_context(self): log.append(f"retain {self.number}"); return Context()
"""


@pytest.fixture
def fake_pycuda(tmp_path):
    """Return a function that makes a folder with a stand-in for PyCUDA, and adds lines to its driver."""

    def make(driver=""):
        package = tmp_path / "pycuda"
        package.mkdir()
        (package / "__init__.py").write_text("")
        (package / "driver.py").write_text(FAKE_DRIVER + driver)
        (package / "compiler.py").write_text("class SourceModule: pass\n")
        (package / "tools.py").write_text(
            "def clear_context_caches():\n    import pycuda.driver\n    print('cleared after', pycuda.driver.log)\n"
        )
        return tmp_path

    return make


IMPORTS = """
    import hostcuda.driver as cuda
    from hostcuda.compiler import SourceModule
    from hostcuda import compiler, driver, engine
    import sys
    assert cuda is driver and compiler.SourceModule is SourceModule
    print(engine(), cuda.__name__, SourceModule.__module__)
"""


@pytest.mark.parametrize(
    ("engine", "out"),
    [
        ("cpu", "cpu hostcuda.api.driver hostcuda.api.compiler"),
        ("gpu", "gpu pycuda.driver pycuda.compiler"),
    ],
)
def test_the_modules_are_those_of_the_engine(fake_pycuda, engine, out):
    code = IMPORTS + ("    assert 'pycuda' not in sys.modules" if engine == "cpu" else "")
    assert python(code, fake_pycuda(), HOSTCUDA_ENGINE=engine)[:2] == (0, out)


@pytest.fixture
def choose(monkeypatch):
    """Return a function: what a fresh process would choose, given HOSTCUDA_ENGINE and a folder in front of the path."""

    def choose(engine, folder):
        monkeypatch.syspath_prepend(folder)
        monkeypatch.setenv("HOSTCUDA_ENGINE", engine)
        with mock.patch.dict(sys.modules):
            for name in [name for name in sys.modules if name.partition(".")[0] == "pycuda"]:
                del sys.modules[name]
            return hostcuda.engine.__wrapped__()

    return choose


@pytest.mark.parametrize(
    ("engine", "chosen"),
    [("gpu", "gpu"), ("auto", "gpu"), ("", "gpu"), (" GPU", "gpu"), ("cpu", "cpu")],
)
def test_choice_where_pycuda_answers(fake_pycuda, choose, engine, chosen):
    assert choose(engine, fake_pycuda()) == chosen


@pytest.mark.parametrize(
    ("driver", "missing"),
    [
        ("COUNT = 0", "no NVIDIA device is visible"),
        (
            "ANSWER = 'cuInit failed: no CUDA-capable device is detected'",
            "no CUDA-capable device is detected",
        ),
        (
            "raise ImportError('libcuda.so.1: cannot open shared object file')",
            "driver library is missing",
        ),
        ("raise ImportError('undefined symbol: cuCtxCreate_v9')", "does not load"),
        ("import pytools_of_another_name", "lacks the package 'pytools_of_another_name'"),
    ],
)
def test_what_is_missing_for_the_gpu(fake_pycuda, choose, driver, missing):
    folder = fake_pycuda(driver)
    assert choose("auto", folder) == "cpu"
    with pytest.raises(
        EngineError, match=rf"HOSTCUDA_ENGINE=gpu, but .*{missing}.*HOSTCUDA_ENGINE=cpu"
    ):
        choose("gpu", folder)


def test_gpu_without_pycuda(tmp_path, choose, monkeypatch):
    (tmp_path / "pycuda.py").write_text(
        "raise ModuleNotFoundError(\"No module named 'pycuda'\", name='pycuda')"
    )
    assert choose("auto", tmp_path) == "cpu"
    for driver, words in (
        (True, "use: PyCUDA"),
        (False, r"use: no NVIDIA driver answers here \(.*\), and PyCUDA"),
    ):
        monkeypatch.setattr(hostcuda, "_driver_answers", lambda driver=driver: driver)
        with pytest.raises(EngineError, match=f"{words} is not installed: pip install pycuda"):
            choose("gpu", tmp_path)


@pytest.mark.parametrize(
    "use", ["hostcuda.engine()", "hostcuda.driver", "import hostcuda.compiler"]
)
def test_an_error_of_choice_ends_the_first_use(use):
    status, out, err = python(f"import hostcuda; print('imported'); {use}", HOSTCUDA_ENGINE="tpu")
    assert (status, out) == (1, "imported")
    assert "EngineError: HOSTCUDA_ENGINE='tpu' is none of auto, gpu, cpu" in err


def test_no_other_module_chooses_an_engine():
    code = """
        import importlib, pkgutil, hostcuda
        for module in pkgutil.walk_packages(hostcuda.__path__, "hostcuda."):
            if module.name.removeprefix("hostcuda.") not in {"__main__", "wasm.boot", *CHOOSING}:
                try:
                    importlib.import_module(module.name)
                except ModuleNotFoundError as missing:  # of what only a recorder needs, such as scikit-learn
                    assert not missing.name.startswith("hostcuda"), missing
    """
    code = f"CHOOSING = 'driver', 'compiler', 'activity', 'autoinit'\n{textwrap.dedent(code)}"
    status, _, err = python(code, HOSTCUDA_ENGINE="none of them")
    assert status == 0, err


def test_an_unknown_tool_to_check_with():
    status, _, err = python(
        "import hostcuda.driver", HOSTCUDA_ENGINE="cpu", HOSTCUDA_CHECK="profile,valgrind"
    )
    last = err.splitlines()[-1]
    assert status == 1
    assert last.startswith("hostcuda.errors.EngineError: HOSTCUDA_CHECK: 'valgrind' is not one of ")


RETAINED = """
    import hostcuda
    import hostcuda.driver as cuda
    assert cuda.log == []
    import hostcuda.autoinit
    assert hostcuda.ensure_context() is hostcuda.autoinit.context
    print(cuda.log)
"""
THREADS = """
    import threading, hostcuda
    import hostcuda.driver as cuda
    for _ in range(2):
        thread = threading.Thread(target=hostcuda.ensure_context)
        thread.start()
        thread.join()
    print(cuda.log)
    hostcuda.ensure_context()
"""
CURRENT = """
    import pycuda.driver as cuda
    cuda.Context.current = cuda.Context()
    import hostcuda
    hostcuda.ensure_context()
    print(cuda.log)
"""
OF_THREADS = ["retain 0", "push", "pop", "push", "pop"]


@pytest.mark.parametrize(
    ("code", "printed"),
    [
        (RETAINED, [["retain 0", "push"], ["retain 0", "push", "pop"]]),
        # a thread that ends with a context aborts the process
        (THREADS, [OF_THREADS, [*OF_THREADS, "push", "pop"]]),
        (CURRENT, [[]]),
    ],
    ids=["retained and released", "of each thread as long as it runs", "current, and left alone"],
)
def test_contexts_on_a_gpu(fake_pycuda, code, printed):
    status, out, err = python(code, fake_pycuda(), HOSTCUDA_ENGINE="gpu", CUDA_DEVICE="0")
    assert status == 0, err
    assert out.replace("cleared after ", "").splitlines() == [*map(str, printed)]


AUTOINIT = """
    from hostcuda import autoinit
    import hostcuda.driver as cuda
    print(autoinit.device.compute_capability(), cuda.Context.get_device() == autoinit.device)
"""
IMPORT = "import hostcuda.driver, hostcuda.compiler, os; print(os.listdir(os.environ['HOSTCUDA_CACHE_DIR']))"


@pytest.mark.parametrize(
    ("code", "out"), [(AUTOINIT, "(9, 0) True"), (IMPORT, "[]")], ids=["autoinit", "import"]
)
def test_the_context_is_made_by_autoinit_and_not_by_an_import(tmp_path, code, out):
    assert python(code, HOSTCUDA_ENGINE="cpu", HOSTCUDA_CACHE_DIR=str(tmp_path))[:2] == (0, out)
