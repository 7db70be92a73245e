"""The rewriter: what it must find, what it must leave alone, and that no line moves."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hostcuda import source
from hostcuda.frontend import preprocess
from hostcuda.frontend.hostcode import Names
from hostcuda.frontend.rewrite import rewrite
from hostcuda.frontend.scan import Scan
from hostcuda.frontend.tokens import Tokens, find_angle_end, find_pairs, split_spans, walk

pytestmark = pytest.mark.core("every source passes through it")


def registered(text):
    """Return the registrations that the rewritten text gained, in order."""
    new = rewrite(text).text
    return [
        part.split("\n")[0]
        for part in new.replace(" HOSTCUDA_KERNEL", "\0HOSTCUDA_KERNEL").split("\0")[1:]
    ]


@pytest.mark.parametrize(
    "head",
    [
        "__global__ void f(float *x, int n)",
        "void __global__ f(float *x, int n)",
        "static __global__ inline void f(float *x, int n)",
        'extern "C" __global__ void f(float *x, int n)',
        "__global__ void __launch_bounds__(256) f(float *x, int n)",
        "__global__ __launch_bounds__(256, 2) void f(float *x, int n)",
        "__global__ void f(float *x, int n) __attribute__((cold))",
        "__global__\nvoid\nf(\n  float *x, // the data {\n  int n /* ) */\n)",
        "[[maybe_unused]] __global__ void f(float *x, int n)",
    ],
)
def test_kernel_heads(head):
    result = rewrite(head + " { if (n) { x[0] = '}'; } }")
    (kernel,) = result.kernels
    assert kernel.name == "f"
    assert kernel.parameters == ("float *x", "int n")
    bounds = "_BOUNDS((256), f)" if "launch" in head else "(f)"
    assert result.text.endswith("} HOSTCUDA_KERNEL" + bounds)


@pytest.mark.parametrize(
    "text",
    [
        "// __global__ void f() {}",
        "/* __global__ void f() {}\n */",
        "// continued \\\n__global__ void f() {}",
        'const char *s = "__global__ void f() {}";',
        'const char *s = "\\"__global__ void f() {}";',
        'const char *s = R"(__global__ void f() {} ")";',
        'const char *s = u8R"end(__global__ void f() {} )" )end";',
        "__global__ void f(int);",
        "#error __global__ void f() {}",
        "extern template __global__ void f(int *);",
    ],
)
def test_no_kernel_here(text):
    assert registered(text) == []
    assert rewrite(text).text == text


def test_literals_hide_no_braces():
    text = "__global__ void f() { char c = '{', d = '\\''; int n = 1'000'000; const char *s = \"}\"; }\nint after;"
    assert rewrite(text).text == text.replace('"}"; }', '"}"; } HOSTCUDA_KERNEL(f)')


def test_parameters_with_commas_inside():
    (kernel,) = rewrite(
        "__global__ void f(Pair<int, float> p, void (*g)(int, int), int (&a)[2]) {}"
    ).kernels
    assert kernel.parameters == ("Pair<int, float> p", "void (*g)(int, int)", "int (&a)[2]")


@pytest.mark.parametrize(
    ("declaration", "expected"),
    [
        ("extern __shared__ float s[];", "float *s = (float *)hostcuda::dynamic_shared();"),
        (
            "extern __shared__ __align__(16) unsigned char s[];",
            "unsigned char *s = (unsigned char *)hostcuda::dynamic_shared();",
        ),
        (
            "extern __align__(8) __shared__ float4 s[ ];",
            "float4 *s = (float4 *)hostcuda::dynamic_shared();",
        ),
        (
            "extern __shared__ alignas(128) char s[];",
            "char *s = (char *)hostcuda::dynamic_shared();",
        ),
        ("__shared__ extern float s[];", "float *s = (float *)hostcuda::dynamic_shared();"),
        (
            "extern volatile __shared__ int s[];",
            "volatile int *s = (volatile int *)hostcuda::dynamic_shared();",
        ),
        (
            "extern __shared__ Pair<int, float> s[];",
            "Pair<int, float> *s = (Pair<int, float> *)hostcuda::dynamic_shared();",
        ),
        (
            "extern __shared__ float s[][32];",
            "float (*s)[32] = (float (*)[32])hostcuda::dynamic_shared();",
        ),
        ("extern __shared__ float *s[];", "float * *s = (float * *)hostcuda::dynamic_shared();"),
        (
            "extern __shared__ float a[], b[];",
            "float *a = (float *)hostcuda::dynamic_shared(); float *b = (float *)hostcuda::dynamic_shared(0);",
        ),
        ("if (n) extern __shared__ int s[];", "if (n) int *s = (int *)hostcuda::dynamic_shared();"),
        ("__shared__ float s[32];", "__shared__ float s[32];"),
    ],
)
def test_dynamic_shared_in_a_function(declaration, expected):
    assert f"{{ {expected} }}" in rewrite(f"__device__ void f(int n) {{ {declaration} }}").text


def test_dynamic_shared_whose_address_is_taken():
    text = "__device__ void f() { extern __shared__ char s[], t[]; g((float *)&s, &t[0], a && t); }"
    assert (
        "{ char (&s)[] = *(char (*)[])hostcuda::dynamic_shared(); char *t = (char *)"
        in rewrite(text).text
    )


def test_dynamic_shared_at_namespace_scope():
    assert rewrite("extern __shared__ float s[];").text.startswith(
        'extern __thread float *const s asm("hostcuda_dynamic_shared") __attribute__'
    )
    assert rewrite('extern "C" { extern __shared__ double s[][4]; }').text.startswith(
        'extern "C" { extern __thread double (*const s)[4] asm("hostcuda_dynamic_shared")'
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "}",
        "}}}{{{",
        '"',
        "'",
        "/*",
        'R"(',
        "#",
        "#if\n#else\n#endif\n#endif",
        "__global__",
        "__global__ void f(",
        "__global__ void f(int",
        "__global__ = (",
        "extern __shared__",
        "template <",
        "#pragma unroll",
    ],
)
def test_broken_sources_are_left_to_the_compiler(text):
    assert rewrite(text).text == text


def test_deep_nesting_is_read():
    """Tens of thousands of braces are read, too: a grader reads what others have sent."""
    depth = 20_000
    scan = Scan("namespace n { void f() " + "{" * depth + "}" * depth + "}")
    first, innermost = sorted(scan.closing)[1], max(scan.closing)
    assert len(scan.closing) == depth + 1
    assert (
        scan.scope(first) == "n"
        and scan.scope(first + 1) is None
        and scan.scope(innermost + 1) is None
    )
    assert scan.function(innermost + 1) == first
    assert scan.scope(scan.closing[first] + 1) == "n"


WORDS = """__global__ void f g ( ) { } ; , < > [ ] = & * template extern __shared__ __align__(8) float s[]
    "C" " ' // /* */ R"( )" # __launch_bounds__(9) 1'0"""
