"""Reads what the fields of all objects of a list need, before the first of these objects is completed.

A resolver asks a data loader for what it needs. If the loader has to read, the value of the field comes later, which
costs some objects and calls for each field. For a list, one call beforehand lets the loader read for all its objects:

    @strawberry.field(metadata=prefetched_by(load_authors))
    def author(self, info: Info) -> Author: ...

The resolver must not rely on it: graphql-core, and single objects, do without.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, TypeAlias

from graphql import GraphQLField
from strawberry.schema.schema_converter import GraphQLCoreConverter

Prefetch: TypeAlias = "Callable[[Any, Sequence[Any]], asyncio.Future[Any] | None]"
"""Begins to read what a field of some objects needs. Takes the execution's context and the objects.

Returns a future that ends when the read has ended or failed, and never raises; None if nothing has to be read. It does
not report errors: the resolvers find out by themselves.
"""

_PREFETCH = "prefetch"


def prefetched_by(prefetch: Prefetch) -> dict[Any, Any]:
    """Return the metadata of a field that has a prefetch function."""
    return {_PREFETCH: prefetch}


def prefetch_of(field: GraphQLField) -> Prefetch | None:
    """Return the prefetch function of a field."""
    definition = field.extensions.get(GraphQLCoreConverter.DEFINITION_BACKREF)
    metadata: Mapping[Any, Any] = getattr(definition, "metadata", None) or {}
    return metadata.get(_PREFETCH)


@dataclass(frozen=True, slots=True)
class PlannedPrefetch:
    """The prefetch functions for objects of one class.

    `path` leads from an item of the list to the object: classes, and the attribute to read of their instances.
    """

    path: tuple[tuple[type, Callable[[Any], Any]], ...]
    class_: type
    functions: tuple[Prefetch, ...]

    def below(self, class_: type, attribute: str) -> PlannedPrefetch:
        """Return the same functions for items of a class whose attribute holds the item."""
        return PlannedPrefetch(((class_, attrgetter(attribute)), *self.path), self.class_, self.functions)


def start_prefetches(
    planned: Sequence[PlannedPrefetch], items: Sequence[Any], context: Any
) -> asyncio.Future[Any] | None:
    """Begin to read for the items of a list. Return a future that ends when all reads have ended; None: no reads."""
    futures: list[asyncio.Future[Any]] = []
    for each in planned:
        objects = items
        for class_, read in each.path:
            objects = [read(item) for item in objects if isinstance(item, class_)]
        objects = [item for item in objects if isinstance(item, each.class_)]
        if objects:
            futures += [future for function in each.functions if (future := function(context, objects)) is not None]
    if len(futures) > 1:
        return asyncio.gather(*futures)
    return futures[0] if futures else None
