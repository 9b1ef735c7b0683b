"""Changes of channels: settings, archiving, deletion."""

from __future__ import annotations

from dataclasses import dataclass, replace

from resolvers.base.app import Confab
from resolvers.base.errors import Forbidden, InvalidInput
from resolvers.base.metadata import encode_metadata
from resolvers.conversations.access import Access
from resolvers.workspaces.audit_values import channel_values
from resolvers.workspaces.channel_creation import check_default
from resolvers.workspaces.channel_decisions import (
    accept_channel_name,
    accept_topic,
    change_channel,
    check_position,
    check_slow_mode,
    find_category,
    show_channel,
)
from store.audit.audit_note import AuditNote, notes_if_changed
from store.base.ids import MessageId, UserId
from store.channels.announcements import Announcement
from store.channels.channel_rights import ChannelRights
from store.channels.channel_rows import removal_writes
from store.channels.positions import place_channel
from store.messages.system_events import SystemEvent, SystemEventKind
from store.mongo.collections import CHANNELS
from store.workspaces.changing.proposed_change import Operation, ProposedPolicyChange
from store.workspaces.permissions import Permission
from store.workspaces.policy import Channel, ChannelKind, Overwrites, Policy
from store.workspaces.rights import changed_permissions


@dataclass(frozen=True, slots=True)
class ChannelUpdate:
    """New values for a channel; None: no change.

    `sets_topic`, `sets_category`: with None, the topic is removed, and the channel leaves its category.
    """

    name: str | None = None
    topic: str | None = None
    sets_topic: bool = False
    category: str | None = None
    sets_category: bool = False
    position: int | None = None
    is_default: bool | None = None
    kind: ChannelKind | None = None
    slow_mode_seconds: int | None = None
    inherits_permissions: bool | None = None
    full_history: bool | None = None
    metadata: object = None
    """A JSON value."""


async def update_channel(app: Confab, actor: UserId, channel: str, update: ChannelUpdate) -> Access:
    """Change settings of a channel. A new name or topic is announced by a SYSTEM message.

    Raises InvalidInput, NotFound, Forbidden, RateLimited: then nothing was changed.
    """
    name = accept_channel_name(update.name) if update.name is not None else None
    update = replace(update, name=name, topic=accept_topic(update.topic))
    check_position(update.position)
    check_slow_mode(update.slow_mode_seconds)
    metadata = encode_metadata(update.metadata)

    async def decide(rights: ChannelRights) -> ProposedPolicyChange | None:
        before = rights.channel
        after = _with_settings(before, update, metadata)
        after = _with_place(rights, after, update)
        channels = {**rights.policy.channels, after.id: after}
        if after.category != before.category or update.position is not None:
            channels = place_channel(rights.policy.channels, after, update.position)
        return ProposedPolicyChange(
            replace(rights.policy, channels=channels),
            writes=_announce(app, rights.policy, actor, before, after),
            audit=_notes(actor, "updateChannel", rights.policy, before, channels[after.id]),
        )

    return await show_channel(app, actor, await change_channel(app, actor, channel, _MANAGE, decide))


_MANAGE = Permission.MANAGE_CHANNELS


def _with_settings(channel: Channel, update: ChannelUpdate, metadata: str | None) -> Channel:
    """Return the channel with those of its new values that do not depend on other channels."""
    given = {
        "name": update.name,
        "is_default": update.is_default,
        "kind": update.kind,
        "slow_mode_seconds": update.slow_mode_seconds,
        "full_history": update.full_history,
        "metadata": metadata,
    }
    changed = {name: value for name, value in given.items() if value is not None}
    after = replace(channel, **changed)  # type: ignore[arg-type]
    if update.sets_topic:
        after = replace(after, topic=update.topic)
    if after.kind is not channel.kind and ChannelKind.VOICE in (after.kind, channel.kind):
        raise InvalidInput("a channel can't become a VOICE channel, or stop being one", field="kind")
    check_default(after.kind, is_default=after.is_default)
    return after


