"""Give the kernels of a source their second versions."""

import re

from hostcuda.frontend.brackets import apply_edits, find_closing_parenthesis
from hostcuda.frontend.scan import find_kernel_bodies
from hostcuda.loops.direct import take_section
from hostcuda.loops.file import File
from hostcuda.loops.inline import PREFIX as INLINED
from hostcuda.loops.inline import inline
from hostcuda.loops.refusals import use
from hostcuda.loops.regions import Former, assign_roles
from hostcuda.loops.steps import KernelPlan
from hostcuda.loops.uniform import find_uniform, require_uniform
from hostcuda.loops.words import BARRIER, MEETING, WARP_FUNCTIONS, NeedsFibers
from hostcuda.loops.writer import PREFIX, Writer

_REGISTRATION = re.compile(r"\bHOSTCUDA_KERNEL(?P<bounds>_BOUNDS)?\(")


def _write_second_version(scan, body, file):
    """Return the text of a kernel's second version, and for which kind of blocks it is, as launch.h names it."""
    words = set(re.findall(r"\w+", scan.code[body.open : body.close]))
    direct = not words & {BARRIER, MEETING, *WARP_FUNCTIONS}
    waits = [use(word, file.harmful) for word in words & file.harmful.keys() if file.harmful[word] != "threadIdx"]
    if direct and waits:
        raise NeedsFibers(min(waits))
    try:
        return _write(KernelPlan(scan, body, file, direct))
    except NeedsFibers as reason:
        raise NeedsFibers("it has no barrier") if direct else reason from None


def _write(kernel):
    find_uniform(kernel)
    require_uniform(kernel)
    regions = []
    items = Former(kernel, regions).items(kernel.root)
    assign_roles(kernel, regions)
    if kernel.direct:
        take_section(items)
    by_warp = "WARPS" if any(region.section for region in regions) else "LOOPS"
    return Writer(kernel, items, regions).text(), "GROUPS" if kernel.direct else by_warp


def add_loops(text, without=frozenset()):
    """Add second versions, which run as thread loops, to the kernels of a source.

    The source is as `hostcuda.frontend.rewrite.rewrite` has written it. Each kernel is registered with its second
    version, or with the reason for which it has none. Second versions of the kernels `without` do not compile.
    """
    scan, bodies = find_kernel_bodies(text)
    file = File(scan, bodies)
    source, sources, failed = inline(scan, bodies, file)
    edits, reasons, kinds = [], {}, {}
    for body, own in zip(bodies, sources, strict=True):
        try:
            if own.name in without:
                raise NeedsFibers("its thread loops do not compile")
            if own.name in failed:
                raise NeedsFibers(failed[own.name])
            if sum(other.name == body.name for other in bodies) > 1:
                raise NeedsFibers("it is overloaded")
            second, kinds[body.name] = _write_second_version(source, own, file)
        except NeedsFibers as reason:
            reasons[body.name] = INLINED.sub("", str(reason))
            continue
        reasons[body.name] = ""
        if kinds[body.name] == "LOOPS":
            edits.append((body.marker_end, body.marker_end, " __attribute__((cold, noinline))"))
        after = scan.marker(body.close)
        edits.append((body.close + 1, body.close + 1, second + after))
    for match in _REGISTRATION.finditer(scan.code):
        end = find_closing_parenthesis(scan.code, match.end() - 1)
        expression, bounds = scan.text[match.end() : end], "1024"
        if match["bounds"]:
            close = find_closing_parenthesis(scan.code, match.end())
            bounds, expression = scan.text[match.end() : close + 1], scan.text[close + 1 : end].lstrip(", ")
        name = re.match(r"\w+", expression)
        reason = reasons.get(name.group(), "it is not in this file") if name else "it is overloaded"
        for word in re.findall(r"\w+", expression):
            if not reason and word in file.harmful:
                reason = f"{word} uses {file.harmful[word]}"
        loops = "" if reason else PREFIX + expression
        kind = kinds.get(name.group(), "LOOPS") if name else "LOOPS"
        new = f'HOSTCUDA_KERNEL_{kind}({bounds}, ({loops}), "{reason}", {expression})'
        edits.append((match.start(), end + 1, new))
    return apply_edits(text, edits)
