"""Find the links of a page, and what it would load from a network."""

from __future__ import annotations

import re
from collections.abc import Iterable
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

# Attributes and elements that make a browser load something without a click.
_LOADING = {
    "src",
    "srcset",
    "poster",
    "background",
    "data",
    "action",
    "formaction",
    "xlink:href",
    "manifest",
    "ping",
}
_LOADED_BY_LINK = {"link", "image", "use", "feimage", "script", "base"}
# the beginning of "https://…" and "//host/…"
_REMOTE = re.compile(r"\s*(https?:|ftp:|wss?:|//)", re.IGNORECASE)
# url("address") and @import "address": one of two groups has the address.
_IN_STYLE = re.compile(
    r"url\(\s*['\"]?([^)'\"]+)|@import\s+(?:url\()?\s*['\"]?([^)'\";\s]+)", re.IGNORECASE
)
# "https://host.org/file", "//host.org/file"
_IN_SCRIPT = re.compile(r"(?:https?:)?//[\w.-]+\.\w+[^\s'\"]*")


class Links(HTMLParser):
    """The addresses that a page links to (`found`) and that it loads from a network (`loaded`), and its `anchors`."""

    def __init__(self, page: Path | str):
        """Read a page, given as a file or as its text."""
        super().__init__()
        # `_inside` is the element that text belongs to. A link with the anchor "" leads to the page
        # itself.
        self.found, self.loaded, self.anchors, self._inside = [], [], {""}, None
        self.feed(page.read_text(encoding="utf-8") if isinstance(page, Path) else page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note an element's anchor, the address that it links to, and those that it loads, as by src="…".

        `HTMLParser` calls this with the element's attributes.
        """
        self._inside, attributes = tag, dict(attrs)
        self.anchors.add(attributes.get("id"))
        if tag == "a" and "href" in attributes:
            self.found.append(attributes["href"])
        for name, value in attrs:  # all of them: of two with one name, a browser takes the first
            value = value or ""
            if name == "style":
                self._load_from_style(value)
            elif name == "srcset":
                self._load(*value.split(","))
            elif name in _LOADING or (name == "href" and tag in _LOADED_BY_LINK):
                self._load(value)
        if tag == "meta" and "refresh" in (attributes.get("http-equiv") or "").lower():
            self.loaded.append("a page that it forwards to")

    def handle_endtag(self, tag: str) -> None:
        """Leave an element."""
        self._inside = None

    def handle_data(self, data: str) -> None:
        """Note the addresses in the text of a style sheet or a script."""
        if self._inside == "style":
            self._load_from_style(data)
        elif self._inside == "script":
            self.loaded += _IN_SCRIPT.findall(data)

    def _load_from_style(self, text: str) -> None:
        """Note the addresses on a network that a style sheet, or a style attribute, would load."""
        self._load(*(match[1] or match[2] for match in _IN_STYLE.finditer(text)))

    def _load(self, *addresses: str) -> None:
        """Note those of several addresses that are on a network."""
        self.loaded += [address.strip() for address in addresses if _REMOTE.match(address)]


def find_dead_links(files: list[Path], scripted: Iterable[Path] = ()) -> list[str]:
    """Return the relative links of HTML files that lead to no page or anchor among them: "index.html: faq.html#gone".

    A script makes the anchors of `scripted` pages: any link to one of these is right.
    """
    pages = {path.resolve(): Links(path) for path in files}
    any_anchor, dead = {path.resolve() for path in scripted}, []
    for path, page in pages.items():
        for link in page.found:
            parts = urlsplit(link)
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            # a link without a fragment: all `anchors` have ""
            exists = target in pages and (
                target in any_anchor or parts.fragment in pages[target].anchors
            )
            if not parts.scheme and not exists:
                dead.append(f"{path.name}: {link}")
    return dead
