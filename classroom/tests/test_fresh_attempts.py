"""Forty attempts by somebody who did not read the grader: at its readers, and at goals that are not met."""

import contextlib
import csv
import json
import os
import re
import resource
import stat
import subprocess
import sys
import zipfile

import pytest

from hostcuda.errors import EngineError
from hostcuda.source import code_only
from hostcuda.untrusted import refuse
from labkit.base import paths
from labkit.base.errors import LabError
from labkit.exercises.exercise import exercise
from labkit.exercises.text import count_features
from labkit_classroom import sandbox
from labkit_classroom.roster import read_roster
from labkit_classroom.submissions import submissions

pytestmark = pytest.mark.thorough("a class of hand-ins: minutes")


def text(number, start=False):
    """Return the solution of an exercise, or its starting code."""
    return exercise(number).start if start else exercise(number).solution


def edit(exercise, *edits, start=False):
    """Return the solution or the starting code with edits, each of which must find its place."""
    kernel = text(exercise, start)
    for old, new in edits:
        assert old in kernel, (exercise, old)
        kernel = kernel.replace(old, new)
    return kernel


needs_a_sandbox = pytest.mark.skipif(not sandbox.available(), reason=sandbox.why_not())

# ---- goals that are not met
# -----------------------------------------------------------------------------------------
ROW_COLUMN = (
    "const int row = blockIdx.y * blockDim.y + threadIdx.y,"
    " column = blockIdx.x * blockDim.x + threadIdx.x;"
)


def naive_transpose(store, before="", attribute=""):
    """Return a transpose that stores down columns: `store` says how, from `from` to `to`."""
    return (
        f"{before}\n{attribute} __global__ void transpose(const float *in, float *out, int rows, int columns)\n{{\n"
        f"    {ROW_COLUMN}\n    __shared__ float tile[32][33];\n"
        "    if (row < rows && column < columns) tile[threadIdx.y][threadIdx.x] = in[row * columns + column];\n"
        "    __syncthreads();\n    if (row >= rows || column >= columns) return;\n"
        "    float *to = out + column * rows + row, *from = &tile[threadIdx.y][threadIdx.x];\n"
        f"    {store}\n}}\n"
    )


def greedy_softmax(load):
    """Return P5a's kernel of three passes, of which the last two load by the expression `load` of a pointer p."""
    kernel = text("P5a").replace("expf(x[i] - largest)", "expf(unseen(x + i) - largest)")
    return f"__device__ float unseen(const float *p) {{ {load} }}\n" + kernel


def scan(body, before=""):
    """Return a kernel for prefix sums, a thread per element: `before` it, and its body."""
    return (
        f"{before}__global__ void scan(const int *x, int *y, int columns)\n{{\n"
        "    const int i = threadIdx.x, at = blockIdx.x * columns + i;\n" + body + "\n}\n"
    )


def total(body, before=""):
    """Return a kernel for the sum of all elements: `before` it, and `body` after each thread's own sum `mine`."""
    return (
        f"{before}__global__ void sum(const float *x, int n, float *total)\n{{\n    float mine = 0;\n"
        "    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)\n"
        "        mine += x[i];\n" + body + "\n}\n"
    )


def histogram(body, before=""):
    return f"{before}__global__ void histogram(const unsigned char *pixels, int n, unsigned *bins)\n{{\n{body}\n}}\n"


TWO_LANES = """    if (blockIdx.x > 0 || threadIdx.x > 1) return;
    unsigned mine[256] = {};
    const int whole = n / 32 * 32;
    for (int i = threadIdx.x * 16; i < whole; i += 32) {
        const uint4 four = *(const uint4 *)(pixels + i);
        const unsigned words[4] = {four.x, four.y, four.z, four.w};
        for (int j = 0; j < 16; ++j) ++mine[words[j / 4] >> j % 4 * 8 & 255];
    }
    for (int i = whole + threadIdx.x; i < n; i += 2) ++mine[pixels[i]];
    for (int v = 0; v < 256; ++v) {
        const unsigned both = mine[v] + __shfl_xor_sync(3, mine[v], 1);
        if (threadIdx.x == v % 2) bins[v] = both;
    }"""
ONE_LANE = """    if (blockIdx.x > 0 || threadIdx.x > 0) return;
    struct alignas(32) Sector { unsigned char at[32]; };
    unsigned mine[256] = {};
    int i = 0;
    for (; i + 32 <= n; i += 32) {
        const Sector sector = *(const Sector *)(pixels + i);
        for (int j = 0; j < 32; ++j) ++mine[sector.at[j]];
    }
    for (; i < n; ++i) ++mine[pixels[i]];
    for (int v = 0; v < 256; ++v) bins[v] = mine[v];"""
SERIAL_SCAN = """    __shared__ int part[256];
    part[i] = i < columns ? x[at] : 0;
    __syncthreads();
    if (i == 0) for (int j = 1; j < blockDim.x; ++j) part[j] += part[j - 1];
    __syncthreads();
    if (i < columns) y[at] = part[i];"""
QUADRATIC_SCAN = """    __shared__ int part[256];
    part[i] = i < columns ? x[at] : 0;
    __syncthreads();
    int sum = 0;
    for (int j = 0; j <= i; ++j) sum += part[j];
    if (i < columns) y[at] = sum;"""
