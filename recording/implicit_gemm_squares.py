"""The implicit matrix product of `recording.implicit_gemm` with a row per square of 2 x 2 outputs, in Triton.

The four outputs of a square share a window of (K + 1)^2 inputs, which is loaded once. So the matrix of
weights has four columns per map, one per output of the square, with a 0 where an output does not
need an input. It is the idea of rung 10 in the tool of page 16, and of its exercise.
"""

import triton
import triton.language as tl


@triton.jit
def convolution(
    x,
    k,
    y,
    squares,
    C: tl.constexpr,
    H: tl.constexpr,
    W: tl.constexpr,
    M: tl.constexpr,
    K: tl.constexpr,
    SQUARES: tl.constexpr,
    TERMS: tl.constexpr,
    MAPS: tl.constexpr,
    PRECISION: tl.constexpr,
    POOL: tl.constexpr,
):
    """Convolve x [B, C, H, W] with k [M, C, K, K], Ho = H - K + 1 and Wo = W - K + 1 being even.

    A square is 2 x 2 outputs, which share a window of (K + 1)^2 inputs. A program computes SQUARES
    squares of all maps, TERMS of the C (K + 1)^2 products per step: a row of `a` has inputs of a
    square's window, a column of `b` the weights for one of the four outputs in one map, with 0
    where that output does not need the input.
    `squares` is the number of all squares, B Ho/2 Wo/2. MAPS is M, rounded up to a size of tl.dot.
    It writes y [B, M, Ho, Wo]; with POOL, the largest output of each square or 0 if that is
    larger: y [B, M, Ho/2, Wo/2].
    """
    Hp: tl.constexpr = (H - K + 1) // 2
    Wp: tl.constexpr = (W - K + 1) // 2
    SIDE: tl.constexpr = K + 1
    square = tl.program_id(0) * SQUARES + tl.arange(0, SQUARES)
    image, place = square // (Hp * Wp), square % (Hp * Wp)  # place: in a map of squares
    # index in x of the first input that a square needs; int64, since a large x has more than 2^31 elements
    corner = image.to(tl.int64) * (C * H * W) + place // Wp * 2 * W + place % Wp * 2
    column = tl.arange(0, 4 * MAPS)
    # of the square's output in this column: its row and its column in the square, its map
    down, right, m = column // MAPS // 2, column // MAPS % 2, column % MAPS
    sums = tl.zeros((SQUARES, 4 * MAPS), tl.float32)
    for first in range(0, C * SIDE * SIDE, TERMS):
        term = first + tl.arange(0, TERMS)
        # channel, row and column of an input in the square's window
        c, p, q = term // (SIDE * SIDE), term // SIDE % SIDE, term % SIDE
        of_x = corner[:, None] + (c * (H * W) + p * W + q)[None, :]
        a = tl.load(x + of_x, mask=(square < squares)[:, None] & (c < C)[None, :], other=0.0)
        # the place in the mask of the weight by which this output multiplies this input, if it exists
        row, col = p[:, None] - down[None, :], q[:, None] - right[None, :]
        exists = (row >= 0) & (col >= 0) & (row < K) & (col < K)
        of_k = (m[None, :] * C + c[:, None]) * (K * K) + row * K + col
        b = tl.load(k + of_k, mask=exists & (c < C)[:, None] & (m < M)[None, :], other=0.0)
        sums = tl.dot(a, b, sums, input_precision=PRECISION)
    if POOL:
        pool = tl.maximum(tl.max(tl.reshape(sums, (SQUARES, 4, MAPS)), axis=1), 0)
        maps = tl.arange(0, MAPS)
        of_y = image.to(tl.int64)[:, None] * (M * Hp * Wp) + maps[None, :] * (Hp * Wp)
        there = (square < squares)[:, None] & (maps < M)[None, :]
        tl.store(y + of_y + place[:, None], pool.to(y.dtype.element_ty), mask=there)
    else:
        # of a square's first output, in a map with rows of 2 Wp outputs
        first_place = place // Wp * 2 * (2 * Wp) + place % Wp * 2
        of_y = image.to(tl.int64)[:, None] * (M * 4 * Hp * Wp) + first_place[:, None]
        of_column = m * (4 * Hp * Wp) + down * (2 * Wp) + right
        there = (square < squares)[:, None] & (m < M)[None, :]
        tl.store(y + of_y + of_column[None, :], sums.to(y.dtype.element_ty), mask=there)
