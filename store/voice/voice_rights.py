"""The rights of a user in a voice channel, as far as they decide the voice state."""

from __future__ import annotations

from store.channels.channel_rights import ChannelRights
from store.voice.voice_state import flags
from store.workspaces.permissions import Permission
from store.workspaces.policy import ChannelKind

FLAGS_OF_RIGHTS = flags(is_silenced=True, may_show=True)
"""The flags that follow from rights."""


def may_be_in_voice(rights: ChannelRights) -> bool:
    """Return whether a user who sees a channel may be in it."""
    is_open = rights.channel.kind is ChannelKind.VOICE and not rights.channel.is_archived
    return is_open and rights.may(Permission.CONNECT)


def flags_of_rights(rights: ChannelRights) -> int:
    """Return the flags of a state that follow from the rights in its channel."""
    return flags(is_silenced=not rights.may(Permission.SPEAK), may_show=rights.may(Permission.VIDEO))
