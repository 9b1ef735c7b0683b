"""Moderation of voice channels: muting, deafening, moving and disconnecting others."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from resolvers.base.app import Confab
from resolvers.base.errors import InvalidInput, NotFound
from resolvers.voice.voice_rights import (
    change_under_rights,
    channel_full,
    check_may_enter,
    check_permission,
    find_rights,
    parse_channel,
)
from store.audit.audit_note import AuditNote, notes_if_changed
from store.base.ids import ConversationId, UserId
from store.base.workspace_ids import WorkspaceId, workspace_of_channel
from store.channels.channel_rights import ChannelRights
from store.voice.voice_rights import FLAGS_OF_RIGHTS, flags_of_rights
from store.voice.voice_state import VoiceState, flags
from store.voice.voice_store import VoiceChange, VoiceConditions, VoiceOutcome, VoiceRefusal
from store.workspaces.permissions import Permission


class Moderation(NamedTuple):
    """A change of another user's state. None: as before.

    move_to: another voice channel of the workspace. disconnect: the state ends.
    """

    mute: bool | None = None
    deaf: bool | None = None
    disconnect: bool = False
    move_to: str | None = None

    @property
    def needed_permissions(self) -> list[tuple[Permission, str]]:
        """The permissions that it needs, each with the input that needs it."""
        needs = (
            (Permission.MUTE_OTHERS, "mute", self.mute is not None),
            (Permission.DEAFEN_OTHERS, "deaf", self.deaf is not None),
            (Permission.MOVE_OTHERS, "disconnect", self.disconnect),
            (Permission.MOVE_OTHERS, "moveToChannelId", self.move_to is not None),
        )
        return [(permission, field) for permission, field, is_needed in needs if is_needed]


async def moderate_voice(
    app: Confab, caller: UserId, channel: str, user: str, moderation: Moderation
) -> VoiceState | None:
    """Change the state of a user in a voice channel. Returns it; None if it has ended.

    Roles have no order here: the permissions alone decide, as the contract names no other rule. A user is moved only to
    a channel that they may join themselves, and that the caller may move others in.

    Raises InvalidInput, NotFound, Forbidden, Archived, LimitReached, Unavailable: then nothing was changed.
    """
    if moderation.disconnect and moderation.move_to is not None:
        raise InvalidInput("a user cannot be moved and disconnected at once", field="disconnect")
    if not moderation.needed_permissions:
        raise InvalidInput("nothing to change: give mute, deaf, disconnect or moveToChannelId")
    name, target = parse_channel(channel, "channelId"), None
    workspace = workspace_of_channel(name)
    if moderation.move_to is not None:
        target = parse_channel(moderation.move_to, "moveToChannelId")
    change = partial(_moderate, app, caller, workspace, name, UserId(user), moderation, target)
    outcome = await change_under_rights(app, name, change)
    match outcome:
        case VoiceRefusal.FULL:
            raise channel_full("moveToChannelId")
        case VoiceRefusal.NO_STATE:
            raise NotFound("this user is not in the channel", field="userId")
    return outcome.state


async def _moderate(
    app: Confab,
    caller: UserId,
    workspace: WorkspaceId,
    channel: ConversationId,
    user: UserId,
    moderation: Moderation,
    target: ConversationId | None,
    at_least: int,
) -> VoiceOutcome:
    rights = await find_rights(app, caller, channel, at_least)
    for permission, field in moderation.needed_permissions:
        check_permission(rights, permission, field)
    version, of_rights = rights.policy.version, 0
    if target is not None:
        entering = await _check_move(app, caller, user, workspace, target, version)
        version, of_rights = min(version, entering.policy.version), flags_of_rights(entering)
    conditions = VoiceConditions(channel=channel, version=version)
    notes = await _find_notes(app, caller, workspace, channel, user, moderation)
    # Voice states are in Redis only, so the entry is stored before the change.
    entries = await app.store.audit.record(*notes) if notes else []
    outcome = await _change(app, workspace, user, moderation, target, of_rights, conditions)
    if entries and not isinstance(outcome, VoiceChange):
        await app.store.audit.withdraw(entries)
    return outcome


async def _find_notes(
    app: Confab,
    caller: UserId,
    workspace: WorkspaceId,
    channel: ConversationId,
    user: UserId,
    moderation: Moderation,
) -> tuple[AuditNote, ...]:
    """Return the audit note with the values that the change replaces; none if there is nothing to change."""
    reading = await app.store.voice.read(workspace, [channel])
    state = next((each for each in reading.states if each.user == user and each.channel == channel), None)
    if state is None:
        return ()
    before = {"channelId": channel, "mute": state.muted, "deaf": state.deafened}
    after = before | {
        "channelId": None if moderation.disconnect else moderation.move_to or channel,
        "mute": state.muted if moderation.mute is None else moderation.mute,
        "deaf": state.deafened if moderation.deaf is None else moderation.deaf,
    }
    return notes_if_changed(caller, "moderateVoice", workspace, user, before, after)


async def _change(
    app: Confab,
    workspace: WorkspaceId,
    user: UserId,
    moderation: Moderation,
    target: ConversationId | None,
    of_rights: int,
    conditions: VoiceConditions,
) -> VoiceOutcome:
    if moderation.disconnect:
        return await app.voice.end(workspace, user, conditions)
    set_flags = flags(muted=moderation.mute, deafened=moderation.deaf) | of_rights
    clear_flags = flags(muted=moderation.mute is False, deafened=moderation.deaf is False)
    if target is not None:
        clear_flags |= FLAGS_OF_RIGHTS & ~of_rights
    limit = app.limits.max_voice_channel_users
    return await app.voice.change(
        workspace, user, conditions, set_flags=set_flags, clear_flags=clear_flags, move_to=target, limit=limit
    )


async def _check_move(
    app: Confab, caller: UserId, user: UserId, workspace: WorkspaceId, target: ConversationId, at_least: int
) -> ChannelRights:
    """Return the rights of a user in the channel to which the caller moves them. Raises ConfabError."""
    field = "moveToChannelId"
    if workspace_of_channel(target) != workspace:
        raise InvalidInput("users are moved inside one workspace only", field=field)
    own = await find_rights(app, caller, target, at_least, field)
    check_permission(own, Permission.MOVE_OTHERS, field)
    entering = await app.store.channel_rights.find(user, target, own.policy.version)
    if entering is None:
        raise NotFound("this user does not see the channel", field=field)
    check_may_enter(entering, field)
    return entering
