"""Checks the shard keys of every command that the store sends to MongoDB.

`CONFAB_TEST_SHARDED=1` runs the suite as on a sharded cluster, and checks the commands of every test (`make cluster`).
"""

from __future__ import annotations

import asyncio
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from pymongo.monitoring import CommandListener, CommandStartedEvent, register

from store.messages.message_origins import OriginStore
from store.mongo.client import Mongo
from store.mongo.collections import (
    AUDIT,
    BANS,
    CHANNELS,
    DEVICES,
    INVITES,
    MEMBERS,
    REACTIONS,
    RECEIPTS,
    SESSIONS,
    WORKSPACE_MEMBERS,
    WORKSPACES_OF,
)
from store.mongo.direct_commands import DirectCommands
from store.mongo.sharding import SHARD_KEYS
from store.mongo.writes import Command

Document = Mapping[str, Any]

RANGED = {
    AUDIT, BANS, CHANNELS, DEVICES, INVITES, MEMBERS, REACTIONS, RECEIPTS, SESSIONS, WORKSPACE_MEMBERS, WORKSPACES_OF
}  # fmt: skip
"""Collections whose rows are grouped by owner, the first word of their `_id`s."""

EXCEPTIONS: dict[str, str] = {
    "messages {'_id': {'$gt": "loss recovery reads recent messages once (loss_recovery.py)",
    "messages {'et'": "edited messages are read once after a loss of Redis (past_indexing.py)",
    "messages {'rc'": "recalled messages are read once after a loss of Redis (changed_messages.py)",
    "messages {}": "the command `search rebuild` reads the oldest message (search.py)",
    "users {'k':": "the directory is searched on every shard, each of which reads one page (user_search.py)",
    "users {'_id': {'$gt'": "users without current search fields are looked for once an hour (user_search.py)",
    "messages {'em.p'": "links that no server has fetched are looked for every five seconds (embed_store.py)",
    "conversations {'pa.a'": "pins of servers that died are looked for every five seconds (announcements/pins.py)",
    "workspaces {'pn.a'": "changes of rights of servers that died are looked for once a second (policy_changes.py)",
    "workspaces {'op': True": "open workspaces are listed on every shard, one page on each (workspace_store.py)",
    "workspaces {'del': {'$lte'": "deleted workspaces are looked for every ten seconds (workspace_removal.py)",
    "workspaces {'rd': {'$lte'": "workspaces whose retention is due are looked for every 15 seconds (retention.py)",
    "sessions {'ch':": "the sessions of a deleted channel are looked for on every shard (channel_contents.py)",
    "conversations {'k': 'P', 'fo'": "private conversations whose messages expire are looked for (retention.py)",
    "conversations {'k': 'G', 'fo'": "groups whose messages expire are looked for (retention.py)",
    "conversations {'tp':": "threads of a conversation are listed on every shard, one page on each (thread_lists.py)",
    "conversations {'_id': {'$gt'": "a check goes through all conversations (store/checking/objects.py)",
    "workspaces {'_id': {'$gt'": "a check goes through all workspaces (store/checking/objects.py)",
    "files {}": "a check goes through all files (store/checking/files/objects.py)",
    "files {'_id': {'$gt'": "a check goes through all files (store/checking/files/objects.py)",
    "blobs.files {'_id': {'$gt'": "a check lists the names of all blobs (store/files/blobs/gridfs.py)",
    "blobs.chunks {'files_id': {'$gt'": "a check lists the names of all blobs (store/files/blobs/gridfs.py)",
    "files {'o':": "files of a user that no message has are counted, up to a limit, for each upload (file_store.py)",
    "files {'rm':": "files that may be removed are looked for every ten seconds (file_removals.py)",
    "files {'ta':": "files with superfluous blobs are looked for every ten seconds (file_removals.py)",
    "files {'st':": "files without an answer of the scanner are looked for every ten seconds (file_store.py)",
    "blocks {'pa'": "blocks of servers that died are looked for once a second (block_rows.py)",
    "blocks {'b.u'": "the blockers of a user are listed on every shard, a page on each (block_rows.py)",
    "search {}": "the end of a rebuild goes through the whole index (mongo_search_index.py)",
    "search {'_id': {'$gt'": "the end of a rebuild goes through the whole index (mongo_search_index.py)",
    "users {}": "the demo checks once whether there are users (begin_demo)",
}
"""Prefixes of queries that may go to every shard, with the reason."""

