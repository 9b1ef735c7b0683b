"""Reading who is in which voice channel."""

from __future__ import annotations

from collections.abc import Sequence

from resolvers.base.app import Confab
from store.base.ids import ConversationId
from store.base.workspace_ids import WorkspaceId, workspace_of_channel
from store.voice.voice_state import VoiceState


async def list_voice_states(app: Confab, channels: Sequence[ConversationId]) -> list[Sequence[VoiceState]]:
    """Return the states in each channel, in the order of joining. One round trip. Does not check access."""
    by_workspace: dict[WorkspaceId, list[ConversationId]] = {}
    for channel in channels:
        by_workspace.setdefault(workspace_of_channel(channel), []).append(channel)
    found: dict[ConversationId, list[VoiceState]] = {channel: [] for channel in channels}
    for reading in await app.store.voice.read_many(by_workspace):
        for state in sorted(reading.states, key=lambda state: (state.joined_at_ms, state.user)):
            found[state.channel].append(state)
    return [found[channel] for channel in channels]
