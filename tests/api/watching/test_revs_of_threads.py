"""The `rev` of a thread in a private conversation or group: `channelEvents` goes on from there."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from store.base.errors import Unreachable
from store.base.ids import ConversationId
from store.redis.cache import Call
from tests.api.client import Api, Json
from tests.api.conftest import OpenApi
from tests.api.threads.live_calls import OUTSIDE_CHANNELS, ThreadPlace, follow, look, make_thread, shown, until
from tests.clock import DAY_MS, ManualClock

OPEN = """query ($id: ID!) {
    messages(conversationId: $id, last: 50) { edges { node { content } } }
    thread(id: $id) { rev } }"""
LISTED = "query ($id: ID!) { threads(conversationId: $id) { edges { node { rev } } } }"


@pytest.fixture
async def timed(open_api: OpenApi) -> AsyncIterator[tuple[Api, ManualClock]]:
    clock = ManualClock()
    async with open_api("revs", clock) as api:
        yield api, clock


async def watchers(api: Api, thread: str) -> list[str]:
    return [*await api.services.app.store.watchers.list(ConversationId(thread))]


async def listed_rev(api: Api, user: str, place: ThreadPlace) -> int:
    """Return the thread's rev from a list, which makes nobody a watcher."""
    (edge,) = (await api.data(user, LISTED, id=place.conversation))["threads"]["edges"]
    rev: int = edge["node"]["rev"]
    return rev


async def missed(api: Api, user: str, thread: str, rev: int) -> tuple[list[Json], bool]:
    """Return the missed events after a rev, and whether the client has to start over."""
    subscriber = await look(api, user, (thread, rev))
    *events, caught_up = await until(subscriber, "ChannelCaughtUp")
    await subscriber.stop()
    return events, caught_up["reset"]


@pytest.mark.parametrize("place", OUTSIDE_CHANNELS)
async def test_a_thread_is_looked_at_from_the_rev_with_which_it_was_opened(
    api: Api, other_api: Api, place: str
) -> None:
    thread = await make_thread(api, place)
    rev = (await api.data(thread.third, OPEN, id=thread.id))["thread"]["rev"]
    sent = (await api.send(thread.second, thread.id, "second reply"))["message"]
    await api.edit(thread.second, sent["id"], "edited")
    for process in (api, other_api):
        events, reset = await missed(process, thread.third, thread.id, rev)
        assert not reset
        assert ("CREATED", 2, "edited") in [shown(event) for event in events]


async def test_what_is_sent_until_the_watch_begins_is_in_the_state(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    thread = await make_thread(api, "group")
    watches = api.services.app.watches
    begin = watches.begin

    async def send_and_begin(*arguments: Any) -> Any:
        await api.send(thread.second, thread.id, "at the last moment")
        return await begin(*arguments)

    monkeypatch.setattr(watches, "begin", send_and_begin)
    opened = await api.data(thread.third, OPEN, id=thread.id)
    monkeypatch.undo()
    assert [edge["node"]["content"] for edge in opened["messages"]["edges"]][-1] == "at the last moment"
    assert not (await missed(api, thread.third, thread.id, opened["thread"]["rev"]))[1]


ASKING = (
    "query ($id: ID!) { thread(id: $id) { id } workspace(id: $id) { rev } }",
    """query ($id: ID!) { ...All } fragment All on Query { node(id: $id) { ...Rev } }
        fragment Rev on Node { ... on Thread { rev } }""",
    'query ($id: ID = "THREAD") { thread(id: $id) { rev } }',
    '{ thread(id: "THREAD") { rev } }',
)
NOT_ASKING = (
    "query ($id: ID!) { thread(id: $id) { id } }",
    "mutation ($id: ID!) { lockThread(threadId: $id) { rev } }",
)


async def test_who_asks_for_the_rev_begins_to_watch(api: Api) -> None:
    thread = await make_thread(api, "group")
    for expected, documents in (([], NOT_ASKING), ([thread.first], ASKING)):
        for document in documents:
            variables = {"id": thread.id} if "$id: ID!" in document else {}
            await api.data(thread.first, document.replace("THREAD", thread.id), **variables)
            assert await watchers(api, thread.id) == expected, document
            store = api.services.app.store
            await store.cache.one(Call("DEL", store.keys.watchers(ConversationId(thread.id))))


async def test_nobody_begins_to_watch_a_thread_that_they_do_not_see(api: Api) -> None:
    thread = await make_thread(api, "group")
    (stranger,) = await api.create_users("stranger")
    assert (await api.data(stranger, "query ($id: ID!) { thread(id: $id) { rev } }", id=thread.id))["thread"] is None
    await api.data(
        thread.first,
        "mutation ($g: ID!, $u: ID!) { removeMember(groupId: $g, userId: $u) { id } }",
        g=thread.conversation,
        u=thread.third,
    )
    found = await api.data(thread.third, "query ($id: ID!) { thread(id: $id) { rev } }", id=thread.id)
    assert found["thread"] is not None
    assert await watchers(api, thread.id) == []


async def test_a_thread_can_be_read_while_redis_is_away(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    thread = await make_thread(api, "group")

    async def fail(*_arguments: Any) -> Any:
        raise Unreachable("Redis is away")

    monkeypatch.setattr(api.services.app.watches, "begin", fail)
    opened = await api.data(thread.third, OPEN, id=thread.id)
    assert [edge["node"]["content"] for edge in opened["messages"]["edges"]] == ["first reply"]
    monkeypatch.undo()
    assert (await missed(api, thread.third, thread.id, opened["thread"]["rev"]))[1]


async def test_followers_resume_without_a_watch_and_others_start_over(timed: tuple[Api, ManualClock]) -> None:
    api, clock = timed
    thread = await make_thread(api, "group")
    await api.advance_days(clock, 10_000 / DAY_MS)
    revs = {user: await listed_rev(api, user, thread) for user in (thread.second, thread.third)}
    await api.send(thread.first, thread.id, "second reply")
    events, reset = await missed(api, thread.second, thread.id, revs[thread.second])
    assert ([shown(event) for event in events], reset) == ([("CREATED", 2, "second reply")], False)
    # A user who has not followed all the time may have missed something.
    assert (await missed(api, thread.third, thread.id, revs[thread.third]))[1]


async def test_who_has_followed_or_stopped_since_the_rev_starts_over(timed: tuple[Api, ManualClock]) -> None:
    api, clock = timed
    thread = await make_thread(api, "group")
    await api.advance_days(clock, 10_000 / DAY_MS)
    before = {user: await listed_rev(api, user, thread) for user in (thread.second, thread.third)}
    await follow(api, thread.third, thread.id)
    await follow(api, thread.second, thread.id, on=False)
    await api.advance_days(clock, 10_000 / DAY_MS)
    assert (await missed(api, thread.third, thread.id, before[thread.third]))[1]
    assert (await missed(api, thread.second, thread.id, before[thread.second]))[1]
    await follow(api, thread.second, thread.id)
    assert (await missed(api, thread.second, thread.id, before[thread.second]))[1]
