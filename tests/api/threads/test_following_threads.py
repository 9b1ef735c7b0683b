"""Following threads: who follows by replying, by being mentioned, by asking for it, and who does not."""

from __future__ import annotations

import pytest

from store.base.ids import ConversationId
from store.conversations.conversation_fields import MAX_FOLLOWERS
from store.redis.cache import Call
from store.workspaces.permissions import Permission
from tests.api.client import Api, Json, Refusal
from tests.api.sample_channels import create_sample_channels
from tests.api.sample_group import SampleGroup, create_sample_group
from tests.api.threads.calls import FOLLOW, find_thread, thread_of


async def follow(api: Api, user: str, thread: str, on: bool = True) -> Json:
    followed: Json = (await api.data(user, FOLLOW, id=thread, on=on))["followThread"]
    return followed


async def is_following(api: Api, user: str, thread: str) -> bool:
    found = await find_thread(api, user, thread)
    assert found is not None
    follows: bool = found["viewerFollows"]
    return follows


@pytest.fixture
async def sample(api: Api) -> SampleGroup:
    return await create_sample_group(api)


async def start_thread(api: Api, sample: SampleGroup, message: str | None = None) -> str:
    reply = await api.send(sample.member, message or sample.message, "first")
    thread: str = reply["message"]["conversationId"]
    return thread


async def test_users_who_reply_or_are_mentioned_follow_unless_they_have_unfollowed(
    api: Api, sample: SampleGroup
) -> None:
    thread = await start_thread(api, sample)
    await api.send(sample.owner, thread, "and you?", mentions=[sample.admin])
    assert [await is_following(api, user, thread) for user in (sample.member, sample.owner, sample.admin)] == [True] * 3
    assert not await is_following(api, sample.other_member, thread)
    assert (await follow(api, sample.admin, thread, on=False))["followerCount"] == 2
    await api.send(sample.owner, thread, "and now?", mentions=[sample.admin])
    await api.send(sample.admin, thread, "I do not follow")
    assert not await is_following(api, sample.admin, thread)
    assert (await follow(api, sample.admin, thread))["followerCount"] == 3
    assert await is_following(api, sample.admin, thread)


async def test_repeating_changes_nothing_and_sends_nothing(api: Api, sample: SampleGroup) -> None:
    thread = await start_thread(api, sample)
    await follow(api, sample.owner, thread)
    await follow(api, sample.admin, thread)
    await follow(api, sample.admin, thread, on=False)
    before = await api.stored_hashes()
    devices = [await api.listen(user) for user in (sample.owner, sample.admin)]
    await follow(api, sample.owner, thread)
    await follow(api, sample.admin, thread, on=False)
    await follow(api, sample.other_member, thread, on=False)
    assert await api.stored_hashes() == before
    for device in devices:
        await device.expect_no_event()


async def test_only_people_who_see_a_thread_now_may_follow_it(api: Api, sample: SampleGroup) -> None:
    thread = await start_thread(api, sample)
    unknown = f"t_1_{sample.group}0"
    before = await api.stored_hashes()
    for user, wanted, code in (
        (sample.left, thread, "NOT_FOUND"),
        (sample.outsider, thread, "NOT_FOUND"),
        (sample.owner, unknown, "NOT_FOUND"),
        (sample.owner, sample.group, "NOT_FOUND"),
        (sample.owner, "t_", "NOT_FOUND"),
    ):
        for on in (True, False):
            assert await api.expect_refusal(user, FOLLOW, id=wanted, on=on) == Refusal(code, "threadId"), (user, wanted)
    assert await api.stored_hashes() == before
    await api.leave(sample.other_member, sample.group)
    before = await api.stored_hashes()
    refusal = await api.expect_refusal(sample.other_member, FOLLOW, id=thread)
    assert refusal == Refusal("NOT_A_MEMBER", "threadId")
    assert await api.stored_hashes() == before


async def test_the_follower_beyond_the_limit_is_refused_and_replies_without_following(
    api: Api, sample: SampleGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    thread = await start_thread(api, sample)
    store = api.services.app.store
    # One follower is real.
    head = store.keys.conversation(ConversationId(thread))[0]
    await api.wait_until_idle()
    await store.cache.one(Call("HSET", (head,), ("mc", MAX_FOLLOWERS)))
    before = await api.stored_hashes()
    assert await api.expect_refusal(sample.owner, FOLLOW, id=thread) == Refusal("LIMIT_REACHED", "threadId")
    assert await api.stored_hashes() == before
    sent = await api.send(sample.owner, thread, "reply", mentions=[sample.admin])
    assert sent["session"]["readSeq"] == sent["message"]["seq"]
    assert not await is_following(api, sample.owner, thread) and not await is_following(api, sample.admin, thread)
    assert await is_following(api, sample.member, thread)


async def test_threads_of_archived_channels_get_no_new_followers(api: Api) -> None:
    sample = await create_sample_channels(api)
    parent = (await api.send(sample.member, sample.general, "parent"))["message"]
    thread = thread_of(parent)
    await api.send(sample.member, parent["id"], "reply")
    await follow(api, sample.other, thread)
    await sample.change_channel(sample.general, is_archived=True)
    before = await api.stored_hashes()
    assert await api.expect_refusal(sample.moderator, FOLLOW, id=thread) == Refusal("ARCHIVED", "threadId")
    assert await api.expect_send_refusal(sample.member, thread) == Refusal("ARCHIVED", "conversationId")
    assert await api.expect_send_refusal(sample.member, parent["id"]) == Refusal("ARCHIVED", "threadOf")
    await follow(api, sample.other, thread)
    assert await api.stored_hashes() == before
    assert (await follow(api, sample.other, thread, on=False))["followerCount"] == 1


async def test_only_people_who_see_a_channel_may_follow_its_threads(api: Api) -> None:
    sample = await create_sample_channels(api)
    parent = (await api.send(sample.member, sample.general, "parent"))["message"]
    thread = thread_of(parent)
    await api.send(sample.member, parent["id"], "reply")
    await sample.overwrite(sample.general, sample.other, Permission.VIEW_CHANNEL)
    before = await api.stored_hashes()
    for user in (sample.other, sample.outsider):
        assert await api.expect_refusal(user, FOLLOW, id=thread) == Refusal("NOT_FOUND", "threadId")
    assert await api.stored_hashes() == before
