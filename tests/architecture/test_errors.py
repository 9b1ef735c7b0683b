"""Every failure leaves with a code of the contract, and nothing of the inside."""

from __future__ import annotations

import inspect
import re
from typing import Any

import pymongo.errors
import pytest
import redis.exceptions
from graphql import GraphQLError, build_schema, parse, validate

from resolvers.base import errors
from resolvers.base.errors import ConfabError
from schema.base.errors import ErrorCode, format_error
from schema.sdl import print_sdl
from store.base.errors import StoreError, Unreachable, translate_errors

WITHOUT_A_CLASS = {"INTERNAL"}
"""What is raised by none of ours: a defect."""


def leaves(kind: type[Any]) -> list[type[Any]]:
    """The kinds below `kind` that its own module defines; others may refine them without adding a code."""
    own = [child for child in kind.__subclasses__() if child.__module__ == kind.__module__]
    return [leaf for child in own for leaf in leaves(child)] or [kind]


def told(error: Exception) -> dict[str, Any]:
    return format_error(GraphQLError("outer", original_error=error), "request-1")


def test_each_leaf_has_a_code_of_its_own_and_each_code_a_leaf() -> None:
    codes = [leaf.code for leaf in leaves(ConfabError)]
    assert sorted(codes) == sorted(set(codes))
    assert set(codes) | WITHOUT_A_CLASS == {code.value for code in ErrorCode}
    assert not set(codes) & WITHOUT_A_CLASS
    assert set(build_schema(print_sdl()).type_map["ErrorCode"].values) == {code.value for code in ErrorCode}  # type: ignore[attr-defined]


@pytest.mark.parametrize("leaf", leaves(ConfabError), ids=lambda leaf: str(leaf.__name__))
def test_a_failure_is_told_with_its_code_and_the_field_at_fault(leaf: type[ConfabError]) -> None:
    plain = told(leaf("why"))
    assert (plain["message"], plain["extensions"]) == ("why", {"code": leaf.code, "retryable": leaf.retryable})
    assert told(leaf("why", field="name"))["extensions"]["field"] == "name"


def test_the_tree_at_the_top_of_the_module_is_the_one_below_it() -> None:
    drawn = re.findall(r"^[├└]── (\w+) +([A-Z_]+)(?: +(retryable))?$", inspect.getdoc(errors) or "", re.MULTILINE)
    assert drawn == [(leaf.__name__, leaf.code, "retryable" if leaf.retryable else "") for leaf in leaves(ConfabError)]


@pytest.mark.parametrize("leaf", leaves(StoreError), ids=lambda leaf: str(leaf.__name__))
def test_a_store_that_fails_is_unavailable_and_worth_another_try(leaf: type[StoreError]) -> None:
    answer = told(leaf("mongodb://user:secret@host said something"))
    assert answer["extensions"] == {"code": "UNAVAILABLE", "retryable": True}
    assert "host" not in answer["message"]


@pytest.mark.parametrize(
    "defect", [ValueError("secret"), KeyError("secret"), AssertionError("secret"), OSError("secret")]
)
def test_a_defect_is_internal_and_tells_nothing_but_where_to_look(defect: Exception) -> None:
    answer = told(defect)
    correlation_id = answer["extensions"].pop("correlationId")
    assert re.fullmatch(r"[0-9a-f]{16}", correlation_id)
    assert answer["extensions"] == {"code": "INTERNAL", "retryable": False}
    assert "secret" not in answer["message"]
    assert told(defect)["extensions"]["correlationId"] != correlation_id


def test_what_graphql_itself_refuses_is_invalid_input() -> None:
    schema = build_schema("type Query { me: ID }")
    (refused,) = validate(schema, parse("{ you }"))
    for error in (refused, GraphQLError("outer", original_error=refused)):
        assert format_error(error, "-")["extensions"] == {"code": "INVALID_INPUT", "retryable": False}


def test_a_failure_wrapped_more_than_once_keeps_its_code() -> None:
    inner = GraphQLError("inner", original_error=errors.NotFound("gone", field="id"))
    assert told(inner)["extensions"] == {"code": "NOT_FOUND", "retryable": False, "field": "id"}


# --- drivers' errors

PASSED_ON = {pymongo.errors.DuplicateKeyError, pymongo.errors.BulkWriteError}


def of_drivers() -> list[type[Exception]]:
    def below(kind: type[Any]) -> set[type[Any]]:
        return {kind}.union(*(below(child) for child in kind.__subclasses__()))

    found = below(pymongo.errors.PyMongoError) | below(redis.exceptions.RedisError) | {OSError, TimeoutError}
    return sorted(found - PASSED_ON, key=lambda kind: f"{kind.__module__}.{kind.__name__}")


@pytest.mark.parametrize("kind", of_drivers(), ids=lambda kind: f"{kind.__module__}.{kind.__name__}")
def test_every_error_of_a_driver_is_translated(kind: type[Exception]) -> None:
    # Made without its constructor: each has another one, and the kind alone matters.
    error = kind.__new__(kind)
    with pytest.raises(Unreachable) as caught, translate_errors():
        raise error
    assert caught.value.__cause__ is error


@pytest.mark.parametrize(
    ("details", "raised"),
    [
        ({"writeErrors": [{"code": 11000}], "writeConcernErrors": []}, pymongo.errors.BulkWriteError),
        ({"writeErrors": [{"code": 11000}, {"code": 91}], "writeConcernErrors": []}, Unreachable),
        ({"writeErrors": [], "writeConcernErrors": [{"code": 64}]}, Unreachable),
    ],
    ids=["collisions", "a collision and a shutdown", "no majority"],
)
def test_a_batch_of_writes_tells_of_collisions_only_where_nothing_else_went_wrong(
    details: dict[str, Any], raised: type[Exception]
) -> None:
    with pytest.raises(raised), translate_errors():
        raise pymongo.errors.BulkWriteError(details)


def test_a_collision_is_for_the_caller_to_judge() -> None:
    with pytest.raises(pymongo.errors.DuplicateKeyError), translate_errors():
        raise pymongo.errors.DuplicateKeyError("taken")


def test_a_drivers_trouble_with_its_own_lock_is_translated_and_no_other_runtime_error() -> None:
    with pytest.raises(Unreachable), translate_errors():
        raise RuntimeError("Lock is not acquired")
    with pytest.raises(RuntimeError, match="something else"), translate_errors():
        raise RuntimeError("something else")
