"""I3, I4, I5, I7: whatever people do to their sessions, on two processes with clocks that disagree and a Redis that forgets."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Sequence
from typing import ClassVar

import pytest
from hypothesis import HealthCheck, Phase, note, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test
from pymongo import MongoClient
from redis import Redis

from tests.invariants.session_acts import BAD, BURST, Acts
from tests.invariants.session_device import Device
from tests.invariants.session_model import Json, Op, SessionModel
from tests.invariants.session_watch import FOLDERS, SUB_BIZ, Mark, Watch
from tests.invariants.session_world import CREATE_GROUP, SYNC, World
from tests.schema.api import refusal_of, together

LONG = int(os.environ.get("CONFAB_TEST_MACHINE_EXAMPLES", "0"))
"""How many examples to run, each another one every time. Without it: a few, always the same."""

HOUR_MS = 3_600_000
STEP_MS = 20
"""More than the ticks of one step: a user's clock then never runs ahead of time, from where a lost cache would bring it back."""

# Some people and conversations more often than others, so that things meet.
WHO = st.sampled_from((0, 0, 0, 1, 1, 2, 3, 4))
ANY = st.sampled_from((0, 0, 0, 1, 4, 4, 8, 8, 9, 2, 5, 7))
PROCESS = st.integers(0, 1)
MUTES = st.sampled_from((None, False, 2_000, HOUR_MS, 30 * HOUR_MS))
PRIORITIES = st.sampled_from((0, 1, 5, 1000))
FOLDER = st.sampled_from((None, *FOLDERS))
UP_TO = st.none() | st.integers(0, 9) | st.just(1000)


