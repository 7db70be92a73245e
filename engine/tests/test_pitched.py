"""Copies of rectangles and boxes, pitched allocations, fills of rectangles, managed memory, limits: PyCUDA's names."""

import gc

import numpy as np
import pytest

import hostcuda.api.driver as cuda
from hostcuda.api.compiler import SourceModule

pytestmark = pytest.mark.thorough("breadth of CUDA's API")


@pytest.fixture(scope="module")
def module():
    return SourceModule("""
        __global__ void bump(float *x, int n) { int i = threadIdx.x; if (i < n) x[i] += 1; }
        __global__ void wait_for(volatile int *flag, int value) { while (*flag != value) __nanosleep(100); }""")


def rectangle(copy, width, height, source=(0, 0, 0), target=(0, 0, 0)):
    """Set the sizes of a copy; an end is (x in bytes, y, pitch)."""
    copy.width_in_bytes, copy.height = width, height
    copy.src_x_in_bytes, copy.src_y, copy.src_pitch = source
    copy.dst_x_in_bytes, copy.dst_y, copy.dst_pitch = target
    return copy


def test_rectangles_go_there_between_and_back():
    a = np.arange(6 * 8, dtype=np.int32).reshape(6, 8)
    rows, pitch = cuda.mem_alloc_pitch(5 * 4, 3, 4)
    assert pitch == 512
    there = rectangle(cuda.Memcpy2D(), 5 * 4, 3, (2 * 4, 1, a.strides[0]), (0, 0, pitch))
    there.set_src_host(a)
    there.set_dst_device(rows)
    there(aligned=True)
    other = cuda.mem_alloc(4 * 100)
    between = rectangle(cuda.Memcpy2D(), 5 * 4, 3, (0, 0, pitch), (4, 2, 40))
    between.set_src_device(rows)
    between.set_dst_device(int(other))
    between(False)  # PyCUDA's word for device memory that is not aligned
    back = np.zeros((5, 10), np.int32)
    copy = rectangle(cuda.Memcpy2D(), 40, 5, (0, 0, 40), (0, 0, 40))
    copy.set_src_device(other)
    copy.set_dst_host(back)
    copy()
    assert (back[2:5, 1:6] == a[1:4, 2:7]).all()


@pytest.mark.parametrize("order", ["C", "F"])
def test_boxes(order):
    a = np.asarray(np.random.default_rng(1).random((4, 5, 6), np.float32), order=order)
    shape = a.shape if order == "C" else a.shape[::-1]  # slices, rows, elements of a row
    box, back = cuda.mem_alloc(a.nbytes), np.zeros_like(a)
    for forth in (True, False):
        copy = cuda.Memcpy3D()
        if forth:
            copy.set_src_host(a)
            copy.set_dst_device(box)
        else:
            copy.set_src_device(box)
            copy.set_dst_host(back)
        copy.src_z = copy.dst_z = 1
        copy.src_pitch = copy.dst_pitch = 4 * shape[2]
        copy.src_height = copy.dst_height = shape[1]
        copy.width_in_bytes, copy.height, copy.depth = 4 * shape[2], shape[1], shape[0] - 1
        copy()
    expected = a.copy(order=order)
    (expected if order == "C" else expected.T)[0] = 0
    assert (back == expected).all()


def test_host_arrays_may_have_gaps():
    whole = np.arange(6 * 8, dtype=np.int32).reshape(6, 8)
    part, to = whole[1:4, 2:7], cuda.mem_alloc(3 * 20)
    copy = rectangle(cuda.Memcpy2D(), 20, 3, (0, 0, whole.strides[0]), (0, 0, 20))
    copy.set_src_host(part)
    copy.set_dst_device(to)
    copy(cuda.Stream())
    cuda.Context.synchronize()
    assert (cuda.from_device(to, (3, 5), np.int32) == part).all()
    copy.set_src_host(part[::-1])
    with pytest.raises(ValueError, match="not contiguous"):
        copy()


def test_a_queued_copy_reads_pageable_memory_during_the_call(module):
    flag, stream, a = (
        cuda.to_device(np.zeros(1, np.int32)),
        cuda.Stream(),
        np.ones((2, 4), np.int32),
    )
    to = cuda.mem_alloc(a.nbytes)
    module.get_function("wait_for")(flag, np.int32(1), block=(1, 1, 1), stream=stream)
    copy = rectangle(cuda.Memcpy2D(), 16, 2, (0, 0, 16), (0, 0, 16))
    copy.set_src_host(a)
    copy.set_dst_device(to)
    copy(stream)
    a[:] = 2
    other = cuda.Stream()
    cuda.memset_d32_async(flag, 1, 1, other)
    stream.synchronize()
    assert (cuda.from_device_like(to, a) == 1).all()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            lambda copy: copy.set_src_device(None),
            "there is no src: call set_src_host or set_src_device",
        ),
        (
            lambda copy: setattr(copy, "src_pitch", 12),
            "src_pitch = 12, but a row reaches to byte 16",
        ),
        (
            lambda copy: setattr(copy, "src_y", 1),
            "the box ends at byte 48, the host array of src at 32",
        ),
        (lambda copy: setattr(copy, "dst_x_in_bytes", 16), "64 bytes do not fit in the 32"),
        (lambda copy: copy.set_dst_host(np.zeros(8, np.int32)), "both ends are on the host"),
        (lambda copy: copy.set_src_array(object()), "no CUDA arrays"),
    ],
)
def test_what_does_not_fit_is_refused(change, words):
    copy = rectangle(cuda.Memcpy2D(), 16, 2, (0, 0, 16), (0, 0, 32 if "64" in words else 16))
    copy.set_src_host(np.zeros((2, 4), np.int32))
    copy.set_dst_device(cuda.mem_alloc(32))
    with pytest.raises(cuda.LogicError, match=words):
        [change(copy), copy()]


