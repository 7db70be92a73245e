"""Which sources need the check of local arrays' indices, and which arrays are local."""

import pytest

from hostcuda.check.bounds import keep_local_checks, list_shared, needs_checks

pytestmark = pytest.mark.core("which arrays are checked")

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
    assert needs_checks(f"__global__ void f(float *x, int n) {{ {body} }}") == expected


def test_a_header_of_ones_own_is_read(tmp_path):
    (tmp_path / "more").mkdir()
    (tmp_path / "sum.h").write_text(
        '#pragma once\n#include "more/first.h"\n#include "more/first.h"\n'
    )
    first, kernel = (
        tmp_path / "more" / "first.h",
        '#include "sum.h"\n__global__ void f(float *x, int n) { x[n] = 0; }',
    )
    for body, expected in (("r[0]", False), ("r[n]", True)):
        first.write_text(f"__device__ float first(int n) {{ float r[4] = {{}}; return {body}; }}")
        assert needs_checks(kernel, [tmp_path]) == expected
    assert needs_checks(kernel) and needs_checks(kernel, [tmp_path / "more"]), (
        "a header that is not found may have any"
    )


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
    marked = [
        text.split("\n\t.long\t")[1]
        for text in keep_local_checks(data, tmp_path).split(".Lubsan_data")[1:]
    ]
    assert marked == ["3", "3", "0", "0", "0", "0"]


SHARED = "__shared__ float row[2], tile[4][4];"
DECLARED = [
    *(
        "Row q, tile;",
        "Row q[2], tile;",
        "Row q = f(a, b), tile;",
        "Row q{1}, tile;",
        "Row (q), tile;",
    ),
    *("Row *q, *tile;", "float q, (*tile)[4];", "const auto &q = a, &tile = b;", "N::Row q, tile;"),
    *(
        "T<float> q, tile;",
        "::Row q, tile;",
        "alignas(16) Row q, r, tile;",
        "[[nodiscard]] Row q, tile;",
    ),
    *(
        "for (Row q, tile; ;) ;",
        "if (Row q, tile; q.x) ;",
        "if (c) Row q, tile;",
        "else Row q, tile;",
    ),
    *(
        "case 1: Row q, tile;",
        "here: Row q, tile;",
        "{ int z; } Row q, tile;",
        "Row q = {1, 2}, tile;",
    ),
    *(
        "struct { float x[4]; } q, tile;",
        "struct Row { float q, tile[4]; };",
        "bool c = a < b, tile = 3;",
    ),
    *(
        "auto f = [q, tile = b] {};",
        "auto f = [tile = b] {};",
        "auto f = [](int a) -> int { Row q, tile; };",
    ),
]
USED = [
    *(
        "f(a, tile);",
        "f(a, tile[i]);",
        "load<4>(a, tile);",
        "g(float2{a, tile[0][0]});",
        "return {a, tile[0][0]};",
    ),
    *(
        "a[i] = 1, tile[i][0] = 2;",
        "if (c) a[i] = 0, tile[i][0] = 0;",
        "for (i = 0, tile[0][0] = 1; ;) ;",
    ),
    *("for (int i = 0; i < 3; ++i) a[i] = 0, tile[i][0] = 0;", "a = b ? c : d, tile[0][0] = 1;"),
    *(
        "x += a, tile[0][0] = 1;",
        "++i, tile[i][0] = 1;",
        "v.x = 3, tile[1][1] = 2;",
        "int q = tile[0][0] * row[1], w = 4;",
    ),
    *("float2 v = {a, tile[0][0]};", "float4 v = f(tile[0], tile[1]), w = g(tile[0]);"),
]


@pytest.mark.parametrize(("statements", "names"), [(DECLARED, {"row"}), (USED, {"row", "tile"})])
def test_a_shared_array_has_its_name_alone_also_behind_a_comma(statements, names):
    """Of an untrusted source, the checks of other arrays stay: a name that is declared twice may be of either."""
    kernel = "__global__ void f() {{ {} {} }}"
    others = {text for text in statements if list_shared(kernel.format(SHARED, text)) != names}
    assert not others
