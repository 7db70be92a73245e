"""Warp functions: each becomes what a lane offers, a place at which the lanes meet, and what a lane takes.

``v += __shfl_down_sync(0xffffffff, v, k);`` is written as::

    const int hostcuda_from_7 = k;
    hostcuda_offer(7, (v));
    hostcuda_meet(7, shuffle_down);
    v += hostcuda_take(7, shuffle_down, (v), hostcuda_from_7, 32);

Then only ``hostcuda_meet`` splits the kernel, and it is a statement of its own (the words are those of lanes.h). A warp
function inside of an expression is moved before its statement if C++ leaves the order open, or if nothing else in the
statement depends on it. The mask must be that of all lanes.
"""

import re
from dataclasses import dataclass

from hostcuda.frontend.brackets import edited
from hostcuda.loops.order import is_plain, may_come_first, own_variables, reads_memory, target_end, with_parents
from hostcuda.loops.words import ASSIGNMENTS, MEETING, REDUCTIONS, SHUFFLES, VOTES, WARP_FUNCTIONS, NeedsFibers

_ALL_LANES = re.compile(r"\(*(0xffffffff[uU]?[lL]{0,2}|~0[uU]?|-1|\(unsigned(int)?\)-1|~0x0[uU]?)\)*", re.IGNORECASE)


@dataclass
class _Exchange:
    """A warp function in a statement: tokens[at:end], its number, and the spans of its arguments."""

    name: str
    at: int
    end: int
    number: int
    arguments: list
    mask: str  # as `_mask`


def exchange(scan, body, reader, file):
    """The edits that replace the warp functions of a kernel: [(start, end, text)].

    Raises NeedsFibers if one of them cannot be replaced.
    """
    return _Writer(scan, body, reader, file).edits()


