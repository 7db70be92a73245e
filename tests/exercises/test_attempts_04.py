"""The exercises of page 04: typical wrong answers, and what the grader says of each."""

from attempts import Wrong, answered, each

COMPLETE = "        __syncthreads();                                    // the tile is complete\n"
READ = "        __syncthreads();                                    // all threads have read it: next channel\n"

WRONG = {
    "04a": (
        Wrong("the textbook's padding", (("[SIDE][SIDE]", "[SIDE][SIDE + 1]"),),
              "SIDE + 1 is the padding for a column", quick=True),
        Wrong("a sum without a zero", (("float sum = 0;", "float sum;"),), "'sum' may be used uninitialized",
              quick=True),
        Wrong("no barrier before the sum", ((COMPLETE, ""),), "is a barrier missing"),
        Wrong("no barrier after the sum", ((READ, ""),), "race, line"),
        Wrong("a store beyond the map", (("h < Ho && w < Wo", "h <= Ho && w < Wo"),), "out of bounds, line"),
        Wrong("a row more", (("[SIDE][SIDE]", "[SIDE + 1][SIDE]"),), "wavefronts per shared load, layer 1: 2,"),
        Wrong("the mask flipped", (("C + c) * K + p) * K + q];", "C + c) * K + K - 1 - p) * K + K - 1 - q];"),),
              "the mask was flipped"),
    ),
}  # fmt: skip


@each(WRONG)
def test_a_wrong_answer_gets_its_sentence(number, answer):
    assert answer.says in answered(number, answer)
