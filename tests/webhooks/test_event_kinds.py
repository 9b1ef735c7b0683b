"""Each kind of event: when it is sent, and what it carries."""

from __future__ import annotations

from typing import Any

from tests.api.channels.calls import UPDATE
from tests.api.client import Api
from tests.api.reactions.calls import react
from tests.api.sample_channels import create_sample_channels
from tests.api.workspaces.calls import add_members, create_workspace
from tests.webhooks.calls import admin, create_webhook
from tests.webhooks.conftest import ClockedApi, settle
from tests.webhooks.endpoint import Endpoint, first_of_each

LEAVE = "mutation ($id: ID!) { leaveWorkspace(workspaceId: $id) }"
LEAVE_GROUP = "mutation ($id: ID!) { leaveGroup(groupId: $id) }"
RENAME = "mutation ($id: ID!, $input: UpdateGroupInput!) { updateGroup(groupId: $id, input: $input) { id } }"


async def events_of(api: Api, endpoint: Endpoint) -> list[tuple[str, Any]]:
    """Return types and data of all events so far."""
    await settle(api)
    return [(each.type, each.data) for each in first_of_each(endpoint.taken)]


async def test_changed_reactions_are_sent(api: Api, endpoint: Endpoint) -> None:
    alice, bob = await api.create_users("alice", "bob")
    await create_webhook(api, admin(), endpoint.url, "REACTIONS_CHANGED")
    message = (await api.send(alice, bob))["message"]
    await react(api, bob, message["id"])
    ((kind, data),) = await events_of(api, endpoint)
    assert kind == "REACTIONS_CHANGED" and data["messageId"] == message["id"]
    (reaction,) = data["reactions"]
    assert (reaction["emoji"], reaction["count"], reaction["users"]) == ("👍", 1, [{"id": bob}])


async def test_changed_groups_and_their_members_are_sent(api: Api, endpoint: Endpoint) -> None:
    alice, bob, carol, dave = await api.create_users("alice", "bob", "carol", "dave")
    group = await api.create_group(alice, bob, carol)
    await create_webhook(api, admin(), endpoint.url, "GROUP_CHANGED", "MEMBER_JOINED", "MEMBER_LEFT")
    await api.invite(alice, group, dave)
    await api.data(alice, RENAME, id=group, input={"name": "Hikers"})
    await api.data(dave, LEAVE_GROUP, id=group)
    joined, changed, left = await events_of(api, endpoint)
    assert joined == ("MEMBER_JOINED", {"conversationId": group, "userIds": [dave], "by": alice})
    assert changed[0] == "GROUP_CHANGED" and changed[1]["group"]["id"] == group
    assert changed[1]["group"]["name"] == "Hikers" and changed[1]["group"]["owner"] == {"id": alice}
    assert left == ("MEMBER_LEFT", {"conversationId": group, "userIds": [dave], "by": dave})


async def test_channels_and_members_of_a_workspace_are_sent(api: Api, endpoint: Endpoint) -> None:
    owner, member = await api.create_users("owner", "member")
    workspace = await create_workspace(api, owner)
    await create_webhook(
        api, owner, endpoint.url, "CHANNEL_CHANGED", "MEMBER_JOINED", "MEMBER_LEFT", workspace=workspace
    )
    await add_members(api, workspace, member)
    ((kind, data),) = await events_of(api, endpoint)
    assert (kind, data) == ("MEMBER_JOINED", {"workspaceId": workspace, "userIds": [member]})
    await api.data(member, LEAVE, id=workspace)
    *_, (kind, data) = await events_of(api, endpoint)
    assert (kind, data) == ("MEMBER_LEFT", {"workspaceId": workspace, "userIds": [member]})


async def test_a_changed_channel_is_sent_with_its_settings(api: Api, endpoint: Endpoint) -> None:
    workspace = await create_sample_channels(api)
    await create_webhook(api, workspace.owner, endpoint.url, "CHANNEL_CHANGED", workspace=workspace.id)
    await api.data(workspace.admin, UPDATE, id=workspace.general, input={"topic": "hiking"})
    ((kind, data),) = await events_of(api, endpoint)
    assert kind == "CHANNEL_CHANGED"
    assert (data["channel"]["id"], data["channel"]["topic"]) == (workspace.general, "hiking")


async def test_a_message_is_sent_with_the_users_who_are_not_connected(api: Api, endpoint: Endpoint) -> None:
    alice, bob, carol, dave = await api.create_users("alice", "bob", "carol", "dave")
    await api.data(carol, "mutation { setPresence(status: INVISIBLE) { setting } }")
    departs = [await api.connect_device(user) for user in (bob, carol)]
    group = await api.create_group(alice, bob, carol, dave)
    await create_webhook(api, admin(), endpoint.url, "USER_OFFLINE_MESSAGE")
    await api.send(alice, group, "hello")
    ((kind, data),) = await events_of(api, endpoint)
    # An INVISIBLE user looks like one who is offline.
    assert kind == "USER_OFFLINE_MESSAGE" and sorted(data["userIds"]) == sorted([carol, dave])
    assert data["message"]["content"] == "hello"
    await api.send(alice, bob, "you are there")
    assert len(await events_of(api, endpoint)) == 1
    for depart in departs:
        await depart()
    await api.send(alice, bob, "you are not")
    *_, (_, data) = await events_of(api, endpoint)
    assert data["userIds"] == [bob]


async def test_only_wanted_kinds_are_logged(api: Api, endpoint: Endpoint) -> None:
    alice, bob = await api.create_users("alice", "bob")
    webhook = await create_webhook(api, admin(), endpoint.url, "MESSAGE_RECALLED", "REPORT_OPENED")
    message = (await api.send(alice, bob))["message"]
    await api.edit(alice, message["id"], "edited")
    await api.recall(alice, message["id"])
    assert [kind for kind, _ in await events_of(api, endpoint)] == ["MESSAGE_RECALLED"]
    assert api.database["webhook_events"].count_documents({"w": webhook["id"]}) == 1


async def test_a_message_shows_its_present_state(clocked: ClockedApi, endpoint: Endpoint) -> None:
    api = clocked.api
    alice, bob = await api.create_users("alice", "bob")
    await create_webhook(api, admin(), endpoint.url)
    endpoint.decide = lambda _: 500 if not endpoint.received else 200
    message = (await api.send(alice, bob, "regretted"))["message"]
    await endpoint.wait_for_attempts(1)
    await api.recall(alice, message["id"])
    await clocked.settle()
    await clocked.advance(6)
    await endpoint.wait_for(2)
    assert endpoint.received[0].data["message"]["content"] == "regretted"
    assert [each.data["message"]["content"] for each in endpoint.taken] == [None, None]
