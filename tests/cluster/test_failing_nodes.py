"""A node that fails for some time is away, until it answers or nobody has asked it for a while."""

from __future__ import annotations

import pytest

from store.redis.cluster.failing_nodes import (
    AWAY_AFTER_SECONDS,
    AWAY_AFTER_SILENCE_SECONDS,
    FailingNodes,
)


@pytest.mark.parametrize(("is_silent", "allowed"), [(False, AWAY_AFTER_SECONDS), (True, AWAY_AFTER_SILENCE_SECONDS)])
def test_a_node_is_away_after_some_time_of_failures_until_it_answers(is_silent: bool, allowed: float) -> None:
    now = 100.0
    nodes = FailingNodes(lambda: now)
    assert not nodes.is_away("a:1")
    while now <= 100.0 + allowed:
        nodes.note_failure("a:1", is_silent=is_silent)
        assert not nodes.is_away("a:1")
        now += 1.0
    assert nodes.is_away("a:1")
    assert not nodes.is_away("b:1")
    nodes.note_answer("a:1")
    assert not nodes.is_away("a:1")
    nodes.note_failure("a:1", is_silent=is_silent)
    assert not nodes.is_away("a:1")


def test_an_old_failure_does_not_count() -> None:
    now = 100.0
    nodes = FailingNodes(lambda: now)
    for at in (100.0, 101.0, 102.0):
        now = at
        nodes.note_failure("a:1")
    now = 102.5
    assert nodes.is_away("a:1")
    now = 110.0
    assert not nodes.is_away("a:1")
    nodes.note_failure("a:1")
    assert not nodes.is_away("a:1")
