"""The dark version of a figure: the same picture with another palette.

Lightness is inverted in OKLab, hues stay: paper becomes the ground of a dark page, ink becomes
light, and a blue bar stays blue. The mapping is continuous, so the smoothed edges of letters and
lines stay smooth. Text keeps its contrast, on the paper and on bars, because light and dark change
places (tests/test_draw_dark.py).
"""

import io

import numpy as np
from PIL import Image, UnidentifiedImageError

GROUND = "#14181d"  # white becomes this: the dark paper of the report's style sheet

# Lightness by day and by night. It is steep near 0.6, where the text on a bar changes from ink to
# paper.
_BY_DAY = (0, 0.27, 0.5, 0.58, 0.62, 0.77, 1)
_BY_NIGHT = (1, 0.95, 0.77, 0.67, 0.54, 0.51)  # and, last, that of the ground

# OKLab: B. Ottosson, "A perceptual color space for image processing", 2020. Linear sRGB to cone
# responses, and the cube roots of these to lightness L, green-red a, blue-yellow b.
_CONES = np.array(
    [
        [0.4122214708, 0.5363325363, 0.0514459929],
        [0.2119034982, 0.6806995451, 0.1073969566],
        [0.0883024619, 0.2817188376, 0.6299787005],
    ]
)
_LAB = np.array(
    [
        [0.2104542553, 0.7936177850, -0.0040720468],
        [1.9779984951, -2.4285922050, 0.4505937099],
        [0.0259040371, 0.7827717662, -0.8086757660],
    ]
)


def dark(picture: bytes) -> bytes | None:
    """Return the dark version of a figure, for a page with a dark ground.

    Parameters
    ----------
    picture : bytes
        A PNG file.

    Returns
    -------
    bytes or None
        A lossless WebP file, two thirds as large. None for a picture without a palette, which may be a
        photograph, and for bytes that are no picture.
    """
    try:
        image = Image.open(io.BytesIO(picture))
    except UnidentifiedImageError:
        return None
    if image.mode != "P":  # with a palette
        return None
    out = io.BytesIO()
    image.putpalette(darken(np.reshape(image.getpalette(), (-1, 3))).tobytes())
    image.convert("RGB").save(out, "webp", lossless=True, method=1)  # 0: fast, 6: small files
    return out.getvalue()


def darken(colors: np.ndarray) -> np.ndarray:
    """Return the dark versions of colours.

    Parameters
    ----------
    colors : array of int [n, 3]
        sRGB, 0 to 255.

    Returns
    -------
    ndarray of uint8 [n, 3]
    """
    # each row of `lab`: lightness, green to red, blue to yellow
    lab, ground = _to_oklab(colors), _to_oklab(list(bytes.fromhex(GROUND[1:])))
    # from lightness by day to lightness by night
    light = np.interp(lab[:, 0], _BY_DAY, (*_BY_NIGHT, ground[0]))
    # White becomes the ground, a grey with a little blue. Other colours get a part of its hue, in
    # proportion to their lightness.
    lab[:, 1:] += lab[:, :1] * ground[1:]
    return _to_srgb(np.column_stack([light, lab[:, 1:]]))


def _to_oklab(colors: np.ndarray | list[int]) -> np.ndarray:
    """Convert sRGB colours [..., 3] of 0 to 255 to the perceptual colour space OKLab (L, a, b)."""
    encoded = np.asarray(colors) / 255  # by the curve of sRGB, IEC 61966-2-1, which is undone next
    linear = np.where(encoded <= 0.04045, encoded / 12.92, ((encoded + 0.055) / 1.055) ** 2.4)
    return np.cbrt(linear @ _CONES.T) @ _LAB.T


def _to_srgb(lab: np.ndarray) -> np.ndarray:
    """Convert OKLab colours [n, 3] to sRGB, uint8 of 0 to 255; what sRGB lacks is clipped.

    Inverts `_to_oklab`.
    """
    linear = np.clip((lab @ np.linalg.inv(_LAB).T) ** 3 @ np.linalg.inv(_CONES).T, 0, 1)
    encoded = np.where(linear <= 0.0031308, linear * 12.92, 1.055 * linear ** (1 / 2.4) - 0.055)
    return np.round(encoded * 255).astype(np.uint8)
