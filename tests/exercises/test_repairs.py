"""The lines of a wrong attempt that have to change, found by trials."""

import itertools
import time

import pytest

from labkit.exercises.attempts import run_texts
from labkit.exercises.differences import apply, list_differences
from labkit.exercises.exercise import exercise
from labkit.exercises.grade import grade
from labkit.exercises.mutations import list_mutations
from labkit.exercises.repairs import describe_repair, find_repair

pytestmark = pytest.mark.core("a sentence of the grader that a run has shown")

SOLUTION = """
extern "C" __global__ void add(const float *x, float *y, int rows, int n)
{
    __shared__ float tile[32];
    const int row = blockIdx.x, lane = threadIdx.x;
    for (int i = lane; i < n; i += 32) {
        tile[lane] = x[row * n + i];
        __syncthreads();
        if (row < rows && i < n)
            y[row * n + i] = tile[31 - lane];
        __syncthreads();
    }
}
"""
OUTCOME = "the kernel is right"


def find(wrong, is_right, mutations=()):
    """Return what `find_repair` finds, where each trial calls `is_right` with a text."""
    return find_repair(wrong, SOLUTION, lambda texts: map(is_right, texts), is_right, mutations)


def edit(*edits):
    """Return the solution with these edits, each an old text and a new one."""
    text = SOLUTION
    for old, new in edits:
        assert old in text
        text = text.replace(old, new, 1)
    return text


def is_the_solution(text):
    """Return whether a text is the solution but for white space: a trial that runs nothing."""
    return "".join(text.split()) == "".join(SOLUTION.split())


@pytest.mark.parametrize(
    ("edits", "says"),
    [
        ([("i < n)", "i <= n)")], "Line 9 has `<=` in a comparison: the case in which both sides"),
        ([("row < rows && ", "")], "With another condition in line 9, the kernel is right"),
        ([("[row * n + i] = tile", "[row + i] = tile")], "With another index of `y` in line 10,"),
        (
            [("[31 - lane]", "[lane]")],
            "With another index of `tile` in line 10, the kernel is right",
        ),
        ([("tile[32]", "tile[64]")], "With another size of `tile` in line 4, the kernel is right"),
        ([("i += 32", "i += 64")], "With another step in line 6, the kernel is right"),
        ([("= lane;", "= row;")], "With another first value in line 6, the kernel is right"),
        ([("blockIdx.x, lane", "blockIdx.y, lane")], "With another value for `row` in line 5,"),
        ([("        __syncthreads();\n        if", "        if")], "With a barrier behind line 7,"),
        (
            [("            y[row", "            y[0] = 0;\n            y[row")],
            "Without `y[0] = 0;` in",
        ),
        (
            [("        tile[lane] = x[row * n + i];\n", "")],
            "With a statement that sets `tile` behind line 6, the kernel is right",
        ),
        ([("int rows, int n", "int n, int rows")], "in line 2, the kernel is right"),
        (
            [
                (
                    "        tile[lane] = x[row * n + i];\n        __syncthreads();\n",
                    "        __syncthreads();\n        tile[lane] = x[row * n + i];\n",
                ),
            ],
            "With line 8 moved behind line 6, the kernel is right.",
        ),
        # a statement that is left with the opposite condition
        (
            [("if (row < rows && i < n)", "if (row >= rows) continue;")],
            "With another condition in line 9, the kernel",
        ),
        # two lines that need each other
        (
            [("row = blockIdx.x", "row = 0"), ("31 - lane", "lane")],
            "With another value for `row` in line 5 and with another index of `tile` in line 10,",
        ),
    ],
)
def test_the_lines_that_have_to_change_are_named(edits, says):
    wrong = edit(*edits)
    changes = find(wrong, is_the_solution)
    assert is_the_solution(apply(wrong, changes))
    described = describe_repair(wrong, changes, OUTCOME)
    assert says in described
    assert described.endswith("the kernel is right.")


def test_only_what_is_needed_changes():
    """Other lines of the attempt differ, too, and are as right as the solution's."""
    wrong = edit(
        (
            "const int row = blockIdx.x, lane = threadIdx.x;",
            "int row = blockIdx.x, lane = threadIdx.x;",
        ),
        ("row * n + i] = tile", "i + row * n] = tile"),
        ("i < n; i +=", "i < rows; i +="),
    )

    def is_right(text):
        """Return whether the loop's end is right."""
        return "i < n; i +=" in text

    (change,) = find(wrong, is_right)
    assert (change.first, change.last, change.right.strip()) == (6, 6, "n")


