"""I5 for voice: random joins, moves, moderation, departures and losses, compared with a naive model.

The events in the log, replayed, give the same states.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import pytest
from hypothesis import note
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from store.redis.cache import Call
from store.voice.voice_state import VoiceState
from subscriptions.realtime.events.base import WholeEvent
from subscriptions.realtime.events.shared_registry import parse_shared_entry
from subscriptions.realtime.events.voice import VoiceStateChanged
from tests.api.client import wait_until
from tests.api.voice.calls import JOIN, LEAVE, MODERATE, UPDATE, Device, VoiceWorkspace, make_voice_workspace
from tests.invariants.machine.deployment import ClockedDeployment
from tests.invariants.machine.running import run_machine
from tests.invariants.model.sessions import Json

LIMIT = 2
STEP_MS = 5_000
MODERATED = ("mute", "deaf")
DEVICE = st.integers(0, 5)
USER = st.sampled_from((0, 0, 1, 2))
PROCESS = st.integers(0, 1)
CHANNEL = st.sampled_from((0, 0, 1))
FLAG = st.sampled_from((None, True, False))


@dataclass
class ModelState:
    """The state of one user."""

    channel: int
    device: int
    flags: dict[str, bool] = field(default_factory=dict)
    gone_seconds: int | None = None


class VoiceMachine(RuleBasedStateMachine):
    """Three users with two devices each, two channels, and a moderator."""

    processes: ClassVar[ClockedDeployment]

    def __init__(self) -> None:
        super().__init__()
        self.is_consistent = False
        self.states: dict[int, ModelState] = {}
        self.moderated: dict[int, dict[str, bool]] = {}
        self.connected = set(range(6))

    @initialize()
    def begin(self) -> None:
        self.processes.run(self._begin())
        self.is_consistent = True

    async def _begin(self) -> None:
        await self.processes.housekeeping()
        for api in self.processes.apis:
            app = api.services.app
            object.__setattr__(app, "limits", replace(app.limits, max_voice_channel_users=LIMIT))
        api = self.processes.apis[0]
        self.voice: VoiceWorkspace = await make_voice_workspace(api)
        self.users = await api.create_users("ann", "ben", "cem")
        await self.voice.add(*self.users)
        self.channels = (self.voice.lounge, self.voice.stage)
        self.devices = [
            Device(self.processes.apis[number % 2], self.users[number // 2], f"device {number}") for number in range(6)
        ]
        await self._work()

    def _step(self, text: str) -> None:
        assert self.is_consistent
        self.is_consistent = False
        note(text)
        self.processes.steps[text.split()[0]] += 1
        self.processes.move_clocks((60, 60))

    def _end(self) -> None:
        self.processes.run(self._check())
        self.processes.run(wait_until(self._is_remembered))
        self.is_consistent = True

    async def _work(self) -> None:
        await self.processes.housekeeping()
        for api in self.processes.apis:
            await api.services.app.live_servers.report()
            await api.services.app.voice_devices.renew()
            await api.services.housekeeper._voice_checks.check()

    async def _connect(self, device: int, process: int) -> None:
        self.devices[device].connect(self.processes.apis[process])

    async def _disconnect(self, device: int) -> None:
        self.devices[device].disconnect()

    def _has_place(self, channel: int) -> bool:
        return sum(state.channel == channel for state in self.states.values()) < LIMIT

    def _run(self, device: int, query: str, expected: str | None, **variables: Any) -> None:
        response: Json = self.processes.run(self.devices[device].run(query, **variables))
        code = response["errors"][0]["extensions"]["code"] if "errors" in response else None
        assert code == expected, (response, expected)

    def _own(self, device: int) -> ModelState | None:
        state = self.states.get(device // 2)
        return state if state is not None and state.device == device else None

    def _drop(self, user: int) -> None:
        state = self.states.pop(user)
        kept = {name: True for name in MODERATED if state.flags.get(name)}
        if kept:
            self.moderated[user] = kept

    @rule(device=DEVICE, channel=CHANNEL, mute=st.booleans())
    def join(self, device: int, channel: int, mute: bool) -> None:
        if device not in self.connected:
            return
        self._step(f"join {device} {channel} {mute}")
        user = device // 2
        before = self.states.get(user)
        stays = before is not None and before.channel == channel
        expected = None if stays or self._has_place(channel) else "LIMIT_REACHED"
        self._run(device, JOIN, expected, id=self.channels[channel], mute=mute)
        if expected is None:
            kept = before.flags if before is not None else self.moderated.pop(user, {})
            flags = {name: kept.get(name, False) for name in MODERATED}
            if stays and before is not None and before.device == device:
                flags |= {name: before.flags.get(name, False) for name in ("video", "screen")}
            self.states[user] = ModelState(channel, device, flags | {"selfMute": mute})
        self._end()

    @rule(device=DEVICE, mute=FLAG, deaf=FLAG, video=FLAG, screen=FLAG)
    def update(self, device: int, **flags: bool | None) -> None:
        if device not in self.connected:
            return
        self._step(f"update {device} {flags}")
        state = self._own(device)
        self._run(device, UPDATE, None if state is not None else "NOT_FOUND", **flags)
        if state is not None:
            names = {"mute": "selfMute", "deaf": "selfDeaf"}
            state.flags |= {names.get(name, name): value for name, value in flags.items() if value is not None}
        self._end()

    @rule(device=DEVICE)
    def leave(self, device: int) -> None:
        if device not in self.connected:
            return
        self._step(f"leave {device}")
        state = self._own(device)
        self._run(device, LEAVE, None if state is not None else "NOT_FOUND")
        if state is not None:
            self._drop(device // 2)
        self._end()

    @rule(
        user=USER, channel=CHANNEL, mute=FLAG, deaf=FLAG, act=st.sampled_from(("", "", "move", "end")), process=PROCESS
    )
    def moderate(self, user: int, channel: int, mute: bool | None, deaf: bool | None, act: str, process: int) -> None:
        if (mute, deaf, act) == (None, None, ""):
            return
        self._step(f"moderate {user} {channel} {mute} {deaf} {act}")
        state, target = self.states.get(user), 1 - channel
        expected = None
        if state is None or state.channel != channel:
            expected = "NOT_FOUND"
        elif act == "move" and not self._has_place(target):
            expected = "LIMIT_REACHED"
        change: Json = {"mute": mute, "deaf": deaf, "disconnect": act == "end"}
        if act == "move":
            change["to"] = self.channels[target]
        api, owner = self.processes.apis[process], self.voice.owner
        variables = {"id": self.channels[channel], "user": self.users[user]} | change
        response = self.processes.run(api.run(owner, MODERATE, **variables))
        code = response["errors"][0]["extensions"]["code"] if "errors" in response else None
        assert code == expected, (response, expected)
        if state is not None and expected is None:
            if act == "end":
                self._drop(user)
            else:
                if act == "move":
                    state.channel = target
                    state.flags |= {"video": False, "screen": False}
                state.flags |= {name: value for name, value in (("mute", mute), ("deaf", deaf)) if value is not None}
        self._end()

    @rule(device=DEVICE)
    def disconnect(self, device: int) -> None:
        if device not in self.connected:
            return
        self._step(f"disconnect {device}")
        self.connected.remove(device)
        self.processes.run(self._disconnect(device))
        state = self._own(device)
        if state is not None:
            state.gone_seconds = 0
        self.processes.run(self._work())
        self._end()

    @rule(device=DEVICE, process=PROCESS)
    def reconnect(self, device: int, process: int) -> None:
        if device in self.connected:
            return
        self._step(f"reconnect {device} {process}")
        self.connected.add(device)
        self.processes.run(self._connect(device, process))
        state = self._own(device)
        if state is not None:
            state.gone_seconds = None
        self.processes.run(self._work())
        self._end()

    @rule(seconds=st.sampled_from((15, 60)))
    def pass_time(self, seconds: int) -> None:
        self._step(f"pass_time {seconds}")
        for _ in range(seconds * 1000 // STEP_MS):
            self.processes.move_clocks((STEP_MS, STEP_MS))
            self.processes.run(self._work())
        for user, state in list(self.states.items()):
            if state.gone_seconds is not None:
                state.gone_seconds += seconds
                if state.gone_seconds >= 45:
                    self._drop(user)
        self._end()

    @rule(alone=st.booleans())
    def lose(self, alone: bool) -> None:
        self._step(f"lose {alone}")
        store = self.processes.apis[0].services.app.store
        if alone:
            self.processes.run(store.cache.run([Call("DEL", (store.keys.of_clock(self.voice.id, "voice"),))]))
        else:
            self.processes.lose()
            self.moderated.clear()
        self.processes.run(self._work())
        for api in self.processes.apis:
            self.processes.run(api.services.app.voice_devices._compare())
        # Nobody remembers devices that were away.
        self.states = {user: state for user, state in self.states.items() if state.gone_seconds is None}
        self._end()

    async def _check(self) -> None:
        found: dict[int, tuple[int, dict[str, bool]]] = {}
        for number, channel in enumerate(self.channels):
            for state in await self.voice.states(channel, api=self.processes.apis[number]):
                user = self.users.index(state["user"]["id"])
                assert user not in found
                names = ("selfMute", "selfDeaf", "mute", "deaf", "video", "screen")
                found[user] = number, {name: state[name] for name in names if state[name]}
        expected = {
            user: (state.channel, {name: True for name, value in state.flags.items() if value})
            for user, state in self.states.items()
        }
        assert found == expected
        await self._check_log()

    async def _is_remembered(self) -> bool:
        """Return whether the servers of the devices know the present states, and no others."""
        reading = await self.processes.apis[0].services.app.store.voice.read(self.voice.id)
        remembered = [
            joined.state for api in self.processes.apis for joined in api.services.app.voice_devices._joined.values()
        ]
        present = [state for state in reading.states if not state.gone_at_ms]
        return sorted(map(repr, remembered)) == sorted(map(repr, present))

    async def _check_log(self) -> None:
        """Replay the events of the epoch, from no states at all."""
        store = self.processes.apis[0].services.app.store
        page = await store.clocks.read_log(self.voice.id, 0, 10_000)
        replayed: dict[str, VoiceState] = {}
        for event in page.events:
            entry = parse_shared_entry(event.entry)
            change = entry.event if isinstance(entry, WholeEvent) else None
            if isinstance(change, VoiceStateChanged):
                replayed.pop(change.state.user, None)
                if not change.left:
                    replayed[change.state.user] = change.state
        present = {state.user: state for state in (await store.voice.read(self.voice.id)).states}
        assert {user: shown(state) for user, state in replayed.items()} == {
            user: shown(state) for user, state in present.items()
        }

    def teardown(self) -> None:
        for number in self.connected:
            self.processes.run(self._disconnect(number))
        self.processes.lose()


def shown(state: VoiceState) -> tuple[Any, ...]:
    """Return what others see of a state, with its version."""
    flags = (state.self_mute, state.self_deaf, state.mute, state.deafened, state.video, state.screen)
    return state.channel, state.joined_at_ms, state.version, *flags


def test_voice_states_are_what_a_naive_model_computes(
    processes: ClockedDeployment, capsys: pytest.CaptureFixture[str]
) -> None:
    VoiceMachine.processes = processes
    run_machine(VoiceMachine, processes, capsys, examples=4, steps=40)
