"""Mentions in channels: on the clock of each user mentioned by name or by a small role, and for everybody a mark."""

from __future__ import annotations

from typing import Any

import pytest

from resolvers.live.live_stream import CaughtUp
from resolvers.live.message_events import message_events
from store.base.ids import PARTITIONS, MessageId, UserId
from store.channels import channel_mentions
from store.messages.message import Message, MessageKind
from store.messages.outbox.places import ChannelTerms
from store.redis.cache import Call
from store.workspaces.permissions import Permission
from subscriptions.realtime.events.messages import Mentioned
from subscriptions.realtime.mailboxes import QueueBudget
from tests.api.channels.channel_subscriber import take
from tests.api.channels.session_calls import MUTE, READ, attention_of, change, session_of
from tests.api.client import Api
from tests.api.events import current_cursor, read_missed_events
from tests.api.sample_channels import SampleChannels

LIVE = """subscription ($since: Cursor) { messageEvents(since: $since) {
    __typename ... on Mentioned { message { conversationId seq } } ... on CaughtUp { cursor reset } } }"""


async def test_a_mention_by_name_reaches_the_user_only(api: Api, workspace: SampleChannels) -> None:
    device, others = await api.listen(workspace.other, LIVE), await api.listen(workspace.member, LIVE)
    since = await current_cursor(api, workspace.other)
    await api.send(workspace.member, workspace.general, "nobody")
    await api.send(workspace.member, workspace.general, "you", mentions=[workspace.other, workspace.member])
    message = {"conversationId": workspace.general, "seq": 2}
    assert await device.next() == {"__typename": "Mentioned", "message": message}
    (missed,) = await read_missed_events(api, workspace.other, since)
    assert missed["__typename"] == "Mentioned"
    await others.expect_no_event()
    found = await session_of(api, workspace.other, workspace.general)
    assert found is not None
    assert (found["unreadMentionCount"], found["readSeq"], found["unreadCount"]) == (1, 1, 1)


async def test_a_mention_comes_once_though_its_user_has_read_further(api: Api, workspace: SampleChannels) -> None:
    """The user writes while the message that mentions them is under way, and so reads it unseen."""
    device, since = await api.listen(workspace.other, LIVE), await current_cursor(api, workspace.other)
    store = workspace.store
    assert await store.conversations.find(workspace.general)
    message = Message(
        MessageId(store.ids.next()),
        workspace.general,
        UserId(workspace.member),
        MessageKind.TEXT,
        "you",
        mentions=(UserId(workspace.other),),
    )
    assert await store.outbox.reserve_in_channel(message, ChannelTerms(workspace.policy.version))
    assert (await api.send(workspace.other, workspace.general, "me"))["message"]["seq"] == 2
    for _ in range(2):
        await api.services.housekeeper.sweep(range(PARTITIONS), 0)
        await api.wait_until_idle()
    place = {"conversationId": workspace.general, "seq": 1}
    assert await device.next() == {"__typename": "Mentioned", "message": place}
    await device.expect_no_event()
    assert [event["__typename"] for event in await read_missed_events(api, workspace.other, since)] == ["Mentioned"]
    assert await attention_of(api, workspace.other) == (0, 0)


async def test_unread_mentions_count_where_not_muted(api: Api, workspace: SampleChannels) -> None:
    for channel in (workspace.general, workspace.staff):
        for _ in range(2):
            await api.send(workspace.moderator, channel, mentions=[workspace.member])
    assert await attention_of(api, workspace.member) == (0, 4)
    await change(api, workspace.member, MUTE, id=workspace.general, muted=True)
    assert await attention_of(api, workspace.member) == (0, 2)
    await change(api, workspace.member, READ, id=workspace.staff, seq=1)
    assert await attention_of(api, workspace.member) == (0, 1)
    await api.services.app.store.cache.run([Call("FLUSHALL", ())])
    assert await attention_of(api, workspace.member) == (0, 1)
    found = await session_of(api, workspace.member, workspace.general)
    assert found is not None and found["unreadMentionCount"] == 2


async def test_a_mention_by_role_reaches_its_members_who_see_the_channel(api: Api, workspace: SampleChannels) -> None:
    for user in (workspace.owner, workspace.other):
        await workspace.set_facts(user, roles=frozenset({workspace.guide_role}))
    devices = {name: await api.listen(workspace.users[name], LIVE) for name in ("owner", "member", "other")}
    await api.send(workspace.moderator, workspace.general, mentionRoleIds=[workspace.guide_role])
    for name in ("owner", "other"):
        assert (await devices[name].next())["message"]["conversationId"] == workspace.general
    await devices["member"].expect_no_event()
    # Neither is in the PRIVATE channel.
    before = await api.stored_documents()
    await api.send(workspace.moderator, workspace.staff, mentionRoleIds=[workspace.guide_role])
    await devices["owner"].expect_no_event()
    new = (await api.stored_documents())["sessions"].keys() - before["sessions"].keys()
    assert new == {f"{workspace.moderator} {workspace.staff}"}


