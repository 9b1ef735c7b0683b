"""Changes in the workspaces that a client has open."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from typing import Any

import pytest

from resolvers.conversations.access import FoundConversation
from resolvers.workspaces.access import WorkspaceAccess
from schema.base.loaders import Loaders
from store.base.ids import ConversationId, UserId
from store.base.workspace_ids import WorkspaceId
from store.conversations.conversation import Member
from store.mongo.collections import CHANNELS, MEMBERS, WORKSPACES, member_row_id, workspace_row_id
from store.workspaces.permissions import Permission
from store.workspaces.policy import ChannelKind, Overwrites
from subscriptions.realtime.events.base import Event
from subscriptions.realtime.events.shared import WorkspaceUpdate
from subscriptions.realtime.mailboxes import Mailbox, Position
from subscriptions.realtime.shared import activity
from subscriptions.transport.engine import RequestRefused
from tests.api.client import Api, Json, Subscriber
from tests.api.sample_channels import SampleChannels

WORKSPACES_LIVE = """subscription ($workspaces: [Position!]!) { workspaceEvents(workspaces: $workspaces) {
    __typename
    ... on WorkspaceChanged { workspace { id name } rev }
    ... on ChannelChanged { channel { id name topic } rev }
    ... on ChannelGone { workspaceId channelId rev }
    ... on OwnMembershipChanged { workspaceId member { user { id } nickname } rev }
    ... on ChannelActivity { channelId writeSeq messageCount rev }
    ... on WorkspaceCaughtUp { workspaceId rev reset } } }"""


async def open_workspace(api: Api, user: str, workspace: str, rev: int | None = None) -> Subscriber:
    return await api.subscribe(user, WORKSPACES_LIVE, workspaces=[{"id": workspace, "rev": rev}])


async def live(api: Api, user: str, workspace: str) -> tuple[Subscriber, int]:
    """Return a subscription from now on, after WorkspaceCaughtUp, and the rev."""
    subscriber = await open_workspace(api, user, workspace)
    caught_up = await subscriber.next()
    assert (caught_up["__typename"], caught_up["reset"]) == ("WorkspaceCaughtUp", False)
    return subscriber, caught_up["rev"]


async def missed(api: Api, user: str, workspace: str, rev: int) -> tuple[list[Json], bool]:
    """Return the events after a rev, and whether it was reset."""
    subscriber = await open_workspace(api, user, workspace, rev)
    events = [await subscriber.next()]
    while events[-1]["__typename"] != "WorkspaceCaughtUp":
        events.append(await subscriber.next())
    await subscriber.stop()
    revs = [event["rev"] for event in events]
    assert revs == sorted(revs)
    return events[:-1], events[-1]["reset"]


async def follow(workspace: SampleChannels, user: str, *channels: str) -> None:
    """Store that a user follows channels."""
    for channel in channels:
        row = Member(UserId(user), "", ((1, None),), 1).to_fields()
        await workspace.store.mongo.update_one(
            MEMBERS, {"_id": member_row_id(ConversationId(channel), UserId(user))}, {"$set": row}, upsert=True
        )


async def tell(api: Api, workspace: SampleChannels, **fields: Any) -> int:
    """Announce a change as PolicyChanges does before the answer."""
    policy = workspace.policy
    update = WorkspaceUpdate(policy.workspace, policy.version, **fields)
    return await api.services.app.shared_events.announce(update)


async def rename(workspace: SampleChannels, name: str) -> None:
    await workspace.store.mongo.update_one(WORKSPACES, {"_id": workspace.id}, {"$set": {"name": name}})
    await workspace.change(workspace.policy)


async def test_changes_of_the_workspace_and_its_channels_arrive_on_all_servers(
    api: Api, other_api: Api, workspace: SampleChannels
) -> None:
    here, _ = await live(api, workspace.other, workspace.id)
    there, _ = await live(other_api, workspace.other, workspace.id)
    await rename(workspace, "climbers")
    await tell(api, workspace, is_changed=True)
    await workspace.change_channel(workspace.general, topic="rocks")
    await workspace.change_channel(workspace.staff, topic="salaries")
    rev = await tell(api, workspace, channels=(workspace.general, workspace.staff))
    for subscriber in (here, there):
        changed = await subscriber.next()
        assert changed["workspace"] == {"id": workspace.id, "name": "climbers"}
        assert await subscriber.next() == {
            "__typename": "ChannelChanged",
            "channel": {"id": workspace.general, "name": "general", "topic": "rocks"},
            "rev": rev,
        }
        await subscriber.expect_no_event()


async def test_channels_appear_and_disappear_with_the_rights_of_each_member(
    api: Api, workspace: SampleChannels
) -> None:
    concerned, _ = await live(api, workspace.member, workspace.id)
    other, _ = await live(api, workspace.other, workspace.id)
    await workspace.overwrite(workspace.general, workspace.member, Permission.VIEW_CHANNEL)
    await tell(api, workspace, channels=(workspace.general,), changes_rights=True)
    gone = await concerned.next()
    assert (gone["__typename"], gone["workspaceId"], gone["channelId"]) == (
        "ChannelGone",
        workspace.id,
        workspace.general,
    )
    assert (await other.next())["__typename"] == "ChannelChanged"
    await workspace.change_channel(workspace.staff, kind=ChannelKind.PUBLIC)
    await tell(api, workspace, channels=(workspace.staff,), changes_rights=True)
    for subscriber in (concerned, other):
        # It would not be shown after the channel is gone.
        shown = await subscriber.next()
        assert (shown["__typename"], shown["channel"]["id"]) == ("ChannelChanged", workspace.staff)
    channels = {name: c for name, c in workspace.policy.channels.items() if name != workspace.staff}
    await workspace.store.mongo.delete_one(CHANNELS, {"_id": workspace_row_id(workspace.id, workspace.staff)})
    await workspace.change(replace(workspace.policy, channels=channels))
    await tell(api, workspace, changes_rights=True)
    for subscriber in (concerned, other):
        gone = await subscriber.next()
        assert (gone["__typename"], gone["channelId"]) == ("ChannelGone", workspace.staff)


async def test_membership_events_reach_only_the_member_and_the_end_comes_last(
    api: Api, workspace: SampleChannels
) -> None:
    own, _ = await live(api, workspace.member, workspace.id)
    other, _ = await live(api, workspace.other, workspace.id)
    await workspace.set_facts(workspace.member, nickname="Moss")
    await tell(api, workspace, members=(workspace.member,))
    told = await own.next()
    assert told["__typename"] == "OwnMembershipChanged" and told["member"]["nickname"] == "Moss"
    await workspace.remove(workspace.member)
    await tell(api, workspace, members=(workspace.member,), changes_rights=True)
    ended = await own.next()
    assert (ended["__typename"], ended["member"]) == ("OwnMembershipChanged", None)
    await rename(workspace, "climbers")
    await tell(api, workspace, is_changed=True)
    assert (await other.next())["__typename"] == "WorkspaceChanged"
    await own.expect_no_event()


async def test_objects_that_changed_meanwhile_are_sent_whole_and_once(
    api: Api, other_api: Api, workspace: SampleChannels
) -> None:
    await follow(workspace, workspace.other, workspace.general)
    _, start = await live(api, workspace.other, workspace.id)
    await api.send(workspace.member, workspace.general, "a")
    await workspace.change_channel(workspace.general, topic="one")
    await tell(api, workspace, channels=(workspace.general,))
    await workspace.change_channel(workspace.general, topic="two")
    await tell(api, workspace, channels=(workspace.general, workspace.staff))
    await rename(workspace, "climbers")
    rev = await tell(api, workspace, is_changed=True)
    await api.send(workspace.member, workspace.general, "b")
    await api.send(workspace.moderator, workspace.staff, "c")
    for server in (api, other_api):
        events, reset = await missed(server, workspace.other, workspace.id, start)
        assert not reset
        assert [event["__typename"] for event in events] == ["ChannelChanged", "WorkspaceChanged", "ChannelActivity"]
        assert events[0]["channel"]["topic"] == "two" and events[1]["workspace"]["name"] == "climbers"
        assert (events[2]["channelId"], events[2]["writeSeq"], events[2]["messageCount"]) == (workspace.general, 2, 2)
    events, reset = await missed(api, workspace.other, workspace.id, rev)
    assert not reset and [event["__typename"] for event in events] == ["ChannelActivity"]


async def test_a_change_of_rights_meanwhile_is_a_reset_that_reveals_no_channel(
    api: Api, workspace: SampleChannels
) -> None:
    _, start = await live(api, workspace.other, workspace.id)
    await workspace.change_channel(workspace.staff, kind=ChannelKind.PUBLIC)
    await tell(api, workspace, channels=(workspace.staff,), changes_rights=True)
    assert await missed(api, workspace.other, workspace.id, start) == ([], True)
    for rev in (0, 1 << 52):
        assert await missed(api, workspace.other, workspace.id, rev) == ([], True)


async def test_activity_of_followed_channels_comes_once_a_second_with_the_last_one(
    api: Api, other_api: Api, workspace: SampleChannels, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(activity, "SECONDS_BETWEEN", 0.2)
    await follow(workspace, workspace.other, workspace.general)
    await follow(workspace, workspace.moderator, workspace.general)
    follower, _ = await live(other_api, workspace.other, workspace.id)
    in_both, _ = await live(other_api, workspace.moderator, workspace.id)
    unfollowing, _ = await live(other_api, workspace.owner, workspace.id)
    began = time.monotonic()
    for number in range(20):
        await api.send(workspace.member, workspace.general, str(number))
    took = time.monotonic() - began
    await api.send(workspace.member, workspace.staff, "for the staff")
    found = [await follower.next()]
    while found[-1]["writeSeq"] < 20:
        found.append(await follower.next())
    # One event comes at once, one at the end, and at most one in each interval between them.
    assert found[0]["__typename"] == "ChannelActivity" and len(found) <= 2 + took / 0.2
    assert found[-1]["messageCount"] == 20
    received = set[tuple[str, int]]()
    while not {(workspace.general, 20), (workspace.staff, 1)} <= received:
        event = await in_both.next()
        received.add((event["channelId"], event["writeSeq"]))
    await asyncio.sleep(0.25)
    await api.send(workspace.member, workspace.general, "later")
    assert (await follower.next())["writeSeq"] == 21
    await unfollowing.expect_no_event()
    await follower.expect_no_event()


async def test_a_followed_channel_that_becomes_visible_again_shows_its_activity(
    api: Api, other_api: Api, workspace: SampleChannels
) -> None:
    await follow(workspace, workspace.other, workspace.general)
    await workspace.overwrite(workspace.general, workspace.other, Permission.VIEW_CHANNEL)
    follower, _ = await live(other_api, workspace.other, workspace.id)
    await api.send(workspace.member, workspace.general, "hidden")
    await workspace.change_channel(workspace.general, overwrites=Overwrites({}, {}))
    await tell(api, workspace, channels=(workspace.general,), changes_rights=True)
    assert (await follower.next())["__typename"] == "ChannelChanged"
    await api.send(workspace.member, workspace.general, "shown")
    assert (await follower.next())["__typename"] == "ChannelActivity"


async def test_following_begins_and_ends_on_open_subscriptions(
    api: Api, workspace: SampleChannels, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(activity, "SECONDS_BETWEEN", 0.1)
    subscriber, _ = await live(api, workspace.other, workspace.id)
    await api.send(workspace.member, workspace.general, "unfollowed")
    await tell(api, workspace, follows=((workspace.other, workspace.general, True),))
    await subscriber.expect_no_event()
    await asyncio.sleep(0.15)
    await api.send(workspace.member, workspace.general, "followed")
    assert (await subscriber.next())["writeSeq"] == 2
    await tell(api, workspace, follows=((workspace.other, workspace.general, False),))
    await asyncio.sleep(0.15)
    await api.send(workspace.member, workspace.general, "no more")
    await subscriber.expect_no_event()


async def test_an_event_about_one_member_is_delivered_to_that_member_alone(
    api: Api, other_api: Api, workspace: SampleChannels, monkeypatch: pytest.MonkeyPatch
) -> None:
    member, other = [(await live(other_api, user, workspace.id))[0] for user in (workspace.member, workspace.other)]
    received: list[str] = []
    deliver = Mailbox.deliver

    def note_and_deliver(mailbox: Mailbox, position: Position, event: Event) -> None:
        received.append(mailbox.user)
        deliver(mailbox, position, event)

    monkeypatch.setattr(Mailbox, "deliver", note_and_deliver)
    events, user = api.services.app.shared_events, UserId(workspace.member)
    await events.append(WorkspaceUpdate(workspace.id, follows=((user, workspace.general, True),)))
    await events.append(WorkspaceUpdate(workspace.id, members=(user,)))
    assert (await member.next())["__typename"] == "OwnMembershipChanged"
    assert received == [workspace.member] * 2
    await events.append(WorkspaceUpdate(workspace.id, channels=(workspace.general,)))
    assert [(await each.next())["__typename"] for each in (member, other)] == ["ChannelChanged"] * 2


async def test_members_with_the_same_roles_share_their_visible_channels(api: Api, workspace: SampleChannels) -> None:
    users = [UserId(user) for user in (workspace.member, workspace.other, workspace.moderator)]
    for user in users:
        await live(api, user, workspace.id)
    audience = api.services.app.shared_events._audiences[workspace.id]

    def find_open() -> list[frozenset[ConversationId]]:
        return [audience.find_visible(user).open for user in users]

    before = find_open()
    assert before[0] is before[1] is before[2]
    await workspace.set_facts(workspace.other, roles=frozenset({workspace.moderator_role}))
    await audience.refresh(workspace.policy.version)
    after = find_open()
    assert after[0] is after[1] is after[2] is before[0] is before[2]
    await workspace.overwrite(workspace.general, workspace.member, Permission.VIEW_CHANNEL)
    await audience.refresh(workspace.policy.version)
    assert find_open() == [before[0] - {workspace.general}, before[2], before[2]]


async def test_a_workspace_is_not_shown_to_a_user_removed_during_rendering(
    api: Api, workspace: SampleChannels, monkeypatch: pytest.MonkeyPatch
) -> None:
    subscriber, _ = await live(api, workspace.other, workspace.id)
    load = Loaders._load_workspaces

    async def remove_and_load(loaders: Loaders, workspaces: list[WorkspaceId]) -> list[WorkspaceAccess | None]:
        await workspace.remove(workspace.other)
        return await load(loaders, workspaces)

    monkeypatch.setattr(Loaders, "_load_workspaces", remove_and_load)
    await api.services.app.shared_events.append(WorkspaceUpdate(workspace.id, is_changed=True))
    response = await subscriber.next_response()
    assert [error["extensions"]["code"] for error in response["errors"]] == ["NOT_FOUND"]
    assert "hikers" not in str(response)


async def test_a_channel_hidden_during_rendering_has_its_last_seen_count(
    api: Api, workspace: SampleChannels, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = """subscription ($workspaces: [Position!]!) { workspaceEvents(workspaces: $workspaces) {
        ... on ChannelChanged { channel { name memberCount } } ... on WorkspaceCaughtUp { reset } } }"""
    subscriber = await api.listen(workspace.other, query, workspaces=[{"id": workspace.id}])
    load = Loaders._load_conversations

    async def hide_and_load(loaders: Loaders, conversations: list[ConversationId]) -> list[FoundConversation | None]:
        await workspace.overwrite(workspace.general, workspace.other, Permission.VIEW_CHANNEL)
        row = {"_id": workspace_row_id(workspace.id, workspace.general)}
        await workspace.store.mongo.update_one(CHANNELS, row, {"$set": {"mc": 7}})
        return await load(loaders, conversations)

    monkeypatch.setattr(Loaders, "_load_conversations", hide_and_load)
    await api.services.app.shared_events.append(WorkspaceUpdate(workspace.id, channels=(workspace.general,)))
    assert await subscriber.next() == {"channel": {"name": "general", "memberCount": 0}}


async def test_only_members_can_subscribe(api: Api, workspace: SampleChannels) -> None:
    for user, ids, code in (
        (workspace.outsider, [workspace.id], "NOT_FOUND"),
        (workspace.member, [workspace.id, "w_1"], "NOT_FOUND"),
        (workspace.member, ["nonsense"], "NOT_FOUND"),
        (workspace.member, [], "INVALID_INPUT"),
        (workspace.member, [workspace.id, workspace.id], "INVALID_INPUT"),
        (workspace.member, [f"w_{n}" for n in range(21)], "INVALID_INPUT"),
    ):
        with pytest.raises(RequestRefused) as refusal:
            await api.subscribe(user, WORKSPACES_LIVE, workspaces=[{"id": name} for name in ids])
        extensions = refusal.value.errors[0]["extensions"]
        assert (extensions["code"], extensions["field"]) == (code, "workspaces")
    assert not api.services.app.shared_events._audiences and not api.services.app.shared_events._activities


async def test_a_subscription_leaves_nothing_behind(api: Api, workspace: SampleChannels) -> None:
    subscriber, _ = await live(api, workspace.member, workspace.id)
    events = api.services.app.shared_events
    assert events.hub.mailboxes == 2 and events._activities
    await subscriber.stop()
    assert events.hub.mailboxes == 0 and not events._audiences and not events._activities
