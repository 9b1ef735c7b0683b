"""Mutations of voice states."""

from __future__ import annotations

import strawberry

from resolvers.voice import moderation, own_voice
from resolvers.voice.moderation import Moderation
from resolvers.voice.own_voice import OwnFlags, voice_device
from schema.base.context import Info
from schema.voice.voice_types import VoiceJoinType, VoiceStateType, voice_join_from, voice_state_from


@strawberry.type
class VoiceMutations:
    @strawberry.mutation(
        description="CONNECT; a VOICE channel (INVALID_INPUT). One voice channel per user and workspace: joining "
        "another leaves the first. On a WebSocket only (INVALID_INPUT), as are updateVoice and leaveVoice: the state "
        "belongs to the connection's device (none: NOT_FOUND). token: for the media server (LiveKit), valid for "
        "joining for 10 minutes."
    )
    async def join_voice(
        self, info: Info, channel_id: strawberry.ID, self_mute: bool | None = False, self_deaf: bool | None = False
    ) -> VoiceJoinType:
        context = info.context
        device = voice_device(context.viewer, context.connection)
        flags = OwnFlags(self_mute, self_deaf)
        return voice_join_from(await own_voice.join_voice(context.app, device, channel_id, flags))

    @strawberry.mutation
    async def update_voice(
        self,
        info: Info,
        self_mute: bool | None = None,
        self_deaf: bool | None = None,
        video: bool | None = None,
        screen: bool | None = None,
    ) -> VoiceStateType:
        context = info.context
        device = voice_device(context.viewer, context.connection)
        flags = OwnFlags(self_mute, self_deaf, video, screen)
        return voice_state_from(await own_voice.update_voice(context.app, device, flags))

    @strawberry.mutation
    async def leave_voice(self, info: Info) -> bool:
        context = info.context
        return await own_voice.leave_voice(context.app, voice_device(context.viewer, context.connection))

    @strawberry.mutation(description="MUTE_OTHERS, DEAFEN_OTHERS, MOVE_OTHERS.")
    async def moderate_voice(
        self,
        info: Info,
        channel_id: strawberry.ID,
        user_id: strawberry.ID,
        mute: bool | None = None,
        deaf: bool | None = None,
        disconnect: bool | None = None,
        move_to_channel_id: strawberry.ID | None = None,
    ) -> VoiceStateType | None:
        change = Moderation(mute, deaf, bool(disconnect), move_to_channel_id)
        app, viewer = info.context.app, info.context.viewer
        state = await moderation.moderate_voice(app, viewer, channel_id, user_id, change)
        return voice_state_from(state) if state is not None else None
