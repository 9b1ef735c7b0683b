"""Answers of searches do not depend on messages that the caller may not read: neither by content nor by round trips."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from tests.api.channels.calls import CREATE as CREATE_CHANNEL
from tests.api.client import TIMEOUT_SECONDS, Api, Json
from tests.api.conftest import OpenApi
from tests.api.workspaces.calls import LEAVE, add_members, create_workspace
from tests.api.workspaces.role_calls import everyone, overwrite
from tests.invariants.search.searching import SEARCH
from tests.user_ids import private_id

HIDDEN_WORDS = ("heron", "heron lake", "her", '"heron lake"', "鷺の湖", "heron -wolf")
COUNT = 30


@pytest.fixture(scope="module")
async def api(open_api: OpenApi) -> AsyncIterator[Api]:
    async with open_api("secrets") as api:
        yield api
        await api.wait_until_idle()


async def answer(api: Api, user: str, query: str, filter: Json | None = None) -> tuple[Json, int, int]:
    """Return the answer without its time, and the least round trips to MongoDB and Redis of several runs.

    Work of the server itself may add to single runs.
    """
    store = api.services.app.store
    runs = []
    for _ in range(4):
        await api.wait_until_idle()
        mongo, redis = store.mongo.trips, store.cache.trips
        response = await api.run(user, SEARCH, query=query, filter=filter, first=2)
        runs.append((store.mongo.trips - mongo, store.cache.trips - redis))
    trips = min(mongo for mongo, _ in runs), min(redis for _, redis in runs)
    if response.get("data"):
        assert response["data"]["searchMessages"].pop("indexedUpTo") > 0
    return response, *trips


async def until_indexed(api: Api) -> None:
    """Wait until no message waits for the index. A message that waits adds a round trip, whether it matches or not."""
    async with asyncio.timeout(TIMEOUT_SECONDS):
        while (await api.services.app.store.unindexed_messages.measure())[0]:  # noqa: ASYNC110
            await asyncio.sleep(0.05)


async def write(api: Api, sender: str, to: str, words: str = "the heron lake 鷺の湖") -> list[str]:
    return [(await api.send(sender, to, f"{words} {number}"))["message"]["id"] for number in range(COUNT)]


async def _before_joining(api: Api, owner: str, friend: str, user: str) -> str:
    group = await api.create_group(owner, friend, (await api.create_users("third"))[0])
    await write(api, owner, group)
    await api.invite(owner, group, user)
    return group


async def _after_leaving(api: Api, owner: str, friend: str, user: str) -> str:
    group = await api.create_group(owner, friend, user)
    await api.leave(user, group)
    await write(api, owner, group)
    return group


async def _recalled(api: Api, owner: str, friend: str, user: str) -> str:
    group = await api.create_group(owner, friend, user)
    for message in await write(api, owner, group):
        await api.recall(owner, message)
    return group


async def _edited(api: Api, owner: str, friend: str, user: str) -> str:
    group = await api.create_group(owner, friend, user)
    for message in await write(api, owner, group):
        await api.edit(owner, message, "plain")
    return group


async def _without_history(api: Api, owner: str, friend: str, user: str) -> str:
    workspace = await create_workspace(api, owner)
    await add_members(api, workspace, friend, user)
    channel = (await api.data(owner, CREATE_CHANNEL, input={"workspaceId": workspace, "name": "c"}))["createChannel"]
    follow = "mutation ($id: ID!) { followChannel(channelId: $id) { id } }"
    await api.data(user, follow, id=channel["id"])
    await overwrite(api, owner, channel=channel["id"], role=everyone(workspace), deny=["READ_HISTORY"])
    await write(api, owner, channel["id"])
    return str(channel["id"])


HIDDEN: dict[str, Callable[[Api, str, str, str], Awaitable[str]]] = {
    "sent before joining": _before_joining,
    "sent after leaving": _after_leaving,
    "recalled": _recalled,
    "edited": _edited,
    "in a channel without history": _without_history,
}
"""Messages in conversations that the user can see, but which they cannot read as they were."""

SHOWN_BEFORE = {"recalled", "edited"}
"""The former texts of these messages could be read. They are proposed until the index has forgotten them."""


@pytest.mark.parametrize("kind", HIDDEN)
@pytest.mark.parametrize("is_named", [True, False], ids=["named", "not named"])
async def test_unreadable_messages_of_a_visible_conversation_change_nothing(
    api: Api, kind: str, is_named: bool
) -> None:
    owner, friend, user = await api.create_users("owner", "friend", "user")
    conversation = await HIDDEN[kind](api, owner, friend, user)
    filter_ = {"conversationIds": [conversation]} if is_named else None
    await until_indexed(api)
    for query in HIDDEN_WORDS:
        other = query.replace("her", "xyz").replace("鷺", "鶴")
        hidden, absent = await answer(api, user, query, filter_), await answer(api, user, other, filter_)
        assert hidden[0] == absent[0]
        page = hidden[0]["data"]["searchMessages"]
        assert (page["edges"], page["totalAtLeast"], page["complete"]) == ([], 0, True)
        assert page["pageInfo"]["hasNextPage"] is False
        # If no conversation is named, rights are read after the index was asked, and only if it proposes something.
        if is_named and kind not in SHOWN_BEFORE:
            assert hidden[1:] == absent[1:], f"{query}: round trips reveal hidden messages"


async def _foreign_group(api: Api, owner: str, friend: str, user: str) -> str:
    group = await api.create_group(owner, friend, (await api.create_users("third"))[0])
    await write(api, owner, group)
    return group


async def _foreign_private(api: Api, owner: str, friend: str, user: str) -> str:
    await write(api, owner, friend)
    return private_id(owner, friend)


async def _foreign_thread(api: Api, owner: str, friend: str, user: str) -> str:
    group = await api.create_group(owner, friend, (await api.create_users("third"))[0])
    parent = (await api.send(owner, group, "parent"))["message"]
    await write(api, owner, parent["id"])
    return f"t_{parent['seq']}_{group}"


async def _dismissed_group(api: Api, owner: str, friend: str, user: str) -> str:
    group = await api.create_group(owner, friend, user)
    await write(api, owner, group)
    await api.dismiss(owner, group)
    return group


async def _private_channel(api: Api, owner: str, friend: str, user: str) -> str:
    workspace = await create_workspace(api, owner)
    await add_members(api, workspace, friend, user)
    fields = {"workspaceId": workspace, "name": "c", "kind": "PRIVATE", "memberIds": [owner, friend]}
    channel: str = (await api.data(owner, CREATE_CHANNEL, input=fields))["createChannel"]["id"]
    await write(api, owner, channel)
    return channel


async def _left_workspace(api: Api, owner: str, friend: str, user: str) -> str:
    workspace = await create_workspace(api, owner)
    await add_members(api, workspace, friend, user)
    fields = {"workspaceId": workspace, "name": "c"}
    channel: str = (await api.data(owner, CREATE_CHANNEL, input=fields))["createChannel"]["id"]
    await write(api, owner, channel)
    await api.data(user, LEAVE, id=workspace)
    return channel


FOREIGN: dict[str, Callable[[Api, str, str, str], Awaitable[str]]] = {
    "group": _foreign_group,
    "private conversation": _foreign_private,
    "thread": _foreign_thread,
    "dismissed group": _dismissed_group,
    "PRIVATE channel": _private_channel,
    "channel of a workspace that was left": _left_workspace,
}


def alike(conversation: str) -> str:
    """Return an id of the same form that no conversation has."""
    return conversation[:-3] + ("zzq" if conversation[-3:] != "zzq" else "zzp")


@pytest.mark.parametrize("kind", FOREIGN)
async def test_a_hidden_conversation_is_answered_like_an_unknown_id(api: Api, kind: str) -> None:
    owner, friend, user = await api.create_users("owner", "friend", "user")
    conversation = await FOREIGN[kind](api, owner, friend, user)
    own = await api.create_group(user, friend, owner)
    await api.send(user, own, "a heron of my own")
    await until_indexed(api)
    for query in HIDDEN_WORDS:
        for more in ([], [own]):
            hidden = await answer(api, user, query, {"conversationIds": [conversation, *more]})
            unknown = await answer(api, user, query, {"conversationIds": [alike(conversation), *more]})
            assert hidden[0] == unknown[0]
            absent = await answer(api, user, query.replace("her", "xyz"), {"conversationIds": [conversation]})
            if not more:
                assert hidden[1:] == absent[1:], "round trips depend on the hidden content"
    everywhere = await answer(api, user, "heron")
    contents = [edge["node"]["content"] for edge in everywhere[0]["data"]["searchMessages"]["edges"]]
    assert contents == ["a heron of my own"]


async def test_totals_and_pages_count_only_readable_messages(api: Api) -> None:
    owner, friend, user, third = await api.create_users("owner", "friend", "user", "third")
    group = await api.create_group(owner, friend, third)
    await write(api, owner, group)
    await api.invite(owner, group, user)
    own = [(await api.send(owner, group, f"a heron {number}"))["message"]["id"] for number in range(3)]
    await write(api, owner, friend)
    page = (await answer(api, user, "heron"))[0]["data"]["searchMessages"]
    assert [edge["node"]["id"] for edge in page["edges"]] == own[:0:-1]
    assert page["totalAtLeast"] in (2, 3)
    rest = await api.data(user, SEARCH, query="heron", first=2, after=page["pageInfo"]["endCursor"])
    (edge,) = rest["searchMessages"]["edges"]
    assert edge["node"]["id"] == own[0]
    assert (rest["searchMessages"]["totalAtLeast"], rest["searchMessages"]["pageInfo"]["hasNextPage"]) == (3, False)
