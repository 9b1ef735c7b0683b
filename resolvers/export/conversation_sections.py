"""Sections about conversations: settings and memberships, messages, and reactions."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any

import orjson

from resolvers.base.times import iso_text_or_none
from resolvers.conversations.access import find_floors
from resolvers.export.section import Exported, Record
from store.base.ids import MessageId, file_id, kind_of, message_id
from store.conversations.conversation import Member
from store.messages.message import Message
from store.sessions.session import Session

_RECORDS_AT_ONCE = 200
"""Records that are made without a pause for other work of the process."""


async def list_conversations(exported: Exported) -> AsyncGenerator[Sequence[Record], None]:
    """Yield the conversations, with the user's settings, membership and role."""
    rows = exported.app.store.own_rows
    async for page in exported.conversations():
        sessions = await rows.find_sessions(exported.user, page)
        members = await rows.find_memberships(exported.user, page)
        records = []
        for conversation in page:
            kind, session, member = kind_of(conversation), sessions.get(conversation), members.get(conversation)
            record: dict[str, Any] = {"id": conversation, "type": kind.value if kind is not None else None}
            record |= _settings(session) if session is not None else {}
            record |= _membership(member) if member is not None else {}
            records.append(record)
        yield records


def _settings(session: Session) -> Record:
    level = session.notification_level
    return {
        "isMuted": session.muted,
        "mutedUntil": iso_text_or_none(session.muted_until_ms),
        "priority": session.priority,
        "categoryId": session.category,
        "notificationLevel": level.value if level is not None else None,
        "suppressEveryone": session.suppresses_everyone,
        "isDeleted": session.deleted_seq is not None,
        "follows": session.follows,
        "readSeq": session.acknowledged_seq,
    }


def _membership(member: Member) -> Record:
    return {
        "role": member.role or None,
        "joinedAt": iso_text_or_none(member.joined_at_ms) if member.joined_at_ms else None,
        "isMember": member.is_current,
        "memberships": [{"fromSeq": first, "toSeq": last} for first, last in member.intervals],
    }


async def list_messages(exported: Exported) -> AsyncGenerator[Sequence[Record], None]:
    """Yield the messages that the user sent, conversation by conversation, in the order of seq.

    Recalled ones have their text: it is stored, and it is the user's own. Copies of replies are left out. Expired
    messages exist for nobody any more, so they are left out too, also if they are not removed yet.
    """
    store = exported.app.store
    async for page in exported.conversations():
        for conversation, floor in (await find_floors(store, page)).items():
            async for batch in store.written_messages.list_batches(conversation, (exported.user,), floor):
                own = [message for message in batch.messages if message.broadcast_of is None]
                for start in range(0, len(own), _RECORDS_AT_ONCE):
                    yield await _records_of(exported, own[start : start + _RECORDS_AT_ONCE])


async def _records_of(exported: Exported, messages: Sequence[Message]) -> Sequence[Record]:
    recalled = [(message.conversation, message.seq) for message in messages if message.is_recalled]
    contents = await exported.app.store.messages.find_recalled_contents(recalled)
    for message in messages:
        exported.files.extend(int(file) for file in message.own_files)
    return [message_record(message, contents) for message in messages]


def message_record(message: Message, recalled: Mapping[MessageId, tuple[str, str | None]]) -> Record:
    """Return a message as exports show it. recalled: text and metadata of recalled messages."""
    text, metadata = recalled.get(message.id, (message.text, message.metadata))
    event, parent = message.system_event, message.reply_to
    record: dict[str, Any] = {
        "id": message.public_id,
        "conversationId": message.conversation,
        "seq": message.seq,
        "createdAt": iso_text_or_none(message.created_at_ms),
        "contentType": message.kind.name,
        "content": text,
        "metadata": orjson.loads(metadata) if metadata is not None else None,
        "mentionedUserIds": list(message.mentions),
        "mentionsAll": message.mentions_all,
        "mentionedRoleIds": list(message.mentioned_roles),
        "replyToId": message_id(parent[0]) if parent is not None else None,
        "editCount": message.edits,
        "editedAt": iso_text_or_none(message.edited_at_ms),
        "recalledAt": iso_text_or_none(message.recalled_at_ms),
        "alsoInParent": message.is_broadcast,
        "silent": message.is_silent,
        "attachmentIds": [file_id(file.id) for file in message.attachments],
        "embeds": [embed.to_stored() for embed in message.embeds.given],
    }
    if event is not None:
        record["systemEvent"] = {"kind": event.kind.name, "text": event.text}
    return record


async def list_reactions(exported: Exported) -> AsyncGenerator[Sequence[Record], None]:
    """Yield the reactions that the user gave and did not take back."""
    store = exported.app.store
    async for page in exported.conversations():
        for conversation in page:
            async for reactions in store.own_rows.list_reactions(exported.user, conversation):
                yield [
                    {
                        "conversationId": conversation,
                        "messageId": message_id(reaction.message),
                        "emoji": reaction.emoji,
                        "createdAt": iso_text_or_none(reaction.at_ms) if reaction.at_ms else None,
                    }
                    for reaction in reactions
                ]
