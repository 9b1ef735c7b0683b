"""Folding: what becomes equal, and from where each character comes."""

from __future__ import annotations

import unicodedata
from itertools import pairwise

import pytest
from hypothesis import given

from store.text.folding import fold, fold_with_origins
from store.text.message_query import parse_message_query
from tests.store.text.texts import TEXTS


@pytest.mark.parametrize(
    ("texts", "folded"),
    [
        (["Café", "CAFE\u0301", "cafe"], "cafe"),
        (["Ångström", "A\u030angstro\u0308m", "\u212bngström"], "angstrom"),
        (["Straße", "STRASSE", "STRA\u1e9eE"], "strasse"),
        (["ΟΔΟΣ", "οδός"], "οδοσ"),
        (["İI\u0131i"], "iiii"),
        (["Łódź", "łódź"], "lodz"),
        (["\uff21\uff42", "\U0001d400b", "Ab"], "ab"),
        (["ﬁ", "FI"], "fi"),
        (["½", "1\u20442"], "1/2"),
        (["don\u2019t", "don\u00b4t", "DON'T"], "don't"),
        (['צה"ל', "צה\u05f4ל"], 'צה"ל'),
        (["\u201ca\u201d", "\u00abA\u00bb"], '"a"'),
        (["e\u2011mail", "e\u2013mail"], "e-mail"),
        (["שָׁלוֹם"], "שלום"),
        (["مُحَمَّد", "محـــمد"], "محمد"),
        (["が", "か\u3099", "か\uff9e"], "が"),
        (["\uff76\uff9e", "ガ"], "ガ"),
        (["한", "\u1112\u1161\u11ab"], "한"),
        (["ㅋㅋㅠㅠ", "\uffbb\uffbb\uffd7\uffd7"], "ㅋㅋㅠㅠ"),
        (["क्षि"], "क्षि"),
        (["นี้"], "นี้"),
        (["a\u200d\u200e\ufeff\u00adb"], "ab"),
        (["👍🏽", "👍"], "👍"),
        (["\u2764\ufe0f", "\u2764"], "\u2764"),
        (["a\nb\0\ud800", "a\u3000b\u00a0\t"], "a b  "),
    ],
)
def test_texts_that_differ_in_form_only_fold_to_the_same(texts: list[str], folded: str) -> None:
    assert {fold(text) for text in texts} == {folded}


@pytest.mark.parametrize(
    ("text", "other"), [("か", "が"), ("क", "कि"), ("नी", "ने"), ("มา", "ม้า"), ("하", "한"), ("手", "機"), ("a", "b")]
)
def test_different_letters_stay_different(text: str, other: str) -> None:
    assert fold(text) != fold(other)


def test_folding_a_character_twice_changes_nothing_more() -> None:
    # Further planes have no letters that change, except these ideographs and variation selectors.
    for code in (*range(0x20000), *range(0x2F800, 0x2FA20), *range(0xE0000, 0xE0200)):
        folded = fold(chr(code))
        assert fold(folded) == folded
        assert fold_with_origins(chr(code))[0] == folded


@given(TEXTS)
def test_folding_a_text_twice_changes_nothing_more(text: str) -> None:
    folded = fold(text)
    assert fold(folded) == folded
    assert unicodedata.is_normalized("NFC", folded)
    folded.encode()


@given(TEXTS)
def test_each_part_of_a_text_folds_to_the_characters_that_come_from_it(text: str) -> None:
    folded, origins = fold_with_origins(text)
    assert folded == fold(text)
    assert len(origins) == len(folded) + 1
    assert origins == sorted(origins)
    assert origins[-1] == len(text)
    for start, end in pairwise(sorted(set(origins))):
        assert fold(text[start:end]) == folded[origins.index(start) : origins.index(end)]


@pytest.mark.parametrize("letter", ["\ufdfa", "\u0f73", "\u0f71\u0f72", "a\ufdfa"])
def test_a_text_that_was_made_to_be_slow_stays_short(letter: str) -> None:
    text = "tea " + letter * 4_000 + " tea"
    folded, origins = fold_with_origins(text)
    assert folded == fold(text) and folded.startswith("tea ")
    assert len(folded) <= max(12_000, len(text))
    assert len(origins) == len(folded) + 1 and origins[-1] == len(text)
    assert sum(map(unicodedata.combining, folded)) < 100 * 255
    ranges = parse_message_query("tea").find_in(text)
    assert ranges is not None and ranges[0] == (0, 3)
