"""Replace each warp function by what a lane offers, a place at which the lanes meet, and what a lane takes.

``v += __shfl_down_sync(0xffffffff, v, k);`` is written as::

    const int hostcuda_from_7 = k;
    hostcuda_offer(7, (v));
    hostcuda_meet(7, shuffle_down);
    v += hostcuda_take(7, shuffle_down, (v), hostcuda_from_7, 32);

Then only ``hostcuda_meet`` splits the kernel, and it is a statement of its own (the words are those
of lanes.h).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from hostcuda.frontend.tokens import Edit
from hostcuda.loops.order import Statement, has_no_effects
from hostcuda.loops.words import (
    ASSIGNMENTS,
    MEETING,
    REDUCTIONS,
    SHUFFLES,
    VOTES,
    WARP_FUNCTIONS,
    NeedsFibers,
)

# 0xffffffffu, ~0, -1, (unsigned)-1: a mask that names all 32 lanes.
_ALL_LANES = re.compile(
    r"\(*(0xffffffff[uU]?[lL]{0,2}|~0[uU]?|-1|\(unsigned(int)?\)-1|~0x0[uU]?)\)*", re.IGNORECASE
)


@dataclass
class _Exchange:
    """A call of a warp function: tokens[at:end] of a statement, a number all its own, the texts of its arguments."""

    name: str  # "__shfl_down_sync"
    at: int
    end: int
    number: int  # part of the names of its slots and constants, as in hostcuda_from_7
    value: str  # what the lane offers
    # of a shuffle: the lane or the distance, then the width if the call has one; else []
    others: list
    # "hostcuda_require_all_lanes(mask); ", by which the compiler proves the mask; "" for a number
    proof: str

    def write_offers(self) -> Iterator[str]:
        """Yield the texts of the statements in which a lane offers its value to the others, before it waits.

        For ``__shfl_down_sync(mask, v, k)`` with the number 7 they are "const int hostcuda_from_7 = k;" and
        "hostcuda_offer(7, (v));". The first one is the proof that the mask has all lanes, or "".
        """
        yield self.proof
        if self.name in SHUFFLES:
            # not strict: the width is optional
            for text, role in zip(self.others, ("from", "width"), strict=False):
                yield f"const int hostcuda_{role}_{self.number} = {text};"
            yield f"hostcuda_offer({self.number}, ({self.value}));"
        elif self.name in VOTES:
            yield f"hostcuda_offer_vote({self.number}, ({self.value}));"
        else:
            yield f"hostcuda_offer_word({self.number}, {REDUCTIONS[self.name]}, ({self.value}));"

    def write_result(self) -> str:
        """Return the text of the expression that replaces the call, after the lanes have met: what this lane gets.

        For ``__shfl_down_sync(mask, v, k)`` with the number 7 it is "hostcuda_take(7, shuffle_down, (v),
        hostcuda_from_7, 32)".
        """
        # `write_offers` declares hostcuda_from_7, and hostcuda_width_7 if others has one
        if self.name in SHUFFLES:
            width = f"hostcuda_width_{self.number}" if len(self.others) > 1 else "32"
            direction, from_ = SHUFFLES[self.name], f"hostcuda_from_{self.number}"
            return f"hostcuda_take({self.number}, {direction}, ({self.value}), {from_}, {width})"
        if self.name in REDUCTIONS:
            return f"hostcuda_reduced({self.number}, {REDUCTIONS[self.name]}, ({self.value}))"
        return f"hostcuda_vote({self.number})"


def replace_warp_functions(statement: Statement, numbers: Iterator[int]) -> list[Edit]:
    """Return edits (start, end, text) that replace all warp functions in a statement, such as ``__shfl_down_sync``.

    Each becomes calls of the engine's own: every lane offers its value, the lanes meet, and each
    takes the value that it needs. `numbers` yields a number for each meeting. Raises `NeedsFibers`
    (the kernel then gets a stack per thread) if the calls may not be moved before the statement.
    """
    reader, node = statement.reader, statement.node
    places = [at for at in range(*statement.span) if reader.text(at) in WARP_FUNCTIONS]
    name = reader.text(places[0])
    if name in statement.file.declared:
        raise NeedsFibers(f"the source has a {name} of its own")
    if (
        name == "__syncwarp"
        and places[0] == node.first
        and reader.match.get(node.first + 1) == node.last - 2
    ):
        # __syncwarp(mask) is all of the statement: only the lanes' meeting is left
        first, last = (node.first + 2, node.last - 2)  # the tokens of the mask
        # code with which the compiler proves that the mask has all lanes; "" for a number
        proof = _write_mask_proof(statement, name, (first, last)) if first < last else ""
        return statement.put_before(
            f"{proof}{MEETING}({next(numbers)}, sync);", [(node.first, node.last, "")]
        )
    calls = [_read_exchange(statement, at, next(numbers)) for at in places]
    spans = [(call.at, call.end) for call in calls]
    if not statement.may_follow(spans):
        raise NeedsFibers(f"it uses {name} in an expression whose order matters")
    before = [line for call in calls for line in call.write_offers()]
    # the lanes meet; the second argument says what for: "sync", "ballot", "reduce_add"
    before += [f"{MEETING}({call.number}, {WARP_FUNCTIONS[call.name]});" for call in calls]
    replaced = [(call.at, call.end, call.write_result()) for call in calls]
    if statement.reads_memory(spans):  # the lanes meet again before another one may write there
        number, target, last = next(numbers), statement.target, statement.span[1]
        # without a "=", there is no value that could be kept meanwhile
        if node.kind == "if" or reader.text(target) not in ASSIGNMENTS:
            raise NeedsFibers(f"it uses {name} beside an access to memory")
        # the value is computed before the lanes meet, and assigned after that
        value = f"({statement.text(target + 1, last, replaced)})"
        before += [f"hostcuda_keep({number}, {value});", f"{MEETING}({number}, sync);"]
        replaced = [(target + 1, last, f"hostcuda_again({number}, {value})")]
    return statement.put_before(" ".join(before), replaced)


def _read_exchange(statement: Statement, at: int, number: int) -> _Exchange:
    """Return the `_Exchange` of the warp function at token `at`.

    Raise `NeedsFibers` for arguments with effects, because their texts move, and for a mask that may not
    have all lanes.
    """
    reader, name = statement.reader, statement.reader.text(at)
    close = reader.match.get(at + 1, at + 2)
    mask, *others = reader.split(at + 2, close)
    # how many arguments follow the mask; a shuffle's width is optional
    counts = (2, 3) if name in SHUFFLES else (1,)
    if name == "__syncwarp" or reader.text(at + 1) != "(" or len(others) not in counts:
        raise NeedsFibers(f"it uses {name} in a statement that is not understood")
    for first, last in others:
        if not has_no_effects(reader, first, last, statement.file, (), statement.file.by_value):
            raise NeedsFibers(f"it uses {name} in an expression whose order matters")
    value, *others = (statement.text(*span) for span in others)
    return _Exchange(
        name, at, close + 1, number, value, others, _write_mask_proof(statement, name, mask)
    )


def _write_mask_proof(statement: Statement, name: str, span: tuple[int, int]) -> str:
    """Return the text by which the compiler proves that a mask, a span of tokens, has all lanes; "" for a number."""
    mask = "".join(token.text for token in statement.reader.tokens[span[0] : span[1]])
    if _ALL_LANES.fullmatch(mask):
        return ""
    if mask not in statement.file.constants:  # of a constant, the compiler knows the value
        raise NeedsFibers(f"the mask of {name} is not known to be that of all lanes")
    return f"hostcuda_require_all_lanes({mask}); "
