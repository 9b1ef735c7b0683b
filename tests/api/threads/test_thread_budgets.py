"""Round trips of requests about threads when everything is cached, compared with the budgets."""

from __future__ import annotations

import pytest

from tests.api.client import HISTORY, Api, gather_all
from tests.api.requests.test_budgets import Meter
from tests.api.threads.calls import LIST, contents

PAGE = """query ($id: ID!) { messages(conversationId: $id, last: 50) { edges { node { id content
    thread { id title replyCount participantCount participants(first: 3) { id } lastReplyAt isLocked followerCount
        parent { id } lastMessage { id content } } } } } }"""


@pytest.mark.parametrize("kind", ["private", "group"])
async def test_threads_cost_no_more_than_conversations(api: Api, kind: str) -> None:
    meter = Meter(api)
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    to = bob if kind == "private" else await api.create_group(alice, bob, carol)
    sent = await gather_all(*(api.send(alice, to, f"message {number}") for number in range(20)))
    parents = [each["message"] for each in sent]
    await gather_all(*(api.send(bob, parent["id"], "reply") for parent in parents[:10]))
    conversation = parents[0]["conversationId"]
    threads = [f"t_{parent['seq']}_{conversation}" for parent in parents[:10]]
    page = (await api.data(alice, PAGE, id=conversation))["messages"]["edges"]
    assert sum(edge["node"]["thread"] is not None for edge in page) == 10
    await meter.expect("messages, 10 with threads", lambda: api.data(alice, PAGE, id=conversation), 1, 2)
    assert await contents(api, alice, threads[0]) == ["reply"]
    await meter.expect("messages of a thread", lambda: api.data(alice, HISTORY, id=threads[0]), 1, 1)
    await meter.expect("threads", lambda: api.data(alice, LIST, id=conversation, first=20), 2, 2)
    for user in (alice, bob):
        await api.sessions(user)
    for named in (parents[0]["id"], threads[0]):
        await meter.expect(f"sendMessage to a thread, {kind}", lambda named=named: meter.send(bob, named), 1, 2)
