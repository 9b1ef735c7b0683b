"""A workspace of any size, written to MongoDB as the store writes it. Creating it through the API would take hours."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from pymongo.database import Database

from bench.session_data import Row, insert_people
from store.base.ids import ConversationId, MessageId, UserId
from store.base.snowflakes import first_id_at
from store.base.workspace_ids import WorkspaceId, channel_id, everyone_id, workspace_id
from store.channels.channel_rows import follow_change
from store.conversations.conversation import Member
from store.conversations.conversation_fields import ConversationField
from store.messages.message import Message, MessageKind
from store.mongo.collections import (
    CHANNELS,
    CONVERSATIONS,
    MEMBERS,
    MESSAGES,
    SESSIONS,
    WORKSPACE_MEMBERS,
    WORKSPACES,
    WORKSPACES_OF,
    member_row_id,
    session_row_id,
    workspace_of_user_row_id,
)
from store.workspaces.documents import channel_document, member_document, policy_fields
from store.workspaces.member_search import search_fields_of
from store.workspaces.permissions import OF_EVERYONE
from store.workspaces.policy import Channel, ChannelKind, MemberFacts, Policy, Role
from store.workspaces.user_workspaces import summary_id

_BATCH = 10_000
_HISTORY_MS = 60_000


@dataclass(frozen=True, slots=True)
class BenchWorkspace:
    """A workspace with its members. All follow `large`, the first ones follow `small`, nobody follows the others."""

    id: WorkspaceId
    members: Sequence[str]
    large: ConversationId
    small: ConversationId
    opened: ConversationId
    """A channel with a history."""
    channels: Sequence[ConversationId]
    """All channels, these three first."""


def insert_workspace(
    database: Database[Row], *, members: int, channels: int, followers_of_small: int, history: int
) -> BenchWorkspace:
    """Insert a workspace with its members and PUBLIC channels, of which one has some messages."""
    now = time.time_ns() // 1_000_000
    workspace = workspace_id(first_id_at(now))
    names = [f"u{number:06}" for number in range(members)]
    insert_people(database, names)
    settings = [
        Channel(channel_id(workspace, n + 1), f"channel-{n}", ChannelKind.PUBLIC, n, now) for n in range(channels)
    ]
    ids = [channel.id for channel in settings]
    made = BenchWorkspace(workspace, names, large=ids[0], small=ids[1], opened=ids[2], channels=ids)
    everyone = Role(everyone_id(workspace), "everyone", 0, OF_EVERYONE)
    by_id = {channel.id: channel for channel in settings}
    policy = Policy(workspace, 1, UserId(names[0]), {everyone.id: everyone}, {}, by_id)
    document = {"_id": workspace, "name": "Everybody", "ct": now, "mc": members, "by": names[0]}
    database[WORKSPACES].insert_one(document | policy_fields(policy))
    followers = {made.large: names, made.small: names[:followers_of_small]}
    for channel in settings:
        row = channel_document(workspace, channel)
        database[CHANNELS].insert_one(row | {"mc": len(followers.get(channel.id, ()))})
        database[CONVERSATIONS].insert_one(_head(channel.id, history if channel.id == made.opened else 0, now))
    insert_rows(database, WORKSPACE_MEMBERS, (_member(workspace, name, now) for name in names))
    insert_rows(database, WORKSPACES_OF, (row for name in names for row in _of_user(workspace, name, now)))
    for followed, users in followers.items():
        insert_rows(database, MEMBERS, (follower_row(followed, name, now) for name in users))
        insert_rows(database, SESSIONS, (follow_session_row(followed, name, now) for name in users))
    insert_rows(database, MESSAGES, _messages(made.opened, names, history, now - _HISTORY_MS))
    return made


def _head(channel: ConversationId, messages: int, at_ms: int) -> Row:
    return {
        "_id": channel,
        ConversationField.KIND: "C",
        ConversationField.SEQ: messages,
        ConversationField.N: messages,
        ConversationField.MOVED_AT: at_ms,
        ConversationField.WRITTEN_AT: at_ms if messages else 0,
    }


def _member(workspace: WorkspaceId, name: str, at_ms: int) -> Row:
    user = UserId(name)
    search = search_fields_of(workspace, user, f"Person {name}", None)
    facts = MemberFacts(user, 1, joined_at_ms=at_ms)
    return member_document(workspace, facts, search.sort_name) | search.fields


def _of_user(workspace: WorkspaceId, name: str, at_ms: int) -> list[Row]:
    user = UserId(name)
    version = search_fields_of(workspace, user, f"Person {name}", None).name_version
    return [
        {"_id": workspace_of_user_row_id(user, workspace), "j": at_ms},
        {"_id": summary_id(user), "n": 1, "sv": version},
    ]


def follower_row(channel: ConversationId, name: str, at_ms: int) -> Row:
    """Return the membership of a follower."""
    member = Member(UserId(name), "", ((1, None),), at_ms)
    return {"_id": member_row_id(channel, member.user)} | member.to_fields()


def follow_session_row(channel: ConversationId, name: str, at_ms: int) -> Row:
    """Return the session of a follower."""
    fields: Row = {"_id": session_row_id(UserId(name), channel)}
    for values in follow_change(channel).row_updates(at_ms)[channel].values():
        fields |= values
    return fields


def _messages(channel: ConversationId, names: Sequence[str], count: int, at_ms: int) -> Iterator[Row]:
    for seq in range(1, count + 1):
        sender, id = UserId(names[seq % 20]), MessageId(first_id_at(at_ms + seq))
        text = f"Message {seq} of a channel, a line of about the usual length."
        yield Message(id, channel, sender, MessageKind.TEXT, text, seq=seq, n=seq).to_document()


def insert_rows(database: Database[Row], collection: str, rows: Iterable[Row]) -> None:
    """Insert rows in batches."""
    waiting = iter(rows)
    while batch := list(islice(waiting, _BATCH)):
        database[collection].insert_many(batch, ordered=False)
