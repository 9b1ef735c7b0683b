"""Pages of messages around a seq and from a seq on, compared with a list of everything that the reader may read."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.api.client import HISTORY, Api, Json, Refusal, private_id

few_examples = settings(max_examples=60)


@dataclass(frozen=True)
class GroupHistory:
    """A group, the seqs that each reader may read, and an outsider."""

    api: Api
    group: str
    readable: dict[str, list[int]]
    outsider: str

    async def page(self, user: str, **arguments: object) -> Json | None:
        page: Json | None = (await self.api.data(user, HISTORY, id=self.group, **arguments))["messages"]
        return page

    async def own_page(self, user: str, **arguments: object) -> Json:
        page = await self.page(user, **arguments)
        assert page is not None
        return page


@pytest.fixture(scope="module")
async def history(process: Api) -> GroupHistory:
    """One reader saw everything, one was in the group three times, and one left in the middle."""
    alice, bob, carol, dave, erin = await process.create_users("alice", "bob", "carol", "dave", "erin")
    group = await process.create_group(alice, bob, carol, dave)
    readable: dict[str, list[int]] = {alice: [], bob: [], carol: []}
    inside = {alice, bob, carol}
    for seq in range(1, 31):
        if seq in (5, 14):
            await process.leave(bob, group)
            inside.discard(bob)
        elif seq in (9, 22):
            await process.invite(alice, group, bob)
            inside.add(bob)
        elif seq == 19:
            await process.leave(carol, group)
            inside.discard(carol)
        else:
            await process.send(alice, group, f"number {seq}")
        for user in inside:
            readable[user].append(seq)
    # Places that were given to messages which were never stored.
    lost = {3, 11, 12, 30}
    await process.wait_until_idle()
    process.database["messages"].delete_many({"c": group, "s": {"$in": sorted(lost)}})
    return GroupHistory(
        process, group, {user: [seq for seq in seqs if seq not in lost] for user, seqs in readable.items()}, erin
    )


def seqs_of(page: Json) -> list[int]:
    return [edge["node"]["seq"] for edge in page["edges"]]


def nearest_page(readable: list[int], seq: int, size: int) -> list[int]:
    """Return the page around a seq: half of it before the nearest message, unless that would leave it short."""
    pages = [readable[i : i + size] for i in range(max(1, len(readable) - size + 1))]
    anchor = min(readable, key=lambda each: (abs(each - seq), each))
    with_anchor = [page for page in pages if anchor in page]
    return min(with_anchor, key=lambda page: abs(page.index(anchor) - size // 2))


async def expect_page(history: GroupHistory, user: str, page: Json, expected: list[int]) -> None:
    """Check a page, its page info, and that the pages before and after it make up the rest."""
    readable = history.readable[user]
    assert seqs_of(page) == expected
    before = [seq for seq in readable if expected and seq < expected[0]]
    following = [seq for seq in readable if expected and seq > expected[-1]]
    info = page["pageInfo"]
    assert (info["hasPreviousPage"], info["hasNextPage"]) == (bool(before), bool(following))
    assert info["startCursor"] == page["edges"][0]["cursor"] and info["endCursor"] == page["edges"][-1]["cursor"]
    assert seqs_of(await history.own_page(user, last=100, before=info["startCursor"])) == before
    assert seqs_of(await history.own_page(user, first=100, after=info["endCursor"])) == following


@few_examples
@given(reader=st.integers(0, 2), seq=st.integers(0, 34), size=st.integers(1, 32))
async def test_a_page_around_a_seq_has_the_nearest_message_in_its_middle(
    history: GroupHistory, reader: int, seq: int, size: int
) -> None:
    user = list(history.readable)[reader]
    page = await history.own_page(user, aroundSeq=seq, first=size)
    await expect_page(history, user, page, nearest_page(history.readable[user], seq, size))


@few_examples
@given(reader=st.integers(0, 2), seq=st.integers(0, 34), size=st.integers(1, 32))
async def test_a_page_from_a_seq_begins_with_the_next_readable_message(
    history: GroupHistory, reader: int, seq: int, size: int
) -> None:
    user = list(history.readable)[reader]
    page = await history.own_page(user, fromSeq=seq, first=size)
    expected = [each for each in history.readable[user] if each >= seq][:size]
    if expected:
        await expect_page(history, user, page, expected)
    else:
        info = {"hasPreviousPage": True, "hasNextPage": False, "startCursor": None, "endCursor": None}
        assert page == {"edges": [], "pageInfo": info}


async def test_a_page_at_a_seq_has_fifty_messages_by_default(process: Api) -> None:
    alice, bob = await process.create_users("alice", "bob")
    for _ in range(60):
        await process.send(alice, bob)
    for arguments, expected in (
        ({"aroundSeq": 30}, range(5, 55)),
        ({"aroundSeq": 2}, range(1, 51)),
        ({"aroundSeq": 60}, range(11, 61)),
        ({"aroundSeq": 2_147_483_647}, range(11, 61)),
        ({"fromSeq": 8}, range(8, 58)),
        ({"fromSeq": 40}, range(40, 61)),
    ):
        page = (await process.data(bob, HISTORY, id=private_id(alice, bob), **arguments))["messages"]
        assert seqs_of(page) == list(expected)


async def test_a_group_without_messages_has_an_empty_page_at_every_seq(process: Api) -> None:
    alice, bob, carol = await process.create_users("alice", "bob", "carol")
    group = await process.create_group(alice, bob, carol)
    empty = {"hasPreviousPage": False, "hasNextPage": False, "startCursor": None, "endCursor": None}
    for arguments in ({"aroundSeq": 0}, {"aroundSeq": 7}, {"fromSeq": 1}):
        page = (await process.data(bob, HISTORY, id=group, **arguments))["messages"]
        assert page == {"edges": [], "pageInfo": empty}


@pytest.mark.parametrize("name", ["aroundSeq", "fromSeq"])
async def test_a_page_at_a_seq_is_null_to_outsiders(history: GroupHistory, name: str) -> None:
    assert await history.page(history.outsider, **{name: 5}) is None
    assert await history.page(history.outsider, **{name: 500}) is None


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"aroundSeq": -1}, "aroundSeq"),
        ({"fromSeq": -1}, "fromSeq"),
        ({"aroundSeq": 3, "fromSeq": 3}, "fromSeq"),
        ({"aroundSeq": 3, "first": 0}, "first"),
        ({"aroundSeq": 3, "first": 101}, "first"),
        ({"fromSeq": 3, "first": 101}, "first"),
        *(
            ({name: 3, other: value}, other)
            for name in ("aroundSeq", "fromSeq")
            for other, value in (("after", "x"), ("before", "x"), ("last", 3))
        ),
    ],
    ids=str,
)
async def test_other_arguments_and_bad_seqs_are_refused(history: GroupHistory, arguments: Json, field: str) -> None:
    alice = next(iter(history.readable))
    refusal = await history.api.expect_refusal(alice, HISTORY, id=history.group, **arguments)
    assert refusal == Refusal("INVALID_INPUT", field)
