"""HTML that a notebook brings along, without what could run in a browser or load something.

Markdown may contain any HTML, and so may the outputs of cells. `Cleaner.clean` leaves the elements and attributes of
text, tables and pictures. What the report itself makes, such as formulas, is set aside meanwhile (`Cleaner.keep`).
"""

from __future__ import annotations

import re
import secrets

from bleach import ALLOWED_TAGS
from bleach.css_sanitizer import ALLOWED_CSS_PROPERTIES, CSSSanitizer
from bleach.sanitizer import Cleaner as Bleach

_TAGS = {
    *ALLOWED_TAGS, "br", "caption", "col", "colgroup", "dd", "del", "details", "div", "dl", "dt", "figcaption",
    "figure", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "img", "ins", "kbd", "mark", "p", "pre", "q", "s", "samp",
    "section", "small", "span", "sub", "summary", "sup", "table", "tbody", "td", "tfoot", "th", "thead", "time", "tr",
    "u", "var", "wbr",
}  # fmt: skip
_ATTRIBUTES = {
    "a": {"href", "rel"}, "img": {"src", "alt", "width", "height"}, "td": {"colspan", "rowspan", "headers"},
    "th": {"colspan", "rowspan", "scope", "headers"}, "ol": {"start", "type"}, "details": {"open"},
    "col": {"span"}, "colgroup": {"span"}, "time": {"datetime"},
    "*": {"class", "id", "style", "title", "lang", "dir", "role", "tabindex", "aria-label", "aria-hidden"},
}  # fmt: skip
_PROPERTIES = {
    *ALLOWED_CSS_PROPERTIES, "background", "border", "border-left", "border-radius", "max-width", "margin", "padding",
    "text-wrap",
}  # fmt: skip
_IMAGE = re.compile(r"data:image/(?:png|jpeg|gif|webp|svg\+xml)[;,]", re.IGNORECASE)
_WITH_CONTENT = re.compile(r"<(script|style)\b.*?(?:</\1\s*>|\Z)", re.IGNORECASE | re.DOTALL)


class Cleaner:
    """Cleans the HTML of a page."""

    def __init__(self):
        self._word = f"labkit{secrets.token_hex(8)}"  # that no notebook knows
        self._place = re.compile(rf"{self._word}x(\d+)x")
        self._kept: list[str] = []
        self._bleach = Bleach(
            _TAGS, self._allowed, protocols={"http", "https", "mailto", "data"}, strip=True, strip_comments=True,
            css_sanitizer=CSSSanitizer(allowed_css_properties=_PROPERTIES),
        )  # fmt: skip

    def _allowed(self, tag: str, name: str, value: str) -> bool:
        if name not in _ATTRIBUTES["*"] and name not in _ATTRIBUTES.get(tag, ()):
            return False
        if value.strip().lower().startswith("data:"):
            return tag == "img" and bool(_IMAGE.match(value.strip()))
        return self._word not in value

    def keep(self, ours: str) -> str:
        """A word that stands for HTML of the report's own until the text around it is clean."""
        self._kept.append(ours)
        return f"{self._word}x{len(self._kept) - 1}x"

    def without_kept(self, text: str) -> str:
        """The text with a space in place of what was kept."""
        return self._place.sub(" ", text)

    def clean(self, text: str) -> str:
        """The text without active content, and with what was kept."""
        clean = self._bleach.clean(_WITH_CONTENT.sub("", text))
        return self._place.sub(lambda match: self._kept[int(match[1])], clean)
