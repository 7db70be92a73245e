"""Bad input to the CPU engine: one clear error each, and the process goes on."""

import gc
import os
import re
import signal
import threading
import time
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from running import IMPORTS, run_python

import hostcuda.api.driver as cuda
from hostcuda.api.compiler import SourceModule
from hostcuda.runtime import native

pytestmark = pytest.mark.core("what every mistake is answered with")

F, I, ONE, FOUR = np.float32, np.int32, (1, 1, 1), (4, 1, 1)
SOURCE = """
struct Pair { float first, second; };
__constant__ float mask[4];
__global__ void add(float *y, const float *__restrict__ x, float a, int n) {
    int i = threadIdx.x;
    if (i < n) y[i] += a * x[i];
}
__global__ void pairs(Pair p, unsigned char flag, double *y) { y[0] = p.first + flag + mask[0]; }
__global__ void write(int *y, long long at) { y[at] = 1; }
__global__ void quotients(int *y, long long *z, int n) {
    __shared__ int s[4];
    s[threadIdx.x] = y[1];
    long long wide = z[threadIdx.x + 1];
    y[2] = y[0] / y[1]; y[3] = y[0] % s[threadIdx.x]; y[4] = y[0] / n;
    z[2] = z[0] / wide; z[3] = z[0] % z[1]; z[4] = (z[0] + 1) / wide;
}
__global__ void endless(volatile int *y) { while (y[0] == 0) { } }
__global__ void shared(int *y) { extern __shared__ int s[]; __shared__ int t[1024];
    s[0] = 1; t[threadIdx.x] = y[0]; __syncthreads(); y[1] = t[y[0] & 1] + s[0]; }
__global__ void __launch_bounds__(64) bounded(int *y) { y[0] = 1; }
"""


@pytest.fixture
def add(module):
    return module.get_function("add")


@pytest.fixture
def d():
    return cuda.to_device(np.zeros(16, np.float32))


@pytest.fixture(autouse=True)
def _the_engine_still_works(module):
    """Check after each of these tests that a kernel still gives the right answer."""
    yield
    y = np.ones(4, np.float32)
    module.get_function("add")(
        cuda.InOut(y), cuda.In(y), np.float32(2), np.int32(3), block=(4, 1, 1)
    )
    assert y.tolist() == [3, 3, 3, 1]


def test_exceptions_are_pycudas():
    for error in (
        cuda.CompileError,
        cuda.LogicError,
        cuda.LaunchError,
        cuda.MemoryError,
        cuda.RuntimeError,
    ):
        assert issubclass(error, cuda.Error)
    assert issubclass(cuda.Error, Exception)


@pytest.fixture
def k(module, add, d):
    """Return what the calls of the tables below name."""
    return SimpleNamespace(
        module=module, add=add, shared=module.get_function("shared"), d=d, memory=cuda.mem_alloc(64)
    )


def refuses(call, k, error, words):
    """Check that a call is refused, and a second time, too: a kernel's arguments are then packed otherwise."""
    for _ in range(2):
        with pytest.raises(error, match=words):
            call(k)


# -- names and arguments


PLAIN = "__global__ void plain(int *y) { *y = 1; }"  # a GPU does not find the plain name either


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (
            lambda k: k.module.get_function("ad"),
            r"named symbol not found: there is no kernel 'ad'; did you mean 'add'\?",
        ),
        (
            lambda k: k.module.get_function("convolution"),
            "the module's kernels are add, pairs, write",
        ),
        (
            lambda k: SourceModule("__device__ int f() { return 1; }").get_function("f"),
            "has none at all",
        ),
        (
            lambda k: SourceModule(PLAIN, no_extern_c=True).get_function("plain"),
            "'plain' has the symbol '_Z5plainPi': write extern \"C\"",
        ),
        (lambda k: k.module.get_global("masks"), r"named symbol not found: .* variable 'masks'"),
    ],
)
def test_unknown_name(k, call, words):
    refuses(call, k, cuda.LogicError, words)


def test_a_kernel_may_be_named_as_cplusplus_does():
    assert SourceModule(PLAIN, no_extern_c=True).get_function("_Z5plainPi").symbol == "_Z5plainPi"


