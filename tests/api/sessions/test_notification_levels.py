"""setNotificationLevel for private conversations and groups. For channels and workspaces: `tests/api/channels`."""

from __future__ import annotations

from typing import Any

import pytest

from store.redis.cache import Call
from tests.api.client import Api, Json, Refusal, private_id

SET_LEVEL = """mutation ($id: ID!, $level: NotificationLevel, $suppress: Boolean) {
    setNotificationLevel(id: $id, level: $level, suppressEveryone: $suppress) }"""
FIELDS = "id notifications unreadStatus activeTs writeTs"
LEVEL = f"query ($id: ID!) {{ session(conversationId: $id) {{ {FIELDS} }} }}"
LIVE = f"subscription ($since: Cursor) {{ syncSession(since: $since) {{ reason reset sessions {{ {FIELDS} }} }} }}"
CHANGED = f"query ($since: Cursor!) {{ syncSessions(since: $since) {{ reset sessions {{ {FIELDS} }} }} }}"
CURSOR = "{ sessions { cursor } }"


async def set_level(api: Api, user: str, id: str, level: str | None, **more: Any) -> str:
    """Set a level. Return the level in force."""
    in_force: str = (await api.data(user, SET_LEVEL, id=id, level=level, **more))["setNotificationLevel"]
    return in_force


async def session_of(api: Api, user: str, conversation: str) -> Json:
    found: Json = (await api.data(user, LEVEL, id=conversation))["session"]
    return found


@pytest.fixture(params=["private conversation", "group"])
async def place(api: Api, request: pytest.FixtureRequest) -> tuple[str, str, str]:
    """A user, another one, and a conversation of the two."""
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    if request.param == "group":
        return alice, bob, await api.create_group(bob, alice, carol)
    await api.send(bob, alice)
    return alice, bob, private_id(alice, bob)


async def test_all_devices_get_a_level_and_resume_it(api: Api, other_api: Api, place: tuple[str, str, str]) -> None:
    alice, bob, conversation = place
    before = await session_of(api, alice, conversation)
    assert before["notifications"] == "ALL"
    cursor = (await api.data(alice, CURSOR))["sessions"]["cursor"]
    devices = [await process.listen(alice, LIVE) for process in (api, other_api)]
    bobs = await api.listen(bob, LIVE)
    for level in ("MENTIONS", "NONE", "ALL", "MENTIONS"):
        assert await set_level(api, alice, conversation, level) == level
        for device in devices:
            event = await device.next()
            assert (event["reason"], event["sessions"][0]["notifications"]) == ("NOTIFICATIONS", level)
    after = await session_of(other_api, alice, conversation)
    assert after["activeTs"] > before["activeTs"] and after["writeTs"] == before["writeTs"]
    assert (await session_of(api, bob, conversation))["notifications"] == "ALL"
    assert (await api.data(alice, CHANGED, since=cursor))["syncSessions"] == {"reset": False, "sessions": [after]}
    missed = await (await api.subscribe(alice, LIVE, since=cursor)).next()
    assert (missed["reason"], missed["sessions"]) == ("CATCH_UP", [after])
    await bobs.expect_no_event()


async def test_the_same_level_again_changes_nothing(api: Api, place: tuple[str, str, str]) -> None:
    alice, _, conversation = place
    assert await set_level(api, alice, conversation, "MENTIONS", suppress=True) == "MENTIONS"
    device, stored = await api.listen(alice, LIVE), await api.stored_hashes()
    assert await set_level(api, alice, conversation, "MENTIONS", suppress=True) == "MENTIONS"
    await device.expect_no_event()
    assert await api.stored_hashes() == stored
    # Another value of the second argument is a change.
    assert await set_level(api, alice, conversation, "MENTIONS", suppress=False) == "MENTIONS"
    assert (await device.next())["reason"] == "NOTIFICATIONS"


async def test_an_argument_that_is_left_out_stays_as_it_is(api: Api, place: tuple[str, str, str]) -> None:
    alice, _, conversation = place
    await set_level(api, alice, conversation, "MENTIONS", suppress=True)
    stored = await api.stored_hashes()
    # Each call would change a row if it reset the argument that it lacks.
    for arguments in ("level: MENTIONS", "suppressEveryone: true", ""):
        text = f"mutation ($id: ID!) {{ setNotificationLevel(id: $id {arguments}) }}"
        assert (await api.data(alice, text, id=conversation))["setNotificationLevel"] == "MENTIONS"
        assert await api.stored_hashes() == stored


async def test_a_level_is_kept_without_the_cache_until_it_is_removed(api: Api, place: tuple[str, str, str]) -> None:
    alice, _, conversation = place
    await set_level(api, alice, conversation, "NONE")
    await api.services.app.store.cache.run([Call("FLUSHALL", ())])
    assert (await session_of(api, alice, conversation))["notifications"] == "NONE"
    assert await set_level(api, alice, conversation, None) == "ALL"
    await api.services.app.store.cache.run([Call("FLUSHALL", ())])
    assert (await session_of(api, alice, conversation))["notifications"] == "ALL"


async def test_a_level_changes_no_counts_and_removes_the_unread_mark(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(bob, alice, carol)
    await api.send(bob, group, mentions=[alice])
    await api.send(bob, group, mentionAll=True)
    counts = """query ($id: ID!) { totalUnread attention { unread mentions }
        session(conversationId: $id) { unreadCount unreadMentionCount } }"""
    before = await api.data(alice, counts, id=group)
    await api.data(alice, "mutation ($id: ID!) { setUnread(conversationId: $id) { id } }", id=group)
    for level in ("NONE", "MENTIONS"):
        await set_level(api, alice, group, level, suppress=True)
        assert await api.data(alice, counts, id=group) == before
    assert (await session_of(api, alice, group))["unreadStatus"] is False


async def test_a_hard_delete_forgets_the_level(api: Api, place: tuple[str, str, str]) -> None:
    alice, _, conversation = place
    delete = (
        "mutation ($id: ID!, $hard: Boolean!) { deleteSession(conversationId: $id, hard: $hard) { notifications } }"
    )
    await set_level(api, alice, conversation, "NONE")
    assert (await api.data(alice, delete, id=conversation, hard=False))["deleteSession"] == {"notifications": "NONE"}
    assert (await api.data(alice, delete, id=conversation, hard=True))["deleteSession"] == {"notifications": "ALL"}


@pytest.mark.parametrize("target", ["unwritten", "foreign", "g_1", "w_1", "t_1_g_1", "k_1.1", "", "b_work"])
async def test_a_refused_target_changes_nothing(api: Api, target: str) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    named = {"unwritten": private_id(alice, carol), "foreign": private_id(bob, carol)}
    await api.send(bob, carol)
    await api.send(bob, alice, subBiz="work")
    await api.sessions(alice)
    stored = await api.stored_hashes()
    refusal = await api.expect_refusal(alice, SET_LEVEL, id=named.get(target, target), level="NONE")
    assert refusal == Refusal("INVALID_INPUT" if target == "b_work" else "NOT_FOUND", "id")
    assert await api.stored_hashes() == stored
