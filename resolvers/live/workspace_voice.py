"""Voice states in the events of a workspace: shown to those who see the channel."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from store.base.ids import ConversationId, UserId
from store.base.workspace_ids import WorkspaceId
from store.store import Store
from store.voice.voice_state import VoiceState
from store.workspaces.visible_channels import VisibleChannels
from subscriptions.realtime.events.voice import VoiceStateChanged, parse_voice_object


@dataclass(frozen=True, slots=True)
class ShownVoiceState:
    """A voice state has changed. left: the user is not in the channel any more, and `state` is the last one there."""

    state: VoiceState
    left: bool
    rev: int


@lru_cache(maxsize=4_000)
def _shown(state: VoiceState, rev: int, *, left: bool) -> ShownVoiceState:
    """Return the event, the same object for all subscribers."""
    return ShownVoiceState(state, left, rev)


def show_voice(event: VoiceStateChanged, sees: Callable[[ConversationId], bool]) -> ShownVoiceState | None:
    """Return what a subscriber sees of a change; None: nothing.

    A user who moves to a channel that the subscriber does not see has left.
    """
    if sees(event.state.channel):
        return _shown(event.state, event.rev, left=event.left)
    if event.moved_from is not None and sees(event.moved_from.channel):
        return _shown(event.moved_from, event.rev, left=True)
    return None


async def read_missed_voice(
    store: Store, workspace: WorkspaceId, changed: Mapping[str, int], visible: VisibleChannels
) -> list[ShownVoiceState] | None:
    """Return the states of users whose voice has changed, each user once. None: the last state of one is not known.

    changed: the ticks of the objects that have changed. No round trip without voice states among them.
    """
    places: dict[UserId, dict[ConversationId, int]] = {}
    for name, tick in changed.items():
        place = parse_voice_object(name)
        if place is not None and visible.has(place[0]):
            places.setdefault(place[1], {})[place[0]] = tick
    if not places:
        return []
    channels = {channel for ticks in places.values() for channel in ticks}
    present = {state.user: state for state in (await store.voice.read(workspace, sorted(channels))).states}
    shown: list[ShownVoiceState] = []
    gone: list[tuple[ConversationId, UserId]] = []
    for user, ticks in places.items():
        state = present.get(user)
        if state is not None and state.channel in ticks:
            shown.append(ShownVoiceState(state, False, max(ticks.values())))
        elif state is None:
            gone.append((max(ticks, key=ticks.__getitem__), user))
    for (channel, user), last in zip(gone, await store.voice.read_left(workspace, gone), strict=True):
        if last is None:
            return None
        shown.append(ShownVoiceState(last, True, places[user][channel]))
    return shown
