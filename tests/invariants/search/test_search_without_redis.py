"""While Redis is away, searches find everything or say that they are incomplete."""

from __future__ import annotations

import asyncio

from tests.api.client import Api
from tests.invariants.search.searching import Found, search_all
from tests.invariants.two_servers import TwoServers

PATIENCE_SECONDS = 60.0


async def search_until_complete(api: Api, user: str, query: str, expected: set[str]) -> Found:
    """Search until it is complete. Each complete search must have found the expected messages."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            found = await search_all(api, user, query, first=100)
            assert set(found.ids) <= expected
            if found.complete:
                assert set(found.ids) == expected
                return found
            await api.services.housekeeper.check_redis()
            await asyncio.sleep(0.05)


async def test_messages_sent_while_redis_is_away_are_found_or_known_to_be_missing(deployment: TwoServers) -> None:
    one, other = deployment.one, deployment.other
    anna, ben, cleo = await one.create_users("anna", "ben", "cleo")
    group = await one.create_group(anna, ben, cleo)
    sent = {(await one.send(anna, group, f"needle {number}"))["message"]["id"] for number in range(5)}
    await search_until_complete(other, ben, "needle", sent)
    await deployment.lose_redis()
    for number in range(5):
        sent.add((await one.send(anna, group, f"needle away {number}"))["message"]["id"])
        for api in (one, other):
            found = await search_all(api, ben, "needle", first=100)
            assert set(found.ids) <= sent
            assert not found.complete or set(found.ids) == sent
    await deployment.bring_redis_back()
    for api in (other, one):
        await search_until_complete(api, ben, "needle", sent)
    last = (await other.send(anna, group, "needle back"))["message"]["id"]
    await search_until_complete(one, cleo, "needle", sent | {last})