SERIAL_SUM = """    __shared__ float part[256];
    part[threadIdx.x] = mine;
    __syncthreads();
    if (threadIdx.x > 0) return;
    for (int t = 1; t < blockDim.x; ++t) mine += part[t];
    atomicAdd(total, mine);"""
STORE_Y = "y[h * Wo + w] += x[(c * H + h + p) * W + w + q] * k[((m * C + c) * K + p) * K + q];"
SPLIT = "const int c = row / (K * K), p = row / K % K, q = row % K;"
TILE_04 = "__shared__ float tile[SIDE][SIDE];"
FACTOR_04 = "sum += tile[threadIdx.y + p][threadIdx.x + q] * mask"
AFTER_08 = "    if (m < M && n + 1 < pixels)\n        y[m * pixels + n + 1] = __float2half(sum.y);"

GOALS = {
    "memcpy": [
        ("P1b", naive_transpose("__builtin_memcpy(to, from, 4);")),
        ("P1b", naive_transpose("memmove(to, from, sizeof(float));")),
        (
            "01b",
            edit(
                "01b",
                (
                    STORE_Y,
                    "{ float s; __builtin_memcpy(&s, &y[h * Wo + w], 4); s +="
                    " x[(c * H + h + p) * W + w + q] * k[((m * C + c) * K + p) * K + q];"
                    " __builtin_memcpy(&y[h * Wo + w], &s, 4); }",
                ),
                start=True,
            ),
        ),
    ],
    "atomics": [
        ("P1b", naive_transpose("atomicExch(to, *from);")),
        (
            "P1b",
            naive_transpose(
                "__atomic_store_n((int *)to, __float_as_int(*from), __ATOMIC_RELAXED);"
            ),
        ),
        ("P1b", naive_transpose("__sync_lock_test_and_set((int *)to, __float_as_int(*from));")),
    ],
    "instructions of the host": [
        ("P1b", naive_transpose("__builtin_ia32_movnti((int *)to, __float_as_int(*from));")),
        (
            "P1b",
            naive_transpose(
                "_mm_stream_si32((int *)to, __float_as_int(*from));", "#include <immintrin.h>"
            ),
        ),
        ("P1b", naive_transpose("_mm_store_ss(to, _mm_set_ss(*from));", "#include <xmmintrin.h>")),
    ],
    "odd types": [
        ("P1b", naive_transpose("*(_Complex short *)to = *(_Complex short *)from;")),
        (
            "P1b",
            naive_transpose(
                "((Bits *)to)->all = __float_as_uint(*from);", "struct Bits { unsigned all : 32; };"
            ),
        ),
        (
            "P1b",
            naive_transpose(
                "*(V *)to = *(V *)from;", "typedef char V __attribute__((vector_size(4)));"
            ),
        ),
        (
            "P1b",
            naive_transpose(
                "*(Three *)to = *(Three *)from;",
                "struct Three { char a; short b; char c; } __attribute__((packed));",
            ),
        ),
    ],
    "inline PTX": [
        (
            "P1b",
            naive_transpose(
                'asm volatile("st.global.f32 [%0], %1;" :: "l"(to), "f"(*from) : "memory");'
            ),
        ),
        (
            "P1b",
            naive_transpose(
                'asm volatile("movl %1, (%0)" :: "r"(to), "r"(*(int *)from) : "memory");'
            ),
        ),
    ],
    "attributes against instruments": [
        (
            "P1b",
            naive_transpose(
                "*to = *from;", attribute='__attribute__((no_sanitize("thread", "address")))'
            ),
        ),
        (
            "P1b",
            naive_transpose(
                "*to = *from;", attribute="[[gnu::no_sanitize_thread, gnu::no_instrument_function]]"
            ),
        ),
        (
            "P1b",
            naive_transpose(
                "put(to, *from);",
                '#pragma GCC push_options\n#pragma GCC optimize("O0")\n'
                "#define CAT(a, b) a##b\n__attribute__((CAT(no_sanitize, _thread), noinline))"
                " __device__ void put(float *to, float v) { *to = v; }\n#pragma GCC pop_options",
            ),
        ),
    ],
    "memory of other threads": [
        (
            "P1b",
            f"""__global__ void transpose(const float *in, float *out, int rows, int columns)
{{
    __shared__ volatile float *place[32][33];
    {ROW_COLUMN}
    volatile float mine = 0;
    if (row < rows && column < columns) mine = in[row * columns + column];
    place[threadIdx.y][threadIdx.x] = &mine;
    __syncthreads();
    const int to_row = blockIdx.x * 32 + threadIdx.y, to_column = blockIdx.y * 32 + threadIdx.x;
    if (to_row < columns && to_column < rows) out[to_row * rows + to_column] = *place[threadIdx.x][threadIdx.y];
    __syncthreads();
}}
""",
        ),
        ("P4b", scan("    static int part[256];\n" + SERIAL_SCAN.split("\n", 1)[1])),
        ("P4b", scan(SERIAL_SCAN.split("\n", 1)[1], "thread_local int part[256];\n")),
        ("P4b", scan(SERIAL_SCAN.split("\n", 1)[1], "namespace { int part[256]; }\n")),
    ],
    "a static sum": [
        (
            "P3b",
            total(
                "    static float all = 0; static int seen = 0;\n    all += mine;\n"
                "    if (++seen == gridDim.x * blockDim.x) { *total = all; all = seen = 0; }"
            ),
        ),
        (
            "P3b",
            total(
                "    State<0>::all += mine;\n    if (++State<0>::seen == gridDim.x * blockDim.x)"
                " { *total = State<0>::all; State<0>::all = State<0>::seen = 0; }",
                "template <int> struct State { inline static float all = 0, seen = 0; };\n",
            ),
        ),
    ],
    "sizes of the grid as memory": [
        (
            "P3b",
            total(
                f"    unsigned &all = (unsigned &){word};\n    if (threadIdx.x == 0) all = 0;\n"
                "    all = __float_as_uint(__uint_as_float(all) + mine);\n    __syncthreads();\n"
                "    if (threadIdx.x == 0) { atomicAdd(total, __uint_as_float(all)); all = 1; }"
            ),
        )
        for word in ("gridDim.z", "blockDim.y", "blockIdx.z")
    ],
    "one thread adds": [("P3a", total(SERIAL_SUM)), ("P3b", total(SERIAL_SUM))],
    "one thread scans": [("P4a", scan(SERIAL_SCAN)), ("P4b", scan(SERIAL_SCAN))],
    "each thread adds all": [
        ("P4a", scan(QUADRATIC_SCAN)),
        ("P4b", scan(QUADRATIC_SCAN)),
        (
            "P4b",
            scan(
                "    int sum = 0;\n    for (int j = 0; j <= i && i < columns; ++j) sum += x[at - i + j];\n"
                "    if (i < columns) y[at] = sum;"
            ),
        ),
    ],
    "two threads count": [
        ("P2a", histogram(TWO_LANES)),
        ("P2b", histogram(TWO_LANES)),
        ("P2a", histogram(ONE_LANE)),
        ("P2b", histogram(ONE_LANE)),
    ],
    "a few threads add": [
        (
            "00a",
            edit(
                "00a",
                ("blockIdx.x > 0 || threadIdx.x > 0", "blockIdx.x > 0 || threadIdx.x >= 32"),
                ("int i = 0; i < n; ++i", "int i = threadIdx.x; i < n; i += 32"),
                start=True,
            ),
        ),
        (
            "00a",
            edit(
                "00a",
                (
                    "for (int i = 0; i < n; ++i)",
                    "float la[2000], lb[2000]; __builtin_memcpy(la, a, 4 * n);"
                    " __builtin_memcpy(lb, b, 4 * n); for (int i = 0; i < n; ++i)",
                ),
                ("sum[i] = a[i] + b[i]", "sum[i] = la[i] + lb[i]"),
                start=True,
            ),
        ),
        (
            "00b",
            edit(
                "00b",
                (
                    "const int i = 4 * thread + j;",
                    "struct alignas(32) S { float f[8]; }; const int i = n;"
                    " if (thread == 0 && j == 0) { int e = 0; for (; e + 8 <= n; e += 8) {"
                    " S s = *(S *)(a + e), t = *(S *)(b + e); for (int u = 0; u < 8; ++u) s.f[u] += t.f[u];"
                    " *(S *)(sum + e) = s; } for (; e < n; ++e) sum[e] = a[e] + b[e]; }",
                ),
                start=True,
            ),
        ),
    ],
    "idle loads bend a quotient": [
        (
            "04a",
            edit(
                "04a",
                (
                    TILE_04,
                    TILE_04 + " if (!threadIdx.x && !threadIdx.y) tile[0][0] = 0; __syncthreads();"
                    " for (int i = 0; i < 400; ++i) (void)*(volatile float *)&tile[0][0]; __syncthreads();",
                ),
                start=True,
            ),
        ),
        (
            "04a",
            edit(
                "04a",
                (
                    FACTOR_04,
                    "float t; __builtin_memcpy(&t, &tile[threadIdx.y + p][threadIdx.x + q], 4);"
                    " sum += t * mask",
                ),
                ("for (int q = 0; q < K; ++q)\n", "for (int q = 0; q < K; ++q) {"),
                ("* K + q];\n", "* K + q]; }\n"),
                start=True,
            ),
        ),
        (
            "04a",
            edit(
                "04a",
                (
                    FACTOR_04,
                    "sum += __shfl_sync(~0u, tile[threadIdx.y + p][threadIdx.x + q], threadIdx.x +"
                    " threadIdx.y * TILE) * mask",
                ),
                start=True,
            ),
        ),
    ],
    "hidden divisions": [
        (
            "06a",
            edit(
                "06a",
                (SPLIT, "const int c = over(row, K * K), p = row - over(row, K) * K, q = p;"),
                ('extern "C"', '__device__ int over(int a, int b) { return a / b; }\nextern "C"'),
                start=True,
            ),
        ),
        (
            "06a",
            edit(
                "06a",
                (SPLIT, "OF(row)"),
                ('extern "C"', f'#define OF(row) {SPLIT}\nextern "C"'),
                start=True,
            ),
        ),
        (
            "06a",
            edit(
                "06a",
                (
                    SPLIT,
                    "const int c = of(row, K * K), p = of(row, K) - c * K, q = row - of(row, K) * K;",
                ),
                (
                    "    float sum = 0;\n",
                    "    float sum = 0; auto of = [](int a, int b) { return a / b; };\n",
                ),
                start=True,
            ),
        ),
        (
            "06a",
            edit(
                "06a",
                (
                    SPLIT,
                    "const int c = div(row, K * K).quot, p = div(div(row, K).quot, K).rem,"
                    " q = div(row, K).rem;",
                ),
                start=True,
            ),
        ),
        (
            "06a",
            edit(
                "06a",
                ("for (int step = 0; step < depth; step += TILE) {", "int step = 0; again: {"),
                (
                    "        __syncthreads();                                    // all threads have read them: next"
                    " step\n    }",
                    "        __syncthreads(); step += TILE; }\n    if (step < depth) goto again;",
                ),
                start=True,
            ),
        ),
    ],
    "the second pixel unseen": [
        (
            "08a",
            edit(
                "08a",
                (
                    AFTER_08,
                    "    half v = __float2half(sum.y); if (m < M && n + 1 < pixels)\n        "
                    "__builtin_memcpy(&y[m * pixels + n + 1], &v, 2);",
                ),
                start=True,
            ),
        ),
        (
            "08a",
            edit(
                "08a",
                (
                    "y[m * pixels + n] = __float2half(sum.x);\n" + AFTER_08,
                    "y[m * pixels + n] = __float2half(0), n + 1 < pixels ? (void)0 : (void)0;",
                ),
                start=True,
            ),
        ),
        (
            "08a",
            edit(
                "08a",
                (
                    "y[m * pixels + n] = __float2half(sum.x);\n" + AFTER_08,
                    "*(half2 *)(y + m * pixels + n) = __float22half2_rn(sum);",
                ),
                start=True,
            ),
        ),
    ],
    "another launch does the work": [
        (
            "P1b",
            naive_transpose("if (launches++ % 2 == 0) *to = *from;", "__device__ int launches;"),
        ),
        ("P1b", naive_transpose("if (clock64() % 2) *to = *from;")),
        (
            "P1b",
            "__global__ void slow(const float *in, float *out, int rows, int columns)\n{\n"
            f"    {ROW_COLUMN}\n    if (row < rows && column < columns) out[column * rows + row] ="
            " in[row * columns + column];\n}\n__global__ void transpose(const float *in, float *out, int rows,"
            " int columns)\n{\n    if (blockIdx.x + blockIdx.y + threadIdx.x + threadIdx.y == 0)"
            " slow<<<gridDim, blockDim>>>(in, out, rows, columns);\n}\n",
        ),
    ],
    "an end before the end": [
        ("P1b", naive_transpose("*to = *from; throw 1;")),
        ("P1b", naive_transpose("*to = *from; exit(0);")),
        ("P1b", naive_transpose("*to = *from; __builtin_trap();")),
        ("P1b", naive_transpose('*to = *from; asm("exit;");')),
        (
            "P1b",
            naive_transpose('int written; printf("%s%n", (const char *)1, &written); *to = *from;'),
        ),
    ],
    "later passes load unseen": [
        ("P5b", greedy_softmax(load))
        for load in (
            'float v; asm volatile("ld.global.nc.f32 %0, [%1];" : "=f"(v) : "l"(p)); return v;',
            "float v; __builtin_memcpy(&v, p, 4); return v;",
            "return __ldg(p);",
            "return *(const volatile float *)p;",
            "return __int_as_float(atomicAdd((int *)p, 0));",
            "return __int_as_float(__atomic_load_n((const int *)p, 0));",
        )
    ],
    "names and barriers of another kind": [
        (
            "P4b",
            '#define __syncthreads() wait()\n__device__ void wait() { asm volatile("bar.sync 0;"); }\n'
            + text("P4a"),
        ),
        ("P4b", text("P4a").replace("__syncthreads();", "__syncwarp(); __threadfence_block();")),
        ("P4b", text("P4a").replace("__syncthreads()", "__barrier_sync(0)")),
        ("P1b", "#define tile in_tile\n#define __shared__\n" + text("P1b")),
    ],
}


