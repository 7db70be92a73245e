"""The CPU engine's twin of pycuda.driver: memory, copies, streams, events, launches, attributes, traces."""

import gc
import time

import numpy as np
import pytest

import hostcuda.api.driver as cuda
from hostcuda.api import activity
from hostcuda.api.compiler import SourceModule

pytestmark = pytest.mark.core("every kernel passes through it")

SOURCE = """
struct Pair { short first; float second; };
__constant__ Pair table[3];
__global__ void scale(float *y, const float *x, float a, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = a * x[i];
}
__global__ void constants(float *y) { int i = threadIdx.x; y[i] = table[i].first * table[i].second; }
__global__ void mixed(char a, double b, short c, Pair p, unsigned long long d, float *y) {
    y[0] = a; y[1] = b; y[2] = c; y[3] = p.first; y[4] = p.second; y[5] = d;
}
__global__ void shape(int *y) {
    if (threadIdx.x + threadIdx.y + threadIdx.z + blockIdx.x + blockIdx.y + blockIdx.z == 0) {
        y[0] = gridDim.x; y[1] = gridDim.y; y[2] = gridDim.z; y[3] = blockDim.x; y[4] = blockDim.y; y[5] = blockDim.z;
    }
    atomicAdd(y + 6, 1);
}
__global__ void wait_for(volatile int *flag, int value, int *y) { while (*flag != value) __nanosleep(100); *y = value; }
__global__ void slow(int *y, int n) { for (int i = 0; i < n; i++) __nanosleep(1000000); y[0] += 1; }
__global__ void say(int n) { printf("thread %d of %d: %.2f %s %5u%%\\n", threadIdx.x, n, 1.5f, "text", 42u); }
__global__ void __launch_bounds__(64) bounded(int *y) { y[threadIdx.x] = 1; }
__global__ void shared(int *y) { extern __shared__ int s[]; __shared__ int t[256];
    s[0] = t[threadIdx.x] = 1; __syncthreads(); y[0] = s[0] + t[y[0] & 1]; }
"""


@pytest.fixture
def scale(module):
    return module.get_function("scale")


@pytest.fixture
def held_back(module):
    """Return a stream whose first kernel waits, the memory that this kernel sets to 1 then, and what lets it go on."""
    flag, y, stream = (
        cuda.to_device(np.zeros(1, np.int32)),
        cuda.to_device(np.zeros(1, np.int32)),
        cuda.Stream(),
    )
    module.get_function("wait_for")(flag, np.int32(1), y, block=(1, 1, 1), stream=stream)
    return stream, y, lambda: cuda.memset_d32_async(flag, 1, 1, cuda.Stream(flags=1))


# -- device and context


def test_device():
    cuda.init()
    assert cuda.Device.count() == 1
    device = cuda.Device(0)
    assert "CPU engine" in device.name()
    assert device.compute_capability() == (9, 0)
    assert device.get_attribute(cuda.device_attribute.MAX_THREADS_PER_BLOCK) == 1024
    assert device.max_shared_memory_per_block == device.MAX_SHARED_MEMORY_PER_BLOCK == 48 * 1024
    attributes = device.get_attributes()
    assert attributes[cuda.device_attribute.WARP_SIZE] == 32
    assert attributes[cuda.device_attribute.MULTIPROCESSOR_COUNT] >= 1
    assert device.total_memory() > 1 << 20
    assert cuda.Context.get_device() == device
    with pytest.raises(AttributeError):
        device.no_such_attribute  # noqa: B018
    with pytest.raises(cuda.LogicError, match="device 0 only"):
        cuda.Device(1)


def test_contexts_come_and_go_without_effect():
    context = cuda.Device(0).make_context()
    context.push()
    cuda.Context.pop()
    context.detach()
    cuda.Context.synchronize()
    assert cuda.Context.get_current() is context


def test_versions():
    assert len(cuda.get_version()) == 3
    assert cuda.get_driver_version() == cuda.get_version()[0] * 1000 + cuda.get_version()[1] * 10


# -- memory


def test_copies_and_pointer_arithmetic():
    x = np.arange(10, dtype=np.float32)
    d, e = cuda.to_device(x), cuda.mem_alloc(x.nbytes)
    cuda.memcpy_dtod(e, d, x.nbytes)
    assert (cuda.from_device_like(e, x) == x).all()
    cuda.memcpy_htod(int(d) + 8, np.float32([7, 8]))
    assert (cuda.from_device(int(d) + 4, (3,), np.float32) == [1, 7, 8]).all()
    cuda.memcpy_htod(d, b"\0" * 4)
    buffer = bytearray(8)
    cuda.memcpy_dtoh(buffer, d)
    assert np.frombuffer(buffer, np.float32).tolist() == [0, 1]
    d.free()


