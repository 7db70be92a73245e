"""The solutions of page 01, tested beyond their goals."""

import labkit


def test_the_turned_mapping_takes_any_square_block():
    for side in (7, 16):
        labkit.check(labkit.solution("baseline", "a", block=(side, side)))
