"""The exercises of page 07: typical wrong answers, and what the grader says of each."""

from attempts import Wrong, each

ORDER = "m = i / TERMS, t = i % TERMS"
FIRST = "        __syncthreads();                                    // the previous masks are no longer read\n"
SECOND = "        __syncthreads();                                    // the masks are complete\n"
PLACES = "has to go through all places of mask, each once"
CHOSEN = "if (c0) __syncthreads();"

WRONG = {
    "07a": (
        Wrong("only the map is changed", ((ORDER, "m = i % (GROUPS * MAPS), t = i % TERMS"),), PLACES),
        Wrong("the maps of one thread", ((ORDER, "m = i % MAPS, t = i / MAPS"),), PLACES),
        Wrong("two divisors", ((ORDER, "m = i % (GROUPS * MAPS), t = i / TERMS"),), PLACES),
        Wrong("quotient and remainder swapped", ((ORDER, "m = i % TERMS, t = i / TERMS"),), PLACES),
        Wrong("threads in another order", (("i = threadIdx.y * THREADS + threadIdx.x", "i = threadIdx.x * GROUPS + "
              "threadIdx.y"),), "✗ wavefronts per shared store, layer 1: 3.29"),
        Wrong("the array turned", (("mask[TERMS][GROUPS * MAPS]", "mask[GROUPS * MAPS][TERMS]"), ("mask[t][m]",
              "mask[m][t]"), ("mask[(c * K + p) * K + q][mine + m]", "mask[mine + m][(c * K + p) * K + q]")),
              "✗ changed lines: 3, wanted at most 2"),
        Wrong("a padded array", (("[GROUPS * MAPS];", "[GROUPS * MAPS + 1];"),), "Padding leaves some conflicts"),
    ),
    "07b": (
        Wrong("no barrier at the top", ((FIRST, ""),), "From the second pass on"),
        Wrong("no barrier before the sum", ((SECOND, ""),), "The second barrier stays as it is"),
        Wrong("only before the first masks", ((CHOSEN, "if (c0 == 0) __syncthreads();"),), "From the second pass on",
              of="solution"),
        Wrong("the barrier at the end", ((FIRST, ""), ("            }\n    }\n", "            }\n        "
              "__syncthreads();\n    }\n")), "it still runs in every pass"),
        Wrong("a barrier for threads with outputs", ((CHOSEN, "if (c0 && first < Ho) __syncthreads();"),),
              "have to decide alike whether they wait", of="solution"),
        Wrong("a barrier for one thread", ((CHOSEN, "if (threadIdx.x == 0) __syncthreads();"),),
              "have to decide alike whether they wait", of="solution"),
        Wrong("a barrier that is not called", ((CHOSEN, "if (c0) __syncthreads;"),), "From the second pass on",
              of="solution"),
    ),
}


test_a_wrong_answer_gets_its_sentence = each(WRONG)
