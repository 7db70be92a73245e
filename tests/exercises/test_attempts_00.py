"""The exercises of page 00: typical wrong answers, and what the grader says of each."""

from attempts import Wrong, each

GUARD = "    if (blockIdx.x > 0 || threadIdx.x > 0) return;          // one thread does all the work\n"
LOOP = "    for (int i = 0; i < n; ++i)\n"
MINE = "blockIdx.x * blockDim.x + threadIdx.x"
SOLVED = f"for (int i = {MINE}; i < n; i += gridDim.x * blockDim.x)"
QUARTER = "const int i = 4 * thread + j;"
SEVERAL = "several threads compute each of them"
NOBODY = "no thread has stored this element"


def loop(new):
    """The lines in place of the loop and of the return before it."""
    return (GUARD, ""), (LOOP, "".join(f"    {line}\n" for line in new.split("\n")))


WRONG = {
    "00a": (
        Wrong("only the return removed", ((GUARD, ""),), SEVERAL),
        Wrong("every element from the first on", loop(f"for (int i = {MINE}; i < n; ++i)"), SEVERAL),
        Wrong("a step of one block", loop(f"for (int i = {MINE}; i < n; i += blockDim.x)"), SEVERAL),
        Wrong("each block on its own", loop("for (int i = threadIdx.x; i < n; i += blockDim.x)"), SEVERAL),
        Wrong("one element per thread", loop(f"const int i = {MINE};\nif (i < n)"),
              "here the grid has fewer threads than there are elements"),
        Wrong("the threads of this launch, as a number", loop(f"for (int i = {MINE}; i < n; i += 256)"),
              "sum, 777 elements in 3 blocks of 64, is wrong"),
        Wrong("a part for each thread, rounded down",
              loop("const int part = n / (gridDim.x * blockDim.x), first = part * ({MINE});\n"
                   "for (int i = first; i < first + part; ++i)".replace("{MINE}", MINE)), NOBODY),
        Wrong("one element too many", ((SOLVED, SOLVED.replace("i < n", "i <= n")),), "out of bounds, line 10",
              "solution"),
        Wrong("a step of nothing", ((SOLVED, SOLVED.replace("i += gridDim.x * blockDim.x", "i += 0")),),
              "a loop does not end", "solution"),
    ),
    "00b": (
        Wrong("without the block", ((QUARTER, "const int i = j * blockDim.x + threadIdx.x;"),),
              "all blocks take the same elements"),
        Wrong("the factor at the wrong place", ((QUARTER, "const int i = 4 * j + thread;"),), NOBODY),
        Wrong("a step of one warp", ((QUARTER, "const int i = 32 * j + thread;"),), NOBODY),
        Wrong("a quarter of the elements, rounded down", ((QUARTER, "const int i = j * (n / 4) + thread;"),), NOBODY),
        Wrong("the four in reverse order", ((QUARTER, "const int i = 4 * thread + 3 - j;"),),
              "global load sectors, 4,096 elements: 4,096, wanted at most 1,024"),
        Wrong("two and two", ((QUARTER, "const int i = 2 * thread + j % 2 + j / 2 * 2 * gridDim.x * blockDim.x;"),),
              "global load sectors, 4,096 elements: 2,048, wanted at most 1,024"),
        Wrong("no guard", (("if (i < n) sum[i]", "sum[i]"),), "out of bounds, line 6"),
        Wrong("a kernel of another name", (("void add(", "void sums("),), "asks for the kernel add, and this has sums"),
    ),
}


test_a_wrong_answer_gets_its_sentence = each(WRONG)
