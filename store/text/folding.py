"""Folding: makes texts equal that differ only in case, diacritics or compatibility forms (ADR 86)."""

from __future__ import annotations

import unicodedata
from itertools import pairwise

import regex

_REPLACED = {
    # Letters that Unicode does not decompose, but for which users type plain ones.
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
    # Keyboards and editors replace quotes, hyphens and the slash of fractions by typographic ones.
    **dict.fromkeys("\u00b4\u02bb\u02bc\u2018\u2019\u201b\u2032\u05f3", "'"),
    **dict.fromkeys("\u00ab\u00bb\u201c\u201d\u201e\u201f\u2033\u301d\u301e\u301f\u05f4", '"'),
    "\u2044": "/",
    **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212", "-"),
}

_UNCHANGED = frozenset("\u2122\u2120")
"""Trademark signs, which would become letters of the word before them."""

_INVISIBLE = frozenset("\u034f\u0640\u115f\u1160\U0001f3fb\U0001f3fc\U0001f3fd\U0001f3fe\U0001f3ff")
"""Joiners and fillers that Unicode does not class as format characters, the Arabic tatweel, skin tones of emoji."""

_LETTER_MARKS = frozenset({0, 6, 7, 8, 9, 84, 91, 103, 107, 118, 122, 129, 130, 132})
"""Combining classes of marks that make another letter: vowel signs, tones of Thai and Lao, viramas, nuktas, and the
voicing marks of kana. Marks of other classes are diacritics."""


_MOST_KEPT = 20_000
"""Most folded characters that are kept in memory, about 2 MB."""


_MOST_FOLDED = 12_000
"""Characters of a folded text that is shorter than that before. Only a text that is made to be slow has more: U+FDFA
alone becomes 18 characters."""


_TOO_MANY_MARKS = regex.compile(r"(?<=\p{M}{30})\p{M}++")
_LONG = 500
"""Characters of a text in which such marks are looked for: the time to sort marks grows with the square of their
number."""


class _FoldedCharacters(dict[int, str]):
    """Folded forms of single characters, by code point."""

    def __missing__(self, code: int) -> str:
        folded = _fold_character(chr(code))
        if len(self) < _MOST_KEPT:
            self[code] = folded
        return folded


def fold(text: str) -> str:
    """Return a text in the form in which texts are compared. Folding a folded text changes nothing.

    White space and control characters become spaces. A text that was made to be slow loses characters: beyond 12,000
    folded ones, and after 30 marks in a row.
    """
    if text.isascii():
        return text.lower().translate(_ASCII_SPACES)
    text = without_too_many_marks(text)
    return _cut(unicodedata.normalize("NFC", text.translate(_FOLDED)), text)


def fold_with_origins(text: str) -> tuple[str, list[int]]:
    """Return `fold(text)`, and for each of its characters the position in `text` that it comes from.

    The list has one more item, the length of `text`. A character that was made from several comes from the first.
    """
    if text.isascii():
        return fold(text), list(range(len(text) + 1))
    pieces = [_FOLDED[ord(character)] for character in without_too_many_marks(text)]
    origins = [position for position, piece in enumerate(pieces) for _ in piece]
    folded = "".join(pieces)
    if not unicodedata.is_normalized("NFC", folded):
        folded, origins = _compose(folded, origins)
    folded = _cut(folded, text)
    return folded, [*origins[: len(folded)], len(text)]


def without_too_many_marks(text: str) -> str:
    """Return a text of the same length, with invisible characters for marks after the first 30 of a letter."""
    if len(text) < _LONG:
        return text
    return _TOO_MANY_MARKS.sub(lambda marks: "\u200b" * len(marks[0]), text)


def _cut(folded: str, text: str) -> str:
    """Return a folded text without the characters that are too many."""
    return folded[: max(_MOST_FOLDED, len(text))]


def _compose(text: str, origins: list[int]) -> tuple[str, list[int]]:
    """Return the NFC form of a text, and the origins of its characters."""
    composed: list[str] = []
    composed_origins: list[int] = []
    for start, end in pairwise([*_sequence_starts(text), len(text)]):
        sequence = unicodedata.normalize("NFC", text[start:end])
        composed.append(sequence)
        composed_origins += [origins[start]] * len(sequence)
    return "".join(composed), composed_origins


def _sequence_starts(text: str) -> list[int]:
    """Return the starts of the parts of a text that can be composed (NFC) one by one, with the same result."""
    starts = [0]
    for position in range(1, len(text)):
        character = text[position]
        if character.isascii():
            starts.append(position)
        elif not unicodedata.combining(character):
            pair = text[starts[-1] : position + 1]
            if unicodedata.normalize("NFC", pair) == unicodedata.normalize("NFC", pair[:-1]) + character:
                starts.append(position)
    return starts


def _fold_character(character: str) -> str:
    """Return the folded form of a character, which may be empty or several characters."""
    if character in _UNCHANGED:
        return character
    if (hangul := whole_hangul(character)) is not None:
        return hangul
    plain = _strip(unicodedata.normalize("NFKD", _REPLACED.get(character, character)))
    return _strip(unicodedata.normalize("NFKD", plain.casefold()))


def whole_hangul(character: str) -> str | None:
    """Return the folded form of a Hangul syllable, or of a Hangul letter that stands alone; None for other characters.

    Letters that stand alone would be composed with their neighbours otherwise: ㅠㅠ would not be found in ㅋㅋㅠㅠ.
    """
    if "\uac00" <= character <= "\ud7a3" or ("\u3131" <= character <= "\u318e" and character != "\u3164"):
        return character
    if "\uffa1" <= character <= "\uffdc" and (decomposition := unicodedata.decomposition(character)):
        # Half-width letters.
        return chr(int(decomposition.split()[1], 16))
    return None


def _strip(decomposed: str) -> str:
    """Return decomposed characters without diacritics and invisible ones, with the replacements of `_REPLACED`."""
    return "".join(_REPLACED.get(character, _stripped(character)) for character in decomposed)


def _stripped(character: str) -> str:
    category = unicodedata.category(character)
    if category in ("Cc", "Cs") or category[0] == "Z":
        return " "
    if category in ("Cf", "Me") or character in _INVISIBLE or _is_variation_selector(character):
        return ""
    is_diacritic = category == "Mn" and unicodedata.combining(character) not in _LETTER_MARKS
    return "" if is_diacritic else character


def _is_variation_selector(character: str) -> bool:
    return "\ufe00" <= character <= "\ufe0f" or "\U000e0100" <= character <= "\U000e01ef"


_FOLDED = _FoldedCharacters()
_ASCII_SPACES = dict.fromkeys((*range(32), 127), " ")
