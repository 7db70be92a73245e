"""What the host copies although nothing has set it: initcheck at the line of the copy."""

import pytest

from hostcuda.sanitize import sanitize_script

pytestmark = pytest.mark.thorough("breadth of check mode: a module compiled per case")

PROGRAM = """#include <cstdio>
#include <cstdlib>
#include <vector>
__global__ void fill(float *y, int first, int end) {
    int i = first + blockIdx.x * blockDim.x + threadIdx.x;
    if (i < end) y[i] = i;
}
struct Item { double value; int count; };
__global__ void items(Item *y) { y[threadIdx.x].value = 1; y[threadIdx.x].count = 2; }
struct Shape { __device__ virtual float area() const { return 1; } };
struct Square : Shape { float side; __device__ float area() const override { return side * side; } };
__global__ void shapes(float *y, cudaSurfaceObject_t surface) {
    Square *square = new Square;
    square->side = threadIdx.x;
    Shape *shape = square;
    y[threadIdx.x] = shape->area();
    surf2Dwrite(y[threadIdx.x], surface, threadIdx.x * 4, 0);
    delete square;
}
void sum_rows(float *d, float *h, float &sum) {
    cudaArray_t array;
    cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
    cudaMallocArray(&array, &format, 32, 1, cudaArraySurfaceLoadStore);
    cudaResourceDesc resource = {};
    resource.res.array.array = array;
    cudaSurfaceObject_t surface;
    cudaCreateSurfaceObject(&surface, &resource);
    shapes<<<1, 32>>>(d, surface);
    cudaMemcpy2DFromArray(h, 128, array, 0, 0, 128, 1, cudaMemcpyDeviceToHost);
    for (int i = 0; i < 32; i++) sum += h[i];
}
int main(int, char **words) {
    int n = 1000, way = atoi(words[1]);
    float *d, *copy, sum = 0;
    Item *s;
    cudaMalloc(&d, n * 4);
    cudaMalloc(&copy, n * 4);
    cudaMalloc(&s, 32 * sizeof(Item));
    std::vector<float> h(n);
    std::vector<Item> list(32);
    if (way == 0) fill<<<n / 256, 256>>>(d, 0, n);                    // a block too few
    if (way == 1 || way == 2) fill<<<4, 256>>>(d, 1, n - 1);          // an interior
    if (way == 3) cudaMemset(d, 0, n), fill<<<1, 32>>>(d, 0, 32);     // a quarter, in bytes
    if (way == 4 || way == 6) items<<<1, 32>>>(s);                    // 6: d is as it was allocated
    if (way == 5) fill<<<4, 256>>>(d, 0, n);
    if (way == 8) {
        sum_rows(d, h.data(), sum);
    } else if (way == 7) {
        fill<<<1, 32>>>(d, 0, 32);
        cudaMemcpy2D(h.data(), 200, d, 200, 200, 20, cudaMemcpyDeviceToHost);
        for (int i = 0; i < n; i++) sum += h[i];
    } else if (way == 4) {
        cudaMemcpy(list.data(), s, 32 * sizeof(Item), cudaMemcpyDeviceToHost);
        for (Item &each : list) sum += each.value + each.count;
    } else {
        cudaMemcpy(copy, d, n * 4, cudaMemcpyDeviceToDevice);
        cudaMemcpy(h.data(), copy, n * 4, cudaMemcpyDeviceToHost);
        for (int i = way == 1; i < n - (way == 1); i++) sum += h[i];
    }
    printf("%g\\n", sum);
}
"""
CALLS = {call: next(n for n, line in enumerate(PROGRAM.splitlines(), 1) if line.strip().startswith(start))
         for call, start in (("cudaMemcpy", "cudaMemcpy(h"), ("cudaMemcpy2D", "cudaMemcpy2D("))}
SCRIPT = """
import numpy as np
import hostcuda.autoinit
import hostcuda.driver as cuda
from hostcuda.compiler import SourceModule
source = "__global__ void f(float *y, int n) { int i = blockIdx.x * 256 + threadIdx.x; if (i < n) y[i] = 1; }"
double = SourceModule(source).get_function("f")
y = np.zeros(1000, np.float32)
double(cuda.Out(y), np.int32(1000), block=(256, 1, 1), grid=(3, 1))
double(cuda.Out(y), np.int32(1000), block=(256, 1, 1), grid=(4, 1))
"""

