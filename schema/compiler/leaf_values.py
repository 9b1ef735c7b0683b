"""Scalars and enums in the response."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any

import orjson
from graphql import (
    GraphQLBoolean,
    GraphQLEnumType,
    GraphQLID,
    GraphQLInt,
    GraphQLLeafType,
    GraphQLScalarType,
    GraphQLString,
    Undefined,
)
from graphql.execution import Executor
from graphql.pyutils import is_awaitable

LeafSerializer = Callable[[Any], Any]
"""Returns the response's form of a value. Raises an exception for values that need the full path of execution."""

MAX_INT = 2**31 - 1

_PLAIN_CLASSES = frozenset({str, int, float, bool})
"""Their instances are neither awaitable nor errors."""

_RESPONSE_CLASSES = _PLAIN_CLASSES | {orjson.Fragment}
"""Classes of values that can be encoded. A fragment is text that is encoded already."""


class NeedsFullPath(Exception):
    """Raised for a value that must be awaited, that is an error, or that is null where null is not allowed."""


def passthrough_class(type_: GraphQLLeafType) -> type | None:
    """Return the class whose instances appear in the response unchanged."""
    if type_ in (GraphQLString, GraphQLID):
        return str
    if type_ is GraphQLBoolean:
        return bool
    if isinstance(type_, GraphQLScalarType) and type_.coerce_output_value in (str, int):
        # str() of a str, and int() of an int, change nothing.
        return type_.coerce_output_value
    return None


def serialize_leaf(type_: GraphQLLeafType, value: Any) -> Any:
    """Return the response's form of a value. Raises GraphQLError and the exceptions of the type's serializer."""
    return Executor.complete_leaf_value(type_, value)


def leaf_serializer(type_: GraphQLLeafType, *, nullable: bool) -> LeafSerializer:
    """Return a fast serializer for one type, which allows null if the type is nullable."""

    def serialize(value: Any) -> Any:
        if value is None or value is Undefined:
            if nullable:
                return None
            raise NeedsFullPath
        if isinstance(value, Exception) or is_awaitable(value):
            raise NeedsFullPath
        return serialize_leaf(type_, value)

    if type_ is GraphQLInt:

        def serialize_int(value: Any) -> Any:
            return value if type(value) is int and -MAX_INT <= value <= MAX_INT else serialize(value)

        return serialize_int
    if isinstance(type_, GraphQLEnumType):
        return EnumNames(serialize)
    coerce = type_.coerce_output_value

    def serialize_scalar(value: Any) -> Any:
        if type(value) in _PLAIN_CLASSES:
            coerced = coerce(value)
            if type(coerced) in _RESPONSE_CLASSES:
                return coerced
        return serialize(value)

    return serialize_scalar


class EnumNames:
    """Serializes members of an enum, and caches their names by object id: members are slow to hash.

    Enum members and booleans are few and permanent. Other values are not cached.
    """

    __slots__ = ("_serialize", "names")

    def __init__(self, serialize: LeafSerializer) -> None:
        self._serialize = serialize
        self.names: dict[int, tuple[Enum | bool, Any]] = {}
        """Value and name. Holding the value keeps its id from being reused."""

    def __call__(self, value: Any) -> Any:
        """Return the name of a value."""
        cached = self.names.get(id(value))
        if cached is not None:
            return cached[1]
        name = self._serialize(value)
        if isinstance(value, Enum | bool):
            self.names[id(value)] = value, name
        return name