# ---- readers and names
# ----------------------------------------------------------------------------------------------
CANARY = "canary4711"
SHOWN = f"</pre><script>{CANARY}</script>\x1b]0;{CANARY}\x07\x1b[2J\x9b31m"


def notebook(*cells, **more):
    """Return a notebook with code cells of these sources."""
    cells = [
        {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None, "source": c}
        for c in cells
    ]
    return json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5} | more)


def link(target):
    return lambda place, outside: place.symlink_to(str(target).format(outside=outside))


def hard_link(place, outside):
    os.link(outside / "secret.cu", place)


def times(seconds):
    """Return a function that writes a right attempt which was last changed at this time [s since 1970]."""

    def write(place, outside):
        """Write the attempt, and set its time if the file system can."""
        place.write_text(text("P1b") + f"// {seconds}\n")
        with contextlib.suppress(OSError, OverflowError):  # which a file system may refuse
            os.utime(place, (seconds, seconds))

    return write


def archive(place, outside):
    """Write a zip file that leads out of its folder, and has a file of 30 MB of zeros."""
    with zipfile.ZipFile(place, "w", zipfile.ZIP_DEFLATED) as zipped:
        zipped.writestr("../../../written", "x")
        zipped.writestr("P1b.cu", "\0" * 30_000_000)


