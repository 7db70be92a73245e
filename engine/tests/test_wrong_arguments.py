"""Whole programs whose arguments are wrong: CUDA's error numbers and a sentence, not the end of the process."""

from pathlib import Path

import pytest
from running import run_program

pytestmark = pytest.mark.thorough("breadth of CUDA's API")

PROGRAMS = Path(__file__).parent / "programs"


def test_no_wrong_argument_ends_the_process():
    done = run_program(PROGRAMS / "wrong_arguments.cu")
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.splitlines() == [
        "accepted: 0",
        "cudaErrorMemoryAllocation",
        "cudaErrorInvalidValue",
        "goes on: 63, no error",
    ]
    assert "Traceback" not in done.stderr
    assert all(line.startswith("hostcuda: ") for line in done.stderr.splitlines())


COPIES = """
    std::vector<float> host(50);
    float *device;
    cudaMalloc(&device, 256);
    printf("%d ", cudaMemcpy(device, host.data(), COUNT * 4, cudaMemcpyHostToDevice));
    printf("%d ", cudaMemcpy(host.data(), device, COUNT * 4, cudaMemcpyDeviceToHost));
"""
OTHER_POINTERS = """
    std::vector<float> host(64);
    float *device, *pinned, *managed, *mapped;
    cudaMalloc(&device, 256); cudaMallocHost(&pinned, 256); cudaMallocManaged(&managed, 256);
    cudaHostRegister(host.data(), 256, 0); cudaHostGetDevicePointer(&mapped, host.data(), 0);
    for (float *x : {device, pinned, managed, mapped}) fill<<<1, 64>>>(device + 64, x, (size_t)&host);
"""
SYMBOLS = """
    static __device__ float there[4];
    float *pointer, four[4] = {};
    printf("%d ", cudaMemcpyToSymbol(there, four, 16));
    printf("%d ", cudaMemcpyToSymbol("there", four, 16));
    printf("%d ", cudaMemcpyToSymbol("there, by its name in quotes", four, 16));
    printf("%d ", cudaMemcpyToSymbol(pointer, four, 8));
"""
PRODUCT = """
    float *device, one = 1, zero = 0;
    cudaMalloc(&device, 32 * 64 * 4); cudaMemset(device, 0, 32 * 64 * 4);
    cublasHandle_t handle;
    cublasCreate(&handle);
    for (int ldc : {32, 64})
        printf("%d ", cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, 32, 64, 16, &one, device, 32,
                                  device, 16, &zero, device, ldc));
"""
EARLY = """
    cudaEvent_t first, last;
    cudaEventCreate(&first); cudaEventCreate(&last);
    float *device, ms;
    cudaMalloc(&device, 256);
    cudaEventRecord(first); wait<<<1, 1>>>(device); cudaEventRecord(last);
    printf("%d ", cudaEventElapsedTime(&ms, first, last));
"""
LAUNCHES = "for (int i = 0; i < 2; i++) fill<<<1, 64>>>(nullptr, x, 1);"
OF_HOST = {"hostcuda: kernel fill: ": 1, "`float *x`": 1, "a pointer to memory of the host": 1}


@pytest.mark.parametrize(
    ("body", "printed", "words"),
    [
        (f"std::vector<float> host(64); float *x = host.data(); {LAUNCHES}", "", OF_HOST),
        (f"float host[64], *x = host; {LAUNCHES}", "", OF_HOST),
        (OTHER_POINTERS, "", {}),
        (COPIES.replace("COUNT", "50"), "0 0 ", {}),
        (
            COPIES.replace("COUNT", "64"),
            "0 1 ",
            {
                "hostcuda: cudaMemcpy: its source has 200 bytes, from malloc or new, and 256 were asked for": 1,
                "cudaMemcpy failed: its destination has 200 bytes": 2,
            },
        ),  # again at the end
        (
            SYMBOLS,
            "0 13 13 13 ",
            {"hostcuda: cudaMemcpyToSymbol failed: its symbol is no __device__ or __constant__": 3},
        ),
        (
            PRODUCT,
            "0 13 ",
            {"the cuBLAS product failed: C needs 16256 bytes": 2, "ldc is its number of rows": 2},
        ),
        (
            EARLY,
            "600 ",
            {"cudaEventElapsedTime failed: the event is not reached yet: wait with": 1},
        ),
    ],
    ids=[
        "vector",
        "stack",
        "other pointers",
        "copies that fit",
        "copies that do not",
        "symbols",
        "a leading dimension that is too large",
        "an event that is asked too early",
    ],
)
def test_a_wrong_argument(write_program, body, printed, words):
    path = write_program(
        "#include <cstdio>\n#include <cstdlib>\n#include <cublas_v2.h>\n#include <vector>\n"
        "__global__ void wait(float *x) {"
        " float v = 1; for (int i = 0; i < 100000000; i++) v = v * 0.5f + 1; *x = v; }\n"
        "__global__ void fill(const float *unused, float *x, size_t number) { x[threadIdx.x] = number; }\n"
        f"int main()\n{{\n{body}\n    return cudaDeviceSynchronize();\n}}\n"
    )
    done = run_program(path)
    assert (done.stdout, done.returncode) == (printed, 0), done.stderr
    assert {sentence: done.stderr.count(sentence) for sentence in words} == words and bool(
        words
    ) == bool(done.stderr)
