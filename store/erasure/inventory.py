"""The inventory of user ids: how each collection and each kind of key in Redis is treated by an erasure (ADR 94).

A test compares it with the collections and keys that there are, so that a new one is not forgotten.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from store.deployment.chat_imports import IMPORTS
from store.deployment.worker_numbers import LEASES
from store.erasure.renaming import Renaming
from store.mongo.client import Document
from store.mongo.collections import (
    AUDIT,
    BANS,
    BLOB_CHUNKS,
    BLOB_FILES,
    BLOCKED_USER,
    BLOCKS,
    CHANNELS,
    CLAIMS,
    CONTENT_RULES,
    CONVERSATIONS,
    DEPLOYMENT,
    DEVICES,
    EXPIRED,
    FILES,
    HELD_RECEIPTS,
    INVITES,
    JOBS,
    MEMBERS,
    MESSAGES,
    NOTIFICATION_SETTINGS,
    ORIGINS,
    PRESENCES,
    PREVIEWS,
    PUSH_TOKENS,
    REACTIONS,
    RECEIPTS,
    REMOVALS,
    REPORTS,
    REVOCATIONS,
    SEARCH,
    SESSIONS,
    USERS,
    WEBHOOK_COUNTS,
    WEBHOOK_EVENTS,
    WEBHOOK_LINES,
    WEBHOOK_LOG,
    WEBHOOKS,
    WORKSPACE_MEMBERS,
    WORKSPACES,
    WORKSPACES_OF,
)


class Treatment(StrEnum):
    """Ways to treat the rows of a collection that contain the id."""

    RENAMED = "renamed"
    """The pseudonym takes the place of the id. Rows that are the user's own (the first part of `_id`) are removed."""
    REMOVED = "removed"
    """Rows whose `_id` or fields contain the id are removed."""
    NO_USERS = "no users"
    """Rows never contain ids of users."""


@dataclass(frozen=True, slots=True)
class CollectionRule:
    """The treatment of a collection.

    Attributes:
        treatment: The treatment.
        fields: Names of the fields that may contain the id, or another id that contains it, at any depth. `_id` is
            always replaced.
        query: Returns the query for rows that may contain the id. None: all rows are read, which suits small ones.
        removes_named_rows: Of RENAMED: rows are removed wherever in their `_id` the user is.
        layout: The parts of an `_id`: `u` for a user, `c` for a conversation, `-` for something else. None: every part
            may be a user or a conversation. Users choose ids of devices and keys of repeated calls, reactions are
            emoji, and the id of a user may be that of a group: so a part of another kind is left as it is.
        layouts: The same where rows have several forms, by the first part of the `_id`.
        conversations: Names of the fields that name conversations, never users.
    """

    treatment: Treatment
    fields: frozenset[str] = frozenset()
    query: Callable[[Renaming], Document] | None = None
    removes_named_rows: bool = False
    layout: str | None = None
    layouts: Mapping[str, str] = field(default_factory=dict)
    conversations: Collection[str] = ()


def _by_row_id(renaming: Renaming) -> Document:
    return {"_id": {"$regex": renaming.pattern}}


def _own_row(renaming: Renaming) -> Document:
    return {"_id": renaming.user}


def _any_of(*names: str) -> Callable[[Renaming], Document]:
    """Return the query for rows with the id in one of some fields, or in their `_id`."""

    def query(renaming: Renaming) -> Document:
        values = {"$in": [renaming.user]}
        return {"$or": [_by_row_id(renaming), *({name: values} for name in names)]}

    return query


def _in_private(renaming: Renaming) -> Document:
    """Return the query for rows of private conversations of the user, and of threads there, by the field `c`."""
    return {"c": {"$regex": rf"^(?=(t_[0-9]+_)?p_).*{renaming.pattern}"}}


def _of_messages(renaming: Renaming) -> Document:
    names = ("u", "m", "rb", "bo.m", "gs.own")
    in_reactions = {"$elemMatch": {"$elemMatch": {"$elemMatch": {"$eq": renaming.user}}}}
    return {"$or": [_in_private(renaming), {"rx": in_reactions}, *({name: renaming.user} for name in names)]}


def _of_reports(renaming: Renaming) -> Document:
    return {"$or": [_in_private(renaming), *({name: renaming.user} for name in ("u", "s", "rb"))]}


def _of_search_rows(renaming: Renaming) -> Document:
    terms = [f"\x01{kind}{renaming.user}" for kind in "sm"]
    return {"$or": [{"t": {"$in": terms}}, _in_private(renaming)]}


def _renamed(*fields: str, **more: Any) -> CollectionRule:
    return CollectionRule(Treatment.RENAMED, frozenset(fields), **more)


def _removed(*fields: str, **more: Any) -> CollectionRule:
    return CollectionRule(Treatment.REMOVED, frozenset(fields), **more)


_NO_USERS = CollectionRule(Treatment.NO_USERS)