def test_names_and_comments_are_no_differences():
    renamed = (
        SOLUTION.replace("lane", "t").replace("tile", "s_x").replace("{\n", "{  // begins\n", 1)
    )
    assert not list_differences(renamed, SOLUTION)
    assert not find(renamed, is_the_solution)


def test_an_attempt_that_goes_another_way_gets_no_sentence():
    other = "\n".join(f"int a{i} = f({i}), b{i};" for i in range(100))
    tried = []
    assert not find(other, tried.append)
    assert not describe_repair(other, (), OUTCOME)
    # four lines, none of which is enough and none needless: too many to name
    wrong = edit(
        ("tile[32]", "tile[64]"), ("blockIdx.x", "0"), ("i += 32", "i += 64"), ("31 -", "30 -")
    )
    assert not find(wrong, is_the_solution)


def test_an_attempt_that_goes_another_way_is_tried_with_small_changes():
    other = """
__global__ void add(const float *x, float *y, int H, int W)
{
    int h = blockIdx.x, w = threadIdx.x;
    if (h <= H && w < W)
        y[h * W + w] = x[h * W + w + 1];
}
"""
    texts = {apply(other, [change]) for change in list_mutations(other)}
    for right in (
        "h < H &&",
        "(h <= H || w",
        "h <= W",
        "threadIdx.y",
        "+ w ];",
        "+ w + 2]",
        "y[w * W",
    ):
        assert any(right in text for text in texts), right
    (change,) = find(other, lambda text: "h < H &&" in text, list_mutations(other))
    assert describe_repair(other, [change], OUTCOME) == (
        "Line 5 has `<=` in a comparison: the case in which both sides are equal does not belong to it. With another "
        "condition in line 5, the kernel is right."
    )
    # barriers are added near the suspected lines, and these come first
    (first, *_) = changes = list_mutations(other, {6})
    assert first.first == 6
    assert any("__syncthreads" in apply(other, [each]) for each in changes)
    # a suspected access gets a bound, and the lines that set what it uses come next
    bounded = [each for each in changes if "`h * W + w < W`" in each.phrase]
    assert "if (h * W + w < W) y[h" in apply(other, bounded)
    (conditional,) = (each for each in changes if "the condition of line 5" in each.phrase)
    assert "if (h <= H && w < W) y[h" in apply(other, [conditional])
    # so does each variable of its index, by what another one is compared with
    assert any("if (h < W) y[h * W" in apply(other, [each]) for each in changes)
    changed = [each.first for each in changes]
    assert 5 not in changed[: changed.index(4)]


