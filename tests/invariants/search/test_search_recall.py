"""Searches find what a full scan finds: generated messages and queries in many scripts."""

from __future__ import annotations

import os
from random import Random

import pytest

from tests.api.client import Api, gather_all
from tests.api.conftest import OpenApi
from tests.invariants.search.naive_reader import read_all
from tests.invariants.search.queries import Query, random_clauses
from tests.invariants.search.searching import search_all
from tests.invariants.search.tally import Tally
from tests.invariants.search.vocabulary import message_text
from tests.user_ids import private_id

SEED = int(os.environ.get("CONFAB_TEST_SEED", "25"))


async def write_messages(api: Api, random: Random, count: int) -> tuple[str, list[str], list[str]]:
    """Send messages in three conversations. Return a user who reads all, the conversations, and the texts."""
    anna, ben, cleo = await api.create_users("anna", "ben", "cleo")
    groups = [await api.create_group(anna, ben, cleo) for _ in range(2)]
    texts = [message_text(random) for _ in range(count)]
    places = [random.choice((*groups, ben)) for _ in texts]
    for start in range(0, count, 40):
        batch = zip(places[start : start + 40], texts[start : start + 40], strict=True)
        await gather_all(*(api.send(anna, place, text) for place, text in batch))
    return anna, [*groups, private_id(anna, ben)], texts


@pytest.mark.parametrize(
    ("messages", "queries"),
    [pytest.param(600, 100, id="100 queries"), pytest.param(4_000, 1_000, marks=pytest.mark.long, id="1000 queries")],
)
async def test_searches_find_what_a_full_scan_finds(open_api: OpenApi, messages: int, queries: int) -> None:
    random, tally = Random(SEED), Tally()
    async with open_api("recall") as api:
        user, conversations, texts = await write_messages(api, random, messages)
        readable, _ = await read_all(api, user, conversations)
        assert len(readable) == messages
        for _ in range(queries):
            query = Query(random_clauses(random, texts))
            tally.compare(user, query, await search_all(api, user, query.text, None, 100), readable)
        await api.wait_until_idle()
    print(f"\nseed {SEED}, {messages} messages: {tally}")
    tally.expect_no_faults()
    assert tally.results > queries
    assert tally.incomplete == 0
