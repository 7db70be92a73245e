"""Train lenet86 in NumPy: gradients by the chain rule, layer by layer, and Adam.

Inside this module arrays are [C, B, H, W], channels first: then a convolution is one matrix product, and so
are its two gradients. Everything follows the dtype of the weights: float64 weights give gradients that can be
compared with finite differences.
"""

import numpy as np

from labkit.network.images import resize

SIZE = 86  # lenet86's input, H = W
POOLS = (2, 4)  # window = stride of the max-pools after conv1 and conv2
BETAS, EPSILON = (0.9, 0.999), 1e-8  # Adam's, as its authors recommend


def random_state(seed):
    """NumPy's older generator: its stream never changes, so a recorded seed keeps its meaning."""
    return np.random.RandomState(seed)


def initial_weights(seed, dtype=np.float32):
    """Random weights for lenet86, normal with the variance 2 / fan-in that suits ReLU (He et al. 2015).

    Parameters
    ----------
    seed : int

    Returns
    -------
    dict of ndarray
        conv1 [4, 1, 7, 7], conv2 [16, 4, 7, 7], fc1 [1296, 32], fc1_bias [32], fc2 [32, 10], fc2_bias [10].
    """
    random = random_state(seed)

    def normal(shape, fan_in):
        return (random.standard_normal(shape) * np.sqrt(2 / fan_in)).astype(dtype)

    return {
        "conv1": normal((4, 1, 7, 7), 49),
        "conv2": normal((16, 4, 7, 7), 196),
        "fc1": normal((1296, 32), 1296),
        "fc1_bias": np.zeros(32, dtype),
        "fc2": normal((32, 10), 32),
        "fc2_bias": np.zeros(10, dtype),
    }


def loss_and_gradients(weights, images, labels):
    """Mean cross-entropy of a batch, and its derivative by every weight.

    Parameters
    ----------
    weights : dict of ndarray
        As from `initial_weights`.
    images : ndarray [B, 1, 86, 86]
    labels : ndarray, int [B]

    Returns
    -------
    loss : float
    gradients : dict of ndarray
        Shaped like `weights`.
    correct : int
        How many of the B images were classified correctly.
    """
    B = len(images)
    x1 = images.transpose(1, 0, 2, 3).astype(weights["conv1"].dtype, copy=False)
    columns1 = _columns(x1, 7)
    z1 = _product(weights["conv1"], columns1)
    x2, winners1 = _relu_max_pool(z1, POOLS[0])
    columns2 = _columns(x2, 7)
    z2 = _product(weights["conv2"], columns2)
    x3, winners2 = _relu_max_pool(z2, POOLS[1])

    x4 = x3.transpose(1, 0, 2, 3).reshape(B, -1)  # [B, 1296], as NCHW flattens
    x5 = np.maximum(x4 @ weights["fc1"] + weights["fc1_bias"], 0)
    scores = x5 @ weights["fc2"] + weights["fc2_bias"]
    scores -= scores.max(axis=1, keepdims=True)
    logarithms = scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))
    loss = -logarithms[np.arange(B), labels].mean()

    d_scores = np.exp(logarithms)  # softmax and cross-entropy together: probability minus truth
    d_scores[np.arange(B), labels] -= 1
    d_scores /= B
    d_x5 = (d_scores @ weights["fc2"].T) * (x5 > 0)
    d_x4 = d_x5 @ weights["fc1"].T
    d_x3 = d_x4.reshape(B, *x3.shape[:1], *x3.shape[2:]).transpose(1, 0, 2, 3)
    d_z2 = _relu_max_pool_gradient(d_x3, x3, winners2, POOLS[1], z2.shape)
    d_x2 = _columns_gradient(_rows(weights["conv2"]).T @ _rows(d_z2), x2.shape, 7)
    d_z1 = _relu_max_pool_gradient(d_x2, x2, winners1, POOLS[0], z1.shape)
    gradients = {
        "conv1": (_rows(d_z1) @ columns1.reshape(49, -1).T).reshape(weights["conv1"].shape),
        "conv2": (_rows(d_z2) @ columns2.reshape(196, -1).T).reshape(weights["conv2"].shape),
        "fc1": x4.T @ d_x5,
        "fc1_bias": d_x5.sum(axis=0),
        "fc2": x5.T @ d_scores,
        "fc2_bias": d_scores.sum(axis=0),
    }
    return float(loss), gradients, int((scores.argmax(axis=1) == labels).sum())


def _rows(a):
    return a.reshape(len(a), -1)


def _columns(x, K):
    """im2col: [C, B, H, W] -> [C, K, K, B, Ho, Wo], the input under each of the mask's K x K elements."""
    C, B, H, W = x.shape
    Ho, Wo = H - K + 1, W - K + 1
    columns = np.empty((C, K, K, B, Ho, Wo), x.dtype)
    for p in range(K):
        for q in range(K):
            columns[:, p, q] = x[:, :, p : p + Ho, q : q + Wo]
    return columns


def _columns_gradient(d_columns, shape, K):
    """The transpose of `_columns`: add what each copy of an input element received."""
    C, B, H, W = shape
    Ho, Wo = H - K + 1, W - K + 1
    d_columns = d_columns.reshape(C, K, K, B, Ho, Wo)
    d_x = np.zeros(shape, d_columns.dtype)
    for p in range(K):
        for q in range(K):
            d_x[:, :, p : p + Ho, q : q + Wo] += d_columns[:, p, q]
    return d_x


def _product(k, columns):
    """Convolution as a matrix product: [M, C K K] times [C K K, B Ho Wo] -> [M, B, Ho, Wo]."""
    return (_rows(k) @ columns.reshape(k[0].size, -1)).reshape(len(k), *columns.shape[3:])


