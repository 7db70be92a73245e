"""HTML that a notebook brings along, without what could run in a browser or load something.

Markdown may contain any HTML, and so may the outputs of cells. `Cleaner.clean` leaves the elements and attributes of
text, tables and pictures, without ids and without the classes that make up a page. An inline SVG becomes an image, in
which nothing runs and which loads nothing; MathML stays if it is nothing else. What the report itself makes, such as
formulas, is set aside meanwhile (`Cleaner.keep`).
"""

from __future__ import annotations

import base64
import re
import secrets
from xml.etree import ElementTree

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
    "*": {"class", "style", "title", "lang", "dir", "role", "tabindex", "aria-label", "aria-hidden"},
}  # fmt: skip
_PROPERTIES = {
    *ALLOWED_CSS_PROPERTIES, "background", "border", "border-left", "border-radius", "max-width", "margin", "padding",
    "text-wrap",
}  # fmt: skip
# The classes of the page's own parts, which the style sheet places.
_OF_THE_PAGE = {
    "all", "anchor", "answer", "badge", "bar", "broken", "cell", "code", "companion", "contents", "error", "failed",
    "failure", "folded", "home", "jump", "ladder", "lead", "name", "neighbours", "notebooks", "number", "output",
    "outputs", "overview", "prose", "provenance", "seconds", "series", "sheet", "stderr", "stream", "zoom",
}  # fmt: skip
_IMAGE = re.compile(r"data:image/(?:png|jpeg|gif|webp|svg\+xml)[;,]", re.IGNORECASE)
_WITH_CONTENT = re.compile(r"<(script|style)\b.*?(?:</\1\s*>|\Z)", re.IGNORECASE | re.DOTALL)
_SVG = re.compile(r"<(/?)svg\b[^>]*>", re.IGNORECASE)
_MATH = re.compile(r"<math\b.*?</math\s*>", re.IGNORECASE | re.DOTALL)
_CLASSES = re.compile(r"(?<= class=\")[^\"]*")


def is_formula(node: ElementTree.Element) -> bool:
    """Whether an element is MathML, and has no attribute that runs, links, moves or names something."""
    forbidden = re.compile(r"on.*|.*href|src|style|id|class", re.IGNORECASE)
    mathml = re.fullmatch("m[a-z]+|semantics|annotation", node.tag)
    return bool(mathml) and not any(map(forbidden.fullmatch, node.attrib))


def _svg_as_images(text: str) -> str:
    """The text with an image in place of each inline SVG."""
    pieces, done, depth, start = [], 0, 0, 0
    for tag in _SVG.finditer(text):
        if tag[1]:
            depth = max(depth - 1, 0)
        elif not tag[0].endswith("/>"):
            start = start if depth else tag.start()
            depth += 1
        if tag[1] and not depth and start >= done:
            pieces += [text[done:start], _image(text[start : tag.end()])]
            done = start = tag.end()
    return "".join(pieces) + text[done:]


def _image(svg: str) -> str:
    head, title = svg[: svg.index(">")], re.search(r"<title>([^<]*)</title>", svg)
    label = re.search(r"""aria-label=["']([^"'<>]*)""", head)
    alt = (label or title or {1: "A drawing without a description"})[1]
    if "xmlns=" not in head:
        svg = f'<svg xmlns="http://www.w3.org/2000/svg"{svg[4:]}'
    data = base64.b64encode(svg.encode()).decode()
    return f'<img src="data:image/svg+xml;base64,{data}" alt="{alt.replace(chr(34), "&quot;")}">'



def _without_the_pages(classes: re.Match) -> str:
    return " ".join(name for name in classes[0].split() if name not in _OF_THE_PAGE)


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

    def _keep_formula(self, match: re.Match) -> str:
        """MathML, kept; only its text stays if it is more than that, or no XML."""
        try:
            tree = ElementTree.fromstring("" if "<!" in match[0] else match[0])
        except ElementTree.ParseError:
            return match[0]
        for node in tree.iter():
            node.tag = node.tag.removeprefix("{http://www.w3.org/1998/Math/MathML}")
        if not all(map(is_formula, tree.iter())):
            return match[0]
        return self.keep(ElementTree.tostring(tree, encoding="unicode"))

    def clean(self, text: str) -> str:
        """The text without active content, and with what was kept."""
        text = _MATH.sub(self._keep_formula, _svg_as_images(_WITH_CONTENT.sub("", text)))
        clean = _CLASSES.sub(_without_the_pages, self._bleach.clean(text))
        return self._place.sub(lambda match: self._kept[int(match[1])], clean)
