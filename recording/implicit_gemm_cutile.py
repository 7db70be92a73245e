"""The convolution as an implicit matrix product in cuTile: what recording.libraries measures beside the ladder.

A block computes a tile of pixels by all maps, as implicit_gemm.py does in Triton. x, k and y are
flat arrays with less than 2³¹ elements.
"""

import cuda.tile as ct


@ct.kernel
def convolution(
    x,
    k,
    y,
    C: ct.Constant[int],
    H: ct.Constant[int],
    W: ct.Constant[int],
    M: ct.Constant[int],
    K: ct.Constant[int],
    PIXELS: ct.Constant[int],
    TERMS: ct.Constant[int],
    MAPS: ct.Constant[int],
):
    """Convolve x [B, C, H, W] with k [M, C, K, K] as a matrix product; write y [B, M, Ho, Wo].

    The arrays are flat. A block computes PIXELS output pixels of all maps, TERMS of the C K K
    products per step. MAPS is M, rounded up to a size of ct.mma. The last block may have pixels
    beyond the arrays: ct.gather reads 0 there, ct.scatter writes nothing.
    """
    Ho, Wo, ALL = H - K + 1, W - K + 1, C * K * K
    pixel = ct.bid(0) * PIXELS + ct.arange(PIXELS, dtype=ct.int32)
    image, place = pixel // (Ho * Wo), pixel % (Ho * Wo)  # place: in an output map
    # index in x of the first input that a pixel needs
    corner = image * (C * H * W) + place // Wo * W + place % Wo
    m = ct.arange(MAPS, dtype=ct.int32)
    sums = ct.zeros((PIXELS, MAPS), ct.float32)
    for first in range(0, ALL, TERMS):
        term = first + ct.arange(TERMS, dtype=ct.int32)
        c, p, q = term // (K * K), term // K % K, term % K  # channel, row and column of the mask
        of_x = corner[:, None] + (c * (H * W) + p * W + q)[None, :]
        # a: inputs [PIXELS, TERMS]; b: weights [TERMS, MAPS]
        a = ct.gather(x, of_x, mask=(term < ALL)[None, :])
        b = ct.gather(
            k, m[None, :] * ALL + term[:, None], mask=(m < M)[None, :] & (term < ALL)[:, None]
        )
        sums = ct.mma(a, b, sums)
    of_y = (image * (M * Ho * Wo) + place)[:, None] + (m * (Ho * Wo))[None, :]
    ct.scatter(y, of_y, ct.astype(sums, y.dtype), mask=(m < M)[None, :])