def _with_place(rights: ChannelRights, channel: Channel, update: ChannelUpdate) -> Channel:
    """Return the channel with its new category and overwrites.

    Users who may manage channels, but not roles, can't change what others may do by moving a channel.
    """
    policy = rights.policy
    category = find_category(policy, update.category) if update.sets_category else channel.category
    moved = replace(channel, category=category)
    if update.inherits_permissions is True and not channel.inherits_permissions:
        moved = replace(moved, inherits_permissions=True, overwrites=Overwrites())
    elif update.inherits_permissions is False and channel.inherits_permissions:
        moved = replace(moved, inherits_permissions=False, overwrites=policy.overwrites_of(channel))
    changed = changed_permissions(policy.overwrites_of(channel), policy.overwrites_of(moved))
    if changed and (not rights.may(Permission.MANAGE_ROLES) or changed & ~rights.permissions):
        field = "categoryId" if moved.category != channel.category else "inheritsPermissions"
        raise Forbidden(
            "this changes permissions in the channel: it needs MANAGE_ROLES and these permissions; or give "
            "inheritsPermissions: false",
            field=field,
        )
    return moved


def _announce(
    app: Confab, policy: Policy, actor: UserId, before: Channel, after: Channel
) -> list[tuple[str, list[Operation]]]:
    """Return the writes that announce what has changed."""
    events: list[tuple[SystemEvent, str]] = []
    if after.name != before.name:
        events.append((SystemEvent(SystemEventKind.RENAMED, after.name), f"renamed the channel to {after.name}"))
    if after.topic != before.topic:
        text = f"changed the topic to {after.topic}" if after.topic is not None else "removed the topic"
        events.append((SystemEvent(SystemEventKind.TOPIC_CHANGED, after.topic), text))
    if after.is_archived != before.is_archived:
        kind = SystemEventKind.CHANNEL_ARCHIVED if after.is_archived else SystemEventKind.CHANNEL_UNARCHIVED
        text = "archived the channel" if after.is_archived else "reopened the channel"
        events.append((SystemEvent(kind), text))
    notes: list[Operation] = [
        Announcement(MessageId(app.store.ids.next()), actor, event, text).operation(policy.workspace, after.id)
        for event, text in events
    ]
    return [(CHANNELS, notes)] if notes else []


async def archive_channel(app: Confab, actor: UserId, channel: str, *, archived: bool) -> Access:
    """Archive a channel, or reopen it. Announced by a SYSTEM message. Raises NotFound, Forbidden, RateLimited."""

    async def decide(rights: ChannelRights) -> ProposedPolicyChange:
        before = rights.channel
        after = replace(before, is_archived=archived)
        return ProposedPolicyChange(
            replace(rights.policy, channels={**rights.policy.channels, after.id: after}),
            writes=_announce(app, rights.policy, actor, before, after),
            audit=_notes(actor, "archiveChannel", rights.policy, before, after),
        )

    return await show_channel(app, actor, await change_channel(app, actor, channel, _MANAGE, decide))


def _notes(actor: UserId, action: str, policy: Policy, before: Channel, after: Channel) -> tuple[AuditNote, ...]:
    values = channel_values(before), channel_values(after)
    return notes_if_changed(actor, action, policy.workspace, before.id, *values)


async def delete_channel(app: Confab, actor: UserId, channel: str) -> bool:
    """Delete a channel. It is gone at once; its messages are removed in the background.

    Raises NotFound, Forbidden, RateLimited.
    """

    async def decide(rights: ChannelRights) -> ProposedPolicyChange:
        channels = {id: each for id, each in rights.policy.channels.items() if id != rights.channel.id}
        return ProposedPolicyChange(
            replace(rights.policy, channels=channels),
            writes=removal_writes([rights.channel.id], app.store.clock.now_ms()),
            audit=[
                AuditNote(
                    actor,
                    "deleteChannel",
                    rights.policy.workspace,
                    rights.channel.id,
                    before=channel_values(rights.channel),
                )
            ],
        )

    await change_channel(app, actor, channel, _MANAGE, decide)
    return True
