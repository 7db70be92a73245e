"""Page-locking what is there already: on the engine in use, and the driver's calls against a stand-in."""

from types import SimpleNamespace

import numpy as np
import pytest

import labkit
from labkit.base.errors import LabError
from labkit.cuda import driver, registered


def arrays():
    return [driver.aligned_zeros((3, 5), np.float32), driver.aligned_zeros((2, 7), np.float16)]


def test_a_pipeline_runs_on_registered_arrays():
    layer = labkit.Layer("small", 2, 9, 11, 3, 3)
    x, y = (driver.aligned_zeros(shape, np.float32) for shape in (layer.x_shape(5), layer.y_shape(5)))
    with registered.registered(x, y), labkit.Pipeline(3, layer, 5, chunk=2, streams=2, host=(x, y)) as pipeline:
        x[...] = 1
        pipeline.run(k=np.ones(layer.k_shape, np.float32))
    assert (y == layer.terms).all()


@pytest.mark.skipif(labkit.cuda.engine() == "gpu", reason="asks the CPU engine")
def test_the_memory_is_locked_only_meanwhile():
    from labkit.cpu import memory

    several, before = arrays(), len(memory._locked)
    with registered.registered(*several):
        assert len(memory._locked) == before + 2
        assert all(memory.is_pagelocked(each.ctypes.data, each.nbytes) for each in several)
    assert len(memory._locked) == before


def test_what_cannot_be_locked_is_refused():
    fixed = np.zeros((4, 4), np.float32)
    fixed.flags.writeable = False
    for array in (np.zeros((4, 4), np.float32).T[::2], fixed):
        refused = pytest.raises(LabError, match="has to be contiguous, in C order, and writable")
        with refused, registered.registered(array):
            pass


@pytest.fixture
def stand_in(monkeypatch):
    """The driver's calls: `log` has them, and from the second registration on `status` is returned."""
    library = SimpleNamespace(log=[], status=0)

    def register(address, size, flags):
        library.log.append(("register", address.value, size.value, flags.value))
        return library.status if len(library.log) > 1 else 0

    def name_of(status, name):
        name._obj.value = b"CUDA_ERROR_OUT_OF_MEMORY"

    library.cuMemHostRegister_v2, library.cuGetErrorName = register, name_of
    library.cuMemHostUnregister = lambda address: library.log.append(("unregister", address.value))
    monkeypatch.setattr(registered, "_library", lambda: library)
    monkeypatch.setattr(registered.cuda, "engine", lambda: "gpu")
    monkeypatch.setattr(registered.cuda, "ensure_context", lambda: None)
    return library


def test_the_drivers_calls(stand_in):
    one, two = arrays()
    with registered.registered(one, two):
        assert stand_in.log == [("register", one.ctypes.data, 60, 0), ("register", two.ctypes.data, 28, 0)]
    assert stand_in.log[2:] == [("unregister", two.ctypes.data), ("unregister", one.ctypes.data)]


def test_a_registration_that_fails_unlocks_the_others(stand_in):
    one, two = arrays()
    stand_in.status = 2
    with pytest.raises(LabError, match=r"0\.00 GB: CUDA_ERROR_OUT_OF_MEMORY \(2\)"), registered.registered(one, two):
        pass
    assert stand_in.log[-1] == ("unregister", one.ctypes.data)