class _Writer:
    def __init__(self, scan, body, reader, file):
        self.scan, self.body, self.reader, self.file = scan, body, reader, file
        self.own = own_variables(reader, body, scan, file)
        self.count = 0

    def edits(self):
        reader, found, done = self.reader, [], set()
        for node, parent in with_parents(reader.statements()):
            span = (node.first, node.last - 1)
            if node.kind == "if":
                span = node.parts["condition"]
            elif node.kind not in ("expression", "declaration"):
                continue
            names = [at for at in range(*span) if reader.text(at) in WARP_FUNCTIONS and at not in done]
            if names:
                done.update(names)
                found += self._statement(node, parent, names)
        for at, token in enumerate(reader.tokens):
            if token.text in WARP_FUNCTIONS and at not in done:
                raise NeedsFibers(f"it uses {token.text} in a condition or a loop's head")
        return found

    def _text(self, first, last, replaced=()):
        """The text of tokens[first:last], in which other text stands for some spans of tokens."""
        tokens = self.reader.tokens
        edits = [
            (tokens[begin].start, tokens[after - 1].end, new)
            for begin, after, new in replaced
            if first <= begin and after <= last
        ]
        return edited(self.scan.text, edits, tokens[first].start, tokens[last - 1].end)

    def _statement(self, node, parent, names):
        """The edits for a statement, or an if with warp functions in its condition."""
        reader, tokens = self.reader, self.reader.tokens
        if node.kind == "expression" and names[0] == node.first and reader.text(node.first) == "__syncwarp":
            arguments = reader.split(node.first + 2, node.last - 2) if node.last - 2 > node.first + 2 else []
            if reader.match.get(node.first + 1) != node.last - 2 or len(arguments) > 1:
                raise NeedsFibers("it uses __syncwarp inside of an expression")
            masks = [mask for span in arguments if (mask := self._mask("__syncwarp", span))]
            proofs = "".join(f"hostcuda_all_lanes({mask}, 0); " for mask in masks)
            new = f"{proofs}{MEETING}({self._number()}, sync);"
            if proofs and parent is not None and parent.kind != "block":
                new = f"{{ {new} }}"
            return [(tokens[node.first].start, tokens[node.last - 1].end, new)]
        if any(at < other < reader.match.get(at + 1, at) for at in names for other in names):
            raise NeedsFibers(f"it uses {reader.text(names[0])} on the result of another warp function")
        exchanges = [self._exchange(at) for at in names]
        if node.kind == "declaration":
            if parent is not None and parent.kind != "block":
                raise NeedsFibers(f"it uses {exchanges[0].name} in a statement that is not understood")
            new = self._declaration(node, exchanges)
            return [(tokens[node.first].start, tokens[node.last - 1].end, new)]
        span = node.parts["condition"] if node.kind == "if" else (node.first, node.last - 1)
        self._require_order(*span, exchanges)
        after, end = self._after(*span, exchanges), target_end(reader, *span)
        if after and (node.kind == "if" or end == node.first):
            raise NeedsFibers(f"it uses {exchanges[0].name} beside an access to memory")
        before = " ".join(self._before(exchanges))
        replaced = [(each.at, each.end, self._taken(each)) for each in exchanges]
        alone = parent is None or parent.kind == "block"
        if node.kind == "if":
            open_, close = ("", "") if alone else ("{ ", " }")
            edits = [(tokens[each.at].start, tokens[each.end - 1].end, self._taken(each)) for each in exchanges]
            start, end = tokens[node.first].start, tokens[node.last - 1].end
            return [(start, start, f"{open_}{before} "), *edits, *([(end, end, close)] if close else [])]
        new = f"{before} {self._text(node.first, node.last, replaced)}{after}"
        if after and (end > node.first + 1 or reader.text(node.first) not in self.own):  # it may write to memory
            number, value = self.count, f"({self._text(end + 1, node.last - 1, replaced)})"
            kept = f"hostcuda_keep({number}, {value});{after}"
            new = f"{before} {kept} {self._text(node.first, end + 1)} hostcuda_again({number}, {value});"
        return [(tokens[node.first].start, tokens[node.last - 1].end, new if alone else f"{{ {new} }}")]

    def _declaration(self, node, exchanges):
        """A declaration, in parts: a lane can offer what the same declaration declares or changes before."""
        reader, lines, after = self.reader, [], ""
        words = {"auto", "static", "constexpr", "__shared__"} & {t.text for t in reader.tokens[node.first : node.last]}
        if words:
            raise NeedsFibers(f"it uses {exchanges[0].name} in a statement that is not understood")
        type_end = reader.type_end(node.first, node.last - 1)
        kind, spans = self._text(node.first, type_end), reader.split(type_end, node.last - 1)
        for span, (*_, initializer) in zip(spans, reader.declarators(node.first, node.last - 1), strict=True):
            own = [each for each in exchanges if span[0] <= each.at < span[1]]
            if own:
                self._require_order(*initializer, own)
                after = after or self._after(*initializer, own)
            lines += self._before(own)
            replaced = [(each.at, each.end, self._taken(each)) for each in own]
            lines.append(f"{kind} {self._text(*span, replaced)};")
        return " ".join(lines) + after

    def _after(self, first, last, exchanges):
        """A meeting, if the rest of a statement reads memory: before other lanes may write there."""
        first, calls = target_end(self.reader, first, last), [(each.at, each.end) for each in exchanges]
        reads = reads_memory(self.reader, first, last, calls, self.own, self.file)
        return f" {MEETING}({self._number()}, sync);" if reads else ""

    def _require_order(self, first, last, exchanges):
        if not may_come_first(self.reader, first, last, self.file, [(e.at, e.end) for e in exchanges]):
            raise NeedsFibers(f"it uses {exchanges[0].name} in an expression whose order matters")

    def _exchange(self, at):
        reader, name = self.reader, self.reader.text(at)
        if name == "__syncwarp" or reader.text(at + 1) != "(":
            raise NeedsFibers(f"it uses {name} in a statement that is not understood")
        close = reader.match[at + 1]
        arguments = reader.split(at + 2, close)
        if not (3 <= len(arguments) <= 4 if name in SHUFFLES else len(arguments) == 2):
            raise NeedsFibers(f"it uses {name} in a statement that is not understood")
        mask = self._mask(name, arguments[0])
        for first, last in arguments[1:]:
            if not is_plain(reader, first, last, self.file, (), self.file.by_value):
                raise NeedsFibers(f"it uses {name} in an expression whose order matters")
        return _Exchange(name, at, close + 1, self._number(), arguments, mask)

    def _number(self):
        self.count += 1
        return self.count

    def _mask(self, name, span):
        """The name of a warp function's mask, for the compiler to prove that it is that of all lanes; empty: it is."""
        mask = "".join(token.text for token in self.reader.tokens[span[0] : span[1]])
        if _ALL_LANES.fullmatch(mask):
            return ""
        code = self.scan.code[self.body.open : self.body.close]
        values = ["".join(each.split()) for each in re.findall(rf"\b{re.escape(mask)}\s*=([^;,]*)", code)]
        if (len(values) == 1 and _ALL_LANES.fullmatch(values[0])) or (mask in self.file.constants and not values):
            return mask  # a variable that never changes is declared const
        raise NeedsFibers(f"the mask of {name} is not known to be that of all lanes")

    def _before(self, exchanges):
        """The statements before that with the warp functions."""
        for each in exchanges:
            value = self._text(*each.arguments[1])
            if each.mask:
                value = f"hostcuda_all_lanes({each.mask}, ({value}))"
            if each.name in SHUFFLES:
                for span, what in zip(each.arguments[2:], ("from", "width"), strict=False):
                    yield f"const int hostcuda_{what}_{each.number} = {self._text(*span)};"
                yield f"hostcuda_offer({each.number}, ({value}));"
            elif each.name in VOTES:
                yield f"hostcuda_offer_vote({each.number}, ({value}));"
            else:
                yield f"hostcuda_offer_word({each.number}, {REDUCTIONS[each.name]}, ({value}));"
        for each in exchanges:
            yield f"{MEETING}({each.number}, {WARP_FUNCTIONS[each.name]});"

    def _taken(self, each):
        """What stands for the warp function."""
        value, number = self._text(*each.arguments[1]), each.number
        if each.name in SHUFFLES:
            width = f"hostcuda_width_{number}" if len(each.arguments) > 3 else "32"
            return f"hostcuda_take({number}, {SHUFFLES[each.name]}, ({value}), hostcuda_from_{number}, {width})"
        if each.name in REDUCTIONS:
            return f"hostcuda_reduced({number}, {REDUCTIONS[each.name]}, ({value}))"
        return f"hostcuda_vote({number})"
