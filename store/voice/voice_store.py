"""Voice states in Redis: one hash per workspace, changed together with the clock of the workspace (ADR 83)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, NamedTuple

from store.base.clock import Clock
from store.base.ids import ConversationId, UserId
from store.base.workspace_ids import WorkspaceId
from store.clocks.clock_constants import IDLE_MS
from store.clocks.shared_clocks import Appended, parse_appended
from store.redis.cache import Cache, Call
from store.redis.keys import Keys
from store.voice.voice_state import VoiceState, voice_state_from

CHECK_MS = 2_000
"""Time between two checks of the voice states of a workspace."""

CLAIMED_AT_ONCE = 100
"""Most workspaces of one claim."""

_LEAVE = "-"


class VoiceRefusal(Enum):
    """Reasons why a voice state is not changed."""

    FULL = auto()
    """The channel has no place for another user."""
    NO_STATE = auto()
    """There is no voice state for which the conditions hold."""


class OutdatedVoiceRights(NamedTuple):
    """Rights have changed since they were judged. version: judge under this one; None: read it from MongoDB."""

    version: int | None


class VoiceChange(NamedTuple):
    """A change of a user's voice state.

    Attributes:
        hash_id: Changes when Redis loses the states.
        state: The state after it; None: it has ended.
        before: The state before it; None: there was none.
        appended: Its event on the clock of the workspace. Tick 0: others see no difference, so it has no event.
    """

    hash_id: str
    state: VoiceState | None
    before: VoiceState | None
    appended: Appended


VoiceOutcome = VoiceChange | VoiceRefusal | OutdatedVoiceRights


@dataclass(frozen=True, slots=True)
class VoiceConditions:
    """Conditions for a change of a user's state, judged in the same step.

    Attributes:
        device: The state is of this device; None: of any.
        channel: The user is in this channel; None: in any.
        state: The state is still exactly this one; None: any.
        version: Rights were judged under this policy version; None: the change needs none.
    """

    device: str | None = None
    channel: ConversationId | None = None
    state: VoiceState | None = None
    version: int | None = None


class RememberedState(NamedTuple):
    """A state as a server remembers it. hash_id: of the hash in which it was: it shows whether Redis has lost it."""

    state: VoiceState
    hash_id: str


class VoiceReading(NamedTuple):
    """Voice states of a workspace at one moment.

    Attributes:
        hash_id: Changes when Redis loses the states; "": there are none.
        judged: The policy version under which all were judged; None: not all were.
        version: The present policy version; None: it is not in Redis.
        states: The states.
    """

    hash_id: str
    judged: int | None
    version: int | None
    states: Sequence[VoiceState]


class Attached(NamedTuple):
    """A state after its device's connection was noted. state: None: the device is not in voice."""

    hash_id: str
    state: VoiceState | None


class Restored(NamedTuple):
    """The present states of users whose states a server remembers, and the changes that have restored some."""

    hash_id: str
    present: Mapping[UserId, VoiceState]
    changes: Sequence[VoiceChange]