def test_a_slice_lower_than_its_rows_is_refused():
    copy = rectangle(cuda.Memcpy3D(), 4, 3, (0, 0, 4), (0, 0, 4))
    copy.depth, copy.src_height, copy.dst_height = 2, 2, 3
    copy.set_src_host(np.zeros(6, np.int32))
    copy.set_dst_device(cuda.mem_alloc(24))
    with pytest.raises(cuda.LogicError, match="src_height = 2, but a slice reaches to row 3"):
        copy()


def test_a_misspelt_size_is_an_error():
    with pytest.raises(AttributeError):
        cuda.Memcpy2D().width = 4


@pytest.mark.parametrize(
    ("fill", "dtype"),
    [(cuda.memset_d2d8, np.uint8), (cuda.memset_d2d16, np.uint16), (cuda.memset_d2d32, np.uint32)],
)
def test_fills_of_rectangles(fill, dtype):
    a = np.zeros((3, 8), dtype)
    d = cuda.to_device(a)
    fill(int(d) + a.strides[0], a.strides[0], 7, 5, 2)
    a[1:, :5] = 7
    assert (cuda.from_device_like(d, a) == a).all()
    with pytest.raises(cuda.LogicError, match="do not fit"):
        fill(d, a.strides[0], 7, 5, 4)


def test_a_pitched_allocation_is_refused_as_cuda_refuses_it():
    with pytest.raises(cuda.LogicError, match="access_size is 3, not 4, 8 or 16"):
        cuda.mem_alloc_pitch(16, 2, 3)
    with pytest.raises(cuda.LogicError, match="0 bytes"):
        cuda.mem_alloc_pitch(16, 0, 4)


# -- managed memory


def test_managed_arrays_are_arguments(module):
    x = cuda.managed_zeros(32, np.float32, mem_flags=cuda.mem_attach_flags.GLOBAL)
    x[:] = np.arange(32)
    bump = module.get_function("bump")
    bump(x, np.int32(32), block=(32, 1, 1))
    bump(x[16:], np.int32(16), block=(32, 1, 1))
    bump.prepare("Pi")
    bump.prepared_call((1, 1), (32, 1, 1), x.base.get_device_pointer(), np.int32(32))
    cuda.Context.synchronize()
    assert (x == np.arange(32) + 2 + (np.arange(32) >= 16)).all()
    with pytest.raises(TypeError, match=r"pass cuda\.In"):
        bump(np.zeros(32, np.float32), np.int32(32), block=(32, 1, 1))


def test_managed_arrays_have_a_shape_and_are_freed():
    gc.collect()
    free, _ = cuda.mem_get_info()
    x = cuda.managed_empty((300, 400), np.float64, order="F")
    assert x.shape == (300, 400) and x.flags.f_contiguous and not x.any()
    y = cuda.managed_empty_like(x)
    assert y.shape == x.shape and y.flags.f_contiguous and y.ctypes.data != x.ctypes.data
    assert cuda.mem_get_info()[0] <= free - 2 * x.nbytes
    view = x[1:]
    del x, y
    assert free - cuda.mem_get_info()[0] >= view.nbytes  # the view keeps its array
    del view
    assert cuda.mem_get_info()[0] == free


# -- the context's limits, a stream's handle


def test_limits_are_kept():
    assert cuda.Context.get_limit(cuda.limit.MALLOC_HEAP_SIZE) == 8 << 20
    cuda.Context.set_limit(cuda.limit.STACK_SIZE, 4096)
    assert cuda.Context.get_limit(cuda.limit.STACK_SIZE) == 4096
    for limit, value in ((17, 4096), (cuda.limit.STACK_SIZE, -1)):
        with pytest.raises(cuda.LogicError, match="cuCtxSetLimit"):
            cuda.Context.set_limit(limit, value)


def test_streams_have_handles_of_their_own():
    handles = {
        cuda.Stream().handle,
        (kept := cuda.Stream()).handle,
        cuda.Stream().handle,
        kept.handle,
    }
    assert all(isinstance(handle, int) for handle in handles) and len(handles) >= 2
