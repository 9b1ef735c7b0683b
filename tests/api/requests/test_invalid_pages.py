"""Invalid page sizes and cursors: an error for pages, a reset for synchronisation."""

from __future__ import annotations

import base64

import pytest

from resolvers.base.cursors import decode_sync, encode_sync
from store.base.ids import UserId
from tests.api.client import LIVE_MESSAGES, LIVE_SESSIONS, SYNC, Api, Refusal

FORWARD = {
    "sessions": (
        "query ($id: ID, $size: Int, $at: String) { sessions(first: $size, after: $at) { cursor } "
        "x: node(id: $id) { id } }"
    ),
    "messages": (
        "query ($id: ID!, $size: Int, $at: String) { messages(conversationId: $id, first: $size, "
        "after: $at) { edges { cursor } } }"
    ),
    "myGroups": (
        "query ($id: ID, $size: Int, $at: String) { myGroups(first: $size, after: $at) { edges { "
        "cursor } } x: node(id: $id) { id } }"
    ),
    "members": (
        "query ($id: ID!, $size: Int, $at: String) { group(id: $id) { members(first: $size, after: "
        "$at) { edges { cursor } } } }"
    ),
}
BACKWARD = (
    "query ($id: ID!, $size: Int, $at: String) { messages(conversationId: $id, last: $size, "
    "before: $at) { edges { cursor } } }"
)
FORWARD = {name: query.replace("$id: ID,", "$id: ID!,") for name, query in FORWARD.items()}
SYNC_SIZE = "query ($id: ID!, $size: Int) { syncSessions(first: $size) { cursor } x: node(id: $id) { id } }"