class SessionMachine(RuleBasedStateMachine):
    """Everything is done by rules, and what those see that it touched is looked at after each."""

    world: ClassVar[World]

    def __init__(self) -> None:
        super().__init__()
        world = self.world
        self.sound = True
        self.rough = False
        self.devices: list[Device] = []
        self.marks: list[Mark] = []
        self.groups: dict[str, str] = {}
        world.run(world.housekeeping())
        self.users: list[str] = world.run(world.apis[0].people("ann", "ben", "cat", "dan", "eve"))
        self.tag = self.users[0].partition("-")[2]
        births = {user: world.run(self._cursor(user)) for user in self.users}
        self.acts = Acts(self.users, world)
        self.watch = Watch(world, self.users, births)

    async def _cursor(self, user: str) -> str:
        cursor: str = (await self.world.apis[0].data(user, SYNC))["syncSessions"]["cursor"]
        return cursor

    @property
    def model(self) -> SessionModel:
        return self.watch.model

    # --- doing

    def step(self, kind: str) -> None:
        assert self.sound
        self.sound = False
        self.world.steps[kind] += 1
        self.world.move_clocks((STEP_MS, STEP_MS))
        self.watch.begin()
        self.watch.pass_time()

    def do(self, op: Op, process: int) -> None:
        self.step(op.kind)
        note(f"{op} on {process}".replace(self.tag, ""))

        async def act() -> None:
            self.watch.answered(op, await self.world.call(op, process))
            self.model.do(op)
            await self.world.quiet()
            await self.watch.check(self.watch.touched() | {op.user}, 1 - process)

        self.world.run(act())
        self.sound = True

    @rule(who=WHO, to=ANY, mention=st.booleans(), everybody=st.booleans(), process=PROCESS)
    def send(self, who: int, to: int, mention: bool, everybody: bool, process: int) -> None:
        self.do(self.acts.send(self.model, self.users[who], to, mention, everybody), process)

    @rule(who=WHO, which=ANY, up_to=UP_TO, process=PROCESS)
    def read(self, who: int, which: int, up_to: int | None, process: int) -> None:
        self.do(self.acts.change(self.model, "read", self.users[who], which, up_to), process)

    @rule(who=WHO, which=ANY, up_to=UP_TO, process=PROCESS)
    def receive(self, who: int, which: int, up_to: int | None, process: int) -> None:
        seq = 1_000 if up_to is None else up_to
        self.do(self.acts.change(self.model, "receive", self.users[who], which, seq), process)

    @rule(who=WHO, which=ANY, hard=st.booleans(), process=PROCESS)
    def delete(self, who: int, which: int, hard: bool, process: int) -> None:
        self.do(self.acts.change(self.model, "delete", self.users[who], which, hard), process)

    @rule(who=WHO, which=ANY, until=MUTES, process=PROCESS)
    def mute(self, who: int, which: int, until: int | None, process: int) -> None:
        self.do(self.acts.change(self.model, "mute", self.users[who], which, until), process)

    @rule(who=WHO, which=ANY, priority=PRIORITIES, process=PROCESS)
    def pin(self, who: int, which: int, priority: int, process: int) -> None:
        self.do(self.acts.change(self.model, "pin", self.users[who], which, priority), process)

    @rule(who=WHO, which=ANY, process=PROCESS)
    def remind(self, who: int, which: int, process: int) -> None:
        self.do(self.acts.change(self.model, "remind", self.users[who], which), process)

    @rule(who=WHO, which=st.lists(ANY, max_size=4), folder=FOLDER, process=PROCESS)
    def assign(self, who: int, which: list[int], folder: str | None, process: int) -> None:
        self.do(self.acts.assign(self.model, self.users[who], which, folder), process)

    @rule(who=WHO, which=ANY, whom=st.lists(WHO, max_size=1), process=PROCESS)
    def invite(self, who: int, which: int, whom: list[int], process: int) -> None:
        self.do(self.acts.invite(self.model, self.users[who], which, whom), process)

    @rule(members=st.lists(WHO, min_size=3, max_size=4, unique=True), inside=st.booleans(), process=PROCESS)
    def found(self, members: list[int], inside: bool, process: int) -> None:
        if len(self.groups) == 3:
            return
        self.step("found")
        owner, *others = (self.users[number] for number in members)
        sub_biz = SUB_BIZ if inside else None

        async def act() -> None:
            fields = {"name": "Group", "memberIds": others, "subBiz": sub_biz}
            made = await self.world.apis[process].data(owner, CREATE_GROUP, input=fields)
            group = made["createGroup"]["id"]
            self.groups[group] = f"g_{len(self.groups)}"
            self.model.found(group, owner, others, sub_biz)
            await self.world.quiet()
            await self.watch.check(self.watch.touched(), 1 - process)

        self.world.run(act())
        self.sound = True

    @rule(
        people=st.lists(WHO, min_size=2, max_size=3),
        kinds=st.lists(st.sampled_from(BURST), min_size=3, max_size=3),
        which=ANY, value=st.integers(0, 3), process=PROCESS,
    )  # fmt: skip
    def burst(self, people: list[int], kinds: list[str], which: int, value: int, process: int) -> None:
        """Several devices at once: what comes of it is what would have come of some order."""
        pairs = zip(people, kinds, strict=False)
        done = [self.acts.any(self.model, kind, self.users[who], which, value) for who, kind in pairs]
        self.step("burst")
        note(f"{done}".replace(self.tag, ""))

        async def act() -> None:
            await together(*(self.world.call(op, (process + n) % 2) for n, op in enumerate(done)))
            models = self.watch.orders(itertools.permutations(done))
            await self.world.quiet()
            touched = {user for model in models for user, _ in model.changed} | {op.user for op in done}
            await self.watch.check_any(models, touched, process)

        self.world.run(act())
        self.sound = True

    @rule(who=WHO, which=ANY, bad=st.integers(0, BAD - 1), process=PROCESS)
    def refuse(self, who: int, which: int, bad: int, process: int) -> None:
        user = self.users[who]
        if not self.model.names(user):
            return
        document, variables, expected = self.acts.bad(self.model, user, which, bad)
        self.step("refuse")
        note(f"{variables} {expected}".replace(self.tag, ""))

        async def act() -> None:
            response = await self.world.apis[process].run(user, document, **variables)
            assert refusal_of(response["errors"][0]) == expected, response
            await self.world.quiet()
            await self.watch.check([user], process)

        self.world.run(act())
        self.sound = True

    # --- time

    @rule(ms=st.sampled_from((1_000, 61_000, HOUR_MS)), process=PROCESS)
    def pass_time(self, ms: int, process: int) -> None:
        self._move_clocks((ms, ms), process)

    @rule(ms=st.sampled_from((1, 3_000, 400_000, HOUR_MS)), back=st.booleans(), whose=PROCESS, process=PROCESS)
    def drift(self, ms: int, back: bool, whose: int, process: int) -> None:
        """One clock jumps, and is never more than an hour from the other one."""
        ahead = self.world.clocks[whose].ms - self.world.clocks[1 - whose].ms
        moved = max(-HOUR_MS, min(HOUR_MS, ahead + (-ms if back else ms))) - ahead
        self._move_clocks((0, moved) if whose else (moved, 0), process)

    def _move_clocks(self, by: Sequence[int], process: int) -> None:
        self.step("time")
        self.rough = True

        async def act() -> None:
            self.world.move_clocks(by)
            await self.world.housekeeping()
            self.watch.pass_time()
            await self.world.quiet()
            await self.watch.check(self.users, process)

        self.world.run(act())
        self.sound = True

    # --- harm

    @rule(seed=st.integers(0, 1 << 16), share=st.sampled_from((0.05, 0.2, 0.5, 1.0)), noticed=st.booleans())
    def lose_keys(self, seed: int, share: float, noticed: bool) -> None:
        self._lose(share, seed, noticed)

    @rule(noticed=st.booleans())
    def lose_all(self, noticed: bool) -> None:
        self._lose(1, None, noticed)

    def _lose(self, share: float, seed: int | None, noticed: bool) -> None:
        self.step("lose")
        self.rough = True

        async def act() -> None:
            await self.world.quiet()
            self.watch.losses += 1
            lost = self.world.lose(share, seed, {self.tag: ""} | self.groups)
            note(f"lost {[name for name in lost if '{u:' in name or '_' in name]}")
            if noticed:
                await self.world.housekeeping()
                await self.watch.check(self.users, 0)

        self.world.run(act())
        self.sound = True

    # --- looking

    @rule(process=PROCESS)
    def look(self, process: int) -> None:
        """At everybody, the untouched too."""
        self.step("look")

        async def act() -> None:
            await self.watch.check(self.users, process)
            for user in self.users:
                await self.watch.check_list(user, process)

        self.world.run(act())
        self.sound = True

    @rule(who=WHO)
    def keep_cursor(self, who: int) -> None:
        self.marks.append(self.watch.mark(self.users[who], self.world.run(self._cursor(self.users[who]))))

    @rule(which=ANY, first=st.sampled_from((1, 2, 3, 100)), process=PROCESS)
    def catch_up(self, which: int, first: int, process: int) -> None:
        if not self.marks:
            return
        self.step("catch up")
        mark = self.marks[which % len(self.marks)]

        async def act() -> None:
            await self.watch.check([mark.user], process)
            await self.watch.catch_up(mark, first, process)

        self.world.run(act())
        self.sound = True

    # --- devices

    @rule(who=st.integers(0, 2), process=PROCESS)
    def appear(self, who: int, process: int) -> None:
        if len(self.devices) < 3:
            self.devices.append(Device(self.world.apis[process], self.users[who]))
            self.world.run(self.devices[-1].start())

    @rule(which=ANY, process=PROCESS)
    def come_and_go(self, which: int, process: int) -> None:
        if not self.devices:
            return
        self.step("come and go")
        device = self.devices[which % len(self.devices)]
        if device.away:
            self.world.run(device.resume(self.world.apis[process]))
        else:
            self.world.run(self._agree(device))
            self.world.run(device.stop())
        self.sound = True

    @rule()
    def agree(self) -> None:
        if not all(device.away for device in self.devices):
            self.step("agree")
            self.world.run(self._agree(*(device for device in self.devices if not device.away)))
            self.sound = True

    async def _agree(self, *devices: Device) -> None:
        """Devices show what is so."""
        if self.rough:
            await self.world.housekeeping()
            self.rough = False
        model = self.model
        for device in devices:
            user = device.user
            await self.watch.check([user], 0)
            await device.shows({n: model.session(user, n) for n in model.names(user) if model.valid(user, n)})

    def teardown(self) -> None:
        try:
            if self.sound:
                for device in self.devices:
                    if device.away:
                        self.world.run(device.resume(self.world.apis[0]))
                self.agree()
                self.look(0)
        finally:
            for api in self.world.apis:
                self.world.run(api.stop_listening())
            self.world.lose(1, 0)


@pytest.fixture
def world(mongo_url: str, redis_url: str, _mongo_janitor: MongoClient[Json], _redis_janitor: Redis) -> Iterator[World]:
    opened = World(mongo_url, redis_url, _mongo_janitor, _redis_janitor)
    try:
        opened.open()
        yield opened
    finally:
        opened.close()


def test_sessions_are_what_counting_messages_gives_whatever_is_done(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    SessionMachine.world = world
    try:
        run_state_machine_as_test(
            SessionMachine,
            settings=settings(
                max_examples=LONG or 10,
                stateful_step_count=50,
                deadline=None,
                # The same walk on every run, so that a red test means that something changed; the long mode explores.
                derandomize=not LONG,
                database=None,
                phases=(Phase.generate, Phase.shrink) if LONG else (Phase.generate,),
                suppress_health_check=(HealthCheck.too_slow, HealthCheck.data_too_large),
            ),
        )
    finally:
        if LONG:
            with capsys.disabled():
                print(f"\n{world.steps.total()} steps: {dict(world.steps.most_common())}")