SOLUTION_OF_P1B = paths.SERIES / "P1_transpose" / "b_through_a_tile" / "b_through_a_tile.cu"
EVIL = "open({outside!r} + '/written', 'w').write('x')\nEXERCISE = None\n"
START = text("P1b", start=True)
MAGIC = "%%cuda mine --exercise "


def starts(*names):
    """Return hand-ins of the starting code under these names."""
    return [(name, START) for name in names]


READERS = {
    "terminal escapes in names": [
        *starts(
            f"\x1b]0;{CANARY}\x07\x1b[2J/P1b.cu",
            "a\x9b31mb/P1b.cu",
            "new\nline,row/P1b.cu",
            "\u202egnp/P1b.cu",
        ),
        ("r2/\x1b[2J\u202ecu.docx", "x"),
    ],
    "HTML in names": [
        *starts(f"<img src=x onerror={CANARY}>/P1b.cu", '"onmouseover="alert(1)/P1b.cu'),
        (f"<script>{CANARY}<\u2215script>.docx", "x"),
    ],
    "formulas in names": starts(
        "=cmd|' !A0/P1b.cu",
        "\t=1+1/P1b.cu",
        "@SUM(A1)/P1b.cu",
        "-1+1/P1b.cu",
        "\uff1d1+1/P1b.cu",
        " =1+1/P1b.cu",
        ";=1+1/P1b.cu",
    ),
    "a compiler's message as a page": [
        ("r4a/P1b.cu", f"#error {SHOWN}\n" + START),
        ("r4b/P1b.cu", START.replace("{", f'{{ int a = "{SHOWN}";', 1)),
        ("r4c/P1b.cu", naive_transpose(f'printf("{SHOWN}\\n"); *to = *from;')),
        ("r4d/P1b.cu", START.replace("{", "{ int \u202eab\u202c = 1 +;", 1)),
    ],
    "links": [
        ("r5a/P1b.cu", link("{outside}/secret.cu")),
        ("r5b/week", link("{outside}")),
        ("r5c/P1b.cu", hard_link),
        ("r5d", link("{outside}")),
        ("r5e_P1b.cu", link("{outside}/secret.cu")),
        ("r5f/P1b.cu", link("P1b.cu")),
        ("r5g/up", link("..")),
    ],
    "pipes and devices": [
        ("r6a/P1b.cu", lambda place, outside: os.mkfifo(place)),
        ("r6b/P1b.cu", link("/dev/zero")),
        ("r6c/P1b.cu", lambda place, outside: os.mknod(place, stat.S_IFSOCK | 0o600)),
        ("r6d.ipynb", lambda place, outside: os.mkfifo(place)),
        ("r6e/P1b.cu", link("/dev/stdin")),
    ],
    "odd JSON": [  # what is damaged: test_submissions.py
        (
            "r7c/P1.ipynb",
            notebook(MAGIC + "P1b\n" + START)[:-1] + ', "x": ' + "[" * 900 + "]" * 900 + "}",
        ),
        ("r8b/P1.ipynb", '{"cells": [], "nbformat": 1e999999, "a": NaN, "b": -Infinity}'),
        ("r8d/P1.ipynb", notebook(MAGIC + "P1b\ud800\n" + START, MAGIC + "P1\0b\n" + START)),
        ("r8e/P1.ipynb", notebook(MAGIC + "P1b\n" + START)[:-1] + ', "cells": 3}'),
        ("r8f/P1.ipynb", "\ufeff" + notebook(MAGIC + "P1b\n" + START)),
    ],
    "odd types in JSON": [
        (f"r9{k}/P1.ipynb", body)
        for k, body in enumerate(
            (
                "null",
                "3",
                '"cells"',
                "[]",
                "{}",
                '{"cells": {"a": 1}}',
                '{"cells": [null, 1, "x", []]}',
                notebook({"a": 1}),
                notebook([[MAGIC], 1, None]),
                notebook(None),
                notebook(1.5),
                json.dumps({"cells": [{"cell_type": ["code"], "source": {}}], "metadata": 3}),
                notebook(MAGIC + "P1b\n" + START, metadata=[[]], nbformat="x", nbformat_minor=None),
                json.dumps(
                    {
                        "worksheets": [
                            {"cells": [{"cell_type": "code", "input": MAGIC + "P1b\n" + START}]}
                        ],
                        "nbformat": 3,
                    }
                ),
            )
        )
    ],
    "exercises that a cell names": [
        ("r10/evil/exercise.py", EVIL),
        ("r10/evil/evil.cu", START),
        ("r10/__init__.py", EVIL),
        (
            "r10/a.ipynb",
            lambda place, outside: place.write_text(
                notebook(
                    *(
                        MAGIC + name + "\n" + START
                        for name in (
                            "evil",
                            "./evil",
                            str(place.parent / "evil"),
                            f"{outside}/evil",
                            "../../outside/evil",
                            "../" * 30 + "etc",
                            "'P1b'; import os",
                            "$(touch written)",
                            "`id`",
                            "-rf",
                            "--out",
                            "P1b --seed 1",
                            "*",
                            "P1[ab]",
                            "P1.",
                            "",
                            "a" * 60_000,
                            "/" * 9_000,
                            "\u0130",
                            "p\u0131b",
                            "P1b/../P1a",
                            "\uff301b",
                        )
                    )
                )
            ),
        ),
        ("r10/b.ipynb", notebook(*(f"{MAGIC}{k}\n{START}" for k in range(999)))),
        (
            "r10/c.ipynb",
            notebook("!touch written\n" + MAGIC + "P1b\n%run evil/exercise.py\n" + START),
        ),
    ],
    "names of files": starts(
        "-rf_P1b.cu",
        "--out=x/P1b.cu",
        "results/P1b.cu",
        "ranking/P1b.cu",
        "grades.csv/P1b.cu",
        "%2e%2e%2fhonest/P1b.cu",
        "a" * 255 + "/P1b.cu",
        "\u00e9" * 120 + "/P1b.cu",
        "r11/" + "b" * 240 + "_P1b.cu",
        "r11/P1b.cu/P1b.cu",
        "r11/" + "d/" * 300 + "P1b.cu",
        "con/P1b.cu",
        "~root/P1b.cu",
        "{}/P1b.cu",
        "%s%n/P1b.cu",
        ".hidden/P1b.cu",
        "..._P1b.cu",
        "[red]r[/red]/P1b.cu",
        "[/]/P1b.cu",
        "[link=file:///etc/passwd]x/P1b.cu",
    ),
    "the name of somebody else": [
        *starts(
            "Honest/P1b.cu",
            "honest /P1b.cu",
            "hone\u200bst/P1b.cu",
            "honest\u0301/P1b.cu",
            "honest.html/P1b.cu",
            "\uff48onest/P1b.cu",
            "r12/honest/P1b.cu",
            "r12/honest_P1b.cu",
            "honest-P1b/P1b.cu",
        ),
        ("r12/../r12/results/honest-P1b.json", "{}"),
        (
            "r12/manifest.csv",
            "file,submitted_at,student\n../honest/P1b.cu,2020-01-01T00:00:00Z,r12\n"
            "P1b.cu,2020-01-01T00:00:00Z,honest\n",
        ),
    ],
    "encodings": [
        (b"\xff\xfe\x80/P1b.cu", START),
        ("r13a/P1b.cu", START.encode("utf-16")),
        ("r13b/P1b.cu", START.encode("utf-32")),
        ("r13c/P1b.cu", b"\xff\x80\x00" + START.encode()),
        ("r13d/P1b.cu", b"\0" * 100_000),
        ("r13e/P1.ipynb", notebook(MAGIC + "P1b\n" + START).encode("utf-16")),
        ("r13f/P1b.cu", os.urandom(200_000)),
        ("r13g/P1b.cu", START.replace("\n", "\r")),
        ("r13h/P1b.cu", START.replace(" ", "\u00a0\u2028\x0b\x0c")),
    ],
    "includes": [
        (f"r14{word}/P1b.cu", f'{word} "{SOLUTION_OF_P1B}";\n') for word in ("#include", "import")
    ],
    # What is no kernel by its text: test_untrusted.py.
    "assembler and the host": [
        (f"r15{k}/P1b.cu", before + "\n" + naive_transpose("*to = *from;"))
        for k, before in enumerate(
            (
                f'asm(".incbin \\"{SOLUTION_OF_P1B}\\"");',
                "struct S { S() { for (;;); } } s;",
                'extern "C" int system(const char *);\nint x = system("touch /tmp/written");',
                'extern "C" long write(int, const void *, unsigned long);\nlong w = write(1, "\x1b[2J", 4);',
                "int a = __builtin_trap(), 1;",
            )
        )
    ],
    "bombs of the preprocessor and the compiler": [
        (
            "r16a/P1b.cu",
            "#define A0 x x x x x x x x\n"
            + "".join(
                f"#define A{k + 1} A{k} A{k} A{k} A{k} A{k} A{k} A{k} A{k}\n" for k in range(20)
            )
            + "A20\n"
            + START,
        ),
        ("r16b/P1b.cu", "#include __FILE__\n#include __FILE__\n" + START),
        (
            "r16c/P1b.cu",
            "template <int N> struct T { T<N + 1> a; T<N + 2> b; };\nT<0> t;\n" + START,
        ),
        ("r16d/P1b.cu", "__device__ char big[1ull << 34] = {1};\n" + START),
        (
            "r16e/P1b.cu",
            "constexpr long f() { long s = 0; for (long i = 0; i < 1l << 60; ++i) s += i; return s; }\n"
            "constexpr long v = f();\n" + START,
        ),
        ("r16f/P1b.cu", "__constant__ int many[] = {[0 ... 1000000000] = 1};\n" + START),
        (
            "r16g/P1b.cu",
            START.replace(
                "{", "{ __shared__ char all[1l << 40]; char own[1l << 40]; own[rows] = 1;", 1
            ),
        ),
    ],
    "long lines and many brackets": [
        (f"r17{k}/P1b.cu", START.replace("{", "{ " + body, 1))
        for k, body in enumerate(
            (
                "(" * 60_000,
                "{" * 60_000,
                "a<" * 4_000,
                "/*" * 30_000,
                "/" * 60_000,
                '"' * 60_001,
                "'" * 60_001,
                '"\\' * 20_000,
                "\\\n" * 30_000,
                'R"' * 30_000,
                'R"(' * 20_000,
                "__global__ " * 6_000,
                "if (" * 15_000,
                "for (int i;" * 6_000,
                "#define " * 8_000,
                "\n#if 1" * 9_000,
                "\n#define f(x) f(x) f(x)" * 2_000,
                "x=" * 30_000,
                "-" * 60_000 + "1;",
                "<<<" * 20_000,
                "a::" * 20_000,
                "int " * 15_000,
                " " * 60_000 + "x",
                "\t\x0b\x0c" * 20_000,
                "goto a; a: " * 6_000,
                "*" * 60_000,
                "a[" * 30_000,
                ", a" * 20_000,
                "template<" * 1_500,
                "=0;\n" * 15_000,
                "do ; while(0);" * 4_000,
                "0x" + "1'" * 30_000,
                "1" * 60_000,
                "asm(" * 15_000,
                "__syncthreads();" * 800,
                "[[" * 30_000,
                "#" * 60_000,
                "?" * 60_000,
                "a?b:" * 15_000,
                "operator" * 7_500,
                "__attribute__((" * 4_000,
            )
        )
    ]
    + [
        ("r17x/P1b.cu", "x" * 19_000_000),
        ("r17y/P1b.cu", "\n" * 19_000_000),
        ("r17z/P1b.cu", "(" * 3_000_000),
    ],
    "lines of other files": [
        (f"r18{k}/P1b.cu", f"{line}\nint error = ;\n" + START)
        for k, line in enumerate(('#line 1 "{outside}/secret.cu"', f'#line 7 "{SHOWN}"'))
    ],
    "times of files": [
        (f"r19{k}/P1b.cu", times(seconds))
        for k, seconds in enumerate((-(2.0**33), 2.0**33, 2.0**36, 2.0**41, -1.0, 2.0**62))
    ],
    "archives and other files": [
        ("r20a/P1b.cu", archive),
        ("r20b/P1.ipynb", archive),
        ("r20c/hand-in.zip", archive),
        ("r20d/P1b.cu", ""),
        ("r20e/P1b.cu", START),
        ("r20e/again/P1b.cu", START),
        ("r20e/P1.ipynb", notebook(MAGIC + "P1b\n" + START)),
        ("r20f/conftest.py", EVIL),
        ("r20f/sitecustomize.py", EVIL),
        ("r20f/numpy.py", EVIL),
        ("r20f/P1b.cu", START),
    ],
}
ROSTER = f"""name,id,email,extension
Honest,honest,honest@x.org,
"{SHOWN}",=1+1,"@a",
<b>b</b>,r5a,"r5a
@x",1e6
,,,
r6a,r6a,r6a,
r8d,r8e,r8f,
r7c,r7c,r7c,2026-12-31T23:59:59-23:59
r9a,../../r9a,../r9a@x.org,
r10,r10,r10,9
"""
MANIFEST = f"""file,submitted_at,student
r16a/P1b.cu,9999-12-31T23:59:59Z,
r16b,0001-01-01T00:00:00Z,=1+1
../outside/secret.cu,2026-01-01T00:00:00Z,r5a
/etc/passwd,2026-01-01T00:00:00Z,
{SHOWN},2026-01-01T00:00:00Z,"{SHOWN}"
r16e,2026-01-01T00:00:00Z
,,,,,,
"""


