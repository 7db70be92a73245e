"""The exercises of page 03: typical wrong answers, and what the grader says of each."""

from attempts import Wrong, each

SIGNATURE = "const float *x, const float *k, float *y,\n"
ZERO = "    y[h * Wo + w] = 0;\n"
PRODUCT = "                y[h * Wo + w] += x[(c * H + h + p) * W + w + q] * mask[((m * C + c) * K + p) * K + q];\n"
ADDED = PRODUCT.replace("y[h * Wo + w]", "sum")
HALF = "const int half = (Ho + 1) / 2;"
DOWN = "const int down = h + half < Ho ? half : 0;"
MIDDLE = "Mind the middle row of an odd map"


def arguments(x="const float *x", k="const float *k", y="float *y"):
    return ((SIGNATURE, f"{x}, {k}, {y},\n"),)


WRONG = {
    "03a": (
        Wrong("a promise for the inputs", arguments("const float *__restrict__ x", "const float *__restrict__ k"),
              "y has to promise it, too"),
        Wrong("a promise for the mask", arguments(k="const float *__restrict__ k"), "y has to promise it, too"),
        Wrong("a sum in a register", ((ZERO, "    float sum = 0;\n"), (PRODUCT, f"{ADDED}    y[h * Wo + w] = sum;\n")),
              "changed lines: 3, wanted at most 1"),
        Wrong("the word before the star", arguments(y="float __restrict__ *y"),
              "'__restrict__' qualifiers cannot be applied to 'float'"),
        Wrong("the word of C", arguments(y="float *restrict y"), "compiles\n  line 4: error: expected"),
        Wrong("pointers that may not move", arguments("const float *const x", y="float *const y"),
              "assignment of read-only parameter 'x'"),
        Wrong("outputs that may not change", arguments(y="const float *__restrict__ y"), "read-only location"),
        Wrong("volatile", arguments(y="volatile float *y"), "stores per output, layer 1: 50, wanted at most 2"),
    ),
    "03b": (
        Wrong("half of the rows, rounded down", ((HALF, "const int half = Ho / 2;"),), MIDDLE, "solution"),
        Wrong("the middle row not minded", ((DOWN, "const int down = half;"),), "may lie beyond the map", "solution"),
        Wrong("the guard of one output", (("if (h >= half ||", "if (h >= Ho ||"),),
              "Threads of the lower half", "solution"),
        Wrong("a sum without a zero", (("below = 0;", "below;"),), "'below' may be used uninitialized", "solution"),
        Wrong("the same input for both", (("h + down + p", "h + p"),), "right\n", "solution"),
        Wrong("the row below", ((HALF, "const int half = 1;"),), MIDDLE, "solution"),
        Wrong("one sum stored twice", (("+ w] = below;", "+ w] = sum;"),), "right\n", "solution"),
    ),
}


test_a_wrong_answer_gets_its_sentence = each(WRONG)
