"""Clean a notebook's HTML of everything that could run in a browser or load something.

Markdown may contain any HTML, and so may the outputs of cells. `Cleaner.clean` leaves the elements
and attributes of text, tables and pictures, without ids and without the classes of the page's own
parts; ``<svg>`` and ``<math>`` are left out with their contents. `Cleaner.keep` sets HTML aside
that the report itself makes, such as formulas.
"""

from __future__ import annotations

import re
import secrets

import nh3

_TAGS = {
    "a",
    "abbr",
    "acronym",
    "b",
    "blockquote",
    "br",
    "caption",
    "code",
    "col",
    "colgroup",
    "dd",
    "del",
    "details",
    "div",
    "dl",
    "dt",
    "em",
    "figcaption",
    "figure",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "hr",
    "i",
    "img",
    "ins",
    "kbd",
    "li",
    "mark",
    "ol",
    "p",
    "pre",
    "q",
    "s",
    "samp",
    "section",
    "small",
    "span",
    "strong",
    "sub",
    "summary",
    "sup",
    "table",
    "tbody",
    "td",
    "tfoot",
    "th",
    "thead",
    "time",
    "tr",
    "u",
    "ul",
    "var",
    "wbr",
}
_ATTRIBUTES = {
    "a": {"href", "rel"},
    "img": {"src", "alt", "width", "height"},
    "td": {"colspan", "rowspan", "headers"},
    "th": {"colspan", "rowspan", "scope", "headers"},
    "ol": {"start", "type"},
    "details": {"open"},
    "col": {"span"},
    "colgroup": {"span"},
    "time": {"datetime"},
    "*": {
        "class",
        "style",
        "title",
        "lang",
        "dir",
        "role",
        "tabindex",
        "aria-label",
        "aria-hidden",
    },
}
_PROPERTIES = {
    "background",
    "background-color",
    "border",
    "border-bottom-color",
    "border-collapse",
    "border-color",
    "border-left",
    "border-left-color",
    "border-radius",
    "border-right-color",
    "border-top-color",
    "clear",
    "color",
    "cursor",
    "direction",
    "display",
    "float",
    "font",
    "font-family",
    "font-size",
    "font-style",
    "font-variant",
    "font-weight",
    "height",
    "letter-spacing",
    "line-height",
    "margin",
    "max-width",
    "overflow",
    "padding",
    "text-align",
    "text-decoration",
    "text-indent",
    "text-wrap",
    "unicode-bidi",
    "vertical-align",
    "white-space",
    "width",
}
# The classes of the page's own parts, which the style sheet places: a notebook must not imitate
# them.
_OF_THE_PAGE = {
    "all",
    "anchor",
    "answer",
    "badge",
    "bar",
    "broken",
    "button",
    "cell",
    "code",
    "companion",
    "contents",
    "desk",
    "documents",
    "error",
    "failed",
    "failure",
    "find",
    "folded",
    "found",
    "home",
    "jump",
    "ladder",
    "lead",
    "name",
    "neighbours",
    "notebooks",
    "number",
    "output",
    "outputs",
    "overview",
    "pair",
    "part",
    "prose",
    "provenance",
    "search",
    "second",
    "seconds",
    "series",
    "sheet",
    "start",
    "stderr",
    "stream",
    "try",
    "zoom",
}
# "data:image/png;base64,…"
_IMAGE = re.compile(r"data:image/(?:png|jpeg|gif|webp|svg\+xml)[;,]", re.IGNORECASE)


class Cleaner:
    """A filter for the HTML of a page."""

    def __init__(self):
        """Choose the word that stands for HTML that is set aside, and what nh3, which filters, lets through."""
        self._word = f"labkit{secrets.token_hex(8)}"  # no notebook can guess it
        # "labkit….x0x" stands for the first of `_kept`
        self._place = re.compile(rf"{self._word}x(\d+)x")
        self._kept: list[str] = []
        self._cleaner = nh3.Cleaner(
            _TAGS,
            attributes=_ATTRIBUTES,
            attribute_filter=self._filter_attribute,
            filter_style_properties=_PROPERTIES,
            url_schemes={"http", "https", "mailto", "data"},
            link_rel=None,
            clean_content_tags={"script", "style", "svg", "math"},
        )

    def _filter_attribute(self, tag: str, name: str, value: str) -> str | None:
        """Return the value of an allowed attribute, without the page's own classes, or None to leave it out."""
        if self._word in value:  # the HTML that it stands for would be inside of a tag
            return None
        if value.strip().lower().startswith("data:") and not (
            tag == "img" and _IMAGE.match(value.strip())
        ):
            return None
        return (
            " ".join(word for word in value.split() if word not in _OF_THE_PAGE)
            if name == "class"
            else value
        )

    def keep(self, ours: str) -> str:
        """Set HTML of the report's own aside; return a placeholder, a word, which `clean` replaces by that HTML.

        Otherwise `clean` would remove what a notebook's HTML must not have: MathML, ids, the page's classes.
        """
        self._kept.append(ours)
        return f"{self._word}x{len(self._kept) - 1}x"

    def drop_kept(self, text: str) -> str:
        """Return a text with a space in place of each placeholder of `keep`."""
        return self._place.sub(" ", text)

    def clean(self, text: str) -> str:
        """Return a text without active content, and with the HTML of `keep` in place of its placeholders."""
        return self._place.sub(lambda match: self._kept[int(match[1])], self._cleaner.clean(text))
