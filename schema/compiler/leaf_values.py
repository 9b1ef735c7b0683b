"""Scalars and enums in the response."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any

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

Quick = Callable[[Any], Any]
"""The response's form of a value that is there; raises for anything out of the ordinary."""

_LONGEST_INT = 2**31 - 1


class OutOfTheOrdinary(Exception):
    """A value that has to be waited for, that is an error, or that is missing where it may not."""


def plain_class(type_: GraphQLLeafType) -> type | None:
    """The class whose values stand in the response as they are."""
    if type_ in (GraphQLString, GraphQLID):
        return str
    if type_ is GraphQLBoolean:
        return bool
    if isinstance(type_, GraphQLScalarType) and type_.coerce_output_value in (str, int):
        # What str makes of a str is the same.
        return type_.coerce_output_value
    return None


def leaf_value(type_: GraphQLLeafType, value: Any) -> Any:
    """The response's form of a value. Raises GraphQLError and whatever the type raises."""
    return Executor.complete_leaf_value(type_, value)


def quick_leaf(type_: GraphQLLeafType, *, nullable: bool) -> Quick:
    """Like `leaf_value` for one type, null where that may be."""

    def ordinary(value: Any) -> Any:
        if value is None or value is Undefined:
            if nullable:
                return None
            raise OutOfTheOrdinary
        if isinstance(value, Exception) or is_awaitable(value):
            raise OutOfTheOrdinary
        return leaf_value(type_, value)

    if type_ is GraphQLInt:

        def whole_number(value: Any) -> Any:
            return value if type(value) is int and -_LONGEST_INT <= value <= _LONGEST_INT else ordinary(value)

        return whole_number
    if isinstance(type_, GraphQLEnumType):
        return _remembering(ordinary)
    return ordinary


def _remembering(ordinary: Quick) -> Quick:
    """The members of an enum are few, stay, and are slow to hash: their names are known by their ids."""
    names: dict[int, tuple[Enum, Any]] = {}

    def name(value: Any) -> Any:
        known = names.get(id(value))
        if known is not None:
            return known[1]
        done = ordinary(value)
        if isinstance(value, Enum):
            # Kept with its name, so that no other object can have its id.
            names[id(value)] = value, done
        return done

    return name