@pytest.mark.parametrize(
    ("lines", "right", "phrase"),
    [
        ("total[i] = a;\ntotal[i + 1] = b;", "total[i + 1] = b;\ntotal[i] = a;", "lines 4 and 5"),
        ("const int at[2] = {a, b};", "{ b,a}", "elements 0 and 1"),
        ("f[0] = a; f[1] = b + b;", "f[0] = b + b; f[1] = a;", "`f[0]` and `f[1]`"),
        ("if (a > b || c > d)", "if (a >= b || c >= d)", ""),
        (
            "while (a < b) {\n    if (a > 0)\n        total[0] = a;\n}",
            "}\nif (a > 0) total[0] = a;",
            "lines 5 and 6",
        ),
        ("int sum = 0;\nfor (int i = 0; i < n; ++i) {", "{ sum = 0;", "`sum = 0;`"),
        ('total[0] = a;\nasm("bar");', '{\n\n\nasm("bar");', ""),
        ("if (a > b && b > n) ++b;", "if (a > b ) ++b;", ""),
        ("total[b] = a;", "total[b - 1] = a;", ""),
        ("a = n / K;\nb = n % C1;", "a = n / C1;", ""),
        ("a = n / K, b = n % C1;", "a = n / K, b = n % K;", ""),
        ("total[a] = a / 2 * 8 + b % 2;", "a % 2 * 8 + b / 2", "`/` and `%` exchanged in line 4"),
        ("total[0] = total[8 * 8] + 8;", "total[8 * n / 2] + 8", "`* n / 2` in place of `* 8`"),
        ("a += b * 32;", "a += b * blockDim.x", ""),
        ("total[a / b] = b;", "total[a / b % b]", ""),
        ("total[a + b] = b;", "total[a + 2 * b]", ""),
        ("total[0] = __shfl_down_sync(~0, a, b);", "__shfl_xor_sync(~0, a, b)", ""),
        (
            "for (int i = 0; i < n; ++i) {\n    int sum = 0;\n    sum += i;\n}",
            "int sum = 0; for (int i = 0; i < n; ++i) {\n    sum += i;",
            "`int sum = 0;` before the loop in line 4",
        ),
        ("for (auto each : total)\n    each = 0;", "(auto &each :", ""),
        ("total[a + 8] = 1;\ntotal[a] = 2;", "total[(a + 8)] = 2", "`a + 8` in place of `a`"),
        ("total[a] = b;\nif (a > n) {\n    return;\n}\n++b;", "total[a] = b;\n\n++b;", ""),
        ("if (a > n)\n    total[a] = b;", "{\n\n\n    total[a] = b;", ""),
        ("f(total[a], b);", "f(b, total[a])", "arguments 1 and 2 of `f` in line 4"),
        ("total[a + 2 * b] = 1;", "total[2 * a + 2 * b]", ""),
        ("total[a * b] = 1;", "total[a * b * 32]", ""),
        ("total[a * K * K] = 1;", "total[a * C * K * K]", "`C * K * K` in place of `K * K`"),
        ("fill_fragment(a, 0);\nfor (; a < b;) {", "{ fill_fragment(a, 0);", "with line 4 again"),
        ("total[(a * n + b) * n] = 1;", "total[(b) * n]", ""),
        ("if (a >= n) { a -= n; ++b; }", "while (a >= n) { a -= n", "`while` in place of `if`"),
        ("int c = 1, d = 2;\ntotal[c] = d;", "total[d] = c;", "`c` and `d` exchanged in line 5"),
        ("float top = 0;\ntop = fmaxf(top, b);", "top = -INFINITY;", "in place of 0 in line 4"),
        ("a = max(a, b < n ? total[b] : 0);", "total[b] : -INFINITY)", "in place of 0 in line 4"),
        ("int t = threadIdx.x;\nif (t >= a) ++b;", "if (t % 32 >= a)", ""),
        ("int warp = threadIdx.y;\na = 32 * warp;", "a = 32 * (warp - 1);", ""),
        ("float of_a, of_b;\nb = of_a + of_a;", "b = of_b + of_b;", "`of_b` in place of `of_a`"),
        ("a += n * b;", "a += n * b / 2;", "with `n * b / 2` in place of `n * b` in line 4"),
        ("float2 v;\nb = v.x;", "b = v.y;", ""),
        ("const int first = 2 * a;\ntotal[a] = 1;", "total[first] = 1;", ""),
        ("total[a * C * K] = 1;", "total[a * C * K * K]", "`K * K` in place of `K`"),
        (
            "for (int tile = 0; tile < a; ++tile)\n    total[tile] = min(96, n);",
            "min(96, n - 96 * tile)",
            "`n - 96 * tile` in place of `n` in line 5",
        ),
        (
            "a += gridDim.x * gridDim.y * blockDim.x;",
            "a += gridDim.x * blockDim.x;",
            "without the factor `gridDim.y`",
        ),
        ("const int outputs = n - 95;\na = outputs / 96;", "a = n / 96;", ""),
        ("while (a < b * n)\n    ++a;", "while (a < 2 * b * n)", ""),
        ("total[Ho * Wo] = 1;", "total[H * W] = 1;", "`H * W` in place of `Ho * Wo`"),
        ("int tiles = n / 96;", "tiles = (n + 96 - 1) / 96;", "`n / 96` in line 4 rounded up"),
        (
            "__shared__ int s[9];\nif (a >= n) return;\ns[0] = total[a];\ntotal[a] = s[b];",
            "s[0] = total[a < n ? a : 0];\nif (a < n) total[a] = s[b];",
            "in place of the return in line 5",
        ),
    ],
)
def test_a_mutation_undoes_a_mistake(lines, right, phrase):
    kernel = f"__global__ void f(int *total, int a, int b, int n)\n{{\n\n{lines}\n}}\n"
    mutations = list_mutations(kernel)
    assert any(right in apply(kernel, [each]) and phrase in each.phrase for each in mutations)
    texts = [apply(kernel, [each]) for each in mutations]
    assert len({*texts, kernel}) == len(texts) + 1  # each text once, and none is the kernel
    assert all(text.count("bar") == kernel.count("bar") for text in texts if "asm" in text)


