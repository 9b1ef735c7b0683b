"""Ids that clients send."""

from __future__ import annotations

import gc
from weakref import ref

import pytest

from store.base.ids import ConversationKind, kind_of, parse_private


class Spelt(str):
    pass


@pytest.mark.parametrize("text", ["g_" + "1" * 1_000, "p_a_" + "b" * 1_000, "x" * 1_000])
def test_a_too_long_conversation_id_is_invalid_and_not_cached(text: str) -> None:
    spelt = Spelt(text)
    assert kind_of(spelt) is None
    assert parse_private(spelt) is None
    gone = ref(spelt)
    del spelt
    gc.collect()
    assert gone() is None


def test_the_longest_conversation_id_is_valid() -> None:
    longest = f"p_{'a' * 64}_{'b' * 64}~{'c' * 32}"
    assert kind_of(longest) is ConversationKind.PRIVATE
    assert parse_private(longest) == ("a" * 64, "b" * 64, "c" * 32)