def write(place, body, outside):
    """Write a file of a hand-in: `body` is its content, or a function that writes it."""
    place.parent.mkdir(parents=True, exist_ok=True)
    if callable(body):
        body(place, outside)
    else:
        place.write_bytes(
            body if isinstance(body, bytes) else body.encode("utf-8", "surrogatepass")
        )


def refused(number, kernel):
    """Return why the text of an attempt is refused before it is compiled; empty if it is not."""
    try:
        refuse(exercise(number).attempt(kernel), exercise(number).subject.headers)
    except EngineError as error:
        return str(error)
    return ""


def hand_in(folder, outside, kinds, every):
    """Write the hand-ins of these kinds, keys of `GOALS` and `READERS`, with manifest and roster; one is honest.

    Links in the hand-ins lead to `outside`, a folder with a secret, which is written too. To save
    time, not all kernels of a kind are written: the first one whose text is refused, and the first
    one whose text is not, or `every` one whose text is not.
    """
    outside.mkdir()
    (outside / "secret.cu").write_text(f"// {CANARY} secret\n" + text("P1b"))
    (outside / "evil").mkdir()
    (outside / "evil" / "exercise.py").write_text(EVIL.format(outside=str(outside)))
    (outside / "evil" / "evil.cu").write_text(START)
    write(folder / "honest" / "P1b.cu", text("P1b"), outside)
    for kind in kinds:
        of_kernels = (
            [
                # "g03_0/P1b.cu": the third kind's first kernel
                (f"g{[*GOALS].index(kind) + 1:02}_{n}/{number}.cu", kernel)
                for n, (number, kernel) in enumerate(GOALS[kind])
            ]
            if kind in GOALS
            else []
        )
        outcomes = set()
        for name, body in of_kernels or READERS[kind]:
            if isinstance(body, str):
                body = body.replace("{outside}", str(outside)).replace(
                    "{outside!r}", repr(str(outside))
                )
            number = os.fsdecode(name).rpartition("/")[2].removesuffix(".cu")
            is_kernel = isinstance(body, str) and number in (
                "P1b",
                *(asked for asked, _ in GOALS.get(kind, ())),
            )
            if is_kernel and body != START:
                outcome = bool(refused(number, body))
                if outcome in outcomes and (outcome or not every):
                    continue
                outcomes.add(outcome)
            with contextlib.suppress(OSError):  # a name that the file system does not take
                write(folder / os.fsdecode(name), body, outside)
    (folder / "manifest.csv").write_text(MANIFEST)
    (folder.parent / "roster.csv").write_text(ROSTER)


