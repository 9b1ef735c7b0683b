"""Case folding: makes texts equal that differ only in case, or in characters that Unicode calls compatible (ADR 98).

This is Unicode's NFKC_Casefold, except that Hangul letters that stand alone stay apart. Unlike `fold`, it keeps
diacritics: a word of a content rule does not mean another word of the language.
"""

from __future__ import annotations

import unicodedata

import regex

from store.text.folding import whole_hangul, without_too_many_marks

_MOST_KEPT = 20_000
"""Most folded characters that are kept in memory, about 2 MB."""

_CONTROLS = "".join(chr(code) for code in (*range(32), *range(127, 160)) if chr(code) not in "\t\n\v\f\r\x85")
"""Control characters that are not white space. No font shows them."""

_IGNORED = regex.compile(rf"\p{{Default_Ignorable_Code_Point}}|[{regex.escape(_CONTROLS)}\ufff9-\ufffb]")
"""Characters that are not shown: joiners, soft hyphens, variation selectors, tags, fillers, marks of annotations."""

_WITHOUT_CONTROLS = str.maketrans("", "", _CONTROLS)


class _CaseFoldedCharacters(dict[int, str]):
    """Folded forms of single characters, by code point."""

    def __missing__(self, code: int) -> str:
        folded = _fold_character(chr(code))
        if len(self) < _MOST_KEPT:
            self[code] = folded
        return folded


def fold_case(text: str) -> str:
    """Return a text in the form in which content rules compare words. Folding a folded text changes nothing.

    Each run of white space becomes one space, and there is none at the ends. After 30 marks in a row, marks are left
    out, as in `fold`.
    """
    if text.isascii():
        return " ".join(text.lower().translate(_WITHOUT_CONTROLS).split())
    folded = unicodedata.normalize("NFC", without_too_many_marks(text).translate(_FOLDED))
    return " ".join(folded.split())


def _fold_character(character: str) -> str:
    if _IGNORED.match(character):
        return ""
    hangul = whole_hangul(character)
    if hangul is not None:
        return hangul
    once = unicodedata.normalize("NFKD", unicodedata.normalize("NFD", character).casefold())
    return unicodedata.normalize("NFKD", once.casefold())


_FOLDED = _CaseFoldedCharacters()
