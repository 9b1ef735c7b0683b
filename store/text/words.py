"""The terms of a text, by which the index of messages finds it (ADR 86)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from store.text.folding import fold
from store.text.tokens import Token, TokenKind, tokens_of

LONGEST_TERM = 24
"""Characters of a term. Longer ones are cut."""

_SIGNS_BEFORE = frozenset("#@$/")
"""Signs before a word that make it a name: #channel, @user, $HOME, /command."""

_SIGNS_AFTER = frozenset("+#")
"""Signs after a word that make it a name: C++, C#."""

_AROUND_WORDS = ".,;:!?'\"()[]{}<>*_-~`"
"""Frequent signs at both sides of words that make no other terms."""


class TokenTerms(NamedTuple):
    """The terms that a token adds to those of its text, longest ones first.

    Attributes:
        token: The token.
        of_token: Terms that depend on the token, and on what is before it in the same piece.
        with_next: Terms that depend on the sign after it as well.
    """

    token: Token
    of_token: list[str]
    with_next: list[str]


def terms_of(text: str) -> set[str]:
    """Return the terms of a text: folded, without white space and control characters, at most `LONGEST_TERM` long."""
    terms: set[str] = set()
    for piece in set(fold(text).split()):
        if piece.isascii() and (word := piece.strip(_AROUND_WORDS)).isalnum():
            terms.add(word[:LONGEST_TERM])
            continue
        for token, of_token, with_next in terms_of_tokens(piece):
            terms.update(of_token, with_next)
            if token.kind is TokenKind.RUN:
                # A query of one character finds the pairs that begin with it, and this.
                terms.add(piece[token.end - 1])
    return terms


def terms_of_tokens(piece: str) -> Iterator[TokenTerms]:
    """Yield the terms of a folded text without white space, token by token.

    Each token of a piece of it, between two places where tokens begin or end, has some of these terms.
    """
    before: Token | None = None
    for token in tokens_of(piece):
        if token.kind is TokenKind.WORD:
            yield TokenTerms(token, list(_terms_of_word(piece, token, before)), _terms_with_next(piece, token))
        elif token.kind is TokenKind.RUN:
            pairs = [first + second for first, second in pairwise(piece[token.start : token.end])]
            yield TokenTerms(token, pairs, [])
        else:
            yield TokenTerms(token, [piece[token.start : token.end]], [])
        before = token


def _terms_of_word(piece: str, token: Token, before: Token | None) -> Iterator[str]:
    """Yield the word with what is before it, if that makes it more special, and the word."""
    end = min(token.end, token.start + LONGEST_TERM)
    has_sign = token.start > (before.end if before else 0)
    if has_sign and piece[token.start - 1] in _SIGNS_BEFORE:
        yield piece[token.start - 1 : end][:LONGEST_TERM]
    elif has_sign and before and before.kind is TokenKind.WORD:
        yield piece[before.start : end][:LONGEST_TERM]
    yield piece[token.start : end]


def _terms_with_next(piece: str, token: Token) -> list[str]:
    if token.end < len(piece) and piece[token.end] in _SIGNS_AFTER:
        return [piece[token.start : token.end + 1][:LONGEST_TERM]]
    return []
