"""Inline PTX: mma.sync in all its forms against float64, how it may be written, and what is refused."""

import itertools
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from running import kernel_source, launch, run_script

import hostcuda.autoinit  # noqa: F401
import hostcuda.driver as cuda
from hostcuda.compiler import SourceModule
from hostcuda.frontend.rewrite import rewrite

pytestmark = pytest.mark.core("the instructions of pages 10 and 11")

RNG = np.random.default_rng(168)

# A warp's rows of a (16 a warp, k halves each) times the 8 columns of b, which lie one after the
# other, `turns` times.
KERNEL = """
extern "C" __global__ void {name}(const unsigned *a, const unsigned *b, {word} *c, int turns)
{{
    const int k = {k}, g = threadIdx.x % 32 / 4, t = threadIdx.x % 4, row = threadIdx.x / 32 * 16 + g;
    unsigned fa[k / 4], fb[k / 8];
    for (int i = 0; i < k / 4; i++) fa[i] = a[(row + i % 2 * 8) * (k / 2) + t + i / 2 * 4];
    for (int i = 0; i < k / 8; i++) fb[i] = b[g * (k / 2) + t + i * 4];
    {word} *at = c + row * {pitch} + {count} / 2 * t, d[{count}];
    for (int i = 0; i < {count}; i++) d[i] = at[2 * i / {count} * 8 * {pitch} + i % ({count} / 2)];
    for (int n = 0; n < turns; n++) {{ {mma} }}
    for (int i = 0; i < {count}; i++) at[2 * i / {count} * 8 * {pitch} + i % ({count} / 2)] = d[i];
}}
"""


