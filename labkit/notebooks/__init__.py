"""Execute and store notebooks; write them as HTML pages and as a site."""

from pathlib import Path

TEMPLATES = Path(__file__).parent / "template"  # of nbconvert, in a folder per template
STYLE = TEMPLATES / "notebook" / "style.css"  # of all pages
