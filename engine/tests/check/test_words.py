"""Words of shared memory: what is known of one when threads access a part of it, too."""

import pytest
from running import IMPORTS

from hostcuda.sanitize import sanitize_script

pytestmark = pytest.mark.core(
    "check mode keeps one record of a word until a part of it is accessed"
)

KERNELS = r"""
#define KERNEL(name) extern "C" __global__ void name(int *o)
#define SHARED                                                              \
    __shared__ int words[64];                                               \
    const unsigned t = threadIdx.x;                                         \
    char *const bytes = (char *)words;                                      \
    short *const halves = (short *)words
#define MEET __syncthreads()
KERNEL(bytes_beside) { SHARED; bytes[t] = t; MEET; o[t] = t < 16 ? words[t] : 0; }
KERNEL(bytes_in_turn) { SHARED; words[t] = t; MEET; bytes[4 * t + t % 4] += 1; MEET; o[t] = words[63 - t]; }
KERNEL(words_again) { SHARED; words[t] = t; words[t] += words[t]; MEET; o[t] = words[63 - t]; }
KERNEL(read_then_byte) { SHARED; words[t] = t; MEET; o[t] = words[63 - t]; bytes[4 * t + 2] = 1; }
KERNEL(byte_then_read) { SHARED; words[t] = t; MEET; bytes[4 * t + 3] = 1; o[t] = words[63 - t]; }
KERNEL(half_then_byte) { SHARED; words[t] = t; MEET; halves[2 * t] = t; if (t == 40) bytes[5] = 1; }
KERNEL(word_then_half) { SHARED; words[t] = t; MEET; words[t] = 1; if (t == 40) halves[5] = 2; }
KERNEL(half_unset) { SHARED; if (t % 2) words[t] = t; else halves[2 * t + 1] = t; MEET; o[t] = words[t]; }
KERNEL(added) { SHARED; words[t] = t; MEET; atomicAdd(&words[t % 8], 1); MEET; o[t] = words[t]; }
KERNEL(added_and_read) { SHARED; words[t] = t; MEET; if (t > 32) atomicAdd(&words[3], 1); else o[t] = words[t]; }
"""
CLEAN = ["bytes_beside", "bytes_in_turn", "words_again", "added"]
FAULTS = {
    "read_then_byte": "race",
    "byte_then_read": "race",
    "half_then_byte": "race",
    "word_then_half": "race",
    "half_unset": "uninitialized",
    "added_and_read": "race",
}
PROGRAM = """
module = SourceModule(KERNELS, no_extern_c=True)
for name in sys.argv[1:]:
    o = cuda.to_device(np.zeros(64, np.int32))
    module.get_function(name)(o, grid=(2, 1), block=(64, 1, 1))
    cuda.Context.synchronize()
"""


@pytest.mark.parametrize("kernels", [CLEAN, [*FAULTS]], ids=["clean", "faults"])
def test_a_race_with_a_part_of_a_word_is_found_and_parts_of_one_are_apart(write_program, kernels):
    path = write_program(IMPORTS + PROGRAM.replace("KERNELS", repr(KERNELS)), "program.py")
    report = sanitize_script(str(path), kernels, engine="cpu", capture=True)
    found = {(row["kernel"], row["kind"]) for row in report.rows}
    assert found == ({*FAULTS.items()} if kernels != CLEAN else set())
