"""History: pages of messages in both directions."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.api.client import HISTORY, Api, Json, private_id
from tests.api.conftest import Deployments, OpenApi
from tests.api.session_calls import MESSAGE

few = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
LONGEST = 64


@dataclass(frozen=True)
class Talk:
    """A group with history; erin joined in the middle of it."""

    api: Api
    group: str
    bob: str
    erin: str

    async def page(self, user: str, **asked: object) -> Json:
        listed: Json = (await self.api.data(user, HISTORY, id=self.group, **asked))["messages"]
        return listed


@pytest.fixture(scope="module")
async def talk(process: Api) -> Talk:
    alice, bob, carol, dave, erin = await process.create_users("alice", "bob", "carol", "dave", "erin")
    group = await process.create_group(alice, bob, carol)
    for number in range(1, 24):
        if number == 9:
            await process.invite(alice, group, erin)
        elif number == 15:
            await process.invite(alice, group, dave)
        else:
            await process.send((alice, bob, carol)[number % 3], group, f"number {number}")
    return Talk(process, group, bob, erin)


def seqs(listed: Json) -> list[int]:
    return [edge["node"]["seq"] for edge in listed["edges"]]


async def walk(talk: Talk, user: str, size: int, *, back: bool) -> list[int]:
    """All pages one after the other, checked for what they say of themselves."""
    found: list[int] = []
    cursor: str | None = None
    while True:
        asked = {"last": size, "before": cursor} if back else {"first": size, "after": cursor}
        listed = await talk.page(user, **asked)
        info = listed["pageInfo"]
        here = seqs(listed)
        assert here == sorted(here)
        assert len(here) <= size
        assert [info["startCursor"], info["endCursor"]] == [listed["edges"][0]["cursor"], listed["edges"][-1]["cursor"]]
        assert info["hasNextPage" if back else "hasPreviousPage"] is (cursor is not None)
        more = info["hasPreviousPage" if back else "hasNextPage"]
        assert not more or len(here) == size
        found = here + found if back else found + here
        cursor = info["startCursor"] if back else info["endCursor"]
        if not more:
            return found


@few
@given(size=st.integers(1, LONGEST), back=st.booleans(), late=st.booleans())
async def test_pages_of_any_size_in_either_direction_make_up_the_history(
    talk: Talk, size: int, back: bool, late: bool
) -> None:
    user, expected = (talk.erin, range(9, 24)) if late else (talk.bob, range(1, 24))
    assert await walk(talk, user, size, back=back) == list(expected)


@few
@given(data=st.data())
async def test_a_window_between_two_cursors_is_what_lies_between_them(talk: Talk, data: st.DataObject) -> None:
    edges = (await talk.page(talk.bob, first=100))["edges"]
    low = data.draw(st.integers(0, 22))
    high = data.draw(st.integers(0, 22))
    size = data.draw(st.integers(1, LONGEST))
    inside = [edge["node"]["seq"] for edge in edges[low + 1 : high]]
    between = {"after": edges[low]["cursor"], "before": edges[high]["cursor"]}
    assert seqs(await talk.page(talk.bob, first=size, **between)) == inside[:size]
    assert seqs(await talk.page(talk.bob, last=size, **between)) == inside[-size:]


@few
@given(data=st.data())
async def test_one_cursor_with_a_size_from_the_other_end(talk: Talk, data: st.DataObject) -> None:
    edges = (await talk.page(talk.bob, first=100))["edges"]
    at = data.draw(st.integers(0, 22))
    size = data.draw(st.integers(1, LONGEST))
    before, after = range(1, at + 1), range(at + 2, 24)
    assert seqs(await talk.page(talk.bob, first=size, before=edges[at]["cursor"])) == list(before)[:size]
    assert seqs(await talk.page(talk.bob, last=size, after=edges[at]["cursor"])) == list(after)[-size:]


async def test_without_a_size_it_is_the_last_fifty(process: Api) -> None:
    alice, bob = await process.create_users("alice", "bob")
    for part in range(6):
        await process.data(alice, TEN, input={"toUserId": bob, "content": f"part {part}"})
    listed = (await process.data(bob, HISTORY, id=private_id(alice, bob)))["messages"]
    assert seqs(listed) == list(range(11, 61))
    assert (listed["pageInfo"]["hasPreviousPage"], listed["pageInfo"]["hasNextPage"]) == (True, False)
    before = await process.data(bob, HISTORY, id=private_id(alice, bob), before=listed["pageInfo"]["startCursor"])
    assert seqs(before["messages"]) == list(range(1, 11))
    after = await process.data(bob, HISTORY, id=private_id(alice, bob), after=before["messages"]["edges"][4]["cursor"])
    assert seqs(after["messages"]) == list(range(11, 61))
    hundred = (await process.data(bob, HISTORY, id=private_id(alice, bob), first=100))["messages"]
    assert seqs(hundred) == list(range(1, 61))


TEN = (
    "mutation ($input: SendMessageInput!) {"
    + " ".join(f"m{number}: sendMessage(input: $input) {{ message {{ seq }} }}" for number in range(10))
    + " }"
)


async def test_a_cursor_outlives_what_is_written_after_it(process: Api) -> None:
    alice, bob = await process.create_users("alice", "bob")
    conversation = private_id(alice, bob)
    for _ in range(3):
        await process.send(alice, bob)
    last = (await process.data(bob, HISTORY, id=conversation, first=3))["messages"]
    assert last["pageInfo"]["hasNextPage"] is False
    nothing = (await process.data(bob, HISTORY, id=conversation, first=3, after=last["pageInfo"]["endCursor"]))[
        "messages"
    ]
    assert (nothing["edges"], nothing["pageInfo"]["hasNextPage"]) == ([], False)
    assert nothing["pageInfo"]["endCursor"] is None
    await process.send(alice, bob)
    new = (await process.data(bob, HISTORY, id=conversation, first=3, after=last["pageInfo"]["endCursor"]))["messages"]
    assert seqs(new) == [4]


async def test_a_group_nobody_wrote_in_has_an_empty_history_and_not_none(process: Api) -> None:
    people = await process.create_users("alice", "bob", "carol")
    group = await process.create_group(*people)
    listed = (await process.data(people[1], HISTORY, id=group, last=5))["messages"]
    assert listed == {
        "edges": [],
        "pageInfo": {"hasNextPage": False, "hasPreviousPage": False, "startCursor": None, "endCursor": None},
    }


async def test_a_message_is_the_same_wherever_it_is_asked_for(talk: Talk) -> None:
    listed = await talk.page(talk.erin, last=1)
    message = listed["edges"][0]["node"]
    query = f"""query ($id: ID!) {{ message(id: $id) {{ {MESSAGE} }} node(id: $id) {{ __typename ... on Message {{ {MESSAGE} }} }} }}"""
    data = await talk.api.data(talk.erin, query, id=message["id"])
    assert data["message"] == message
    assert data["node"] == message | {"__typename": "Message"}
    session = await talk.api.session(talk.erin, talk.group)
    assert session is not None
    assert session["lastMessage"] == {name: message[name] for name in ("id", "seq", "content")} | {
        "sender": {"id": message["sender"]["id"]}
    }


async def test_a_conversation_with_holes_goes_on_over_thousands_of_places(
    open_api: OpenApi, deployments: Deployments
) -> None:
    """Places may be lost with Redis: MongoDB says how far they had come."""
    async with open_api("holes") as api:
        alice, bob = await api.create_users("alice", "bob")
        conversation = private_id(alice, bob)
        await api.send(alice, bob, "the first")
        await api.wait_until_idle()
        deployments.flush_redis("holes")
        heads = deployments.mongo[deployments.settings("holes").mongo_database]["conversations"]
        heads.update_one({"_id": conversation}, {"$set": {"s": 4_090}})
        sent = [(await api.send(alice, bob, f"{number}"))["message"]["seq"] for number in range(12)]
        assert sent == list(range(4_091, 4_103))
        expected = [1, *sent]
        assert [message["seq"] for message in await api.history(bob, conversation)] == expected
        for page in (1, 5, 12):
            found = [message["seq"] for message in await api.history(bob, conversation, page)]
            assert found == expected
        listed = (await api.data(bob, HISTORY, id=conversation, last=9))["messages"]
        assert seqs(listed) == sent[-9:]
        listed = await api.data(bob, HISTORY, id=conversation, last=9, before=listed["pageInfo"]["startCursor"])
        assert seqs(listed["messages"]) == expected[:4]
        assert await api.unread(bob, conversation) == 13
        for seq, unread in ((2_000, 12), (4_095, 7), (4_096, 6), (4_097, 5), (4_102, 0)):
            assert (await api.mark_read(bob, conversation, seq))["unreadCount"] == unread
