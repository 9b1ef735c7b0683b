"""Users that a server does not know open subscriptions at once: they share the reads of MongoDB."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from store.base.ids import UserId
from store.conversations.conversation import Member
from store.mongo.collections import MEMBERS, WORKSPACE_MEMBERS, member_row_id
from store.workspaces.policy import MemberFacts
from tests.api.channels.channel_subscriber import look_at
from tests.api.client import Api, gather_all
from tests.api.sample_channels import SampleChannels, _member_row

USERS = 40
WORKSPACE_EVENTS = "subscription ($places: [Position!]!) { workspaceEvents(workspaces: $places) { __typename } }"
PAGE = "query ($id: ID!) { messages(conversationId: $id) { edges { cursor } } }"


async def _add_members(api: Api, workspace: SampleChannels) -> list[str]:
    """Add members. Every second one is in the PRIVATE channel."""
    users = await api.create_users(*(f"u{number}" for number in range(USERS)))
    rows = [_member_row(workspace.id, MemberFacts(UserId(user), 0, joined_at_ms=1)) for user in users]
    await workspace.store.mongo.insert_many(WORKSPACE_MEMBERS, rows)
    members = [Member(UserId(user), "", ((1, None),), 1) for user in users[::2]]
    await workspace.store.mongo.insert_many(
        MEMBERS, [{"_id": member_row_id(workspace.staff, member.user)} | member.to_fields() for member in members]
    )
    return users


async def _open_channel(api: Api, user: str, workspace: SampleChannels) -> None:
    subscriber = await look_at(api, user, (workspace.general, 1))
    assert (await subscriber.next())["__typename"] == "ChannelCaughtUp"


async def _open_private_channel(api: Api, user: str, workspace: SampleChannels) -> None:
    await look_at(api, user, (workspace.staff, 1))


async def _open_workspace(api: Api, user: str, workspace: SampleChannels) -> None:
    subscriber = await api.subscribe(user, WORKSPACE_EVENTS, places=[{"id": workspace.id, "rev": 1}])
    assert (await subscriber.next())["__typename"] == "WorkspaceCaughtUp"


async def _read_page(api: Api, user: str, workspace: SampleChannels) -> None:
    assert (await api.data(user, PAGE, id=workspace.general))["messages"] is not None


Opening = Callable[[Api, str, SampleChannels], Awaitable[None]]


@pytest.mark.parametrize(
    ("opening", "is_private"),
    [(_open_channel, False), (_open_private_channel, True), (_open_workspace, False), (_read_page, False)],
)
async def test_openings_at_once_share_their_reads(
    api: Api, workspace: SampleChannels, opening: Opening, is_private: bool
) -> None:
    users = await _add_members(api, workspace)
    if is_private:
        users = users[::2]
    mongo = workspace.store.mongo
    # The workspace, and the head of the channel.
    await opening(api, workspace.moderator, workspace)
    await api.wait_until_idle()
    workspace.store.policies.forget_members()
    before = mongo.trips
    await gather_all(*(opening(api, user, workspace) for user in users))
    # Facts, memberships, followed channels: for each the first read is for some users, the next ones for the others.
    assert mongo.trips - before < 15
    visible = [workspace.store.channel_rights.known(UserId(user), workspace.staff) is not None for user in users]
    if opening in (_open_private_channel, _open_workspace):
        assert visible == [is_private or number % 2 == 0 for number in range(len(users))]
