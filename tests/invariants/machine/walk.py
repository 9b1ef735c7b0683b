"""The steps of a walk other than people's own operations: time, losses, reads and devices.

Each step is compared with the model. The operations are in `test_session_machine`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from hypothesis import note
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from tests.invariants.machine.actions import Actions
from tests.invariants.machine.checks import Checks, Mark, is_refused
from tests.invariants.machine.deployment import SYNC, ClockedDeployment
from tests.invariants.machine.model_device import ModelDevice
from tests.invariants.machine.reading import Reading
from tests.invariants.machine.replay import replay
from tests.invariants.model.sessions import Op, SessionModel

HOUR_MS = 3_600_000
STEP_MS = 60
"""More ms than one step takes ticks. So a user's clock never runs ahead of time, and a lost cache cannot move it back.
"""

# Some people and conversations are more frequent, so that operations meet.
WHO = st.sampled_from((0, 0, 0, 1, 1, 2, 3, 4))
ANY = st.sampled_from((0, 0, 0, 1, 4, 4, 8, 8, 9, 2, 5, 7))
PROCESS = st.integers(0, 1)


class Walk(RuleBasedStateMachine):
    """Rules, each followed by a check of everything that it may have changed."""

    processes: ClassVar[ClockedDeployment]

    def __init__(self) -> None:
        super().__init__()
        self.is_consistent = False
        self.is_disturbed = False
        self.devices: list[ModelDevice] = []
        self.marks: list[Mark] = []
        self.groups: dict[str, str] = {}

    def meet(self, names: Sequence[str]) -> None:
        """Create the users of this walk. Call it first."""
        processes = self.processes
        processes.run(processes.housekeeping())
        self.users: list[str] = processes.run(processes.apis[0].create_users(*names))
        self.tag = self.users[0].rpartition("-")[2]
        births = {user: processes.run(self._cursor(user)) for user in self.users}
        self.actions = Actions(self.users, processes)
        self.reading = Reading(processes)
        processes.ids.clear()
        self.checks = Checks(processes, self.users, births)
        self.is_consistent = True

    async def _cursor(self, user: str) -> str:
        cursor: str = (await self.processes.apis[0].data(user, SYNC))["syncSessions"]["cursor"]
        return cursor

    @property
    def model(self) -> SessionModel:
        return self.checks.model

    # --- doing

    def step(self, kind: str) -> None:
        assert self.is_consistent
        self.is_consistent = False
        self.processes.steps[kind] += 1
        self.processes.move_clocks((STEP_MS, STEP_MS))
        self.checks.begin()
        self.checks.pass_time()

    def do(self, op: Op, process: int, review: bool = True) -> None:
        self.step(op.kind)
        note(f"{op} on {process}".replace(self.tag, ""))

        async def act() -> None:
            answer = await self.processes.call(op, process)
            expected = self.model.apply(op)
            assert is_refused(answer, expected), f"expected {expected}, got {answer}"
            await self.processes.quiet(published=review)
            if expected is None:
                self.checks.answered(op, answer)
            await self.checks.check(self.checks.touched() | {op.user}, 1 - process)
            if review and op.target in self.model.conversations:
                await self.review(op.target, op.user, process)

        self.processes.run(act())
        self.is_consistent = True

    async def review(self, name: str, user: str, process: int) -> None:
        """Check a conversation for the user who changed it, and for another one who may be no member."""
        readers = {user, self.users[self.checks.step % len(self.users)]}
        for reader in sorted(readers):
            await self.reading.check_query(self.model, reader, name, process, self.checks.step)
        await self.reading.check_offline(self.model, max(readers), process)

    # --- time

    @rule(ms=st.sampled_from((1_000, 61_000, HOUR_MS)), process=PROCESS)
    def pass_time(self, ms: int, process: int) -> None:
        self._move_clocks((ms, ms), process)

    @rule(ms=st.sampled_from((1, 3_000, 400_000, HOUR_MS)), back=st.booleans(), whose=PROCESS, process=PROCESS)
    def drift(self, ms: int, back: bool, whose: int, process: int) -> None:
        """Move one clock, at most to an hour from the other one."""
        ahead = self.processes.clocks[whose].ms - self.processes.clocks[1 - whose].ms
        moved = max(-HOUR_MS, min(HOUR_MS, ahead + (-ms if back else ms))) - ahead
        self._move_clocks((0, moved) if whose else (moved, 0), process)

    def _move_clocks(self, by: Sequence[int], process: int) -> None:
        self.step("time")
        self.is_disturbed = True

        async def act() -> None:
            self.processes.move_clocks(by)
            await self.processes.housekeeping()
            self.checks.pass_time()
            await self.processes.quiet()
            await self.checks.check(self.users, process)

        self.processes.run(act())
        self.is_consistent = True

    # --- harm

    @rule(seed=st.integers(0, 1 << 16), share=st.sampled_from((0.05, 0.2, 0.5, 1.0)), noticed=st.booleans())
    def lose_keys(self, seed: int, share: float, noticed: bool) -> None:
        self._lose(share, seed, noticed)

    @rule(noticed=st.booleans())
    def lose_all(self, noticed: bool) -> None:
        self._lose(1, None, noticed)

    def _lose(self, share: float, seed: int | None, noticed: bool) -> None:
        self.step("lose")
        self.is_disturbed = True

        async def act() -> None:
            await self.processes.quiet()
            self.checks.losses += 1
            lost = self.processes.lose(share, seed, {self.tag: ""} | self.groups)
            note(f"lost {[name for name in lost if '{u:' in name or '_' in name]}")
            if noticed:
                await self.processes.housekeeping()
                await self.checks.check(self.users, 0)

        self.processes.run(act())
        self.is_consistent = True

    # --- reading

    @rule(process=PROCESS)
    def check_all_users(self, process: int) -> None:
        """Check every user, also those without a change."""
        self.step("check_all_users")

        async def act() -> None:
            await self.checks.check(self.users, process)
            for user in self.users:
                await self.checks.check_list(user, process)
                await self.reading.check_groups(self.model, user, process)
                await self.reading.check_offline(self.model, user, process, 2)
            for name, conversation in self.model.conversations.items():
                # For a private conversation, one outsider is enough.
                outside = [user for user in self.users if user not in conversation.intervals]
                for user in self.users if name.startswith("g_") else [*conversation.intervals, outside[0]]:
                    await self.reading.check_query(self.model, user, name, process, self.checks.step)

        self.processes.run(act())
        self.is_consistent = True

    @rule(who=WHO, which=ANY, size=st.sampled_from((1, 2, 3, 7)), process=PROCESS)
    def page(self, who: int, which: int, size: int, process: int) -> None:
        """Read a group's history in pages."""
        names = [name for name in self.model.conversations if name.startswith("g_")] or list(self.model.conversations)
        if names:
            self.step("page")
            name = names[which % len(names)]
            self.processes.run(self.reading.page(self.model, self.users[who], name, process, size))
            self.is_consistent = True

    @rule(who=WHO)
    def keep_cursor(self, who: int) -> None:
        self.marks.append(self.checks.mark(self.users[who], self.processes.run(self._cursor(self.users[who]))))

    @rule(which=ANY, first=st.sampled_from((1, 2, 3, 100)), process=PROCESS)
    def catch_up(self, which: int, first: int, process: int) -> None:
        if not self.marks:
            return
        self.step("catch up")
        mark = self.marks[which % len(self.marks)]

        async def act() -> None:
            await self.checks.check([mark.user], process)
            await self.checks.catch_up(mark, first, process)

        self.processes.run(act())
        self.is_consistent = True

    @rule(which=ANY, where=ANY, whole=st.booleans(), process=PROCESS)
    def replay(self, which: int, where: int, whole: bool, process: int) -> None:
        if not self.marks:
            return
        self.step("replay")
        names = list(self.model.conversations)
        name = None if whole or not names else names[where % len(names)]
        mark = self.marks[which % len(self.marks)]
        self.processes.run(replay(self.processes, self.checks, mark, name, process))
        self.is_consistent = True

    # --- devices

    @rule(who=st.integers(0, 2), process=PROCESS)
    def appear(self, who: int, process: int) -> None:
        if len(self.devices) < 3:
            self.devices.append(ModelDevice(self.processes.apis[process], self.users[who], self.processes.ids))
            self.processes.run(self.devices[-1].appear(self.model))

    @rule(which=ANY, process=PROCESS, waits=st.booleans())
    def come_and_go(self, which: int, process: int, waits: bool) -> None:
        if not self.devices:
            return
        self.step("come and go")
        device = self.devices[which % len(self.devices)]
        if device.is_offline:
            self.processes.run(device.come_back(self.processes.apis[process], self.model, waits))
        else:
            self.processes.run(self._agree(device))
            self.processes.run(device.stop())
        self.is_consistent = True

    @rule()
    def agree(self) -> None:
        if not all(device.is_offline for device in self.devices):
            self.step("agree")
            self.processes.run(self._agree(*(device for device in self.devices if not device.is_offline)))
            self.is_consistent = True

    async def _agree(self, *devices: ModelDevice) -> None:
        """Check that devices agree with the model."""
        if self.is_disturbed:
            await self.processes.housekeeping()
            self.is_disturbed = False
        for device in devices:
            await self.checks.check([device.user], 0)
            await device.agrees_with(self.model)

    def teardown(self) -> None:
        try:
            if self.is_consistent:
                for device in self.devices:
                    if device.is_offline:
                        self.processes.run(device.come_back(self.processes.apis[0], self.model))
                self.agree()
                self.check_all_users(0)
                self.processes.run(self.processes.check_derived_data())
        finally:
            for api in self.processes.apis:
                self.processes.run(api.stop_subscriptions())
            self.processes.lose(1, 0)
