"""Memory and CPU time of documents: no user takes much of it, and callers without a token take nearly nothing."""

from __future__ import annotations

import asyncio
import gc
import time
import tracemalloc
import weakref
from collections.abc import Callable

import pytest
from graphql import get_introspection_query

from resolvers.base.errors import RateLimited
from schema.execution import cpu_budgets, prepared_operations
from schema.execution.anonymous_operations import AnonymousOperations
from schema.execution.cpu_budgets import CpuBudget, DocumentTurns
from schema.execution.document_cache import DocumentCache
from schema.execution.prepared_operations import OperationCache, PreparedOperation, estimate_bytes
from schema.execution.query_limits import QueryLimits
from store.base.ids import UserId
from subscriptions.transport.engine import GraphQLRequest, Json, RequestRefused, encode
from tests.waiting import TIMEOUT_SECONDS

ALICE, BOB, CAROL = UserId("alice"), UserId("bob"), UserId("carol")


def of_integers(number: int) -> str:
    """Return a document that takes much memory for its length."""
    members = "1 " * 300
    return f'mutation {{ a{number}: createGroup(input: {{name: "x", memberIds: [{members}]}}) {{ id }} }}'


def of_text(number: int) -> str:
    """Return a document with a long text."""
    return f'mutation {{ a{number}: markRead(conversationId: "{"x" * 6_000}") {{ id }} }}'


def of_fields(number: int) -> str:
    """Return an ordinary document."""
    fields = "id writeSeq readSeq unreadCount lastMessage { id seq content sender { id displayName } }"
    return f"{{ a{number}: sessions {{ edges {{ node {{ {fields} }} }} }} }}"


def prepare(cache: OperationCache, request: GraphQLRequest, user: UserId) -> PreparedOperation:
    """Return the prepared operation of a request."""
    return asyncio.run(cache.prepare(request, user))


def memory_of(prepare: Callable[[int], object], count: int) -> int:
    """Return the bytes that remain after `count` calls."""
    gc.collect()
    tracemalloc.start()
    try:
        for number in range(count):
            prepare(number)
        gc.collect()
        return tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("document", [of_integers, of_text, of_fields])
def test_estimated_size_is_near_the_memory_that_a_document_takes(document: Callable[[int], str]) -> None:
    cache = OperationCache(QueryLimits())
    prepare(cache, GraphQLRequest("{ me { id } }"), ALICE)
    kept = memory_of(lambda number: prepare(cache, GraphQLRequest(document(number)), ALICE), 8) / 8
    assert kept <= estimate_bytes(document(0)) <= 3 * kept


def test_different_documents_of_one_user_take_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prepared_operations, "_MAX_CACHED_BYTES", 500_000)
    cache = OperationCache(QueryLimits())
    assert memory_of(lambda number: prepare(cache, GraphQLRequest(of_integers(number)), ALICE), 10) < 700_000


async def test_evicted_documents_are_released_with_their_plans(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prepared_operations, "_MAX_CACHED_BYTES", 400_000)
    cache = OperationCache(QueryLimits())
    released = []
    for number in range(20):
        prepared = await cache.prepare(GraphQLRequest(f"{{ a{number}: __typename }}"), ALICE)
        assert prepared.compiled is not None
        assert (await prepared.compiled.execute({})).data == {f"a{number}": "Query"}
        released.append(weakref.ref(prepared.document))
    del prepared
    gc.collect()
    kept = [reference() is not None for reference in released]
    assert 5 < sum(kept) < 20 and kept == sorted(kept)


class Evictions:
    """A cache of numbers, which remembers the calls that it made."""

    def __init__(self, max_size: int) -> None:
        self.shared: list[int] = []
        self.evicted: list[int] = []
        self.cache: DocumentCache[int] = DocumentCache(max_size, self.shared.append, self.evicted.append)

    def add(self, number: int, user: UserId, size: int = 1) -> None:
        self.cache.add((str(number), None), number, size, user)

    def get(self, number: int, user: UserId | None) -> int | None:
        return self.cache.get((str(number), None), user)


def test_documents_of_one_user_do_not_evict_shared_ones() -> None:
    held = Evictions(100)
    for number in range(70):
        held.add(number, ALICE)
        assert held.get(number, BOB) == number
    assert held.shared == list(range(70))
    for number in range(1_000, 2_000):
        held.add(number, CAROL)
    assert all(held.get(number, ALICE) == number for number in range(70))
    assert held.evicted == list(range(1_000, 1_975))
    assert (held.cache.size, len(held.cache)) == (95, 95)


