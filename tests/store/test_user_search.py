"""Searching users in MongoDB: what matches, and that the plans read no more than they return."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pymongo import MongoClient

from store.base.clock import DeploymentClock, SystemClock
from store.base.ids import UserId, is_user_id
from store.build import build_store
from store.mongo.client import Mongo
from store.mongo.collections import USERS
from store.mongo.index_fields import BY_ID, BY_SEARCH_KEY
from store.redis.cache import Cache
from store.scripts import read_scripts
from store.store import Store
from store.users.search_text import SearchQuery, normalize, parse_query, search_fields
from store.users.user import User
from store.users.user_search import IN_ORDER, among_filter, directory_filter

PEOPLE = 100
VIEWER = UserId("viewer")
NAMES = st.text(
    st.sampled_from(
        "aAbß\u00e9 \u0130.-_|\u738b\ud55c\u3131\u304c\u0915\u094d\u093f\u0e21\u0e49\U0001f525\u0301\u200d*$\t"
    ),
    min_size=1,
    max_size=8,
)


@pytest.fixture
async def store(mongo_url: str, mongo_database_name: str, redis_url: str, redis_prefix: str) -> AsyncIterator[Store]:
    """A store with a directory of people: Dora 0 to Dora 99, and as many others."""
    mongo = Mongo(mongo_url, mongo_database_name)
    cache = Cache(redis_url, read_scripts, prefix=redis_prefix)
    built = build_store(mongo, cache, DeploymentClock(SystemClock()), data_center=0, has_directory=True)
    await built.deployment.open()
    for name in ("Dora", "Emil"):
        people = [User(UserId(f"{name}-{n}"), f"{name} {n:03}", None, False) for n in range(PEOPLE)]
        await built.users.upsert_many(people)
    yield built
    await cache.close()
    await mongo.close()


class Explain:
    """Executes finds of one database, and returns what they read."""

    def __init__(self, url: str, database: str) -> None:
        self._url = url
        self._database = database

    def run(self, wanted: Mapping[str, Any], index: Sequence[tuple[str, int]], limit: int) -> tuple[int, int, str]:
        """Return the number of index keys and documents read, and the plan."""
        command = {"find": USERS, "filter": wanted, "sort": dict(IN_ORDER), "limit": limit, "hint": dict(index)}
        with MongoClient[dict[str, Any]](self._url) as client:
            found = client[self._database].command("explain", command, verbosity="executionStats")
        stats = found["executionStats"]
        return stats["totalKeysExamined"], stats["totalDocsExamined"], str(found["queryPlanner"]["winningPlan"])


@pytest.fixture
def explain(mongo_url: str, mongo_database_name: str) -> Explain:
    return Explain(mongo_url, mongo_database_name)


def query_of(text: str) -> SearchQuery:
    query = parse_query(text)
    assert query is not None
    return query


async def test_a_page_of_the_directory_reads_only_its_own_entries(store: Store, explain: Explain) -> None:
    later = "dora 050\tDora-50"
    for text, after in (("d", None), ("dora", None), ("dora 0", None), ("do", later), ("dora 010", None)):
        keys, documents, plan = explain.run(directory_filter([VIEWER], query_of(text), after), BY_SEARCH_KEY, 10)
        # The form of a name and the form of an id take an entry more each.
        assert documents <= 11
        assert keys <= 14
        assert "'stage': 'SORT'" not in plan
        assert "COLLSCAN" not in plan
    # A text of 7 characters: of 200 people, those with the same first 6 are compared.
    keys, documents, _ = explain.run(directory_filter([VIEWER], query_of("dora 09"), None), BY_SEARCH_KEY, 10)
    assert 10 <= documents <= 100
    assert keys <= 110


async def test_a_search_among_people_reads_only_those(store: Store, explain: Explain) -> None:
    partners = [UserId(f"Dora-{n}") for n in range(20)]
    for after in (None, "dora 005\tDora-5"):
        keys, documents, plan = explain.run(among_filter(partners, query_of("dora"), after), BY_ID, 10)
        assert documents <= 20
        assert keys <= 41
        assert "COLLSCAN" not in plan


async def test_results_among_very_many_people_are_merged(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("store.users.user_search._USERS_PER_READ", 7)
    partners = [UserId(f"Dora-{n}") for n in range(50)]
    found: list[UserId] = []
    after = None
    while True:
        page = await store.user_search.find_among(partners, query_of("dora"), after, 9)
        found += [item.user.id for item in page.found]
        if not page.has_more:
            break
        after = page.found[-1].position
    assert found == partners


@settings(max_examples=60)
@given(name=NAMES, user=NAMES.filter(is_user_id), text=NAMES)
def test_both_ways_of_searching_find_the_same_people(name: str, user: str, text: str) -> None:
    query = parse_query(text)
    fields = search_fields(name, user, has_directory=True)
    if query is None:
        return
    is_proposed = any(key in fields["k"] for key in query.keys)
    is_found = is_proposed if query.has_exact_keys else is_proposed and query.matches(name, user)
    assert is_found == query.matches(name, user)


@given(NAMES, NAMES)
def test_every_beginning_at_a_word_matches(name: str, user: str) -> None:
    normalized = normalize(name)
    assert normalize(normalized) == normalized
    words = normalized.split(" ")
    for first in range(len(words)):
        rest = " ".join(words[first:])
        for end in range(1, len(rest) + 1):
            query = parse_query(rest[:end])
            assert query is None or query.matches(name, user)