@pytest.mark.parametrize(
    ("position", "argument", "words"),
    [
        (
            0,
            np.zeros(4, np.float32),
            r"argument 0 \(0-based\) `float \*y`: the kernel takes a pointer, not a NumPy array.*cuda.In",
        ),
        (1, 5, "takes a pointer, not the Python int 5.*cuda.mem_alloc"),
        (1, np.int32(5), r"takes a pointer, not np.int32 \(4 bytes\)"),
        (0, None, "takes a pointer, not a NoneType"),
        (
            2,
            1.5,
            r"`float a`: the kernel takes a float of 4 bytes, not the Python float 1.5, which .*np.float32\(value\)",
        ),
        (2, np.float64(1.5), r"not np.float64 \(8 bytes\); pass np.float32\(value\)"),
        (2, np.int32(1), "takes a float of 4 bytes, not np.int32"),
        (2, "1.5", "not a str"),
        (
            3,
            3,
            r"`int n`: the kernel takes a signed integer of 4 bytes, not the Python int 3.*np.int32\(value\)",
        ),
        (3, True, r"the Python bool True"),
        (3, np.int64(3), r"not np.int64 \(8 bytes\)"),
        (3, np.float32(3), "takes a signed integer of 4 bytes, not np.float32"),
        (3, np.bool_(True), "not np.bool"),
    ],
)
def test_wrong_argument(k, position, argument, words):
    arguments = [k.d, k.d, np.float32(1), np.int32(4)]
    arguments[position] = argument
    refuses(lambda k: k.add(*arguments, block=FOUR), k, TypeError, f"add: .*{words}")


COUNTS = r"add\(float \*y, const float \*__restrict__ x, float a, int n\) takes 4 arguments, and %d were given"
DTYPE = r"`const float .* x`: the array's dtype is %s, .* reads float of 4; .*\.astype"


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (
            lambda k: k.module.get_function("pairs")(F(1), np.uint8(1), k.d, block=ONE),
            TypeError,
            r"`Pair p`: the kernel takes a struct of 8 bytes, not np.float32.*structured scalar",
        ),
        (
            lambda k: k.module.get_function("pairs")(np.zeros(3, F), np.uint8(1), k.d, block=ONE),
            TypeError,
            "a struct of 8 bytes",
        ),
        (
            lambda k: k.module.get_function("pairs")(np.zeros(2, F), I(1), k.d, block=ONE),
            TypeError,
            r"`unsigned char flag`: .*unsigned integer of 1 bytes.*np.uint8\(value\)",
        ),
        *(
            (lambda k, count=count: k.add(*[k.d] * count, block=FOUR), TypeError, COUNTS % count)
            for count in (0, 3, 5)
        ),
        *(
            (
                lambda k, dtype=dtype: k.add(
                    k.d, cuda.In(np.zeros(4, dtype)), F(1), I(4), block=FOUR
                ),
                TypeError,
                DTYPE % dtype,
            )
            for dtype in ("float64", "int64", "float16")
        ),
        (
            lambda k: k.add(k.d, cuda.In([1.0, 2.0]), F(1), I(2), block=(2, 1, 1)),
            TypeError,
            "need a NumPy array, not list",
        ),
        (
            lambda k: k.add(k.d, cuda.In(np.zeros((4, 4), F)[:, ::2]), F(1), I(4), block=FOUR),
            ValueError,
            "not contiguous",
        ),
        (
            lambda k: k.add(cuda.InOut(np.frombuffer(bytes(16), F)), k.d, F(1), I(4), block=FOUR),
            BufferError,
            "read-only",
        ),
        (
            lambda k: k.add(k.d, k.d, F(1), I(1), blocks=ONE),
            ValueError,
            "extra keyword arguments: blocks",
        ),
        (lambda k: k.add(k.d, k.d, F(1), I(1), block=ONE, stream=0), TypeError, "stream is an int"),
        (
            lambda k: k.module.get_function("bounded")(k.d, block=(65, 1, 1)),
            cuda.LogicError,
            r"it has 65 threads, .*__launch_bounds__ allow at most 64",
        ),
        (
            lambda k: k.shared(k.d, block=ONE, shared=49000),
            cuda.LogicError,
            "49000 bytes of dynamic shared memory and 4096 of static are more than the 49152",
        ),
        (
            lambda k: k.shared(k.d, block=ONE, shared=60000),
            cuda.LogicError,
            "MAX_DYNAMIC_SHARED_SIZE_BYTES",
        ),
        (lambda k: k.shared(k.d, block=ONE, shared=300000), cuda.LogicError, "at most 232448"),
        (
            lambda k: k.shared.set_attribute(
                cuda.function_attribute.MAX_DYNAMIC_SHARED_SIZE_BYTES, 232448
            ),
            cuda.LogicError,
            "at most 228352 are possible besides 4096 static",
        ),
        (
            lambda k: k.add.prepared_call((1, 1), FOUR, k.d, k.d, 1.0, 4),
            cuda.LogicError,
            r"call prepare\(...\) before",
        ),
        (lambda k: k.add.prepare("PPf"), TypeError, "given 3 types for 4 parameters"),
        (
            lambda k: k.add.prepare(["P", "P", F, np.int64]),
            TypeError,
            r"argument 3 .*signed integer of 4 bytes, and prepare said 'q', of 8",
        ),
        (
            lambda k: k.add.prepare("PPii"),
            TypeError,
            r"argument 2 .*a float of 4 bytes, and prepare said 'i'",
        ),
        (
            lambda k: k.add.prepare("PPfi").prepared_call((1, 1), FOUR, k.d, k.d),
            TypeError,
            "prepared for 4 arguments, and 2 were given",
        ),
        (
            lambda k: k.add.prepare("PPfi").prepared_call((1, 1), FOUR, k.d, k.d, 1.0, 4.5),
            TypeError,
            r"argument 3 .*cannot be passed as 'i'",
        ),
        (
            lambda k: k.add.prepare("PPfi").prepared_call((1, 1), FOUR, np.zeros(4), k.d, 1.0, 4),
            TypeError,
            r"argument 0 .*cannot be passed as 'Q'",
        ),
    ],
)
def test_wrong_launch(k, call, error, words):
    refuses(call, k, error, words)


