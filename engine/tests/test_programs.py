"""Whole programs in CUDA C++: their host code, their launches, their errors, and the commands that take them."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from running import run_program

from hostcuda import processes as child
from hostcuda.errors import EngineError
from hostcuda.frontend.hostcode import Names
from hostcuda.frontend.rewrite import rewrite
from hostcuda.profile import profile_script
from hostcuda.sanitize import sanitize_script

pytestmark = pytest.mark.thorough("whole programs: a process each")

EVERYTHING = Path(__file__).parent / "programs" / "everything.cu"
PRINTED = """\
deduced: 5050, 250
special functions of C++17: 2
managed, struct: 3 3
header: 9
overload, dynamic: 126 0 timed
symbols: 4 4 42
thread 0 of 2
thread 1 of 2
argument one
pitch: 1 15
device: 1, warps of 32, 1024 threads per block
the host's clock: seconds
by pointers: 9
error: cudaErrorInvalidConfiguration, then no error
"""


def test_a_compilers_message_has_the_line_of_a_relative_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("wrong.cu").write_text("int main()\n{\n\treturn unknown;\n}\n")
    done = run_program("wrong.cu")
    assert done.returncode == 1
    assert "\n    3 |         return unknown;\n      |                ^~~~~~~\n" in done.stderr


@pytest.fixture
def program(tmp_path):
    def write(text):
        path = tmp_path / "program.cu"
        path.write_text(text)
        return path

    return write


def test_a_program_with_most_of_the_runtime_api():
    ended = run_program(EVERYTHING, "one")
    assert ended.stdout == PRINTED
    assert ended.returncode == 3
    assert "block.x is 2000" in ended.stderr  # the engine's own sentence


FAULTY = """
#include <stdio.h>
__global__ void fill(int *x, int n) { x[(blockIdx.x * 32 + threadIdx.x) % SIZE + OFFSET] = n; }
int main() {
    int *x, one = 1;
    cudaMalloc(&x, 100 * sizeof(int));
    printf("%d\\n", cudaMemcpy(x, &one, 1 << 20, cudaMemcpyHostToDevice));
    printf("%d\\n", cudaMemcpy(&one, &one, sizeof one, cudaMemcpyHostToDevice));
    printf("%d\\n", cudaFree(&one));
    fill<<<4, 32>>>(x, 7);
    printf("%s\\n", cudaGetErrorString(cudaDeviceSynchronize()));
    printf("%s\\n", cudaGetErrorString(cudaMemset(x, 0, 4)));
    return 0;
}
"""


TEXTBOOK = """#include <stdio.h>
#include <memory>
__device__ __noinline__ int next(int x) { return x + 1; }
__attribute__((__noinline__)) int last(int x) { return x - 1; }
template <class T> __global__ void fill(T *x, int n = 2, T *also = NULL)
{
    if (threadIdx.x < n) x[threadIdx.x] = next(n);
    if (also && threadIdx.x < n) also[threadIdx.x] = n;
}
void CUDART_CB told(cudaStream_t s, cudaError_t status, void *data) { printf("told %d %d\\n", status, *(int *)data); }
void CUDART_CB called(void *data) { printf("called %d\\n", *(int *)data); }
template <class F> __global__ void for_each(F f) { f(threadIdx.x); }
struct Lock {
    int *mutex;
    Lock() { cudaMalloc(&mutex, sizeof *mutex), cudaMemset(mutex, 0, sizeof *mutex); }
    ~Lock() { cudaFree(mutex); }   // of the host's copies only, as on a GPU
    __device__ void lock() { while (atomicCAS(mutex, 0, 1)); }
    __device__ void unlock() { atomicExch(mutex, 0); }
};
__global__ void count(Lock lock, int *x)
{
    if (threadIdx.x > 0) return;
    lock.lock();
    *x += 1;
    lock.unlock();
}
__device__ int same(int i) { return i; }
__global__ void hello() { printf("hello from %d\\n", threadIdx.x); }
int elsewhere(int x);
int textbook()
{
    int *x, *y, seen[4] = {};
    cudaMalloc(&x, sizeof seen);
    cudaMallocManaged(&y, sizeof seen);
    fill<<<1, 32, 0, 0>>>(x);
    fill<int><<<{1, 1}, 32, 0, NULL>>>(x + 2, last(2), y);
    cudaStreamAddCallback(0, told, y, 0);
    cudaLaunchHostFunc(0, called, y);
    cudaMemcpy(seen, x, sizeof seen, cudaMemcpyDeviceToHost);
    printf("default arguments: %d %d %d %d\\n", seen[0], seen[1], seen[2], y[0]);

    float box[2][3][4], back[2][3][4] = {};
    for (int i = 0; i < 24; i++) ((float *)box)[i] = i;
    cudaPitchedPtr device;
    cudaMemcpy3DParms copy = {};
    copy.extent = make_cudaExtent(sizeof box[0][0], 3, 2);
    cudaMalloc3D(&device, copy.extent);
    copy.srcPtr = make_cudaPitchedPtr(box, sizeof box[0][0], 4, 3), copy.dstPtr = device;
    copy.kind = cudaMemcpyHostToDevice;
    cudaMemcpy3D(&copy);
    copy.dstPtr = make_cudaPitchedPtr(back, sizeof box[0][0], 4, 3), copy.srcPtr = device;
    copy.kind = cudaMemcpyDeviceToHost;
    copy.srcPos = make_cudaPos(0, 1, 0), copy.extent.height = 2;
    cudaMemcpy3D(&copy);
    printf("a box: %g %g %g\\n", back[0][0][0], back[1][1][3], back[1][2][0]);

    cudaDeviceProp properties;
    cudaGetDeviceProperties(&properties, 0);
    printf("managed: %d, elsewhere: %d\\n", properties.managedMemory, elsewhere(5));
    void *arguments[] = {&x};
    printf("%s\\n", cudaGetErrorName(cudaLaunchCooperativeKernel((void *)fill<int>, 1, 32, arguments)));
    hello<<<1, 1>>>();
    for_each<<<1, 4>>>([=] __device__ (int i) { y[i] = same(i); });
    cudaMemLocation host = {cudaMemLocationTypeHost, 0};
    printf("lambda: %d %d\\n", cudaMemPrefetchAsync(y, sizeof seen, host, 0), cudaDeviceSynchronize());
    cudaMemset(y, 0, sizeof *y);
    Lock lock;
    count<<<5, 32>>>(lock, y);
    cudaDeviceSynchronize();
    printf("a lock: %d\\n", y[0]);
    return y[3];
}
"""


def test_what_textbooks_use_besides(program):
    path = program(TEXTBOOK)
    alone = run_program(path)
    assert alone.returncode == 1
    assert 'has no main: name the file that has it (--options "FILE.cpp")' in alone.stderr
    other = path.with_name("other.cpp")
    other.write_text("int elsewhere(int x) { return 2 * x; }\nint textbook();\nint main() { return textbook(); }\n")
    ended = run_program(path, options=[str(other)])
    assert ended.returncode == 3
    assert ended.stdout.splitlines() == [
        "told 0 1",
        "called 1",
        "default arguments: 3 3 2 1",
        "a box: 4 23 0",
        "managed: 1, elsewhere: 10",
        "cudaErrorNotSupported",
        "hello from 0",
        "lambda: 0 0",
        "a lock: 5",
    ]
    assert "cannot wait for each other: end the kernel where it calls grid.sync()" in ended.stderr


def test_wrong_calls_and_faults_give_cudas_numbers_and_a_sentence(program):
    ended = run_program(program(FAULTY), options=["-DSIZE=100", "-DOFFSET=-(1ll<<40)"])
    said = "an illegal memory access was encountered"
    assert ended.stdout.splitlines() == ["1", "1", "1", said, said]
    for sentence in ("1048576 bytes were asked for", "is no device memory", "cudaMalloc gave no"):
        assert sentence in ended.stderr


def test_sanitize_and_profile_take_a_program(program):
    path = str(program(FAULTY))
    findings = sanitize_script(path, (), "memcheck", "cpu", capture=True, options=["-DSIZE=128", "-DOFFSET=0"])
    (row,) = findings.table.to_dict("records")
    assert (row["kind"], row["kernel"], row["line"]) == ("out of bounds", "fill", 3)
    profile = profile_script(path, (), "cpu", capture=True, nvcc=False, options=["-DSIZE=100", "-DOFFSET=0"])
    assert profile.value("global_store_requests", "fill") == 4


HOSTS = r"""
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string>
struct alignas(64) Eight { double at[8]; };
__global__ void sum(double *out, Eight a, char c, Eight b)
{
    out[threadIdx.x] = 0;
    for (int i = 0; i < 8; i++) out[threadIdx.x] += a.at[i] * b.at[i] + c;
}
int main()
{
    for (int i = 0; i < 200; i++) {   // the C++ library frees what the program allocates, and the other way
        std::istream *words = new std::istringstream(std::string(i, 'x') + " some words");
        std::string *word = new std::string;
        while (*words >> *word) *word += std::string(2 * i, 'y');
        delete word;
        delete words;
    }
    double *out, seen[4];
    cudaMalloc(&out, sizeof seen);
    Eight a, b;
    for (int i = 0; i < 8; i++) a.at[i] = i, b.at[i] = 2;
    double total = 0;
    for (int i = 0; i < 20; i++) {    // wherever the arguments are kept
        sum<<<1, 4>>>(out, a, 1, b);
        total += cudaMemcpy(seen, out, sizeof seen, cudaMemcpyDeviceToHost) ? 1e9 : seen[3];
    }
    long zeros = 0, *fresh = (long *)malloc(256 << 10);
    for (int i = 0; i < (256 << 10) / 8; i++) zeros += fresh[i] == 0;
    printf("aligned: %g, fresh: %ld\n", total, zeros);

    int width, stack, pools;
    cudaDeviceProp properties;
    cudaGetDeviceProperties(&properties, 0);
    cudaDeviceGetAttribute(&width, cudaDevAttrMaxTexture2DWidth, 0);
    cudaDeviceGetAttribute(&pools, cudaDevAttrMemoryPoolsSupported, 0);
    cudaDeviceGetAttribute(&stack, cudaDevAttrComputeMode, 0);
    printf("attributes: %d %d %d\n", width == properties.maxTexture2D[0], pools, stack == cudaComputeModeDefault);

    cudaMemPool_t pool, own;
    unsigned long long kept = 1 << 20, told = 0;
    cudaDeviceGetDefaultMemPool(&pool, 0);
    cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &kept);
    cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &told);
    cudaMemPoolProps wanted = {cudaMemAllocationTypePinned, cudaMemHandleTypeNone, {cudaMemLocationTypeDevice, 0}};
    cudaMemPoolCreate(&own, &wanted);
    double *p;
    int failed = cudaMallocFromPoolAsync(&p, 64, own, 0);
    failed += cudaMemsetAsync(p, 0, 64, 0) + cudaFreeAsync(p, 0) + cudaMemPoolTrimTo(own, 0) + cudaMemPoolDestroy(own);
    printf("pools: %d %d %d\n", told == kept, failed, cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemHigh, &told));
}
"""


def test_memory_of_host_code_and_wide_parameters(program):
    ended = run_program(program(HOSTS))
    assert ended.stdout.splitlines() == [f"aligned: {20 * (2 * 28 + 8)}, fresh: {(256 << 10) // 8}",
                                         "attributes: 1 1 1", "pools: 1 0 801"]
    assert (ended.returncode, "does not count the memory of a pool" in ended.stderr) == (0, True)


OPENMP = r"""
#include <cstdio>
#include <omp.h>
__global__ void fill(int *x, int value) { x[threadIdx.x] = value; }
int main()
{
    int *x, sum = 0;
    cudaMallocManaged(&x, 4 * 32 * sizeof *x);
    #pragma omp parallel num_threads(4) reduction(+ : sum)
    {
        const int i = omp_get_thread_num();
        fill<<<1, 32>>>(x + 32 * i, i + 1);
        sum += cudaDeviceSynchronize() == cudaSuccess && omp_get_num_threads() == 4 ? x[32 * i + 31] : 100;
    }
    printf("%d\n", sum);
}
"""


@pytest.mark.parametrize("options", [["-fopenmp"], ["-Xcompiler", "-Wall,-fopenmp"], ["-Xcompiler=-fopenmp"]])
def test_threads_of_openmp_launch_kernels(program, options):
    path = program(OPENMP)
    other = path.with_name("other.cpp")
    other.write_text("#include <omp.h>\nint other() { return omp_get_thread_num(); }\n")
    for files in [], [str(other)]:
        ended = run_program(path, options=[*options, *files])
        assert (ended.returncode, ended.stdout) == (0, "10\n")


TEXTURE = r"""
#include <cstdio>
__global__ void slow(cudaTextureObject_t t, int *x)
{
    for (volatile int i = 0; i < 20000000; i++) ;
    *x = tex1Dfetch<int>(t, 3);
}
int main()
{
    int *x, *y;
    cudaMallocManaged(&x, 64), cudaMallocManaged(&y, 4);
    x[3] = 5;
    cudaResourceDesc resource = {cudaResourceTypeLinear};
    resource.res.linear = {x, cudaCreateChannelDesc<int>(), 64};
    cudaTextureDesc how = {};
    cudaTextureObject_t t;
    cudaCreateTextureObject(&t, &resource, &how, nullptr);
    slow<<<1, 1>>>(t, y);
    int failed = cudaDestroyTextureObject(t);
    failed += cudaDeviceSynchronize();
    printf("%d %d\n", failed, *y);
    slow<<<1, 1>>>(t, y);
    return cudaDeviceSynchronize() == cudaSuccess;
}
"""


def test_a_texture_may_be_destroyed_while_a_kernel_reads_it(program):
    ended = run_program(program(TEXTURE))
    assert (ended.returncode, ended.stdout) == (0, "0 5\n")
    assert "there is no such object" in ended.stderr


def test_a_c_plus_plus_file_may_define_what_cuda_has(program):
    path = program("int least(); int main() { return least() + umin(3u, 4u); }")
    other = path.with_name("other.cpp")
    other.write_text("static unsigned umin(unsigned a, unsigned b) { return a < b ? a : b; }\n"
                     "int least() { return umin(7u, 4u); }\n")
    assert run_program(path, options=[str(other)]).returncode == 7


CASTS = r"""
#include <cstdio>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
template <typename To, typename From>
__global__ void cast(To *to, const From *from) { to[threadIdx.x] = static_cast<To>(from[threadIdx.x]); }
template <typename To, typename From>
void print()
{
    From *from;
    To *to;
    cudaMallocManaged(&from, 4 * sizeof *from), cudaMallocManaged(&to, 4 * sizeof *to);
    const float values[4] = {2.5f, -1.75f, 1000.0f, NAN};
    for (int i = 0; i < 4; i++) from[i] = static_cast<From>(values[i]);
    cast<To, From><<<1, 4>>>(to, from);
    cudaDeviceSynchronize();
    for (int i = 0; i < 4; i++) printf("%g ", (float)to[i]);
    printf("\n");
}
int main()
{
    print<__half, __nv_bfloat16>();
    print<__nv_bfloat16, __half>();
    print<char, __nv_bfloat16>();
    print<signed char, __nv_bfloat16>();
    print<unsigned char, __nv_bfloat16>();
}
"""


def test_halves_bfloat16_and_characters_become_each_other(program):
    ended = run_program(program(CASTS))
    assert ended.stdout.splitlines() == [
        "2.5 -1.75 1000 nan ", "2.5 -1.75 1000 nan ", "2 -1 127 0 ", "2 -1 127 0 ", "2 0 255 0 "
    ]


def test_an_overload_of_a_kernel_may_be_declared_only(program):
    text = """#include <cstdio>
