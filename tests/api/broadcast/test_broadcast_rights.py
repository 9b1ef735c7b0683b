"""Rights to broadcast a reply, and what is refused without any change."""

from __future__ import annotations

import pytest

from store.workspaces.permissions import Permission
from tests.api.broadcast.calls import broadcast, expect_same, find
from tests.api.client import EDIT, RECALL, SEND, Api, Refusal, message_input
from tests.api.reactions.calls import ADD, react, reactors_of
from tests.api.sample_channels import SampleChannels, create_sample_channels
from tests.api.threads.calls import thread_of
from tests.api.threads.live_calls import ThreadPlace, make_thread
from tests.api.threads.test_replying import expect_nothing


@pytest.fixture
async def workspace(api: Api) -> SampleChannels:
    return await create_sample_channels(api)


async def thread_in(api: Api, workspace: SampleChannels) -> ThreadPlace:
    parent = (await api.send(workspace.other, workspace.general, "parent"))["message"]
    await api.send(workspace.member, parent["id"], "first")
    return ThreadPlace(workspace.other, workspace.member, workspace.moderator, parent, thread_of(parent))


async def test_broadcast_needs_thread_of(api: Api) -> None:
    place = await make_thread(api, "group")
    for to in (place.conversation, place.id, place.first):
        input = message_input(to, "x", broadcast=True)
        await expect_nothing(api, place.second, input, "INVALID_INPUT", "broadcast")


async def test_a_broadcast_needs_the_rights_of_the_channel_too(api: Api, workspace: SampleChannels) -> None:
    place = await thread_in(api, workspace)
    input = {"threadOf": place.parent["id"], "content": "x", "broadcast": True}
    for permission in (Permission.SEND_MESSAGES, Permission.SEND_THREADS):
        await workspace.overwrite(workspace.general, workspace.member, permission)
        await expect_nothing(api, workspace.member, input, "FORBIDDEN", "threadOf")
    await workspace.change_channel(workspace.general, is_archived=True)
    await expect_nothing(api, workspace.member, input, "ARCHIVED", "threadOf")
    await expect_nothing(api, workspace.outsider, input, "NOT_FOUND", "threadOf")


async def test_rights_that_end_before_the_place_is_given_count(
    api: Api, workspace: SampleChannels, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = await thread_in(api, workspace)
    reserve = api.services.app.store.outbox.reserve_reply

    async def after_a_change(*args: object, **options: object) -> object:
        monkeypatch.undo()
        await workspace.overwrite(workspace.general, workspace.member, Permission.SEND_MESSAGES)
        return await reserve(*args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(api.services.app.store.outbox, "reserve_reply", after_a_change)
    input = {"threadOf": place.parent["id"], "content": "x", "broadcast": True}
    assert await api.expect_refusal(workspace.member, SEND, input=input) == Refusal("FORBIDDEN", "threadOf")
    assert [m["content"] for m in await api.history(workspace.other, workspace.general)] == ["parent"]
    assert [m["content"] for m in await api.history(workspace.other, place.id)] == ["first"]


async def test_slow_mode_counts_copies_and_no_replies(api: Api, workspace: SampleChannels) -> None:
    place = await thread_in(api, workspace)
    await workspace.change_channel(workspace.general, slow_mode_seconds=3600)
    await api.send(workspace.member, place.parent["id"], "reply")
    input = {"threadOf": place.parent["id"], "content": "both", "broadcast": True, "idempotencyKey": "k"}
    first = (await api.data(workspace.member, SEND, input=input))["sendMessage"]
    again = (await api.data(workspace.member, SEND, input=input))["sendMessage"]
    assert (first["replayed"], again["replayed"]) == (False, True)
    before = await api.stored_hashes()
    for other in ({"threadOf": place.parent["id"], "broadcast": True}, {"conversationId": workspace.general}):
        refusal = await api.expect_refusal(workspace.member, SEND, input={"content": "x"} | other)
        assert refusal.code == "SLOW_MODE"
    assert await api.stored_hashes() == before
    await api.send(workspace.member, place.parent["id"], "reply")
    await api.send(workspace.moderator, place.parent["id"], "by the moderator", broadcast=True)


async def test_a_locked_thread_takes_no_broadcast(api: Api) -> None:
    place = await make_thread(api, "group")
    await api.data(place.first, "mutation ($id: ID!) { lockThread(threadId: $id) { id } }", id=place.id)
    input = {"threadOf": place.parent["id"], "content": "x", "broadcast": True}
    await expect_nothing(api, place.second, input, "FORBIDDEN", "threadOf")


async def test_the_copy_has_the_rights_of_the_reply(api: Api, workspace: SampleChannels) -> None:
    place = await thread_in(api, workspace)
    made = await broadcast(api, workspace.member, place)
    before = await api.stored_hashes()
    for user, query, more, code in (
        (workspace.other, EDIT, {"content": "x"}, "FORBIDDEN"),
        (workspace.moderator, EDIT, {"content": "x"}, "FORBIDDEN"),
        (workspace.other, RECALL, {}, "FORBIDDEN"),
        (workspace.outsider, EDIT, {"content": "x"}, "NOT_FOUND"),
        (workspace.outsider, RECALL, {}, "NOT_FOUND"),
        (workspace.outsider, ADD, {"emoji": "👍"}, "NOT_FOUND"),
    ):
        refusal = await api.expect_refusal(user, query, id=made.copy["id"], **more)
        assert refusal == Refusal(code, "messageId")
    assert await api.stored_hashes() == before
    assert (await api.data(workspace.moderator, RECALL, id=made.copy["id"]))["recallMessage"]["state"] == "RECALLED"
    assert (await find(api, workspace.other, made.reply["id"]))["state"] == "RECALLED"


async def test_who_joins_later_sees_neither(api: Api) -> None:
    place = await make_thread(api, "group")
    made = await broadcast(api, place.second, place)
    (late,) = await api.create_users("late")
    await api.invite(place.first, place.conversation, late)
    for message in (made.copy, made.reply):
        assert await find(api, late, message["id"]) is None
        refusal = await api.expect_refusal(late, ADD, id=message["id"], emoji="👍")
        assert refusal == Refusal("NOT_FOUND", "messageId")


async def test_who_joined_after_the_parent_message_sees_the_copy_alone(api: Api) -> None:
    place = await make_thread(api, "group")
    (late,) = await api.create_users("late")
    await api.invite(place.first, place.conversation, late)
    made = await broadcast(api, place.second, place)
    found = await find(api, late, made.copy["id"])
    # The thread is readable if its parent message is.
    assert (found["content"], found["broadcastOf"], found["thread"]) == ("both", None, None)
    assert await react(api, late, made.copy["id"]) == [("👍", 1, True)]
    assert await reactors_of(api, late, made.copy["id"]) == [late]
    await expect_same(api, place.third, made)
    await api.set_role(place.first, place.conversation, late, "ADMIN")
    assert (await api.recall(late, made.copy["id"]))["state"] == "RECALLED"
    await expect_same(api, place.third, made, state="RECALLED")
