"""Keywords of users in texts: whole words, folded as a search does it."""

from __future__ import annotations

from collections.abc import Iterable

from store.text.folding import fold
from store.text.tokens import TokenKind, tokens_of


def find_keyword(folded_text: str, keywords: Iterable[str]) -> str | None:
    """Return the first keyword that a folded text contains as a whole word; None: none.

    In scripts that do not separate words, such as Chinese, a keyword is found anywhere.
    """
    for keyword in keywords:
        folded = " ".join(fold(keyword).split())
        if folded and _contains(folded_text, folded):
            return keyword
    return None


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
