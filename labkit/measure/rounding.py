"""Measure the rounding errors of kernels, and compute their bounds."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pandas as pd

from labkit.ladder.variants import Variant, as_variants
from labkit.measure.compare import draw_reals, tolerance
from labkit.spec.layers import Layer, as_layers
from labkit.spec.reference import conv_float64, error_scale


def rounding_errors(
    variants: Variant | int | Iterable[Variant | int],
    layers: Layer | str | Iterable[Layer | str],
    batch: int = 4,
) -> pd.DataFrame:
    """Measure the rounding errors of variants, relative to sum |x| |k| of each output, with which they grow.

    The inputs are drawn as in `labkit.check`: real numbers of the size of pixels and weights,
    rounded to the variant's own storage. The measured errors come from the arithmetic and from the
    output's format. Raises LabError if a variant does not support a layer.

    Parameters
    ----------
    variants : Variant, rung number, or iterable of these
    layers : Layer, its name, or iterable of these
    batch : int
        Images.

    Returns
    -------
    DataFrame
        A row per layer and variant: label, layer, terms (products per sum), largest and typical
        (root mean square) error, and bound, the largest error that the checker allows; all three
        relative to sum |x| |k|.
    """
    chosen, rows = as_variants(variants), []
    for layer in as_layers(layers):
        for variant in chosen:
            x, k = draw_reals(variant, layer, batch, np.random.default_rng(1))
            with variant.plan(layer, batch) as plan:
                plan.load(x, k)
                plan.run()
                y = plan.result()
            scale = error_scale(x, k)
            error = np.abs(y - conv_float64(x, k)) / scale
            rows.append(
                {
                    "label": variant.label,
                    "layer": layer.name,
                    "terms": layer.terms,
                    "largest": float(error.max()),
                    "typical": float(np.sqrt(np.mean(error**2))),
                    "bound": float((tolerance(variant.rounding, scale, layer.terms) / scale).max()),
                }
            )
    return pd.DataFrame(rows)
