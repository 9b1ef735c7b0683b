"""Writes to several collections that are sent together, and their outcomes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, Self

from pymongo.errors import BulkWriteError

from store.base.errors import Unreachable

Document = dict[str, Any]

_DUPLICATE_KEY = 11000
_DOCUMENTS_PER_COMMAND = 100
"""This many messages of the largest size, with the most mentions, fit into one command."""

_UPDATES_PER_COMMAND = 1_000
_DURABLE = {"w": "majority", "j": True}


class Update(NamedTuple):
    """An update of one document."""

    query: Mapping[str, Any]
    change: Mapping[str, Any] | Sequence[Mapping[str, Any]]
    upsert: bool = False


class Command(NamedTuple):
    """A command. `statements` are the value of its field `field`, if it has one."""

    body: Document
    field: str = ""
    statements: Sequence[Document] = ()


class Write(NamedTuple):
    """Inserts or updates in one collection, for `Mongo.write`.

    `may_collide`: the outcome names statements that failed because of a duplicate key. If false, they are a failure.
    """

    collection: str
    kind: Literal["insert", "update"]
    statements: Sequence[Document]
    may_collide: bool

    @classmethod
    def inserts(cls, collection: str, documents: Sequence[Document]) -> Self:
        """Return the inserts of documents."""
        return cls(collection, "insert", documents, may_collide=True)

    @classmethod
    def updates(cls, collection: str, updates: Sequence[Update], *, may_collide: bool = False) -> Self:
        """Return updates, which are executed in any order."""
        statements: list[Document] = [
            {"q": query, "u": change, "upsert": True} if upsert else {"q": query, "u": change}
            for query, change, upsert in updates
        ]
        return cls(collection, "update", statements, may_collide)

    def commands(self) -> list[Command]:
        """Return the commands: acknowledged by a majority with its journal, and never repeated by the driver."""
        is_insert = self.kind == "insert"
        field, size = ("documents", _DOCUMENTS_PER_COMMAND) if is_insert else ("updates", _UPDATES_PER_COMMAND)
        body = {self.kind: self.collection, "ordered": False, "writeConcern": _DURABLE}
        starts = range(0, len(self.statements), size)
        return [Command(body, field, self.statements[start : start + size]) for start in starts]


class WriteOutcome(NamedTuple):
    """The confirmed outcome of a write.

    Attributes:
        touched: Documents that were inserted, or matched or upserted by updates.
        duplicates: Positions of the statements that failed because a document with the same key exists.
    """

    touched: int
    duplicates: Sequence[int]


def is_duplicate(error: BulkWriteError) -> bool:
    """Return whether all failures of a bulk write are collisions with documents that have the same key."""
    failures = error.details.get("writeErrors", ())
    return bool(failures) and all(failure["code"] == _DUPLICATE_KEY for failure in failures)


def outcome_of(write: Write, answers: Sequence[Mapping[str, Any]]) -> WriteOutcome:
    """Return the outcome of a write from MongoDB's answers to its commands, in order.

    Raises Unreachable for any failure but a collision that the write allows.
    """
    touched, start, duplicates = 0, 0, list[int]()
    for command, answer in zip(write.commands(), answers, strict=True):
        failures = answer.get("writeErrors", ())
        cause = answer.get("writeConcernError") or next(
            (f for f in failures if f["code"] != _DUPLICATE_KEY or not write.may_collide), None
        )
        if cause is not None:
            raise Unreachable(f"a batch of writes was not confirmed: code {cause.get('code')}", "mongodb")
        touched += answer["n"]
        duplicates += [start + failure["index"] for failure in failures]
        start += len(command.statements)
    return WriteOutcome(touched, duplicates)