def mma(k, kind, separate=False):
    """Return the asm statement for operands fa, fb and d: d is an operand of its own, read and written, or two."""
    letter, count = ("f", 4) if kind == "f32" else ("r", 2)
    sizes = [count, k // 4, k // 8, count]
    first = [0, count, count + k // 4, sum(sizes[:3]) if separate else 0]
    groups = [
        "{" + ", ".join(f"%{at + i}" for i in range(n)) + "}"
        for at, n in zip(first, sizes, strict=True)
    ]
    outputs = ", ".join(
        f'"{"=" if separate else "+"}{letter}"({"e" if separate else "d"}[{i}])'
        for i in range(count)
    )
    inputs = [f'"r"({name}[{i}])' for name, n in (("fa", k // 4), ("fb", k // 8)) for i in range(n)]
    inputs += [f'"{letter}"(d[{i}])' for i in range(count)] if separate else []
    word = "float" if kind == "f32" else "unsigned"
    name = f"mma.sync.aligned.m16n8k{k}.row.col.{kind}.f16.f16.{kind}"
    text = f'asm volatile("{name} {", ".join(groups)};" : {outputs} : {", ".join(inputs)});'
    return (
        f"{word} e[{count}]; {text} for (int i = 0; i < {count}; i++) d[i] = e[i];"
        if separate
        else text
    )


FORMS = list(itertools.product((16, 8), ("f32", "f16"), (False, True)))


def name(k, kind, separate):
    return f"mma_{k}_{kind}{'_separate' * separate}"


def kernel(k, kind, text, name="f"):
    word, count, pitch = ("float", 4, 8) if kind == "f32" else ("unsigned", 2, 4)
    return KERNEL.format(name=name, k=k, word=word, count=count, pitch=pitch, mma=text)


def run(function, a, b, c, turns, warps):
    """Run the kernel; return its sums, of `c` and float16 operands (rows of a, columns of b)."""
    word = np.float32 if c.dtype == np.float32 else np.uint32
    d = c.copy()
    function(
        cuda.In(a.view(np.uint32)),
        cuda.In(b.view(np.uint32)),
        cuda.InOut(d.view(word)),
        np.int32(turns),
        block=(32 * warps, 1, 1),
        grid=(1, 1),
    )
    return d


def operands(k, kind, warps):
    a, b = (
        RNG.normal(size=(16 * warps, k)).astype(np.float16),
        RNG.normal(size=(8, k)).astype(np.float16),
    )
    return (
        a,
        b,
        RNG.normal(size=(16 * warps, 8)).astype(np.float32 if kind == "f32" else np.float16),
    )


def assert_close(d, a, b, c, turns):
    """Check sums: products are exact, sums are float (see test_wmma); a half accumulator is rounded once per turn."""
    a, b, c = a.astype(np.float64), b.astype(np.float64), c.astype(np.float64)
    size = turns * (abs(a) @ abs(b.T)) + abs(c)
    tolerance = turns * 20 * np.finfo(np.float32).eps * size
    if d.dtype == np.float16:
        tolerance += turns * (2.0**-11 * size + 2.0**-25)
    assert (abs(d - (turns * (a @ b.T) + c)) <= tolerance).all()


@pytest.fixture(scope="module")
def module():
    return SourceModule(
        "".join(kernel(k, kind, mma(k, kind, s), name(k, kind, s)) for k, kind, s in FORMS),
        no_extern_c=True,
    )


@pytest.mark.parametrize("form", FORMS, ids=[name(*form) for form in FORMS])
@pytest.mark.parametrize(("warps", "turns"), [(1, 1), (2, 1), (3, 5)])
def test_product(module, form, warps, turns):
    a, b, c = operands(*form[:2], warps)
    assert_close(run(module.get_function(name(*form)), a, b, c, turns, warps), a, b, c, turns)


def test_every_element_has_its_place(module):
    """There is one term per product, so that a misplaced half shows with certainty."""
    for k, kind, separate in FORMS:
        a = (np.arange(16 * k).reshape(16, k) % 251).astype(np.float16)
        c = np.zeros((16, 8), np.float32 if kind == "f32" else np.float16)
        for first in range(0, k, 8):
            b = np.zeros((8, k), np.float16)
            b[np.arange(8), first + np.arange(8)] = 1
            d = run(module.get_function(name(k, kind, separate)), a, b, c, 1, 1)
            assert (d == a[:, first : first + 8]).all()


def test_half_sums_are_rounded_once(module):
    a, b, c = (
        np.zeros((16, 16), np.float16),
        np.zeros((8, 16), np.float16),
        np.zeros((16, 8), np.float16),
    )
    a[0], b[0], c[0, 0] = 1, 1 / 16, 2048  # whose neighbours are 2 away
    b[0, 0] += 1
    a[1, 0], b[1, 0] = 60000, 2
    d = run(module.get_function("mma_16_f16"), a, b, c, 1, 1)
    assert d[0, 0] == 2050 and d[1, 1] == np.inf


SAME = [
    r"""asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
        "{%0, %1, %2, %3}, "   // d
        "{%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};\n\t"
        : "+f"(d[0]), "+f"(d[1]),  /* :, ( */
          "+f"(d[2]), "+f"(d[3])
        : "r"(fa[0]), "r"(fa[1]), "r"(fa[2]), "r"(fa[3]), "r"(fb[0]), "r"(n < 0 ? 0u : fb[1])
        : "memory");""",
    """__asm__ __volatile__(R"(
            // the product
            {
                mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32
                    {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};
            })" : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(fa[0]), "r"(fa[1]), "r"((int)fa[2]), "r"(fa[3]),
            "r"(fb[0]), "r"(fb[1]));""",
    'if (n < 0) asm("");\nelse ' + mma(16, "f32").replace("asm volatile", "__asm"),
    'asm volatile("" ::: "memory"); asm("// keeps d" : "+f"(d[0]), "+r"(fa[0])); ' + mma(16, "f32"),
]


@pytest.fixture(scope="module")
def ways():
    """Compile a kernel for each way, in one module: the compiler's start takes longer than all of them."""
    source = "".join(kernel(16, "f32", text, f"way_{i}") for i, text in enumerate(SAME))
    return SourceModule(source, no_extern_c=True)


@pytest.mark.parametrize("way", range(len(SAME)))
def test_ways_to_write_it(way, ways):
    a, b, c = operands(16, "f32", 1)
    assert_close(run(ways.get_function(f"way_{way}"), a, b, c, 2, 1), a, b, c, 2)


def test_two_products_in_one_statement():
    text = mma(16, "f32")
    one = text.split('"')[1]
    function = SourceModule(
        kernel(16, "f32", text.replace(one, one * 2)), no_extern_c=True
    ).get_function("f")
    a, b, c = operands(16, "f32", 1)
    assert_close(run(function, a, b, c, 1, 1), a, b, c, 2)


def test_in_a_macro():
    text = mma(16, "f32").replace("d[", "D[").replace(":", "\\\n :").replace(";)", ';" \\\n ")')
    source = (
        "#define MMA(D, fa, fb) \\\n"
        + text.rstrip(";")
        + "\n"
        + kernel(16, "f32", "MMA(d, fa, fb);")
    )
    a, b, c = operands(16, "f32", 1)
    assert_close(
        run(SourceModule(source, no_extern_c=True).get_function("f"), a, b, c, 1, 1), a, b, c, 1
    )


@pytest.mark.usefixtures("cpu_engine")
def test_a_warp_that_is_not_whole_is_refused():
    source = kernel(16, "f32", f"if (threadIdx.x == 20) return;\n{mma(16, 'f32')}")
    function = SourceModule(source).get_function("f")
    line = source[: source.index("asm")].count("\n") + 1
    for threads, taking_part in ((16, 16), (32, 31)):
        function(
            *[cuda.to_device(np.zeros(256, np.uint32))] * 3,
            np.int32(1),
            block=(threads, 1, 1),
            grid=(1, 1),
        )
        with pytest.raises(
            cuda.LaunchError, match=rf"mma.sync at .*:{line} needs the 32 .* but {taking_part} take"
        ):
            cuda.Context.synchronize()


# -- instructions other than mma of half


@pytest.fixture(scope="module")
def others():
    return SourceModule(kernel_source("ptx"), no_extern_c=True)


def test_functions_of_three_operands():
    tables = {
        0x96: lambda a, b, c: a ^ b ^ c,
        0xE8: lambda a, b, c: a & b | a & c | b & c,
        0xCA: lambda a, b, c: a & b | ~a & c,
    }
    lines = "".join(
        f'asm("lop3.b32 %0, %1, %2, %3, {table:#x};" : "=r"(at[{i}]) : "r"(x[0]), "r"(x[1]), "r"(x[2]));'
        for i, table in enumerate(tables)
    )
    lines += 'asm("vabsdiff4.u32.u32.u32.add %0, %1, %2, %3;" : "=r"(at[3]) : "r"(x[0]), "r"(x[1]), "r"(x[2]));'
    module = SourceModule(f"__global__ void f(unsigned *at, const unsigned *x) {{ {lines} }}")
    x, out = RNG.integers(0, 2**31, 3, np.uint32), np.zeros(4, np.uint32)
    launch(module, "f", cuda.Out(out), cuda.In(x), threads=1)
    bytes_ = x.view(np.uint8).reshape(3, 4).astype(int)
    assert out.tolist() == [
        *(function(*x) for function in tables.values()),
        abs(bytes_[0] - bytes_[1]).sum() + x[2],
    ]


def read_field(x, position, length, signed):
    """Return what bfe reads: bits behind the word, and above the field, are zeros or the sign."""
    position, length = position % 256, length % 256
    sign = signed and length > 0 and x >> min(position + length - 1, 31) & 1
    bits = [x >> position + i & 1 if i < length and position + i < 32 else sign for i in range(32)]
    return sum(bit << i for i, bit in enumerate(bits))


def write_field(x, into, position, length):
    """Return what bfi writes."""
    for i in range(min(length % 256, 32 - position % 256)):
        at = position % 256 + i
        into = into & ~(1 << at) | (x >> i & 1) << at
    return into


def permute(x, y, selector):
    """Return the bytes that prmt chooses, or their signs."""
    chosen = [selector >> 4 * i & 15 for i in range(4)]
    taken = [(y << 32 | x) >> 8 * (c % 8) & 255 for c in chosen]
    signs = [(0, 255)[byte >> 7] for byte in taken]
    parts = zip(chosen, taken, signs, strict=True)
    return sum((sign if c > 7 else byte) << 8 * i for i, (c, byte, sign) in enumerate(parts))


def signed(x):
    return x - (x >> 31 << 32)


OF_WORDS = {  # instruction -> the result of up to four words, and its size
    "bfe.u32": (lambda x, y, z, w: read_field(x, z, w, False), 32),
    "bfe.s32": (lambda x, y, z, w: read_field(x, z, w, True), 32),
    "bfi.b32": (write_field, 32),
    "prmt.b32": (lambda x, y, z, w: permute(x, y, z), 32),
    "popc.b32": (lambda x, y, z, w: x.bit_count(), 32),
    "clz.b32": (lambda x, y, z, w: 32 - x.bit_length(), 32),
    "brev.b32": (lambda x, y, z, w: int(f"{x:032b}"[::-1], 2), 32),
    "mul.hi.u32": (lambda x, y, z, w: x * y >> 32, 32),
    "mul.hi.s32": (lambda x, y, z, w: signed(x) * signed(y) >> 32, 32),
    "mul.wide.u32": (lambda x, y, z, w: x * y, 64),
    "mul.wide.s32": (lambda x, y, z, w: signed(x) * signed(y), 64),
    "shf.l.wrap.b32": (lambda x, y, z, w: (y << 32 | x) << z % 32 >> 32, 32),
    "shf.r.wrap.b32": (lambda x, y, z, w: (y << 32 | x) >> z % 32, 32),
}


def test_bits_of_words_and_wide_products():
    """Fields and shifts at and behind the ends of a word; signs of bytes, products and fields."""
    inputs = {"bfi.b32": "xyzw", "bfe.u32": "xzw", "bfe.s32": "xzw", "prmt.b32": "xyz"}
    lines = ""
    for i, (name, (_, bits)) in enumerate(OF_WORDS.items()):
        names = inputs.get(name, "xy" if "mul" in name else "xyz" if "shf" in name else "x")
        operands = ", ".join(f"%{1 + k}" for k in range(len(names)))
        given = ", ".join(f'"r"({letter})' for letter in names)
        kind, letter = ("unsigned", "r") if bits == 32 else ("unsigned long long", "l")
        lines += f'{{ {kind} r; asm("{name} %0, {operands};" : "={letter}"(r) : {given}); at[{i}] = r; }}'
    body = f"x = v[0], y = v[1], z = v[2], w = v[3]; {lines}"
    source = (
        "__global__ void f(unsigned long long *at, const unsigned *v, int rows) { "
        "for (int i = threadIdx.x; i < rows; i += 32) g(at + i * COUNT, v + 4 * i); }"
    )
    source = (
        f"__device__ void g(unsigned long long *at, const unsigned *v) {{ unsigned {body} }}\n"
        + source.replace("COUNT", str(len(OF_WORDS)))
    )
    words = RNG.integers(0, 2**32, (200, 4), np.uint32)
    words[:, 2:] = RNG.choice([0, 1, 5, 8, 31, 32, 33, 200, 255, 256, 0x8A31, 0xFB19], (200, 2))
    words[:20, :2] = RNG.choice([0, 1, 2**31, 2**32 - 1], (20, 2))
    out = np.zeros((200, len(OF_WORDS)), np.uint64)
    module = SourceModule(source)
    launch(module, "f", cuda.Out(out), cuda.In(words), np.int32(200))
    for column, (name, (function, bits)) in enumerate(OF_WORDS.items()):
        expected = [function(*map(int, row)) % 2**bits for row in words]
        assert out[:, column].tolist() == expected, name


@pytest.mark.usefixtures("cpu_engine")  # a GPU's context would be lost, and all tests after it
def test_trap_ends_the_kernel():
    module = SourceModule('__global__ void g(int *x) { if (threadIdx.x > *x) asm("trap;"); }')
    launch(module, "g", cuda.In(np.int32([32])))
    cuda.Context.synchronize()
    launch(module, "g", cuda.to_device(np.int32([30])))
    with pytest.raises(cuda.LaunchError):
        cuda.Context.synchronize()


def test_registers_and_arithmetic(others):
    x, l = RNG.normal(size=64).astype(np.float32), np.array([2**33 + 9], np.uint64)
    out = np.zeros((64, 15), np.uint32)
    launch(others, "registers", cuda.Out(out), cuda.In(x), cuda.In(l), threads=64)
    lane = np.arange(64) % 32
    sums = (3 * (lane - 7)).astype(np.uint32)
    wide = (2**33 + 9) * 0x100000001 + 5 & 2**64 - 1
    assert (out[:, 0] == lane).all() and (out[:, 2] == 64).all()
    assert (
        out[:, 1].reshape(2, 32) == out[::32, 1, None]
    ).all()  # %warpid: on a GPU, that of a place for a warp
    assert (out[:, 3] == sums).all() and (out[:, 4] == (sums << 16 | sums >> 16)).all()
    assert (out[:, 5] == wide % 2**32).all() and (out[:, 6] == wide >> 32).all()
    assert (out[:, 7] == np.where(lane < 16, lane << 4, 0)).all()
    np.testing.assert_allclose(
        out[:, 8].copy().view(np.float32), x * x + np.float32(0.5), rtol=1e-6
    )
    assert (out[:, 9] == np.where(x >= 0, 7, 9)).all() and (out[:, 10] == (1 << lane) - 1).all()
    np.testing.assert_allclose(out[:, 11].copy().view(np.float32), 4.0**x, rtol=1e-5)
    assert (out[:, 12] == (x.view(np.uint32) + 0x1000 & 0xFFFFE000)).all()
    assert (out[:, 13:] == 0).all()  # a NaN is not unequal; |-0| is 0


def test_barriers_of_some_warps(others):
    out = np.zeros(96, np.int32)
    launch(others, "barriers", cuda.Out(out), threads=96)
    other = np.arange(64) ^ 32
    assert (out == np.r_[other, 2 * (other[:32] + other[32:])]).all()


def test_copies_in_the_background(others):
    x, y = RNG.normal(size=160).astype(np.float32), np.zeros((6, 32), np.float32)
    launch(others, "copies", cuda.In(x), cuda.Out(y), np.int32(9), shared=128)
    assert (y[0] == x[127:95:-1]).all()
    assert (y[1, ::-1] == np.where(np.arange(32) < 20, x[2:34], 0)).all()
    assert (y[2] == np.where(np.arange(32) < 9, x[:128:4], 0)).all() and (y[3] == 7).all()
    assert (y[4] == x[3:128:4]).all() and (y[5] == x[:128:4]).all()


def bfloat16(x):
    """Return the upper halves of floats."""
    return (x.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)


def test_matrices_of_bfloat16(others):
    a, b = RNG.integers(-60, 60, (16, 16)), RNG.integers(-60, 60, (16, 8))  # exact in bfloat16
    c, raw = np.zeros((16, 8), np.float32), np.zeros(32, np.uint32)
    launch(
        others, "matrices", cuda.In(bfloat16(a)), cuda.In(bfloat16(b)), cuda.Out(c), cuda.Out(raw)
    )
    assert (c == a @ b + a[:, :8] @ b[:8]).all()
    assert (raw.view(np.uint16).reshape(8, 8) == bfloat16(b[8:])).all()


def test_matrices_of_tf32(others):
    a, b = RNG.integers(-1000, 1000, (16, 8)), RNG.integers(-1000, 1000, (8, 8))  # exact in tf32
    c = np.zeros((16, 8), np.float32)
    # is not read
    bits = [
        cuda.In(matrix.astype(np.float32).view(np.uint32) | np.uint32(0x1FFF)) for matrix in (a, b)
    ]
    launch(others, "tf32", *bits, cuda.Out(c))
    assert (c == a @ b + a[:, :4] @ b[:4]).all()


# -- what is refused


def refusal(text):
    """Return the compiler's message about a kernel whose line 4 begins with `text`."""
    with pytest.raises(cuda.CompileError) as caught:
        SourceModule(
            f"__global__ void f(float *x)\n{{\n    unsigned d[2], fa[4], fb[2];\n    {text}\n}}\n"
        )
    return caught.value.msg


@pytest.mark.usefixtures("cpu_engine")
@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            'asm("ex2.approx.f16x2 %0, %1;" : "=f"(x[0]) : "f"(x[1]));',
            "not know the PTX instruction ex2.approx.f16x2. ",
        ),
        (
            'asm volatile("cp.async.madeup.wait_group 0;" ::: "memory");',
            "cp.async.madeup.wait_group. Write it",
        ),
        (
            'asm("bar.red 0;");',
            "Write it in CUDA C++, for this engine only between #ifdef HOSTCUDA_CPU and #else, or",
        ),
        (
            'asm("add.u32 %0, %1, %2;" :: "r"(d[0]), "r"(d[1]), "r"(d[0]));',
            "writes %0, which is not an output of its",
        ),
        ('asm("add.u32 %0, %0;" : "+r"(d[0]));', "add.u32 takes 3 operands, not 2"),
        (
            'asm("mov.u32 %0, %%gridid;" : "=r"(d[0]));',
            "cannot read the operand %gridid of inline PTX",
        ),
        (
            'asm("@p mov.u32 %0, 1;" : "=r"(d[0]));',
            "the predicate p of inline PTX is not declared in its asm",
        ),
        (
            'asm("cp.async.cg.shared.global %0, [%1], 16;" :: "r"(0), "l"(x));',
            "an address of inline PTX is in bracke",
        ),
        (
            mma(8, "f16").replace(".f16 {", ".f32 {"),
            "PTX instruction mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f32. ",
        ),
        (
            'asm("mma.sync" SHAPE ";");',
            "the CPU engine reads inline PTX from string literals, and SHAPE is not one",
        ),
        (
            mma(8, "f16").replace('"r"(fb[0])', '"f"(x[0])'),
            'takes the registers {"r", "r"}, {"r", "r"}, {"r"}, {"r", ',
        ),
        (mma(8, "f16").replace("%3", "%7"), "takes the registers"),
        (mma(8, "f16").replace("%1}, {%2", "%1, %2"), "takes the registers"),
        (
            mma(8, "f16").replace("{%0, %1}, {%2, %3}", "{%2, %3}, {%2, %3}"),
            "of which the first group are outputs",
        ),
        (
            mma(8, "f16").replace('"+r"(d[0])', '[d] "+r"(d[0])'),
            'is "constraint"(expression), not [d] "+r"(d[0])',
        ),
        (mma(8, "f16").replace("d[0]", "x[0]"), '"r" is for an int or an unsigned int'),
        (mma(8, "f32").replace("d[0]", "fa[0]"), '"f" is for a float'),
    ],
)
def test_what_the_engine_cannot_run(text, words):
    error = refusal(text)
    assert "kernel.cu:4:" in error and words in error


@pytest.mark.usefixtures("cpu_engine")
def test_what_is_not_compiled_is_not_refused():
    SourceModule("""
#define EXP(y, x) asm("ex2.approx.f16x2 %0, %1;" : "=f"(y) : "f"(x))
__global__ void f(float *x)
{
#ifdef HOSTCUDA_CPU
    x[0] = exp2f(x[1]);
#else
    EXP(x[0], x[1]);
    asm("ex2.approx.f16x2 %0, %1;" : "=f"(x[2]) : "f"(x[3]));
#endif
}
""")


# -- the text


def test_operands_stay_on_their_lines():
    text = "__device__ void f() {\n" + SAME[0] + "\n}\nint marker;\n"
    new = rewrite(text).text.splitlines()
    assert len(new) == text.count("\n")
    for word in ("(d[0])", "(d[2])", "(fa[3])", "int marker;"):
        assert [word in line for line in new] == [word in line for line in text.splitlines()]


PRODUCT = '"mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16 {%0, %1}, {%2, %3}, {%4}, {%0, %1};"'
WORDS = [
    "asm",
    "volatile",
    "(",
    ")",
    "{",
    "}",
    ":",
    "::",
    ",",
    ";",
    PRODUCT,
    '"ex2"',
    '""',
    '"+r"',
    '"r"',
    "(x)",
    "x",
]
LINES = [
    "\n",
    "\\\n",
    "\n#define M ",
    "\n#if A\n",
    "\n#endif\n",
    "// c\n",
    "/* c */",
    'R"(mma)"',
    '"',
]


@given(st.lists(st.sampled_from(WORDS + LINES), max_size=40))
@settings(deadline=None, max_examples=400)
def test_no_text_is_too_strange(words):
    text = "void f() { " + " ".join(words)
    assert rewrite(text).text.count("\n") == text.count("\n")


@pytest.mark.parametrize(
    "text",
    [
        'int x asm("y");',
        '__device__ void f() { asm volatile("" ::: "memory"); asm(""); }',
        '__device__ void f() { asm("mma',
        "__device__ void f() { asm",
        '// asm("mma")',
        '#if asm("mma.sync")\n#endif',
    ],
)
def test_left_alone(text):
    assert rewrite(text).text == text


@pytest.mark.usefixtures("cpu_engine")
def test_an_error_behind_it_names_its_line():
    error = refusal(f'asm(\n"{"mma.sync"}"\n".nothing;"\n:\n: "f"(x[0])\n); nowhere = 1;')
    assert "kernel.cu:4:" in error and "PTX instruction mma.sync.nothing. " in error
    assert re.search(r"kernel.cu:9:3: error: .*'nowhere'", error)  # each compiler in its words


# -- check mode

CHECKED = """
__device__ inline void multiply(float (&d)[4], const unsigned (&fa)[4], const unsigned (&fb)[2])
{
    FIRST
}
extern "C" __global__ void f(const unsigned *a, float *c)
{
    __shared__ unsigned s[64];
    s[threadIdx.x] = a[threadIdx.x];
    unsigned fa[4] = {1, 2, 3, 4}, fb[2] = {5, 6};
    float d[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    for (int n = 0; n < 3; n++) multiply(d, fa, fb);
    LAST
    c[threadIdx.x] = d[0] + d[1] + d[2] + d[3];
}
""".replace("FIRST", mma(16, "f32")).replace(
    "LAST", mma(8, "f32").replace("fa[1]", "s[threadIdx.x]")
)

SCRIPT = """
a, c = np.zeros(64, np.uint32), np.empty(64, np.float32)
SourceModule(sys.argv[1], no_extern_c=True).get_function("f")(cuda.In(a), cuda.Out(c), block=(64, 1, 1))
cuda.Context.synchronize()
(record,) = checking.launches()
print(json.dumps([record.sites, [finding.message for finding in record.findings]]))
"""


@pytest.mark.thorough("two runtimes of check mode are compiled")
@pytest.mark.parametrize("tools", ["profile", "profile,memcheck,racecheck,initcheck,synccheck"])
def test_check_mode_counts_only_the_operands(tools):
    """An operand in memory is a load; what the lanes hand each other is none."""
    sites, findings = run_script(SCRIPT, CHECKED, tools=tools)
    line = {text.strip(): number for number, text in enumerate(CHECKED.splitlines(), 1)}
    copy, store = (
        line["s[threadIdx.x] = a[threadIdx.x];"],
        line["c[threadIdx.x] = d[0] + d[1] + d[2] + d[3];"],
    )
    # whether d is in memory depends on the host compiler
    sites = [site for site in sites if site["space"] != "local"]
    assert sorted(
        (site["line"], site["space"], site["op"], site["requests"]) for site in sites
    ) == [
        (copy, "global", "ld", 2),
        (copy, "shared", "st", 2),
        (store - 1, "shared", "ld", 2),
        (store, "global", "st", 2),
    ]
    assert findings == []


def test_assembly_in_host_code_is_left_to_the_hosts_compiler():
    host = """static inline unsigned long long ticks()
{
    unsigned low, high;
    asm volatile("rdtsc" : "=a"(low), "=d"(high));
    return low | (unsigned long long)high << 32;
}
"""
    assert rewrite(host).text == host
    assert "static_assert" in rewrite("__device__ " + host.removeprefix("static ")).text
    body = host[host.index("{") :].replace("return low", "*out = low")
    assert (
        "static_assert"
        in rewrite(f"void f(unsigned long long *out) {{ each([=] __device__ () {body}); }}").text
    )
