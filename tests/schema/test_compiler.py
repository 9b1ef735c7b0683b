"""A compiled operation answers what graphql-core answers: data, their order, nulls, errors and where they are."""

from __future__ import annotations

import asyncio
import gc
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from weakref import ref

import pytest
import strawberry
from graphql import ExecutionResult, GraphQLArgument, execute, get_named_type, parse, validate
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from schema.compiler import PlanCache, compile_operation
from tests.schema.error_positions import nulled
from tests.schema.generated_queries import Chooser, Drawn, Writer
from tests.schema.misbehaving_schema import ASYNC, SCHEMA

Json = Any

EXAMPLES = int(os.environ.get("CONFAB_TEST_QUERIES", "60"))


pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
"""graphql-core forgets what an error cut off."""


@pytest.fixture(scope="module", autouse=True)
def _forgotten() -> Iterator[None]:
    yield
    # It is found here, and not in the middle of another module.
    gc.collect()


@dataclass
class Context:
    done: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return "context"


async def standard(query: str, variables: Json = None, context: Context | None = None) -> ExecutionResult:
    outcome: Any = execute(SCHEMA._schema, parse(query), context_value=context or Context(), variable_values=variables)
    return await outcome if hasattr(outcome, "__await__") else outcome  # type: ignore[no-any-return]


async def compiled(query: str, variables: Json = None, context: Context | None = None) -> ExecutionResult:
    operation = compile_operation(SCHEMA, parse(query))
    assert operation is not None
    # The second time everything is known by class.
    await operation.execute(variables, None, Context())
    return await operation.execute(variables, None, context or Context())


def spelt(result: ExecutionResult) -> tuple[str, list[Any]]:
    errors = [(error.message, error.path, str(error.locations)) for error in result.errors or ()]
    return json.dumps(result.data), errors


async def same(query: str, variables: Json = None, *, in_order: bool = True) -> None:
    expected, found = await standard(query, variables), await compiled(query, variables)
    # What errors left behind comes to its end.
    await asyncio.sleep(0 if in_order else 0.004)
    if in_order:
        assert spelt(found) == spelt(expected), query
    else:
        assert json.dumps(found.data) == json.dumps(expected.data), query
        assert nulled(found) == nulled(expected), query


def value(chance: Chooser, name: str, argument: GraphQLArgument) -> str:
    match name, get_named_type(argument.type).name:
        case "words", _:
            return chance.choice(('["x"]', "[]", '"single"'))
        case _, "Int":
            return str(chance.randint(-1, 5))
        case _, "Colour":
            return chance.choice(("RED", "BLUE", "null"))
        case _, "Wish":
            return chance.choice(("{}", "{ colour: RED }", '{ depth: null, words: ["a"] }', "null"))
    raise AssertionError(name)


@settings(
    max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow]
)
@given(st.data())
def test_generated_queries_have_the_same_answers(data: st.DataObject) -> None:
    writer = Writer(SCHEMA._schema, Drawn(data), value, depth=4, width=4)
    root = SCHEMA._schema.query_type
    assert root is not None
    query = writer.document(root, "query")
    assume(not validate(SCHEMA._schema, parse(query)))
    asyncio.run(same(query, in_order=not writer.used & ASYNC))


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
        "{ any(depth: 3) { ... on Leaf { odd even ratio infinite yes colour wrongColour asError words holes badWords noList } } }",
        "{ twig { notNamed { name } notALeaf { name } waits stream { name } lazily { __typename name } } }",
        "{ twig { follows { ... on Twig { name } } promised } }",
    ],
)
async def test_what_goes_wrong_goes_wrong_alike(query: str) -> None:
    await same(query, in_order=False)


@pytest.mark.parametrize(
    "variables",
    [None, {}, {"n": 1}, {"n": None}, {"n": "x"}, {"w": {"colour": "RED"}}, {"w": {"colour": "PINK"}}, {"on": False}, {"words": "a"},
     {"words": [None]}, {"words": ["a", "b"], "on": None}],
)  # fmt: skip
async def test_variables_mean_the_same(variables: Json) -> None:
    query = """query ($n: Int = 2, $w: Wish, $on: Boolean! = true, $words: [String!]! = ["d"]) {
        twig { echo(times: 3, wish: $w) needs(words: $words) someThings(first: $n) { __typename }
               some: someThings(first: 1) @include(if: $on) { ... on Named @skip(if: $on) { name } __typename } } }"""
    await same(query, variables)


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


