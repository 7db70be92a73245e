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
        "accepted: 0", "cudaErrorMemoryAllocation", "cudaErrorInvalidValue", "goes on: 63, no error",
    ]
    assert "Traceback" not in done.stderr
    assert all(line.startswith("hostcuda: ") for line in done.stderr.splitlines())


@pytest.fixture
def main(tmp_path):
    def compiled(body):
        path = tmp_path / "program.cu"
        path.write_text(
            "#include <cstdio>\n#include <cstdlib>\n#include <vector>\n"
            "__global__ void fill(const float *unused, float *x, size_t number) { x[threadIdx.x] = number; }\n"
            f"int main()\n{{\n{body}\n    return cudaDeviceSynchronize();\n}}\n"
        )
        return run_program(path)

    return compiled


@pytest.mark.parametrize("array", ["std::vector<float> host(64); float *x = host.data()", "float host[64], *x = host"])
def test_a_kernel_is_given_a_pointer_of_the_host(main, array):
    done = main(f"    {array};\n    for (int i = 0; i < 2; i++) fill<<<1, 64>>>(nullptr, x, 1);")
    assert done.stderr.count("hostcuda: kernel fill: ") == 1 and "`float *x`" in done.stderr
    assert "a pointer to memory of the host" in done.stderr and done.returncode == 0


def test_other_pointers_and_numbers_are_not_told_of(main):
    done = main(
        """
    std::vector<float> host(64);
    float *device, *pinned, *managed, *mapped;
    cudaMalloc(&device, 256); cudaMallocHost(&pinned, 256); cudaMallocManaged(&managed, 256);
    cudaHostRegister(host.data(), 256, 0); cudaHostGetDevicePointer(&mapped, host.data(), 0);
    for (float *x : {device, pinned, managed, mapped}) fill<<<1, 64>>>(device + 64, x, (size_t)&done);
    """.replace("&done", "&host")
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_copy_of_more_than_the_host_array_holds(main):
    body = """
    std::vector<float> host(50);
    float *device;
    cudaMalloc(&device, 256);
    printf("%d\\n", cudaMemcpy(device, host.data(), COUNT * 4, cudaMemcpyHostToDevice));
    printf("%d\\n", cudaMemcpy(host.data(), device, COUNT * 4, cudaMemcpyDeviceToHost));
    """
    done = main(body.replace("COUNT", "50"))
    assert (done.stdout, done.stderr) == ("0\n0\n", "")
    done = main(body.replace("COUNT", "64"))
    assert done.stdout == "0\n1\n"
    assert "hostcuda: cudaMemcpy: its source has 200 bytes, from malloc or new, and 256 were asked for" in done.stderr
    assert "cudaMemcpy failed: its destination has 200 bytes" in done.stderr


def test_a_symbol_is_a_variable_of_the_device(main):
    done = main(
        """
    static __device__ float there[4];
    float *pointer, four[4] = {};
    printf("%d\\n", cudaMemcpyToSymbol(there, four, 16));
    printf("%d\\n", cudaMemcpyToSymbol("there", four, 16));
    printf("%d\\n", cudaMemcpyToSymbol("there, by its name in quotes", four, 16));
    printf("%d\\n", cudaMemcpyToSymbol(pointer, four, 8));
    """
    )
    assert done.stdout == "0\n13\n13\n13\n", done.stderr
    assert done.stderr.count("hostcuda: cudaMemcpyToSymbol failed: its symbol is no __device__ or __constant__") == 3
