"""Which sources need the check of local arrays' indices, and which arrays are local."""

import pytest

from labkit.cpu.bounds import needed, only_local
from labkit.ladder.rungs import LADDER
from labkit.ladder.variants import variant

UNROLLED = "#pragma unroll\n for (int i = 0; i < N; ++i)"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("float r[4]; for (int i = 0; i <= 4; ++i) r[i] = 0;", True),
        ("float r[4]; r[n] = 0;", True),
        ("float r[4]; r[order[n]] = 0;", True),
        ("struct { float v[4]; } s; s.v[n] = 0;", True),
        (f"float r[2][4]; {UNROLLED} r[1][i + 1] = 0;", False),
        (f"float r[4]; {UNROLLED} r[i] = 0; for (int i = 0; i < n; ++i) r[i] = 1;", True),
        ("__shared__ float s[4]; s[n] = 0;", False),
        ("constexpr int K = 3, last = K - 1; float r[K]; r[last] = 0;", False),
        ("x[n] = 0; // float r[4]; r[n] = 0;", False),
    ],
)
def test_only_an_index_that_the_compiler_does_not_know_needs_the_check(body, expected):
    assert needed(f"__global__ void f(float *x, int n) {{ {body} }}") == expected


def test_the_ladder_is_as_fast_as_without_it():
    """But for rung 11, whose indices are computed from the counters of its unrolled loops."""
    assert [rung.name for rung in LADDER if needed(variant(rung.name).source)] == ["split_floats"]


def test_arrays_elsewhere_are_marked(tmp_path):
    (tmp_path / "kernel.cpp").write_text(
        '#line 1 "f.cu"\n__shared__ float tile[4][4];\n__device__ __attribute__((used)) int bins[8];\n'
        "s[1].r[i] = tile[0][i]; bins[i] = p->v[i];\n"
    )
    line = "s[1].r[i] = tile[0][i]; bins[i] = p->v[i];"
    data = '.LC0:\n\t.string\t"f.cu"\n' + "".join(
        f".Lubsan_data{n}:\n\t.quad\t.LC0\n\t.long\t3\n\t.long\t{at + 1}\n"
        for n, at in enumerate(at for at, letter in enumerate(line) if letter == "]")
    )
    marked = [text.split("\n\t.long\t")[1] for text in only_local(data, tmp_path).split(".Lubsan_data")[1:]]
    assert marked == ["3", "3", "0", "0", "0", "0"]
