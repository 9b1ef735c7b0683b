"""Messages, groups, channels and reports as events of webhooks show them. Names are those of the API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from resolvers.base.times import iso_text_or_none
from store.base.ids import UserId, file_id, message_id
from store.base.workspace_ids import workspace_of_channel
from store.conversations.conversation import Head
from store.files.file import Attachment
from store.messages.message import Message
from store.previews.embed import Embed
from store.reports.report import Report
from store.users.user import User
from store.workspaces.policy import Channel

Json = dict[str, Any]
Users = Mapping[UserId, User]


def users_of(message: Message) -> set[UserId]:
    """Return the users that `message_json` names."""
    recaller = {message.recalled_by} if message.recalled_by is not None else set()
    return {message.sender, *message.shown_mentions, *recaller}


def message_json(message: Message, users: Users, nickname: str | None) -> Json:
    """Return a message as it is now: a recalled one has no content. nickname: of the sender, in the workspace."""
    sender = _user(message.sender, users)
    name, avatar = message.author or (None, None)
    event = message.system_event
    return {
        "id": message.public_id,
        "conversationId": message.conversation,
        "seq": message.seq,
        "sender": sender,
        "authorName": name or nickname or sender["displayName"],
        "authorAvatarUrl": avatar or sender["avatarUrl"],
        "contentType": message.kind.name,
        "content": message.text,
        "metadata": _decoded(message.metadata),
        "state": "RECALLED" if message.is_recalled else "NORMAL",
        "mentions": [_user(user, users) for user in message.shown_mentions],
        "mentionsAll": message.shows_mention_of_all,
        "mentionedRoles": [{"id": role} for role in message.shown_roles],
        "replyTo": {"id": message_id(message.reply_to[0]), "seq": message.reply_to[1]} if message.reply_to else None,
        "systemEvent": {"kind": event.kind.name, "text": event.text} if event is not None else None,
        "editCount": message.edits,
        "editedAt": iso_text_or_none(message.edited_at_ms),
        "recalledAt": iso_text_or_none(message.recalled_at_ms),
        "recalledBy": _user(message.recalled_by, users) if message.recalled_by is not None else None,
        "createdAt": iso_text_or_none(message.created_at_ms),
        "attachments": [_attachment(file) for file in message.attachments],
        "embeds": [_embed(embed) for embed in message.embeds.items],
        "reactions": reactions_json(message),
    }


def reactions_json(message: Message) -> list[Json]:
    """Return the reactions to a message."""
    return [
        {
            "emoji": reaction.emoji,
            "count": reaction.user_count,
            "firstAt": iso_text_or_none(reaction.first_at_ms),
            "users": [{"id": user} for user in reaction.users],
        }
        for reaction in message.reactions
    ]


def channel_json(channel: Channel) -> Json:
    """Return the settings of a channel."""
    return {
        "id": channel.id,
        "workspaceId": workspace_of_channel(channel.id),
        "kind": channel.kind.name,
        "name": channel.name,
        "topic": channel.topic,
        "position": channel.position,
        "isArchived": channel.is_archived,
        "isDefault": channel.is_default,
        "slowModeSeconds": channel.slow_mode_seconds,
        "metadata": _decoded(channel.metadata),
    }


def group_json(head: Head) -> Json | None:
    """Return a group; None if there is none."""
    group = head.group
    if group is None:
        return None
    return {
        "id": head.conversation,
        "name": group.name,
        "avatarUrl": group.avatar_url,
        "owner": {"id": group.owner},
        "memberCount": head.member_count,
        "historyVisibility": "FULL" if group.full_history else "SINCE_JOIN",
        "status": "DISSOLVED" if head.has_ended else "ACTIVE",
        "metadata": _decoded(group.metadata),
        "createdAt": iso_text_or_none(group.created_at_ms),
    }


def report_json(report: Report, users: Users, message: Json | None) -> Json:
    """Return a report. message: the reported one; None: it is not shown."""
    file = report.attachment
    return {
        "id": report.id,
        "workspaceId": report.workspace,
        "reporter": _user(report.reporter, users),
        "user": _user(report.user, users),
        "message": message,
        "text": report.text,
        "attachment": _attachment(file) if file is not None else None,
        "reason": report.reason.name,
        "note": report.note,
        "state": report.state.name,
        "createdAt": iso_text_or_none(report.created_at_ms),
    }


def _user(user: UserId, users: Users) -> Json:
    found = users.get(user)
    return {
        "id": user,
        "displayName": found.display_name if found is not None else user,
        "avatarUrl": found.avatar_url if found is not None else None,
        "isBot": found is not None and found.is_bot,
    }


def _attachment(file: Attachment) -> Json:
    return {
        "id": file_id(file.id),
        "filename": file.filename,
        "contentType": file.content.content_type,
        "sizeBytes": file.content.size,
        "description": file.description,
    }


def _embed(embed: Embed) -> Json:
    return {
        "type": embed.kind.name,
        "url": embed.url,
        "title": embed.title,
        "description": embed.description,
        "siteName": embed.site_name,
        "authorName": embed.author_name,
    }


def _decoded(text: str | None) -> Any:
    return orjson.loads(text) if text is not None else None
