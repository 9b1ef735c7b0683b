"""The index of messages in MongoDB: it proposes every message that matches, and none twice."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pymongo import MongoClient

from store.base.ids import ConversationId, MessageId
from store.mongo.client import Mongo
from store.mongo.collections import SEARCH
from store.mongo.indexes import ensure_indexes
from store.search import index_queries, index_rows, mongo_search_index
from store.search.index_rows import IndexedMessage
from store.search.mongo_search_index import MongoSearchIndex
from store.search.search_index import Proposal, SearchCriteria, TooSlow
from store.store import Store

MINUTE = 60_000 << 22
CONVERSATIONS = [ConversationId(f"g_{number}") for number in range(5)]
TERMS = ("a", "ab", "abc", "b", "ba", "hello", "help", "世界", "界", "\x01salice", "\x01hLINK", "$t")

Seconds = 10.0


@pytest.fixture
def index(store: Store) -> MongoSearchIndex:
    return MongoSearchIndex(store.mongo)


def a_message(minute: int, *terms: str, conversation: ConversationId = CONVERSATIONS[0]) -> IndexedMessage:
    return IndexedMessage(MessageId(minute * MINUTE), conversation, minute + 1, frozenset(terms))


def a_query(
    *terms: str,
    conversations: Sequence[ConversationId] = CONVERSATIONS,
    any_of: Sequence[Sequence[str]] = (),
    beginning: str = "",
    first_id: int = 0,
    before_id: int | None = None,
    limit: int = 25,
) -> SearchCriteria:
    return SearchCriteria(conversations, terms, any_of, beginning, first_id, before_id, limit)


async def proposed(index: MongoSearchIndex, wanted: SearchCriteria) -> list[Proposal]:
    """Return all proposals, page by page. Fails if a page has an id twice, or does not end below the one before."""
    found: list[Proposal] = []
    while True:
        page, next_id = await index.propose(wanted, Seconds)
        ids = [proposal.id for proposal in page]
        assert ids == sorted(set(ids), reverse=True)
        assert all(wanted.before_id is None or id < wanted.before_id for id in ids)
        found += page
        if next_id is None:
            return found
        assert all(id >= next_id for id in ids)
        assert wanted.before_id is None or next_id < wanted.before_id
        wanted = a_query(
            *wanted.terms,
            conversations=wanted.conversations,
            any_of=wanted.any_of,
            beginning=wanted.beginning,
            first_id=wanted.first_id,
            before_id=next_id,
            limit=wanted.limit,
        )


def matches(message: IndexedMessage, wanted: SearchCriteria) -> bool:
    return (
        message.conversation in wanted.conversations
        and message.id >= wanted.first_id
        and (wanted.before_id is None or message.id < wanted.before_id)
        and set(wanted.terms) <= set(message.terms)
        and all(not set(message.terms).isdisjoint(group) for group in wanted.any_of)
        and any(term.startswith(wanted.beginning) for term in message.terms)
    )


def ids_of(found: Iterable[Proposal]) -> list[int]:
    return [proposal.id // MINUTE for proposal in found]


term_sets = st.frozensets(st.sampled_from(TERMS), min_size=1, max_size=6)
batches = st.lists(
    # An id belongs to one conversation. Small numbers of ids make edits and repetitions likely.
    st.lists(st.tuples(st.integers(0, 300), term_sets), min_size=1, max_size=12),
    max_size=12,
)
queries = st.builds(
    SearchCriteria,
    conversations=st.lists(st.sampled_from(CONVERSATIONS), min_size=1, max_size=7),
    terms=st.lists(st.sampled_from(TERMS), max_size=3, unique=True),
    any_of=st.lists(st.lists(st.sampled_from(TERMS), max_size=3), max_size=2),
    beginning=st.sampled_from(["", "a", "ab", "hel", "hello", "世", "$"]),
    first_id=st.integers(0, 300).map(lambda minute: minute * MINUTE),
    before_id=st.none() | st.integers(0, 301).map(lambda minute: minute * MINUTE),
    limit=st.integers(1, 9),
)


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(batches=batches, wanted_list=st.lists(queries, min_size=1, max_size=8), most_rows=st.sampled_from([3, 1_000]))
async def test_pages_have_each_message_that_matches_once_in_order(
    index: MongoSearchIndex,
    store: Store,
    batches: list[list[tuple[int, frozenset[str]]]],
    wanted_list: list[SearchCriteria],
    most_rows: int,
) -> None:
    indexed: dict[int, list[IndexedMessage]] = {}
    with pytest.MonkeyPatch.context() as patch:
        # Small limits, so that small examples reach them.
        patch.setattr(index_queries, "MOST_CONVERSATIONS", 2)
        patch.setattr(mongo_search_index, "MOST_CONVERSATIONS", 2)
        patch.setattr(index_queries, "_MOST_READ_TERMS", 2)
        patch.setattr(index_rows, "MOST_MESSAGES", 4)
        patch.setattr(index_rows, "MOST_TERMS", 14)
        patch.setattr(mongo_search_index, "_MOST_ROWS", most_rows)
        for conversation in CONVERSATIONS:
            await index.forget(conversation)
        for batch in batches:
            messages = [a_message(minute, *terms, conversation=CONVERSATIONS[minute % 5]) for minute, terms in batch]
            for message in messages:
                indexed.setdefault(message.id, []).append(message)
            await index.index_terms(messages, 0)
        for wanted in wanted_list:
            found = await proposed(index, wanted)
            assert [proposal.id for proposal in found] == sorted({p.id for p in found}, reverse=True)
            for proposal in found:
                # No other places, and none outside of the bounds.
                some = indexed[proposal.id][0]
                assert (proposal.conversation, proposal.seq) == (some.conversation, some.seq)
                assert matches(some, a_query(first_id=wanted.first_id, before_id=wanted.before_id))
                assert some.conversation in wanted.conversations
            # Words that edits removed or added are proposed too. The text is compared later.
            matching = {id for id, states in indexed.items() if any(matches(state, wanted) for state in states)}
            assert matching <= {proposal.id for proposal in found}
            assert all(wanted.any_of) or not found


async def test_few_proposed_messages_do_not_match(index: MongoSearchIndex) -> None:
    words = [f"word{number}" for number in range(200)]
    messages = [a_message(minute, *words[minute : minute + 8], "all") for minute in range(190)]
    await index.index_terms(messages, 0)
    for number in range(20, 180, 10):
        found = await proposed(index, a_query(words[number], "all"))
        assert ids_of(found) == list(range(number, number - 8, -1))
        found = await proposed(index, a_query("all", beginning=words[number]))
        assert ids_of(found) == list(range(number, number - 8, -1))


async def test_a_row_has_at_most_64_messages_of_one_hour_and_conversation(
    index: MongoSearchIndex, store: Store
) -> None:
    many = [IndexedMessage(MessageId(number + 1), CONVERSATIONS[0], number, {"x"}) for number in range(130)]
    slow = [a_message(minute, "x", conversation=CONVERSATIONS[1]) for minute in range(0, 200, 20)]
    await index.index_terms([*many, *slow], 0)
    rows = await store.mongo.find(SEARCH, {}, sort=(("c", 1), ("l", 1)))
    sizes = [len(list(index_rows.places_in(row))) for row in rows]
    assert sizes == [64, 64, 2, 4, 4, 2]


async def test_a_message_that_is_given_before_and_after_an_edit_has_one_place(
    index: MongoSearchIndex, store: Store
) -> None:
    await index.index_terms([a_message(1, "old"), a_message(2, "x"), a_message(1, "new")], 0)
    (row,) = await store.mongo.find(SEARCH, {})
    assert [place.seq for place in index_rows.places_in(row)] == [2, 3]
    for term in ("old", "new"):
        assert ids_of(await proposed(index, a_query(term))) == [1]


async def test_messages_with_thousands_of_terms_have_bounded_rows(index: MongoSearchIndex, store: Store) -> None:
    long = [a_message(minute, *(f"{minute} {number}" for number in range(900))) for minute in range(5)]
    longest = a_message(5, *(f"5 {number}" for number in range(4_000)))
    await index.index_terms([*long, longest], 0)
    rows = await store.mongo.find(SEARCH, {}, sort=(("l", 1),))
    assert [len(row["t"]) for row in rows] == [1_800, 1_800, 900, 4_000]
    assert ids_of(await proposed(index, a_query("5 3999"))) == [5]
    assert ids_of(await proposed(index, a_query("3 899"))) == [3]


async def test_a_forgotten_conversation_is_not_proposed(
    index: MongoSearchIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mongo_search_index, "_ROWS_PER_STEP", 3)
    for minute in range(10):
        await index.index_terms([a_message(minute, "x", conversation=CONVERSATIONS[minute % 2])], 0)
    await index.forget(CONVERSATIONS[0])
    assert ids_of(await proposed(index, a_query("x"))) == [9, 7, 5, 3, 1]


async def test_forgetting_messages_leaves_those_that_shared_their_rows(
    index: MongoSearchIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mongo_search_index, "_WHOLE_ROWS_PER_STEP", 2)
    messages = [a_message(minute, "x", f"only{minute}") for minute in range(30)]
    other = a_message(29, "x", conversation=CONVERSATIONS[1])
    for _ in range(3):
        await index.index_terms(messages, 0)
    await index.index_terms([a_message(40, "x"), a_message(500, "x")], 0)
    forgotten: Collection[MessageId] = {messages[number].id for number in (0, 3, 29)} | {MessageId(500 * MINUTE)}
    await index.forget_messages(CONVERSATIONS[0], forgotten)
    left = [40, *(number for number in range(28, 0, -1) if number != 3)]
    assert ids_of(await proposed(index, a_query("x"))) == left
    assert ids_of(await proposed(index, a_query("only28"))) == [28]
    assert not await proposed(index, a_query("only29"))
    await index.forget_messages(other.conversation, forgotten)
    assert ids_of(await proposed(index, a_query("x"))) == left


async def test_rows_of_earlier_rebuilds_are_removed(
    index: MongoSearchIndex, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mongo_search_index, "_ROWS_PER_STEP", 2)
    for rebuild in (0, 1, 2, 1, 0, 2, 2):
        await index.index_terms([a_message(rebuild, "x")], rebuild)
    await index.forget_earlier(2)
    assert [row["g"] for row in await store.mongo.find(SEARCH, {})] == [2, 2, 2]


async def test_the_index_of_terms_is_compressed(mongo_url: str, mongo_database_name: str) -> None:
    mongo = Mongo(mongo_url, mongo_database_name)
    await ensure_indexes(mongo)
    # A second time, as at the start of the next server.
    await ensure_indexes(mongo)
    await mongo.close()
    with MongoClient[dict[str, Any]](mongo_url) as client:
        details = client[mongo_database_name].command("collStats", SEARCH, indexDetails=True)["indexDetails"]
    assert "block_compressor=snappy" in details["c_1_t_1_l_1"]["creationString"]


async def test_a_search_that_takes_too_long_is_stopped(index: MongoSearchIndex) -> None:
    await index.index_terms([a_message(minute, "x") for minute in range(3)], 0)
    with pytest.raises(TooSlow):
        await index.propose(a_query("x"), 0.0)
