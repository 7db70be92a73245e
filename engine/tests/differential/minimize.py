"""Remove statements of a kernel while the modes still give other results than the reference."""

import time
from dataclasses import replace

from .compare import Batch, compare
from .generator import TOOLS, WAITS


def minimize(kernel, modes, seconds=300):
    """Return the source of a smaller kernel that is wrong on the same modes; it removes statements of the `Kernel`."""
    end = time.monotonic() + seconds
    tools = list(kernel.tools)

    def batch():
        prelude = WAITS + "".join(TOOLS[name] for name in tools)
        used = [part for part in _split_parts(kernel.before) if _is_used(part, kernel)]
        return Batch(prelude, [replace(kernel.case(), before="".join(used))])

    def wrong():
        if time.monotonic() > end:
            return False
        (result,) = compare(batch(), cache_dir=False, modes=modes)
        return result.verdict not in ("same", "illegal")

    while without_some(kernel.nodes, wrong):
        pass
    _remove_pieces(tools, wrong)
    return batch().text


def without_some(nodes, wrong):
    """Remove statements from a list and from inside of them where possible; return whether any was removed."""
    removed = _remove_pieces(nodes, wrong)
    for at, node in enumerate(nodes):
        if node.body is not None:
            nodes[at : at + 1] = node.body  # the statements inside of it, without it
            if wrong():
                return True
            nodes[at : at + len(node.body)] = [node]
            removed |= without_some(node.body, wrong)
    return removed


def _remove_pieces(items, wrong):
    removed, size = False, max(1, len(items) // 2)
    while size:
        at = 0
        while at < len(items):
            piece = items[at : at + size]
            del items[at : at + size]
            if wrong():
                removed = True
            else:
                items[at:at] = piece
                at += size
        size //= 2
    return removed


def _split_parts(before):
    """Split the functions and macros before a kernel: a part ends where the next line begins one."""
    parts = []
    for line in before.splitlines(keepends=True):
        if line.startswith(("#define", "__device__", "template")):
            parts.append(line)
        else:
            parts[-1] += line
    return parts


def _is_used(part, kernel):
    own = f"_{kernel.seed}_"
    names = [word for word in part.replace("(", " ").replace(";", " ").split() if own in word]
    return not names or names[0] in kernel.text() or kernel.before.count(names[0]) > 1
