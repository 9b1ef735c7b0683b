"""Tokens of a folded text: its words, its runs of characters without spaces, and its symbols (ADR 86)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import StrEnum
from typing import NamedTuple

import regex


class TokenKind(StrEnum):
    """Kind of a token."""

    WORD = "word"
    """Letters and digits of one script. It is found as a whole, or by its beginning."""

    RUN = "run"
    """Han, kana, Hangul, and scripts that do not separate words, such as Thai. Each part of it is found."""

    SYMBOL = "symbol"
    """An emoji, a flag, or a sign such as a currency sign or an arrow. Not punctuation, not an ASCII sign."""


class Token(NamedTuple):
    """Part of a folded text, from `start`, up to and not including `end`."""

    kind: TokenKind
    start: int
    end: int


def tokens_of(folded: str) -> Iterator[Token]:
    """Yield the tokens of a folded text, in order. White space, punctuation and ASCII signs belong to none.

    The tokens after a position where a token begins do not depend on the text before it. A query relies on this: the
    part of a text that it matches has the tokens that the query has.
    """
    if folded.isascii():
        for word in _ASCII_WORD.finditer(folded):
            yield Token(TokenKind.WORD, *word.span())
    else:
        for found in _TOKEN.finditer(folded):
            yield Token(_KINDS[found.lastgroup], *found.span())


def mark_tokens(folded: str) -> str:
    """Return a folded text with `TOKEN_START` and `TOKEN_END` around each word, symbol and character of a run.

    A folded text contains neither.
    """
    return _ASCII_WORD.sub(_MARKED, folded) if folded.isascii() else _SEPARATE_TOKEN.sub(_MARKED, folded)


TOKEN_START, TOKEN_END = "\x01", "\x02"
_MARKED = rf"{TOKEN_START}\g<0>{TOKEN_END}"

_KINDS: dict[str | None, TokenKind] = {kind.value: kind for kind in TokenKind}

_RUN = (
    r"[[\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}\p{Bopomofo}\p{Ideographic}\p{Line_Break=SA}\p{No}\u30fc\u3099\u309a]"
    r"&&[\p{L}\p{M}\p{N}]]"
)
"""Line_Break=SA are scripts of South-East Asia, which need a dictionary to be separated into words. Number signs
that are not digits (② or ½) are not parts of words in Unicode either."""

_DIGIT = rf"[\p{{N}}--{_RUN}]"
_IN_ANY_WORD = rf"[[\p{{N}}\p{{M}}[\p{{L}}&&\p{{Common}}]]--{_RUN}]"
"""Characters that continue a word of any script."""

_SCRIPTS = (
    *("Latin", "Cyrillic", "Greek", "Arabic", "Hebrew", "Devanagari", "Armenian", "Bengali", "Cherokee", "Ethiopic"),
    *("Georgian", "Gujarati", "Gurmukhi", "Kannada", "Malayalam", "Mongolian", "Nko", "Oriya", "Sinhala", "Syriac"),
    *("Tamil", "Telugu", "Thaana", "Tibetan", "Yi"),
)
"""Scripts of words. Letters of all others count as one script."""

_LETTERS = [
    *(rf"[\p{{{script}}}&&\p{{L}}]" for script in _SCRIPTS),
    "".join([r"[\p{L}--", _RUN, *(rf"--\p{{{script}}}" for script in _SCRIPTS), "]"]),
]
_WORD = "|".join(f"{letter}[{letter}{_IN_ANY_WORD}]*+" for letter in _LETTERS)
_SYMBOL = r"\p{Regional_Indicator}{1,2}|[[\p{So}\p{Sc}\p{Sm}\p{Extended_Pictographic}]--\p{ASCII}]"

_ANY_WORD = rf"{_DIGIT}*+(?:{_WORD})|{_DIGIT}{_IN_ANY_WORD}*+"

_ASCII_WORD = re.compile("[a-z0-9]+")
_TOKEN = regex.compile(rf"(?P<run>{_RUN}++)|(?P<symbol>{_SYMBOL})|(?P<word>{_ANY_WORD})", regex.V1)
_SEPARATE_TOKEN = regex.compile(rf"{_RUN}|{_SYMBOL}|{_ANY_WORD}", regex.V1)