# The class is graded in parts, each with its own process: side by side, and each within a test's time.
EVERY = pytest.mark.exhaustive("every attempt: minutes")
PARTS = [
    *(
        pytest.param(slice(part, None, 4), False, id=f"one of each kind, {part}")
        for part in range(4)
    ),
    *(
        pytest.param(slice(part, None, 12), True, id=f"all, {part}", marks=EVERY)
        for part in range(12)
    ),
]


@needs_a_sandbox
@pytest.mark.parametrize(("part", "every"), PARTS)
def test_a_class_is_graded_and_no_attempt_succeeds(tmp_path, part, every):
    hand_in(tmp_path / "handed-in", tmp_path / "outside", [*GOALS, *READERS][part], every)
    formats = [word for name in ("canvas", "moodle", "gradescope") for word in ("--format", name)]
    command = [
        sys.executable,
        "-m",
        "labkit",
        "grade",
        "handed-in",
        "--out",
        "grades",
        "--roster",
        "roster.csv",
        "--ranking",
        "--due",
        "2026-12-01T23:59+01:00",
        *formats,
    ]
    process = subprocess.run(
        command,
        cwd=tmp_path,
        capture_output=True,
        timeout=3600,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (12 << 30, 12 << 30)),
    )
    assert process.returncode == 0, process.stderr[-2000:]
    results = [
        json.loads(file.read_text()) for file in (tmp_path / "grades" / "results").glob("*.json")
    ]
    passed = {result["student"] for result in results if result["passed"]}
    assert "honest" in passed
    # The text of a hard link is the hand-in's own; a time of a file is no attempt at its marks.
    assert passed <= {"honest", "r5c", *(f"r19{k}" for k in range(6))}
    tricks = {result["student"] for result in results if re.match(r"g\d\d_", result["student"])}
    assert tricks == {path.name for path in (tmp_path / "handed-in").glob("g??_*")}
    require_harmless(process, tmp_path)


