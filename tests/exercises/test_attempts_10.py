"""The exercises of page 10: typical wrong answers, and what the grader says of each."""

from attempts import Wrong, each

MAP = "constexpr int MAP = Ho * Wo % 4 || !GATHER ? Ho * Wo : (Ho * Wo + 47) / 64 * 64 + 16;"
COPIED = "                __syncthreads();                            // and copied\n"
COMPLETE = "                __syncthreads();                            // the maps are complete\n"
READ = "        __syncthreads();                                    // the image before is no longer read\n"

WRONG = {
    "10a": (
        Wrong("a gap that copy does not know", (("&out[at + at / (Ho * Wo) * (MAP - Ho * Wo)]", "&out[at]"),),
              "`copy` has to skip the gaps",
              of="solution"),
        Wrong("two words more", ((MAP, "constexpr int MAP = Ho * Wo % 4 || !GATHER ? Ho * Wo : Ho * Wo + 4;"),),
              "their distance should be 8 words more", of="solution"),
        Wrong("the array as before", (("half out[GATHER ? MAPS * MAP : 1]", "half out[GATHER ? MAPS * Ho * Wo : 1]"),),
              "has to have room for the gaps", of="solution"),
        Wrong("a gap where nothing gathers", ((MAP, "constexpr int MAP = Ho * Wo % 4 ? Ho * Wo : "
                                                "(Ho * Wo + 47) / 64 * 64 + 16;"),),
              "there maps have no gaps", of="solution"),
        Wrong("a gap in every map", ((MAP, "constexpr int MAP = !GATHER ? Ho * Wo : (Ho * Wo + 47) / 64 * 64 + 16;"),),
              "such maps can have no gap", of="solution"),
        Wrong("a copy that skips too little", (("at / (Ho * Wo) * (MAP - Ho * Wo)", "at / MAP * (MAP - Ho * Wo)"),),
              "`copy` has to skip the gaps", of="solution"),
        Wrong("no barrier before the copy", ((COMPLETE, ""),), "is a barrier missing"),
    ),
    "10b": (
        Wrong("one place and one barrier", ((COPIED, ""),), "They need another place"),
        Wrong("the other barrier removed", ((COMPLETE, ""), ("if (TURNS == 1) ", "")), "The other barrier has to stay",
              of="solution"),
        Wrong("m0 % 2", (("outs[m0 / MAPS % TURNS]", "outs[m0 % 2]"),), "m0 % 2 is always 0", of="solution"),
        Wrong("a buffer per image", (("outs[m0 / MAPS % TURNS]", "outs[b % TURNS]"),), "race, line", of="solution"),
        Wrong("two buffers and both barriers", (("if (TURNS == 1) ", ""),),
              "barriers per warp, one channel of layer 2: 8", of="solution"),
        Wrong("no barrier between images", ((READ, ""),), "race, line", of="solution"),
        Wrong("a barrier for the first warp only", (("if (TURNS == 1) __syncthreads();",
                                                     "if (threadIdx.y == 0) __syncthreads();"),),
              "divergent barrier", of="solution"),
    ),
}


test_a_wrong_answer_gets_its_sentence = each(WRONG)
