"""Replace each warp function by what a lane offers, a place at which the lanes meet, and what a lane takes.

``v += __shfl_down_sync(0xffffffff, v, k);`` is written as::

    const int hostcuda_from_7 = k;
    hostcuda_offer(7, (v));
    hostcuda_meet(7, shuffle_down);
    v += hostcuda_take(7, shuffle_down, (v), hostcuda_from_7, 32);

Then only ``hostcuda_meet`` splits the kernel, and it is a statement of its own (the words are those of lanes.h). A warp
function inside of an expression is moved before its statement if C++ leaves the order open. The mask must be a number
or a constant, and name all lanes.
"""

import re
from dataclasses import dataclass

from hostcuda.loops.order import has_no_effects
from hostcuda.loops.words import ASSIGNMENTS, MEETING, REDUCTIONS, SHUFFLES, VOTES, WARP_FUNCTIONS, NeedsFibers

_ALL_LANES = re.compile(r"\(*(0xffffffff[uU]?[lL]{0,2}|~0[uU]?|-1|\(unsigned(int)?\)-1|~0x0[uU]?)\)*", re.IGNORECASE)


@dataclass
class _Exchange:
    """A warp function in a statement: tokens[at:end], its number, and the texts of its arguments."""

    name: str
    at: int
    end: int
    number: int
    value: str  # what the lane offers
    others: list  # of a shuffle: the lane or the distance, and the width
    proof: str  # as `_prove_all_lanes` returns it

    def offer(self):
        """Yield the statements in which a lane offers its value, before it waits."""
        yield self.proof
        if self.name in SHUFFLES:
            for text, role in zip(self.others, ("from", "width"), strict=False):
                yield f"const int hostcuda_{role}_{self.number} = {text};"
            yield f"hostcuda_offer({self.number}, ({self.value}));"
        elif self.name in VOTES:
            yield f"hostcuda_offer_vote({self.number}, ({self.value}));"
        else:
            yield f"hostcuda_offer_word({self.number}, {REDUCTIONS[self.name]}, ({self.value}));"

    def take(self):
        """Return the expression that replaces the warp function: what the lane gets from the others."""
        if self.name in SHUFFLES:
            width = f"hostcuda_width_{self.number}" if len(self.others) > 1 else "32"
            kind, from_ = SHUFFLES[self.name], f"hostcuda_from_{self.number}"
            return f"hostcuda_take({self.number}, {kind}, ({self.value}), {from_}, {width})"
        if self.name in REDUCTIONS:
            return f"hostcuda_reduced({self.number}, {REDUCTIONS[self.name]}, ({self.value}))"
        return f"hostcuda_vote({self.number})"


def exchange(statement, numbers):
    """Return the edits that replace the warp functions of a `Statement`; raise `NeedsFibers` if one must stay."""
    reader, node = statement.reader, statement.node
    places = [at for at in range(*statement.span) if reader.text(at) in WARP_FUNCTIONS]
    name = reader.text(places[0])
    if name in statement.file.declared:
        raise NeedsFibers(f"the source has a {name} of its own")
    if name == "__syncwarp" and places[0] == node.first and reader.match.get(node.first + 1) == node.last - 2:
        proof = _prove_all_lanes(statement, name, (node.first + 2, node.last - 2)) if node.last - node.first > 4 else ""
        return statement.put_before(f"{proof}{MEETING}({next(numbers)}, sync);", [(node.first, node.last, "")])
    calls = [_read_exchange(statement, at, next(numbers)) for at in places]
    spans = [(call.at, call.end) for call in calls]
    if not statement.may_follow(spans):
        raise NeedsFibers(f"it uses {name} in an expression whose order matters")
    before = [line for call in calls for line in call.offer()]
    before += [f"{MEETING}({call.number}, {WARP_FUNCTIONS[call.name]});" for call in calls]
    replaced = [(call.at, call.end, call.take()) for call in calls]
    if statement.reads_memory(spans):  # the lanes meet again before another one may write there
        number, target, last = next(numbers), statement.target, statement.span[1]
        if node.kind == "if" or reader.text(target) not in ASSIGNMENTS:
            raise NeedsFibers(f"it uses {name} beside an access to memory")
        value = f"({statement.text(target + 1, last, replaced)})"
        before += [f"hostcuda_keep({number}, {value});", f"{MEETING}({number}, sync);"]
        replaced = [(target + 1, last, f"hostcuda_again({number}, {value})")]
    return statement.put_before(" ".join(before), replaced)


def _read_exchange(statement, at, number):
    """Return the `_Exchange` of the warp function at token `at`; refuse arguments with effects, which would repeat."""
    reader, name = statement.reader, statement.reader.text(at)
    close = reader.match.get(at + 1, at + 2)
    mask, *others = reader.split(at + 2, close)
    counts = (2, 3) if name in SHUFFLES else (1,)
    if name == "__syncwarp" or reader.text(at + 1) != "(" or len(others) not in counts:
        raise NeedsFibers(f"it uses {name} in a statement that is not understood")
    for first, last in others:
        if not has_no_effects(reader, first, last, statement.file, (), statement.file.by_value):
            raise NeedsFibers(f"it uses {name} in an expression whose order matters")
    value, *others = (statement.text(*span) for span in others)
    return _Exchange(name, at, close + 1, number, value, others, _prove_all_lanes(statement, name, mask))


def _prove_all_lanes(statement, name, span):
    """Return what lets the compiler prove that a mask names all lanes; empty if it is a number that does."""
    mask = "".join(token.text for token in statement.reader.tokens[span[0] : span[1]])
    if _ALL_LANES.fullmatch(mask):
        return ""
    if mask not in statement.file.constants:
        raise NeedsFibers(f"the mask of {name} is not known to be that of all lanes")
    return f"hostcuda_require_all_lanes({mask}); "
