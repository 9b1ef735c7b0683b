"""Sessions of threads: the cached state stays the one that a load from MongoDB gives."""

from __future__ import annotations

from tests.api.client import Api
from tests.api.sample_group import create_sample_group
from tests.api.threads.test_following_threads import follow, start_thread
from tests.api.threads.test_threads_inbox import forget
from tests.checking import find_differences


async def test_the_cached_state_equals_a_loaded_one_after_each_change_of_following(api: Api) -> None:
    sample = await create_sample_group(api)
    thread = await start_thread(api, sample)
    user = sample.member

    async def check() -> None:
        await api.wait_until_idle()
        assert await find_differences(api.services.app.store) == []

    await follow(api, user, thread, on=False)
    await check()
    await api.set_unread(user, thread)
    await check()
    await follow(api, user, thread)
    await api.set_unread(user, thread)
    await follow(api, user, thread, on=False)
    await api.send(sample.owner, thread, "for you", mentions=[user])
    await check()


async def test_replies_while_a_follower_was_away_from_the_group_do_not_count(api: Api) -> None:
    sample = await create_sample_group(api)
    thread = await start_thread(api, sample)
    user = sample.other_member
    await follow(api, user, thread)
    await api.send(sample.member, thread, "before")
    await api.leave(user, sample.group)
    await api.send(sample.member, thread, "between")
    await api.invite(sample.owner, sample.group, user)
    for number in range(3):
        for loads in (False, True):
            if loads:
                await forget(api, user)
            session = await api.own_session(user, thread)
            visible = [m for m in await api.history(user, thread) if m["seq"] > session["readSeq"]]
            assert (session["unreadCount"], len(visible)) == (number, number)
        await api.send(sample.member, thread, "after")
    await api.wait_until_idle()
    assert await find_differences(api.services.app.store) == []
