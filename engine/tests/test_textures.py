"""Textures and surfaces of whole programs, against the formulas of the CUDA C++ Programming Guide, in NumPy."""

from pathlib import Path

import numpy as np
import pytest
from running import run_program

from hostcuda.sanitize import sanitize_script

pytestmark = pytest.mark.thorough("breadth of CUDA's API")

PROGRAM = Path(__file__).parent / "programs" / "textures.cu"
W, H, D, N = 8, 4, 2, 96
WRAP, CLAMP, MIRROR, BORDER = range(4)
FLOATS = (np.arange(W * H * D * 4) * 37 % 101 - 40).astype(np.float32)
BYTES = (np.arange(W * H * D * 4) * 53 % 256).astype(np.uint8)
COLOUR = 0.5 + np.arange(4)
PLACES = [
    (np.arange(N) * step % most - 24576) / 8192
    for step, most in ((1201, 114688), (907, 81920), (541, 65536))
]


def texels(data, indices, mode, normalized):
    """Return data[z, y, x, channel] at integer places (x, y, z), each an array."""
    places, outside = [], np.zeros(N, bool)
    for i, n in zip(indices, data.shape[2::-1], strict=False):
        if mode == BORDER:
            outside |= (i < 0) | (i >= n)
        if mode == WRAP and normalized:
            i = i % n
        if mode == MIRROR and normalized:
            i = i % (2 * n)
            i = np.where(i < n, i, 2 * n - 1 - i)
        places.append(np.clip(i, 0, n - 1))
    places += [np.zeros(N, int)] * (3 - len(places))
    # of fractions
    colour = np.minimum(COLOUR, 1) if data.dtype == np.float64 and data.max() <= 1 else COLOUR
    return np.where(
        outside[:, None], colour[: data.shape[3]], data[places[2], places[1], places[0]]
    )


def sampled(data, dimensions, linear, normalized, mode):
    """Return what a texture gives at the places of the program."""
    places = PLACES[:dimensions]
    if not linear:
        near = [np.floor(x).astype(int) for x in places]
        return texels(data, near, mode, normalized)
    base = [np.floor(x - 0.5).astype(int) for x in places]
    total = 0
    for corner, weight in enumerate(
        weights([x - 0.5 - i for x, i in zip(places, base, strict=True)])
    ):
        near = [i + (corner >> d & 1) for d, i in enumerate(base)]
        total = total + weight[:, None] / 256 * texels(data, near, mode, normalized)
    return total


def weights(fractions):
    """Return the corners' weights, in 1/256.

    With them all planes of the program are to the bit what an H200 gives.
    """
    products = [np.full(N, 256)] + [np.zeros(N, int)] * (2 ** len(fractions) - 1)
    for d, fraction in enumerate(fractions):
        part = rest = np.floor(fraction * 256 + 0.5).astype(int)
        for corner in reversed(range(2**d)):
            moved = (products[corner] * part + 128) // 256 if corner else rest
            products[corner | 1 << d], products[corner] = moved, products[corner] - moved
            rest = rest - moved
    return products


@pytest.fixture(scope="module")
def read(tmp_path_factory):
    """Return the arrays that the program has written, by their names."""
    out = tmp_path_factory.mktemp("textures") / "read.bin"
    ended = run_program(PROGRAM, str(out))
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")
    sizes = {
        f"{mode} {kind}": 4 * N * (4 if kind in (2, 3) else 1)
        for mode in range(16)
        for kind in range(5)
    }
    sizes |= {"elements": 4 * N, "fetched": 256, "fractions": 512, "surface": 4 * W * H}
    data, values = out.read_bytes(), {}
    assert len(data) == sum(sizes.values())
    for name, size in sizes.items():
        values[name], data = np.frombuffer(data[:size], np.float32), data[size:]
    return values


SOURCES = [  # the texels, and the number of dimensions
    (FLOATS[:W].reshape(1, 1, W, 1), 1),
    (FLOATS[: W * H].reshape(1, H, W, 1), 2),
    (FLOATS[: W * H * 4].reshape(1, H, W, 4), 2),
    (BYTES[: W * H * 4].reshape(1, H, W, 4) / 255, 2),
    (FLOATS[: W * H * D].reshape(D, H, W, 1), 3),
]


