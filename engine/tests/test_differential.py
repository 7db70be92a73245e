"""Kernels give the same bits in both modes of the engine and in the reference, which shares nothing with it."""

import os
import re

import pytest
from differential import direct
from differential.compare import CASES, Batch, Case, compare, read
from differential.generator import BATCH, Node, batch
from differential.minimize import without_some

pytestmark = pytest.mark.thorough("modes against each other: minutes")

# random ones of each kind, by their seeds, and as many more with the next seeds
KERNELS = int(os.environ.get("HOSTCUDA_RANDOM_KERNELS", 100))
MORE = pytest.mark.exhaustive("more random kernels")
every_batch = pytest.mark.parametrize(
    "number",
    [
        pytest.param(number, marks=MORE if number >= KERNELS // BATCH else ())
        for number in range(2 * KERNELS // BATCH)
    ],
)
FILES = sorted(CASES.glob("*.cu"))


def all_agree(results):
    """Check that both modes are right and that the reference refuses no kernel."""
    wrong = [
        f"{result.case.name} {result.verdict}: {result.detail}"
        for result in results
        if result.verdict != "same"
    ]
    assert not wrong, f"{len(wrong)} of {len(results)} kernels are wrong:\n" + "\n".join(wrong)
    return True


def legal(results):
    """Drop the few kernels that the reference refuses: mistakes of the generator."""
    kept = [result for result in results if result.verdict != "illegal"]
    assert len(kept) >= 0.8 * len(results)
    return kept


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_cases(path):
    assert all_agree(compare(read(path)))


@every_batch
def test_random_kernels(number):
    results = legal(compare(batch(number), cache_dir=False))
    assert all_agree(results)
    # else nothing was tested
    assert sum(result.execution_mode == "loops" for result in results) > BATCH // 10


@every_batch
def test_random_direct_kernels(number):
    results = legal(compare(direct.batch(number)))
    assert all_agree(results)
    assert sum(result.execution_mode == "loops" for result in results) > BATCH // 10


def one(body, **launch):
    text = f"__global__ void one(unsigned *out, const unsigned *in, int n) {{ {body} }}\n"
    return compare(Batch("", [Case("one", text, **launch)]))[0]


TWO_BLOCKS = {"block": (40, 1, 1), "grid": (2, 1, 1)}
UNDEFINED = {
    "order": (
        "__shared__ unsigned s; s = threadIdx.x; __syncthreads(); out[threadIdx.x] = s;",
        "order of threads",
    ),
    "garbage": (
        "__shared__ unsigned s[64]; if (threadIdx.x) s[threadIdx.x] = 1; __syncthreads(); out[0] = s[0];",
        "garbage",
    ),
    "blocks": ("out[0] = blockIdx.x;", "order of threads"),
    "lanes": ("out[threadIdx.x] = __shfl_down_sync(0xffffffff, n, 1);", "does not take part"),
    "warps": (
        "if (threadIdx.x & 1) __syncwarp(); out[threadIdx.x] = 1; __syncthreads();",
        "do not come",
    ),
    "barriers": (
        "if (threadIdx.x & 1)\n__syncthreads(); else\n__syncthreads();",
        "different barriers",
    ),
    "outside": ("out[4100 + threadIdx.x] = 1;", "outside of its output"),
}


@pytest.fixture(scope="module")
def undefined():
    """Return the reference's verdicts on these, by their names: compiled together, which takes most of the time."""
    text = "__global__ void {}(unsigned *out, const unsigned *in, int n) {{ {} }}\n"
    cases = [
        Case(name, text.format(name, body), **TWO_BLOCKS) for name, (body, _) in UNDEFINED.items()
    ]
    return {result.case.name: result for result in compare(Batch("", cases))}


@pytest.mark.parametrize("name", UNDEFINED)
def test_the_reference_refuses_what_is_undefined(name, undefined):
    assert undefined[name].verdict == "illegal" and re.search(
        UNDEFINED[name][1], undefined[name].detail
    )


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("while (in[0] == in[0] + out[0]);", "does not end"),
        ("out[threadIdx.x] = nothing;", "nothing. was not declared"),
    ],
)
def test_the_reference_refuses_what_cannot_run(body, why):
    result = one(body, **TWO_BLOCKS)
    assert result.verdict == "illegal" and re.search(why, result.detail)


@pytest.mark.parametrize(
    ("only", "verdict"),
    [
        ("out[threadIdx.x] = HOSTCUDA;", "differs"),
        ("*(int *)nullptr = HOSTCUDA;", "fails"),
        ("HOSTCUDA += ;", "does not compile"),
    ],
)
def test_an_engine_that_is_wrong_is_told(only, verdict):
    body = f"\n#ifdef __CUDACC__\n#define HOSTCUDA 7\n{only}\n#endif\n__syncthreads(); out[threadIdx.x] += threadIdx.x;"
    result = one(body)
    assert result.verdict == verdict and result.wrong == ["loops", "fibers"]


def test_what_a_wrong_kernel_does_not_need_is_removed():
    nodes = [
        Node("a;"),
        Node("if (n) {", [Node("b;"), Node("bad;"), Node("c;")]),
        Node("d;"),
        Node("also;"),
    ]

    def wrong():
        text = "".join(node.text() for node in nodes)
        return "bad;" in text and "also;" in text

    while without_some(nodes, wrong):
        pass
    assert [node.head for node in nodes] == ["bad;", "also;"]