__global__ void fill(int *x, int n, int value);
__global__ void fill(int *x, int n) { if (threadIdx.x < n) x[threadIdx.x] = threadIdx.x; }
__global__ void twice(int *first, int n = 2);
__global__ void twice(int *x, int) { x[threadIdx.x] *= 2; }
int main()
{
    int *x;
    cudaMallocManaged(&x, 128);
    fill<<<1, 32>>>(x, 32);
    twice<<<1, 32>>>(x);
    cudaDeviceSynchronize();
    printf("%d", x[31]);
}
"""
    assert run_program(program(text)).stdout == "62"


def test_a_kernel_may_have_the_name_of_a_function_of_the_c_library(program):
    text = """#include <cstdio>
#include <cstdlib>
#include <unistd.h>
__global__ void write(int *x, int n) { if (threadIdx.x < n) x[threadIdx.x] = 2 * threadIdx.x; }
__global__ void div(int *x, int by)
{
    __shared__ int copy[32];
    copy[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    x[threadIdx.x] = copy[31 - threadIdx.x] / by;
}
template <class T> __global__ void remove(T *x) { x[threadIdx.x] -= 1; }
int main()
{
    int *x;
    cudaMallocManaged(&x, 128);
    write<<<1, 32>>>(x, 32);
    div<<<1, 32>>>(x, 2);
    remove<<<1, 32>>>(x);
    cudaDeviceSynchronize();
    printf("%d %d", x[0], div(7, 2).quot);
}
"""
    assert run_program(program(text)).stdout == "30 3"


def test_a_kernel_that_is_called_like_a_function_does_not_run(program):
    text = """#include <cstdio>
__global__ void set(int *x) { *x = 1; }
template <class T> __global__ void sum(T *x)
{
    __shared__ T copy[32];
    copy[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    if (threadIdx.x == 0) for (int i = 1; i < 32; i++) x[0] += copy[i];
}
template <class Kernel, class... A> void call(Kernel kernel, A... arguments) { kernel(arguments...); }
int main()
{
    int *x, result;
    cudaMalloc(&x, 128);
    cudaMemset(x, 1, 128);
    call(set, x);
    printf("%s, ", cudaGetErrorName(cudaGetLastError()));
    call(sum<int>, x);
    printf("%s, ", cudaGetErrorName(cudaGetLastError()));
    sum<<<1, 32>>>(x);
    cudaMemcpy(&result, x, 4, cudaMemcpyDeviceToHost);
    printf("%x", result);
}
"""
    ended = run_program(program(text))
    assert ended.stdout == f"{'cudaErrorMissingConfiguration, ' * 2}20202020"
    assert "kernel sum was called without <<<grid, block>>>: it did not run" in ended.stderr


def test_managed_memory_that_the_host_has_written_is_not_called_uninitialized(program):
    text = """__global__ void twice(int *x) { x[threadIdx.x] *= 2; }
int main() {
    int *x;
    cudaMallocManaged(&x, 128);
    for (int i = 0; i < 32; ++i) x[i] = 1;
    twice<<<1, 32>>>(x);
    return cudaDeviceSynchronize();
}
"""
    findings = sanitize_script(str(program(text)), tool="initcheck", engine="cpu", capture=True)
    assert findings.clean and findings.launches == 1


# What the host may do, and in `wrong` what it may not.
HOST = r"""
#include <cstdio>
#include <thread>
#include <vector>

__global__ void add(int *x, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] += i;
}

int main()
{
    const int n = 1 << 20;
    int *x, *managed, *pinned, *other;
    std::vector<int> y(n);
    cudaMalloc(&x, n * sizeof(int));
    cudaMallocManaged(&managed, 400);
    cudaMallocHost((void **)&pinned, 400);
    cudaMemset(x, 0, n * sizeof(int));
    for (int i = 0; i < 100; ++i) managed[i] = pinned[i] = 1;
    add<<<n / 256, 256>>>(x, n);
    add<<<1, 128>>>(managed, 100);
    add<<<1, 128>>>(pinned, 100);
    cudaDeviceSynchronize();
    %s
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
        threads.emplace_back([&, t] {
            cudaStream_t stream;
            cudaStreamCreate(&stream);
            for (int i = 0; i < 100; ++i) {
                int *own, one = 0;
                cudaMalloc(&own, 100 << t * 4);
                cudaMemset(own, 0, 100 << t * 4);
                add<<<1, 32, 0, stream>>>(own, 25);
                cudaStreamSynchronize(stream);
                cudaMemcpy(&one, own + 24, 4, cudaMemcpyDeviceToHost);
                if (one != 24) printf("%%d\n", one);
                cudaFree(own);
            }
        });
    for (auto &each : threads) each.join();
    for (int i = 0; i < 300; ++i) cudaMalloc(&other, 4096);
    add<<<1, 1024>>>(other, 1024);
    cudaMemcpy(y.data(), x, n * sizeof(int), cudaMemcpyDeviceToHost);
    long sum = 0;
    for (int each : y) sum += each;
    printf("%%d %%d %%ld %%s\n", managed[99], pinned[99], sum, cudaGetErrorString(cudaDeviceSynchronize()));
}
"""


@pytest.mark.parametrize(("wrong", "said"), [
    ("", ""),
    ("cudaMalloc(&x, 100); x[24] = 1;", "the host writes byte 96 of an allocation of 100 bytes from cudaMalloc"),
])
def test_the_host_cannot_access_memory_of_the_device(program, wrong, said):
    done = run_program(program(HOST % wrong))
    if said:
        assert said in done.stderr and "cudaMemcpy" in done.stderr
        assert done.returncode == -signal.SIGSEGV
    else:
        total = sum(range(1 << 20))
        assert (done.stdout, done.stderr, done.returncode) == (f"100 100 {total} no error\n", "", 0)


FAULTS = r"""
#include <cstdio>
#include <cstring>
#include <cstdlib>
#include <vector>
struct Node { Node *next; int value; };
static int sum(const int *x)
{
    int copy[4], total = 0;
    memcpy(copy, x, sizeof copy);                                        // 0
    for (int each : copy) total += each;
    return total;
}
int main(int count, char **arguments)
{
    int *x, which = atoi(arguments[1]);
    cudaMalloc(&x, 400);
    cudaMemset(x, 0, 400);
    Node *none = nullptr;
    if (which == 0) printf("%d", sum(x));
    if (which == 1) printf("%d", x[5]);                                  // 1
    if (which == 2) for (int i = 0; i < 100; ++i) x[i] = i;              // 2
    if (which == 3) printf("%s", (char *)x);                             // 3
    if (which == 4) none->value = 5;                                     // 4
    if (which == 5) printf("%d", 5 / (count - 2));                       // 5
    if (which == 6) printf("%d", *(int *)(0x7ff1234567890000 + which));  // 6
    if (which == 7) cudaMalloc((void **)&x[2], 16);                      // 7
    return 0;
}
"""


@pytest.mark.parametrize(("which", "said"), [*enumerate([
    "the host reads byte 0 of an allocation of 400 bytes from cudaMalloc", "the host reads byte 20 of an allocation",
    "the host writes byte 0 of an allocation", "the host reads byte 0 of an allocation",
    "the host writes 0x8, a null pointer", "the host divides an integer by zero",
    "the host uses a pointer to an address that does not exist", "the host writes byte 8 of an allocation",
])])
def test_a_fault_of_the_host_is_told_with_its_line(which, said, program):
    line = next(n for n, text in enumerate(FAULTS.splitlines(), 1) if text.endswith(f"// {which}"))
    path = program(FAULTS)
    done = run_program(path, str(which))
    assert said in done.stderr and done.stderr.endswith(f" ({path}:{line})\n")
    assert done.returncode == -(signal.SIGFPE if which == 5 else signal.SIGSEGV)


def test_a_fault_of_the_host_is_the_reason_of_a_verdict(program):
    path = program(FAULTS)
    verdict, reason = sanitize_script(str(path), ["4"], tool="memcheck", engine="cpu", capture=True).outcome
    assert verdict == "unsafe" and reason.endswith(f"the host writes 0x8, a null pointer ({path}:24)")


def test_nvccs_macros_are_defined(program):
    text = "#if !defined(__NVCC__) || !defined(__CUDACC__)\n#include <hip/hip_runtime.h>\n#endif\nint main() {}"
    assert run_program(program(text)).returncode == 0


def test_a_file_of_the_options_that_is_not_there(program):
    ended = run_program(program("int main() {}"), options=["none.cpp"])
    assert (ended.returncode, ended.stderr) == (1, "hostcuda: none.cpp, one of the options, is no file\n")


@pytest.mark.parametrize(("text", "said"), [
    ("__global__ void f() {}", "has no main"),
    ("int main() { cudaGraph_t g; cudaGraphCreate(&g, 0); }", "the CPU engine has no cudaGraph"),
    ("#include <thrust/sort.h>\nint main() {}", "the CPU engine has no header thrust/sort.h"),
    ("#include <cublasXt.h>\nint main() {}", "the CPU engine has no header cublasXt.h"),
    ("#include <cublasLt.h>\nint main() { cublasLtMatmulDesc_t d; }", "the CPU engine has no cublasLtMatmulDesc_t"),
    ("__global__ void g() {}\n__global__ void f() { g<<<1, 1>>>(); }\nint main() {}", "dynamic parallelism"),
    ("__global__ void f(int *x) {}\nint main() { f<<<1, 1>>>(2.5); }", "program.cu:2:"),
    ("int elsewhere(int x);\nint main() { return elsewhere(2); }", "elsewhere(int) is declared and used, but not "
     "defined in the source. If another file or a library defines it, name that: --options"),
])
def test_what_is_not_supported_is_named(program, text, said):
    ended = run_program(program(text))
    assert ended.returncode == 1
    assert said in ended.stderr


TEMPLATES = r"""
#include <cstdio>
#include <type_traits>
namespace ns {
template <typename T, int N> __global__ void __launch_bounds__(64) fill(T *x, T v) { x[threadIdx.x] = v * N; }
}
template <class T> __global__ void plain(T *x) { *x += 1; }
template <class T, bool Twice> __global__ void deduced(T *x, std::bool_constant<Twice>) { *x += Twice ? 200 : 100; }
struct Options { int a; };
__global__ void unnamed(float *, const Options, int = 3) {}
template <class F> __global__ void apply(float *x, int, F f) { *x = f(*x); }
template <class T> void inside(T *x)
{
    auto f = plain<T>;
    void *given[] = {&x};
    cudaLaunchKernel((const void *)f, 1, 1, given, 0, 0);
}
template <class Kernel, class... A> void call(Kernel f, A... a) { f<<<1, 1>>>(a...); }
int main()
{
    double *x, r[4], v = 2.5;
    float *y, s;
    cudaMalloc(&x, 32); cudaMalloc(&y, 4);
    auto f = ns::fill<double, 4>;
    void *given[] = {&x, &v};
    cudaLaunchKernel((const void *)f, dim3(1), dim3(4), given, 0, 0);
    void (*g)(double *) = &plain<double>;
    g<<<1, 1>>>(x); call(plain<double>, x); inside(x); deduced<<<dim3(1, 1), 1>>>(x, std::bool_constant<true>{});
    cudaMemcpy(r, x, 32, cudaMemcpyDefault);
    cudaFuncAttributes told;
    printf("%g %g %d\n", r[0], r[3], cudaFuncGetAttributes(&told, plain<short>));
    cudaMemset(y, 0, 4);
    call(plain<float>, y); unnamed<<<1, 1>>>(y, Options{2}); unnamed<<<1, 1>>>(y, {2}, 4);
    apply<<<1, 1>>>(y, 1, [] __device__(float v) { return v + 4; });
    cudaMemcpy(&s, y, 4, cudaMemcpyDefault);
    printf("%g %s %d\n", s, cudaGetErrorString(cudaGetLastError()),
           cudaFuncSetAttribute(f, cudaFuncAttributePreferredSharedMemoryCarveout, cudaSharedmemCarveoutMaxShared));
}
"""


def test_instances_of_templates_are_launched_by_pointer_and_by_deduction(program):
    ended = run_program(program(TEMPLATES))
    assert (ended.stdout.splitlines(), ended.stderr) == (["213 10 0", "5 no error 0"], "")


PRODUCTS = r"""
#include <cublas_v2.h>
#include <cublasLt.h>
#include <cstdio>
#include <cstdlib>
#include <vector>
template <class N, class Multiply> double worst(Multiply multiply)   // of integers: each product is exact
{
    const int m = 3, n = 5, k = 4, lda = 6, ldb = 7, ldc = 8;
    double most = 0;
    for (int turned = 0; turned < 4; turned++) {
        bool ta = turned & 1, tb = turned & 2;
        std::vector<N> a(lda * 4), b(ldb * 5), c(ldc * n), got(ldc * n);
        N *x, *y, *z;
        for (auto each : {&a, &b, &c}) for (N &value : *each) value = N(float(rand() % 9 - 4));
        cudaMalloc(&x, a.size() * sizeof(N));
        cudaMalloc(&y, b.size() * sizeof(N));
        cudaMalloc(&z, c.size() * sizeof(N));
        cudaMemcpy(x, a.data(), a.size() * sizeof(N), cudaMemcpyDefault);
        cudaMemcpy(y, b.data(), b.size() * sizeof(N), cudaMemcpyDefault);
        cudaMemcpy(z, c.data(), c.size() * sizeof(N), cudaMemcpyDefault);
        cublasHandle_t handle;
        cublasCreate(&handle);
        cublasOperation_t ways[] = {CUBLAS_OP_N, CUBLAS_OP_T};
        if (multiply(handle, ways[ta], ways[tb], m, n, k, x, lda, y, ldb, z, ldc)) return 1e9;
        cudaMemcpy(got.data(), z, c.size() * sizeof(N), cudaMemcpyDefault);
        for (int j = 0; j < n; j++)
            for (int i = 0; i < ldc; i++) {
                double want = float(c[j * ldc + i]);
                if (i < m) want *= 3;
                for (int l = 0; l < k * (i < m); l++) {
                    float of_a = ta ? a[i * lda + l] : a[l * lda + i];
                    want += 2 * of_a * float(tb ? b[l * ldb + j] : b[j * ldb + l]);
                }
                most = fmax(most, fabs(want - float(got[j * ldc + i])));
            }
        cublasDestroy(handle);
    }
    return most;
}
int main()
{
    cublasLtHandle_t light;
    cublasLtCreate(&light);
    auto single = [](auto handle, auto ta, auto tb, int m, int n, int k, auto x, int lda, auto y, int ldb, auto z,
                     int ldc) {
        float two = 2, three = 3;
        return cublasSgemm(handle, ta, tb, m, n, k, &two, x, lda, y, ldb, &three, z, ldc);
    };
    auto halves = [](auto handle, auto ta, auto tb, int m, int n, int k, auto x, int lda, auto y, int ldb, auto z,
                     int ldc) {
        float two = 2, three = 3;
        return cublasGemmEx(handle, ta, tb, m, n, k, &two, x, CUDA_R_16F, lda, y, CUDA_R_16F, ldb, &three, z,
                            CUDA_R_16F, ldc, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
    };
    printf("%g %g\n", worst<float>(single), worst<__half>(halves));
    float one = 1, *small;
    cudaMalloc(&small, 4);
    cublasHandle_t handle;
    cublasCreate(&handle);
    printf("%d %d\n", cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, 9, 9, 9, &one, small, 9, small, 9, &one, small, 9),
           cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, 9, 9, 9, &one, small, 8, small, 9, &one, small, 9));
}
"""


def test_cublas_multiplies_matrices(program):
    ended = run_program(program(PRODUCTS))
    assert ended.stdout.splitlines() == ["0 0", "13 7"]
    assert "its source has 4" in ended.stderr


def test_a_program_may_bring_its_own_cublas(program, tmp_path):
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "cublas_v2.h").write_text("static int cublasCreate() { return 7; }\n")
    path = program("#include <cublas_v2.h>\nint main() { return cublasCreate(); }\n")
    assert run_program(path, options=[f"-I{tmp_path / 'own'}"]).returncode == 7


REMEDIES = r"""
#include <vector>
__constant__ float m[9];
__device__ int n[2];
__global__ void k(float *y) { extern __shared__ float s[]; *y = s[0] = m[0] + n[0]; }
int main() {
    std::vector<float> a(9, 2);
    cudaMemcpy(m, a.data(), 36, cudaMemcpyHostToDevice);
    cudaMemcpy(a.data(), n, 8, cudaMemcpyDeviceToHost);
    k<<<1, 1, 65536>>>(a.data());
    void *p;
    cudaMalloc(&p, 1ll << 50);
}
"""


def test_remedies_are_in_the_programs_language(program):
    said = run_program(program(REMEDIES)).stderr
    for remedy in ("the variable m: if it is __constant__ or __device__, use cudaMemcpyToSymbol(m, ...)",
                   "use cudaMemcpyFromSymbol(..., n, ...)", "or cudaFree what",
                   "after cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes)"):
        assert remedy in said


HEAP = r"""
#include <cstdio>
__device__ int n;
__device__ char *all[1 << 20];
__global__ void fill(size_t bytes) { n = 0; while (char *p = (char *)malloc(bytes)) all[n++] = p; }
__global__ void empty() { for (int i = 0; i < n; i++) free(all[i]); }
__global__ void churn() { for (int i = 0; i < 20; i++) { int *p = new int[1000]; if (!p) __trap(); delete[] p; } }
int main()
{
    int count;
    size_t limit;
    for (size_t bytes : {1 << 20, 1 << 10}) {
        fill<<<1, 1>>>(bytes); cudaMemcpyFromSymbol(&count, n, 4); printf("%d ", count);
        empty<<<1, 1>>>(); churn<<<16, 32>>>();
    }
    cudaDeviceSetLimit(cudaLimitMallocHeapSize, 24 << 20);
    fill<<<1, 1>>>(1 << 20); cudaMemcpyFromSymbol(&count, n, 4);
    cudaDeviceGetLimit(&limit, cudaLimitMallocHeapSize);
    printf("%d %zu %s\n", count, limit >> 20, cudaGetErrorString(cudaDeviceSynchronize()));
}
"""


@pytest.mark.parametrize("tools", ["", "memcheck"])
def test_kernels_allocate_up_to_the_limit_of_their_heap(program, monkeypatch, tools):
    monkeypatch.setenv("HOSTCUDA_CHECK", tools)
    assert run_program(program(HEAP)).stdout == "8 8192 24 24 no error\n"


def test_a_program_gets_as_much_memory_as_the_variable_says(program, monkeypatch):
    monkeypatch.setenv("HOSTCUDA_MEMORY_MB", "100")
    calls = "".join(f"for (n = 0; !{call}; n++); printf(\"%d \", n);" for call in (
        "cudaMalloc(&p, 16 << 20)", "cudaMallocManaged(&p, 16 << 20)", "cudaMallocHost(&p, 16 << 20)"))
    ended = run_program(program(f"#include <cstdio>\nint main() {{ void *p; int n; {calls} }}"))
    assert ended.stdout == "6 0 6 ", ended.stderr
    assert "out of memory: 16.0 MiB requested, 4.0 MiB of 100.0 MiB free" in ended.stderr


def test_a_file_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(EngineError, match=r"no program .*none\.cu"):
        child.program(str(tmp_path / "none.cu"), (), "cpu")


def test_run_hands_on_arguments_and_status(tmp_path):
    command = [sys.executable, "-m", "hostcuda", "run", "--engine", "cpu", str(EVERYTHING), "one"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (3, PRINTED)


@pytest.mark.parametrize(("launch", "new"), [
    ("k<<<1, 2>>>(x)", "hostcuda::launch<decltype(hostcuda_pick_k(x))>(hostcuda::Config(1, 2))(x)"),
    ("k < 3, f<(2)> > <<< g(1), b >>> (x)",
     "hostcuda::launch<decltype(hostcuda_pick_k < 3, f<(2)> >(x))>(hostcuda::Config(g(1), b))(x)"),
    (
        "a::k<<<1, 2>>>(x >> 1)",
        "hostcuda::launch<decltype(a::hostcuda_pick_k(x >> 1))>(hostcuda::Config(1, 2))(x >> 1)",
    ),
    (
        "if (n) k<<<n >> 1, 2>>>(x)",
        "if (n) hostcuda::launch<decltype(hostcuda_pick_k(x))>(hostcuda::Config(n >> 1, 2))(x)",
    ),
    ("(*p)<<<1, 2>>>(x)", "hostcuda::launch_pointer((*p), hostcuda::Config(1, 2))(x)"),
    ("table[i].f<<<1, 2>>>(x)", "hostcuda::launch_pointer(table[i].f, hostcuda::Config(1, 2))(x)"),
    ("d<<<1, 2, 0, 0>>>()", "hostcuda_call_d(hostcuda::Config(1, 2, 0, 0))"),
    ("d<<<1, 2>>>(x)", "hostcuda_call_d(hostcuda::Config(1, 2), x)"),
    ("l<<<1, 2>>>(3, [=] { f(x); })", "hostcuda_call_l(hostcuda::Config(1, 2), 3, [=] { f(x); })"),
    ("k<<<1, 2>>>(T{})", "hostcuda::launch<decltype(hostcuda_pick_k(T{}))>(hostcuda::Config(1, 2))(T{})"),
    ("k<<<1, 2>>>(x[1])", "hostcuda::launch<decltype(hostcuda_pick_k(x[1]))>(hostcuda::Config(1, 2))(x[1])"),
    ("cout <<< 3", "cout <<< 3"),
])
def test_launches_are_rewritten(launch, new):
    kernels = "__global__ void k(int); __global__ void d(int n=3); template <class F> __global__ void l(int n, F f) {}"
    text = f"{kernels}\nint main() {{ {launch}; }}\n"
    assert rewrite(text, names=Names()).text.splitlines()[1] == f"int main() {{ {new}; }}"


def test_lines_stay_where_they_are():
    text = EVERYTHING.read_text()
    assert rewrite(text, names=Names()).text.count("\n") == text.count("\n")


SHARED = """#pragma once
#include <cstdio>
void other(int *x);
__global__ void everywhere(int *x);
extern __device__ int total;
extern __constant__ int factor[2];
__device__ int far(int v);
"""
FIRST = """#include "shared.h"
#define N 3
static __global__ void step(int *x) { __shared__ int s[8]; s[0] = N; *x += s[0]; }
static int count() { return 100; }
OWN
template <class T> __global__ void typed(T *x) { *x += sizeof(T); }
__device__ int total;
__constant__ int factor[2];
__device__ int far(int v) { return v * factor[1]; }
int main() {
    int *x, value, host[2] = {5, 6};
    cudaMallocManaged(&x, 4);
    *x = 0;
    step<<<1, 1>>>(x); cudaDeviceSynchronize(); printf("%d\\n", *x);
    other(x); cudaDeviceSynchronize(); printf("%d %d\\n", *x, count());
    typed<<<1, 1>>>(x); typed<<<1, 1>>>((char *)x); cudaDeviceSynchronize(); printf("%d\\n", *x);
    cudaMemcpyToSymbol(factor, host, sizeof host);
    everywhere<<<1, 1>>>(x);
    cudaMemcpyFromSymbol(&value, total, 4);
    printf("%d %d\\n", *x, value);
}
"""
SECOND = """#include "shared.h"
#define N 40
static __global__ void step(int *x) { *x += N; }
static int count() { return 1; }
OWN
template <class T> __global__ void typed(T *x, int n) { *x += n; }
__global__ void everywhere(int *x) { *x = far(10); total = factor[0]; }
void other(int *x) {
    step<<<1, 1>>>(x); typed<<<1, 1>>>(x, 200); added<<<1, 1>>>(x); cudaDeviceSynchronize(); *x += count();
}
"""


@pytest.fixture
def two_files(tmp_path):
    """Return a function that writes a program's two files; OWN in each becomes its own text. It returns the paths."""

    def write(own, others_own):
        (tmp_path / "shared.h").write_text(SHARED)
        (tmp_path / "other.cu").write_text(SECOND.replace("OWN", others_own))
        (tmp_path / "first.cu").write_text(FIRST.replace("OWN", own))
        return tmp_path / "first.cu", str(tmp_path / "other.cu")

    return write


