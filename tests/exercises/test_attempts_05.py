"""The exercises of page 05: typical wrong answers, and what the grader says of each."""

from attempts import Wrong, each

STRIDED = "for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < H * W; i += gridDim.x * blockDim.x) {"
WINDOW = "if (0 <= h && h < Ho && 0 <= w && w < Wo)"
TAIL = "i < min(TILE, depth - step)"
STEPS = "for (int step = 0; step < depth; step += TILE)"
SUM = "            sum += k_tile"

WRONG = {
    "05a": (
        Wrong("a thread per input under a grid for outputs", ((STRIDED, "const int i = blockIdx.x * blockDim.x + "
              "threadIdx.x;\n    if (i < H * W) {"),), "Let each thread take several inputs, one whole grid apart",
              of="solution", quick=True),
        Wrong("no window above or to the left", ((WINDOW, "if (h < Ho && w < Wo)"),), "limits on all four sides",
              of="solution"),
        Wrong("no window below or to the right", ((WINDOW, "if (0 <= h && 0 <= w)"),), "limits on all four sides",
              of="solution"),
        Wrong("the window on the other side", (("h = row - p, w = column - q", "h = row + p, w = column + q"),),
              "elements of u that no thread has written", of="solution"),
        Wrong("a load for every window", (("] = value", "] = x[(h + p) * W + w + q]"),),
              "Read it into a variable, before the loops", of="solution"),
        Wrong("a block's stride", (("i += gridDim.x * blockDim.x", "i += blockDim.x"),),
              "Several threads take the same inputs", of="solution"),
        Wrong("rows and columns of a window swapped", (("(p * K + q) * pixels", "(q * K + p) * pixels"),),
              "the rows and columns of the mask were swapped", of="solution"),
        Wrong("rows as long as the map", (("row = i / W, column = i % W", "row = i / Wo, column = i % Wo"),),
              "elements of u that no thread has written", of="solution"),
        Wrong("the old guard remains", ((STRIDED, "const int n = blockIdx.x * blockDim.x + threadIdx.x;\n    if (n >= "
              "pixels) return;\n    " + STRIDED),), "elements of u that no thread has written", of="solution"),
    ),
    "05b": (
        Wrong("the depth, not what is left of it", (("depth - step)", "depth)"),),
              "✗ shared loads per warp, layer 1, gemm: 128, wanted at most 98", of="solution"),
        Wrong("no limit at the tile", ((TAIL, "i < depth - step"),), "The tiles have TILE rows", of="solution"),
        Wrong("one row too many", ((TAIL, "i <= min(TILE, depth - step)"),), "The tiles have TILE rows", of="solution"),
        Wrong("the last step left out", ((STEPS, "for (int step = 0; step + TILE <= depth; step += TILE)"),),
              "Some products are missing, or too many", of="solution"),
        Wrong("every step is short", (("depth - step)", "depth % TILE)"),),
              "how many rows does each step multiply", of="solution"),
        Wrong("a thread's row decides", ((SUM, "            if (row < depth)\n    " + SUM),),
              "do all threads multiply the same ones?"),
        Wrong("only rows with a map", (("        #pragma unroll\n        for (int i = 0; i < TILE; ++i)\n",
              "        for (int i = 0; i < TILE && m < M; ++i)\n"),), "Layer 2 has a map for every thread"),
        Wrong("a return at the last row", ((SUM, "            if (step + i == depth) return;\n            else\n    "
              + SUM),), "✗ right"),
        Wrong("no guard for rows that are not multiplied", (("row < depth && n < pixels", "n < pixels"),),
              "out of bounds, line", of="solution"),
    ),
}


test_a_wrong_answer_gets_its_sentence = each(WRONG)