async def test_members_of_large_roles_are_not_notified(
    api: Api, workspace: SampleChannels, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channel_mentions, "LARGEST_ROLE", -1)
    await workspace.set_facts(workspace.other, roles=frozenset({workspace.guide_role}))
    device = await api.listen(workspace.other, LIVE)
    await api.send(workspace.moderator, workspace.general, mentionRoleIds=[workspace.guide_role])
    await device.expect_no_event()
    assert await session_of(api, workspace.other, workspace.general) is None


async def test_a_mention_of_everybody_only_counts_in_sessions(api: Api, workspace: SampleChannels) -> None:
    await change(api, workspace.other, READ, id=workspace.general)
    device = await api.listen(workspace.other, LIVE)
    before = await api.stored_documents()
    await api.send(workspace.owner, workspace.general, mentionAll=True)
    await api.send(workspace.owner, workspace.general)
    await device.expect_no_event()
    new = (await api.stored_documents())["sessions"].keys() - before["sessions"].keys()
    assert new == {f"{workspace.owner} {workspace.general}"}
    for _ in range(2):
        found = await session_of(api, workspace.other, workspace.general)
        assert found is not None and (found["unreadMentionCount"], found["unreadCount"]) == (1, 2)
        assert await attention_of(api, workspace.other) == (0, 0)
        await api.services.app.store.cache.run([Call("FLUSHALL", ())])
    assert (await change(api, workspace.other, READ, id=workspace.general))["unreadMentionCount"] == 0


async def test_a_missed_mention_is_not_shown_after_the_channel_is_hidden(api: Api, workspace: SampleChannels) -> None:
    since = await current_cursor(api, workspace.other)
    await api.send(workspace.member, workspace.general, mentions=[workspace.other])
    await workspace.overwrite(workspace.general, UserId(workspace.other), Permission.VIEW_CHANNEL)
    assert await read_missed_events(api, workspace.other, since) == []
    assert await session_of(api, workspace.other, workspace.general) is None


async def test_a_message_that_is_delivered_again_mentions_once(api: Api, workspace: SampleChannels) -> None:
    await api.send(workspace.member, workspace.general, mentions=[workspace.other], idempotencyKey="k")
    app = api.services.app
    (message,) = (await app.store.messages.find_many([(workspace.general, 1)])).values()
    for _ in range(2):
        await app.delivery.deliver_stored(message)
        found = await session_of(api, workspace.other, workspace.general)
        assert found is not None and found["unreadMentionCount"] == 1
        assert await attention_of(api, workspace.other) == (0, 1)
        await app.store.cache.run([Call("FLUSHALL", ())])


async def test_a_mention_is_not_shown_under_rights_that_ended_during_delivery(
    api: Api, other_api: Api, workspace: SampleChannels, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other server has no subscription to the workspace, so nobody asks it about the change."""
    devices = [await server.listen(workspace.member, LIVE) for server in (api, other_api)]
    await other_api.send(workspace.moderator, workspace.staff, mentions=[workspace.member])
    for device in devices:
        assert (await device.next())["__typename"] == "Mentioned"
    mentions = api.services.app.store.channel_mentions
    find = mentions.find

    async def find_and_remove(*args: Any) -> tuple[UserId, ...]:
        found = await find(*args)
        await workspace.remove_from_staff(workspace.member)
        return found

    monkeypatch.setattr(mentions, "find", find_and_remove)
    await api.send(workspace.moderator, workspace.staff, "secret", mentions=[workspace.member])
    await api.send(workspace.moderator, workspace.general, "open", mentions=[workspace.member])
    for device in devices:
        event = await device.next()
        assert event == {"__typename": "Mentioned", "message": {"conversationId": workspace.general, "seq": 1}}


async def test_a_missed_mention_is_judged_when_a_slow_reader_takes_it(
    api: Api, other_api: Api, workspace: SampleChannels
) -> None:
    since = await current_cursor(other_api, workspace.other)
    for _ in range(3):
        await api.send(workspace.member, workspace.general, mentions=[workspace.other])
    stream = await message_events(other_api.services.app, UserId(workspace.other), since, None, QueueBudget())
    assert isinstance((await take(stream)).payload, Mentioned)
    await workspace.overwrite(workspace.general, workspace.other, Permission.VIEW_CHANNEL)
    assert isinstance((await take(stream)).payload, CaughtUp)
    stream.close()


async def test_mentions_are_found_under_the_rights_of_the_message(
    api: Api, other_api: Api, workspace: SampleChannels
) -> None:
    """A server that takes a message over may know an older policy than the server that reserved it."""
    await other_api.send(workspace.moderator, workspace.staff, mentions=[workspace.member])
    sent = await api.send(workspace.moderator, workspace.staff, mentions=[workspace.member])
    place = (workspace.staff, sent["message"]["seq"])
    message = (await api.services.app.store.messages.find_many([place]))[place]
    await workspace.remove_from_staff(workspace.member)
    assert await other_api.services.app.store.channel_mentions.find(message, 0) == ()
