"""setNotificationLevel for channels and workspaces."""

from __future__ import annotations

from typing import Any

import pytest

from store.redis.cache import Call
from store.workspaces.permissions import Permission
from tests.api.channels.session_calls import FOLLOW, attention_of, change
from tests.api.client import Api, Json, Refusal
from tests.api.sample_channels import SampleChannels
from tests.api.sessions.test_notification_levels import LIVE, SET_LEVEL, session_of, set_level

SYNC = """query ($since: Cursor) { syncChannels(since: $since) { cursor reset gone
    channels { id session { notifications } } } }"""


@pytest.fixture
async def user(api: Api, workspace: SampleChannels) -> str:
    """A member of the workspace, stored as joining and following store it, who follows `general` and `staff`."""
    api.database["workspaces_of"].insert_one({"_id": f"{workspace.member} {workspace.id}", "j": 1})
    followed = {"_id": f"{workspace.member} {workspace.staff}", "r": 0, "rn": 0, "d": 0, "a": 1, "fw": 1}
    api.database["sessions"].insert_one(followed)
    await change(api, workspace.member, FOLLOW, id=workspace.general)
    return workspace.member


async def changed_since(api: Api, user: str, cursor: str) -> dict[str, Any]:
    """Return the levels in the channels that changed since a cursor."""
    delta = (await api.data(user, SYNC, since=cursor))["syncChannels"]
    assert delta["reset"] is False and delta["gone"] == []
    return {each["id"]: (each["session"] or {}).get("notifications") for each in delta["channels"]}


async def levels_of(event: Json) -> dict[str, str]:
    assert (event["reason"], event["reset"]) == ("NOTIFICATIONS", False)
    return {session["id"].rpartition("_c_")[2]: session["notifications"] for session in event["sessions"]}


async def test_a_channel_has_a_level_of_its_own(api: Api, other_api: Api, workspace: SampleChannels, user: str) -> None:
    assert (await session_of(api, user, workspace.general))["notifications"] == "ALL"
    cursor = (await api.data(user, SYNC))["syncChannels"]["cursor"]
    device = await other_api.listen(user, LIVE)
    assert await set_level(api, user, workspace.general, "MENTIONS") == "MENTIONS"
    assert await levels_of(await device.next()) == {workspace.general[2:]: "MENTIONS"}
    assert (await changed_since(other_api, user, cursor))[workspace.general] == "MENTIONS"
    await api.services.app.store.cache.run([Call("FLUSHALL", ())])
    assert (await session_of(api, user, workspace.general))["notifications"] == "MENTIONS"
    assert (await session_of(api, user, workspace.staff))["notifications"] == "ALL"


async def test_a_level_of_a_channel_without_a_session_begins_one(api: Api, workspace: SampleChannels) -> None:
    await api.send(workspace.member, workspace.general)
    assert await set_level(api, workspace.other, workspace.general, "NONE") == "NONE"
    session = await session_of(api, workspace.other, workspace.general)
    assert session["notifications"] == "NONE"
    count = "query ($id: ID!) { session(conversationId: $id) { unreadCount } }"
    assert (await api.data(workspace.other, count, id=workspace.general))["session"] == {"unreadCount": 0}


async def test_channels_without_a_level_have_that_of_their_workspace(
    api: Api, other_api: Api, workspace: SampleChannels, user: str
) -> None:
    cursor = (await api.data(user, SYNC))["syncChannels"]["cursor"]
    device = await other_api.listen(user, LIVE)
    await api.data(user, "mutation ($id: ID!) { setUnread(conversationId: $id) { id } }", id=workspace.staff)
    assert (await device.next())["reason"] == "UNREAD"
    assert await set_level(api, user, workspace.id, "MENTIONS") == "MENTIONS"
    everywhere = {workspace.general[2:]: "MENTIONS", workspace.staff[2:]: "MENTIONS"}
    assert await levels_of(await device.next()) == everywhere
    # It is no change of the session by its user.
    assert (await session_of(api, user, workspace.staff))["unreadStatus"] is True
    found = await changed_since(other_api, user, cursor)
    assert found == {f"c_{channel}": level for channel, level in everywhere.items()}
    assert await set_level(api, user, workspace.general, "NONE") == "NONE"
    assert await levels_of(await device.next()) == {workspace.general[2:]: "NONE"}
    assert await set_level(api, user, workspace.id, "ALL") == "ALL"
    assert await levels_of(await device.next()) == {workspace.staff[2:]: "ALL"}
    assert await set_level(api, user, workspace.general, None) == "ALL"
    assert await levels_of(await device.next()) == {workspace.general[2:]: "ALL"}
    await api.services.app.store.cache.run([Call("FLUSHALL", ())])
    assert await set_level(api, user, workspace.id, "NONE") == "NONE"
    assert (await session_of(other_api, user, workspace.staff))["notifications"] == "NONE"
    # A session that begins later inherits the level too.
    assert await set_level(api, user, workspace.old, None) == "NONE"


