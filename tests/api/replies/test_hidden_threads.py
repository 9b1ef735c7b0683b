"""Followed threads whose channel the user cannot see any more: they are hidden at once, and devices learn it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from store.workspaces.permissions import Permission
from tests.api.channels.session_calls import ATTENTION, LIVE, REMOVE, change
from tests.api.client import Api, Json
from tests.api.events import current_cursor
from tests.api.pins.calls import pin
from tests.api.reactions.calls import react
from tests.api.sample_channels import SampleChannels, create_sample_channels
from tests.api.threads.calls import LOCK
from tests.api.threads.test_following_threads import follow
from tests.api.threads.test_threads_inbox import forget
from tests.api.workspaces.role_calls import overwrite

PARENT = """id conversationId seq contentType content metadata state mentionsAll editCount editedAt recalledAt createdAt
    isPinned sender { id } authorName recalledBy { id } mentions { id } replyTo { id } delivery { status }
    receipts { edges { cursor } } reactions { emoji } thread { id }"""
THREAD = f"""id type title replyCount participantCount participants {{ id }} lastReplyAt followerCount isLocked
    lastMessage {{ id }} parent {{ {PARENT} }}"""
SYNC = f"""query ($since: Cursor) {{ syncSessions(since: $since) {{ totalUnread sessions {{
    status unreadCount unreadMentionCount lastMessage {{ id }}
    conversation {{ id title ... on Thread {{ {THREAD} }} }} }} }} }}"""


async def synchronise(api: Api, user: str, thread: str, since: str | None) -> tuple[Json, int]:
    """Return the session of a thread and the number of unread messages."""
    delta = (await api.data(user, SYNC, since=since))["syncSessions"]
    (session,) = [each for each in delta["sessions"] if each["conversation"]["id"] == thread]
    return session, delta["totalUnread"]


@pytest.fixture
async def sample(api: Api) -> SampleChannels:
    """A workspace in which the moderator may remove members from the PRIVATE channel."""
    made = await create_sample_channels(api)
    moderator = made.policy.roles[made.moderator_role]
    moderator = replace(
        moderator, permissions=moderator.permissions | Permission.INVITE_MEMBERS | Permission.PIN_MESSAGES
    )
    await made.change(replace(made.policy, roles={**made.policy.roles, moderator.id: moderator}))
    return made


async def hide(api: Api, sample: SampleChannels, channel: str) -> None:
    """Take the channel away from `member`: by an overwrite, or from the PRIVATE channel by removing them."""
    if channel == sample.staff:
        await change(api, sample.moderator, REMOVE, id=channel, user=sample.member)
    else:
        await overwrite(api, sample.owner, channel=channel, user=sample.member, deny=["VIEW_CHANNEL"])


@pytest.mark.parametrize("name", ["general", "staff"])
@pytest.mark.parametrize("is_cached", [True, False], ids=["cached", "loaded"])
async def test_devices_synchronise_hidden_threads(
    api: Api, other_api: Api, sample: SampleChannels, name: str, is_cached: bool
) -> None:
    user, channel = sample.member, getattr(sample, name)
    parent = (await api.send(sample.moderator, channel, "the parent", mentions=[user]))["message"]
    thread = (await api.send(sample.moderator, parent["id"], "reply"))["message"]["conversationId"]
    await follow(api, user, thread)
    await api.send(sample.moderator, thread, "second", mentions=[user])
    since = await current_cursor(api, user)
    await hide(api, sample, channel)
    await api.edit(sample.moderator, parent["id"], "edited since")
    await react(api, sample.moderator, parent["id"])
    await pin(api, sample.moderator, parent["id"])
    await api.send(sample.moderator, thread, "third")
    await change(api, sample.moderator, LOCK, id=thread)
    if not is_cached:
        await forget(api, user)
    session, total = await synchronise(other_api, user, thread, since)
    shown = session["conversation"]
    assert (total, session["status"], session["unreadCount"], session["unreadMentionCount"]) == (0, "INVALID", 0, 0)
    assert session["lastMessage"] is None and shown.pop("parent") == {
        "id": parent["id"],
        "conversationId": channel,
        "seq": parent["seq"],
        "contentType": "TEXT",
        "content": None,
        "metadata": None,
        "state": "RECALLED",
        "mentionsAll": False,
        "editCount": 0,
        "editedAt": None,
        "recalledAt": parent["createdAt"],
        "createdAt": parent["createdAt"],
        "isPinned": False,
        "sender": {"id": sample.moderator},
        "authorName": sample.moderator,
        "recalledBy": None,
        "mentions": [],
        "replyTo": None,
        "delivery": None,
        "receipts": None,
        "reactions": [],
        "thread": None,
    }
    assert shown == {
        "id": thread,
        "type": "THREAD",
        "title": "Thread",
        "replyCount": 0,
        "participantCount": 0,
        "participants": [],
        "lastReplyAt": None,
        "followerCount": 0,
        "isLocked": False,
        "lastMessage": None,
    }


async def test_who_is_removed_from_a_private_channel_loses_its_threads_at_once(
    api: Api, sample: SampleChannels
) -> None:
    user = sample.member
    parent = (await api.send(sample.moderator, sample.staff, "parent"))["message"]
    thread = (await api.send(sample.moderator, parent["id"], "reply"))["message"]["conversationId"]
    await follow(api, user, thread)
    await api.send(sample.moderator, thread, "unread", mentions=[user])
    badge = await api.data(user, ATTENTION)
    assert badge == {"attention": {"unread": 1, "mentions": 1, "threads": 1}, "totalUnread": 1}
    sessions, messages = await api.listen(user, LIVE), await api.listen(user)
    await hide(api, sample, sample.staff)
    # Before anything else happens: the removal is answered when its threads are hidden.
    assert await api.data(user, ATTENTION) == {
        "attention": {"unread": 0, "mentions": 0, "threads": 0},
        "totalUnread": 0,
    }
    assert await api.sessions(user, sub_biz="@threads") == []
    seen = [session for session in (await sessions.next())["sessions"] if session["conversation"]["id"] == thread]
    assert [session["status"] for session in seen] == ["INVALID"]
    await api.send(sample.moderator, thread, "not for you")
    await api.edit(sample.moderator, parent["id"], "nor this")
    await messages.expect_no_event()
    await forget(api, user)
    assert (await api.data(user, ATTENTION))["totalUnread"] == 0
    assert await api.sessions(user, sub_biz="@threads") == []
