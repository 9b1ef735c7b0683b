"""Differences that a run may end with, because they are known limits, and others like them that are problems."""

from __future__ import annotations

from typing import Any

import pytest

from tests.chaos.judges.derived_data import is_behind, is_missing_tick


@pytest.mark.parametrize(
    ("check", "field", "value", "is_known"),
    [
        ("cached-sessions", "p_u0_u1: peer_read_seq", 3, True),
        ("cached-sessions", "p_u0_u1: peer_delivered_seq", 3, True),
        ("cached-sessions", "p_u0_u1: peer_read_seq", 6, False),
        ("cached-sessions", "p_u0_u1: read_seq", 3, False),
        ("heads", "p_u0_u1: peer_read_seq", 3, False),
    ],
)
def test_only_a_missing_tick_is_known(check: str, field: str, value: int, is_known: bool) -> None:
    assert is_missing_tick(check, {"field": field, "value": value, "expected": 5}) is is_known


@pytest.mark.parametrize(
    ("field", "value", "expected", "is_known"),
    [
        ("last message", 10_000, 10_999, True),
        ("last message", 10_000, 11_000, False),
        ("last message", 10_001, 10_000, False),
        ("newest message", {"t": "hello"}, {"t": "hello", "th": True}, True),
        ("newest message", {"t": "hello"}, {"t": "other", "th": True}, False),
        ("newest message", None, {"th": True}, False),
        ("newest reserved seq", 3, 4, False),
    ],
)
def test_only_the_last_steps_of_a_delivery_are_known(field: str, value: Any, expected: Any, is_known: bool) -> None:
    assert is_behind("cached-heads", {"field": field, "value": value, "expected": expected}) is is_known
    assert not is_behind("heads", {"field": field, "value": value, "expected": expected})