def require_harmless(process, root):
    """Require that nothing of a hand-in gets into a terminal, a page, a table or another folder."""
    texts = {"stdout": process.stdout.decode(), "stderr": process.stderr.decode()}
    texts |= {
        str(file): file.read_text() for file in (root / "grades").rglob("*") if file.is_file()
    }
    for name, text in texts.items():
        assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", text), name
        assert "secret" not in text.replace("secret.cu", ""), name
        if name.endswith(".html"):
            assert not re.search(rf"<(script|img)[^>]*(x onerror|>{CANARY})|\"on", text), name
        if name.endswith(".csv"):
            cells = [cell for row in csv.reader(text.splitlines(keepends=True)) for cell in row]
            bad = {cell for cell in cells if re.match(r"\s*[=+@\uff1d]|-\D", cell) and cell != "-"}
            # Importers know students by the id and the address, which stay as they are.
            assert bad <= (
                {"=1+1", "@a"} if name.endswith(("canvas.csv", "moodle.csv")) else set()
            ), (name, bad)
    assert sorted(file.name for file in root.iterdir()) == [
        "grades",
        "handed-in",
        "outside",
        "roster.csv",
    ]
    assert not [*root.rglob("written")]
    assert sorted(file.name for file in (root / "outside").rglob("*")) == [
        "evil",
        "evil.cu",
        "exercise.py",
        "secret.cu",
    ]