AHEAD = """#include <cstdio>
#include <cstring>
#include <vector>
__global__ void fill(int *x, int n) { if (threadIdx.x < n) x[threadIdx.x] = threadIdx.x + 7; }
__global__ void add(const int *x, int *y, int n) { if (threadIdx.x < n) atomicAdd(y, x[threadIdx.x]); }
__global__ void raise(volatile int *flag) { *flag = 1; }
__global__ void announce(int *x, volatile int *flag) { *x = 3; __threadfence_system(); *flag = 1; }
int main() {
    int *managed, *pinned, *d, sum = 0, first;
    volatile int *flag;
    cudaMallocManaged(&managed, 256);
    cudaMallocManaged((void **)&flag, 4);
    cudaMallocHost(&pinned, 256);
    cudaMalloc(&d, 256);
    cudaEvent_t event;
    cudaEventCreate(&event);
    std::vector<int> pageable(64);
    fill<<<1, 32>>>(managed, 32);
    if (cudaGetLastError()) return 1;
    sum += managed[40];
    sum += managed[3];                                                     // found
    cudaDeviceSynchronize();
    sum += managed[4];
    add<<<1, 32>>>(managed, d, 16);
    sum += managed[2] + managed[20];
    managed[20] = 1;
    managed[2] = 3;                                                        // found
    cudaStreamSynchronize(0);
    raise<<<1, 1>>>((int *)flag);
    while (!*flag) ;
    fill<<<1, 32>>>(d, 32);
    cudaMemcpyAsync(pinned, d, 128, cudaMemcpyDeviceToHost);
    pinned[40] = 1;
    memcpy(&first, pinned, 4);                                             // found
    sum += first;
    cudaMemcpyAsync(d, pinned, 256, cudaMemcpyHostToDevice);
    sum += pinned[1];
    cudaEventRecord(event);
    for (int i = 5; i < 8; i++) pinned[i] = i;                             // found
    cudaEventSynchronize(event);
    pinned[6] = 6;
    cudaMemcpyAsync(pageable.data(), d, 256, cudaMemcpyDeviceToHost);
    sum += pageable[2];
    fill<<<1, 32>>>(managed, 16);
    cudaEventRecord(event);
    while (cudaEventQuery(event)) ;
    managed[5]++;
    cudaStream_t other;
    cudaStreamCreate(&other);
    fill<<<1, 32>>>(managed, 32);
    cudaStreamSynchronize(other);
    fill<<<1, 1>>>(managed + 40, 1);
    cudaStreamSynchronize(0);
    sum += managed[1];
    fill<<<1, 32>>>(pinned, 32);                                           // page-locked memory that a kernel uses
    sum += pinned[40];
    sum += pinned[7];                                                      // found
    cudaDeviceSynchronize();
    announce<<<1, 1>>>(pinned + 1, pinned);
    while (!*(volatile int *)pinned) ;
    sum += pinned[1];
    cudaDeviceSynchronize();
    announce<<<1, 1>>>(pinned + 3, pinned + 2);
    while (!__atomic_load_n(pinned + 2, __ATOMIC_ACQUIRE)) ;
    sum += pinned[3];
    cudaEventRecord(event);
    fill<<<1, 32, 0, other>>>(managed, 32);
    cudaEventSynchronize(event);
    sum += managed[9];                                                     // found
    printf("%d", sum);
}
"""

