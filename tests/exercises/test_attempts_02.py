"""The exercises of page 02: typical wrong answers, and what the grader says of each."""

from attempts import Wrong, each

LOOP = "            for (int q = 0; q < K; ++q)\n"
TURNED_LOOP = "            for (int i = 0; i < K; ++i)\n                const int q = (i + threadIdx.x) % K;\n"
PRODUCT = "                y[h * Wo + w] += x[(c * H + h + p) * W + w + q] * mask[((m * C + c) * K + p) * K + q];\n"
ROTATED = "(i + threadIdx.x) % K"
ONCE = "q has to take each value from 0 to K - 1 exactly once"
MINE = "    const bool mine = h < Ho && w < Wo;                     // other threads only load and reach the barriers\n"
RETURN = "    if (h >= Ho || w >= Wo) return;\n    const bool mine = true;\n"
COPY = "for (int i = threadIdx.y * blockDim.x + threadIdx.x; i < K * K; i += blockDim.x * blockDim.y)"
COMPLETE = "        __syncthreads();                                    // the mask is complete\n"
READ = "        __syncthreads();                                    // all threads have read it: next channel\n"

WRONG = {
    "02a": (
        Wrong("no remainder", ((ROTATED, "i + threadIdx.x"),), ONCE, "solution"),
        Wrong("the remainder of the wrong number", ((ROTATED, "i + threadIdx.x % K"),), ONCE, "solution"),
        Wrong("a product in place of the sum", ((ROTATED, "(i * threadIdx.x) % K"),), ONCE, "solution"),
        Wrong("rotated in the mask alone", ((PRODUCT, PRODUCT.replace("* K + q]", "* K + (q + threadIdx.x) % K]")),),
              "have to use the same q"),
        Wrong("all lanes begin at the same element", ((ROTATED, "(i + blockIdx.x) % K"),),
              "All lanes of a warp still ask for the same element", "solution"),
        Wrong("rotated by the row of threads", ((ROTATED, "(i + threadIdx.y) % K"),),
              "turns per read of constant memory, layer 1: 2, wanted", "solution"),
        Wrong("no braces", ((LOOP, TURNED_LOOP),), "'q' was not declared in this scope"),
    ),
    "02b": (
        Wrong("threads without an output return", ((MINE, RETURN),), "A thread that returns neither copies nor reaches",
              "solution"),
        Wrong("no barrier after the copy", ((COMPLETE, ""),), "is a barrier missing", "solution"),
        Wrong("no barrier at the end", ((READ, ""),), "race, line 34", "solution"),
        Wrong("a barrier for some threads", ((COMPLETE, "        if (mine) __syncthreads();\n"),),
              "All threads of a block have to reach the barrier", "solution"),
        Wrong("only a row of the mask is copied", ((COPY, "for (int i = threadIdx.x; i < K; i += blockDim.x)"),),
              "an element that no thread fills", "solution"),
        Wrong("every thread copies everything", ((COPY, "for (int i = 0; i < K * K; ++i)"),),
              "The mask is copied more than once", "solution"),
        Wrong("an array that is too small", (("mask[32 * 32]", "mask[4]"),), "Compare its size with the largest",
              "solution", quick=True),
        Wrong("an array whose size is not known", (("mask[32 * 32]", "mask[K * K]"),), "compiles", "solution"),
        Wrong("the first map's mask", (("k[(m * C + c) * K * K + i]", "k[c * K * K + i]"),), "right\n", "solution"),
        Wrong("read from global memory", (("* mask[p * K + q]", "* k[((m * C + c) * K + p) * K + q]"),),
              "wanted at most 40,400", "solution"),
    ),
}


test_a_wrong_answer_gets_its_sentence = each(WRONG)
