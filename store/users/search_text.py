"""The text by which users are found: normalized names and ids, and the fields of a user's row made from them.

Fields of a row of `users`:
    s   the normalized name, a tab, and the id; people are listed in the order of s
    i   the normalized id, with "_" for spaces
    k   beginnings of the normalized name at each of its words, and of i; only with a user directory
    sv  checksum of the name and of `_NORMALIZATION_VERSION`; another value means that s, i and k are out of date
"""

from __future__ import annotations

import re
import unicodedata
import zlib
from collections.abc import Iterator
from typing import Any, NamedTuple

from store.base.ids import is_webhook_user
from store.text.folding import fold

_NORMALIZATION_VERSION = 3
"""Has to be raised with every change of `normalize` or `fold`, so that all rows get new search fields."""

_MAX_LENGTH = 100
"""Characters of a normalized name, id or query. Further ones are ignored."""

_MAX_WORDS = 25
"""Words of a name by which the directory finds the user. Further words are ignored."""

_KEY_LENGTHS = (1, 2, 3, 4, 5, 6, 8, 12, 16, 24, 32, 64)
"""Lengths of the beginnings in k. A query of another length is compared with s and i too."""

_APOSTROPHES = frozenset("'`")
"""Apostrophes of folded texts. They are removed."""


def normalize(text: str) -> str:
    """Return the words of a folded text, without punctuation, separated by one space.

    Each Han character and each symbol, such as an emoji, is a word of its own. Punctuation stays in a text that has
    nothing else.
    """
    if text.isascii():
        words = text.lower().translate(_ASCII).split()
    else:
        # Hangul syllables are decomposed: the first letter of a syllable finds the name already.
        folded = unicodedata.normalize("NFD", fold(unicodedata.normalize("NFKD", text)))
        words = "".join(map(_normalize_character, folded)).split()
    # Folding replaces NUL, which MongoDB refuses in regular expressions.
    words = words or ["".join(fold(text).split())]
    return " ".join(words)[:_MAX_LENGTH].rstrip()


def _normalize_character(character: str) -> str:
    if character.isalnum():
        return f" {character} " if _is_han(character) else character
    category = unicodedata.category(character)
    if category[0] == "M":
        # Folding has removed diacritics. A vowel sign is part of its word.
        return character
    if character in _APOSTROPHES:
        return ""
    return f" {character} " if category == "So" else " "


def _is_han(character: str) -> bool:
    return "\u3400" <= character <= "\u9fff" or "\U00020000" <= character <= "\U0003ffff"


_ASCII = {code: _normalize_character(chr(code)) for code in range(128)}
"""Results of `_normalize_character` for ASCII."""


class SearchQuery(NamedTuple):
    """A normalized query. `text` is not empty."""

    text: str

    @property
    def name_pattern(self) -> str:
        """The regular expression that finds the query in s, at a word of the name."""
        return f"(^| ){re.escape(self.text)}"

    @property
    def id_pattern(self) -> str:
        """The regular expression that finds the query in i."""
        return f"^{re.escape(_join_words(self.text))}"

    @property
    def keys(self) -> list[str]:
        """Values of which k contains one for every match: the longest possible beginning, as in names and as in ids."""
        length = max(length for length in _KEY_LENGTHS if length <= len(self.text))
        return list(dict.fromkeys((self.text[:length], _join_words(self.text[:length]))))

    @property
    def has_exact_keys(self) -> bool:
        """True if `keys` find exactly the matches."""
        return len(self.text) in _KEY_LENGTHS

    def matches(self, name: str | None, user: str) -> bool:
        """Return whether a user is found by their name or id."""
        fields = search_fields(name, user, has_directory=False)
        return bool(re.search(self.name_pattern, fields["s"]) or re.search(self.id_pattern, fields["i"]))


def parse_query(text: str) -> SearchQuery | None:
    """Return a normalized query, or None if nothing of it is left."""
    normalized = normalize(text)
    return SearchQuery(normalized) if normalized else None


def search_fields(name: str | None, user: str, *, has_directory: bool) -> dict[str, Any]:
    """Return the fields of a row that belong to a name. Without a directory, and for webhooks, a row has no k.

    For a user without a name the id is used as the name.
    """
    shown, joined_id = normalize(name or user), _join_words(normalize(user))
    version = search_version(name, has_directory=has_directory)
    fields: dict[str, Any] = {"s": f"{shown}\t{user}", "i": joined_id, "sv": version}
    if not has_directory or is_webhook_user(user):
        return fields
    return fields | {"k": sorted({*name_keys(shown), *id_keys(user)})}


def search_version(name: str | None, *, has_directory: bool) -> int:
    """Return sv: rows with another value were written by a server that did not make these fields."""
    return zlib.crc32(f"{_NORMALIZATION_VERSION}{'d' if has_directory else ''} {name or ''}".encode())


def name_keys(normalized: str) -> Iterator[str]:
    """Yield the beginnings of a normalized name at each of its words, by which it is found: see `SearchQuery.keys`."""
    words = [0, *(space.end() for space in re.finditer(" ", normalized))]
    for place in words[:_MAX_WORDS]:
        yield from _beginnings(normalized[place:])


def id_keys(user: str) -> Iterator[str]:
    """Yield the beginnings of a user's normalized id, by which the user is found."""
    yield from _beginnings(_join_words(normalize(user)))


def _beginnings(text: str) -> Iterator[str]:
    return (text[:length] for length in _KEY_LENGTHS if length <= len(text))


def _join_words(normalized: str) -> str:
    """Return a normalized text as one word, which no name contains."""
    return normalized.replace(" ", "_")
