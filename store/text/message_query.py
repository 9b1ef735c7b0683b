"""Queries for messages: their conditions on a text, and the ranges of it that match (ADR 86)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from store.text.folding import fold, fold_with_origins
from store.text.tokens import TOKEN_END, TOKEN_START, TokenKind, mark_tokens, tokens_of
from store.text.words import terms_of_tokens

_INNER_QUOTE = '(?<=[\u05d0-\u05ea])"(?=[\u05d0-\u05ea])'
"""A quote between Hebrew letters, as in an acronym."""

_PART_OF_QUERY = re.compile(rf'(?P<without>-?)"(?P<phrase>(?:[^"]|{_INNER_QUOTE})*)"?|(?:[^\s"]|{_INNER_QUOTE})+')

_OPENING = "'([{\u00a1\u00bf\u300a\u300c\u300e\u3010\u3014\u3008"
_CLOSING = "'.,;:!?)]}\u3001\u3002\u300b\u300d\u300f\u3011\u3015\u3009"
"""Punctuation of sentences before and after words. A query ignores it."""


_BETWEEN_WORDS = f"[^{TOKEN_START}{TOKEN_END}]*"
"""White space and signs that belong to no token."""


class TextRange(NamedTuple):
    """Part of a text, in code points: from `start`, up to and not including `end`."""

    start: int
    end: int


class NothingToFind(Exception):
    """Raised for a query without words, or with exclusions only."""


@dataclass(frozen=True)
class Phrase:
    """Words that follow one another in a text, or one word. A word may have signs, as in `foo_bar` and `C++`.

    Attributes:
        words: The words as typed, folded. Each has at least one token.
        is_beginning: The last word also matches the beginning of a longer one.
    """

    words: tuple[str, ...]
    is_beginning: bool = False

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """The regular expression that finds the phrase in a text with marked tokens."""
        marked = _BETWEEN_WORDS.join(re.escape(mark_tokens(word)) for word in self.words)
        return re.compile(marked.removesuffix(re.escape(TOKEN_END)) if self.is_beginning else marked)


class MessageQuery(NamedTuple):
    """A parsed query.

    Attributes:
        terms: Terms that every match has, longest first. Empty only if `beginning` is not.
        beginning: Every match has a term that begins with this text; "": no condition.
        required: All of these phrases occur in a match.
        excluded: None of these phrases occurs in a match.
    """

    terms: tuple[str, ...]
    beginning: str
    required: tuple[Phrase, ...]
    excluded: tuple[Phrase, ...]

    def find_in(self, text: str) -> list[TextRange] | None:
        """Return the ranges where the words occur, in order and without overlaps; None if the text does not match."""
        folded = fold(text)
        if not all(word in folded for phrase in self.required for word in phrase.words):
            return None
        marked = mark_tokens(folded)
        if any(phrase.pattern.search(marked) for phrase in self.excluded):
            return None
        found: list[tuple[int, int]] = []
        for phrase in self.required:
            places = [place.span() for place in phrase.pattern.finditer(marked)]
            if not places:
                return None
            found += places
        return _merge(_ranges_in_original(text, marked, sorted(found)))


def parse_message_query(text: str) -> MessageQuery:
    """Parse a query. Quotes and signs may be anywhere: no text is a syntax error. Raises NothingToFind."""
    required: list[Phrase] = []
    excluded: list[Phrase] = []
    for part in _PART_OF_QUERY.finditer(fold(text)):
        if part["phrase"] is not None:
            phrase, is_without = _read_phrase(part["phrase"]), bool(part["without"])
        else:
            # In --option the hyphens are part of the word.
            is_without = part[0].startswith("-") and not part[0].startswith("--")
            phrase = _read_phrase(part[0].removeprefix("-") if is_without else part[0])
            if not is_without:
                phrase = Phrase(phrase.words, _ends_in_word(phrase))
        if phrase.words:
            (excluded if is_without else required).append(phrase)
    if not required:
        raise NothingToFind
    # Words before the last one match whole words only.
    required = [*(Phrase(phrase.words) for phrase in required[:-1]), required[-1]]
    terms, beginning = _terms_of_phrases(required)
    return MessageQuery(terms, beginning, tuple(dict.fromkeys(required)), tuple(dict.fromkeys(excluded)))


def _read_phrase(folded: str) -> Phrase:
    words = (word.lstrip(_OPENING).rstrip(_CLOSING) for word in folded.split())
    return Phrase(tuple(word for word in words if any(tokens_of(word))))


def _ends_in_word(phrase: Phrase) -> bool:
    if not phrase.words:
        return False
    *_, last = tokens_of(phrase.words[-1])
    return last.kind is TokenKind.WORD and last.end == len(phrase.words[-1])


def _terms_of_phrases(phrases: Iterable[Phrase]) -> tuple[tuple[str, ...], str]:
    """Return the terms that every text with these phrases has, longest first, and the beginning of another one."""
    terms: set[str] = set()
    beginning = ""
    for phrase in phrases:
        for word in phrase.words:
            for token, of_token in terms_of_tokens(word):
                if phrase.is_beginning and token.end == len(word):
                    beginning = of_token[0]
                    continue
                terms.update(of_token)
                if token.kind is TokenKind.RUN and token.end - token.start == 1:
                    beginning = beginning or word[token.start]
    return tuple(sorted(terms, key=lambda term: (-len(term), term))), beginning


def _ranges_in_original(text: str, marked: str, ranges: Iterable[tuple[int, int]]) -> Iterator[TextRange]:
    """Yield the ranges of the original text for ranges of its folded form with marked tokens. Both are in order."""
    origins = fold_with_origins(text)[1]
    position = marks = 0
    for start, end in ranges:
        marks += _count_marks(marked, position, start)
        position = start
        inside = _count_marks(marked, start, end)
        yield TextRange(origins[start - marks], _next_origin(origins, end - marks - inside))


def _count_marks(marked: str, start: int, end: int) -> int:
    return marked.count(TOKEN_START, start, end) + marked.count(TOKEN_END, start, end)


def _next_origin(origins: list[int], end: int) -> int:
    """Return the end of the original character that the last folded one before `end` comes from."""
    while origins[end] == origins[end - 1]:
        end += 1
    return origins[end]


def _merge(ranges: Iterable[TextRange]) -> list[TextRange]:
    """Return ranges with those that overlap or touch joined. They are in order."""
    merged: list[TextRange] = []
    for start, end in ranges:
        if merged and start <= merged[-1].end:
            merged[-1] = TextRange(merged[-1].start, max(end, merged[-1].end))
        else:
            merged.append(TextRange(start, end))
    return merged
