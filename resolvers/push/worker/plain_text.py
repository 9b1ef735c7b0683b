"""Makes texts of users fit for a notification: one line, no control characters, a bounded size.

The payload of APNs has at most 4,096 bytes, that of Web Push 3,993. The sizes are those in JSON with all characters
escaped, so that no encoder makes more of it.
"""

from __future__ import annotations

import unicodedata

import regex

TITLE_BYTES = 480
BODY_BYTES = 2_000
_LONGEST = 4_000
"""Characters of a text that are looked at."""

_ELLIPSIS = "\u2026"
_ISOLATE, _END = "\u2068", "\u2069"
_GRAPHEME = regex.compile(r"\X")
_SPACES = regex.compile(r"\s+")
_RIGHT_TO_LEFT = frozenset({"R", "AL"})
_KEPT = frozenset("\u200c\u200d")
"""Joiners that words and emoji need. All other format characters go, such as those that reverse the direction."""


def plain(text: str) -> str:
    """Return a text as one line without control and format characters."""
    return _SPACES.sub(" ", "".join(map(_plain_character, text[:_LONGEST]))).strip()


def cut(text: str, most_bytes: int) -> str:
    """Return a text with at most so many bytes in JSON. It is cut between characters as readers see them."""
    if _size(text) <= most_bytes:
        return text
    room, kept = most_bytes - _size(_ELLIPSIS), ""
    for grapheme in _GRAPHEME.finditer(text):
        size = _size(grapheme[0])
        if size > room:
            if not kept:
                # One character with hundreds of marks.
                kept = grapheme[0][: room // _LARGEST]
            break
        kept += grapheme[0]
        room -= size
    return kept.rstrip() + _ELLIPSIS


_LARGEST = 12


def with_author(author: str, text: str) -> str:
    """Return a text after the name of its author. Their directions do not change each other."""
    if any(unicodedata.bidirectional(character) in _RIGHT_TO_LEFT for character in author + text):
        return f"{_ISOLATE}{author}{_END}: {_ISOLATE}{text}{_END}"
    return f"{author}: {text}"


def _plain_character(character: str) -> str:
    if character.isprintable() or character in _KEPT:
        return character
    category = unicodedata.category(character)
    if category in ("Cf", "Cs", "Co", "Cn"):
        return ""
    return " "


def _size(text: str) -> int:
    """Return the bytes of a text in JSON if all characters are escaped that can be."""
    return sum(_escaped_size(character) for character in text)


def _escaped_size(character: str) -> int:
    code = ord(character)
    if code > 0xFFFF:
        return _LARGEST
    if code < 0x20 or code > 0x7E:
        return 6
    # Some encoders of JSON escape these too.
    return 6 if character in "\"\\/<>&'" else 1
