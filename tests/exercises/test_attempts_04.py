"""The exercises of page 04: typical wrong answers, and what the grader says of each."""

from attempts import Wrong, each

COMPLETE = "        __syncthreads();                                    // the tile is complete\n"
READ = "        __syncthreads();                                    // all threads have read it: next channel\n"
GUARD = "        if (h < Ho && w < Wo)                               // no output, no sum\n"
FILLED = "        __syncthreads();                                    // tile and weights are complete\n"
USED = "        __syncthreads();                                    // all threads have read them: next channel\n"

WRONG = {
    "04a": (
        Wrong("the textbook's padding", (("[SIDE][SIDE]", "[SIDE][SIDE + 1]"),),
              "SIDE + 1 is the padding for a column", quick=True),
        Wrong("a sum without a zero", (("float sum = 0;", "float sum;"),), "'sum' may be used uninitialized"),
        Wrong("no barrier before the sum", ((COMPLETE, ""),), "is a barrier missing"),
        Wrong("no barrier after the sum", ((READ, ""),), "race, line"),
        Wrong("a store beyond the map", (("h < Ho && w < Wo", "h <= Ho && w < Wo"),), "out of bounds, line"),
        Wrong("a row more", (("[SIDE][SIDE]", "[SIDE + 1][SIDE]"),), "This is a row more"),
        Wrong("the mask flipped", (("C + c) * K + p) * K + q];", "C + c) * K + K - 1 - p) * K + K - 1 - q];"),),
              "the mask was flipped"),
    ),
    "04b": (
        Wrong("conflicts remain", (("[TILE + 32]", "[SIDE]"),), "✗ wavefronts per shared load, layer 2: 1.13,",
              of="solution"),
        Wrong("the textbook's padding", (("[TILE + 32]", "[SIDE + 1]"),), "SIDE + 1 is the padding for a column",
              of="solution"),
        Wrong("all threads sum", ((GUARD, ""),), "✗ shared load wavefronts, layer 2: 282,240, wanted at most 205,000",
              of="solution"),
        Wrong("threads without an output return", ((GUARD, ""), ("    for (int c = 0;", "    if (h >= Ho || w >= Wo) "
              "return;\n    for (int c = 0;")), "put the condition before the loops of the sum", of="solution"),
        Wrong("threads without an output go on", ((GUARD, "        if (h >= Ho || w >= Wo) continue;\n"),),
              "all threads of a block have to reach both barriers", of="solution"),
        Wrong("barriers inside of the guard", ((GUARD, ""), (FILLED, "        if (h < Ho && w < Wo) {\n" + FILLED),
              (USED, USED + "        }\n")), "all threads of a block have to reach both barriers", of="solution"),
        Wrong("no halo of the last tiles", (("        for (int i = 0; i < SIDE; i += TILE)", "        if (h < Ho && "
              "w < Wo)\n            for (int i = 0; i < SIDE; i += TILE)"),), "load inputs for the others",
              of="solution"),
        Wrong("only the columns are guarded", (("if (h < Ho && w < Wo)                               // no", "if (w < "
              "Wo)  // no"),), "✗ shared load wavefronts, layer 2: 282,240", of="solution"),
        Wrong("sums without a zero", (("sum[MAPS] = {};", "sum[MAPS];"),), "nothing sets it to zero", of="solution"),
    ),
}


test_a_wrong_answer_gets_its_sentence = each(WRONG)
