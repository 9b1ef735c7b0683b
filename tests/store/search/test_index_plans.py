"""Plans of MongoDB for searches: they read few keys, and sort nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest
from pymongo import MongoClient

from store.base.errors import TimeLimit
from store.base.ids import ConversationId, MessageId
from store.mongo.collections import SEARCH
from store.search import mongo_search_index
from store.search.index_queries import (
    MOST_CONVERSATIONS,
    IndexQuery,
    beginning_query,
    newest_query,
    overlapping_query,
)
from store.search.index_rows import IndexedMessage
from store.search.mongo_search_index import MongoSearchIndex
from store.search.search_index import SearchCriteria, TooSlow
from store.store import Store

MESSAGES = 8_000
LIMIT = 25
CONVERSATIONS = [ConversationId(f"g_{number}") for number in range(1_000)]


class Plan(NamedTuple):
    """A plan, and the number of index keys and rows that it reads and of rows that it finds."""

    stages: str
    keys: int
    rows: int
    found: int


@pytest.fixture
async def index(store: Store) -> MongoSearchIndex:
    """An index with eight rows in each of 1,000 conversations. Each tenth message has the word "tenth"."""
    index = MongoSearchIndex(store.mongo)
    every = ("all", "allow", "\x01salice")
    for start in range(0, MESSAGES, 1_000):
        messages = [
            IndexedMessage(
                MessageId(number + 1),
                CONVERSATIONS[number % 1_000],
                number,
                {*every, f"word{number}", *(["tenth"] if number // 7 % 10 == 0 else [])},
            )
            for number in range(start, start + 1_000)
        ]
        await index.index_terms(messages, 0)
    return index


def wanted(
    *terms: str, beginning: str = "", any_of: Sequence[Sequence[str]] = (), before: int | None = None
) -> SearchCriteria:
    return SearchCriteria(CONVERSATIONS, terms, any_of, beginning, 0, before, LIMIT)


class Explain:
    """Returns the plans of queries in one database."""

    def __init__(self, url: str, database: str) -> None:
        self._url = url
        self._database = database

    def plan(self, query: IndexQuery, limit: int = LIMIT) -> Plan:
        command: dict[str, Any] = {"find": SEARCH, "filter": query.query, "projection": query.projection}
        command |= {"hint": dict(query.hint), "limit": limit}
        if query.sort is not None:
            command["sort"] = dict(query.sort)
        with MongoClient[dict[str, Any]](self._url) as client:
            found = client[self._database].command("explain", command, verbosity="executionStats")
        planner, stats = found["queryPlanner"], found["executionStats"]
        # Of several plans MongoDB would choose one by trying them.
        assert not planner["rejectedPlans"]
        plan = str(planner["winningPlan"])
        assert "COLLSCAN" not in plan
        assert "'stage': 'SORT'" not in plan
        return Plan(plan, stats["totalKeysExamined"], stats["totalDocsExamined"], stats["nReturned"])


@pytest.fixture
def explain(mongo_url: str, emptied_database: str) -> Explain:
    return Explain(mongo_url, emptied_database)


@pytest.mark.parametrize("conversations", [1, MOST_CONVERSATIONS])
async def test_words_are_read_newest_first_and_no_further_than_the_page(
    index: MongoSearchIndex, explain: Explain, conversations: int
) -> None:
    part = CONVERSATIONS[:conversations]
    least = min(LIMIT, 8 * conversations)
    for query in (
        newest_query(wanted("all"), part),
        newest_query(wanted("all", before=4_000), part),
        newest_query(wanted("all", any_of=[["\x01salice", "\x01sbob"]]), part),
        newest_query(wanted("all", "\x01salice"), part),
        newest_query(wanted("\x01salice", beginning="al"), part),
    ):
        keys, rows, found = explain.plan(query)[1:]
        assert min(least, 4 * conversations) <= found <= least
        assert rows <= LIMIT
        # One scan for each conversation begins with a key.
        assert keys <= conversations + LIMIT + 1


@pytest.mark.parametrize("conversations", [1, MOST_CONVERSATIONS])
async def test_a_frequent_beginning_is_read_newest_first(
    index: MongoSearchIndex, explain: Explain, conversations: int
) -> None:
    part = CONVERSATIONS[:conversations]
    stages, keys, rows, found = explain.plan(newest_query(wanted(beginning="al"), part))
    assert "'t'" not in stages.split("indexBounds")[1]
    assert found == min(LIMIT, 8 * conversations)
    assert rows <= LIMIT
    assert keys <= conversations + LIMIT + 1


async def test_the_longest_word_is_looked_up_and_others_are_compared(index: MongoSearchIndex, explain: Explain) -> None:
    part = CONVERSATIONS[:MOST_CONVERSATIONS]
    for terms in (("all", "word1200"), ("word1200", "all")):
        stages, keys, rows, found = explain.plan(newest_query(wanted(*terms), part))
        assert 'word1200", "word1200' in stages
        assert found <= rows == 0 or found == rows == 1
        assert keys <= MOST_CONVERSATIONS + 2
    # Nearly all rows that are read have the shorter word too.
    _, keys, rows, found = explain.plan(newest_query(wanted("tenth", "all", any_of=[["\x01salice"]]), part))
    assert found == rows == LIMIT


async def test_a_rare_beginning_reads_only_its_own_keys(index: MongoSearchIndex, explain: Explain) -> None:
    part = CONVERSATIONS[:MOST_CONVERSATIONS]
    _, keys, rows, found = explain.plan(beginning_query(wanted("all", beginning="word11"), part), 1_000)
    # 11, 110 to 119, and 1,100 to 1,199.
    assert rows == found == 111
    assert keys <= 2 * MOST_CONVERSATIONS + 111
    _, keys, rows, _ = explain.plan(beginning_query(wanted(beginning="a"), part), 100)
    assert rows == 100
    assert keys <= 2 * MOST_CONVERSATIONS + 200


async def test_later_pages_read_few_rows_above_them(index: MongoSearchIndex, explain: Explain) -> None:
    part = CONVERSATIONS[:MOST_CONVERSATIONS]
    # No row begins below this id and ends above it. There are 7 rows above it in each conversation, in the same hour.
    stages, keys, rows, found = explain.plan(overlapping_query(wanted("tenth"), part, 1_001), 0)
    assert found == 0
    assert "'t': 1" in stages
    assert rows <= 2 * MOST_CONVERSATIONS
    assert keys <= 4 * MOST_CONVERSATIONS


async def test_proposing_takes_one_round_trip_and_two_for_a_frequent_beginning(
    index: MongoSearchIndex, store: Store
) -> None:
    for query, trips in (
        (wanted("all"), 1),
        (wanted("all", before=4_000), 1),
        (wanted("all", beginning="word1200"), 1),
        (wanted(beginning="word1"), 2),
        (wanted(beginning="tenth"), 1),
        # A short beginning counts as frequent sooner.
        (wanted(beginning="t"), 2),
    ):
        before = store.mongo.trips
        assert (await index.propose(query, 10)).found
        assert store.mongo.trips - before == trips


async def test_a_read_that_exceeds_its_time_is_stopped(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    index = MongoSearchIndex(store.mongo)
    await index.index_terms([IndexedMessage(MessageId(1), CONVERSATIONS[0], 1, {"word"})], 0)
    slow = {"$where": "sleep(100) || true"}
    with pytest.raises(TimeLimit):
        await store.mongo.find(SEARCH, slow, seconds=0.02)
    assert await store.mongo.find(SEARCH, slow, seconds=10)

    def slow_query(*given: Any) -> IndexQuery:
        query = newest_query(*given)
        return query._replace(query=query.query | slow)

    monkeypatch.setattr(mongo_search_index, "newest_query", slow_query)
    query = SearchCriteria(CONVERSATIONS[:1], ["word"], [], "", 0, None, LIMIT)
    with pytest.raises(TooSlow):
        await index.propose(query, 0.02)
    assert (await index.propose(query, 10)).found
