"""Execute and store notebooks; write them as HTML pages, as a site, and as the edition for Google Colab."""

from pathlib import Path

TEMPLATES = Path(__file__).parent / "template"  # of nbconvert, in a folder per template
STYLE = TEMPLATES / "notebook" / "style.css"  # of all pages
