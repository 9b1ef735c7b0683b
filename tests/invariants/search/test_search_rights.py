"""I6: searches return what a naive reader could read at that moment, and nothing else."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from random import Random

import pytest

from tests.api.client import Api, Json, gather_all
from tests.api.conftest import OpenApi
from tests.invariants.search.naive_reader import Readable, read_all
from tests.invariants.search.queries import Query, random_clauses
from tests.invariants.search.searching import search_all
from tests.invariants.search.tally import Tally
from tests.invariants.search.world import World

SEED = int(os.environ.get("CONFAB_TEST_SEED", "25"))


def random_filter(random: Random, world: World, readable: dict[str, Readable]) -> Json:
    """Return a filter, often none. It names conversations that the user can read, and others."""
    found: Json = {}
    chance = random.random()
    if chance < 0.5:
        count = random.choice((1, 3, len(world.conversations)))
        found["conversationIds"] = random.sample(world.conversations, min(count, len(world.conversations), 100))
    elif chance < 0.6:
        found["workspaceId"] = world.workspace
    if random.random() < 0.25:
        times = [message.node["createdAt"] for message in readable.values()]
        times.append(datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"))
        choices: list[Json] = [
            {"senderIds": random.sample(world.users, random.randint(1, 3))},
            {"mentionsMe": True},
            {"after": random.choice(times)},
            {"before": random.choice(times)},
            {"has": [random.choice(("LINK", "IMAGE", "FILE", "VIDEO"))]},
            {"pinned": True},
            {"inThreads": random.random() < 0.5},
        ]
        found |= random.choice(choices)
    return found


async def compare_user(api: Api, random: Random, world: World, user: str, searches: int, tally: Tally) -> None:
    """Let a user search, and compare the answers with what the user can read now."""
    readable = await read_all(api, user, world.conversations)
    for _ in range(searches):
        query = Query(random_clauses(random, world.texts), random_filter(random, world, readable))
        found = await search_all(api, user, query.text, query.filter, random.randint(1, 5))
        tally.compare(user, query, found, readable, world.workspace)


@pytest.mark.parametrize(
    ("worlds", "rounds"),
    [pytest.param(2, 40, id="short"), pytest.param(20, 150, marks=pytest.mark.long, id="long")],
)
async def test_searches_find_what_a_naive_reader_finds(open_api: OpenApi, worlds: int, rounds: int) -> None:
    tally = Tally()
    for number in range(worlds):
        random = Random(f"{SEED} {number}")
        async with open_api("rights") as one, open_api("rights") as other:
            servers = (one, other)
            world = await World.create(one, random)
            for _ in range(rounds):
                for _ in range(random.randint(1, 12)):
                    await world.step(random.choice(servers))
                for user in random.sample(world.users, 2):
                    await compare_user(random.choice(servers), random, world, user, 5, tally)
            await gather_all(*(api.wait_until_idle() for api in servers))
            print(f"\nworld {number}, seed {SEED}: {world.done.total()} operations, {world.refused.total()} refused")
    print(tally)
    tally.expect_no_faults()
    assert tally.results > 5 * worlds * rounds
    assert tally.incomplete < tally.queries / 20