def test_device_memory_that_an_array_of_another_dtype_has_just_filled(add):
    memory = [
        cuda.to_device(np.zeros(4, dtype))
        for dtype in (np.float32, np.float64, np.uint8, np.float64)
    ]
    for x in (memory[0], memory[2], cuda.to_device(np.zeros(4, np.int32))):
        cuda.memcpy_htod(memory[0], np.zeros(4, np.float32))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            add(memory[0], x, np.float32(1), np.int32(1), block=(4, 1, 1))
    add._packers.clear()
    with pytest.warns(
        UserWarning, match=r"add: argument 1 .* dtype is float64, 8 bytes .* reads float of 4"
    ) as warned:
        add(memory[0], memory[1], np.float32(1), np.int32(4), block=(4, 1, 1))
    assert warned[0].filename == __file__
    add._packers.clear()
    int(memory[3])  # a use, after which the memory may have anything
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        add(memory[0], memory[3], np.float32(1), np.int32(4), block=(4, 1, 1))


@pytest.mark.parametrize(
    ("grid", "block", "error", "words"),
    [
        ((1, 1), (1025, 1, 1), cuda.LogicError, r"block.x is 1025, and must be 1 to 1024"),
        (
            (1, 1),
            (64, 32, 1),
            cuda.LogicError,
            r"block=\(64, 32, 1\): it has 2048 threads, and at most 1024 are allowed",
        ),
        ((1, 1), (1, 1, 65), cuda.LogicError, "block.z is 65, and must be 1 to 64"),
        ((1, 1), (0, 1, 1), cuda.LogicError, "block.x is 0"),
        ((0, 1), (1, 1, 1), cuda.LogicError, "grid.x is 0"),
        ((1, 65536), (1, 1, 1), cuda.LogicError, "grid.y is 65536, and must be 1 to 65535"),
        ((2**31, 1), (1, 1, 1), cuda.LogicError, "grid.x is 2147483648"),
        ((-1, 1), (1, 1, 1), cuda.LogicError, "grid.x is -1"),
        ((5 / 2, 1), (1, 1, 1), TypeError, r"grid.x is a float; round it up with math.ceil"),
        ((1, 1), (4 / 2, 1, 1), TypeError, "block.x is a float; write // for /"),
        (3, (1, 1, 1), TypeError, "grid must be a tuple of one to three ints, not 3"),
        ([1, 1], (1, 1, 1), TypeError, "grid must be a tuple"),
        (
            (1, 1),
            (1, 1),
            TypeError,
            r"block must be a tuple of three ints, e.g. \(16, 16, 1\), not \(1, 1\)",
        ),
        ((1, np.int64(1)), (1, 1, 1), TypeError, "grid.y is an int64; write int"),
        ((1, 1), (1, 1, 1, 1), TypeError, "block must be a tuple of three ints"),
        ((1, 1), None, ValueError, "must specify block size"),
    ],
)
def test_geometry(k, grid, block, error, words):
    refuses(
        lambda k: k.add(k.d, k.d, np.float32(1), np.int32(1), grid=grid, block=block),
        k,
        error,
        words,
    )


