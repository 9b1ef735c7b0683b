"""I6: searches return what a naive reader could read at that moment, and nothing else."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from random import Random

import pytest

from tests.api.client import Api, Json, Refusal, gather_all
from tests.api.conftest import OpenApi
from tests.invariants.search.naive_reader import Readable, read_all
from tests.invariants.search.queries import Query, random_clauses
from tests.invariants.search.searching import SEARCH, search_all
from tests.invariants.search.tally import Tally
from tests.invariants.search.world import World

SEED = int(os.environ.get("CONFAB_TEST_SEED", "25"))


def random_filter(random: Random, world: World, readable: dict[str, Readable], visible: set[str]) -> Json:
    """Return a filter, often none. It names conversations that the user can see, and at times others."""
    found: Json = {}
    chance = random.random()
    if chance < 0.5:
        places = world.conversations if random.random() < 0.1 else sorted(visible)
        count = random.choice((1, 3, len(places)))
        found["conversationIds"] = random.sample(places, min(count, len(places), 100))
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
    readable, visible = await read_all(api, user, world.conversations)
    own = [message.node["content"] for message in readable.values() if message.node["content"]]
    for _ in range(searches):
        # At times a text of messages that the user cannot read.
        texts = own if random.random() < 0.7 else world.texts
        query = Query(random_clauses(random, texts), random_filter(random, world, readable, visible))
        hidden = set(query.filter.get("conversationIds", ())) - visible
        is_outside = "workspaceId" in query.filter and not await is_member(api, user, world.workspace)
        if hidden or is_outside:
            refused = await api.expect_refusal(user, SEARCH, query=query.text, filter=query.filter)
            assert refused == Refusal("NOT_FOUND", "conversationIds" if hidden else "workspaceId")
            tally.refused += 1
            continue
        found = await search_all(api, user, query.text, query.filter, random.randint(1, 5))
        tally.compare(user, query, found, readable, world.workspace)


async def is_member(api: Api, user: str, workspace: str) -> bool:
    answer = await api.data(user, "query ($id: ID!) { workspace(id: $id) { viewer { joinedAt } } }", id=workspace)
    return answer["workspace"] is not None and answer["workspace"]["viewer"] is not None


@pytest.mark.parametrize(
    ("worlds", "rounds"),
    [pytest.param(2, 40, id="short"), pytest.param(8, 100, marks=pytest.mark.long, id="long")],
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
    assert tally.results > tally.queries / 4
    assert tally.incomplete < tally.queries / 20