def test_the_lines_that_are_not_the_solution_s_are_changed_first():
    lines = ["a += b;", "b += a;", "total[a] = n - 1;"]
    kernel = "__global__ void f(int *total, int a, int b, int n)\n{\n" + "\n".join(lines) + "\n}\n"
    changed = [each.first for each in list_mutations(kernel, (), kernel.replace("+= a", "-= a"))]
    assert changed[0] == 4
    # the likelier changes come first, and the others begin with those of line 4 again
    turns = [line for line, _ in itertools.groupby(changed)]
    assert turns.count(4) == 2 and turns[0] == 4 and turns[-1] != 4
    doubled = "__global__ void f(int n, int b)\n{\nfor (int d = 1; d < n; d *= 2) ++b;\n}\n"
    assert not any("d <= n" in apply(doubled, [each]) for each in list_mutations(doubled))
    rounded = "__global__ void f(int n, int b)\n{\nint tiles = (n + b - 1) / b;\n}\n"
    texts = ["".join(apply(rounded, [each]).split()) for each in list_mutations(rounded)]
    assert texts and not any("(n+b)/b" in text for text in texts)


def test_a_mutation_stays_in_its_kernel():
    kernels = """
__global__ void f(float *x, int w)
{
    __shared__ float s[9];
    if (i >= w) return;
    s[0] = x[i]++ / w;
    x[i] <<= s[0] / g(i);
}
__global__ void h(float *x, int n, int i)
{
    x[i] = x[8 * 8];
}
"""
    mutations = list_mutations(kernels, {11})
    changed = [apply(kernels, [each]) for each in mutations]
    assert any("if (8 * 8 < n) x[i]" in text for text in changed)
    assert not any("< w) x[i] = x" in text or "/ g % g" in text for text in changed)
    (kept,) = (apply(kernels, [each]) for each in mutations if "of the return" in each.phrase)
    assert "s[0] = x[i]++ / w" in kept and "if (i < w) x[i] <<=" in kept
    assert kept.endswith("x[i] = x[8 * 8];\n}\n")


@pytest.mark.parametrize(
    "text", ["__global__ " + "(" * 9000, "__global__()" * 800, "a = 1" + " * 2" * 4000]
)
def test_mutations_of_a_hostile_text_are_listed_at_once(text):
    kernel = f"__global__ void f(int n)\n{{\n{text}\n}}\n"
    began = time.process_time()
    list_mutations(f"{text};{kernel}", {3})
    assert time.process_time() - began < 30  # it took over a minute, and takes a tenth of a second


def test_a_condition_that_is_added_is_named_by_its_own_comparison():
    wrong = edit(("if (row < rows && i < n)\n", ""))
    change = list_differences(wrong, SOLUTION)
    assert "a condition that compares with `n`" in describe_repair(wrong, change, OUTCOME)


@pytest.mark.parametrize("number", ["03b", "P1a"])
def test_texts_are_run_on_one_case(number):
    """A kernel in place of a rung's, and one on arrays; the solution, one that is wrong, one that does not compile."""
    asked = exercise(number)
    drawn = asked.with_seed("a seed")
    wrong = asked.solution.replace("threadIdx.x", "threadIdx.y")
    texts = [asked.solution, wrong, asked.solution + "}", asked.solution + " "]
    # As before each search: with an empty cache, the engine's own part takes longer to compile than a
    # text may take.
    assert grade(number, wrong, quiet=True, record=False, search=False).verdict == "not right yet"
    for case in drawn.subject.cases[:1]:
        answers = [*run_texts(drawn, case.name, texts, time.monotonic() + 100)]
        assert answers == [True, False, False, True]
    assert [*run_texts(drawn, case.name, texts, time.monotonic() - 1)] == [False] * 4


def test_ctrl_c_ends_the_search_and_keeps_the_answer(monkeypatch):
    def interrupt(*_):
        """Stop, as Ctrl-C does."""
        raise KeyboardInterrupt

    monkeypatch.setattr("labkit.exercises.grade.find_repair", interrupt)
    asked = exercise("P1a")
    wrong = asked.solution.replace("out[column * rows", "out[column * (rows | 1)")
    graded = grade("P1a", wrong, quiet=True, record=False)
    assert graded.verdict == "not right yet"
    assert not graded.mistake


def test_a_wrong_result_without_a_sentence_gets_the_line_from_a_run():
    """A typical mistake of no exercise: the grader tries, and says in which line it has to change."""
    asked = exercise("P1a")
    wrong = asked.solution.replace("out[column * rows", "out[column * (rows | 1)")
    assert wrong != asked.solution
    graded = grade("P1a", wrong, quiet=True, record=False)
    assert "in line 6, the goal is met." in graded.mistake