@pytest.mark.parametrize(
    "launch",
    [
        {"grid": 4, "block": 256},
        {"grid": (4, 1), "block": [256, 1, 1]},
        {"block": (2048, 1, 1)},
        {"block": None},
        {"block": (1, 1, 1), "stream": 1},
        {"block": (1, 1, 1), "a": 1.0},
        {"block": (1, 1, 1), "x": np.ones(4)},
        {"block": (1, 1, 1), "x": cuda.In(np.ones(4))},
        {"block": (1, 1, 1), "blocks": 2},
    ],
)
def test_a_notebook_shows_a_wrong_launch_in_a_sentence(add, d, launch):
    with pytest.raises((TypeError, ValueError, cuda.LogicError)) as wrong:
        add(launch.pop("x", d), d, launch.pop("a", np.float32(1)), np.int32(1), **launch)
    assert wrong.value.__context__ is None or wrong.value.__suppress_context__
    (sentence,) = wrong.value._render_traceback_()
    assert sentence.startswith(("TypeError: ", "ValueError: ", "LogicError: "))


# -- memory


def test_out_of_memory():
    gc.collect()  # the buffers of tests before this one
    free, _ = cuda.mem_get_info()
    with pytest.raises(
        cuda.MemoryError,
        match=r"out of memory: .* GiB requested, .* of .* free\. Use a smaller batch",
    ):
        cuda.mem_alloc(free * 4)
    assert cuda.mem_get_info()[0] == free


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda k: cuda.mem_alloc(0), cuda.LogicError, "0 bytes"),
        (lambda k: cuda.mem_alloc(-4), OverflowError, "is negative: -4"),
        (lambda k: cuda.mem_alloc(4.0), TypeError, "a Python int, not float"),
        (
            lambda k: cuda.memcpy_htod(k.memory, np.zeros(16)),
            cuda.LogicError,
            r"128 bytes do not fit in the 64 .*float64 .*did you mean .astype\(np.float32\)",
        ),
        (
            lambda k: cuda.memcpy_dtoh(np.zeros(17, F), k.memory),
            cuda.LogicError,
            "cuMemcpyDtoH failed: invalid argument: 68 bytes do not fit in the 64",
        ),
        (
            lambda k: cuda.memcpy_htod(int(k.memory) + 4, np.zeros(16, F)),
            cuda.LogicError,
            r"do not fit in the 60 .* from offset 4",
        ),
        (
            lambda k: cuda.memcpy_dtod(k.memory, cuda.mem_alloc(128), 80),
            cuda.LogicError,
            "80 bytes do not fit in the 64",
        ),
        (
            lambda k: cuda.memset_d32(k.memory, 0, 17),
            cuda.LogicError,
            r"cuMemsetD32 failed: .* 68 bytes do not fit",
        ),
        (lambda k: cuda.memcpy_htod(4096, np.zeros(1)), cuda.LogicError, "is not device memory"),
        (
            lambda k: cuda.memcpy_htod(k.memory, np.zeros((4, 4), F)[:, ::2]),
            ValueError,
            r"not contiguous \(shape \(4, 2\), strides \(16, 8\)\).*np.ascontiguousarray",
        ),
        (
            lambda k: cuda.memcpy_dtoh(np.zeros((4, 4), F)[:, ::2], k.memory),
            ValueError,
            "not contiguous",
        ),
        (lambda k: cuda.memcpy_dtoh(b"12345678", k.memory), BufferError, "read-only"),
        (lambda k: cuda.memcpy_htod(np.zeros(4), k.memory), TypeError, "wrong order"),
        (
            lambda k: cuda.memcpy_dtoh(np.zeros(4), np.zeros(4)),
            TypeError,
            r"a device pointer is a .* not ndarray.*second in memcpy_dtoh",
        ),
        (lambda k: cuda.memcpy_htod(k.memory, [1.0, 2.0]), TypeError, "a list; a NumPy array"),
        (lambda k: cuda.memcpy_htod(k.memory, np.array([None, 1])), TypeError, "Python objects"),
        (
            lambda k: cuda.memset_d32(k.memory, 1.0, 16),
            TypeError,
            "the value must be a Python int, not float",
        ),
        (
            lambda k: cuda.memset_d8(k.memory, 256, 16),
            OverflowError,
            "the value 256 has more than 1 bytes",
        ),
    ],
)
def test_wrong_copy(k, call, error, words):
    refuses(call, k, error, words)