def test_orders():
    x = np.asfortranarray(np.arange(6, dtype=np.int32).reshape(2, 3))
    assert (
        cuda.from_device_like(cuda.to_device(np.ascontiguousarray(x)), x)
        == x.T.reshape(2, 3, order="F")
    ).all()
    d = cuda.mem_alloc_like(x)
    cuda.memcpy_htod(d, x)  # as it lies in memory
    assert (cuda.from_device(d, (2, 3), np.int32, order="F") == x).all()
    assert (cuda.from_device(cuda.to_device(x[:, ::2]), (2, 2), np.int32) == x[:, ::2]).all()


@pytest.mark.parametrize(
    ("fill", "dtype"),
    [("memset_d8", np.uint8), ("memset_d16", np.uint16), ("memset_d32", np.uint32)],
)
def test_fills(fill, dtype):
    d = cuda.mem_alloc(16 * np.dtype(dtype).itemsize)
    getattr(cuda, fill)(d, 1, 16)
    getattr(cuda, fill + "_async")(
        int(d) + np.dtype(dtype).itemsize, np.iinfo(dtype).max, 3, cuda.Stream()
    )
    cuda.Context.synchronize()
    assert cuda.from_device(d, 16, dtype).tolist() == [1] + 3 * [np.iinfo(dtype).max] + 12 * [1]


def test_memory_is_given_back():
    gc.collect()
    free, total = cuda.mem_get_info()
    d = cuda.mem_alloc(1 << 20)
    assert cuda.mem_get_info()[0] <= free - (1 << 20)
    del d
    gc.collect()
    assert cuda.mem_get_info() == (free, total)


def test_memory_as_a_buffer():
    d = cuda.to_device(np.arange(4, dtype=np.int32))
    assert np.frombuffer(d.as_buffer(8, 4), np.int32).tolist() == [1, 2]


def test_host_arrays():
    for make in (
        cuda.pagelocked_empty,
        cuda.pagelocked_zeros,
        cuda.aligned_empty,
        cuda.aligned_zeros,
    ):
        array = make((3, 4), np.float32, order="F")
        assert array.shape == (3, 4) and array.dtype == np.float32 and array.flags.f_contiguous
        assert array.ctypes.data % 4096 == 0
        if "zeros" in make.__name__:
            assert not array.any()
    for make in (
        cuda.pagelocked_empty_like,
        cuda.pagelocked_zeros_like,
        cuda.aligned_empty_like,
        cuda.aligned_zeros_like,
    ):
        assert make(np.zeros((2, 5), np.int16)).shape == (2, 5)
        with pytest.raises(ValueError, match="not contiguous"):
            make(np.zeros((4, 4))[:, ::2])
    assert cuda.pagelocked_empty(3, np.int32).base.get_device_pointer()
    x = np.arange(5, dtype=np.float32)
    registered = cuda.register_host_memory(x)
    registered[0] = 9
    assert x[0] == 9
    registered.base.unregister()


def test_pageable_memory_may_be_changed_after_an_asynchronous_copy(held_back):
    stream, _, release = held_back
    d, pageable = cuda.mem_alloc(4), np.int32([3])
    cuda.memcpy_htod_async(d, pageable, stream)
    pageable[0] = 4
    del pageable
    release()
    stream.synchronize()
    assert cuda.from_device(d, 1, np.int32)[0] == 3


def test_page_locked_copies_run_in_the_background(held_back):
    stream, y, release = held_back
    result = cuda.pagelocked_zeros(1, np.int32)
    cuda.memcpy_dtoh_async(result, y, stream)
    assert not stream.is_done() and result[0] == 0
    release()
    stream.synchronize()
    assert stream.is_done() and result[0] == 1


def test_arrays_stay_alive_until_they_are_copied(module):
    x = np.random.default_rng(1).random(1 << 16)
    stream, d = cuda.Stream(), cuda.mem_alloc(x.nbytes)
    for _ in range(100):
        locked = cuda.pagelocked_empty_like(x)
        locked[:] = x
        cuda.memcpy_htod_async(d, locked, stream)
        del locked
    stream.synchronize()
    assert (cuda.from_device_like(d, x) == x).all()


# -- launches