def _relu_max_pool(z, window):
    """ReLU and max-pool (stride = window, the last window may reach over the edge), and which element won."""
    C, B, H, W = z.shape
    Ho, Wo = -(-H // window), -(-W // window)
    if (Ho * window, Wo * window) != (H, W):
        z = np.pad(z, ((0, 0), (0, 0), (0, Ho * window - H), (0, Wo * window - W)), constant_values=-np.inf)
    windows = z.reshape(C, B, Ho, window, Wo, window).transpose(0, 1, 2, 4, 3, 5).reshape(C, B, Ho, Wo, -1)
    winners = windows.argmax(axis=-1)[..., None]
    return np.maximum(np.take_along_axis(windows, winners, axis=-1)[..., 0], 0), winners


def _relu_max_pool_gradient(d_x, x, winners, window, shape):
    """Hand each gradient to the element that won, if it was positive."""
    C, B, Ho, Wo = x.shape
    d_windows = np.zeros((C, B, Ho, Wo, window * window), d_x.dtype)
    np.put_along_axis(d_windows, winners, (d_x * (x > 0))[..., None], axis=-1)
    d_z = d_windows.reshape(C, B, Ho, Wo, window, window).transpose(0, 1, 2, 4, 3, 5)
    return np.ascontiguousarray(d_z.reshape(C, B, Ho * window, Wo * window)[:, :, : shape[2], : shape[3]])


class Adam:
    """Kingma and Ba, Adam: a method for stochastic optimization, 2015, algorithm 1.

    Parameters
    ----------
    weights : dict of ndarray
        Changed in place by `step`.
    """

    def __init__(self, weights):
        self.weights, self.steps = weights, 0
        self.first = {name: np.zeros_like(w) for name, w in weights.items()}
        self.second = {name: np.zeros_like(w) for name, w in weights.items()}

    def step(self, gradients, rate):
        """Move every weight by about `rate` against its gradient."""
        self.steps += 1
        beta1, beta2 = BETAS
        scale = rate * np.sqrt(1 - beta2**self.steps) / (1 - beta1**self.steps)
        for name, gradient in gradients.items():
            m, v = self.first[name], self.second[name]
            m += (1 - beta1) * (gradient - m)
            v += (1 - beta2) * (gradient * gradient - v)
            self.weights[name] -= scale * m / (np.sqrt(v) + EPSILON)


def distort(images, random, angle=12.0, shift=0.09, scale=0.12, shear=0.1):
    """A little turned, moved, grown and slanted, each image differently: as if another hand had written it.

    Parameters
    ----------
    images : ndarray, float32 [B, 1, H, W]
    random : RandomState
    angle : float
        Degrees.
    shift, scale, shear : float
        Parts of the image's side. Every amount is drawn evenly from minus to plus its bound.

    Returns
    -------
    ndarray, float32 [B, 1, H, W]
        Bilinear; what lies beyond the edge is 0.
    """
    B, _, H, W = images.shape

    def draw(bound):
        return random.uniform(-bound, bound, (B, 1, 1)).astype(np.float32)

    turn = np.deg2rad(draw(angle))
    y = (np.arange(H, dtype=np.float32)[:, None] - (H - 1) / 2)[None]
    x = (np.arange(W, dtype=np.float32)[None, :] - (W - 1) / 2)[None]
    # Where does each output pixel look? In an image with a border of zeros, one pixel wide.
    from_y = (np.cos(turn) * y - np.sin(turn) * x) * (1 + draw(scale)) + H * draw(shift) + (H + 1) / 2
    from_x = (np.sin(turn) * y + np.cos(turn) * x) * (1 + draw(scale)) + W * draw(shift) + (W + 1) / 2
    from_x += draw(shear) * y
    padded = np.pad(images[:, 0], ((0, 0), (1, 1), (1, 1)))
    top = np.clip(from_y, 0, H).astype(np.intp)
    left = np.clip(from_x, 0, W).astype(np.intp)
    down, across = np.clip(from_y - top, 0, 1), np.clip(from_x - left, 0, 1)
    flat = padded.reshape(-1)
    at = np.arange(B)[:, None, None] * ((H + 2) * (W + 2)) + top * (W + 2) + left
    upper = flat[at] * (1 - across) + flat[at + 1] * across
    lower = flat[at + W + 2] * (1 - across) + flat[at + W + 3] * across
    return (upper * (1 - down) + lower * down)[:, None].astype(np.float32, copy=False)


def train(weights, images, labels, epochs, seed, batch=32, rate=1e-3):
    """Train in place; a generator, so that the caller shows progress and can stop.

    Each batch is resized to 86 x 86 and distorted as it comes up; an epoch sees every image once, in random
    order. The learning rate falls along half a cosine, from `rate` to 0.

    Parameters
    ----------
    weights : dict of ndarray
        As from `initial_weights`.
    images : ndarray, float32 [N, 1, h, w]
        Of any size.
    labels : ndarray, int [N]
    epochs, seed, batch : int
    rate : float
        Adam's, at the start.

    Yields
    ------
    step, steps : int
        Steps taken, and steps in all.
    loss : float
        Of the batch, before the step.
    """
    random = random_state(seed)
    optimizer = Adam(weights)
    steps, step = epochs * -(-len(labels) // batch), 0
    for _ in range(epochs):
        order = random.permutation(len(labels))
        for start in range(0, len(labels), batch):
            chosen = order[start : start + batch]
            examples = distort(resize(images[chosen, 0], SIZE, white=1), random)
            loss, gradients, _ = loss_and_gradients(weights, examples, labels[chosen])
            optimizer.step(gradients, rate * 0.5 * (1 + np.cos(np.pi * step / steps)))
            step += 1
            yield step, steps, loss
