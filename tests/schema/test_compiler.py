"""A compiled operation returns the same as graphql-core: data and their order, nulls, errors and their positions."""

from __future__ import annotations

import asyncio
import gc
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch
from weakref import ref

import pytest
import strawberry
from graphql import ExecutionResult, GraphQLArgument, execute, get_named_type, parse, validate
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from schema.compiler import PlanCache, compile_operation, execution
from tests.schema.error_positions import null_positions
from tests.schema.generated_queries import HypothesisSource, QueryWriter, RandomSource
from tests.schema.misbehaving_schema import ASYNC, SCHEMA

Json = Any

EXAMPLES = int(os.environ.get("CONFAB_TEST_QUERIES", "30"))


pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
"""graphql-core leaves coroutines behind when an error cancels them."""


@pytest.fixture(scope="module", autouse=True)
def _collect_garbage() -> Iterator[None]:
    yield
    # Collect leftover coroutines here, not during another module.
    gc.collect()


@dataclass
class Context:
    entries: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return "context"


async def execute_with_graphql_core(
    query: str, variables: Json = None, context: Context | None = None
) -> ExecutionResult:
    outcome: Any = execute(SCHEMA._schema, parse(query), context_value=context or Context(), variable_values=variables)
    return await outcome if hasattr(outcome, "__await__") else outcome  # type: ignore[no-any-return]


async def execute_compiled(
    query: str, variables: Json = None, context: Context | None = None, *, generate_after: int = 0
) -> ExecutionResult:
    operation = compile_operation(SCHEMA, parse(query), generate_after=generate_after)
    assert operation is not None
    # The second execution uses the plans of the first.
    await operation.execute(variables, None, Context())
    return await operation.execute(variables, None, context or Context())


def as_text(result: ExecutionResult) -> tuple[str, list[Any]]:
    errors = [(error.message, error.path, str(error.locations)) for error in result.errors or ()]
    return json.dumps(result.data), errors


async def expect_same_result(query: str, variables: Json = None, *, in_order: bool = True) -> None:
    expected = await execute_with_graphql_core(query, variables)
    # With generated code from the first object on, from some object on, and never.
    for generate_after in (0, 2, 1_000_000):
        result = await execute_compiled(query, variables, generate_after=generate_after)
        # Let coroutines end that an error left behind.
        await asyncio.sleep(0 if in_order else 0.004)
        if in_order:
            assert as_text(result) == as_text(expected), query
        else:
            assert json.dumps(result.data) == json.dumps(expected.data), query
            assert null_positions(result) == null_positions(expected), query
    with yielding_after_every_item():
        result = await execute_compiled(query, variables, generate_after=2)
    await asyncio.sleep(0.004)
    # Errors are found in another order, and one more or less of several that make the same value null.
    assert json.dumps(result.data) == json.dumps(expected.data), query
    assert null_positions(result) == null_positions(expected), query


@contextmanager
def yielding_after_every_item() -> Iterator[None]:
    with patch.object(execution, "_ITEMS_PER_CHECK", 0), patch.object(execution, "SLICE_SECONDS", -1.0):
        yield


async def test_only_long_lists_yield_and_the_result_is_the_same() -> None:
    ways = 0

    async def yield_control() -> None:
        nonlocal ways
        ways += 1

    @strawberry.type
    class Query:
        @strawberry.field
        def rows(self, count: int) -> list[list[int]]:
            return [[row] * 5 for row in range(count)]

    schema = strawberry.Schema(Query)
    operation = compile_operation(schema, parse("query ($n: Int!) { rows(count: $n) last: rows(count: 1) }"))
    assert operation is not None
    with patch.object(execution, "SLICE_SECONDS", 0.0):
        for count, expected in ((2, 0), (100, 10)):
            result = await operation.execute({"n": count}, None, Context(), yield_control)
            assert result.data == {"rows": [[row] * 5 for row in range(count)], "last": [[0] * 5]}
            assert list(result.data) == ["rows", "last"]
            assert ways >= expected and bool(ways) == bool(expected)


def write_value(rng: RandomSource, name: str, argument: GraphQLArgument) -> str:
    match name, get_named_type(argument.type).name:
        case "words", _:
            return rng.choice(('["x"]', "[]", '"single"'))
        case _, "Int":
            return str(rng.randint(-1, 5))
        case _, "Colour":
            return rng.choice(("RED", "BLUE", "null"))
        case _, "Wish":
            return rng.choice(("{}", "{ colour: RED }", '{ depth: null, words: ["a"] }', "null"))
    raise AssertionError(name)