def test_arguments(scale):
    x = np.arange(1000, dtype=np.float32)
    y = np.empty_like(x)
    d_x, d_y = cuda.to_device(x), cuda.mem_alloc(x.nbytes)
    scale(d_y, d_x, np.float32(2), np.int32(x.size), grid=(8, 1), block=(128, 1, 1))
    assert (cuda.from_device_like(d_y, x) == 2 * x).all()
    scale(
        np.uintp(int(d_y)),
        np.intp(int(d_x)),
        np.float32(3),
        np.uint32(x.size),
        grid=(8,),
        block=(128, 1, 1),
    )
    assert (cuda.from_device_like(d_y, x) == 3 * x).all()
    scale(
        cuda.Out(y), cuda.In(x), np.float32(4), np.int32(x.size), grid=(8, 1, 1), block=(128, 1, 1)
    )
    assert (y == 4 * x).all()
    scale(
        cuda.InOut(y),
        cuda.In(x),
        np.float32(5),
        np.int32(10),
        grid=(8, 1),
        block=(128, 1, 1),
        stream=cuda.Stream(),
    )
    assert (y[:10] == 5 * x[:10]).all() and (y[10:] == 4 * x[10:]).all()


def test_arguments_of_every_size(module):
    y = np.zeros(6, np.float32)
    pair = np.zeros(1, np.dtype([("first", np.int16), ("second", np.float32)], align=True))
    pair[0] = (4, 5.5)
    arguments = [np.int8(-1), np.float64(2.25), np.int16(-3), pair[0], np.uint64(6), cuda.Out(y)]
    module.get_function("mixed")(*arguments, block=(1, 1, 1))
    assert y.tolist() == [-1, 2.25, -3, 4, 5.5, 6]
    y[:] = 0
    arguments[3] = pair
    module.get_function("mixed")(*arguments, block=(1, 1, 1))
    assert y.tolist() == [-1, 2.25, -3, 4, 5.5, 6]


def test_a_class_of_the_users_own_for_device_memory(scale):
    class Holder(cuda.PointerHolderBase):
        memory = cuda.to_device(np.arange(4, dtype=np.float32))

        def get_pointer(self):
            return int(self.memory)

    scale(Holder(), Holder(), np.float32(2), np.int32(4), block=(4, 1, 1))
    assert cuda.from_device(Holder(), 4, np.float32).tolist() == [0, 2, 4, 6]


def test_objects_with_an_address(scale):
    x = np.arange(4, dtype=np.float32)
    d_x, d_y = cuda.to_device(x), cuda.mem_alloc(x.nbytes)

    class Array:
        gpudata = d_x

    class Tensor:
        __cuda_array_interface__ = {"data": (int(d_y), False)}  # noqa: RUF012

    scale(Tensor(), Array(), np.float32(2), np.int32(4), block=(4, 1, 1))
    assert (cuda.from_device_like(d_y, x) == 2 * x).all()


def test_geometry(module):
    y = np.zeros(7, np.int32)
    module.get_function("shape")(cuda.InOut(y), grid=(2, 3, 4), block=(5, 6, 7))
    assert y.tolist() == [2, 3, 4, 5, 6, 7, 2 * 3 * 4 * 5 * 6 * 7]


def test_time_kernel(module):
    y = cuda.to_device(np.zeros(1, np.int32))
    slow = module.get_function("slow")
    assert 0.002 <= slow(y, np.int32(2), block=(1, 1, 1), time_kernel=True) < 5
    array = np.zeros(1, np.int32)
    assert 0.002 <= slow(cuda.InOut(array), np.int32(2), block=(1, 1, 1), time_kernel=True) < 5
    assert array[0] == 1


def test_prepared_calls(scale):
    x = np.arange(100, dtype=np.float32)
    d_x, d_y = cuda.to_device(x), cuda.mem_alloc(x.nbytes)
    for types in (
        "PPfi",
        [np.intp, np.uintp, np.float32, np.int32],
        ["P", "P", np.dtype(np.float32), "i"],
    ):
        assert scale.prepare(types) is scale
        scale.prepared_call((1, 1), (128, 1, 1), d_y, int(d_x), 2.5, 100)
        assert (cuda.from_device_like(d_y, x) == 2.5 * x).all()
    stream = cuda.Stream()
    scale.prepared_async_call((1, 1), (128, 1, 1), stream, d_y, d_x, 3, 100, shared_size=64)
    scale.prepared_async_call((1, 1), (128, 1, 1), None, d_y, d_x, np.float32(4), np.int32(50))
    cuda.Context.synchronize()
    assert (cuda.from_device_like(d_y, x) == np.where(np.arange(100) < 50, 4, 3) * x).all()
    seconds = scale.prepared_timed_call((1, 1), (128, 1, 1), d_y, d_x, 2, 100)()
    assert 0 < seconds < 5


def test_types_for_prepared_calls_in_one_string_and_complex_numbers():
    f = SourceModule(
        "struct Z { float re, im; }; __global__ void f(Z *y, Z z, int i) { y[i] = z; }"
    ).get_function("f")
    y = cuda.to_device(np.zeros(3, np.complex64))
    for types in ("P8si", ["P", "", np.dtype(np.complex64), "i"], ["P", "F", np.int32]):
        f.prepare(types)
        f.prepared_call((1, 1), (1, 1, 1), y, np.complex64(1 + 2j), 0)
    for i, value in ((1, 3), (2, np.complex128(4 + 5j))):  # numbers of other types are converted
        f.prepared_call((1, 1), (1, 1, 1), y, value, i)
    assert cuda.from_device(y, 3, np.complex64).tolist() == [1 + 2j, 3, 4 + 5j]


