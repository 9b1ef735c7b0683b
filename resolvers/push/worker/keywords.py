"""Keywords of users in texts: whole words, folded as a search does it."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from store.text.folding import fold
from store.text.tokens import TokenKind, tokens_of


def find_keyword(text: str, keywords: Iterable[str]) -> str | None:
    """Return the first keyword that a text contains as a whole word; None: none.

    In scripts that do not separate words, such as Chinese, a keyword is found anywhere.
    """
    folded_text = _fold_text(text)
    for keyword in keywords:
        folded = _fold_keyword(keyword)
        if folded and _contains(folded_text, folded):
            return keyword
    return None


@lru_cache(maxsize=1_000)
def _fold_text(text: str) -> str:
    """Return a folded text. Members of a group with keywords share it."""
    return fold(text)


@lru_cache(maxsize=20_000)
def _fold_keyword(keyword: str) -> str:
    return " ".join(fold(keyword).split())


def _contains(text: str, keyword: str) -> bool:
    start = text.find(keyword)
    while start >= 0:
        end = start + len(keyword)
        if not _is_inside_word(text, start) and not _is_inside_word(text, end):
            return True
        start = text.find(keyword, start + 1)
    return False


def _is_inside_word(text: str, position: int) -> bool:
    """Return whether a position is between two characters of one word."""
    if not 0 < position < len(text):
        return False
    # Each part of a run of characters without spaces counts as a word.
    tokens = list(tokens_of(text[position - 1 : position + 1]))
    return len(tokens) == 1 and tokens[0].kind is TokenKind.WORD and tokens[0].end - tokens[0].start == _PAIR


_PAIR = 2