def test_the_user_with_the_most_documents_loses_them_first() -> None:
    held = Evictions(100)
    for number in range(10):
        held.add(number, ALICE)
    for number in range(1_000, 1_200):
        held.add(number, BOB)
    assert all(held.get(number, ALICE) == number for number in range(10))


def test_shared_documents_leave_a_quarter_to_others() -> None:
    held = Evictions(100)
    for number in range(200):
        held.add(number, ALICE)
        held.get(number, BOB)
    for number in range(1_000, 1_025):
        held.add(number, CAROL)
    assert held.evicted == list(range(125))


def test_a_document_larger_than_the_cache_is_not_kept() -> None:
    held = Evictions(100)
    held.add(1, ALICE, 101)
    assert (held.get(1, ALICE), held.cache.size, held.evicted) == (None, 0, [1])


def test_uses_without_a_token_do_not_share_a_document() -> None:
    held = Evictions(100)
    held.add(1, ALICE)
    assert held.get(1, None) == 1
    assert held.shared == []


def refuse(prepare: Callable[[], object]) -> Json:
    """Return the first error of a refusal."""
    with pytest.raises(RequestRefused) as caught:
        prepare()
    error: Json = caught.value.errors[0]
    return error


def fail(*_: object, **__: object) -> None:
    raise AssertionError("this document should not be validated")


def test_a_refused_document_is_validated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    cache = OperationCache(QueryLimits())
    request = GraphQLRequest("{ nonsense }")
    first = refuse(lambda: prepare(cache, request, ALICE))
    monkeypatch.setattr(prepared_operations, "parse_limited", fail)
    assert refuse(lambda: prepare(cache, request, BOB)) == first


def test_errors_quote_a_bounded_part_of_a_document() -> None:
    cache = OperationCache(QueryLimits())
    members = "1 " * 1_400
    documents = [
        f'mutation {{ createGroup(input: {{title: "x", memberIds: [{members}]}}) {{ id }} }}',
        "{ " + "x" * 40_000 + " }",
        "{ me { id } } " + "fragment " + "y" * 20_000 + " on User { id }",
        "query A { me { id } } query B { me { id } }",
    ]
    for document in documents:
        request = GraphQLRequest(document, None, "z" * 1_000_000)
        with pytest.raises(RequestRefused) as caught:
            prepare(cache, request, ALICE)
        assert len(encode({"errors": caught.value.errors})) < 10_000


def test_a_user_with_many_new_documents_has_to_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    cache = OperationCache(QueryLimits(), cpu_share=0.00001)
    known = GraphQLRequest("{ me { id } }")
    prepare(cache, known, ALICE)
    refusal = refuse(lambda: prepare(cache, GraphQLRequest("{ __typename }"), ALICE))
    assert refusal["extensions"]["code"] == "RATE_LIMITED" and refusal["extensions"]["retryAfterMs"] > 0
    # Known documents and other users are not concerned.
    prepare(cache, known, ALICE)
    prepare(cache, GraphQLRequest("{ __typename }"), BOB)
    prepare(cache, GraphQLRequest("{ __typename }"), ALICE)


def test_a_budget_is_refilled_up_to_ten_seconds_of_its_share() -> None:
    now, used = 0.0, 0.0
    budget = CpuBudget(0.5, lambda: now, lambda: used)

    def work(seconds: float) -> None:
        nonlocal used
        budget.check()
        with budget.measure():
            used += seconds

    work(4.9)
    work(1.1)
    with pytest.raises(RateLimited) as caught:
        budget.check()
    assert caught.value.retry_after_ms == 2_001
    now = 2.002
    work(0.1)
    now = 1_000.0
    work(5.1)
    with pytest.raises(RateLimited):
        budget.check()


async def test_new_documents_take_turns_and_a_share_of_the_process() -> None:
    turns = DocumentTurns(0.25)
    used = 0.0
    turns._budget._cpu_clock = lambda: used
    order: list[str] = []

    async def prepare(user: UserId) -> None:
        nonlocal used
        async with turns.turn(user):
            order.append(user)
            used += 0.03

    async with asyncio.timeout(TIMEOUT_SECONDS), asyncio.TaskGroup() as group:
        began = time.monotonic()
        for user in (ALICE, ALICE, ALICE, ALICE, BOB, CAROL):
            group.create_task(prepare(user))
    assert order == [ALICE, ALICE, BOB, CAROL, ALICE, ALICE]
    # 0.15 seconds of CPU, of which 0.1 are allowed at once, take 0.2 seconds.
    assert time.monotonic() - began > 0.19