def test_function_attributes(module):
    shared = module.get_function("shared")
    assert (
        shared.shared_size_bytes
        == shared.get_attribute(cuda.function_attribute.SHARED_SIZE_BYTES)
        == 1024
    )
    assert shared.max_threads_per_block == 1024
    bounded = module.get_function("bounded")
    assert (bounded.max_threads_per_block, bounded.shared_size_bytes) == (64, 0)
    assert shared.const_size_bytes == 24
    assert shared.num_regs == 0 and shared.local_size_bytes == 0
    shared.set_cache_config(cuda.func_cache.PREFER_SHARED)
    shared.set_attribute(cuda.function_attribute.MAX_DYNAMIC_SHARED_SIZE_BYTES, 100_000)
    shared(cuda.mem_alloc(4), block=(1, 1, 1), shared=100_000)
    cuda.Context.synchronize()


# -- symbols


def test_constants_of_a_struct_type(module):
    address, size = module.get_global("table")
    assert size == 24
    table = np.zeros(3, np.dtype([("first", np.int16), ("second", np.float32)], align=True))
    table["first"], table["second"] = [1, 2, 3], [10, 20, 30]
    cuda.memcpy_htod(address, table)
    y = np.zeros(3, np.float32)
    module.get_function("constants")(cuda.Out(y), block=(3, 1, 1))
    assert y.tolist() == [10, 40, 90]
    cuda.memcpy_htod(address + 8, table[:1])
    module.get_function("constants")(cuda.Out(y), block=(3, 1, 1))
    assert y.tolist() == [10, 10, 90]


# -- streams and events


def test_a_stream_waits_for_an_event(held_back):
    first, y, release = held_back
    second, copy, event = cuda.Stream(), cuda.mem_alloc(4), cuda.Event()
    assert event.record(first) is event
    second.wait_for_event(event)
    cuda.memcpy_dtod_async(copy, y, 4, second)
    assert not event.query() and not second.is_done()
    release()
    second.synchronize()
    assert event.query() and cuda.from_device(copy, 1, np.int32)[0] == 1


def test_event_times(module):
    start, end = cuda.Event(), cuda.Event()
    start.record()
    module.get_function("slow")(cuda.mem_alloc(4), np.int32(3), block=(1, 1, 1))
    assert end.record().synchronize() is end
    assert 3 <= end.time_since(start) == start.time_till(end) < 5000
    untimed = cuda.Event(cuda.event_flags.DISABLE_TIMING)
    untimed.record()
    untimed.synchronize()
    with pytest.raises(cuda.LogicError, match="DISABLE_TIMING"):
        untimed.time_since(start)


def test_the_default_stream_waits_for_the_others(module):
    stream, y = cuda.Stream(), cuda.to_device(np.zeros(1, np.int32))
    module.get_function("slow")(y, np.int32(5), block=(1, 1, 1), stream=stream)
    assert cuda.from_device(y, 1, np.int32)[0] == 1


# -- printf


def test_printf_comes_through_pythons_stdout(module, capsys):
    module.get_function("say")(np.int32(3), block=(3, 1, 1))
    cuda.Context.synchronize()
    assert sorted(capsys.readouterr().out.splitlines()) == [
        f"thread {i} of 3: 1.50 text    42%" for i in range(3)
    ]


# -- traces


def test_calls_and_device_work_are_traced(scale):
    x = np.ones(8, np.float32)
    d = cuda.to_device(x)  # not recorded
    start = time.monotonic()
    activity.start()
    try:
        cuda.memcpy_htod(d, x)
        scale(d, d, np.float32(2), np.int32(8), block=(8, 1, 1))
        cuda.Context.synchronize()
    finally:
        records = activity.stop()
    end = time.monotonic()
    cuda.memcpy_htod(d, x)  # not recorded
    calls = [record[1:4] for record in records if record[0] == "api"]
    assert [name for name, _, _ in calls] == ["cuMemcpyHtoD", "cuLaunchKernel", "cuCtxSynchronize"]
    work = [record for record in records if record[0] != "api"]
    assert [(*record[:2], record[4]) for record in work] == [
        ("copy", "HtoD", 32),
        ("kernel", "scale", 0),
    ]
    for at, duration in [record[2:4] for record in records]:
        assert start <= at and duration >= 0 and at + duration <= end
    assert activity.stop() == []
