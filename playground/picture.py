"""Draw docs/images/live.png, a cell of the site that was edited and graded in Chromium, and its dark version.

    make playground site && .venv/bin/python playground/picture.py

The cell is that of P1a; the attempt reads down the columns, so it is right and misses its goal.
"""

from __future__ import annotations

import argparse
import io
import os
import shutil

from benchmark import SITE, served
from driver import BROWSERS
from PIL import Image, PngImagePlugin
from playwright.sync_api import Browser, Page, Playwright, sync_playwright

IMAGES = SITE.parents[1] / "docs" / "images"
WIDTH, HEIGHT = 860, 1400  # of the window, in which both cells fit
ATTEMPT = """__global__ void transpose(const float *in, float *out, int rows, int columns)
{
    // out[column][row] = in[row][column], for all elements
    int row = 32 * blockIdx.y + threadIdx.x, column = 32 * blockIdx.x + threadIdx.y;
    if (row < rows && column < columns)
        out[column * rows + row] = in[row * columns + column];
}
"""
TITLE = "A kernel of page P1, edited and graded in a browser"


def launch(playwright: Playwright) -> Browser:
    """Return a new Chromium, driven by Playwright, of the first name in BROWSERS that is installed."""
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []  # root has no sandbox
    executable = next(filter(None, map(shutil.which, BROWSERS)))
    return playwright.chromium.launch(executable_path=executable, args=arguments)


def main() -> None:
    """Grade the attempt in the page of its exercise, and take pictures of it for docs/images/, light and dark."""
    # only for --help: there are no options
    argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    ).parse_args()
    with served(SITE) as address, sync_playwright() as playwright:
        browser = launch(playwright)
        page = browser.new_page(
            viewport={"width": WIDTH, "height": HEIGHT}, device_scale_factor=2, color_scheme="light"
        )
        page.set_default_timeout(600_000)
        page.goto(f"{address}practice/P1_transpose.html")
        cell = page.locator("[data-name=P1a]")
        cell.get_by_role("button", name="Edit and run").click()
        cell.locator(".cm-content").wait_for()
        page.keyboard.press("Control+a")
        page.keyboard.insert_text(ATTEMPT)
        page.keyboard.press("Alt+Enter")
        cell.locator(".status").get_by_text("P1a: goal missed").wait_for()
        lines = page.locator(".grade li").all_inner_texts()  # for the picture's description
        page.evaluate("document.activeElement.blur()")  # no caret, which blinks
        write(
            page, "live.png", " ".join([f"{TITLE}:", *(" ".join(line.split()) for line in lines)])
        )
        page.emulate_media(color_scheme="dark")
        write(page, "live-dark.webp")
        browser.close()


def write(page: Page, name: str, description: str = "") -> None:
    """Write a picture of the cell of exercise P1a and its verdict below, with 64 colors, into docs/images/.

    The ending of `name` chooses PNG, whose file has the description, or WebP.
    """
    cell = page.locator("[data-name=P1a]")
    top = cell.bounding_box()
    # this attribute has the id of the element with the cell's verdict
    below = page.locator(f"#{cell.get_attribute('data-verdict')}").bounding_box()
    area = {**top, "height": below["y"] + below["height"] - top["y"]}
    picture = Image.open(io.BytesIO(page.screenshot(clip=area, animations="disabled")))
    about = PngImagePlugin.PngInfo()
    about.add_text("Description", description)
    reduced = picture.convert("RGB").quantize(64, dither=Image.Dither.NONE)
    if name.endswith(".png"):
        reduced.save(IMAGES / name, optimize=True, pnginfo=about)
    else:
        reduced.convert("RGB").save(IMAGES / name, lossless=True, method=6)
    print(f"{name}  {(IMAGES / name).stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