@settings(max_examples=EXAMPLES, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])
@given(st.data())
def test_generated_queries_have_the_same_results(data: st.DataObject) -> None:
    writer = QueryWriter(SCHEMA._schema, HypothesisSource(data), write_value, depth=4, width=4)
    root = SCHEMA._schema.query_type
    assert root is not None
    query = writer.document(root, "query")
    assume(not validate(SCHEMA._schema, parse(query)))
    asyncio.run(expect_same_result(query, in_order=not writer.used & ASYNC))


@pytest.mark.parametrize(
    "query",
    [
        "{ twig { __typename name ...on Named { shout } } }",
        "{ twig { needed { ... on Twig { needed { ... on Twig { needed { ...on Twig { badlyBroken } } } } } } } }",
        "{ twig { thing { ... on Leaf { missing } } named { name } } }",
        "{ twig { broken badlyBroken } }",
        "{ twig { laterThings { ... on Leaf { missing size } ... on Twig { later name } } } }",
        "{ twig(depth: 2) { laterThing { ... on Twig { laterNull } } later } any { __typename } }",
        "{ any(depth: -1) { __typename } a: any(depth: 4) { ... on Twig { laterError } } }",
        "{ twig { name: shout again: name infoTells someThings(first: 3) { ... on Twig { infoTells } } } }",
        '{ __schema { queryType { name fields { name args { name defaultValue } } } } __type(name: "Leaf") { kind } }',
        "{ any(depth: 3) { ... on Leaf { name size big notANumber null missing } } }",
        (
            "{ any(depth: 3) { ... on Leaf { odd even ratio infinite yes colour wrongColour asError "
            "words holes badWords noList } } }"
        ),
        "{ twig { notNamed { name } notALeaf { name } waits stream { name } lazily { __typename name } } }",
        "{ twig { follows { ... on Twig { name } } promised } }",
        "{ twig { pebbles { name weight colour words nothing shape __typename } } }",
        "{ twig { pebbles { name heavy } pebbleEdges { place node { shape heavy failing } } } }",
        "{ twig { pebbleEdges { node { later name shout } } one: pebbleEdges(first: 1) { node { missing } } } }",
        "{ twig { pebbleEdges(first: 0) { node { name } place } pebbles(first: 2) { shape name: weight } } }",
    ],
)
async def test_queries_with_errors_have_the_same_results(query: str) -> None:
    await expect_same_result(query, in_order=False)


@pytest.mark.parametrize(
    "variables",
    [None, {}, {"n": 1}, {"n": None}, {"n": "x"}, {"w": {"colour": "RED"}}, {"w": {"colour": "PINK"}}, {"on": False},
     {"words": "a"},
     {"words": [None]}, {"words": ["a", "b"], "on": None}],
)  # fmt: skip
async def test_variables_have_the_same_meaning(variables: Json) -> None:
    query = """query ($n: Int = 2, $w: Wish, $on: Boolean! = true, $words: [String!]! = ["d"]) {
        twig { echo(times: 3, wish: $w) needs(words: $words) someThings(first: $n) { __typename }
               some: someThings(first: 1) @include(if: $on) { ... on Named @skip(if: $on) { name } __typename } } }"""
    await expect_same_result(query, variables)


async def test_each_combination_of_conditions_has_its_own_plan() -> None:
    operation = compile_operation(
        SCHEMA, parse("query ($a: Boolean!, $b: Boolean!) { twig { name @skip(if: $a) shout @include(if: $b) } }")
    )
    assert operation is not None
    for a in (True, False):
        for b in (True, False):
            for _ in range(2):
                result = await operation.execute({"a": a, "b": b}, None, Context())
                expected = ({"name"} if not a else set()) | ({"shout"} if b else set())
                assert result.data is not None and set(result.data["twig"]) == expected


async def test_a_null_condition_fails_at_its_field() -> None:
    """A condition may be null if it has a default."""
    for query in (
        "query ($a: Boolean = true) { __typename twig { name @include(if: $a) } }",
        "query ($a: Boolean = true) { any(depth: 3) { __typename ... on Twig { name @include(if: $a) } } }",
        "query ($a: Boolean = true) { twig { named { name @skip(if: $a) } } }",
        "query ($a: Boolean = true) { twig @skip(if: $a) { name } }",
    ):
        await expect_same_result(query, {"a": None})
    first, second = Context(), Context()
    mutation = 'mutation ($a: Boolean = true) { append(text: "a") { name @include(if: $a) } }'
    await execute_with_graphql_core(mutation, {"a": None}, first)
    await execute_compiled(mutation, {"a": None}, second)
    assert first.entries == second.entries == ["a"]