# Each case is a block of main; those with marks are wrong: the second one is the line, the first one the other.
STREAMS = """#include <cstdio>
__device__ int total;
__device__ volatile int ready;
__global__ void fill(int *x) { x[threadIdx.x] = 2 * threadIdx.x + 5; }
__global__ void add(const int *x, int *y) { y[threadIdx.x] = x[threadIdx.x] + 1; }
__global__ void twice(int *x) { x[threadIdx.x] *= 2; }
__global__ void odd(char *x) { x[2 * threadIdx.x + 1] = 1; }
__global__ void even(char *x) { x[2 * threadIdx.x] = 1; }
__global__ void count() { atomicAdd(&total, 1); }
__global__ void send(int *x) { *x = 4; __threadfence(); ready = 1; }
__global__ void take(int *x) { while (!ready) {} __threadfence(); x[1] = x[0]; }
int main() {
    int *a, *b, *h;
    cudaMalloc(&a, 128);
    cudaMalloc(&b, 128);
    cudaMallocHost(&h, 128);
    cudaStream_t s, t, apart;
    cudaStreamCreate(&s);
    cudaStreamCreateWithFlags(&t, 0);
    cudaStreamCreateWithFlags(&apart, cudaStreamNonBlocking);
    cudaEvent_t event, never;
    cudaEventCreate(&event);
    cudaEventCreate(&never);
    cudaMemset(a, 0, 128);
    cudaDeviceSynchronize();
    {
        fill<<<1, 32, 0, s>>>(a);                                          // first
        add<<<1, 32, 0, t>>>(a, b);                                        // found
        cudaDeviceSynchronize();
    } {
        add<<<1, 32, 0, s>>>(a, b);                                        // first
        cudaMemsetAsync(a, 0, 128, t);                                     // found
        cudaDeviceSynchronize();
    } {
        cudaMemcpyAsync(a, h, 128, cudaMemcpyHostToDevice, s);             // first
        twice<<<1, 32, 0, t>>>(a);                                         // found
        cudaDeviceSynchronize();
    } {
        fill<<<1, 32>>>(a);                                                // first
        twice<<<1, 32, 0, apart>>>(a);                                     // found
        cudaDeviceSynchronize();
    } {
        cudaStreamWaitEvent(t, never, 0);
        fill<<<1, 32, 0, s>>>(b);                                          // first
        cudaEventRecord(never, s);
        twice<<<1, 32, 0, t>>>(b);                                         // found
        cudaDeviceSynchronize();
    } {
        fill<<<1, 32, 0, s>>>(a);                                          // first
        cudaStreamSynchronize(t);
        cudaMemcpyAsync(h, a, 128, cudaMemcpyDeviceToHost, t);             // found
        cudaDeviceSynchronize();
    } {
        fill<<<1, 32, 0, s>>>(a);
        cudaEventRecord(event, s);
        cudaStreamWaitEvent(apart, event, 0);
        add<<<1, 32, 0, apart>>>(a, b);
        cudaStreamSynchronize(apart);
        add<<<1, 32, 0, t>>>(b, a);
        twice<<<1, 32>>>(a);
        add<<<1, 32, 0, s>>>(a, b);
        cudaDeviceSynchronize();
    } {
        odd<<<1, 32, 0, s>>>((char *)a);
        even<<<1, 32, 0, t>>>((char *)a);
        fill<<<1, 32, 0, s>>>(b);
        fill<<<1, 32, 0, t>>>(b);
        cudaDeviceSynchronize();
    } {
        count<<<1, 32, 0, s>>>();
        count<<<1, 32, 0, t>>>();
        add<<<1, 32, 0, s>>>(a, b);
        cudaMemcpyAsync(h, a, 128, cudaMemcpyDeviceToHost, t);
        cudaEventRecord(event, t);
        cudaEventSynchronize(event);
        twice<<<1, 32, 0, t>>>((int *)h);
        cudaDeviceSynchronize();
    } {
        send<<<1, 1, 0, s>>>(a);
        take<<<1, 1, 0, t>>>(a);
        cudaDeviceSynchronize();
    } {
        fill<<<1, 32, 0, s>>>(a);
        void *more;
        cudaMalloc(&more, 16);
        add<<<1, 32, 0, t>>>(a, b);
        cudaDeviceSynchronize();
    } {
        int *own, *other;
        cudaMallocAsync(&own, 128, s);
        cudaMallocAsync(&other, 128, s);
        fill<<<1, 32, 0, s>>>(own);
        cudaFreeAsync(own, s);
        fill<<<1, 32, 0, t>>>(other);  // first
        cudaFreeAsync(other, s);       // found
    }
    return cudaDeviceSynchronize();
}
"""
OF_PYTHON = """
import numpy as np
import hostcuda.autoinit
import hostcuda.driver as cuda
from hostcuda.compiler import SourceModule
twice = SourceModule("__global__ void f(float *y) { y[threadIdx.x] *= 2; }").get_function("f")
d, event, (s, t) = cuda.to_device(np.zeros(32, np.float32)), cuda.Event(), (cuda.Stream(), cuda.Stream())
cuda.Context.synchronize()
twice(d, block=(32, 1, 1), stream=s)
event.record(s)
t.wait_for_event(event)
twice(d, block=(32, 1, 1), stream=t)
cuda.Context.synchronize()
cuda.memset_d32(d, 0x3f800000, 32)
cuda.Context.synchronize()
twice(d, block=(32, 1, 1), stream=s)
twice(d, block=(32, 1, 1), stream=t)
cuda.Context.synchronize()
"""


