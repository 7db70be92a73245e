"""The exercises of page 06: typical wrong answers, and what the grader says of each."""

from attempts import Wrong, each

DIGITS = "int c = threadIdx.y / (K * K), p = threadIdx.y / K % K, q = threadIdx.y % K;"
ADDED = "        q += DQ;\n"
CARRY = "        p += DP + (q >= K);                                 // carry, as in written addition\n"
REST = "        q -= q >= K ? K : 0;\n        p -= p >= K ? K : 0;\n"
RETURN = "    if (blockIdx.x * 2 * TILE >= pixels) return;            // the whole block: another block does its work\n"
STORES = "    for (int j = 0; j < 2; ++j)\n        if (m < M"
COMPLETE = "        __syncthreads();                                    // both tiles are complete\n"

WRONG = {
    "06a": (
        Wrong("from zero", ((DIGITS, "int c = 0, p = 0, q = 0;"),), "The digits have to begin with the thread's own",
              of="solution"),
        Wrong("no carry into p", (("p += DP + (q >= K);", "p += DP;"),),
              "follow your additions and carries", of="solution"),
        Wrong("no carry into c", (("c += DC + (p >= K);", "c += DC;"),),
              "follow your additions and carries", of="solution"),
        Wrong("a carry too late", (("(q >= K)", "(q > K)"), ("q >= K ?", "q > K ?")), "✗ right", of="solution"),
        Wrong("the carry after the digit", ((CARRY, ""), (REST, REST.replace(";\n", f";\n{CARRY}", 1))), "✗ right",
              of="solution"),
        Wrong("a step of less than a channel", (("c += DC + (p >= K);", "c += p >= K;"),),
              "follow your additions and carries", of="solution"),
        Wrong("the division at the end of the loop", ((ADDED, "        q = (row + TILE) % K, p = (row + TILE) / K % K, "
              "c = (row + TILE) / (K * K);\n"), (CARRY, ""), ("        c += DC + (p >= K);\n", ""), (REST, "")),
              "✗ divisions and remainders in loops: 4, wanted exactly 0", of="solution"),
        Wrong("the column's digits", ((DIGITS, DIGITS.replace("threadIdx.y", "threadIdx.x")),),
              "The digits have to begin with the thread's own row", of="solution"),
    ),
    "06b": (
        Wrong("a block returns thread by thread", ((RETURN, "    if (n >= pixels) return;\n"),),
              "only a whole block may return", of="solution"),
        Wrong("no block returns", ((RETURN, ""),), "let the whole block return at its beginning", of="solution"),
        Wrong("the second sum is not stored", ((STORES, STORES.replace("j < 2", "j < 1")),),
              "outputs were not written", of="solution"),
        Wrong("every block computes its neighbour's, too", (("n = blockIdx.x * 2 * TILE", "n = blockIdx.x * TILE"),
              ("blockIdx.x * 2 * TILE >= pixels", "blockIdx.x * TILE >= pixels")), "blocks compute the same pixels",
              of="solution"),
        Wrong("the tile is not wider", (("u_tile[TILE][2 * TILE]", "u_tile[TILE][TILE]"),), "✗ clean", of="solution"),
        Wrong("the second pixel in the first one's row", (("pixel = n + j * TILE, h = pixel / Wo, w = pixel % Wo",
              "pixel = n + j * TILE, h = n / Wo, w = n % Wo + j * TILE"),),
              "h and w follow from n + TILE", of="solution"),
        Wrong("one guard for both", (("n + j * TILE < pixels)", "n < pixels)"),), "out of bounds, line",
              of="solution"),
        Wrong("sums without a zero", (("sum[2] = {};", "sum[2];"),), "nothing sets it to zero", of="solution"),
        Wrong("no barrier before the sums", ((COMPLETE, ""),), "is a barrier missing", of="solution"),
    ),
}


test_a_wrong_answer_gets_its_sentence = each(WRONG)
