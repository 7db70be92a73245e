"""The binding of cuBLAS: against the library on a GPU, and anywhere against a stand-in that keeps its conventions."""

import shutil
import subprocess

import pytest

import hostcuda
import labkit
from labkit import LENET86, LabError, Layer, check, variant
from labkit.ladder import cublas
from labkit.ladder.variants import variants

pytestmark = pytest.mark.thorough("recorders: only the makers of data/ run them")

GPU = hostcuda.engine() == "gpu"
ODD = [(Layer("odd", 3, 21, 44, 19, 7), 2), (Layer("one map", 1, 9, 7, 1, 2), 3)]

# Column by column, as cuBLAS counts, in memory that the CPU engine's kernels share with it.
STAND_IN = r"""
#include <cstring>
static int mode = -1, made = 0;
extern "C" {
int cublasCreate_v2(void **handle) { *handle = &mode; ++made; return 0; }
int cublasDestroy_v2(void *) { return 0; }
int cublasSetStream_v2(void *, void *) { return 0; }
int cublasSetMathMode(void *handle, int chosen) { mode = chosen; return handle == &mode ? 0 : 1; }
const char *cublasGetStatusString(int) { return "a parameter is wrong"; }
int handles() { return made; }
int cublasSgemmStridedBatched(void *handle, int ta, int tb, int m, int n, int k, const float *alpha,
                              const float *A, int lda, long long a, const float *B, int ldb, long long b,
                              const float *beta, float *C, int ldc, long long c, int count)
{
    if (handle != &mode || mode != 2 || ta || tb || m < 1 || n < 1 || k < 1) return 7;
    if (lda < m || ldb < k || ldc < m || !A || !B || !C || count < 1) return 7;
    for (int image = 0; image < count; ++image, A += a, B += b, C += c)
        for (int j = 0; j < n; ++j)
            for (int i = 0; i < m; ++i) {
                float sum = 0;
                for (int l = 0; l < k; ++l) sum += A[l * lda + i] * B[j * ldb + l];
                C[j * ldc + i] = *alpha * sum + (*beta ? *beta * C[j * ldc + i] : 0);
            }
    return 0;
}
}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Build the stand-in; return the folder of a toolkit that has it."""
    home = tmp_path_factory.mktemp("toolkit")
    (home / "lib64").mkdir()
    source = home / "cublas.cpp"
    source.write_text(STAND_IN)
    compiler = shutil.which("g++") or shutil.which("clang++")
    library = home / "lib64" / "libcublas.so.13"
    subprocess.run(
        [compiler, "-O2", "-shared", "-fPIC", "-o", str(library), str(source)], check=True
    )
    return home


@pytest.fixture
def fresh():
    """Forget all that is loaded of cuBLAS, before and after."""

    def forget():
        for loaded in (cublas._library, cublas._handle, cublas.prepare):
            loaded.cache_clear()

    forget()
    yield
    forget()


@pytest.fixture
def stand_in(folder, fresh, monkeypatch):
    """Return the binding on the stand-in; kernels of the CPU engine end before it reads what they wrote."""
    if GPU:
        pytest.skip("the stand-in multiplies on the host")
    monkeypatch.setenv("CUDA_HOME", str(folder))
    monkeypatch.setattr(cublas, "missing", lambda: None)
    product = cublas.product

    def waiting(*arguments, **options):
        hostcuda.driver.Context.synchronize()
        product(*arguments, **options)

    monkeypatch.setattr(cublas.GEMM, "prepared_async_call", waiting)


def test_the_product_is_the_convolution(stand_in, capsys):
    check(variant(5, gemm="cublas"))
    assert capsys.readouterr().out.startswith("PASS 05 unroll gemm, gemm=cublas")
    assert cublas._library().handles() == 1  # one for all plans


def test_it_stands_beside_the_rung_in_a_table(stand_in):
    kernels = [variant(5), variant(5, gemm="cublas")]
    for kernel in kernels:
        check(kernel, ODD)
    table = labkit.bench(kernels, ODD[0][0], 2, 1)
    assert list(table["label"]) == ["05 unroll gemm", "05 unroll gemm, gemm=cublas"]
    assert list(labkit.kernel_times(table)["kernel"]) == ["im2col", "gemm"] * 2
    assert variant(5, gemm="cublas") in variants(5)


def test_an_error_of_the_library_is_told(stand_in):
    with pytest.raises(LabError, match="cublasSgemmStridedBatched failed: a parameter is wrong"):
        cublas.product(None, None, None, 0, 0, 0, 1, 1, 9, 9, 1, 2)  # no memory


def test_without_a_gpu_or_the_library_it_says_so_and_the_page_goes_on(fresh, monkeypatch, tmp_path):
    with pytest.raises(LabError, match="gemm='mkl': it is \"cublas\" for NVIDIA's library"):
        variant(5, gemm="mkl")
    if not GPU:
        with pytest.raises(
            LabError, match=r"cuBLAS needs an NVIDIA GPU, and this is the CPU engine: omit"
        ):
            check(variant(5, gemm="cublas"))
        assert variant(5, gemm="cublas") not in variants(5) and len(variants(5)) > 5
    broken = tmp_path / "lib64" / "libcublas.so"
    broken.parent.mkdir()
    broken.write_text("no library")
    monkeypatch.setattr(hostcuda, "engine", lambda: "gpu")
    monkeypatch.setattr(cublas, "_candidates", lambda: [broken, "libcublas.so.999"])
    assert "cuBLAS cannot be loaded: install the CUDA toolkit" in cublas.missing()
    assert "libcublas.so.999: " in cublas.missing()
    with pytest.raises(LabError, match="cuBLAS cannot be loaded"):
        cublas.prepare()


def test_wheels_and_toolkits_are_searched(monkeypatch, tmp_path):
    wheel = tmp_path / "site" / "nvidia" / "cu13" / "lib" / "libcublas.so.13"
    toolkit = tmp_path / "home" / "targets" / "x86_64-linux" / "lib" / "libcublas.so"
    for path in (wheel, toolkit):
        path.parent.mkdir(parents=True)
        path.touch()
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "home"))
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    candidates = list(cublas._candidates())
    assert candidates.index(toolkit) < candidates.index(wheel) < candidates.index("libcublas.so")


@pytest.mark.skipif(not GPU or cublas.missing() is not None, reason="takes a GPU and cuBLAS")
def test_cublas_itself():
    check(variant(5, gemm="cublas"))
    check(variant(5, gemm="cublas"), [(layer, 3) for layer in LENET86])