_SEPARATOR = re.compile("[ \t]")
"""The end of an owner in an `_id`: see `session_row_id`."""

_HOUSEHOLD = {
    "hello",
    "ping",
    "endSessions",
    "createIndexes",
    "listIndexes",
    "listCollections",
    "dropDatabase",
    "commitTransaction",
    "abortTransaction",
    "getMore",
    "killCursors",
    "saslStart",
    "saslContinue",
}


class Watch(CommandListener):
    """Records commands of this process's stores."""

    def __init__(self) -> None:
        self.watching = False
        self.untargeted: list[str] = []
        self.seen: defaultdict[str, set[str]] = defaultdict(set)
        self.transactions: defaultdict[tuple[Any, int], list[tuple[str, str]]] = defaultdict(list)

    def started(self, event: CommandStartedEvent) -> None:
        self.record(event.command_name, event.command, event.database_name)

    def record(self, name: str, command: Document, database: str) -> None:
        """Record a command and check its shard key."""
        if not self.watching or name in _HOUSEHOLD or not database.startswith("test_"):
            return
        if not command.keys() & {"readConcern", "writeConcern", "autocommit"}:
            # A command of the test itself.
            return
        collection = command[name]
        self.seen[collection].add(name)
        if collection not in SHARD_KEYS:
            return
        for statement in _statements(name, collection, command):
            command_text = f"{collection} {statement}"
            if not _is_targeted(collection, name, statement) and not command_text.startswith(tuple(EXCEPTIONS)):
                self.untargeted.append(f"{name} {command_text}")
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
    """Let stores treat MongoDB as a sharded cluster, and record commands. `filled`: as after `confab shard`."""
    begin = DirectCommands.begin

    def watched(
        direct: DirectCommands, commands: Sequence[Command], on_end: Callable[[], None] | None = None
    ) -> list[asyncio.Future[dict[str, Any]]]:
        # The driver's listeners do not see these commands.
        for body, field, statements in commands:
            _watch.record(next(iter(body)), body | {field: statements} if field else body, direct.database)
        return begin(direct, commands, on_end)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Mongo, "is_sharded", True)
        patch.setattr(DirectCommands, "begin", watched)
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
    """Yield the filter of each part of a command."""
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
                assert not update.get("multi"), f"an update of many documents: {update}"
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
            raise AssertionError(f"unknown command: {name}")


def _is_joined_by_key(join: Document) -> bool:
    """Return whether joined rows are on one shard per row."""
    key = SHARD_KEYS[join["from"]]
    if join.get("foreignField") == next(iter(key)):
        return True
    # A range with the prefix of the row's `_id`.
    bounds = join["pipeline"][0]["$match"]["$expr"]["$and"]
    ends = [bound[comparison][0] for bound in bounds for comparison in ("$gte", "$lte") if comparison in bound]
    begins = all(value["$concat"][0] == "$_id" for value in join["let"].values())
    return join["from"] in RANGED and ends == ["$_id", "$_id"] and begins


def _is_targeted(collection: str, name: str, query: Document) -> bool:
    if "$or" in query:
        rest = {field: value for field, value in query.items() if field != "$or"}
        if all(_is_targeted(collection, name, rest | branch) for branch in query["$or"]):
            return True
    first = query.get(next(iter(SHARD_KEYS[collection])))
    if name == "delete" and collection in RANGED and _is_of_one_owner(first):
        # Many rows of one owner.
        return True
    if name in {"update", "delete", "findAndModify"}:
        # A write of one document goes to exactly one shard.
        return all(_is_equal(query.get(field)) for field in SHARD_KEYS[collection])
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
    if not (isinstance(low, str) and isinstance(high, str) and _SEPARATOR.search(low)):
        return False
    owner = _SEPARATOR.split(low, 1)[0]
    return high == f"{owner}!" or high.startswith(f"{owner} ")


def _owner(collection: str, statement: Document) -> str:
    """Return the owner, which determines the shard."""
    value = statement[next(iter(SHARD_KEYS[collection]))]
    return _SEPARATOR.split(str(value), 1)[0] if collection in RANGED else str(value)
