"""Case folding: what becomes equal, and what stays different."""

from __future__ import annotations

import pytest
from hypothesis import given

from store.text.case_folding import fold_case
from tests.store.text.texts import TEXTS


@pytest.mark.parametrize(
    ("texts", "folded"),
    [
        (["BAD", "bad", "\uff22\uff21\uff24", "\U0001d401ad", "b\u200ba\u00add", "\ufeffbad"], "bad"),
        (["Stra\u00dfe", "STRASSE", "STRA\u1e9eE"], "strasse"),
        (["\u03a3\u0391\u03a3", "\u03c3\u03b1\u03c2"], "\u03c3\u03b1\u03c3"),
        (["CAFE\u0301", "caf\u00e9"], "caf\u00e9"),
        (["a \n\t b\u00a0c ", "a b c"], "a b c"),
        (["❤\ufe0f", "❤"], "❤"),
        (["ㅋㅋㅠㅠ", "\uffbb\uffbb\uffd7\uffd7"], "ㅋㅋㅠㅠ"),
        (["한", "\u1112\u1161\u11ab"], "한"),
        (["\uff76\uff9e", "ガ"], "ガ"),
        (["\u1fb3", "\u0391\u0345", "\u03b1\u03b9"], "\u03b1\u03b9"),
    ],
)
def test_texts_that_differ_in_case_or_in_compatible_characters_become_equal(texts: list[str], folded: str) -> None:
    assert {fold_case(text) for text in texts} == {folded}


@pytest.mark.parametrize(("one", "other"), [("schon", "sch\u00f6n"), ("cafe", "caf\u00e9"), ("か", "が")])
def test_diacritics_stay(one: str, other: str) -> None:
    assert fold_case(one) != fold_case(other)


@given(TEXTS)
def test_folding_a_folded_text_changes_nothing(text: str) -> None:
    once = fold_case(text)
    assert fold_case(once) == once == once.strip()


@given(TEXTS)
def test_case_is_ignored(text: str) -> None:
    # Some capital letters become two small ones: their upper case is another text.
    assert fold_case(text.casefold()) == fold_case(text)
