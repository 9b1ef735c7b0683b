"""Access to events of channels: rights, their ends, and the own history."""

from __future__ import annotations

import asyncio
import os

import pytest

from resolvers.live.channel_events import AccessEnded, ChannelCaughtUp, channel_events
from resolvers.live.shared_positions import SharedPosition
from store.base.ids import UserId
from store.conversations.conversation import Member
from store.mongo.collections import MEMBERS, member_row_id
from store.workspaces.permissions import Permission
from subscriptions.realtime.events.shared import ChannelMessage
from subscriptions.realtime.mailboxes import QueueBudget
from tests.api.channels.channel_subscriber import live, look_at, refused, take, tell, texts
from tests.api.client import Api
from tests.api.sample_channels import SampleChannels


async def test_access_ends_with_a_membership_on_every_server(
    api: Api, other_api: Api, workspace: SampleChannels
) -> None:
    here, _ = await live(api, workspace.member, workspace.staff, workspace.general)
    there, _ = await live(other_api, workspace.member, workspace.staff)
    stays, _ = await live(other_api, workspace.moderator, workspace.staff)
    await workspace.remove_from_staff(workspace.member)
    await tell(api, workspace, workspace.member)
    await api.send(workspace.moderator, workspace.staff, "secret")
    await api.send(workspace.moderator, workspace.general, "open")
    for subscriber in (here, there):
        assert await subscriber.next() == {"__typename": "AccessEnded", "conversationId": workspace.staff}
    assert await texts(here, 1) == [("CREATED", "open")]
    assert await texts(stays, 1) == [("CREATED", "secret")]
    await here.expect_no_event()
    await there.expect_no_event()
    assert await refused(api, workspace.member, workspace.staff) == ("NOT_FOUND", "channels")


async def test_no_event_is_shown_under_old_rights_although_the_announcement_was_lost(
    api: Api, other_api: Api, workspace: SampleChannels
) -> None:
    """The frame has the policy version: a server with an older policy reads the new one first."""
    there, _ = await live(other_api, workspace.member, workspace.general)
    await workspace.overwrite(workspace.general, workspace.member, Permission.VIEW_CHANNEL)
    await api.send(workspace.moderator, workspace.general, "secret")
    assert await there.next() == {"__typename": "AccessEnded", "conversationId": workspace.general}
    await there.expect_no_event()


async def test_leaving_the_workspace_ends_access_to_all_channels(api: Api, workspace: SampleChannels) -> None:
    subscriber, _ = await live(api, workspace.member, workspace.general, workspace.staff)
    await workspace.remove(workspace.member)
    await tell(api, workspace, workspace.member)
    ended = [await subscriber.next() for _ in range(2)]
    assert {event["conversationId"] for event in ended} == {workspace.general, workspace.staff}
    assert {event["__typename"] for event in ended} == {"AccessEnded"}


async def test_only_visible_channels_can_be_looked_at(api: Api, workspace: SampleChannels) -> None:
    not_found = ("NOT_FOUND", "channels")
    assert await refused(api, workspace.owner, workspace.general, workspace.staff) == not_found
    assert await refused(api, workspace.outsider, workspace.general) == not_found
    assert await refused(api, workspace.owner, "c_1.2") == not_found
    assert await refused(api, workspace.owner, "nonsense") == not_found
    assert await refused(api, workspace.owner) == ("INVALID_INPUT", "channels")
    assert await refused(api, workspace.owner, *[f"c_1.{n}" for n in range(21)]) == ("INVALID_INPUT", "channels")
    assert await refused(api, workspace.owner, workspace.general, workspace.general) == ("INVALID_INPUT", "channels")
    assert api.services.app.shared_events.hub.mailboxes == 0
    assert not api.services.app.shared_events._audiences


_RACES = int(os.environ.get("CONFAB_TEST_FENCE_RACES", "3"))