async def test_a_condition_that_is_null_fails_where_it_stands() -> None:
    """It may be null where it has a default."""
    for query in (
        "query ($a: Boolean = true) { __typename twig { name @include(if: $a) } }",
        "query ($a: Boolean = true) { any(depth: 3) { __typename ... on Twig { name @include(if: $a) } } }",
        "query ($a: Boolean = true) { twig { named { name @skip(if: $a) } } }",
        "query ($a: Boolean = true) { twig @skip(if: $a) { name } }",
    ):
        await same(query, {"a": None})
    one, other = Context(), Context()
    mutation = 'mutation ($a: Boolean = true) { append(text: "a") { name @include(if: $a) } }'
    await standard(mutation, {"a": None}, one)
    await compiled(mutation, {"a": None}, other)
    assert one.done == other.done == ["a"]


async def test_what_an_operation_was_handed_is_not_kept_for_those_after_it() -> None:
    operation = compile_operation(
        SCHEMA, parse("query ($w: [String!]!) { twig { needs(words: $w) thing { __typename } } }")
    )
    assert operation is not None

    class Word(str):
        pass

    word = Word("secret")
    gone = ref(word)
    await operation.execute({"w": [word]}, None, Context())
    del word
    gc.collect()
    assert gone() is None


async def test_plans_that_were_not_used_for_longest_are_made_anew() -> None:
    plan_cache = PlanCache(max_fields=220)
    many = parse("{ twig { " + " ".join(f"a{n}: name" for n in range(80)) + " } }")
    few = parse("query ($a: Boolean = false) { twig { name } any @skip(if: $a) { __typename } }")
    operations = [compile_operation(SCHEMA, document, plan_cache=plan_cache) for document in (few, many, many)]
    held = []
    for number in (0, 1, 0, 2, 1):
        operation = operations[number]
        assert operation is not None
        result = await operation.execute(None, None, Context())
        assert result.errors is None and result.data is not None and result.data["twig"]
        held.append([len(each._plans) for each in operations if each is not None])
    # Few goes with either of the others, which don't go together.
    assert held == [[1, 0, 0], [1, 1, 0], [1, 1, 0], [1, 0, 1], [0, 1, 1]]


@pytest.mark.parametrize(
    ("fields", "done"),
    [
        ('a: append(text: "a") { name } b: append(text: "b") { name later } c: append(text: "c") { name }', "a b c"),
        ('a: append(text: "a", fails: true) { name } b: append(text: "b") { name }', "a b"),
        ('a: append(text: "a") { needed { ... on Leaf { missing } } } b: append(text: "b") { name }', "a b"),
        ('a: append(text: "a") { name } b: must(text: "b") { name } c: append(text: "c") { name }', "a b"),
    ],
)
async def test_fields_of_a_mutation_take_turns_until_nothing_is_left_to_answer(fields: str, done: str) -> None:
    one, other = Context(), Context()
    expected = await standard(f"mutation {{ {fields} }}", None, one)
    found = await compiled(f"mutation {{ {fields} }}", None, other)
    assert " ".join(one.done) == " ".join(other.done) == done
    assert found.data == expected.data
    assert nulled(found) == nulled(expected)


async def test_one_plan_serves_many_at_once() -> None:
    operation = compile_operation(
        SCHEMA, parse("query ($d: Int!) { twig(depth: $d) { later laterThings { __typename } named { name } } }")
    )
    assert operation is not None
    depths = [1, 2, 3, 4] * 5
    results = await asyncio.gather(*(operation.execute({"d": depth}, None, Context()) for depth in depths))
    for depth, result in zip(depths, results, strict=True):
        assert result.errors is None and result.data is not None
        assert result.data["twig"]["named"]["name"] == ("leaf" if depth % 2 else "twig")


async def test_who_is_cancelled_leaves_nothing_running() -> None:
    ended: list[str] = []

    @strawberry.type
    class Query:
        @strawberry.field
        async def never(self) -> str:
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
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.sleep(0)
    assert ended == ["never", "never"]


async def test_what_an_error_leaves_behind_is_run_to_its_end(recwarn: pytest.WarningsRecorder) -> None:
    """And nothing of it is said to have been forgotten."""
    gc.collect()
    recwarn.clear()
    result = await compiled("{ twig { later laterBroken badlyBroken } }")
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
def test_what_is_not_covered_is_left_to_graphql_core(document: str, name: str | None) -> None:
    assert compile_operation(SCHEMA, parse(document), name) is None