async def test_the_same_level_of_a_workspace_changes_nothing(api: Api, workspace: SampleChannels, user: str) -> None:
    await set_level(api, user, workspace.id, "MENTIONS", suppress=True)
    device, stored = await api.listen(user, LIVE), await api.stored_documents()
    await set_level(api, user, workspace.id, "MENTIONS", suppress=True)
    assert await api.stored_documents() == stored
    # The level in force stays, so the sessions stay as they are.
    await set_level(api, user, workspace.id, "MENTIONS")
    changed = await api.stored_documents()
    row = f"{user} {workspace.id}"
    assert stored["workspaces_of"][row] == changed["workspaces_of"][row] | {"se": True}
    assert changed["sessions"] == stored["sessions"]
    await device.expect_no_event()


async def test_an_argument_that_is_left_out_stays_as_it_is(api: Api, workspace: SampleChannels, user: str) -> None:
    await set_level(api, user, workspace.id, "MENTIONS", suppress=True)
    stored = await api.stored_hashes()
    # Each call would change a row if it reset the argument that it lacks.
    for arguments in ("level: MENTIONS", "suppressEveryone: true", ""):
        text = f"mutation ($id: ID!) {{ setNotificationLevel(id: $id {arguments}) }}"
        assert (await api.data(user, text, id=workspace.id))["setNotificationLevel"] == "MENTIONS"
        assert await api.stored_hashes() == stored


async def test_a_workspace_without_followed_channels_keeps_its_level(api: Api, workspace: SampleChannels) -> None:
    api.database["workspaces_of"].insert_one({"_id": f"{workspace.other} {workspace.id}", "j": 1})
    assert await set_level(api, workspace.other, workspace.id, "NONE") == "NONE"
    await api.data(workspace.other, "mutation ($id: ID!) { setUnread(conversationId: $id) { id } }", id=workspace.old)
    assert (await session_of(api, workspace.other, workspace.old))["notifications"] == "NONE"


async def test_a_hidden_channel_is_not_in_the_event(api: Api, workspace: SampleChannels, user: str) -> None:
    await workspace.overwrite(workspace.general, user, Permission.VIEW_CHANNEL)
    device = await api.listen(user, LIVE)
    await set_level(api, user, workspace.id, "NONE")
    assert await levels_of(await device.next()) == {workspace.staff[2:]: "NONE"}


async def test_a_level_changes_no_counts_in_a_channel(api: Api, workspace: SampleChannels, user: str) -> None:
    await api.send(workspace.moderator, workspace.general, mentions=[user])
    await api.send(workspace.moderator, workspace.general, mentionAll=True)
    counts = "query ($id: ID!) { session(conversationId: $id) { unreadCount unreadMentionCount } }"
    before = await api.data(user, counts, id=workspace.general), await attention_of(api, user)
    assert before == ({"session": {"unreadCount": 2, "unreadMentionCount": 2}}, (0, 1))
    for target in (workspace.general, workspace.id):
        await set_level(api, user, target, "NONE", suppress=True)
        assert (await api.data(user, counts, id=workspace.general), await attention_of(api, user)) == before


@pytest.mark.parametrize(
    ("name", "target"),
    [("outsider", "general"), ("outsider", "id"), ("owner", "staff"), ("other", "staff"), ("outsider", "staff")],
)
async def test_levels_of_hidden_places_are_refused(api: Api, workspace: SampleChannels, name: str, target: str) -> None:
    stored = await api.stored_hashes()
    refusal = await api.expect_refusal(getattr(workspace, name), SET_LEVEL, id=getattr(workspace, target), level="NONE")
    assert refusal == Refusal("NOT_FOUND", "id")
    assert await api.stored_hashes() == stored