@pytest.mark.parametrize(
    "kind", range(5), ids=["line", "plane", "float4 with a pitch", "bytes as fractions", "box"]
)
@pytest.mark.parametrize("address", range(4), ids=["wrap", "clamp", "mirror", "border"])
@pytest.mark.parametrize("normalized", [0, 1])
@pytest.mark.parametrize("linear", [0, 1])
def test_samples_follow_the_formulas(read, linear, normalized, address, kind):
    data, dimensions = SOURCES[kind]
    expected = sampled(data.astype(np.float64), dimensions, linear, normalized, address)
    values = read[f"{address * 4 + normalized * 2 + linear} {kind}"].reshape(expected.shape)
    np.testing.assert_allclose(values, expected, rtol=1e-6, atol=2e-5)


def test_texels_are_read_as_they_are(read):
    data, dimensions = BYTES[: W * H * 4].reshape(1, H, W, 4), 2
    elements = read["elements"].view(np.uint8).reshape(N, 4)
    assert (elements == sampled(data, dimensions, 0, 0, CLAMP)).all()


def test_linear_memory_is_zero_outside(read):
    assert (read["fetched"] == [*[0] * 8, *FLOATS[:32], *[0] * 24]).all()
    inside = np.maximum(BYTES[:96].view(np.int8) / 127, -1)
    np.testing.assert_allclose(read["fractions"], [*[0] * 16, *inside, *[0] * 16], rtol=1e-6)


def test_surfaces_are_read_and_written_at_their_edges(read):
    plane = FLOATS[: W * H].reshape(H, W)
    assert (read["surface"].reshape(H, W) == 101 * plane[::-1, ::-1]).all()


WRONG = """
__global__ void k(cudaTextureObject_t t, cudaSurfaceObject_t s, float *out)
{
    CALL;
}
int main()
{
    cudaChannelFormatDesc d = cudaCreateChannelDesc<TEXEL>();
    cudaResourceDesc r = {};
    cudaTextureDesc how = {};
    how.filterMode = FILTER;
    cudaTextureObject_t t = 0;
    cudaSurfaceObject_t s = 0;
    cudaMallocArray(&r.res.array.array, &d, 8, 4, cudaArraySurfaceLoadStore);
    cudaCreateTextureObject(&t, &r, &how, 0);
    cudaCreateSurfaceObject(&s, &r);
    float *out;
    cudaMalloc(&out, 4);
    k<<<1, 1>>>(t, s, out);
    return cudaDeviceSynchronize() ? 1 : 0;
}
"""


@pytest.mark.parametrize(
    ("call", "texel", "filter", "words"),
    [
        (
            "*out = tex2D<float>(t, 0, 0)",
            "uchar4",
            "Point",
            "tex2D: the type of its result is not that of the texels, 1 b",
        ),
        (
            "*out = tex1Dfetch<float>(t, 0)",
            "float",
            "Point",
            "tex1Dfetch: the object is a texture of rows or of an array",
        ),
        ("*out = tex3D<float>(t, 0, 0, 0)", "float", "Point", "tex3D: the object has 2 dimensions"),
        (
            "*out = tex2D<float>(0, 0, 0)",
            "float",
            "Point",
            "tex2D: there is no such object: create it",
        ),
        (
            "*out = tex2D<float>(t, 0, 0)",
            "int",
            "Linear",
            "cudaFilterModeLinear needs results in float",
        ),
        (
            "surf2Dwrite(1.0f, s, 32, 0)",
            "float",
            "Point",
            "surf2Dwrite: x = 32 bytes is outside of the surface, whose last "
            "place is 28: x counts bytes, not texels",
        ),
        (
            "*out = surf2Dread<float>(s, 2, 0)",
            "float",
            "Point",
            "x = 2 bytes is no multiple of the 4 bytes",
        ),
        (
            "*out = tex2DLod<float>(t, 0, 0, 0)",
            "float",
            "Point",
            "has no layered textures, cubemaps and levels of detail",
        ),
    ],
)
@pytest.mark.thorough
def test_wrong_uses_are_told_in_a_sentence(write_program, call, texel, filter, words):
    text = (
        WRONG.replace("CALL", call)
        .replace("TEXEL", texel)
        .replace("FILTER", f"cudaFilterMode{filter}")
    )
    ended = run_program(write_program(text))
    assert ended.returncode == 1 and words in ended.stderr


@pytest.mark.thorough
def test_a_program_with_textures_is_clean_in_check_mode(tmp_path):
    findings = sanitize_script(
        str(PROGRAM), [str(tmp_path / "read.bin")], "all", "cpu", capture=True
    )
    assert findings.clean, findings.table
