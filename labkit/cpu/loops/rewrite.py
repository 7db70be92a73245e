"""Give the kernels of a source their second versions."""

import re

from labkit.cpu.loops.exchange import exchange
from labkit.cpu.loops.file import File, closing
from labkit.cpu.loops.inline import PREFIX as INLINED
from labkit.cpu.loops.inline import inline
from labkit.cpu.loops.reader import Reader
from labkit.cpu.loops.regions import assign_roles, form
from labkit.cpu.loops.steps import Kernel
from labkit.cpu.loops.uniform import find_uniform, require_uniform
from labkit.cpu.loops.words import WARP_FUNCTIONS, Fibers
from labkit.cpu.loops.writer import PREFIX, Writer
from labkit.cpu.source import kernel_bodies

_REGISTRATION = re.compile(r"\bLABKIT_KERNEL(?P<bounds>_BOUNDS)?\(")


_FAILURES = (KeyError, IndexError, ValueError, RecursionError)


def _exchanged(scan, bodies, file):
    """The text and the bodies with what stands for warp functions, and a kernel's name -> why it cannot be written."""
    edits, reasons = [], {}
    for body in bodies:
        if set(re.findall(r"\w+", scan.code[body.open : body.close])) & WARP_FUNCTIONS.keys():
            try:
                edits += exchange(scan, body, Reader(scan.code, body.open + 1, body.close), file)
            except Fibers as reason:
                reasons[body.name] = str(reason)
            except _FAILURES:
                reasons[body.name] = "a statement is not understood"
    text, at = "", 0
    for start, end, new in sorted(edits):
        text += scan.text[at:start] + new
        at = end
    return *(kernel_bodies(text + scan.text[at:]) if edits else (scan, bodies)), reasons


def _second_version(kernel):
    """The text of a kernel's second version, and whether its warps run one after the other."""
    find_uniform(kernel)
    require_uniform(kernel)
    regions = []
    items = form(kernel, kernel.root, regions)
    assign_roles(kernel, regions)
    return Writer(kernel, items, regions).text(), any(region.section for region in regions)


def add_loops(text, without=frozenset()):
    """Add to the kernels of a source versions that run as thread loops.

    Parameters
    ----------
    text : str
        A source as `labkit.cpu.source.rewrite` has written it.
    without : set of str
        Names of kernels whose second versions do not compile.

    Returns
    -------
    str
        The source. Each kernel is registered with its second version, or with the reason for which it has none.
    """
    scan, bodies = kernel_bodies(text)
    file = File(scan, bodies)
    source, sources = inline(scan, bodies, file)
    source, sources, failed = _exchanged(source, sources, file)
    edits, reasons, warps = [], {}, set()
    for body, own in zip(bodies, sources, strict=True):
        try:
            if own.name in without:
                raise Fibers("its thread loops do not compile")
            if own.name in failed:
                raise Fibers(failed[own.name])
            if sum(other.name == body.name for other in bodies) > 1:
                raise Fibers("it is overloaded")
            second, by_warp = _second_version(Kernel(source, own, file))
        except Fibers as reason:
            reasons[body.name] = INLINED.sub("", str(reason))
            continue
        except _FAILURES:
            reasons[body.name] = "a statement is not understood"
            continue
        reasons[body.name] = ""
        if by_warp:
            warps.add(body.name)
        else:
            edits.append((body.marker_end, body.marker_end, " __attribute__((cold, noinline))"))
        after = scan.marker(body.close)
        edits.append((body.close + 1, body.close + 1, second + after))
    for match in _REGISTRATION.finditer(scan.code):
        end = closing(scan.code, match.end() - 1)
        expression, bounds = scan.text[match.end() : end], "1024"
        if match["bounds"]:
            close = closing(scan.code, match.end())
            bounds, expression = scan.text[match.end() : close + 1], scan.text[close + 1 : end].lstrip(", ")
        name = re.match(r"\w+", expression)
        reason = reasons.get(name.group(), "it is not in this file") if name else "it is overloaded"
        for word in re.findall(r"\w+", expression):
            if not reason and word in file.harmful:
                reason = f"{word} uses {file.harmful[word]}"
        loops = "" if reason else PREFIX + expression
        kind = "WARPS" if name and name.group() in warps else "LOOPS"
        new = f'LABKIT_KERNEL_{kind}({bounds}, ({loops}), "{reason}", {expression})'
        edits.append((match.start(), end + 1, new))
    pieces, at = [], 0
    for start, end, new in sorted(edits):
        pieces += [text[at:start], new]
        at = end
    return "".join(pieces) + text[at:]