COLLECTIONS: Mapping[str, CollectionRule] = {
    # First: a job that runs would write the id into other collections. `RowRewrite` of jobs depends on their kind.
    JOBS: _renamed("u", "i", "p", "o", layout="-"),
    USERS: _removed(query=_own_row, layout="u"),
    REVOCATIONS: _removed(query=_own_row, layout="u"),
    DEVICES: _removed(query=_by_row_id, layout="u-"),
    PUSH_TOKENS: _removed("o", layout="-"),
    NOTIFICATION_SETTINGS: _removed(query=_own_row, layout="u"),
    PRESENCES: _removed(query=_own_row, layout="u"),
    CLAIMS: _removed(
        "v", layouts={"message": "-u", "group": "-u", "file": "-u", "workspace": "-u", "channel": "--u", "domain": "-"}
    ),
    WORKSPACES_OF: _removed(query=_by_row_id, layout="u-"),
    WORKSPACE_MEMBERS: _removed(query=_by_row_id, layout="-u"),
    # Blocks end in the ordinary way before. This is about changes of them that are not complete.
    BLOCKS: _renamed("b", "p", query=_any_of(BLOCKED_USER, "p"), layout="u"),
    # A ban of the user would apply to nobody.
    BANS: CollectionRule(Treatment.RENAMED, frozenset({"b"}), _any_of("b"), removes_named_rows=True, layout="-u"),
    # Private conversations get a row with their new id when they move.
    EXPIRED: _removed(query=_by_row_id, layout="c"),
    # Rows of workspaces and of what they contain. Names and texts are not ids, so the fields are named.
    WORKSPACES: _renamed("own", "by", "u", "f", "mch", layout="-"),
    CHANNELS: _renamed("u", "an", "nf", "mch", layout="--"),
    INVITES: _renamed("by", layout="-"),
    REMOVALS: _NO_USERS,
    CONVERSATIONS: _renamed(
        "own", "by", "u", "tp", query=_any_of("own", "by", "pa.u"), layout="c", conversations=("tp",)
    ),
    MEMBERS: _renamed(query=_by_row_id, layout="cu"),
    MESSAGES: _renamed("c", "u", "m", "rb", "own", query=_of_messages, layout="-", conversations=("c",)),
    SESSIONS: _renamed(query=_by_row_id, layout="uc"),
    RECEIPTS: _renamed(query=_by_row_id, layout="cu-"),
    HELD_RECEIPTS: _renamed(query=_by_row_id, layout="uc"),
    REACTIONS: _renamed(query=_by_row_id, layout="c--u"),
    ORIGINS: _renamed("c", conversations=("c",)),
    FILES: _renamed("o", "c", layout="-", conversations=("c",)),
    SEARCH: _renamed("c", "t", query=_of_search_rows, layout="-"),
    WEBHOOKS: _renamed("u", "o", "c", layout="-", conversations=("c",)),
    WEBHOOK_COUNTS: _NO_USERS,
    WEBHOOK_EVENTS: _renamed("l", "r", layout="--", conversations=("l",)),
    WEBHOOK_LINES: _renamed(layout="-c"),
    WEBHOOK_LOG: _NO_USERS,
    # Values before and after a change may have any form.
    AUDIT: _renamed("u", "ab", "t", "b", "f", layout="--"),
    # The `_id` is a keyed hash, which nobody can reverse.
    REPORTS: _renamed("u", "s", "rb", "c", query=_of_reports, layout="-"),
    CONTENT_RULES: _NO_USERS,
    PREVIEWS: _NO_USERS,
    BLOB_FILES: _NO_USERS,
    BLOB_CHUNKS: _NO_USERS,
    DEPLOYMENT: _NO_USERS,
    IMPORTS: _removed(layouts={"user": "-u", "file": "-c", "group": "-", "workspace": "-", "demo": "-"}),
    LEASES: _NO_USERS,
}
"""The treatment of each collection, in the order in which they are treated."""


class KeyTreatment(StrEnum):
    """Ways to treat keys in Redis whose name or value contains the id."""

    DELETED = "deleted"
    """Keys with the id in their name are deleted. So are keys that contain it and have a time to live: they are copies
    of rows in MongoDB, which servers read again."""
    ENTRIES_DELETED = "entries deleted"
    """The entries that contain the id are deleted."""
    AWAITED = "awaited"
    """The key contains work that must not be lost. Servers complete it within seconds; the erasure waits for this."""
    NO_USERS = "no users"
    """It never contains ids of users."""


KEYS: Mapping[str, KeyTreatment] = {
    "epoch": KeyTreatment.NO_USERS,
    "sweeper_lock": KeyTreatment.NO_USERS,
    "loss_recovery_lock": KeyTreatment.NO_USERS,
    "server_times": KeyTreatment.NO_USERS,
    "waiting_for_index": KeyTreatment.AWAITED,
    "indexing_lock": KeyTreatment.NO_USERS,
    "push_queue": KeyTreatment.ENTRIES_DELETED,
    "quiet_pushes": KeyTreatment.ENTRIES_DELETED,
    "webhook_events": KeyTreatment.AWAITED,
    "voice_checks": KeyTreatment.NO_USERS,
    "user": KeyTreatment.DELETED,
    "of_user": KeyTreatment.DELETED,
    "claim": KeyTreatment.DELETED,
    "presence": KeyTreatment.DELETED,
    "notification_settings": KeyTreatment.DELETED,
    "blocks": KeyTreatment.DELETED,
    "typing": KeyTreatment.DELETED,
    "head": KeyTreatment.DELETED,
    "conversation": KeyTreatment.DELETED,
    "reservation": KeyTreatment.NO_USERS,
    "last_sent": KeyTreatment.DELETED,
    "watchers": KeyTreatment.DELETED,
    "event_window": KeyTreatment.DELETED,
    "outbox": KeyTreatment.AWAITED,
    "clock": KeyTreatment.DELETED,
    "of_clock": KeyTreatment.DELETED,
    "event_stream": KeyTreatment.DELETED,
    "host_turn": KeyTreatment.NO_USERS,
    "channel": KeyTreatment.NO_USERS,
    "broadcast": KeyTreatment.NO_USERS,
}
"""The treatment of each kind of key, by the name that `Keys` has for it."""
