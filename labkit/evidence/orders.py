"""The order in which a kernel of one's own takes the ladder's arguments, found by trying.

This module, as ``python -m labkit.evidence.orders``, is the program that tries, in a process of its
own: a kernel with its sizes exchanged may access any address.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator

import numpy as np

import hostcuda
from hostcuda.source import code_only
from labkit.evidence import child
from labkit.ladder import source
from labkit.ladder.plan import Plan
from labkit.ladder.variants import Variant
from labkit.spec.layers import Layer
from labkit.spec.reference import conv_float64

NAMES = "xkyBCHWMK"  # the arguments of each kernel of the ladder
# sizes that all differ, also from the number of images: only one order is right
_BATCH, _LAYER = 2, Layer("all sizes differ", C=3, H=8, W=9, M=5, K=4)
_MOST_S = 10  # for all that is tried
# what each size gets, in the ladder's order and in that of a well-known course: B, M, C, H, W, K
_USUAL = [(3, 4, 5, 6, 7, 8), (3, 7, 4, 5, 6, 8)]


def find_order(variant: Variant) -> tuple[str, ...]:
    """Return what each parameter of a variant's kernel should get, if another order than the ladder's is right.

    It is for a kernel with wrong results: the order of its parameters may be its only mistake. The
    kernels of the ladder, the lab's own, take x, k, y, B, C, H, W, M, K (`NAMES`). For a kernel
    (x, y, k, ...) the result is ("x", "y", "k", "B", ...). It is empty if no other order is right.
    Nothing is tried, and the result is empty, if the kernel has another number of parameters or the
    ladder's names in their order, or if the rung has several kernels. Raises as `child.trace`.
    """
    own_names = list_names(variant)
    # An unnamed one, such as the last of rung 03, goes by its type. Not strict: the lengths are
    # compared next.
    named = all(name in (letter, "int") for name, letter in zip(own_names, NAMES, strict=False))
    if len(own_names) != len(NAMES) or named or len(variant.calls) > 1:
        return ()
    rows = child.trace(
        variant,
        _LAYER,
        module=__name__,  # the child runs this module as a program, which calls `_try_orders`
        check="",  # without check mode
        purpose="trying other orders of the parameters",
        timeout=2 * _MOST_S,  # the child stops trying after `_MOST_S`
        batch=_BATCH,
    )
    return tuple(rows[0]["order"]) if rows else ()


def list_names(variant: Variant) -> list[str]:
    """Return the names of the parameters of a variant's first kernel."""
    declarations = source.parameters(code_only(variant.source), next(iter(variant.kernels)))
    return [*map(source.parameter_name, declarations)]


def _list_orders(declarations: list[str]) -> Iterator[tuple[int, ...]]:
    """Yield the orders that the parameters' types permit: per parameter, the number of the argument that it gets."""
    is_const = [" const " in f" {text.partition('*')[0]} " for text in declarations[:3]]
    all_arrays = [
        arrays
        for arrays in itertools.permutations(range(3))
        if not is_const[arrays.index(2)]  # the kernel writes argument 2, y
    ]
    for all_sizes in (_USUAL, itertools.permutations(range(3, 9))):
        for sizes, arrays in itertools.product(all_sizes, all_arrays):
            yield arrays + sizes


def _try_orders(plan: Plan) -> list[dict]:
    """Launch a plan's kernel with its arguments in other orders; return [{"order": names}] of the first right one.

    If the ladder's own is right on this layer, return [].
    """
    (launch,) = plan.launches
    code = code_only(plan.variant.source)
    orders = _list_orders(source.parameters(code, launch.kernel))
    rng, until = np.random.default_rng(3), time.monotonic() + _MOST_S
    # small integers: each sum is exact
    x, k = (
        rng.integers(1, 3, shape).astype(np.float32)
        for shape in (_LAYER.x_shape(_BATCH), _LAYER.k_shape)
    )
    unset = np.full(_LAYER.y_shape(_BATCH), np.nan, plan.variant.io_dtype)
    expected = conv_float64(x, k)
    for order in itertools.takewhile(lambda _: time.monotonic() < until, orders):
        plan.load(x, k)  # each time: in a wrong order the kernel may write there
        hostcuda.driver.memcpy_htod(plan.y, unset)
        arguments = [launch.arguments[number] for number in order]
        try:
            launch.function.prepared_async_call(
                launch.grid, launch.block, None, *arguments, shared_size=launch.dynamic_shared
            )
            y = plan.result()
        except hostcuda.driver.LaunchError:  # such as an access outside of all arrays
            continue
        if (y == expected).all():
            names = [NAMES[number] for number in order]
            return [{"order": names}] if names != [*NAMES] else []
    return []


if __name__ == "__main__":
    child.trace_plans(_try_orders)
