"""Reads the head of a page: metadata, title and links.

Needs `lxml`, so import this module where it is used.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lxml import etree

_MAX_TITLE = 4096
_MAX_VALUE = 16_384
_MAX_TAG = 262_144
"""Characters of one tag or comment: the parser handles it in one step, when it ends."""

_MAX_NAMES = 500
"""Different metadata that are kept of a page."""

_DESCRIBES = ("og:title", "og:description", "og:image", "twitter:title", "twitter:card", "description")


@dataclass(slots=True)
class PageHead:
    """Contents of the head of a page.

    Attributes:
        metadata: First value of each `meta` element by its property, name or itemprop, in lower case.
        links: First address of each `link` element by its relation and type, e.g. `canonical`, or
            `alternate application/json+oembed`.
        title: Content of the first `title` element.
        base: Address that relative addresses refer to, if the page names another one than its own.
    """

    metadata: dict[str, str] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)
    title: str | None = None
    base: str | None = None


class HeadParser:
    """Parses a page while it arrives. Builds no tree, so time and memory are in proportion to its length."""

    def __init__(self) -> None:
        self._target = _HeadTarget()
        self._parser = etree.HTMLParser(target=self._target)
        self._is_broken = False
        self._unparsed = 0

    @property
    def head(self) -> PageHead:
        """Result as far as the page is parsed."""
        return self._target.head

    @property
    def is_complete(self) -> bool:
        """True once more of the page will not improve the result: the head has ended and describes the page.

        Pages with errors have metadata after what counts as their head.
        """
        return self._is_broken or self._target.is_complete

    def feed(self, text: str) -> None:
        """Parse the next piece. Later pieces of a page that is broken are ignored."""
        self._unparsed += len(text)
        if self._unparsed > _MAX_TAG:
            self._is_broken = True
        if self._is_broken:
            return
        calls = self._target.calls
        try:
            self._parser.feed(text.replace("\0", "\ufffd"))
        except (etree.LxmlError, ValueError):
            # Too deep for the parser. The result so far counts.
            self._is_broken = True
        # Inside of a tag nothing is called: a `>` in a value does not end it.
        if self._target.calls != calls:
            self._unparsed = 0


class _HeadTarget:
    """Called by the parser for each element."""

    def __init__(self) -> None:
        self.head = PageHead()
        self.calls = 0
        """Elements, texts and comments so far."""
        self._is_in_title = False
        self._is_head_over = False
        self._title: list[str] = []
        self._title_length = 0
        self._svg_depth = 0

    @property
    def is_complete(self) -> bool:
        metadata = self.head.metadata
        return self._is_head_over and any(name in metadata for name in _DESCRIBES)

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        self.calls += 1
        match tag:
            case "meta":
                self._add_meta(attributes)
            case "link":
                self._add_link(attributes)
            case "base":
                if self.head.base is None:
                    self.head.base = attributes.get("href")
            case "svg":
                self._svg_depth += 1
            case "title":
                self._is_in_title = self.head.title is None and not self._svg_depth
            case "body":
                self._is_head_over = True

    def end(self, tag: str) -> None:
        self.calls += 1
        match tag:
            case "title" if self._is_in_title:
                self.head.title, self._is_in_title = "".join(self._title), False
            case "svg":
                self._svg_depth -= 1
            case "head":
                self._is_head_over = True

    def comment(self, text: str) -> None:
        self.calls += 1

    def data(self, text: str) -> None:
        self.calls += 1
        if self._is_in_title and self._title_length < _MAX_TITLE:
            self._title.append(text[:_MAX_TITLE])
            self._title_length += len(text)

    def close(self) -> None:
        pass

    def _add_meta(self, attributes: Mapping[str, str]) -> None:
        value = attributes.get("content", "")
        name = attributes.get("property") or attributes.get("name") or attributes.get("itemprop") or ""
        metadata = self.head.metadata
        if value.strip() and 0 < len(name) < 100 and len(metadata) < _MAX_NAMES:
            metadata.setdefault(name.strip().lower(), value[:_MAX_VALUE])

    def _add_link(self, attributes: Mapping[str, str]) -> None:
        address, relations = attributes.get("href", ""), attributes.get("rel", "")
        if not address or len(relations) > 100 or len(address) > _MAX_VALUE:
            return
        kind = attributes.get("type", "").strip().lower()
        for relation in relations.lower().split()[:5]:
            name = f"{relation} {kind}" if relation == "alternate" else relation
            if len(name) < 100 and len(self.head.links) < _MAX_NAMES:
                self.head.links.setdefault(name, address)
