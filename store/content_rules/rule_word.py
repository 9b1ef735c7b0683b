"""Words of content rules: their form, and where they are found in a text."""

from __future__ import annotations

from typing import NamedTuple

from store.text.case_folding import fold_case
from store.text.tokens import TokenKind, tokens_of

WILDCARD = "*"


class RuleWord(NamedTuple):
    """A word or phrase in the form in which it is compared.

    Attributes:
        text: The folded text.
        begins_inside: It may begin inside a longer word: `*` was before it.
        ends_inside: It may end inside a longer word: `*` was after it.
    """

    text: str
    begins_inside: bool
    ends_inside: bool


def parse_word(given: str) -> RuleWord | None:
    """Return a word as it was given; None if it has no text, or `*` in another place than at one end."""
    text = given.strip()
    begins_inside, ends_inside = text.startswith(WILDCARD), text.endswith(WILDCARD)
    if begins_inside and ends_inside:
        return None
    text = text[1:] if begins_inside else text[:-1] if ends_inside else text
    if WILDCARD in text or text != text.strip():
        return None
    folded = fold_case(text)
    return RuleWord(folded, begins_inside, ends_inside) if folded else None


def positions_inside_words(folded: str) -> frozenset[int]:
    """Return the positions of a folded text at which no word begins or ends: those inside words and flags.

    Scripts that write no spaces between words, such as Han and Thai, have no such positions, nor has Hangul: there a
    word is found wherever it is.
    """
    return frozenset(
        position
        for kind, start, end in tokens_of(folded)
        if kind is not TokenKind.RUN
        for position in range(start + 1, end)
    )
