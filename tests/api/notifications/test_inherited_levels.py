"""Without a level of its own, a conversation has that of the next larger one: at last the user's own."""

from __future__ import annotations

import pytest

from tests.api.client import Api, Json, private_id
from tests.api.notifications.calls import set_settings
from tests.api.requests.test_budgets import Meter
from tests.api.sample_channels import create_sample_channels
from tests.api.sessions.test_notification_levels import LEVEL, LIVE, session_of, set_level
from tests.api.threads.live_calls import make_thread


async def level_of(api: Api, user: str, conversation: str) -> str:
    level: str = (await session_of(api, user, conversation))["notifications"]
    return level


@pytest.mark.parametrize("kind", ["private", "group"])
async def test_the_users_own_level_is_in_force_where_none_is_set(api: Api, other_api: Api, kind: str) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(bob, alice, carol)
    await api.send(bob, alice)
    place = group if kind == "group" else private_id(alice, bob)
    await set_settings(api, alice, level="MENTIONS")
    for process in (api, other_api):
        assert await level_of(process, alice, place) == "MENTIONS"
        assert await level_of(process, bob, place) == "ALL"
    assert await set_level(api, alice, place, "ALL") == "ALL"
    assert await level_of(other_api, alice, place) == "ALL"
    # Removing a level answers with the one that is in force then.
    assert await set_level(other_api, alice, place, None) == "MENTIONS"
    await set_settings(other_api, alice, level="NONE")
    assert await level_of(api, alice, place) == "NONE"


async def test_a_channel_asks_its_workspace_before_the_user(api: Api) -> None:
    workspace = await create_sample_channels(api)
    user, channel = workspace.member, str(workspace.general)
    api.database["workspaces_of"].insert_one({"_id": f"{user} {workspace.id}", "j": 1})
    await set_settings(api, user, level="NONE")
    assert await set_level(api, user, channel, "ALL") == "ALL"
    assert await set_level(api, user, channel, None) == "NONE"
    assert await set_level(api, user, workspace.id, "MENTIONS") == "MENTIONS"
    assert await level_of(api, user, channel) == "MENTIONS"
    assert await set_level(api, user, workspace.id, None) == "NONE"
    assert await level_of(api, user, channel) == "NONE"


@pytest.mark.parametrize("kind", ["group", "channel"])
async def test_a_thread_asks_its_conversation_first(api: Api, kind: str) -> None:
    place = await make_thread(api, kind)
    user = place.second
    await set_settings(api, user, level="MENTIONS")
    assert await level_of(api, user, place.id) == "MENTIONS"
    assert await set_level(api, user, place.conversation, "NONE") == "NONE"
    assert await level_of(api, user, place.id) == "NONE"
    assert await set_level(api, user, place.id, "ALL") == "ALL"
    assert await level_of(api, user, place.conversation) == "NONE"
    assert await set_level(api, user, place.id, None) == "NONE"


async def test_a_workspaces_level_that_changes_nothing_in_force_sends_no_event(api: Api) -> None:
    workspace = await create_sample_channels(api)
    user = workspace.member
    api.database["workspaces_of"].insert_one({"_id": f"{user} {workspace.id}", "j": 1})
    await api.send(user, workspace.general)
    await set_settings(api, user, level="NONE")
    device = await api.listen(user, LIVE)
    assert await set_level(api, user, workspace.id, "NONE") == "NONE"
    await device.expect_no_event()


async def test_a_level_is_one_read_of_redis_only_where_it_is_asked_for(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    await api.send(bob, alice)
    place, meter = private_id(alice, bob), Meter(api)

    async def read(document: str) -> Json:
        return await api.data(alice, document, id=place)

    await meter.expect("level", lambda: read(LEVEL), 0, 2)
    await meter.expect("without", lambda: read("query ($id: ID!) { session(conversationId: $id) { id } }"), 0, 1)
    sessions = "{ sessions { edges { node { notifications } } } }"
    await meter.expect("levels of a page", lambda: api.data(alice, sessions), 0, 2)
    # The first screen has the settings already.
    await meter.expect("ready", lambda: api.data(alice, f"{{ ready {sessions} }}"), 0, 1)
