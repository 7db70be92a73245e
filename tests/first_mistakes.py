"""Print what JupyterLab shows of seven typical mistakes after 1, 5 and 10 seconds, as a table in Markdown.

    python tests/first_mistakes.py        (after `make browser`)

Chromium writes each mistake into a cell, runs it and the cell that checks it, and reads what stands
below them. An ellipsis stands for what is the same as before.
"""

import os
import re
import shutil
import tempfile
import time
from pathlib import Path

from playwright.sync_api import sync_playwright
from test_jupyterlab import LONG, Notebook, expect, make_notebook, nbformat, serve

from labkit.ladder.variants import variant

AFTER = (1, 5, 10)  # seconds
SHOWN = 200  # characters
BASELINE, TILING = variant(1).source, variant(4).source
GUARD = "if (h >= Ho || w >= Wo) return;"
# What is wrong -> the cell, and the cell that is run after it.
MISTAKES = {
    "`%cuda` for `%%cuda`": ("%cuda mine\n__global__ void k(float *x) { x[0] = 1; }", "pass"),
    "a missing brace": (f"%%kernel 01 --name mine\n{BASELINE.rstrip()[:-1]}", "lab.check(mine)"),
    "a misspelt name": (
        f"%%kernel 01 --name mine\n{BASELINE.replace(GUARD, 'if (h >= Ho || w >= Wi) return;')}",
        "lab.check(mine)",
    ),
    "no guard": (
        f"%%kernel 01 --name mine\n{BASELINE.replace(GUARD, '')}",
        "lab.check(mine)",
    ),
    "exchanged sizes": (
        f"%%kernel 01 --name mine\n{BASELINE.replace(GUARD, 'if (h >= Wo || w >= Ho) return;')}",
        "lab.check(mine)",
    ),
    "a missing barrier": (
        f"%%kernel 04 --name mine\n{TILING.replace('__syncthreads();', '', 1)}",
        "lab.check(mine)",
    ),
    "a loop without an end": (
        f"%%kernel 01 --name mine\n"
        f"{BASELINE.replace(GUARD, 'for (volatile unsigned more = 1; more; more += 2) {}')}",
        "lab.check(mine)",
    ),
}


def read_cells(page: Notebook) -> str:
    """Return what stands below the cell after the mistake, or else below the mistake, on one line."""
    areas = [page.cells.nth(place).locator(".jp-Cell-outputArea") for place in (2, 1)]
    texts = (" ".join(area.all_inner_texts()) for area in areas)
    return re.sub(r"\s+", " ", next(filter(str.strip, texts), "")).strip()


def observe(tab, url, folder: Path, cells: tuple[str, str]) -> tuple[list[str], float | None]:
    """Run the cells of a mistake; return what is shown after each of `AFTER`, and when all had ended, or None."""
    notebook = make_notebook("import labkit as lab\nlab.setup()", *cells)
    nbformat.write(notebook, folder / "mistake.ipynb")
    page = Notebook(tab, url("mistake.ipynb"), notebook)
    setup = page.cells.first.locator(".jp-InputPrompt")
    page.cells.first.locator(".cm-content").click()
    tab.keyboard.press("Shift+Enter")
    expect(setup).to_have_text("[1]:")
    begin, shown, end = time.monotonic(), [], None
    tab.keyboard.press("Shift+Enter")
    tab.keyboard.press("Shift+Enter")
    busy = page.cells.locator(".jp-InputPrompt").filter(has_text="[*]")
    for seconds in AFTER:
        while time.monotonic() < begin + seconds:
            if end is None and not busy.count():
                end = time.monotonic() - begin
            tab.wait_for_timeout(50)
        shown.append(read_cells(page))
    page.menu("Kernel", "kernelmenu:shutdown")
    return shown, end


def format_row(what: str, shown: list[str], end: float | None) -> str:
    """Return the row of a mistake."""
    cells = []
    for before, text in zip(["", *shown], shown, strict=False):
        cut = text if len(text) <= SHOWN else f"{text[:SHOWN].rpartition(' ')[0]} …"
        cells.append(("…" if before else "") if text == before else cut.replace("|", "\\|"))
    return f"| {what} | {' | '.join(cells)} | {'' if end is None else f'{end:.1f}'} |"


def main() -> None:
    """Print the table, and what else the machine was doing."""
    browser_path = next(filter(None, map(shutil.which, ("chromium", "google-chrome"))), None)
    names = " | ".join(f"after {seconds} s" for seconds in AFTER)
    print(f"| mistake | {names} | ended after s |\n|---|{'---|' * (len(AFTER) + 1)}", flush=True)
    with tempfile.TemporaryDirectory() as place, sync_playwright() as playwright:
        home, folder = Path(place, "home"), Path(place, "notebooks")
        home.mkdir()
        folder.mkdir()
        browser = playwright.chromium.launch(
            executable_path=browser_path, args=["--no-sandbox"] if os.geteuid() == 0 else []
        )
        with serve(home, folder) as (_, url):
            for what, cells in MISTAKES.items():
                tab = browser.new_page(viewport={"width": 1280, "height": 1800})
                tab.set_default_timeout(LONG)
                expect.set_options(timeout=LONG)
                print(format_row(what, *observe(tab, url, folder, cells)), flush=True)
                tab.close()
        browser.close()
    print(f"\nLoad average: {os.getloadavg()[0]:.1f}, processors: {os.cpu_count()}.")


if __name__ == "__main__":
    main()
