"""Rights in voice channels, and the errors for those who lack them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from resolvers.base.app import Confab
from resolvers.base.errors import Archived, Forbidden, InvalidInput, LimitReached, NotFound, Unavailable
from store.base.ids import ConversationId, ConversationKind, UserId, kind_of
from store.base.workspace_ids import workspace_of_channel
from store.channels.channel_rights import ChannelRights
from store.voice.voice_store import OutdatedVoiceRights, VoiceChange, VoiceOutcome, VoiceRefusal
from store.workspaces.permissions import Permission
from store.workspaces.policy import ChannelKind

_ATTEMPTS = 10

Change = Callable[[int], Awaitable[VoiceOutcome]]
"""Judges rights under a policy version or a later one, and changes a state under them. Raises ConfabError."""


def parse_channel(channel: str, field: str) -> ConversationId:
    """Return the id of a channel. Raises NotFound for an id of another form."""
    if kind_of(channel) is not ConversationKind.CHANNEL:
        raise no_channel(field)
    return ConversationId(channel)


async def change_under_rights(app: Confab, channel: ConversationId, change: Change) -> VoiceChange | VoiceRefusal:
    """Make a change under rights that are valid at that moment.

    Rights are judged as this process knows them. The script refuses the change if they have changed since, and then
    they are judged again. So is each refusal for lack of rights: it is certain. Raises ConfabError and StoreError.
    """
    at_least = 0
    for _ in range(_ATTEMPTS):
        try:
            outcome = await change(at_least)
        except (NotFound, Forbidden, Archived, InvalidInput):
            current = await _find_version(app, channel)
            if at_least and at_least >= current:
                raise
            at_least = current
            continue
        if not isinstance(outcome, OutdatedVoiceRights):
            return outcome
        at_least = max(outcome.version or 0, at_least) if outcome.version else await _find_version(app, channel)
    raise Unavailable("the rights in the channel change too often; please try again")


async def _find_version(app: Confab, channel: ConversationId) -> int:
    """Return the present policy version; 1 if there is no such workspace."""
    return await app.store.policies.current_version(workspace_of_channel(channel)) or 1


async def find_rights(
    app: Confab, user: UserId, channel: ConversationId, at_least: int, field: str = "channelId"
) -> ChannelRights:
    """Return the rights of a user in a voice channel. Raises NotFound, InvalidInput for another kind of channel."""
    rights = await app.store.channel_rights.find(user, channel, at_least)
    if rights is None:
        raise no_channel(field)
    if rights.channel.kind is not ChannelKind.VOICE:
        raise InvalidInput("this channel is not a voice channel", field=field)
    return rights


def check_may_enter(rights: ChannelRights, field: str = "channelId") -> None:
    """Raise Archived or Forbidden unless a user who sees a voice channel may be in it."""
    if rights.channel.is_archived:
        raise Archived("this channel is archived: nobody can join it any more", field=field)
    check_permission(rights, Permission.CONNECT, field)


def check_permission(rights: ChannelRights, permission: Permission, field: str | None) -> None:
    """Raise Forbidden unless a user has a permission in a channel."""
    if not rights.may(permission):
        raise Forbidden(f"this needs the permission {permission.name} in the channel", field=field)


def no_channel(field: str) -> NotFound:
    """Return the error for a channel that does not exist, or that the caller does not see."""
    return NotFound("there is no such channel", field=field)


def channel_full(field: str) -> LimitReached:
    """Return the error for a voice channel without a place for another user."""
    return LimitReached("this voice channel is full", field=field)
