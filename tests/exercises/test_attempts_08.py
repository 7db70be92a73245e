"""The exercises of page 08: typical wrong answers, and what the grader says of each."""

from attempts import Wrong, each

EVEN = "m < M && n < pixels && pixels % 2 == 0)"
PAIR = "*(half2 *)(y + m * pixels + n) = __float22half2_rn(sum);"
TOTAL = "        sum = __hadd2(sum, part);\n"
PART = "        half2 part = __halves2half2(zero, zero);\n"

WRONG = {
    "08a": (
        Wrong("a half2 in every map", ((EVEN, "m < M && n + 1 < pixels)"),),
              "what decides is whether `pixels` is even", of="solution"),
        Wrong("a half2 wherever the offset is even", ((EVEN, "m < M && n + 1 < pixels && (m * pixels + n) % 2 == 0)"),),
              "so does every second image", of="solution"),
        Wrong("the two stores remain", (("    else {\n", "    {\n"),), "they belong into an else", of="solution"),
        Wrong("no store for odd maps", (("            y[m * pixels + n] = __float2half(sum.x);\n", "            ;\n"),
                                        ("            y[m * pixels + n + 1] = __float2half(sum.y);\n",
                                         "            ;\n")),
              "have to be stored, too: pixel by pixel", of="solution"),
        Wrong("an index of halves for a pointer to half2", ((PAIR, "((half2 *)y)[m * pixels + n] = "
                                                             "__float22half2_rn(sum);"),),
              "out of bounds, line", of="solution"),
        Wrong("the sums swapped", ((PAIR, "*(half2 *)(y + m * pixels + n) = __floats2half2_rn(sum.y, sum.x);"),),
              "✗ right", of="solution"),
        Wrong("no conversion", ((PAIR, "*(half2 *)(y + m * pixels + n) = sum;"),), "✗ compiles", of="solution"),
    ),
    "08b": (
        Wrong("a part that goes on", ((PART, ""), ("    for (int step = 0", PART + "    for (int step = 0")),
              "it has to begin at zero in each step", of="solution"),
        Wrong("the last part only", ((TOTAL, "        sum = part;\n"),), "The result holds the last step only",
              of="solution"),
        Wrong("a part without a zero", ((PART, "        half2 part;\n"),), "The part has no value",
              of="solution"),
        Wrong("a total in float", ((TOTAL, TOTAL + "        float2 unused; (void)unused;\n"),),
              "variables of type float: 1, wanted exactly 0", of="solution"),
        Wrong("parts that are not added", ((TOTAL, ""),), "✗ right", of="solution"),
        Wrong("the part added in each turn of the loop",
              (("        for (int i = 0; i < TILE; ++i)\n", "        for (int i = 0; i < TILE; ++i) {\n"),
               (TOTAL, "        sum = __hadd2(sum, part); }\n")), "✗ right", of="solution"),
        Wrong("a sum in float after all",
              (("half2 sum = __halves2half2(zero, zero);", "float2 sum = {0, 0};"),
               (TOTAL, "        sum.x += __low2float(part);\n        sum.y += __high2float(part);\n"),
               ("= __low2half(sum);", "= __float2half(sum.x);"), ("= __high2half(sum);", "= __float2half(sum.y);")),
              "wanted at most 3\n", of="solution"),
        Wrong("no barrier at the end", (("        __syncthreads();                                    // all threads",
                                         "        // all threads"),), "is a barrier missing"),
    ),
}


test_a_wrong_answer_gets_its_sentence = each(WRONG)