async def test_too_many_waiting_documents_of_a_user_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu_budgets, "_MAX_WAIT_SECONDS", 60.0)
    turns = DocumentTurns(0.25)
    turns._queue.try_enter(CAROL)

    async def prepare(user: UserId) -> str:
        try:
            async with turns.turn(user):
                return "prepared"
        except RequestRefused as refusal:
            assert refusal.errors[0]["extensions"]["retryAfterMs"] > 0
            return str(refusal.errors[0]["extensions"]["code"])

    tasks = [asyncio.create_task(prepare(ALICE)) for _ in range(101)] + [asyncio.create_task(prepare(BOB))]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert [task.done() for task in tasks] == [False] * 100 + [True, False]
    turns._queue.leave(CAROL)
    assert await tasks[0] == await tasks[101] == "prepared"
    assert await tasks[100] == "RATE_LIMITED"
    await asyncio.gather(*tasks)
    assert turns._queue.waiting == 0


async def test_without_a_limit_new_documents_do_not_wait() -> None:
    turns = DocumentTurns(0.0)
    async with turns.turn(ALICE), turns.turn(ALICE), turns.turn(BOB):
        pass


def anonymous(cpu_share: float = 0.0) -> AnonymousOperations:
    return AnonymousOperations(QueryLimits(), cpu_share)


@pytest.mark.parametrize(
    "document", ["{ me { id } }", "{ nonsense }", "mutation { a }", "{ me { ...F } } fragment F on User { id id }"]
)
def test_documents_without_a_token_are_validated_only_for_introspection(
    monkeypatch: pytest.MonkeyPatch, document: str
) -> None:
    monkeypatch.setattr(prepared_operations, "validate", fail)
    error = refuse(lambda: anonymous().prepare(GraphQLRequest(document)))
    assert error["extensions"]["code"] in ("UNAUTHENTICATED", "INVALID_INPUT")


@pytest.mark.parametrize(
    ("document", "limit"),
    [
        ("{ __typename }" + " " * 6_000, "max_characters"),
        ("{ __typename " + "@a " * 400 + "}", "max_tokens"),
        ("{ __typename }" + " fragment A on User { id }" * 11, "max_fragments"),
        ("{ __typename }" + "".join(f" fragment A{n} on User {{ id }}" for n in range(11)), "max_fragments"),
    ],
)
def test_documents_without_a_token_have_stricter_limits(document: str, limit: str | None) -> None:
    assert refuse(lambda: anonymous().prepare(GraphQLRequest(document)))["extensions"].get("limit") == limit


async def introspect(operations: AnonymousOperations, query: str, executions: list[PreparedOperation]) -> bytes:
    prepared = operations.prepare(GraphQLRequest(query))

    async def execute() -> Json:
        executions.append(prepared)
        assert prepared.compiled is not None
        return {"data": (await prepared.compiled.execute({})).data}

    return encode(await operations.execute(prepared, execute))


async def test_standard_introspection_is_executed_once_and_survives_a_flood() -> None:
    operations = anonymous(cpu_share=0.001)
    executions: list[PreparedOperation] = []
    query = get_introspection_query(descriptions=False)
    first = await introspect(operations, query, executions)
    other = '{ __type(name: "User") { name } }'
    await introspect(operations, other, executions)
    for _ in range(100):
        try:
            await introspect(operations, other, executions)
        except RequestRefused as refused:
            assert refused.errors[0]["extensions"]["code"] == "RATE_LIMITED"
            break
    else:
        raise AssertionError("the budget has no end")
    executions.clear()
    assert await introspect(operations, " ".join(query.split()), executions) == first
    assert executions == [] and len(first) > 20_000


def test_documents_of_anonymous_callers_are_not_cached() -> None:
    operations = anonymous()

    def prepare(number: int) -> None:
        operations.prepare(GraphQLRequest(f'{{ a{number}: __type(name: "{"x" * 5_000}") {{ name }} }}'))

    prepare(0)
    # If they were kept: more than a million bytes. graphql-core keeps 200,000 of its last validation.
    assert memory_of(prepare, 40) < 400_000
