"""Rendered responses to one event, which subscribers share."""

from __future__ import annotations

from collections.abc import Hashable
from enum import Enum, auto

from resolvers.users.callers import Caller
from schema.base.viewers import IDENTITY, ViewerDependency
from schema.events.source import CURSOR
from subscriptions.transport.engine import RequestRefused

_CURSOR = CURSOR.encode()


class ResponseTemplate:
    """An encoded response with a placeholder wherever the cursor was selected."""

    __slots__ = ("_parts", "needs_cursor")

    def __init__(self, response: bytes) -> None:
        self._parts = response.split(_CURSOR)
        self.needs_cursor = len(self._parts) > 1

    def fill(self, cursor: bytes = b"") -> bytes:
        """Return the response with a subscriber's cursor."""
        return cursor.join(self._parts)


class Dropped(Enum):
    """The result for a subscriber whose user has too many events that wait."""

    DROPPED = auto()


DROPPED = Dropped.DROPPED

RenderResult = ResponseTemplate | RequestRefused
"""A rendered event, or the error that ends the subscription."""


class ResultsByViewer:
    """The results of executions that have the same dependencies on the viewer, by the values of these dependencies."""

    __slots__ = ("_depends_on_identity", "_other_dependencies", "_rendered_values", "_templates", "dependencies")

    def __init__(self, dependencies: tuple[ViewerDependency, ...]) -> None:
        self.dependencies = dependencies
        self._depends_on_identity = IDENTITY in dependencies
        self._other_dependencies = tuple(dependency for dependency in dependencies if dependency is not IDENTITY)
        self._templates: dict[Hashable, ResponseTemplate] = {}
        self._rendered_values: set[Hashable] = set()

    def add(self, caller: Caller, template: ResponseTemplate) -> None:
        """Keep the response for callers like this one."""
        self._rendered_values.add(self._values_for(caller))
        self._templates[self._key(caller)] = template

    def find(self, caller: Caller) -> ResponseTemplate | None:
        """Return the response for a caller, if there is one."""
        return self._templates.get(self._key(caller))

    def is_individual(self, caller: Caller) -> bool:
        """Return True if it is known that no other user gets the same response as the caller."""
        return self._depends_on_identity and self._values_for(caller) in self._rendered_values

    def _values_for(self, caller: Caller) -> Hashable:
        return tuple([dependency.value_for(caller) for dependency in self._other_dependencies])

    def _key(self, caller: Caller) -> Hashable:
        values = self._values_for(caller)
        return (values, IDENTITY.value_for(caller)) if self._depends_on_identity else values