@pytest.mark.parametrize("kind", ["instructions of the host", "attributes against instruments"])
def test_what_is_no_kernel_is_refused_by_its_text(kind):
    assert [kernel[:200] for number, kernel in GOALS[kind] if not refused(number, kernel)] == []


@pytest.mark.parametrize(
    "time", ["9999-12-31T23:59:59-23:59", "0001-01-01T00:00:00+23:59", "nan", "", "10000-01-01"]
)
def test_a_time_that_utc_does_not_have_is_told_with_its_line(tmp_path, time):
    (tmp_path / "alice_P1b.cu").write_text(START)
    (tmp_path / "manifest.csv").write_text(f"file,submitted_at\nalice_P1b.cu,{time}\n")
    with pytest.raises(
        LabError, match=r"manifest\.csv, line 2: .* is no time with an offset from UTC"
    ):
        submissions([tmp_path])
    (tmp_path / "class.csv").write_text(f"name,id,email,extension\nAlice,1,a@x.org,{time or 'x'}\n")
    with pytest.raises(
        LabError, match=r"class\.csv, line 2: .* is no time with an offset from UTC"
    ):
        read_roster(tmp_path / "class.csv")


@pytest.mark.parametrize(("number", "kernel"), GOALS["hidden divisions"])
def test_a_division_that_a_loop_names_counts(number, kernel):
    assert count_features(code_only(kernel))["divisions_in_loops"] > 0
    assert count_features(code_only(text(number)))["divisions_in_loops"] == 0
