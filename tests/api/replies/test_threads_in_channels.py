"""Replies in threads of channels: rights at the place, recipients under present rights, removal with the channel."""

from __future__ import annotations

from typing import Any

import pytest

from store.base.ids import MessageId, UserId
from store.channels.sending.sending_rights import SendingRefusal
from store.messages.message import Message, MessageKind
from store.messages.outbox.places import ChannelTerms, OutdatedRights, Refusal
from store.sessions.fields import CHANNEL, threads_mark
from store.threads.reply_places import ReplyPlace
from store.workspaces.permissions import Permission
from tests.api.client import Api
from tests.api.replies.thread_of_message import ThreadOfMessage
from tests.api.sample_channels import SampleChannels

DELETE = "mutation ($id: ID!) { deleteChannel(channelId: $id) }"


@pytest.fixture
async def thread(api: Api, workspace: SampleChannels) -> ThreadOfMessage:
    return ThreadOfMessage(await api.send(workspace.moderator, workspace.general))


async def place(
    workspace: SampleChannels, thread: ThreadOfMessage, sender: str, *mentions: str, **fields: Any
) -> ReplyPlace:
    """Try to get a place for a reply."""
    store = workspace.store
    (parent,) = (await store.messages.find_by_ids([thread.parent_id])).values()
    message = Message(MessageId(store.ids.next()), thread.id, UserId(sender), MessageKind.TEXT, "me too")
    message = message._replace(mentions=tuple(UserId(user) for user in mentions), **fields)
    return await store.reply_places.reserve(message, parent)


async def test_a_place_needs_the_rights_of_the_moment(
    api: Api, workspace: SampleChannels, thread: ThreadOfMessage
) -> None:
    outsider, member, general = workspace.outsider, workspace.member, workspace.general
    assert await place(workspace, thread, outsider) is SendingRefusal.NOT_VISIBLE
    assert await place(workspace, thread, member, outsider) is SendingRefusal.MENTIONS_OUTSIDER
    assert await place(workspace, thread, member, mentions_all=True) is SendingRefusal.MENTIONS_EVERYONE
    await workspace.overwrite(general, member, Permission.CREATE_THREADS)
    assert await place(workspace, thread, member) is Refusal.MAY_NOT_CREATE
    assert api.database["conversations"].count_documents({"_id": thread.id}) == 0
    assert "th" not in (api.database["messages"].find_one({"_id": thread.parent_id}) or {})
    await thread.reply(api, workspace.other)
    # Only the first reply needs the right.
    assert (await thread.reply(api, member)).seq == 2
    await workspace.overwrite(general, member, Permission.SEND_THREADS)
    assert await place(workspace, thread, member) is SendingRefusal.NEEDS_SEND_THREADS
    await workspace.change_channel(general, is_archived=True)
    assert await place(workspace, thread, workspace.other) is SendingRefusal.ARCHIVED
    assert (await thread.head(api)).reply_count == 2


async def test_no_place_is_given_under_rights_that_have_ended(
    api: Api, workspace: SampleChannels, thread: ThreadOfMessage
) -> None:
    reply = await thread.reply(api, workspace.member)
    await workspace.change_channel(workspace.general, slow_mode_seconds=0)
    message = reply._replace(id=MessageId(workspace.store.ids.next()))
    assert await workspace.store.outbox.reserve_reply(message, ChannelTerms(1)) == OutdatedRights(
        workspace.policy.version
    )


async def test_slow_mode_does_not_apply_to_threads(
    api: Api, workspace: SampleChannels, thread: ThreadOfMessage
) -> None:
    await workspace.change_channel(workspace.general, slow_mode_seconds=60)
    assert [(await thread.reply(api, workspace.member)).seq for _ in range(2)] == [1, 2]


async def test_followers_who_cannot_see_the_channel_any_more_get_no_replies(
    api: Api, workspace: SampleChannels, thread: ThreadOfMessage
) -> None:
    recipients = workspace.store.thread_recipients
    for user in (workspace.member, workspace.other):
        await thread.reply(api, user)
    reserved = await thread.reserve(api, workspace.member)
    assert set(await recipients.find_followers(reserved)) == {workspace.member, workspace.other}
    await api.services.app.delivery.send(reserved)
    await workspace.overwrite(workspace.general, workspace.other, Permission.VIEW_CHANNEL)
    reserved = await thread.reserve(api, workspace.member)
    assert await recipients.find_followers(reserved) == [workspace.member]
    await api.services.app.delivery.send(reserved)
    await workspace.overwrite(workspace.general, workspace.other, Permission.SEND_MESSAGES)
    reserved = await thread.reserve(api, workspace.member)
    assert set(await recipients.find_followers(reserved)) == {workspace.member, workspace.other}
    await api.services.app.delivery.send(reserved)


async def test_finding_the_recipients_of_a_further_reply_reads_nothing(
    api: Api, workspace: SampleChannels, thread: ThreadOfMessage
) -> None:
    for user in (workspace.member, workspace.other):
        await thread.reply(api, user)
    store = workspace.store
    await store.thread_recipients.find_followers(await thread.reserve(api, workspace.member))
    reserved = await thread.reserve(api, workspace.other)
    before = store.mongo.trips, store.cache.trips
    assert len(await store.thread_recipients.find_followers(reserved)) == 2
    assert (store.mongo.trips, store.cache.trips) == before


async def test_a_deleted_channel_takes_its_threads_along(
    api: Api, workspace: SampleChannels, thread: ThreadOfMessage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("store.channels.channel_contents.ROWS_PER_STEP", 2)
    second = ThreadOfMessage(await api.send(workspace.moderator, workspace.general))
    for user in (workspace.member, workspace.other, workspace.admin):
        await api.sessions(user)
        await thread.reply(api, user)
        await second.reply(api, user, [workspace.owner])
    await api.wait_until_idle()
    marked = {CHANNEL: threads_mark(workspace.general)}
    assert api.database["sessions"].count_documents(marked) == 7
    assert (await api.data(workspace.owner, DELETE, id=workspace.general))["deleteChannel"] is True
    contents: Any = workspace.store.channel_removal._contents
    while await contents.remove_some(workspace.general):
        pass
    for name in ("sessions", "members", "messages", "conversations"):
        left = list(api.database[name].find({"$or": [{"_id": {"$regex": "^.*t_"}}, {"c": {"$regex": "^t_"}}]}))
        assert [row for row in left if workspace.general in str(row)] == [], name
    assert await workspace.store.conversations.find(thread.id) is None
    assert await workspace.store.sessions.find(UserId(workspace.member), thread.id) is None
