"""The cost of threads for viewers who may read a part of them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.api.client import Api, gather_all
from tests.api.threads.calls import LIST
from tests.waiting import TIMEOUT_SECONDS


async def test_parts_of_several_threads_are_counted_at_the_same_time(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    parents = [(await api.send(alice, group, "parent"))["message"] for _ in range(2)]
    await gather_all(*(api.send(bob, parent["id"], "reply") for parent in parents))
    await api.data(
        alice, "mutation ($g: ID!, $u: ID!) { removeMember(groupId: $g, userId: $u) { id } }", g=group, u=carol
    )
    await gather_all(*(api.send(bob, parent["id"], "later") for parent in parents))
    lists = api.services.app.store.thread_lists
    count, both_wait, begun = lists.count_replies, asyncio.Event(), []

    async def wait_for_both(*arguments: Any) -> Any:
        begun.append(arguments)
        if len(begun) == len(parents):
            both_wait.set()
        await asyncio.wait_for(both_wait.wait(), TIMEOUT_SECONDS)
        return await count(*arguments)

    monkeypatch.setattr(lists, "count_replies", wait_for_both)
    edges = (await api.data(carol, LIST, id=group, first=20))["threads"]["edges"]
    assert [edge["node"]["replyCount"] for edge in edges] == [1, 1]
