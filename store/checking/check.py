"""The interface of a check, and the differences that it finds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar, NamedTuple, Protocol

from store.mongo.collections import CONVERSATIONS, FILES, USERS, WORKSPACES


class Objects(Enum):
    """The kinds of objects that checks go through. The value is the collection that has a row for each."""

    CONVERSATION = CONVERSATIONS
    USER = USERS
    WORKSPACE = WORKSPACES
    FILE = FILES
    BLOB = "blobs"
    """In the blob store, not in a collection."""


class Difference(NamedTuple):
    """A derived value that is not what the records give.

    Attributes:
        check: Name of the check.
        object_id: The conversation, user, workspace, file or blob.
        field: What differs.
        value: The value that was found.
        expected: The value that follows from the records.
        is_repairable: `Check.repair` can derive it again.
    """

    check: str
    object_id: str
    field: str
    value: Any
    expected: Any
    is_repairable: bool = True

    def __str__(self) -> str:
        """Return the difference as a line of a report."""
        return f"{self.check}: {self.object_id}: {self.field} is {self.value!r}, expected {self.expected!r}"


@dataclass(frozen=True, slots=True)
class Scope:
    """The objects that a check goes through.

    Attributes:
        objects: Their kind.
        prefixes: Beginnings of their ids; "": all.
        is_cached: The check reads Redis.
    """

    objects: Objects
    prefixes: tuple[str, ...] = ("",)
    is_cached: bool = False


class Check(Protocol):
    """Compares one kind of derived data with the records.

    Reads go on while other servers write, so a difference may be that of a moment. The caller reads again.
    """

    name: ClassVar[str]
    """As users name it on the command line."""
    scope: ClassVar[Scope]

    async def compare(self, ids: Sequence[str]) -> list[Difference]:
        """Return the differences of some objects. Objects that do not exist have none. Raises StoreError."""
        ...

    async def repair(self, object_id: str, differences: Sequence[Difference]) -> None:
        """Derive the differing data of one object again. May be repeated. Raises StoreError.

        differences: those of the object that are repairable. A value that has changed since is left as it is.
        """
        ...
