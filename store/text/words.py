"""The terms of a text, by which the index of messages finds it (ADR 86)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from store.text.folding import fold
from store.text.tokens import Token, TokenKind, tokens_of

LONGEST_TERM = 24
"""Most characters of a term. Longer ones are cut."""

_SIGNS_BEFORE = frozenset("#@$/")
"""Signs before a word that belong to a name: #channel, @user, $HOME, /command."""

_SIGNS_AFTER = frozenset("+#")
"""Signs after a word that belong to a name: C++, C#."""

_AROUND_WORDS = ".,;:!?'\"()[]{}<>*_-~`"
"""Frequent signs around words that belong to no term, so they can be stripped."""


def terms_of(text: str) -> set[str]:
    """Return the terms of a text: folded, without white space and control characters, at most `LONGEST_TERM` long."""
    terms: set[str] = set()
    for piece in set(fold(text).split()):
        if piece.isascii() and (word := piece.strip(_AROUND_WORDS)).isalnum():
            terms.add(word[:LONGEST_TERM])
            continue
        for token, of_token in terms_of_tokens(piece):
            terms.update(of_token)
            if token.kind is TokenKind.RUN:
                # A query of one character finds the pairs that begin with it, and this last character.
                terms.add(piece[token.end - 1])
    return terms


def terms_of_tokens(piece: str) -> Iterator[tuple[Token, list[str]]]:
    """Yield the tokens of a folded text without white space, and the terms of each, the most specific one first.

    The terms of a token depend on the token, the token before, the signs between the two, and the sign after it. If
    `piece` is part of a larger text, from one token to another, the terms of its tokens are terms of that text too.
    """
    before: Token | None = None
    for token in tokens_of(piece):
        kind, start, end = token
        if kind is TokenKind.WORD:
            yield token, _terms_of_word(piece, start, end, before)
        elif kind is TokenKind.RUN:
            yield token, [first + second for first, second in pairwise(piece[start:end])]
        else:
            yield token, [piece[start:end]]
        before = token


def _terms_of_word(piece: str, start: int, end: int, before: Token | None) -> list[str]:
    """Return the word, together with the sign before it or the word before it, and together with the sign after it."""
    terms = [piece[start : min(end, start + LONGEST_TERM)]]
    if start > (before.end if before else 0):
        if piece[start - 1] in _SIGNS_BEFORE:
            terms.insert(0, piece[start - 1 : end][:LONGEST_TERM])
        elif before and before.kind is TokenKind.WORD:
            terms.insert(0, piece[before.start : end][:LONGEST_TERM])
    if piece[end : end + 1] in _SIGNS_AFTER:
        terms.append(piece[start : end + 1][:LONGEST_TERM])
    return terms