async def test_an_operation_keeps_no_reference_to_its_variables() -> None:
    operation = compile_operation(
        SCHEMA, parse("query ($w: [String!]!) { twig { needs(words: $w) thing { __typename } } }")
    )
    assert operation is not None

    class Word(str):
        pass

    word = Word("secret")
    word_reference = ref(word)
    await operation.execute({"w": [word]}, None, Context())
    del word
    gc.collect()
    assert word_reference() is None


async def test_the_least_recently_used_plans_are_dropped() -> None:
    plan_cache = PlanCache(max_fields=220)
    large = parse("{ twig { " + " ".join(f"a{n}: name" for n in range(80)) + " } }")
    small = parse("query ($a: Boolean = false) { twig { name } any @skip(if: $a) { __typename } }")
    operations = [compile_operation(SCHEMA, document, plan_cache=plan_cache) for document in (small, large, large)]
    plans_held = []
    for number in (0, 1, 0, 2, 1):
        operation = operations[number]
        assert operation is not None
        result = await operation.execute(None, None, Context())
        assert result.errors is None and result.data is not None and result.data["twig"]
        plans_held.append([len(candidate._plans) for candidate in operations if candidate is not None])
    # The small operation fits together with either large one, but the two large ones do not.
    assert plans_held == [[1, 0, 0], [1, 1, 0], [1, 1, 0], [1, 0, 1], [0, 1, 1]]


@pytest.mark.parametrize(
    ("fields", "expected_entries"),
    [
        ('a: append(text: "a") { name } b: append(text: "b") { name later } c: append(text: "c") { name }', "a b c"),
        ('a: append(text: "a", fails: true) { name } b: append(text: "b") { name }', "a b"),
        ('a: append(text: "a") { needed { ... on Leaf { missing } } } b: append(text: "b") { name }', "a b"),
        ('a: append(text: "a") { name } b: must(text: "b") { name } c: append(text: "c") { name }', "a b"),
    ],
)
async def test_mutation_fields_run_in_sequence_until_data_is_null(fields: str, expected_entries: str) -> None:
    first, second = Context(), Context()
    expected = await execute_with_graphql_core(f"mutation {{ {fields} }}", None, first)
    result = await execute_compiled(f"mutation {{ {fields} }}", None, second)
    assert " ".join(first.entries) == " ".join(second.entries) == expected_entries
    assert result.data == expected.data
    assert null_positions(result) == null_positions(expected)


async def test_one_plan_serves_concurrent_executions() -> None:
    operation = compile_operation(
        SCHEMA, parse("query ($d: Int!) { twig(depth: $d) { later laterThings { __typename } named { name } } }")
    )
    assert operation is not None
    depths = [1, 2, 3, 4] * 5
    results = await asyncio.gather(*(operation.execute({"d": depth}, None, Context()) for depth in depths))
    for depth, result in zip(depths, results, strict=True):
        assert result.errors is None and result.data is not None
        assert result.data["twig"]["named"]["name"] == ("leaf" if depth % 2 else "twig")


async def test_a_cancelled_execution_leaves_nothing_running() -> None:
    started: list[str] = []
    ended: list[str] = []

    @strawberry.type
    class Query:
        @strawberry.field
        async def never(self) -> str:
            started.append("never")
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                ended.append("never")
            return ""

        @strawberry.field
        async def soon(self) -> str:
            return "soon"

    operation = compile_operation(strawberry.Schema(Query), parse("{ soon a: never b: never }"))
    assert operation is not None
    task = asyncio.create_task(operation.execute())
    while len(started) < 2:  # noqa: ASYNC110
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.sleep(0)
    assert ended == ["never", "never"]


async def test_coroutines_left_by_an_error_are_run_to_their_end(recwarn: pytest.WarningsRecorder) -> None:
    """No warning reports a coroutine that was never awaited."""
    gc.collect()
    recwarn.clear()
    result = await execute_compiled("{ twig { later laterBroken badlyBroken } }")
    assert result.data is None and [error.message for error in result.errors or ()] == ["root is badly broken"]
    await asyncio.sleep(0.005)
    gc.collect()
    assert not [warning for warning in recwarn if "never awaited" in str(warning.message)]


@pytest.mark.parametrize(
    ("document", "name"),
    [
        ("query A { twig { name } } query B { any { __typename } }", None),
        ("query A { twig { name } }", "C"),
        ("query ($s: Boolean!) { twig { ... @defer(if: $s) { name } } }", None),
        ("{ twig { words: someThings @stream { __typename } } }", None),
    ],
)
def test_unsupported_documents_are_left_to_graphql_core(document: str, name: str | None) -> None:
    assert compile_operation(SCHEMA, parse(document), name) is None