OWN = "__device__ int own = {0}; __device__ int helper() {{ return {0}; }}\n"
ADDED = "__global__ void added(int *x) { *x += helper() + own; }"


def test_each_file_is_compiled_by_itself(two_files):
    path, other = two_files(OWN.format(7), OWN.format(1000) + ADDED)
    ended = run_program(path, options=[other])
    assert ended.stdout.splitlines() == ["3", "2244 100", "2249", "60 5"]
    assert (ended.returncode, ended.stderr) == (0, "")
    findings = sanitize_script(str(path), (), "memcheck", "cpu", capture=True, options=[other])
    assert findings.table.empty
    profile = profile_script(str(path), (), "cpu", capture=True, nvcc=False, options=[other])
    assert profile.value("global_store_requests", "added") == 1


def test_linked_device_code_has_each_name_once(two_files):
    path, other = two_files("", OWN.format(1000) + ADDED)
    assert run_program(path, options=["-rdc=true", other]).stdout.splitlines()[1] == "2244 100"
    path, other = two_files(OWN.format(7), OWN.format(1000) + ADDED)
    assert "multiple definition of `own'" in run_program(path, options=["-rdc=true", other]).stderr


def test_an_error_in_another_file_has_its_line(two_files):
    path, other = two_files("", OWN.format(1) + ADDED + "\nint wrong = nowhere;")
    assert f"{other}:7:13: error: " in run_program(path, options=[other]).stderr


def test_a_file_in_cpp_without_cudas_headers_is_plain_cpp(tmp_path):
    """It may define what CUDA files have built in; its exit() ends the program as theirs does."""
    path, other = tmp_path / "first.cu", tmp_path / "other.cpp"
    path.write_text('#include <cstdio>\nvoid leave(int);\n__global__ void f() { printf("kernel\\n"); }\n'
                    "int main() { f<<<1, 1>>>(); leave(7); }\n")
    other.write_text("#include <cstdlib>\nstruct float4 { char a; };\n"
                     "static unsigned umin(unsigned a, unsigned b) { return a < b ? a : b; }\n"
                     "void leave(int n) { std::exit(umin(n, 5) + sizeof(float4)); }\n")
    ended = run_program(path, options=[str(other)])
    assert (ended.returncode, ended.stdout) == (6, "kernel\n")
