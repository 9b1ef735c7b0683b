"""Links in the text of a message."""

from __future__ import annotations

import re
from collections.abc import Iterator

import httpx

from store.previews.embed import MAX_URL

MAX_LINKS = 5

_CODE = re.compile(r"(`+)(?!`)")
"""Beginning or end of code: a run of backticks."""

_LINK = re.compile(
    # No letter or digit in front: `xhttps://` is no link. Languages that write no spaces have letters there.
    r"(?<![a-z0-9])https?://"
    # White space, quotes, brackets of markup, control characters, marks of direction, and the punctuation of languages
    # that write no spaces end a link.
    r"[^\s<>\"`|\\^{}\x00-\x1f\x7f-\xa0\u200b-\u200f\u2018-\u201f\u2028-\u202f\u2060-\u2069\ufeff"
    r"\u3000-\u3003\u3008-\u3011\u3014-\u301b\uff01\uff08\uff09\uff0c\uff0e\uff1a\uff1b\uff1f\uff3b\uff3d\ud800-\udfff«»]+",
    re.IGNORECASE,
)

_TRAILING = frozenset("?!.,:;*_~'…")
"""Punctuation and marks of emphasis that belong to the sentence when a link ends with them."""

_BRACKETS = {")": "(", "]": "["}


def find_links(text: str) -> list[str]:
    """Return the first five different http and https addresses that get a preview, in the order of the text.

    Addresses are returned as written. None are found in code (between backticks, or after an unclosed ```), and an
    address in angle brackets (`<https://…>`) is a link without a preview. Punctuation after an address, and a closing
    bracket that it does not open, are not part of it. Takes time in proportion to the length of the text.
    """
    links: dict[str, None] = {}
    for link, is_bracketed in _addresses(text):
        if not is_bracketed and link not in links and is_link(link):
            links[link] = None
            if len(links) == MAX_LINKS:
                break
    return list(links)


def has_link(text: str) -> bool:
    """Return whether a text has an http or https address outside of code, with or without a preview."""
    return any(is_link(link) for link, _ in _addresses(text))


def _addresses(text: str) -> Iterator[tuple[str, bool]]:
    """Yield what looks like an address outside of code, and whether it is in angle brackets."""
    if "://" not in text:
        return
    text = _without_code(text) if "`" in text else text
    for match in _LINK.finditer(text):
        start, end = match.span()
        is_bracketed = text[start - 1 : start] == "<" and text[end : end + 1] == ">"
        yield (match[0] if is_bracketed else _without_trailing(match[0])), is_bracketed


def is_link(url: str) -> bool:
    """Return whether this is an http or https address with a host, without user name, and not too long."""
    if len(url) > MAX_URL:
        return False
    try:
        parsed = httpx.URL(url)
        # Reading the host decodes it, and raises an error (a ValueError) for names such as `xn--`.
        is_complete = parsed.scheme in ("http", "https") and bool(parsed.host) and (parsed.port or 0) < 65_536
    except (httpx.InvalidURL, ValueError):
        return False
    return is_complete and not parsed.userinfo


def _without_code(text: str) -> str:
    """Return the text with a space in the place of each part between two runs of backticks of the same length."""
    runs = list(_CODE.finditer(text))
    # Positions of the runs of each length, last first.
    closing: dict[int, list[int]] = {}
    for position in range(len(runs) - 1, -1, -1):
        closing.setdefault(len(runs[position][1]), []).append(position)
    kept, start, position = [], 0, 0
    while position < len(runs):
        run = runs[position]
        same = closing[len(run[1])]
        while same and same[-1] <= position:
            same.pop()
        if same:
            kept.append(text[start : run.start()])
            position = same[-1]
            start = runs[position].end()
        elif len(run[1]) >= 3:
            # An unclosed block reaches to the end of the text.
            return " ".join([*kept, text[start : run.start()]])
        position += 1
    return " ".join([*kept, text[start:]])


def _without_trailing(link: str) -> str:
    end = len(link)
    unopened = {close: link.count(close) - link.count(opening) for close, opening in _BRACKETS.items()}
    while end:
        last = link[end - 1]
        if last in _BRACKETS and unopened[last] > 0:
            unopened[last] -= 1
        elif last not in _TRAILING:
            break
        end -= 1
    return link[:end]
