"""The scalar JSON keeps any JSON value, from variables and literals, and in responses of both ways of execution."""

from __future__ import annotations

import json
from typing import Any

import orjson
import pytest
import strawberry
from graphql import execute, parse, validate

from resolvers.base.errors import InvalidInput
from resolvers.base.metadata import MAX_BYTES, MAX_DEPTH, encode_metadata
from schema.base.scalars import CONFIG, JSON
from schema.compiler import compile_operation, reads
from subscriptions.transport.engine import encode

VALUES: list[Any] = [
    0, -1.5, 1e300, True, False, "", "a\u0000b", "ключ", [], {}, [None, [[]]], 2**63 - 1, 2**64 - 1, -(2**63),
    {"$where": 1, "a.b": 2, "": 3, "\u0000": 4, "__proto__": {}, "_id": None},
]  # fmt: skip


@strawberry.type
class Stored:
    text: strawberry.Private[str | None]
    value: JSON | None = reads("text")

    @strawberry.field
    def resolved(self) -> JSON | None:
        return None if self.text is None else JSON(self.text)


@strawberry.input
class Input:
    value: JSON | None = None


@strawberry.type
class Query:
    @strawberry.field
    def store(self, value: JSON | None = None) -> Stored:
        return Stored(text=encode_metadata(value))

    @strawberry.field
    def store_input(self, input: Input) -> list[Stored]:
        return [Stored(text=encode_metadata(input.value))]


SCHEMA = strawberry.Schema(Query, config=CONFIG)


async def answers(query: str, **variables: Any) -> list[Any]:
    """Return the decoded responses of graphql-core, of the compiled operation, and of its generated code."""
    assert validate(SCHEMA._schema, parse(query)) == []
    results = [execute(SCHEMA._schema, parse(query), variable_values=variables)]
    for generate_after in (100, 0):
        operation = compile_operation(SCHEMA, parse(query), generate_after=generate_after)
        assert operation is not None
        await operation.execute(variables, None, None)
        results.append(await operation.execute(variables, None, None))
    assert [result.errors for result in results] == [None] * 3
    return [orjson.loads(encode({"data": result.data}))["data"] for result in results]


@pytest.mark.parametrize("value", [*VALUES, None], ids=repr)
async def test_a_variable_comes_back_as_it_was_sent(value: Any) -> None:
    query = "query ($v: JSON) { store(value: $v) { value resolved } storeInput(input: { value: $v }) { value } }"
    expected = {"store": {"value": value, "resolved": value}, "storeInput": [{"value": value}]}
    assert await answers(query, v=value) == [expected] * 3


@pytest.mark.parametrize(
    ("literal", "value"),
    [
        ("5", 5),
        ("-1.5e3", -1500.0),
        ('"text"', "text"),
        ("null", None),
        ("[1, [true], null]", [1, [True], None]),
        ('{ a: { b: "c" }, d: [] }', {"a": {"b": "c"}, "d": []}),
        ("{ a: $v, b: [$v, $none], c: $none }", {"a": {"x": [1]}, "b": [{"x": [1]}, None]}),
        ("[18446744073709551615]", [2**64 - 1]),
    ],
)
async def test_a_literal_is_read_with_the_variables_inside_it(literal: str, value: Any) -> None:
    fields = f"used: store(value: [$v, $none]) {{ value }} store(value: {literal}) {{ value }}"
    query = f"query ($v: JSON, $none: JSON) {{ {fields} }}"
    for answer in await answers(query, v={"x": [1]}):
        assert answer["store"] == {"value": value}


@pytest.mark.parametrize("literal", ["RED", "{ a: [RED] }", "1e999", "{ a: " + "9" * 5000 + " }", "{ a: 1, a: 2 }"])
def test_a_literal_that_is_not_json_is_refused(literal: str) -> None:
    assert validate(SCHEMA._schema, parse(f"{{ store(value: {literal}) {{ value }} }}")) != []


def nested(depth: int) -> Any:
    value: Any = "deep"
    for level in range(depth):
        value = {"k": value} if level % 2 else [value]
    return value


@pytest.mark.parametrize(
    "value",
    [
        nested(MAX_DEPTH),
        "x" * (MAX_BYTES - 2),
        "я" * ((MAX_BYTES - 2) // 2),
        {"k" * 100: list(range(1000))},
    ],
    ids=lambda value: str(value)[:20],
)
def test_values_up_to_the_limits_are_kept(value: Any) -> None:
    text = encode_metadata(value)
    assert text is not None and json.loads(text) == value


@pytest.mark.parametrize(
    "value",
    [
        nested(MAX_DEPTH + 1),
        nested(300),
        nested(100_000),
        "x" * (MAX_BYTES - 1),
        "я" * (MAX_BYTES // 2),
        ["\ud800"],
        {"\udfff": 1},
        float("inf"),
        [float("nan")],
        2**64,
        {"a": -(2**63) - 1},
        b"bytes",
    ],
    ids=lambda value: "" if isinstance(value, list | dict) else repr(value)[:20],
)
def test_values_beyond_the_limits_are_refused_and_the_field_is_named(value: Any) -> None:
    with pytest.raises(InvalidInput) as refused:
        encode_metadata(value, "userMetadata")
    assert refused.value.field == "userMetadata"
    assert "userMetadata" in refused.value.message


def test_equal_values_have_equal_texts() -> None:
    assert encode_metadata({"b": [1], "a": {"d": 1, "c": 2}}) == '{"a":{"c":2,"d":1},"b":[1]}'
    assert encode_metadata(None) is None


def test_a_response_that_orjson_refuses_still_has_its_metadata() -> None:
    response = {"data": {"metadata": orjson.Fragment('{"a":[1]}')}, "extensions": {"long": 2**70}}
    assert json.loads(encode(response)) == {"data": {"metadata": {"a": [1]}}, "extensions": {"long": 2**70}}
