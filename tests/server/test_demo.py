"""The demo that a newcomer finds in an empty database."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest

from resolvers.callers import Caller, CallerRole
from server.demo import seed_demo
from server.services import open_services
from server.settings import Settings
from store.ids import UserId
from store.messages import MessageStore
from subscriptions.engine import ConnectionContext, GraphQLRequest

FIRST_QUERY = """{
  me { displayName }
  sessions {
    totalUnread
    edges { node { unreadCount conversation { title type } lastMessage { content sender { displayName } } } }
  }
}"""


async def ask(settings: Settings, user: str, query: str) -> Any:
    """What somebody's query answers."""
    async with open_services(settings) as services:
        caller = Caller(UserId(user), CallerRole.USER, time.time() + 60)
        await services.sign_in(caller)
        request = GraphQLRequest(query)
        answer = await services.engine.execute(
            services.engine.prepare(request), request, ConnectionContext(caller, "test")
        )
    assert "errors" not in answer, answer
    return answer["data"]


async def test_the_first_query_shows_a_group_and_a_private_conversation(settings: Settings) -> None:
    assert await seed_demo(settings)
    alice = await ask(settings, "alice", FIRST_QUERY)
    assert alice["me"]["displayName"] == "Alice Archer"
    private, group = (edge["node"] for edge in alice["sessions"]["edges"])
    assert private["conversation"] == {"title": "Bob Baker", "type": "PRIVATE"}
    assert private["lastMessage"] == {"content": "I can try. 🎂", "sender": {"displayName": "Bob Baker"}}
    assert private["unreadCount"] == 1
    assert group["conversation"] == {"title": "Weekend hike", "type": "GROUP"}
    assert group["lastMessage"]["sender"]["displayName"] == "Bob Baker"
    assert alice["sessions"]["totalUnread"] == private["unreadCount"] + group["unreadCount"] > 1
    carol = await ask(settings, "carol", FIRST_QUERY)
    assert [edge["node"]["conversation"]["title"] for edge in carol["sessions"]["edges"]] == ["Weekend hike"]


async def test_twice_gives_the_same(settings: Settings) -> None:
    await seed_demo(settings)
    before = [await ask(settings, user, FIRST_QUERY) for user in ("alice", "bob", "carol")]
    assert not await seed_demo(settings)
    assert [await ask(settings, user, FIRST_QUERY) for user in ("alice", "bob", "carol")] == before


async def test_where_there_are_users_no_demo_is_made(settings: Settings) -> None:
    await ask(settings, "dave", "{ me { id } }")
    assert not await seed_demo(settings)
    assert await ask(settings, "dave", '{ user(id: "alice") { id } }') == {"user": None}


async def test_a_demo_that_was_stopped_half_way_is_completed(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What was left behind is taken over sooner than it usually is.
    monkeypatch.setattr("subscriptions.housekeeping.TAKEOVER_MS", 500)
    with monkeypatch.context() as patch:
        patch.setattr(MessageStore, "reserve", _stopping_at(4, MessageStore.reserve))
        with pytest.raises(asyncio.CancelledError):
            await seed_demo(settings)
    assert await seed_demo(settings)
    alice = await ask(
        settings, "alice", "{ sessions { edges { node { conversation { ... on Group { memberCount } } writeSeq } } } }"
    )
    assert [edge["node"] for edge in alice["sessions"]["edges"]] == [
        {"conversation": {}, "writeSeq": 3},
        {"conversation": {"memberCount": 3}, "writeSeq": 6},
    ]


def _stopping_at(number: int, reserve: Callable[..., Any]) -> Callable[..., Any]:
    """As if the process was stopped after it reserved so many messages."""
    count = 0

    async def stopping(*args: Any, **options: Any) -> Any:
        nonlocal count
        place = await reserve(*args, **options)
        count += 1
        if count == number:
            raise asyncio.CancelledError
        return place

    return stopping
