"""Locks: moderators and the sender of the parent message lock a thread, and write in it while it is locked."""

from __future__ import annotations

from store.workspaces.permissions import Permission
from tests.api.client import Api, Json, Refusal
from tests.api.sample_channels import create_sample_channels
from tests.api.sample_group import create_sample_group
from tests.api.threads.calls import LOCK, find_thread, thread_of


async def lock(api: Api, user: str, thread: str, on: bool = True) -> Json:
    locked: Json = (await api.data(user, LOCK, id=thread, on=on))["lockThread"]
    return locked


async def expect_locked(api: Api, user: str, message: Json) -> None:
    """Check that a user is refused in both forms, and that nothing is stored."""
    before = await api.stored_hashes()
    refusal = await api.expect_send_refusal(user, thread_of(message))
    assert refusal == Refusal("FORBIDDEN", "conversationId")
    assert await api.expect_send_refusal(user, message["id"]) == Refusal("FORBIDDEN", "threadOf")
    assert await api.expect_refusal(user, LOCK, id=thread_of(message)) == Refusal("FORBIDDEN", "threadId")
    assert await api.stored_hashes() == before


async def test_in_a_group_the_owner_admins_and_the_sender_of_the_message_lock_a_thread(api: Api) -> None:
    sample = await create_sample_group(api)
    parent = (await api.send(sample.member, sample.group, "parent"))["message"]
    thread = thread_of(parent)
    await api.send(sample.other_member, parent["id"], "reply")
    for user in (sample.member, sample.admin, sample.owner):
        assert (await lock(api, user, thread))["isLocked"] is True
        await expect_locked(api, sample.other_member, parent)
        for writer in (sample.member, sample.admin, sample.owner):
            await api.send(writer, thread, "may write")
            await api.send(writer, parent["id"], "may write")
        assert (await lock(api, user, thread, on=False))["isLocked"] is False
        await api.send(sample.other_member, thread, "may write again")
    before = await api.stored_hashes()
    for user, code in ((sample.outsider, "NOT_FOUND"), (sample.left, "NOT_FOUND"), (sample.other_member, "FORBIDDEN")):
        for on in (True, False):
            assert await api.expect_refusal(user, LOCK, id=thread, on=on) == Refusal(code, "threadId")
    await lock(api, sample.owner, thread, on=False)
    assert await api.stored_hashes() == before
    await api.leave(sample.member, sample.group)
    assert await api.expect_refusal(sample.member, LOCK, id=thread) == Refusal("NOT_A_MEMBER", "threadId")


async def test_in_a_private_conversation_only_the_sender_of_the_message_locks_a_thread(api: Api) -> None:
    anna, ben = await api.create_users("anna", "ben")
    parent = (await api.send(anna, ben, "parent"))["message"]
    await api.send(ben, parent["id"], "reply")
    before = await api.stored_hashes()
    assert await api.expect_refusal(ben, LOCK, id=thread_of(parent)) == Refusal("FORBIDDEN", "threadId")
    assert await api.stored_hashes() == before
    await lock(api, anna, thread_of(parent))
    await expect_locked(api, ben, parent)
    found = await find_thread(api, ben, thread_of(parent))
    assert found is not None and found["isLocked"] is True
    await api.send(anna, parent["id"], "may write")


async def test_in_a_channel_a_lock_needs_manage_threads_or_the_sender_of_the_message(api: Api) -> None:
    sample = await create_sample_channels(api)
    parent = (await api.send(sample.member, sample.general, "parent"))["message"]
    await api.send(sample.other, parent["id"], "reply")
    thread = thread_of(parent)
    for user in (sample.member, sample.owner):
        await lock(api, user, thread)
        await expect_locked(api, sample.other, parent)
        await api.send(user, thread, "may write")
        await lock(api, user, thread, on=False)
    await sample.change_channel(sample.general, is_archived=True)
    before = await api.stored_hashes()
    for user in (sample.member, sample.owner):
        assert await api.expect_refusal(user, LOCK, id=thread) == Refusal("ARCHIVED", "threadId")
    assert await api.stored_hashes() == before


async def test_replying_needs_send_threads_and_beginning_create_threads_as_well(api: Api) -> None:
    sample = await create_sample_channels(api)
    begun, other = [(await api.send(sample.member, sample.general, text))["message"] for text in ("one", "two")]
    await api.send(sample.member, begun["id"], "reply")
    await sample.overwrite(sample.general, sample.other, Permission.CREATE_THREADS)
    await api.send(sample.other, begun["id"], "may reply")
    before = await api.stored_hashes()
    assert await api.expect_send_refusal(sample.other, other["id"]) == Refusal("FORBIDDEN", "threadOf")
    assert await find_thread(api, sample.other, thread_of(other)) is None
    await sample.overwrite(sample.general, sample.other, Permission.SEND_THREADS)
    before = await api.stored_hashes()
    assert await api.expect_send_refusal(sample.other, begun["id"]) == Refusal("FORBIDDEN", "threadOf")
    assert await api.expect_send_refusal(sample.other, thread_of(begun)) == Refusal("FORBIDDEN", "conversationId")
    assert await api.stored_hashes() == before
