"""Executes and stores notebooks, writes them as HTML pages and as a site; the edition for Google Colab."""

from pathlib import Path

TEMPLATES = Path(__file__).parent / "template"  # nbconvert's, in a folder per template
STYLE = TEMPLATES / "notebook" / "style.css"  # of all pages
