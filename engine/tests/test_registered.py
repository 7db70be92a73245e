"""Page-locking what is there already: on the engine in use, and the driver's calls against a stand-in."""

from types import SimpleNamespace

import numpy as np
import pytest

import hostcuda
from hostcuda import driver, registered
from hostcuda.errors import EngineError
from hostcuda.gpu import libcuda

pytestmark = pytest.mark.core("page-locked memory, in a second")


def arrays():
    return [driver.aligned_zeros((3, 5), np.float32), driver.aligned_zeros((2, 7), np.float16)]


@pytest.mark.skipif(hostcuda.engine() == "gpu", reason="asks the CPU engine")
def test_the_memory_is_locked_only_meanwhile():
    from hostcuda.api import memory

    several, before = arrays(), len(memory._page_locked)
    with registered.registered(*several):
        assert len(memory._page_locked) == before + 2
        assert all(memory.is_pagelocked(array.ctypes.data, array.nbytes) for array in several)
    assert len(memory._page_locked) == before


def test_what_cannot_be_locked_is_refused():
    fixed = np.zeros((4, 4), np.float32)
    fixed.flags.writeable = False
    for array in (np.zeros((4, 4), np.float32).T[::2], fixed):
        refused = pytest.raises(EngineError, match="has to be contiguous, in C order, and writable")
        with refused, registered.registered(array):
            pass


@pytest.fixture
def stand_in(monkeypatch):
    """Replace the driver's calls: `log` has them, and from the second registration on they return `status`."""
    library = SimpleNamespace(log=[], status=0)

    def register(address, size, flags):
        library.log.append(("register", address.value, size.value, flags.value))
        return library.status if len(library.log) > 1 else 0

    def name_of(status, name):
        name._obj.value = b"CUDA_ERROR_OUT_OF_MEMORY"

    library.cuMemHostRegister_v2, library.cuGetErrorName = register, name_of
    library.cuMemHostUnregister = lambda address: library.log.append(("unregister", address.value))
    monkeypatch.setattr(libcuda, "library", lambda: library)
    monkeypatch.setattr(hostcuda, "engine", lambda: "gpu")
    monkeypatch.setattr(hostcuda, "ensure_context", lambda: None)
    return library


def test_the_drivers_calls(stand_in):
    one, two = arrays()
    with registered.registered(one, two):
        assert stand_in.log == [
            ("register", one.ctypes.data, 60, 0),
            ("register", two.ctypes.data, 28, 0),
        ]
    assert stand_in.log[2:] == [("unregister", two.ctypes.data), ("unregister", one.ctypes.data)]


def test_a_registration_that_fails_unlocks_the_others(stand_in):
    one, two = arrays()
    stand_in.status = 2
    with (
        pytest.raises(EngineError, match=r"0\.00 GB: CUDA_ERROR_OUT_OF_MEMORY \(2\)"),
        registered.registered(one, two),
    ):
        pass
    assert stand_in.log[-1] == ("unregister", one.ctypes.data)
