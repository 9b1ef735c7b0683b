"""Terms of texts and of queries: the index proposes every text that a query finds."""

from __future__ import annotations

import time
from itertools import pairwise

import pytest
import regex
from hypothesis import assume, given
from hypothesis import strategies as st

from store.text.folding import fold
from store.text.message_query import MessageQuery, NothingToFind, parse_message_query
from store.text.words import LONGEST_TERM, terms_of
from tests.store.text.texts import ANY_PART, EMOJI, RUNS, SPACED_WORDS, TEXTS, TYPED

BOUNDARY = regex.compile(r"\b", regex.WORD | regex.V1)
"""Boundaries of words as UAX 29 has them."""

LETTER_OR_DIGIT = regex.compile(r"[\p{L}\p{N}]")
EAST_ASIAN_RUN = regex.compile(r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]{2,}")
QUERY_SIGNS = st.sampled_from([" ", " ", ' "', '" ', " -", "-", '"'])


def query_of(text: str) -> MessageQuery:
    """Return a query, if it has anything to find. The test is given up otherwise."""
    try:
        return parse_message_query(text)
    except NothingToFind:
        assume(False)
        raise


@st.composite
def texts_with_queries(draw: st.DrawFn) -> tuple[str, str]:
    """Return a text and a query that is made of parts of it, and sometimes of other things."""
    text = draw(TEXTS)
    query = ""
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(text)))
        part = text[start : start + draw(st.integers(0, 20))]
        query += draw(st.sampled_from([part, part, *(text.split() or [""]), draw(ANY_PART)])) + draw(QUERY_SIGNS)
    return text, query


def assert_proposed(query: MessageQuery, text: str) -> None:
    """Assert that an index of terms proposes the text for the query."""
    terms = terms_of(text)
    assert set(query.terms) <= terms
    assert any(term.startswith(query.beginning) for term in terms)


@given(texts_with_queries())
def test_the_index_proposes_every_text_that_a_query_finds(text_and_query: tuple[str, str]) -> None:
    text, typed = text_and_query
    query = query_of(typed)
    assert query.terms or query.beginning
    ranges = query.find_in(text)
    if ranges is not None:
        assert_proposed(query, text)
        assert ranges
        assert all(start < end for start, end in ranges)
        assert all(before.end < after.start for before, after in pairwise(ranges))
        assert ranges[0].start >= 0
        assert ranges[-1].end <= len(text)


@given(TEXTS)
def test_terms_are_short_and_can_be_stored(text: str) -> None:
    terms = terms_of(text)
    assert all(0 < len(term) <= LONGEST_TERM for term in terms)
    assert all(term.isprintable() and not any(map(str.isspace, term)) for term in terms if term.isascii())
    assert terms_of(fold(text)) == terms
    "".join(terms).encode()


@given(TEXTS)
def test_each_word_as_unicode_separates_them_finds_its_text(text: str) -> None:
    words = [word for word in BOUNDARY.split(fold(text)) if LETTER_OR_DIGIT.search(word)]
    for word in words:
        for typed in (word, f'"{word}"', f"{word} {words[0]}"):
            query = query_of(typed)
            assert query.find_in(text), typed
            assert_proposed(query, text)
        assert query_of(f"zzz -{word}").find_in(f"zzz {text}") is None


@given(TEXTS)
def test_each_pair_of_east_asian_characters_finds_its_text(text: str) -> None:
    for run in EAST_ASIAN_RUN.findall(fold(text)):
        for start, end in pairwise(range(len(run) + 1)):
            for part in (run[start:end], run[start : end + 1], run[start:]):
                query = query_of(part)
                assert query.find_in(text), part
                assert_proposed(query, text)


@given(TEXTS, st.sampled_from([*SPACED_WORDS, *TYPED]), TEXTS)
def test_beginnings_of_the_last_word_find_the_text(before: str, word: str, after: str) -> None:
    text = f"{before} {word} {after}"
    for length in range(1, len(word) + 1):
        query = query_of(word[:length])
        assert query.find_in(text), word[:length]
        assert_proposed(query, text)


@given(TEXTS, st.sampled_from([*SPACED_WORDS, *RUNS, *TYPED, *EMOJI]), TEXTS)
def test_what_was_typed_is_highlighted(before: str, typed: str, after: str) -> None:
    text = f"{before} {typed} {after}"
    ranges = query_of(f'"{typed}"').find_in(text)
    assert ranges
    found = fold(" ".join(text[start:end] for start, end in ranges))
    assert fold(typed).strip(".:\"'") in found


@given(TEXTS, st.sampled_from([*SPACED_WORDS, *RUNS, *TYPED]), TEXTS)
def test_an_excluded_word_is_not_found(before: str, word: str, after: str) -> None:
    text = f"zzz {before} {word} {after}"
    assert query_of("zzz").find_in(text)
    assert query_of(f'zzz -"{word}"').find_in(text) is None


@pytest.mark.parametrize(
    "text",
    [
        *(
            "a.b" * 1333,
            "a手" * 2000,
            "\ufdfa" * 4000,
            "жb" * 2000,
            "👍🏽" * 2000,
            "🇩" * 4000,
            "é " * 2000,
            "a#" * 2000,
        ),
        *("\u0301" * 4000, "\u094d" * 4000, "\u0e38\u0e48" * 2000, "\u1100\u1161\u11a8" * 1333, '"' * 4000, "a" * 4000),
    ],
    ids=lambda text: text[:4].encode("unicode_escape").decode(),
)
def test_hostile_texts_take_no_longer_than_others(text: str) -> None:
    """Measured in CPU time: a few milliseconds at most, or far more where the time grows with the square."""
    queries = [f'"{text[:250]}', f"a {text[:250]}", text[:3]]
    started = time.process_time()
    terms_of(text)
    for typed in queries:
        try:
            parse_message_query(typed).find_in(text)
        except NothingToFind:
            continue
    assert time.process_time() - started < 1
