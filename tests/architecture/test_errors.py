"""Every failure is answered with a code of the contract, and without internal details."""

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
from store.base.driver_errors import translate_errors
from store.base.errors import StoreError, Unreachable

WITHOUT_A_CLASS = {"INTERNAL"}
"""Exceptions that only a bug raises."""


def leaves(kind: type[Any]) -> list[type[Any]]:
    """Return the leaves below `kind` in its own module; other modules may refine them without a new code."""
    own = [child for child in kind.__subclasses__() if child.__module__ == kind.__module__]
    return [leaf for child in own for leaf in leaves(child)] or [kind]


def formatted(error: Exception) -> dict[str, Any]:
    return format_error(GraphQLError("outer", original_error=error), "request-1")


def test_leaves_of_the_error_tree_and_codes_correspond_one_to_one() -> None:
    codes = [leaf.code for leaf in leaves(ConfabError)]
    assert sorted(codes) == sorted(set(codes))
    assert set(codes) | WITHOUT_A_CLASS == {code.value for code in ErrorCode}
    assert not set(codes) & WITHOUT_A_CLASS
    assert set(build_schema(print_sdl()).type_map["ErrorCode"].values) == {code.value for code in ErrorCode}  # type: ignore[attr-defined]


@pytest.mark.parametrize("leaf", leaves(ConfabError), ids=lambda leaf: str(leaf.__name__))
def test_a_failure_is_answered_with_its_code_and_field(leaf: type[ConfabError]) -> None:
    plain = formatted(leaf("why"))
    assert (plain["message"], plain["extensions"]) == ("why", {"code": leaf.code, "retryable": leaf.retryable})
    assert formatted(leaf("why", field="name"))["extensions"]["field"] == "name"


def test_the_tree_drawn_in_the_docstring_is_the_real_one() -> None:
    drawn = re.findall(r"^[├└]── (\w+) +([A-Z_]+)(?: +(retryable))?$", inspect.getdoc(errors) or "", re.MULTILINE)
    assert drawn == [(leaf.__name__, leaf.code, "retryable" if leaf.retryable else "") for leaf in leaves(ConfabError)]


@pytest.mark.parametrize("leaf", leaves(StoreError), ids=lambda leaf: str(leaf.__name__))
def test_a_store_error_is_unavailable_and_retryable(leaf: type[StoreError]) -> None:
    answer = formatted(leaf("mongodb://user:secret@host failed"))
    assert answer["extensions"] == {"code": "UNAVAILABLE", "retryable": True}
    assert "host" not in answer["message"]


@pytest.mark.parametrize(
    "defect", [ValueError("secret"), KeyError("secret"), AssertionError("secret"), OSError("secret")]
)
def test_a_bug_is_internal_and_reveals_only_a_correlation_id(defect: Exception) -> None:
    answer = formatted(defect)
    correlation_id = answer["extensions"].pop("correlationId")
    assert re.fullmatch(r"[0-9a-f]{16}", correlation_id)
    assert answer["extensions"] == {"code": "INTERNAL", "retryable": False}
    assert "secret" not in answer["message"]
    assert formatted(defect)["extensions"]["correlationId"] != correlation_id


def test_an_error_of_graphql_core_is_invalid_input() -> None:
    schema = build_schema("type Query { me: ID }")
    (refused,) = validate(schema, parse("{ you }"))
    for error in (refused, GraphQLError("outer", original_error=refused)):
        assert format_error(error, "-")["extensions"] == {"code": "INVALID_INPUT", "retryable": False}


def test_a_failure_wrapped_more_than_once_keeps_its_code() -> None:
    inner = GraphQLError("inner", original_error=errors.NotFound("gone", field="id"))
    assert formatted(inner)["extensions"] == {"code": "NOT_FOUND", "retryable": False, "field": "id"}


# Errors of the drivers.

PASSED_ON = {pymongo.errors.DuplicateKeyError, pymongo.errors.BulkWriteError}


def of_drivers() -> list[type[Exception]]:
    def below(kind: type[Any]) -> set[type[Any]]:
        return {kind}.union(*(below(child) for child in kind.__subclasses__()))

    found = below(pymongo.errors.PyMongoError) | below(redis.exceptions.RedisError) | {OSError, TimeoutError}
    return sorted(found - PASSED_ON, key=lambda kind: f"{kind.__module__}.{kind.__name__}")


@pytest.mark.parametrize("kind", of_drivers(), ids=lambda kind: f"{kind.__module__}.{kind.__name__}")
def test_every_error_of_a_driver_is_translated(kind: type[Exception]) -> None:
    # Created without its constructor: the constructors differ, and only the class matters.
    error = kind.__new__(kind)
    with pytest.raises(Unreachable) as caught, translate_errors():
        raise error
    assert caught.value.__cause__ is error


def test_an_unreachable_mongodb_has_a_reason_in_one_line() -> None:
    url = "mongodb://ann:zq-password@127.0.0.1:1,127.0.0.1:2/?replicaSet=a&serverSelectionTimeoutMS=500"
    with pymongo.MongoClient[dict[str, Any]](url) as client:
        with pytest.raises(pymongo.errors.ServerSelectionTimeoutError, match="Topology Description"):
            client.admin.command("ping")
        with pytest.raises(Unreachable) as caught, translate_errors():
            client.admin.command("ping")
    assert caught.value.database == "mongodb"
    # The order of the servers may differ.
    reason, *servers = re.split(r"(?=127\.0\.0\.1:)", str(caught.value).replace(",", ""))
    assert reason == "no server of MongoDB can be reached: "
    assert sorted(servers) == [f"127.0.0.1:{port}: [Errno 111] Connection refused" for port in (1, 2)]


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ("No primary available, Timeout: -0.0003s, Topology Description: <a>", "No primary available"),
        ("a:1: no, Timeout: 9e-05s, Topology Description: <b>", "no server of MongoDB can be reached: a:1: no"),
    ],
)
def test_the_reason_says_whether_servers_answer(message: str, reason: str) -> None:
    with pytest.raises(Unreachable) as caught, translate_errors():
        raise pymongo.errors.ServerSelectionTimeoutError(message)
    assert str(caught.value) == reason


@pytest.mark.parametrize(
    ("details", "raised"),
    [
        ({"writeErrors": [{"code": 11000}], "writeConcernErrors": []}, pymongo.errors.BulkWriteError),
        ({"writeErrors": [{"code": 11000}, {"code": 91}], "writeConcernErrors": []}, Unreachable),
        ({"writeErrors": [], "writeConcernErrors": [{"code": 64}]}, Unreachable),
    ],
    ids=["collisions", "a collision and a shutdown", "no majority"],
)
def test_a_bulk_write_reports_collisions_only_without_other_errors(
    details: dict[str, Any], raised: type[Exception]
) -> None:
    with pytest.raises(raised), translate_errors():
        raise pymongo.errors.BulkWriteError(details)


def test_a_duplicate_key_reaches_the_caller() -> None:
    with pytest.raises(pymongo.errors.DuplicateKeyError), translate_errors():
        raise pymongo.errors.DuplicateKeyError("taken")


def test_only_the_drivers_own_lock_error_is_translated_among_runtime_errors() -> None:
    with pytest.raises(Unreachable), translate_errors():
        raise RuntimeError("Lock is not acquired")
    with pytest.raises(RuntimeError, match="something else"), translate_errors():
        raise RuntimeError("something else")