def encode(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


@pytest.fixture(scope="module")
async def group(process: Api) -> tuple[str, str]:
    """A user, and a group of theirs with messages."""
    alice, bob, carol = await process.create_users("alice", "bob", "carol")
    group_id = await process.create_group(alice, bob, carol)
    for number in range(3):
        await process.send(alice, group_id, f"message {number}")
    return alice, group_id


@pytest.mark.parametrize("size", [0, 101, -1, 2_147_483_647, -2_147_483_648])
@pytest.mark.parametrize("name", [*FORWARD, "messages last", "syncSessions"])
async def test_a_page_size_out_of_range_is_refused(api: Api, group: tuple[str, str], name: str, size: int) -> None:
    alice, group_id = group
    query = FORWARD | {"messages last": BACKWARD, "syncSessions": SYNC_SIZE}
    field = "last" if name == "messages last" else "first"
    assert await api.expect_refusal(alice, query[name], id=group_id, size=size) == Refusal("INVALID_INPUT", field)


@pytest.mark.parametrize("size", [1, 100])
@pytest.mark.parametrize("name", [*FORWARD, "messages last", "syncSessions"])
async def test_page_sizes_1_and_100_are_accepted(api: Api, group: tuple[str, str], name: str, size: int) -> None:
    alice, group_id = group
    query = FORWARD | {"messages last": BACKWARD, "syncSessions": SYNC_SIZE}
    assert await api.data(alice, query[name], id=group_id, size=size)


@pytest.mark.parametrize("size", ["1", 1.5, 2_147_483_648, True, []], ids=str)
async def test_a_page_size_that_is_no_integer_is_refused(api: Api, group: tuple[str, str], size: object) -> None:
    alice, group_id = group
    assert (await api.expect_refusal(alice, FORWARD["messages"], id=group_id, size=size)).code == "INVALID_INPUT"


async def test_first_and_last_together_are_refused(api: Api, group: tuple[str, str]) -> None:
    alice, group_id = group
    query = "query ($id: ID!) { messages(conversationId: $id, first: 1, last: 1) { edges { cursor } } }"
    assert (await api.expect_refusal(alice, query, id=group_id)).code == "INVALID_INPUT"


@pytest.mark.parametrize(
    "cursor",
    [
        "", " ", "x", "nonsense", "====", "%%%", "é", "\ud800", "\x00", "A" * 5_000, "bQ", "bQox\n", " bQox",
        encode("m"), encode("m\n"), encode("m\nx"), encode("m\n-1"), encode("m\n1\n2"), encode("m\n1.5"),
        encode("m\n" + "9" * 20), encode("m\n٣"), encode("\n"), encode("s\nx\ng_1"), encode("s\n1"),
        encode("s\n-1\ng_1"), encode("s\n" + "9" * 20 + "\ng_1"), encode("s\n1\ng_1\nx"), encode("g"), encode("u"),
        encode("g\na\nb"), encode("u\na\nb"), encode("c1\nx\ny\nz\n1\n"), base64.b64encode(b"\xff\xfe").decode(),
    ],
    ids=ascii,
)  # fmt: skip
async def test_a_malformed_page_cursor_is_an_error(api: Api, group: tuple[str, str], cursor: str) -> None:
    alice, group_id = group
    for query in FORWARD.values():
        assert await api.expect_refusal(alice, query, id=group_id, size=1, at=cursor) == Refusal(
            "INVALID_INPUT", "after"
        )
    assert await api.expect_refusal(alice, BACKWARD, id=group_id, size=1, at=cursor) == Refusal(
        "INVALID_INPUT", "before"
    )


async def test_a_cursor_of_another_list_is_an_error(api: Api, group: tuple[str, str]) -> None:
    alice, group_id = group
    cursors = {
        "sessions": (await api.data(alice, "{ sessions { edges { cursor } } }"))["sessions"]["edges"][0]["cursor"],
        "messages": (await api.data(alice, FORWARD["messages"], id=group_id, size=1))["messages"]["edges"][0]["cursor"],
        "myGroups": (await api.data(alice, "{ myGroups { edges { cursor } } }"))["myGroups"]["edges"][0]["cursor"],
        "members": (await api.data(alice, FORWARD["members"], id=group_id, size=1))["group"]["members"]["edges"][0][
            "cursor"
        ],
        "synchronisation": (await api.data(alice, "{ sessions { cursor } }"))["sessions"]["cursor"],
    }
    for source, cursor in cursors.items():
        for name, query in FORWARD.items():
            if name != source:
                refusal = await api.expect_refusal(alice, query, id=group_id, size=1, at=cursor)
                assert refusal == Refusal("INVALID_INPUT", "after"), (source, name)


@pytest.mark.parametrize(
    "kind",
    [
        "empty",
        "nonsense",
        "of a page",
        "another user's",
        "of the future",
        "long",
        "lone surrogate",
        "another deployment's",
    ],
)
async def test_a_cursor_that_cannot_be_resumed_resets(api: Api, group: tuple[str, str], kind: str) -> None:
    alice, group_id = group
    (stranger,) = await api.create_users("stranger")
    own_cursor = (await api.data(alice, SYNC))["syncSessions"]["cursor"]
    deployment = api.services.app.store.deployment.name
    position = decode_sync(deployment, UserId(alice), own_cursor)
    assert position is not None

    def cursor_at(tick: int) -> str:
        return encode_sync(deployment, UserId(alice), position._replace(tick=tick))

    since = {
        "empty": "",
        "nonsense": "nonsense",
        "of a page": (await api.data(alice, FORWARD["messages"], id=group_id, size=1))["messages"]["edges"][0][
            "cursor"
        ],
        "another user's": (await api.data(stranger, SYNC))["syncSessions"]["cursor"],
        "of the future": cursor_at(position.tick + 60_000),
        "long": own_cursor * 100,
        "lone surrogate": "\ud800",
        "another deployment's": encode_sync("elsewhere", UserId(alice), position),
    }[kind]
    all_sessions = (await api.data(alice, SYNC))["syncSessions"]
    assert len(all_sessions["sessions"]) == 1

    delta = (await api.data(alice, SYNC, since=since))["syncSessions"]
    assert delta == all_sessions | {"reset": True}

    session_listener = await api.subscribe(alice, LIVE_SESSIONS, since=since)
    first = await session_listener.next()
    assert (first["reason"], first["reset"], first["hasMore"]) == ("CATCH_UP", True, False)
    assert (first["sessions"], first["totalUnread"]) == (all_sessions["sessions"], 0)

    message_listener = await api.subscribe(alice, LIVE_MESSAGES, since=since)
    first = await message_listener.next()
    assert (first["__typename"], first["reset"]) == ("CaughtUp", True)
    await api.send(alice, group_id, f"after a reset: {kind}")
    assert (await message_listener.next())["message"]["content"] == f"after a reset: {kind}"
    await session_listener.expect_no_event(0.02)