def test_use_after_free(add, d):
    freed = cuda.mem_alloc(64)
    address = int(freed)
    freed.free()
    for call in (
        lambda: freed.free(),
        lambda: int(freed),
        lambda: cuda.memcpy_htod(freed, np.zeros(1)),
        lambda: add(freed, d, np.float32(1), np.int32(1), block=(1, 1, 1)),
        lambda: add.prepare("PPfi").prepared_call((1, 1), (1, 1, 1), freed, d, 1.0, 1),
    ):
        with pytest.raises(cuda.LogicError, match="used after it was freed"):
            call()
    with pytest.raises(cuda.LogicError, match="is not device memory"):
        cuda.from_device(address, 1, np.int32)


# -- kernels that go wrong


@pytest.mark.parametrize(
    ("wait", "call"),
    [
        (lambda stream, y: cuda.Context.synchronize(), "cuCtxSynchronize"),
        (lambda stream, y: cuda.from_device(y, 1, np.int32), "cuMemcpyDtoH"),
        (lambda stream, y: stream.synchronize(), "cuStreamSynchronize"),
    ],
)
def test_the_next_call_that_waits_raises_a_kernels_fault_once(module, wait, call):
    stream, y = cuda.Stream(), cuda.mem_alloc(64)
    module.get_function("write")(y, np.int64(1 << 44), block=ONE, stream=stream)
    with pytest.raises(cuda.LaunchError, match=f"{call} failed: .*write"):
        wait(stream, y)
    cuda.Context.synchronize()


def test_printf_writes_to_no_address():
    source = 'extern "C" __global__ void tell(int *y) { char p[] = "%d %-*.3n"; p[5] = \'h\'; printf(p, 1, 2, y); }'
    y = cuda.to_device(np.zeros(1, np.int32))
    SourceModule(source).get_function("tell")(y, block=ONE)
    with pytest.raises(cuda.LaunchError, match="printf has no %n: remove it"):
        cuda.Context.synchronize()
    assert cuda.from_device(y, 1, np.int32)[0] == 0


def test_the_least_integer_divided_by_minus_one(module):
    y, z = np.array([-(2**31), -1, 0, 9, 0], np.int32), np.array([-(2**63), -1, 0, 9, 0], np.int64)
    module.get_function("quotients")(cuda.InOut(y), cuda.InOut(z), np.int32(-1), block=(1, 1, 1))
    assert list(y[2:]) == [-(2**31), 0, -(2**31)] and list(z[2:]) == [-(2**63), 0, 2**63 - 1]


@pytest.mark.parametrize(
    ("at", "words"),
    [
        (1 << 44, "kernel write"),
        (16, "write wrote up to 4 bytes past the end of an allocation of 64 bytes"),
    ],
    ids=["fault", "overrun"],
)
def test_a_wrong_write_is_told_though_the_buffer_went_first(module, at, words):
    y = cuda.mem_alloc(64)
    module.get_function("write")(y, np.int64(at), block=ONE)
    del y
    gc.collect()
    with pytest.raises(cuda.LaunchError, match=words):
        cuda.Context.synchronize()