class VoiceStore:
    """Reads and changes voice states. Every method is one round trip to Redis, and raises Unreachable.

    While the Redis fallback is used nobody is in voice, and nothing can be changed.
    """

    def __init__(self, cache: Cache, keys: Keys, clock: Clock) -> None:
        self._cache = cache
        self._keys = keys
        self._clock = clock

    async def join(
        self, workspace: WorkspaceId, state: VoiceState, flags: int, *, version: int, limit: int
    ) -> VoiceOutcome:
        """Let a user join a channel, and leave another one of the workspace. `note_device` is to follow.

        Args:
            workspace: The workspace.
            state: User, channel, server and device; the rest is ignored.
            flags: The user's own flags, and those that follow from rights.
            version: The policy version under which rights were judged.
            limit: Largest number of users in the channel.
        """
        self._cache.require_shared()
        join = self._call(
            "voice_join", workspace, state.user, state.channel, version, state.server, state.device, flags, limit
        )
        # First: a server that dies after the join leaves nothing that no server checks.
        return _outcome(state.user, (await self._cache.run([self._check_call(workspace), join]))[-1])

    async def note_device(
        self, workspace: WorkspaceId, user: UserId, device: str, ended: WorkspaceId | None = None
    ) -> WorkspaceId | None:
        """Note in which workspace a device has joined. Return another workspace if that is noted: nothing was changed.

        The state there is to be ended first. ended: the workspace in which this was done. So no state is forgotten if
        calls fail, or if several joins happen at once.
        """
        self._cache.require_shared()
        before = await self._cache.one(self._note_call(workspace, user, device, ended or ""))
        found = WorkspaceId(before.decode()) if before is not None else None
        return None if found in (workspace, ended) else found

    async def change(
        self,
        workspace: WorkspaceId,
        user: UserId,
        conditions: VoiceConditions,
        *,
        set_flags: int = 0,
        clear_flags: int = 0,
        move_to: ConversationId | None = None,
        limit: int = 0,
    ) -> VoiceOutcome:
        """Change flags of a state, or its channel. limit: largest number of users in the new channel."""
        call = self._change_call(
            workspace, user, conditions, set_flags, clear_flags, move_to if move_to is not None else "", limit
        )
        return await self._change(user, call)

    async def end(self, workspace: WorkspaceId, user: UserId, conditions: VoiceConditions) -> VoiceOutcome:
        """End a state."""
        return await self._change(user, self._change_call(workspace, user, conditions, 0, 0, _LEAVE, 0))

    async def end_many(self, workspace: WorkspaceId, states: Collection[VoiceState]) -> list[VoiceChange]:
        """End those states that are still exactly as given."""
        self._cache.require_shared()
        calls = [
            self._change_call(workspace, state.user, VoiceConditions(state=state), 0, 0, _LEAVE, 0) for state in states
        ]
        outcomes = zip(states, await self._cache.run_in_background(calls), strict=True)
        found = [_outcome(state.user, answer) for state, answer in outcomes]
        return [outcome for outcome in found if isinstance(outcome, VoiceChange)]

    async def find_workspaces(self, devices: Iterable[tuple[UserId, str]]) -> list[WorkspaceId | None]:
        """Return the workspace in which each device joined a voice channel last; None if it did not for a day."""
        self._cache.require_shared()
        calls = [Call("HGET", (self._keys.of_user(user, "voice"),), (device,)) for user, device in devices]
        found = await self._cache.run_in_background(calls)
        return [WorkspaceId(name.decode()) if name is not None else None for name in found]

    async def attach(self, workspace: WorkspaceId, user: UserId, device: str, server: str) -> Attached:
        """Note that a device is connected to a server."""
        return await self._attach(workspace, user, device, server, 0, "")

    async def note_gone(self, workspace: WorkspaceId, user: UserId, device: str, server: str, gone_ms: int) -> None:
        """Note that a device is not connected to a server any more, unless another server has its connection.

        gone_ms: when it was last heard from.
        """
        await self._attach(workspace, user, device, server, gone_ms, "1")

    async def restore(self, workspace: WorkspaceId, remembered: Collection[RememberedState]) -> Restored:
        """Return the present states of users whose states this server remembers.

        States that Redis has lost are written again, with their time of joining. A state that has ended is not.
        """
        self._cache.require_shared()
        args: list[str] = []
        for state, hash_id in remembered:
            args += [state.user, hash_id, state.encode()]
        calls = [self._check_call(workspace), self._call("voice_restore", workspace, *args)]
        hash_id, *answers = (await self._cache.run_in_background(calls))[-1]
        present: dict[UserId, VoiceState] = {}
        changes: list[VoiceChange] = []
        for (state, _), text, change in zip(remembered, answers[::2], answers[1::2], strict=True):
            if text:
                present[state.user] = voice_state_from(state.user, text.decode())
            if change:
                changes.append(_change(state.user, change))
        return Restored(hash_id.decode(), present, changes)

    async def note_devices(self, workspace: WorkspaceId, devices: Iterable[tuple[UserId, str]]) -> None:
        """Note in which workspace devices are in voice: Redis has lost it, or would forget it after a day."""
        await self._cache.run_in_background([self._note_call(workspace, *device) for device in devices])

    async def read(self, workspace: WorkspaceId, channels: Iterable[ConversationId] = ()) -> VoiceReading:
        """Return the states in some channels; without any: all of the workspace."""
        return _states(await self._cache.one(self._read_call(workspace, channels)))

    async def read_many(self, channels: Mapping[WorkspaceId, Iterable[ConversationId]]) -> list[VoiceReading]:
        """Return the states in some channels of each workspace."""
        return [
            _states(answer) for answer in await self._cache.run([self._read_call(*each) for each in channels.items()])
        ]

    async def read_left(
        self, workspace: WorkspaceId, left: Sequence[tuple[ConversationId, UserId]]
    ) -> list[VoiceState | None]:
        """Return the last states of users in channels that they have left; None for those that are not kept."""
        if not left:
            return []
        names = [f"{channel} {user}" for channel, user in left]
        texts = await self._cache.one(Call("HMGET", (self._keys.of_clock(workspace, "voice_left"),), tuple(names)))
        return [
            voice_state_from(user, text.decode()) if text is not None else None
            for (_, user), text in zip(left, texts, strict=True)
        ]

    async def note_judged(self, workspace: WorkspaceId, version: int) -> None:
        """Note that all states were judged under a policy version."""
        voice = (self._keys.of_clock(workspace, "voice"),)
        await self._cache.run([Call("HSET", voice, ("judged", version)), Call("PEXPIRE", voice, (IDLE_MS,))])

    async def claim_checks(self) -> list[WorkspaceId]:
        """Return workspaces whose states are due for a check. No other server gets them until the next one is due."""
        self._cache.require_shared()
        now = self._clock.now_ms()
        call = Call("voice_claim", (self._keys.voice_checks,), (now, now + CHECK_MS, CLAIMED_AT_ONCE))
        return [WorkspaceId(name.decode()) for name in (await self._cache.run_in_background([call]))[0]]

    async def list_checked(self) -> list[WorkspaceId]:
        """Return all workspaces in which somebody may be in voice."""
        self._cache.require_shared()
        call = Call("ZRANGE", (self._keys.voice_checks,), (0, -1))
        return [WorkspaceId(name.decode()) for name in (await self._cache.run_in_background([call]))[0]]

    async def end_checks(self, workspace: WorkspaceId) -> None:
        """Note that a workspace without states needs no checks, unless somebody has joined since."""
        await self._cache.run_in_background([Call("ZREM", (self._keys.voice_checks,), (workspace,))])
        if (await self.read(workspace)).states:
            await self._cache.run_in_background([self._check_call(workspace)])

    async def _attach(
        self, workspace: WorkspaceId, user: UserId, device: str, server: str, gone_ms: int, is_own: str
    ) -> Attached:
        self._cache.require_shared()
        call = self._call("voice_attach", workspace, user, device, server, gone_ms, is_own)
        hash_id, text = (await self._cache.run_in_background([call]))[0]
        return Attached(hash_id.decode(), voice_state_from(user, text.decode()) if text else None)

    async def _change(self, user: UserId, call: Call) -> VoiceOutcome:
        self._cache.require_shared()
        return _outcome(user, await self._cache.one(call))

    def _change_call(
        self,
        workspace: WorkspaceId,
        user: UserId,
        conditions: VoiceConditions,
        set_flags: int,
        clear_flags: int,
        target: str,
        limit: int,
    ) -> Call:
        return self._call(
            "voice_change",
            workspace,
            user,
            conditions.device or "",
            conditions.channel or "",
            conditions.state.encode() if conditions.state is not None else "",
            "" if conditions.version is None else conditions.version,
            set_flags,
            clear_flags,
            target,
            limit,
        )

    def _note_call(self, workspace: WorkspaceId, user: UserId, device: str, ended: str = "") -> Call:
        return Call("voice_note_device", (self._keys.of_user(user, "voice"),), (device, workspace, ended, IDLE_MS))

    def _check_call(self, workspace: WorkspaceId) -> Call:
        """Return the call after which servers check the states of a workspace."""
        return Call("ZADD", (self._keys.voice_checks,), ("NX", self._clock.now_ms() + CHECK_MS, workspace))

    def _read_call(self, workspace: WorkspaceId, channels: Iterable[ConversationId]) -> Call:
        return self._call("voice_read", workspace, *channels)

    def _call(self, script: str, workspace: WorkspaceId, *args: str | int) -> Call:
        return Call(script, self._keys.clock(workspace), (self._clock.now_ms(), workspace, *args))


def _outcome(user: UserId, answer: Sequence[bytes]) -> VoiceOutcome:
    match answer[0]:
        case b"outdated":
            return OutdatedVoiceRights(int(answer[1]) if answer[1] else None)
        case b"full":
            return VoiceRefusal.FULL
        case b"none":
            return VoiceRefusal.NO_STATE
        case _:
            return _change(user, answer)


def _change(user: UserId, answer: Sequence[bytes]) -> VoiceChange:
    _, hash_id, state, before, *appended = answer
    return VoiceChange(
        hash_id.decode(),
        voice_state_from(user, state.decode()) if state else None,
        voice_state_from(user, before.decode()) if before else None,
        parse_appended(appended),
    )


def _states(answer: Sequence[Any]) -> VoiceReading:
    hash_id, judged, version, *rows = answer
    states = [
        voice_state_from(UserId(user.decode()), text.decode()) for user, text in zip(rows[::2], rows[1::2], strict=True)
    ]
    return VoiceReading(hash_id.decode(), int(judged) if judged else None, int(version) if version else None, states)
