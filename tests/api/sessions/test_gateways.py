"""The gateway of a subBiz: one session that represents all sessions inside it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from tests.api.client import LIVE_SESSIONS, SYNC, Api, Json
from tests.api.session_calls import SESSION
from tests.api.sub_biz import conversation_ids, create_shop_conversations, sync_sessions

GATEWAY = f"""query ($id: ID!, $session: ID!) {{
    conversation(id: $id) {{ __typename id type title lastMessage {{ id }} session {{ {SESSION} }}
        ... on SubBizGateway {{ subBiz }} }}
    node(id: $id) {{ __typename id ... on SubBizGateway {{ subBiz title }} }}
    session: node(id: $session) {{ __typename ... on Session {{ {SESSION} }} }} }}"""


async def test_a_gateway_sums_up_its_sessions(api: Api) -> None:
    alice, others, conversations = await create_shop_conversations(api, 2, 3)
    last = (await api.send(others[0], alice, subBiz="shop", mentions=[alice]))["message"]
    changed = await api.own_session(alice, conversations[0])
    gateway = await api.own_session(alice, "b_shop")
    assert gateway["activeTs"] > changed["activeTs"]
    assert gateway == {
        "id": f"s_{alice}_b_shop",
        "writeSeq": 0,
        "readSeq": 0,
        "deliveredSeq": 0,
        "readCount": 0,
        "unreadCount": 6,
        "unreadMentionCount": 1,
        "unreadStatus": False,
        "muteStatus": False,
        "mutedUntil": None,
        "priority": 0,
        "categoryId": None,
        "subBiz": None,
        "status": "ACTIVE",
        "activeTs": gateway["activeTs"],
        "writeTs": changed["writeTs"],
        "peerDeliveredSeq": None,
        "peerReadSeq": None,
        "conversation": {"__typename": "SubBizGateway", "id": "b_shop", "type": "SUB_BIZ", "title": "shop"},
        "lastMessage": {"id": last["id"], "seq": 3, "content": "hello", "sender": {"id": others[0]}},
    }
    assert await api.total_unread(alice) == 6


async def test_a_gateway_is_the_same_in_every_query(api: Api, other_api: Api) -> None:
    alice, _, _ = await create_shop_conversations(api, 1, 2)
    for process in (api, other_api):
        gateway = await process.own_session(alice, "b_shop")
        assert await process.sessions(alice) == [gateway]
        assert gateway in (await sync_sessions(process, alice))["sessions"]
        data = await process.data(alice, GATEWAY, id="b_shop", session=gateway["id"])
        assert data == {
            "conversation": {
                "__typename": "SubBizGateway",
                "id": "b_shop",
                "type": "SUB_BIZ",
                "title": "shop",
                "subBiz": "shop",
                "lastMessage": {"id": gateway["lastMessage"]["id"]},
                "session": gateway,
            },
            "node": {"__typename": "SubBizGateway", "id": "b_shop", "title": "shop", "subBiz": "shop"},
            "session": {"__typename": "Session"} | gateway,
        }


async def test_a_gateway_does_not_count_muted_and_deleted_sessions(api: Api) -> None:
    alice, others, (a, b, c) = await create_shop_conversations(api, 1, 2, 4)
    await api.mute(alice, b)
    gateway = await api.own_session(alice, "b_shop")
    assert (gateway["unreadCount"], await api.total_unread(alice)) == (5, 5)
    await api.delete(alice, c)
    gateway = await api.own_session(alice, "b_shop")
    assert (gateway["unreadCount"], gateway["lastMessage"]["sender"]["id"]) == (1, others[1])
    assert gateway["writeTs"] == (await api.own_session(alice, b))["writeTs"]
    await api.mark_read(alice, a)
    assert ((await api.own_session(alice, "b_shop"))["unreadCount"], await api.total_unread(alice)) == (0, 0)
    await api.unmute(alice, b)
    assert ((await api.own_session(alice, "b_shop"))["unreadCount"], await api.total_unread(alice)) == (2, 2)


async def test_a_gateway_is_valid_while_it_has_a_valid_session(api: Api) -> None:
    alice, others, (a, b) = await create_shop_conversations(api, 1, 1)
    await api.delete(alice, a)
    assert (await api.own_session(alice, "b_shop"))["status"] == "ACTIVE"
    cursor = (await sync_sessions(api, alice))["cursor"]
    device = await api.listen(alice, LIVE_SESSIONS)
    deleted = await api.delete(alice, b)
    gateway = await api.own_session(alice, "b_shop")
    assert (gateway["status"], gateway["unreadCount"], await api.sessions(alice)) == ("INVALID", 0, [])
    assert (await device.next())["sessions"] == [deleted, gateway]
    assert (await sync_sessions(api, alice, cursor))["sessions"] == [deleted, gateway]
    assert (await sync_sessions(api, alice))["sessions"] == []
    await api.send(others[0], alice, subBiz="shop")
    gateway = await api.own_session(alice, "b_shop")
    assert (gateway["status"], gateway["unreadCount"]) == ("ACTIVE", 1)
    assert await api.sessions(alice) == [gateway]


async def test_a_gateway_moves_with_every_message_inside(api: Api) -> None:
    alice, others, (a, b) = await create_shop_conversations(api, 1, 1)
    for sender, conversation in ((others[0], a), (others[1], b), (alice, a)):
        before = await sync_sessions(api, alice)
        await api.send(sender, conversation)
        delta = await sync_sessions(api, alice, before["cursor"])
        assert conversation_ids(delta["sessions"]) == [conversation, "b_shop"]
        inside, gateway = delta["sessions"]
        assert gateway["activeTs"] > inside["activeTs"] > before["sessions"][-1]["activeTs"]
        assert gateway["lastMessage"] == inside["lastMessage"]
        assert gateway["writeTs"] == inside["writeTs"]
        assert await api.own_session(alice, "b_shop") == gateway


@pytest.mark.parametrize("change", ["reading", "muting", "pinning", "marking unread", "assigning", "deleting"])
async def test_an_event_carries_the_gateway_with_the_changed_session(api: Api, other_api: Api, change: str) -> None:
    alice, _, (a, _) = await create_shop_conversations(api, 2, 1)
    changes: dict[str, Callable[[], Awaitable[object]]] = {
        "reading": lambda: api.mark_read(alice, a),
        "muting": lambda: api.mute(alice, a),
        "pinning": lambda: api.pin(alice, a),
        "marking unread": lambda: api.set_unread(alice, a),
        "assigning": lambda: api.assign(alice, "work", a),
        "deleting": lambda: api.delete(alice, a),
    }
    cursor = (await sync_sessions(api, alice))["cursor"]
    devices = [await process.listen(alice, LIVE_SESSIONS) for process in (api, other_api)]
    await changes[change]()
    inside, gateway = await api.own_session(alice, a), await api.own_session(alice, "b_shop")
    assert gateway["activeTs"] > inside["activeTs"]
    for device in devices:
        event = await device.next()
        assert event["sessions"] == [inside, gateway]
        assert event["totalUnread"] == await api.total_unread(alice)
        await device.expect_no_event(0.02)
        assert (await sync_sessions(api, alice, event["cursor"]))["sessions"] == []
    assert (await sync_sessions(api, alice, cursor))["sessions"] == [inside, gateway]


async def test_a_new_member_receives_the_session_and_its_gateway(api: Api) -> None:
    alice, bob, carol, dave = await api.create_users("alice", "bob", "carol", "dave")
    devices = {user: await api.listen(user, LIVE_SESSIONS) for user in (alice, bob, carol, dave)}
    group = await api.create_group(alice, bob, carol, subBiz="shop")
    await api.invite(bob, group, dave)
    for user, device in devices.items():
        event = await device.next()
        assert (event["reason"], conversation_ids(event["sessions"])) == ("MEMBERSHIP", [group, "b_shop"]), user
        await device.expect_no_event(0.02)
        assert await api.titles(user) == ["shop"]


async def test_assigning_several_sessions_updates_the_gateway_in_one_event(api: Api) -> None:
    alice, _, conversations = await create_shop_conversations(api, 1, 1, 1)
    device = await api.listen(alice, LIVE_SESSIONS)
    answer = await api.assign(alice, "work", *conversations)
    event = await device.next()
    assert sorted(conversation_ids(event["sessions"])) == sorted([*conversations, "b_shop"])
    assert conversation_ids(answer) == conversations
    await device.expect_no_event(0.03)


@pytest.mark.parametrize("first", [1, 2, 3])
async def test_pages_of_any_size_synchronise_the_same_sessions(api: Api, first: int) -> None:
    alice, others, _ = await create_shop_conversations(api, 1, 1)
    for other in others:
        await api.send(other, alice, subBiz="help")
    since = None
    for _ in range(2):
        sessions: list[Json] = []
        page: Json = {"cursor": since, "hasMore": True}
        while page["hasMore"]:
            page = (await api.data(alice, SYNC, since=page["cursor"], first=first))["syncSessions"]
            sessions += page["sessions"]
        assert sessions == (await sync_sessions(api, alice, since))["sessions"]
        since = page["cursor"]
        await api.mark_read(alice, "b_shop")
        await api.send(alice, others[0], subBiz="help")
