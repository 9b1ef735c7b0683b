"""Joining and leaving voice channels: the state of the device of the caller's connection."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from resolvers.base.app import Confab
from resolvers.base.errors import InvalidInput, NotFound
from resolvers.voice.media.media_server import MediaAccess
from resolvers.voice.voice_rights import (
    change_under_rights,
    channel_full,
    check_may_enter,
    check_permission,
    find_rights,
    parse_channel,
)
from store.base.ids import UserId
from store.base.workspace_ids import workspace_of_channel
from store.voice.voice_rights import flags_of_rights
from store.voice.voice_state import VoiceState, flags
from store.voice.voice_store import VoiceChange, VoiceConditions, VoiceOutcome
from store.workspaces.permissions import Permission
from subscriptions.transport.engine import LiveConnection
from subscriptions.voice.voice_devices import JoinedVoice, VoiceDevice


class VoiceJoin(NamedTuple):
    """A voice state, with the access to the media server; None if there is none."""

    state: VoiceState
    access: MediaAccess | None


class OwnFlags(NamedTuple):
    """The flags that a user sets for their own state. None: as before."""

    self_mute: bool | None = None
    self_deaf: bool | None = None
    video: bool | None = None
    screen: bool | None = None


def voice_device(user: UserId, connection: LiveConnection | None) -> VoiceDevice:
    """Return the device of a connection. Raises InvalidInput without a WebSocket."""
    if connection is None or connection.device is None:
        raise InvalidInput("this needs a WebSocket, because a voice state belongs to the device of a connection")
    return VoiceDevice(user, connection.device.device)


async def join_voice(app: Confab, device: VoiceDevice, channel: str, chosen: OwnFlags) -> VoiceJoin:
    """Let the device's user join a voice channel, and leave the one where the user or the device was before.

    The same again keeps the state, with these flags, and makes a new token.

    Raises NotFound, InvalidInput, Archived, Forbidden, LimitReached, Unavailable: then nothing was changed.
    """
    name, user = parse_channel(channel, "channelId"), device.user
    wanted = VoiceState(user, name, device.device, app.voice_devices.server, 0)

    async def join(at_least: int) -> VoiceOutcome:
        rights = await find_rights(app, user, name, at_least)
        check_may_enter(rights)
        own = flags(**chosen._asdict()) | flags_of_rights(rights)
        limit = app.limits.max_voice_channel_users
        return await app.voice.join(wanted, own, version=rights.policy.version, limit=limit)

    workspace = workspace_of_channel(name)
    async with app.voice_devices.joining(device, workspace):
        outcome = await change_under_rights(app, name, join)
        if not isinstance(outcome, VoiceChange) or outcome.state is None:
            raise channel_full("channelId")
        app.voice_devices.note_joined(device, JoinedVoice(workspace, outcome.state, outcome.hash_id))
    return VoiceJoin(outcome.state, app.media.access(outcome.state) if app.media is not None else None)


async def update_voice(app: Confab, device: VoiceDevice, changed: OwnFlags) -> VoiceState:
    """Change flags of the device's state.

    Raises NotFound if it is not in voice, Forbidden for a camera or a screen without the permission VIDEO.
    """
    joined = await app.voice_devices.find(device)
    while joined is not None:
        outcome = await change_under_rights(app, joined.state.channel, partial(_update, app, device, joined, changed))
        if isinstance(outcome, VoiceChange) and outcome.state is not None:
            app.voice_devices.note_joined(device, JoinedVoice(joined.workspace, outcome.state, outcome.hash_id))
            return outcome.state
        # It has left, or a moderator has moved it.
        joined = await app.voice_devices.find_again(device)
    raise _not_in_voice()


async def _update(
    app: Confab, device: VoiceDevice, joined: JoinedVoice, changed: OwnFlags, at_least: int
) -> VoiceOutcome:
    set_flags = flags(**changed._asdict())
    clear_flags = flags(**{name: value is False for name, value in changed._asdict().items()})
    conditions = VoiceConditions(device=device.device)
    if changed.video or changed.screen:
        channel = joined.state.channel
        rights = await find_rights(app, device.user, channel, at_least)
        check_permission(rights, Permission.VIDEO, "video" if changed.video else "screen")
        set_flags |= flags(may_show=True)
        conditions = VoiceConditions(device=device.device, channel=channel, version=rights.policy.version)
    return await app.voice.change(
        joined.workspace, device.user, conditions, set_flags=set_flags, clear_flags=clear_flags
    )


async def leave_voice(app: Confab, device: VoiceDevice) -> bool:
    """End the device's state. Raises NotFound if it is not in voice."""
    joined = await app.voice_devices.find(device)
    if joined is not None:
        outcome = await app.voice.end(joined.workspace, device.user, VoiceConditions(device=device.device))
        app.voice_devices.note_left(device)
        if isinstance(outcome, VoiceChange):
            return True
    raise _not_in_voice()


def _not_in_voice() -> NotFound:
    return NotFound("the device of this connection is in no voice channel")
