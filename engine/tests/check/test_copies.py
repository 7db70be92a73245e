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
    while (cudaEventQuery(event)) ;
    managed[5]++;
    printf("%d", sum);
}
"""


def test_the_host_goes_on_before_the_device_has_ended(tmp_path):
    path = tmp_path / "ahead.cu"
    path.write_text(AHEAD)
    findings = sanitize_script(str(path), tool="racecheck", engine="cpu", capture=True)
    wrong = [n for n, line in enumerate(AHEAD.splitlines(), 1) if line.endswith("// found")]
    assert list(findings.table["line"]) == wrong and set(findings.table["kind"]) == {"race"}, findings
    said = ("reads what kernel fill writes", "writes what kernel add reads", "reads what cudaMemcpyAsync writes",
            "writes what cudaMemcpyAsync reads")
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