async def test_messages_after_the_end_of_a_right_are_not_shown(
    api: Api, other_api: Api, workspace: SampleChannels
) -> None:
    """Sends on two servers race with the end of a right. Each caller waits for answers only."""
    servers, allowed = (api, other_api), workspace.policy
    late: set[str] = set()

    async def keep_sending(server: Api, name: str) -> None:
        for number in range(8):
            text = f"{name} {number}"
            if is_removed:
                late.add(text)
            await server.send(workspace.moderator, workspace.general, text)

    for race in range(_RACES):
        is_removed = False
        watching = [(await live(server, workspace.member, workspace.general))[0] for server in servers]
        sending = [asyncio.create_task(keep_sending(server, f"{race} {n}")) for n, server in enumerate(servers)]
        await asyncio.sleep(0.002 * race)
        await workspace.overwrite(workspace.general, workspace.member, Permission.VIEW_CHANNEL)
        await tell(servers[race % 2], workspace)
        is_removed = True
        await asyncio.gather(*sending)
        for subscriber in watching:
            shown = [await subscriber.next()]
            while shown[-1]["__typename"] != "AccessEnded":
                shown.append(await subscriber.next())
            assert not late.intersection(event["message"]["content"] for event in shown[:-1])
        for server in servers:
            await server.wait_until_idle()
        for subscriber in watching:
            await subscriber.expect_no_event()
            await subscriber.stop()
        await workspace.change(allowed)
        await tell(api, workspace)
    assert late


async def test_missed_messages_are_judged_when_a_slow_reader_takes_them(
    api: Api, other_api: Api, workspace: SampleChannels
) -> None:
    _, start = await live(api, workspace.other, workspace.general)
    for content in ("a", "b", "c"):
        await other_api.send(workspace.member, workspace.general, content)
    app, positions = api.services.app, [SharedPosition(workspace.general, start)]
    stream = await channel_events(app, UserId(workspace.other), positions, QueueBudget())
    assert isinstance((await take(stream)).payload, ChannelMessage)
    await workspace.overwrite(workspace.general, workspace.other, Permission.VIEW_CHANNEL)
    await tell(other_api, workspace)
    assert isinstance((await take(stream)).payload, ChannelCaughtUp)
    assert (await take(stream)).payload == AccessEnded(workspace.general)
    stream.close()


@pytest.mark.parametrize("channel", ["general", "staff"])
async def test_an_edit_shows_no_message_from_before_the_own_history(
    api: Api, workspace: SampleChannels, channel: str
) -> None:
    name = getattr(workspace, channel)
    old = (await api.send(workspace.moderator, name, "old secret"))["message"]["id"]
    await workspace.change_channel(name, full_history=False)
    if channel == "staff":
        member = Member(UserId(workspace.other), "", ((2, None),), 1)
        row = {"_id": member_row_id(workspace.staff, member.user)} | member.to_fields()
        await workspace.store.mongo.insert_one(MEMBERS, row)
        await workspace.change(workspace.policy, workspace.other)
    else:
        await workspace.set_facts(workspace.other, joined_at_ms=api.services.app.store.clock.now_ms() + 1)
        await asyncio.sleep(0.003)
    subscriber, start = await live(api, workspace.other, name)
    new = (await api.send(workspace.moderator, name, "new"))["message"]["id"]
    await api.edit(workspace.moderator, old, "still secret")
    await api.edit(workspace.moderator, new, "newer")
    for source in (subscriber, await look_at(api, workspace.other, (name, start))):
        assert (await texts(source, 2))[1] == ("UPDATED", "newer")


async def test_without_the_right_to_read_history_only_live_messages_are_shown(
    api: Api, workspace: SampleChannels
) -> None:
    old = (await api.send(workspace.moderator, workspace.general, "old secret"))["message"]["id"]
    await workspace.overwrite(workspace.general, workspace.other, Permission.READ_HISTORY)
    subscriber, start = await live(api, workspace.other, workspace.general)
    new = (await api.send(workspace.moderator, workspace.general, "new"))["message"]["id"]
    await api.edit(workspace.moderator, old, "still secret")
    await api.edit(workspace.moderator, new, "newer")
    assert await texts(subscriber, 2) == [("CREATED", "new"), ("UPDATED", "newer")]
    again = await look_at(api, workspace.other, (workspace.general, start))
    assert (await again.next())["__typename"] == "ChannelCaughtUp"
