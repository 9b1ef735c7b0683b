"""Reactions while Redis is unavailable, and once it is back."""

from __future__ import annotations

import asyncio

from tests.api.reactions.calls import ADD, REACTIONS, check_summaries, react, reactions_of, shown
from tests.invariants.two_servers import TwoServers


async def test_without_redis_reactions_are_counted_on_every_server(deployment: TwoServers) -> None:
    one, other = deployment.one, deployment.other
    users = await one.create_users(*(f"u{number}" for number in range(8)))
    group = await one.create_group(*users)
    sent = (await one.send(users[0], group))["message"]["id"]
    await react(one, users[0], sent)
    await deployment.lose_redis()
    await asyncio.gather(*(react((one, other)[i % 2], user, sent) for i, user in enumerate(users * 2)))
    last = f"query ($id: ID!) {{ group(id: $id) {{ lastMessage {{ {REACTIONS} }} }} }}"
    for is_back in (False, True):
        if is_back:
            await deployment.bring_redis_back()
        for api in (one, other):
            assert await reactions_of(api, users[0], sent) == [("👍", 8, True)]
            assert shown((await api.data(users[1], last, id=group))["group"]["lastMessage"]) == [("👍", 8, True)]
    await deployment.lose_redis()
    await one.leave(users[7], group)
    assert (await other.expect_refusal(users[7], ADD, id=sent, emoji="🎉")).code == "NOT_A_MEMBER"
    check_summaries(one)
