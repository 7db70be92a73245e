"""The convolution as an implicit matrix product in Triton: what recording.libraries measures beside the ladder.

A program computes a tile of pixels by all maps, as the sum of products [pixels, terms] x [terms,
maps]. im2col exists only as addresses: a term is a place in the window, and its division by K is
one by a constant.
"""

import triton
import triton.language as tl


@triton.jit
def convolution(
    x,
    k,
    y,
    pixels,
    C: tl.constexpr,
    H: tl.constexpr,
    W: tl.constexpr,
    M: tl.constexpr,
    K: tl.constexpr,
    PIXELS: tl.constexpr,
    TERMS: tl.constexpr,
    MAPS: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """Convolve x [B, C, H, W] with k [M, C, K, K] as a matrix product; write y [B, M, Ho, Wo].

    A program computes PIXELS output pixels of all maps, TERMS of the C K K products per step.
    `pixels` is the number of all output pixels, B Ho Wo. MAPS is M, rounded up to a size of tl.dot.
    """
    Ho: tl.constexpr = H - K + 1
    Wo: tl.constexpr = W - K + 1
    ALL: tl.constexpr = C * K * K
    pixel = tl.program_id(0) * PIXELS + tl.arange(0, PIXELS)
    image, place = pixel // (Ho * Wo), pixel % (Ho * Wo)  # place: in an output map
    # index in x of the first input that a pixel needs; int64, since a large x has more than 2^31 elements
    corner = image.to(tl.int64) * (C * H * W) + place // Wo * W + place % Wo
    m = tl.arange(0, MAPS)
    sums = tl.zeros((PIXELS, MAPS), tl.float32)
    for first in range(0, ALL, TERMS):
        term = first + tl.arange(0, TERMS)
        c, p, q = term // (K * K), term // K % K, term % K  # channel, row and column of the mask
        of_x = corner[:, None] + (c * (H * W) + p * W + q)[None, :]
        # a: inputs [PIXELS, TERMS]; b: weights [TERMS, MAPS]; 0 for what is beyond the arrays
        a = tl.load(x + of_x, mask=(pixel < pixels)[:, None] & (term < ALL)[None, :], other=0.0)
        b = tl.load(
            k + m[None, :] * ALL + term[:, None],
            mask=(m < M)[None, :] & (term < ALL)[:, None],
            other=0.0,
        )
        sums = tl.dot(a, b, sums, input_precision=PRECISION)
    of_y = image.to(tl.int64)[:, None] * (M * Ho * Wo) + m[None, :] * (Ho * Wo) + place[:, None]
    tl.store(
        y + of_y, sums.to(y.dtype.element_ty), mask=(pixel < pixels)[:, None] & (m < M)[None, :]
    )
