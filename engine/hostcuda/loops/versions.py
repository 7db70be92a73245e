"""Give the kernels of a source their second versions."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from hostcuda.frontend.scan import Kernel, Scan, find_kernel_bodies
from hostcuda.frontend.tokens import Edit, apply_edits, find_closing_parenthesis
from hostcuda.loops.direct import require_one_section
from hostcuda.loops.file import File
from hostcuda.loops.inline import INLINED, inline
from hostcuda.loops.refusals import explain_use
from hostcuda.loops.regions import RegionBuilder, assign_roles
from hostcuda.loops.steps import KernelPlan
from hostcuda.loops.uniform import find_uniform, require_uniform
from hostcuda.loops.words import BARRIER, MEETING, WARP_FUNCTIONS, NeedsFibers
from hostcuda.loops.writer import PREFIX, Writer

_REGISTRATION = re.compile(r"\bHOSTCUDA_KERNEL(?P<bounds>_BOUNDS)?\(")
_DEFAULT_BOUNDS = "1024"  # threads per block: what CUDA allows without __launch_bounds__


def _write_second_version(scan: Scan, body: Kernel, file: File) -> tuple[str, str]:
    """Return (text, kind) of a kernel's second version; `body` is its `Kernel`, with warp functions replaced.

    The kind, "LOOPS" over all threads of a block, "WARPS" or "GROUPS" (of a direct kernel), is part
    of the macro that registers it, HOSTCUDA_KERNEL_LOOPS: it says which blocks can run it. Raise
    `NeedsFibers` if there can be none.
    """
    words = set(re.findall(r"\w+", scan.code[body.open : body.close]))
    direct = not words & {BARRIER, MEETING, *WARP_FUNCTIONS}
    # Such a reason is told. Of a function that only asks for threadIdx the reason is "it has no
    # barrier", below.
    harmful_words = [
        word for word in words & file.harmful.keys() if file.harmful[word] != "threadIdx"
    ]
    if direct and harmful_words:
        raise NeedsFibers(min(explain_use(word, file.harmful) for word in harmful_words))
    try:
        kernel = KernelPlan(scan, body, file, direct)
        regions: list = []  # `split_block` adds all of the kernel's
        find_uniform(kernel)
        require_uniform(kernel)
        items = RegionBuilder(kernel, regions).split_block(kernel.outer_steps)
        assign_roles(kernel, regions)
        if direct:
            require_one_section(items)
        kind = (
            "GROUPS"
            if direct
            else "WARPS"
            if any(region.section for region in regions)
            else "LOOPS"
        )
        return Writer(kernel, items, regions).write(), kind
    except NeedsFibers as reason:
        # A kernel without barriers is fast on fibers, too: one fiber runs all threads. So the details of
        # what was not understood do not matter.
        raise (NeedsFibers("it has no barrier") if direct else reason) from None


def add_loops(text: str, without: Collection[str] = frozenset()) -> str:
    """Return a source whose kernels have second versions, in which a loop runs all threads of a block.

    In `text`, a HOSTCUDA_KERNEL(name) behind each kernel registers it for launches. In the result,
    it registers the second version, too, or the reason why there is none: then each thread runs on
    a stack of its own (a fiber). Kernels named in `without` get none, because it did not compile.
    """
    scan, bodies = find_kernel_bodies(text)
    file = File(scan, bodies)
    # the same kernels, in the same order, with their device functions put in
    inlined_scan, inlined_bodies, failed = inline(scan, bodies, file)
    # kernel -> why it has no second version, or ""; kernel -> what its second version loops over:
    # "LOOPS" all threads of a block, "WARPS" warps, "GROUPS" groups of neighboring threads
    edits, reasons, kinds = [], {}, {}
    # body: a kernel with its place in `text`
    for body, inlined_body in zip(bodies, inlined_bodies, strict=True):
        try:
            if body.name in without:
                raise NeedsFibers("its thread loops do not compile")
            if body.name in failed:
                raise NeedsFibers(failed[body.name])
            if sum(other.name == body.name for other in bodies) > 1:
                raise NeedsFibers("it is overloaded")
            second, kinds[body.name] = _write_second_version(inlined_scan, inlined_body, file)
        except NeedsFibers as reason:
            reasons[body.name] = INLINED.sub("", str(reason))  # with the user's names
            continue
        reasons[body.name] = ""
        # the second version runs blocks of all shapes: the first one hardly ever runs
        if kinds[body.name] == "LOOPS":  # marker_end: behind the word __global__
            edits.append((body.marker_end, body.marker_end, " __attribute__((cold, noinline))"))
        # behind the kernel; the marker (``# 12 "a.cu"``) says that the user's file goes on
        edits.append((body.close + 1, body.close + 1, second + scan.marker(body.close)))
    edits += [
        _edit_registration(scan, match, file, reasons, kinds)
        for match in _REGISTRATION.finditer(scan.code)
    ]
    return apply_edits(text, edits)


def _edit_registration(
    scan: Scan,
    match: re.Match[str],
    file: File,
    reasons: Mapping[str, str],
    kinds: Mapping[str, str],
) -> Edit:
    """Return the edit (start, end, text) of a kernel's registration, a match of `_REGISTRATION`.

    It registers the second version of its kind (`kinds`, by name), or the reason why there is none
    (`reasons`): of HOSTCUDA_KERNEL(f) it makes HOSTCUDA_KERNEL_WARPS(1024, (hostcuda_loops_f), "",
    f).
    """
    end = find_closing_parenthesis(scan.code, match.end() - 1)
    assert end is not None  # `rewrite` has written it whole
    expression, bounds = scan.text[match.end() : end], _DEFAULT_BOUNDS
    if match["bounds"]:  # HOSTCUDA_KERNEL_BOUNDS((bounds), expression)
        close = find_closing_parenthesis(scan.code, match.end())
        assert close is not None
        bounds, expression = (
            scan.text[match.end() : close + 1],
            scan.text[close + 1 : end].lstrip(", "),
        )
    plain_name = re.match(r"\w+", expression)
    # of an overloaded kernel it is the expression *static_cast<...>
    name = plain_name[0] if plain_name else ""
    reason = reasons.get(name, "it is not in this file") if name else "it is overloaded"
    for word in re.findall(r"\w+", expression):  # a template's arguments
        if not reason and word in file.harmful:
            reason = f"{word} uses {file.harmful[word]}"
    loops = "" if reason else PREFIX + expression
    new = (
        f'HOSTCUDA_KERNEL_{kinds.get(name, "LOOPS")}({bounds}, ({loops}), "{reason}", {expression})'
    )
    return match.start(), end + 1, new
