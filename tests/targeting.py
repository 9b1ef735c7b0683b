"""Which shards MongoDB would have to ask: every command that the store sends, held against the shard keys.

`CONFAB_TEST_SHARDED=1` has the whole suite run as on a cluster of shards, with every test's commands looked at (`make cluster`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest
from pymongo.monitoring import CommandListener, CommandStartedEvent, register

from store.messages.message_origins import OriginStore
from store.mongo.client import Mongo
from store.mongo.collections import MEMBERS, RECEIPTS, SESSIONS
from store.mongo.sharding import SHARD_KEYS

Document = Mapping[str, Any]

RANGED = {MEMBERS, RECEIPTS, SESSIONS}
"""Collections where all rows of an owner lie together, by the first word of their `_id`s."""

EXCEPTIONS: dict[str, str] = {
    "messages {'_id': {'$gt": "after Redis was lost one server looks once through what was stored just before (mending.py)",
    "users {}": "an empty deployment's demo asks once whether there is anybody (begin_demo); servers for people don't",
}
"""Queries, by how they begin, that may go to every shard, and why. There is no other place for them."""

_HOUSEHOLD = {"hello", "ping", "endSessions", "createIndexes", "listIndexes", "listCollections", "dropDatabase",
              "commitTransaction", "abortTransaction", "getMore", "killCursors", "saslStart", "saslContinue"}  # fmt: skip


class Watch(CommandListener):
    """Commands of this process's stores, while they are watched."""

    def __init__(self) -> None:
        self.watching = False
        self.untargeted: list[str] = []
        self.seen: defaultdict[str, set[str]] = defaultdict(set)
        self.transactions: defaultdict[tuple[Any, int], list[tuple[str, str]]] = defaultdict(list)

    def started(self, event: CommandStartedEvent) -> None:
        if not self.watching or event.command_name in _HOUSEHOLD or not event.database_name.startswith("test_"):
            return
        command = event.command
        if not command.keys() & {"readConcern", "writeConcern", "autocommit"}:
            # What a test itself looks at or changes.
            return
        collection = command[event.command_name]
        self.seen[collection].add(event.command_name)
        if collection not in SHARD_KEYS:
            return
        for statement in _statements(event.command_name, collection, command):
            told = f"{collection} {statement}"
            if not _is_targeted(collection, event.command_name, statement) and not told.startswith(tuple(EXCEPTIONS)):
                self.untargeted.append(f"{event.command_name} {told}")
            if "autocommit" in command:
                number = (command["lsid"]["id"], command["txnNumber"])
                self.transactions[number].append((collection, _owner(collection, statement)))

    def succeeded(self, event: Any) -> None:
        pass

    failed = succeeded


_watch = Watch()
register(_watch)


@contextmanager
def as_sharded(*, filled: bool = False) -> Iterator[Watch]:
    """Stores believe to be on a cluster of shards, and what they send is watched. filled: and that `confab shard` was there."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Mongo, "is_sharded", True)
        if filled:
            patch.setattr(OriginStore, "_is_filled", _yes)
        _watch.untargeted, _watch.watching = [], True
        _watch.seen.clear()
        _watch.transactions.clear()
        try:
            yield _watch
        finally:
            _watch.watching = False


async def _yes(_store: OriginStore) -> bool:
    return True


def _statements(name: str, collection: str, command: Document) -> Iterator[Document]:
    """What each part of a command picks its documents by."""
    match name:
        case "find":
            yield command["filter"]
        case "findAndModify":
            yield command["query"]
        case "insert":
            for document in command["documents"]:
                yield {field: document[field] for field in SHARD_KEYS[collection]}
        case "update":
            for update in command["updates"]:
                assert not update.get("multi"), f"many documents at once: {update}"
                yield update["q"]
        case "delete":
            for delete in command["deletes"]:
                yield delete["q"]
        case "aggregate":
            yield command["pipeline"][0].get("$match", {})
            for stage in command["pipeline"]:
                if "$lookup" in stage and not _is_joined_by_key(stage["$lookup"]):
                    yield {"$lookup": stage["$lookup"]}
        case _:
            raise AssertionError(f"how does {name} pick its documents?")


def _is_joined_by_key(join: Document) -> bool:
    """Whether what is joined lies on one shard for each row."""
    key = SHARD_KEYS[join["from"]]
    if join.get("foreignField") == next(iter(key)):
        return True
    # A range that begins as the row's own `_id` does.
    bounds = join["pipeline"][0]["$match"]["$expr"]["$and"]
    ends = [bound[comparison][0] for bound in bounds for comparison in ("$gte", "$lte") if comparison in bound]
    begins = all(value["$concat"][0] == "$_id" for value in join["let"].values())
    return join["from"] in RANGED and ends == ["$_id", "$_id"] and begins


def _is_targeted(collection: str, name: str, query: Document) -> bool:
    if "$or" in query:
        rest = {field: value for field, value in query.items() if field != "$or"}
        if all(_is_targeted(collection, name, rest | branch) for branch in query["$or"]):
            return True
    if name in {"update", "delete", "findAndModify"}:
        # One document: exactly one shard.
        return all(_is_equal(query.get(field)) for field in SHARD_KEYS[collection])
    first = query.get(next(iter(SHARD_KEYS[collection])))
    if _is_equal(first) or (isinstance(first, Mapping) and "$in" in first):
        return True
    return collection in RANGED and _is_of_one_owner(first)


def _is_equal(value: object) -> bool:
    return value is not None and not (isinstance(value, Mapping) and any(key.startswith("$") for key in value))


def _is_of_one_owner(bounds: object) -> bool:
    if not isinstance(bounds, Mapping):
        return False
    low = bounds.get("$gte", bounds.get("$gt"))
    high = bounds.get("$lte", bounds.get("$lt"))
    if not (isinstance(low, str) and isinstance(high, str) and " " in low):
        return False
    owner = low.partition(" ")[0]
    return high == f"{owner}!" or high.startswith(f"{owner} ")


def _owner(collection: str, statement: Document) -> str:
    """Whose shard it is."""
    value = statement[next(iter(SHARD_KEYS[collection]))]
    return str(value).partition(" ")[0] if collection in RANGED else str(value)