LINES = [
    "namespace n",
    "\n",
    "\\\n",
    "\n#if A",
    "\n#else\n",
    "\n#endif\n",
    "\n#define M ",
    "\n#include <x>\n",
]


@given(st.lists(st.sampled_from(WORDS.split() + LINES), max_size=40))
@settings(deadline=None, max_examples=400)
def test_no_text_is_too_strange(tokens):
    """Whatever the text, no line of it moves, and without dynamic shared memory words are only added."""
    text = " ".join(tokens)
    new = rewrite(text).text
    assert new.count("\n") == text.count("\n")
    if "extern" not in tokens:
        remaining = iter(new)
        assert all(character in remaining for character in text)


def test_a_text_without_its_end_is_split_once():
    assert len(preprocess._TOKEN.findall('x "' + '\\"' * 20_000)) == 2


def test_what_only_looks_like_a_launch_is_left_alone():
    assert rewrite("int main() { cout <<< 3; }", names=Names()).text == "int main() { cout <<< 3; }"


def test_a_template_is_told_from_its_instantiation():
    text = "template <class T> __global__ void f(T *x) {}\ntemplate __global__ void f<int>(int *);"
    assert [kernel.template for kernel in rewrite(text).kernels] == [True, False]


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("a->*b >>= 1'000u, µ2", "word a sign ->* word b sign >>= number 1'000u sign , word µ2"),
        ("x xor_eq .5e-3f; // }", "word x sign ^= number .5e-3f sign ;"),
        (
            """L'"' + u8"a'b" + R"x(')x";""",
            """text ' ' sign + text "   " sign + text "     " sign ;""",
        ),
        ("#error don't\nint i;", "sign # word error word don sign ' word t word int word i sign ;"),
    ],
)
def test_tokens_of_a_source(text, tokens):
    """A literal with a prefix has both of its quotation marks: nothing behind it is taken for its content."""
    found = source.tokens(text)
    assert " ".join(f"{token.kind} {token.text}" for token in found) == tokens
    masked = source.code_only(text)
    assert len(masked) == len(text) and "}" not in masked
    assert all(
        token.kind != "word" or token.text == text[token.start : token.end] for token in found
    )


def test_brackets_of_a_text():
    code = "f<a<3>, (x > y)>(g[i], {1}) }"
    assert [*find_pairs(code, "()")] == [(8, 14, 0), (16, 26, 0)]
    assert [*find_pairs("{{}}}{", "{}")] == [(1, 2, 1), (0, 3, 0)]
    assert find_angle_end(code, 1) == 15 and find_angle_end("a < b;", 2) is None
    assert [code[slice(*span)] for span in split_spans(code, ",", 2, 15)] == ["a<3>", " (x > y)"]
    assert [depth for _, depth, _ in walk("(])", "[][()]")] == [1, 0, -1]
    assert [depth for _, depth, _ in walk("(])", "[][()]", back=True)] == [1, 2, 1]
    tokens = Tokens("a<b<3>>(c) < d", 0, 14)
    assert tokens.match_angle(1, 14) == 5 and tokens.match_angle(5, -1) == 1
    assert tokens.match_angle(9, 11) is None and tokens.around[7] == tokens.match[8] == 6
    with pytest.raises(ValueError, match="not paired"):
        Tokens("(]", 0, 2)


def test_functions_of_a_source():
    """Each has its whole head; neither types, arrays, methods nor specializations are functions."""
    text = """#define BEGIN() { \\
    }
template <int N = 2, class T> __device__ T half(T v) noexcept(true) { return v / N; }
template <> __device__ int half<2, int>(int v) { return v; }
struct alignas(16) S { int size() { return 1; } };
int table[] = {1, 2}; auto twice = [](int i) { return 2 * i; };
extern "C" __global__ void __launch_bounds__(256) conv(float *x) { if (x) { *x = 0; } }
"""
    spans = source.functions(text)
    assert [text[slice(*span)].split("{")[0].strip() for span in spans.values()] == [
        "template <int N = 2, class T> __device__ T half(T v) noexcept(true)",
        'extern "C" __global__ void __launch_bounds__(256) conv(float *x)',
    ]
    assert [*spans] == ["half", "conv"] and text[: spans["conv"][1]].endswith("*x = 0; } }")
