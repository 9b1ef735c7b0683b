"""The text by which users are found: folded names and ids, and the fields of a user's row made from them.

Fields of a row of `users`:
    s   the folded name, a tab, the folded id with "_" for spaces; people are listed in the order of (s, _id)
    k   beginnings of s at each word of the name, and of the id; only with a user directory
    sv  checksum of the name and the form that s and k were made from, which shows whether they are current
"""

from __future__ import annotations

import re
import unicodedata
import zlib
from collections.abc import Iterator
from typing import Any, NamedTuple

_FORM = 1
"""Raised with every change of the fold: all rows are then made again."""

_LONGEST = 100
"""Characters of a folded name, id or query that count."""

_MOST_WORDS = 25
"""Words of a name at which its beginnings are kept for the directory."""

_KEY_LENGTHS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 24, 32, 64)
"""Lengths of the beginnings that the directory keeps. Texts between two of them are compared with s."""

# Letters that Unicode does not decompose although users type the plain letter, and apostrophes, which they leave out.
_PLAIN = str.maketrans(
    {
        "ø": "o",
        "đ": "d",
        "ð": "d",
        "ł": "l",
        "ħ": "h",
        "ŧ": "t",
        "\u0131": "i",
        "æ": "ae",
        "œ": "oe",
        "þ": "th",
        "ŋ": "n",
    }
    | dict.fromkeys("'`\u00b4\u02bc\u2018\u2019", "")
)


def fold(text: str) -> str:
    """Return the words of a text in lower case, without diacritics and punctuation, separated by one space.

    Each Han character and each symbol, such as an emoji, is a word of its own. Punctuation stays in a text that has
    nothing else.
    """
    if text.isascii():
        plain = text.lower().translate(_PLAIN)
    else:
        plain = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", text.translate(_PLAIN)).casefold())
        plain = plain.translate(_PLAIN)
    words = "".join(map(_fold_character, plain)).split() or ["".join(text.casefold().split())]
    return " ".join(words)[:_LONGEST].rstrip()


def _fold_character(character: str) -> str:
    if character.isalnum():
        return f" {character} " if _is_han(character) else character
    category = unicodedata.category(character)
    if category[0] == "M":
        # A vowel sign is part of its word; a diacritic has a combining class.
        return "" if unicodedata.combining(character) else character
    if category == "Cf":
        return ""
    return f" {character} " if category == "So" else " "


def _is_han(character: str) -> bool:
    return "\u3400" <= character <= "\u9fff" or "\U00020000" <= character <= "\U0003ffff"


class SearchQuery(NamedTuple):
    """A folded query. `text` is not empty."""

    text: str

    @property
    def pattern(self) -> str:
        """The regular expression that finds the query in s: at a word of the name, or at the start of the id."""
        escaped, of_id = re.escape(self.text), re.escape(self.text.replace(" ", "_"))
        return f"(^| ){escaped}|\t{of_id}"

    @property
    def keys(self) -> list[str]:
        """The longest beginning of the query that k contains for every match, as part of a name and of an id."""
        length = max(length for length in _KEY_LENGTHS if length <= len(self.text))
        return list(dict.fromkeys((self.text[:length], self.text[:length].replace(" ", "_"))))

    @property
    def is_a_key(self) -> bool:
        """True if `keys` find exactly the matches."""
        return len(self.text) in _KEY_LENGTHS

    def matches(self, name: str | None, user: str) -> bool:
        """Return whether a user is found by their name or id."""
        return re.search(self.pattern, search_text(name, user)) is not None


def parse_query(text: str) -> SearchQuery | None:
    """Return a folded query, or None if nothing of it is left."""
    folded = fold(text)
    return SearchQuery(folded) if folded else None


def search_text(name: str | None, user: str) -> str:
    """Return s of a user. A user without a name is shown by the id."""
    return f"{fold(name or user)}\t{fold(user).replace(' ', '_')}"


def search_fields(name: str | None, user: str, *, has_directory: bool) -> dict[str, Any]:
    """Return the fields of a row that belong to a name. Without a directory a row has no k."""
    text = search_text(name, user)
    fields: dict[str, Any] = {"s": text, "sv": search_version(name, has_directory=has_directory)}
    return fields | {"k": sorted(set(_keys(text)))} if has_directory else fields


def search_version(name: str | None, *, has_directory: bool) -> int:
    """Return sv: rows with another value were written by a server that did not make these fields."""
    return zlib.crc32(f"{_FORM}{'d' if has_directory else ''} {name or ''}".encode())


def _keys(text: str) -> Iterator[str]:
    name, _, user = text.partition("\t")
    words = [0, *(space.end() for space in re.finditer(" ", name))]
    for start in (name[place:] for place in words[:_MOST_WORDS]):
        yield from (start[:length] for length in _KEY_LENGTHS if length <= len(start))
    yield from (user[:length] for length in _KEY_LENGTHS if length <= len(user))
