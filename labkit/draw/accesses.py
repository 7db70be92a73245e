"""The memory accesses of a line of a kernel: a warp's worst one, and what the warp does there next."""

from __future__ import annotations

from hostcuda.limits import BANKS, SECTOR
from labkit.draw import style, warps
from labkit.draw.style import Page, count, on_new_page
from labkit.evidence import accesses as evidence
from labkit.evidence.accesses import WarpAccess
from labkit.ladder.variants import Variant
from labkit.spec.layers import Layer, as_layer

_VERBS = {"ld": "load of", "st": "store to", "atom": "atomic operation on"}
_KEYS = {
    "global": "a box: a sector, its used bytes blue",
    "shared": "a wavefront: 32 banks, conflicts orange",
    "constant": "a turn: 32 lanes",
}
_ROW, _MAX_TURNS = 27, 8  # pixels of an access in the strip; wavefronts of it that are drawn


@on_new_page  # makes `page` (in CSS pixels), then shows or saves it: callers give the rest
def accesses(page: Page, of: Variant | int, layer: Layer | str, line: int | None = None) -> None:
    """Draw a warp's worst access at a line of your kernel, and the next ones of the same warp at this line.

    The kernel runs on one image of the layer, in the CPU engine. Global memory is drawn as sectors
    of 32 bytes, shared memory as wavefronts over its 32 banks, constant memory as turns; the code
    calls wavefronts turns, too. The worst access of all warps took most of these.

    Parameters
    ----------
    of : Variant or rung number
        Your kernel, as a ``%%kernel`` cell gives it.
    layer : Layer or its name
    line : int, optional
        A line of the kernel's file or cell, from 1; the magic's line counts. By default the line
        with the most sectors or wavefronts above what its bytes need.
    """
    layer = as_layer(layer)
    # A `WarpLine`: the place, the warp, its worst access, and up to 8 accesses that the same warp made next.
    site = evidence.accesses(of, layer, line)
    first = site.worst
    turns = _find_turns(first)
    height = turns.height if turns else warps.HIGH
    about = f"kernel {site.kernel}, block {site.block}, warp {site.warp}"
    page.open(
        # the worst access; if others follow, a heading and a row for each
        92 + height + (30 + _ROW * len(site.following)) * bool(site.following),
        f"Line {site.line}: a warp’s {_name(first)} takes {_describe_units(first)}",
        style.join_parts(site.variant, layer.name, about),
    )
    page.code(12, 66, site.text, page.width - 24)
    if turns:
        words = turns.words
        warps.draw_turns(page, 74, "", turns)
    else:
        # base: the array's address. So sectors are numbered from the array's first one.
        origin = first.base // SECTOR * SECTOR
        offsets = {lane: address - origin for lane, address in first.lanes.items()}
        words = warps.draw_sector_panel(page, 74, "", offsets, first.size)
    page.alt = f"Line {site.line} of {site.file}, “{site.text}”. The worst {_name(first)}, by {about}: {words}."
    if not site.following:
        return
    top = 90 + height
    spaces = dict.fromkeys(access.space for access in site.following)  # each has a key
    page.text(12, top + 12, "What this warp does next at the line", weight="bold")
    page.small(
        page.width - 12, top + 12, "   ·   ".join(_KEYS[space] for space in spaces), ha="right"
    )
    for i, access in enumerate(site.following):
        _draw_row(page, top + 24 + _ROW * i, access)
    next_ones = [f"{_name(access)}: {_describe_units(access)}" for access in site.following]
    page.alt += f" Next, the same warp makes there: {', '.join(next_ones)}."


def _name(access: WarpAccess) -> str:
    """Return the access in words: "load of x"."""
    return f"{_VERBS[access.op]} {access.name or access.space + ' memory'}"


def _describe_units(access: WarpAccess) -> str:
    """Return what an access takes, in words: "4 sectors" of global memory, "2 wavefronts" of shared memory."""
    unit = {"global": "sector", "shared": "wavefront", "constant": "turn"}[access.space]
    return count(access.units, unit)


def _find_turns(access: WarpAccess) -> warps.Turns | None:
    """Return an access's wavefronts of shared memory or turns of constant memory; None for global memory."""
    if access.space == "constant":  # the addresses are written as elements: "mask[7]"
        return warps.constant_turns(
            access.lanes, lambda at: f"{access.name}[{(at - access.base) // access.size}]"
        )
    return (
        warps.shared_turns(access.lanes, access.size, access.op == "ld")
        if access.space == "shared"
        else None
    )


def _draw_row(page: Page, top: float, access: WarpAccess) -> None:
    """Draw an access as a row from y = `top`: its name, its sectors or wavefronts in small, and their number."""
    left, right = 150, page.width - 118
    page.small(12, top + 13, _name(access), style.INK)
    page.small(
        right + 14,
        top + 13,
        _describe_units(access),
        style.AMBER if access.units > 1 else style.MUTED,
    )
    turns = _find_turns(access)
    if turns is None:
        used, _ = warps.bytes_used(access.lanes, access.size)
        warps.draw_sectors(page, left, right, top + 2, 14, used, max_width=56, centered=False)
        return
    # A box of 32 banks or lanes per turn. Of a group of turns, those after the first are conflicts.
    boxes = [(columns, bool(i)) for group in turns.groups for i, columns in enumerate(group)]
    w = min(148.0, (right - left) / min(len(boxes), _MAX_TURNS) - 8)
    for i, (columns, is_conflict) in enumerate(boxes[:_MAX_TURNS]):
        x = left + i * (w + 8)
        page.rect(x, top + 3, w, 12, style.HAIR)
        for column in columns:
            cell, color = w / BANKS, style.ORANGE if is_conflict else style.BLUE
            # with a gap if there is room
            page.rect(x + column * cell, top + 3, cell - 0.5 * (w > 60), 12, color)
