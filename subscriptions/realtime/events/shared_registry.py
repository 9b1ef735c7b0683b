"""All event kinds on shared clocks. A kind is known to the bus and to replays once it is listed here."""

from __future__ import annotations

from subscriptions.realtime.events.reactions import ChannelReactions
from subscriptions.realtime.events.registry import KnownKinds
from subscriptions.realtime.events.shared import ChannelMessage, ChannelPins, SharedEvent, WorkspaceUpdate
from subscriptions.realtime.events.threads import ChannelThread
from subscriptions.realtime.events.voice import VoiceStateChanged

SHARED_EVENT_KINDS: tuple[type[SharedEvent], ...] = (
    ChannelMessage,
    ChannelPins,
    WorkspaceUpdate,
    ChannelReactions,
    ChannelThread,
    VoiceStateChanged,
)

_ON_SHARED_CLOCKS = KnownKinds(SHARED_EVENT_KINDS, of=" of a workspace")
parse_shared_entry = _ON_SHARED_CLOCKS.parse_log_entry
decode_shared_event = _ON_SHARED_CLOCKS.decode
