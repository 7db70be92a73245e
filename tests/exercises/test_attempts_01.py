"""The exercises of page 01: typical wrong answers, and what the grader says of each."""

from attempts import Wrong, each

ROW, COLUMN = "blockDim.y + threadIdx.y;", "blockDim.x + threadIdx.x;"
GUARD = "    if (h >= Ho || w >= Wo) return;                         // the last tiles extend beyond the map\n"
ZERO = "    y[h * Wo + w] = 0;\n"
CHANNELS = "    for (int c = 0; c < C; ++c)\n"
ROWS = "        for (int p = 0; p < K; ++p)\n"
COLUMNS = "            for (int q = 0; q < K; ++q)\n"
PRODUCT = "                y[h * Wo + w] += x[(c * H + h + p) * W + w + q] * k[((m * C + c) * K + p) * K + q];\n"
ADDED = PRODUCT.replace("y[h * Wo + w] +=", "sum +=")
STORE = "    y[h * Wo + w] = sum;\n"
SUM = (ZERO, "    float sum = 0;\n")


def transposed(line, width):
    """A line with h and w exchanged in the index of y."""
    return line, line.replace("y[h * Wo + w]", f"y[w * {width} + h]")


def per_input(add):
    """A thread takes an input and adds its products to all outputs that need it."""
    return (
        (GUARD, "    if (h >= H || w >= W) return;\n"),
        (ZERO, ""),
        (PRODUCT, f"""                if (h >= p && h - p < Ho && w >= q && w - q < Wo) {{
                    float *to = y + (h - p) * Wo + w - q;
                    {add("x[(c * H + h) * W + w] * k[((m * C + c) * K + p) * K + q]")};
                }}
"""),
    )


WRONG = {
    "01a": (
        Wrong("one of the two lines", ((ROW, "blockDim.y + threadIdx.x;"),),
              "Both lines use the same part of threadIdx"),
        Wrong("h and w exchanged in y alone", (transposed(ZERO, "Ho"), transposed(PRODUCT, "Ho")),
              "as if y was written with its axes h and w swapped"),
        Wrong("and with the wrong width", (transposed(ZERO, "Wo"), transposed(PRODUCT, "Wo")),
              "Threads of different blocks use the same place"),
        Wrong("only in the line with the zero", (transposed(ZERO, "Ho"),), "race, line 19"),
        Wrong("the blocks turned, not their threads",
              (("blockIdx.x / tiles * blockDim.y", "blockIdx.x % tiles * blockDim.y"),
               ("blockIdx.x % tiles * blockDim.x", "blockIdx.x / tiles * blockDim.x")), "outputs were not written"),
        Wrong("tiles counted down the map",
              ((ROW, "blockDim.y + threadIdx.x;"), (COLUMN, "blockDim.x + threadIdx.y;"),
               ("(Wo + blockDim.x", "(Ho + blockDim.x")), "outputs were not written"),
        Wrong("no guard", ((GUARD, ""),), "out of bounds, line 22"),
    ),
    "01b": (
        Wrong("a sum without a zero", ((ZERO, "    float sum;\n"), (PRODUCT, ADDED + STORE)),
              "'sum' may be used uninitialized", quick=True),
        Wrong("a store for every product",
              (SUM, (COLUMNS, COLUMNS.replace("\n", " {\n")), (PRODUCT, f"{ADDED}            {STORE}            }}\n")),
              "store requests, layer 1: 39,200, wanted at most 800", quick=True),
        Wrong("a store for every channel",
              (SUM, (CHANNELS, CHANNELS.replace("\n", " {\n")), (PRODUCT, f"{ADDED}    {STORE}    }}\n")),
              "One store per channel is left"),
        Wrong("a store for every row of the mask",
              (SUM, (ROWS, ROWS.replace("\n", " {\n")), (PRODUCT, f"{ADDED}        {STORE}        }}\n")),
              "The store still stands inside of a loop"),
        Wrong("a thread per input", per_input("*to += {}".format), "This computes a thread per input"),
        Wrong("a thread per input, with atomics", per_input("atomicAdd(to, {})".format),
              "This computes a thread per input"),
        Wrong("a sum per channel",
              ((ZERO, ""), (CHANNELS, CHANNELS.replace("\n", " {\n        float sum = 0;\n")),
               (PRODUCT, f"{ADDED}    {STORE}    }}\n")), "only the last one is left"),
        Wrong("the zero kept", ((ZERO, ZERO + "    float sum = 0;\n"), (PRODUCT, ADDED + STORE)),
              "Two stores per output are left"),
        Wrong("a sum for the whole block",
              ((ZERO, "    __shared__ float sum;\n    sum = 0;\n"), (PRODUCT, ADDED + STORE)), "race, line 20"),
        Wrong("no store", (SUM, (PRODUCT, ADDED)), "It looks as if nothing was written"),
        Wrong("added to y", (SUM, (PRODUCT, ADDED + STORE.replace("=", "+="))), "what y held before the launch"),
        Wrong("a sum of integers", ((ZERO, "    int sum = 0;\n"), (PRODUCT, ADDED + STORE)), "B = 2 (real numbers)"),
    ),
}


test_a_wrong_answer_gets_its_sentence = each(WRONG)
