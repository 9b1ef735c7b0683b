"""A message is found at once: after it was sent, as edited, and no longer once recalled, on every server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest

from tests.api.channels.calls import make_workspace
from tests.api.client import Api, message_input
from tests.api.conftest import OpenApi
from tests.invariants.search.searching import search_all

PLACES = ("private", "group", "channel", "thread", "thread of a channel", "subBiz")
TIMES = 5


@dataclass(frozen=True)
class Servers:
    """Two servers of one deployment."""

    one: Api
    other: Api


@pytest.fixture(scope="module")
async def servers(open_api: OpenApi) -> AsyncIterator[Servers]:
    async with open_api("fresh") as one, open_api("fresh") as other:
        yield Servers(one, other)


async def prepare(api: Api, place: str) -> tuple[str, str, str, dict[str, str]]:
    """Return a sender, a reader, the place of messages, and other fields of its messages."""
    if "channel" in place:
        made = await make_workspace(api)
        channel = (await made.create())["id"]
        follow = "mutation ($id: ID!) { followChannel(channelId: $id) { id } }"
        await api.data(made.member, follow, id=channel)
        sender, reader, to = made.owner, made.member, channel
    else:
        sender, reader, third = await api.create_users("anna", "ben", "cleo")
        to = reader if place in ("private", "subBiz") else await api.create_group(sender, reader, third)
    if "thread" in place:
        to = (await api.send(sender, to, "parent"))["message"]["id"]
        thread = (await api.send(reader, to, "a reply, so that the reader follows the thread"))["message"]
        assert thread["conversationId"].startswith("t_")
    return sender, reader, to, {"subBiz": "shop"} if place == "subBiz" else {}


@pytest.mark.parametrize("place", PLACES)
async def test_a_message_is_found_at_once_as_it_is_on_both_servers(servers: Servers, place: str) -> None:
    sender, reader, to, more = await prepare(servers.one, place)
    for number in range(TIMES):
        first, second = f"first{number}", f"दूसरा{number} 会議"
        sent = (await servers.one.send(sender, to, f"the {first} text", **more))["message"]
        for api, user in ((servers.other, reader), (servers.one, reader), (servers.other, sender)):
            found = await search_all(api, user, first)
            assert (found.ids, found.complete) == ([sent["id"]], True)
        await servers.one.edit(sender, sent["id"], f"now {second}")
        for api in (servers.other, servers.one):
            assert (await search_all(api, reader, first)).ids == []
            found = await search_all(api, reader, second)
            assert (found.ids, found.contents, found.complete) == ([sent["id"]], [f"now {second}"], True)
        await servers.one.recall(sender, sent["id"])
        for api in (servers.other, servers.one):
            for query in (first, second, "now", "会議"):
                found = await search_all(api, reader, query)
                assert (found.ids, found.complete, found.pages[0]["totalAtLeast"]) == ([], True, 0)


async def test_the_last_member_of_a_large_group_finds_a_message_at_once(servers: Servers) -> None:
    users = await servers.one.create_many_users("crowd", 260)
    group = await servers.one.create_group(users[0], *users[1:])
    for number in range(3):
        sent = (await servers.one.send(users[0], group, f"large{number}"))["message"]
        for api in (servers.other, servers.one):
            found = await search_all(api, users[-1], f"large{number}")
            assert (found.ids, found.complete) == ([sent["id"]], True)
    await servers.one.wait_until_idle()


async def test_a_broadcast_reply_is_found_as_edited_and_not_once_recalled(servers: Servers) -> None:
    anna, ben, cleo = await servers.one.create_users("anna", "ben", "cleo")
    group = await servers.one.create_group(anna, ben, cleo)
    parent = (await servers.one.send(anna, group, "parent"))["message"]
    answer = await servers.one.run(
        ben,
        "mutation ($input: SendMessageInput!) { sendMessage(input: $input) { message { id } } }",
        input=message_input(parent["id"], "everywhere", broadcast=True),
    )
    reply = answer["data"]["sendMessage"]["message"]["id"]
    thread = {"conversationIds": [f"t_{parent['seq']}_{group}"]}
    assert (await search_all(servers.other, cleo, "everywhere", thread)).ids == [reply]
    # Cleo does not follow the thread, but sees the copy in the group.
    assert len((await search_all(servers.other, cleo, "everywhere")).ids) == 1
    await servers.other.edit(ben, reply, "elsewhere")
    assert (await search_all(servers.one, cleo, "everywhere")).ids == []
    assert (await search_all(servers.one, cleo, "elsewhere", thread)).contents == ["elsewhere"]
    await servers.one.recall(ben, reply)
    for where in (None, thread):
        assert (await search_all(servers.other, cleo, "elsewhere", where)).ids == []
