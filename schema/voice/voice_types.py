"""The GraphQL types of voice states."""

from __future__ import annotations

from typing import Any

import strawberry

from resolvers.voice.own_voice import VoiceJoin
from schema.base.context import Context, Info
from schema.base.scalars import DateTime
from schema.compiler import reads, then
from schema.users.user_types import UserType, load_user
from store.base.ids import ConversationId
from store.voice.voice_state import VoiceState


@strawberry.type(name="VoiceState", description="Ends 45 s after the device was last heard from.")
class VoiceStateType:
    record: strawberry.Private[VoiceState]
    channel_id: strawberry.ID = reads("record.channel")
    self_mute: bool = reads("record.self_mute")
    self_deaf: bool = reads("record.self_deaf")
    mute: bool = reads("record.mute")
    deaf: bool = reads("record.deafened")
    video: bool = reads("record.video")
    screen: bool = reads("record.screen")
    joined_at: DateTime = reads("record.joined_at_ms")

    @strawberry.field
    def user(self, info: Info) -> UserType:
        return load_user(info.context, self.record.user)


@strawberry.type(
    name="VoiceJoin",
    description="url and token are null if no media server is configured: voice states then only tell who is where.",
)
class VoiceJoinType:
    state: VoiceStateType
    url: str | None
    token: str | None
    expires_at: DateTime | None


def voice_state_from(state: VoiceState) -> VoiceStateType:
    """Return the GraphQL object of a voice state."""
    return VoiceStateType(record=state)


def voice_join_from(join: VoiceJoin) -> VoiceJoinType:
    """Return the GraphQL object of a voice state with the access to the media server."""
    state, access = voice_state_from(join.state), join.access
    if access is None:
        return VoiceJoinType(state=state, url=None, token=None, expires_at=None)
    return VoiceJoinType(state=state, url=access.url, token=access.token, expires_at=DateTime(access.expires_at_ms))


def load_voice_states(context: Context, channel: ConversationId) -> Any:
    """Return the states in a voice channel, or a Deferred of them. Does not check access."""
    return then(context.loaders.voice_states.find(channel), lambda states: [voice_state_from(each) for each in states])