def test_streams_use_the_same_memory_without_an_order(tmp_path):
    path = tmp_path / "streams.cu"
    path.write_text(STREAMS)
    findings = sanitize_script(str(path), tool="racecheck", engine="cpu", capture=True)
    first, second = ([n for n, line in enumerate(STREAMS.splitlines(), 1) if line.endswith(f"// {mark}")]
                     for mark in ("first", "found"))
    assert [(row["other"]["line"], row["line"]) for row in findings.table.to_dict("records")] == [
        *zip(first, second, strict=True)], findings
    assert set(findings.table["kind"]) == {"race between streams"} and findings.ended.status == 0
    said = findings.table["message"]
    assert "kernel add in a stream reads what kernel fill in a stream writes: byte 0 of the allocation" in said[0]
    assert "cudaMemsetAsync in a stream writes what kernel add in a stream reads" in said[1]
    assert "in a non-blocking stream" in said[3] and "in the default stream" in said[3]
    assert "cudaFreeAsync in a stream frees what kernel fill in a stream writes" in said.iloc[-1]
    assert all("cudaStreamWaitEvent" in sentence for sentence in said)


def test_streams_of_a_python_program(tmp_path):
    path = tmp_path / "streams.py"
    path.write_text(OF_PYTHON)
    findings = sanitize_script(str(path), tool="racecheck", engine="cpu", capture=True)
    (row,) = findings.table.to_dict("records")
    assert (row["line"], row["other"]["line"], row["file"]) == (17, 16, str(path)), findings


def test_the_host_goes_on_before_the_device_has_ended(tmp_path):
    path = tmp_path / "ahead.cu"
    path.write_text(AHEAD)
    findings = sanitize_script(str(path), tool="racecheck", engine="cpu", capture=True)
    wrong = [n for n, line in enumerate(AHEAD.splitlines(), 1) if line.endswith("// found")]
    assert list(findings.table["line"]) == wrong and set(findings.table["kind"]) == {"race"}, findings
    said = ("reads what kernel fill writes", "writes what kernel add reads", "reads what cudaMemcpyAsync writes",
            "writes what cudaMemcpyAsync reads", "reads what kernel fill writes", "reads what kernel fill writes")
    for message, what in zip(findings.table["message"], said, strict=True):
        assert what in message and "cudaDeviceSynchronize" in message


@pytest.mark.parametrize(("way", "first"), [
    (0, "nothing has set 928: the first is in element 768, of 4 bytes"),
    (1, ""),
    (2, "nothing has set 8: the first is in element 0, of 4 bytes"),
    (3, "nothing has set 3000: the first is in element 250, of 4 bytes"),
    (6, "nothing has set 4000: the first is in element 0, of 1 byte"),
    (4, ""),
    (5, ""),
    (7, "nothing has set 72: the first is in element 32, of 4 bytes"),
    (8, ""),
])
def test_a_copy_of_what_nothing_has_set_is_found_if_the_host_uses_it(tmp_path, way, first):
    path = tmp_path / "copies.cu"
    path.write_text(PROGRAM)
    findings = sanitize_script(str(path), [str(way)], tool="initcheck", engine="cpu", capture=True)
    rows = [(row["kernel"], row["line"]) for row in findings.table.to_dict("records")]
    assert rows == ([(call := "cudaMemcpy2D" if way == 7 else "cudaMemcpy", CALLS[call])] if first else []), findings
    assert first in "".join(findings.table["message"]) and findings.launches == 1


def test_a_python_program_s_copy_is_found(tmp_path):
    path = tmp_path / "copies.py"
    path.write_text(SCRIPT)
    findings = sanitize_script(str(path), tool="initcheck", engine="cpu", capture=True)
    (row,) = findings.table.to_dict("records")
    assert (row["tool"], row["file"], row["line"]) == ("initcheck", str(path), 9)
    assert "nothing has set 928" in row["message"] and findings.launches == 2


CUBLAS = """#include <cublas_v2.h>
int main() {
    float *a, *c, one = 1, none = 0;
    cudaMalloc(&a, 64);
    cudaMalloc(&c, 64);
    cublasHandle_t handle;
    cublasCreate(&handle);
    return cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, 4, 4, 4, &one, a, 4, a, 4, &none, c, 4);
}
"""


def test_a_product_of_cublas_is_named_where_it_reads_what_nothing_has_set(tmp_path):
    path = tmp_path / "product.cu"
    path.write_text(CUBLAS)
    findings = sanitize_script(str(path), tool="initcheck", engine="cpu", capture=True)
    (row,) = findings.table.to_dict("records")
    assert (row["kernel"], row["line"]) == ("cudaMemcpy2DAsync of a cuBLAS product", 8), findings
