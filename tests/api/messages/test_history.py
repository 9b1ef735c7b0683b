"""Pages of a conversation's messages in both directions."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.api.client import HISTORY, Api, Json, private_id
from tests.api.conftest import Deployments, OpenApi
from tests.api.session_calls import MESSAGE

few_examples = settings(max_examples=25)
MAX_PAGE = 64


@dataclass(frozen=True)
class GroupHistory:
    """A group with history. erin joined in the middle of it."""

    api: Api
    group: str
    bob: str
    erin: str

    async def page(self, user: str, **arguments: object) -> Json:
        page: Json = (await self.api.data(user, HISTORY, id=self.group, **arguments))["messages"]
        return page


@pytest.fixture(scope="module")
async def history(process: Api) -> GroupHistory:
    alice, bob, carol, dave, erin = await process.create_users("alice", "bob", "carol", "dave", "erin")
    group = await process.create_group(alice, bob, carol)
    for number in range(1, 24):
        if number == 9:
            await process.invite(alice, group, erin)
        elif number == 15:
            await process.invite(alice, group, dave)
        else:
            await process.send((alice, bob, carol)[number % 3], group, f"number {number}")
    return GroupHistory(process, group, bob, erin)


def seqs(page: Json) -> list[int]:
    return [edge["node"]["seq"] for edge in page["edges"]]


async def read_all_pages(history: GroupHistory, user: str, size: int, *, back: bool) -> list[int]:
    """Read all pages one after another and check their page info."""
    result: list[int] = []
    cursor: str | None = None
    while True:
        arguments = {"last": size, "before": cursor} if back else {"first": size, "after": cursor}
        page = await history.page(user, **arguments)
        info = page["pageInfo"]
        page_seqs = seqs(page)
        assert page_seqs == sorted(page_seqs)
        assert len(page_seqs) <= size
        assert [info["startCursor"], info["endCursor"]] == [page["edges"][0]["cursor"], page["edges"][-1]["cursor"]]
        assert info["hasNextPage" if back else "hasPreviousPage"] is (cursor is not None)
        has_more = info["hasPreviousPage" if back else "hasNextPage"]
        assert not has_more or len(page_seqs) == size
        result = page_seqs + result if back else result + page_seqs
        cursor = info["startCursor"] if back else info["endCursor"]
        if not has_more:
            return result


@few_examples
@given(size=st.integers(1, MAX_PAGE), back=st.booleans(), joined_late=st.booleans())
async def test_pages_of_any_size_and_direction_make_up_the_history(
    history: GroupHistory, size: int, back: bool, joined_late: bool
) -> None:
    user, expected = (history.erin, range(9, 24)) if joined_late else (history.bob, range(1, 24))
    assert await read_all_pages(history, user, size, back=back) == list(expected)


@few_examples
@given(data=st.data())
async def test_a_page_between_two_cursors_holds_the_messages_between(
    history: GroupHistory, data: st.DataObject
) -> None:
    edges = (await history.page(history.bob, first=100))["edges"]
    first_index = data.draw(st.integers(0, 22))
    last_index = data.draw(st.integers(0, 22))
    size = data.draw(st.integers(1, MAX_PAGE))
    inside = [edge["node"]["seq"] for edge in edges[first_index + 1 : last_index]]
    between = {"after": edges[first_index]["cursor"], "before": edges[last_index]["cursor"]}
    assert seqs(await history.page(history.bob, first=size, **between)) == inside[:size]
    assert seqs(await history.page(history.bob, last=size, **between)) == inside[-size:]


@few_examples
@given(data=st.data())
async def test_one_cursor_can_be_combined_with_a_size_from_the_other_end(
    history: GroupHistory, data: st.DataObject
) -> None:
    edges = (await history.page(history.bob, first=100))["edges"]
    index = data.draw(st.integers(0, 22))
    size = data.draw(st.integers(1, MAX_PAGE))
    before, after = range(1, index + 1), range(index + 2, 24)
    assert seqs(await history.page(history.bob, first=size, before=edges[index]["cursor"])) == list(before)[:size]
    assert seqs(await history.page(history.bob, last=size, after=edges[index]["cursor"])) == list(after)[-size:]


async def test_the_default_page_is_the_last_fifty_messages(process: Api) -> None:
    alice, bob = await process.create_users("alice", "bob")
    for number in range(6):
        await process.data(alice, TEN, input={"toUserId": bob, "content": f"part {number}"})
    page = (await process.data(bob, HISTORY, id=private_id(alice, bob)))["messages"]
    assert seqs(page) == list(range(11, 61))
    assert (page["pageInfo"]["hasPreviousPage"], page["pageInfo"]["hasNextPage"]) == (True, False)
    before = await process.data(bob, HISTORY, id=private_id(alice, bob), before=page["pageInfo"]["startCursor"])
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


async def test_a_cursor_stays_valid_after_later_messages(process: Api) -> None:
    alice, bob = await process.create_users("alice", "bob")
    conversation = private_id(alice, bob)
    for _ in range(3):
        await process.send(alice, bob)
    last = (await process.data(bob, HISTORY, id=conversation, first=3))["messages"]
    assert last["pageInfo"]["hasNextPage"] is False
    empty = (await process.data(bob, HISTORY, id=conversation, first=3, after=last["pageInfo"]["endCursor"]))[
        "messages"
    ]
    assert (empty["edges"], empty["pageInfo"]["hasNextPage"]) == ([], False)
    assert empty["pageInfo"]["endCursor"] is None
    await process.send(alice, bob)
    new = (await process.data(bob, HISTORY, id=conversation, first=3, after=last["pageInfo"]["endCursor"]))["messages"]
    assert seqs(new) == [4]


async def test_a_group_without_messages_has_an_empty_history(process: Api) -> None:
    users = await process.create_users("alice", "bob", "carol")
    group = await process.create_group(*users)
    page = (await process.data(users[1], HISTORY, id=group, last=5))["messages"]
    assert page == {
        "edges": [],
        "pageInfo": {"hasNextPage": False, "hasPreviousPage": False, "startCursor": None, "endCursor": None},
    }


async def test_a_message_is_the_same_in_every_query(history: GroupHistory) -> None:
    page = await history.page(history.erin, last=1)
    message = page["edges"][0]["node"]
    query = f"""query ($id: ID!) {{ message(id: $id) {{ {MESSAGE} }}
        node(id: $id) {{ __typename ... on Message {{ {MESSAGE} }} }} }}"""
    data = await history.api.data(history.erin, query, id=message["id"])
    assert data["message"] == message
    assert data["node"] == message | {"__typename": "Message"}
    session = await history.api.session(history.erin, history.group)
    assert session is not None
    assert session["lastMessage"] == {name: message[name] for name in ("id", "seq", "content")} | {
        "sender": {"id": message["sender"]["id"]}
    }


async def test_a_conversation_continues_after_thousands_of_lost_places(
    open_api: OpenApi, deployments: Deployments
) -> None:
    """Redis may lose places; MongoDB's head says how many were given."""
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
        for size in (1, 5, 12):
            result = [message["seq"] for message in await api.history(bob, conversation, size)]
            assert result == expected
        page = (await api.data(bob, HISTORY, id=conversation, last=9))["messages"]
        assert seqs(page) == sent[-9:]
        page = await api.data(bob, HISTORY, id=conversation, last=9, before=page["pageInfo"]["startCursor"])
        assert seqs(page["messages"]) == expected[:4]
        assert await api.unread(bob, conversation) == 13
        for seq, unread in ((2_000, 12), (4_095, 7), (4_096, 6), (4_097, 5), (4_102, 0)):
            assert (await api.mark_read(bob, conversation, seq))["unreadCount"] == unread