@pytest.fixture
def interrupted(module):
    """Start an endless kernel and press Ctrl-C a moment later; return a list with the kernel's only buffer."""
    buffers = [cuda.to_device(np.zeros(1, np.int32))]
    module.get_function("endless")(*buffers, block=ONE)
    timer = threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    yield buffers
    timer.join()


def test_ctrl_c_ends_an_endless_kernel(interrupted):
    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt) as stop:
        cuda.Context.synchronize()
    stopped = "Interrupted: cuCtxSynchronize was stopped, and with it all that the device had not finished"
    assert stop.value._render_traceback_() == [stopped]  # what a notebook shows
    assert time.monotonic() - start < 10


def test_ctrl_c_reaches_a_buffer_that_waits_for_an_endless_kernel(interrupted):
    with pytest.raises(KeyboardInterrupt):
        interrupted.clear() or time.sleep(10)


@pytest.mark.thorough("five seconds or more")
def test_a_program_ends_though_its_kernel_does_not():
    done = run_python(f"""{IMPORTS}
f = SourceModule("__global__ void endless(volatile int *y) {{ while (y[0] == 0) {{ }} }}").get_function("endless")
y = cuda.to_device(np.zeros(1, np.int32))
f(y, block=(1, 1, 1))
print("queued")
""")
    assert (done.returncode, done.stdout, done.stderr) == (0, "queued\n", "")


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_is_told(module):
    cuda.Context.synchronize()
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            cuda.mem_alloc(4)
            answer = "worked"
        except cuda.LogicError as error:
            answer = str(error)
        os.write(write, answer.encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        assert "'spawn'" in pipe.read()
    assert os.waitpid(child, 0)[1] == 0


def test_a_fault_after_its_stream_object_has_gone(module, d):
    stream = cuda.Stream()
    module.get_function("endless")(d, block=(1, 1, 1), stream=stream)
    module.get_function("write")(d, np.int64(1 << 40), block=(1, 1, 1), stream=stream)
    del stream
    cuda.memset_d32_async(d, 1, 16, stream=cuda.Stream(1))  # ends the first kernel
    with pytest.raises(cuda.LaunchError, match="kernel write"):
        cuda.Context.synchronize()


def test_a_fault_before_many_asynchronous_copies(module):
    stream, ones, seen = (
        cuda.Stream(),
        cuda.to_device(np.ones(4, np.int32)),
        cuda.pagelocked_zeros(4, np.int32),
    )
    module.get_function("write")(ones, np.int64(1 << 40), block=(1, 1, 1), stream=stream)
    cuda.memcpy_dtoh_async(seen, ones, stream)
    while not seen.all():
        time.sleep(1e-3)
    for _ in range(100):  # after some of them it is looked up which have ended
        cuda.memcpy_htod_async(ones, seen, stream)
        time.sleep(1e-4)
    with pytest.raises(cuda.LaunchError, match="kernel write"):
        stream.synchronize()


@pytest.mark.parametrize("in_notebook", [False, True])
def test_a_long_wait_says_what_may_keep_it(monkeypatch, capsys, in_notebook):
    monkeypatch.setattr(native, "_last_kernel", "spin")
    monkeypatch.delenv("TQDM_DISABLE", raising=False)
    monkeypatch.setattr(native, "_LONG_IN_NOTEBOOK_S" if in_notebook else "_LONG_S", -1)
    monkeypatch.setattr(native.settings, "in_notebook", lambda: in_notebook)
    statuses = iter([native.NOT_READY, native.NOT_READY, native.OK])
    native._wait("cuX", lambda timeout: next(statuses))
    says = r"cuX has waited .* launch was that of spin\. .* an interrupt.* waits for another block in a loop"
    (line,) = capsys.readouterr().err.splitlines()
    assert re.match(says, line)
    monkeypatch.setenv("TQDM_DISABLE", "1")  # a report is not to depend on the machine's load
    assert native._choose_patience() == native._LONG_S
