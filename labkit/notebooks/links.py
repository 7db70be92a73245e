"""Find the links of a page, and what it would load from a network."""

from __future__ import annotations

import re
from collections.abc import Iterable
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Links(HTMLParser):
    """The addresses that a page links to (`found`), and its `anchors`."""

    def __init__(self, path: Path):
        super().__init__()
        self.found, self.anchors = [], {""}
        self.feed(path.read_text(encoding="utf-8"))
        self.close()

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        self.anchors.add(attributes.get("id"))
        if tag == "a" and "href" in attributes:
            self.found.append(attributes["href"])


def dead_links(files: list[Path], scripted: Iterable[Path] = ()) -> list[str]:
    """Return the relative links of pages that lead to no page or anchor among them, each after its page.

    The anchors of `scripted` pages are their script's, and not checked.
    """
    pages = {path.resolve(): Links(path) for path in files}
    free, dead = {path.resolve() for path in scripted}, []
    for path, page in pages.items():
        for link in page.found:
            parts = urlsplit(link)
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            known = target in pages and (target in free or parts.fragment in pages[target].anchors)
            if not parts.scheme and not known:
                dead.append(f"{path.name}: {link}")
    return dead


# Attributes and elements that make a browser load something without a click.
_LOADING = {"src", "srcset", "poster", "background", "data", "action", "formaction", "xlink:href", "manifest", "ping"}
_LOADED_BY_LINK = {"link", "image", "use", "feimage", "script", "base"}
_REMOTE = re.compile(r"^\s*(https?:|ftp:|wss?:|//)", re.IGNORECASE)
_IN_STYLE = re.compile(r"url\(\s*['\"]?([^)'\"]+)|@import\s+(?:url\()?\s*['\"]?([^)'\";\s]+)", re.IGNORECASE)


class _Requests(HTMLParser):
    def __init__(self):
        super().__init__()
        self.found, self.inside = [], None

    def handle_starttag(self, tag, attrs):
        self.inside = tag
        for name, value in attrs:
            value = value or ""
            if name == "style":
                self._style(value)
            elif name == "srcset":
                self.found += [part.strip() for part in value.split(",") if _REMOTE.match(part)]
            elif name in _LOADING or (name == "href" and tag in _LOADED_BY_LINK):
                self._address(value)
        if tag == "meta" and "refresh" in (dict(attrs).get("http-equiv") or "").lower():
            self.found.append("a page that it forwards to")

    def handle_endtag(self, tag):
        self.inside = None

    def handle_data(self, data):
        if self.inside == "style":
            self._style(data)
        elif self.inside == "script":
            self.found += re.findall(r"(?:https?:)?//[\w.-]+\.\w+[^\s'\"]*", data)

    def _style(self, text):
        for match in _IN_STYLE.finditer(text):
            self._address(match[1] or match[2])

    def _address(self, value):
        if _REMOTE.match(value):
            self.found.append(value.strip())


def requests_in(page: str) -> list[str]:
    """Return the addresses that a browser would load from a network to show a page, without plain links."""
    parser = _Requests()
    parser.feed(page)
    parser.close()
    return parser.found
