"""The exercises of page 09: typical wrong answers, and what the grader says of each."""

from attempts import Wrong, each

ARRAY, STRIDE = "u_tile[WARPS][DEPTH][WN];", "&u_tile[warp][0][0], WN);"


def rows(length):
    return (ARRAY, f"u_tile[WARPS][DEPTH][{length}];"), (STRIDE, f"&u_tile[warp][0][0], {length});")


WRONG = {
    "09a": (
        Wrong("the textbook's padding", rows("WN + 1"), "it has to be an odd one", quick=True),
        Wrong("half of what WMMA asks", rows("WN + 4"), "it has to be an odd one"),
        Wrong("rows of 16 words", rows("WN + 16"), "it has to be an odd one"),
        Wrong("the array alone", rows("WN | 8")[:1], "The array and the stride"),
        Wrong("the stride alone", rows("WN | 8")[1:], "u_tile"),
        Wrong("more rows", ((ARRAY, "u_tile[WARPS][DEPTH + 8][WN];"),), "the rows have to be longer"),
        Wrong("the tile of the mask", (("k_tile[WM][ROWS + 8];", "k_tile[WM][ROWS + 16];"),
                                       ("&k_tile[0][step], ROWS + 8);", "&k_tile[0][step], ROWS + 16);")),
              "shared load conflicts, layer 1: "),
    ),
    "09b": (
        Wrong("all blocks compute all maps", (("    if (blockIdx.y % 2) return;", "    "),),
              "let every second one return at once", of="solution"),
        Wrong("a mask tile for half of the maps", (("half k_tile[2 * WM]", "half k_tile[WM]"),), "k_tile has rows for",
              of="solution"),
        Wrong("only the first sum begins at zero", (("        for (auto &each : sum)\n"
                                                     "            wmma::fill_fragment(each, 0.0f);\n",
                                                     "        wmma::fill_fragment(sum[0], 0.0f);\n"),),
              "Each of the two sums has to begin at zero", of="solution"),
        Wrong("both sums of the same maps", (("&k_tile[t * WM][step]", "&k_tile[0][step]"),),
              "begins at row WM of k_tile", of="solution"),
        Wrong("both stored to the same maps", (("y[(m0 + t * WM + i) * pixels + n]", "y[(m0 + i) * pixels + n]"),),
              "✗", of="solution"),
        Wrong("a store beyond the maps", (("i < WM && m0 + t * WM + i < M;", "i < WM;"),), "out of bounds, line",
              of="solution"),
        Wrong("the other blocks remain", (("    if (blockIdx.y % 2) return;", "    if (blockIdx.y > 2) return;"),),
              "let every second one return at once", of="solution"),
    ),
}


test_a_wrong_answer_gets_its_sentence = each(WRONG)
