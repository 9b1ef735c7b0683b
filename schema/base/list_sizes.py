"""Sizes of lists without `first`, declared at their fields.

The limits on the size of an operation count these items before it is executed:

    @strawberry.field(metadata=holds(10))
    def mentions(self, info: Info) -> list[UserType]: ...

    @strawberry.field(metadata=one_for_each("ids"))
    async def users(self, info: Info, ids: list[strawberry.ID]) -> list[UserType | None]: ...

Pages need no declaration: their `first` or `last` counts, also for the lists inside a connection. A list of enums or
other scalars is one value: nothing is read or resolved for its items. For lists without a bound the numbers are
estimates. The real number of items is counted during the execution, which stops when it has produced too many values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from graphql import GraphQLField
from strawberry.schema.schema_converter import GraphQLCoreConverter

_LIST_SIZE = "list_size"


@dataclass(frozen=True, slots=True)
class ListSize:
    """Items of a list: as many as `argument` has, or `items` without that argument."""

    items: int
    argument: str | None = None


def holds(items: int) -> dict[Any, Any]:
    """Return the metadata of a field whose list holds about this number of items."""
    return {_LIST_SIZE: ListSize(items)}


def one_for_each(argument: str, *, otherwise: int = 1) -> dict[Any, Any]:
    """Return the metadata of a field with one item for each item of an argument, named as in the schema."""
    return {_LIST_SIZE: ListSize(otherwise, argument)}


def find_list_size(field: GraphQLField) -> ListSize | None:
    """Return the declared size of a field's list."""
    definition = field.extensions.get(GraphQLCoreConverter.DEFINITION_BACKREF)
    metadata: Mapping[Any, Any] = getattr(definition, "metadata", None) or {}
    return metadata.get(_LIST_SIZE)
