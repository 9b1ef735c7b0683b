"""I1 to I7: random operations on messages, groups and sessions, compared with a model.

They run on two processes whose clocks disagree, and on a Redis that loses data.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import note
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from tests.api.client import gather_all, parse_refusal
from tests.invariants.machine.actions import BAD, BURST, GROUP_BURST
from tests.invariants.machine.checks import FOLDERS, SUB_BIZ
from tests.invariants.machine.deployment import CREATE_GROUP, ClockedDeployment
from tests.invariants.machine.running import run_machine
from tests.invariants.machine.walk import ANY, HOUR_MS, PROCESS, WHO, Walk
from tests.user_ids import NAMES

MUTES = st.sampled_from((None, False, 2_000, HOUR_MS, 30 * HOUR_MS))
PRIORITIES = st.sampled_from((0, 1, 5, 1000))
FIVE_NAMES = st.lists(st.sampled_from(NAMES), min_size=5, max_size=5, unique=True)
FOUNDERS = st.lists(WHO, min_size=3, max_size=4, unique=True)
CHANGES = st.sampled_from(("remove", "remove", "leave", "leave", "transfer", "role", "role", "update", "update"))
FOLDER = st.sampled_from((None, *FOLDERS))
UP_TO = st.none() | st.integers(0, 9) | st.just(1000)


def _three_of(kinds: tuple[str, ...]) -> st.SearchStrategy[list[str]]:
    return st.lists(st.sampled_from(kinds), min_size=3, max_size=3)


class SessionMachine(Walk):
    """Operations of people on their sessions, groups and messages."""

    @rule(who=WHO, to=ANY, mention=st.booleans(), mentions_all=st.booleans(), process=PROCESS)
    def send(self, who: int, to: int, mention: bool, mentions_all: bool, process: int) -> None:
        self.do(self.actions.send(self.model, self.users[who], to, mention, mentions_all), process)

    @rule(people=st.lists(WHO, min_size=2, max_size=5), which=ANY, mention=st.booleans(), process=PROCESS)
    def talk(self, people: list[int], which: int, mention: bool, process: int) -> None:
        """Send several messages in a row, to one group if there is any."""
        for left, who in zip(range(len(people), 0, -1), people, strict=True):
            op = self.actions.send(self.model, self.users[who], 8 + which % 2, mention)
            self.do(op, process, review=left == 1)

    @rule(
        kind=st.sampled_from(("edit", "edit", "recall")), who=WHO, which=ANY, number=st.integers(0, 3), process=PROCESS
    )
    def revise(self, kind: str, who: int, which: int, number: int, process: int) -> None:
        self.do(self.actions.revise(self.model, kind, self.users[who], which, number), process)

    @rule(
        kind=st.sampled_from(("react", "react", "react", "unreact", "clear")),
        who=WHO,
        which=ANY,
        number=st.integers(0, 3),
        process=PROCESS,
    )
    def react(self, kind: str, who: int, which: int, number: int, process: int) -> None:
        self.do(self.actions.react(self.model, kind, self.users[who], which, number), process)

    @rule(
        kind=st.sampled_from(("pin_message", "pin_message", "unpin_message")),
        who=WHO,
        which=ANY,
        number=st.integers(0, 3),
        process=PROCESS,
    )
    def pin_message(self, kind: str, who: int, which: int, number: int, process: int) -> None:
        self.do(self.actions.pin(self.model, kind, self.users[who], which, number), process)

    @rule(people=st.lists(WHO, min_size=2, max_size=5), which=ANY, number=st.integers(0, 1), process=PROCESS)
    def applaud(self, people: list[int], which: int, number: int, process: int) -> None:
        """React to one message one after the other, faster than events are published."""
        first = self.actions.react(self.model, "react", self.users[people[0]], which, number)
        self.do(first, process, review=False)
        for left, who in zip(range(len(people) - 1, 0, -1), people[1:], strict=True):
            if first.kind == "react":
                op = replace(first, user=self.users[who], kind="unreact" if who == people[0] else "react")
                self.do(op, 1 - process, review=left == 1)

    @rule(who=WHO, which=ANY, up_to=UP_TO, process=PROCESS)
    def read(self, who: int, which: int, up_to: int | None, process: int) -> None:
        self.do(self.actions.change(self.model, "read", self.users[who], which, up_to), process)

    @rule(who=WHO, which=ANY, up_to=UP_TO, process=PROCESS)
    def receive(self, who: int, which: int, up_to: int | None, process: int) -> None:
        seq = 1_000 if up_to is None else up_to
        self.do(self.actions.change(self.model, "receive", self.users[who], which, seq), process)

    @rule(who=WHO, which=st.none() | st.lists(ANY, max_size=5), up_to=UP_TO, process=PROCESS)
    def mark_many(self, who: int, which: list[int] | None, up_to: int | None, process: int) -> None:
        self.do(self.actions.mark_many(self.model, self.users[who], which, up_to), process)

    @rule(who=WHO, which=ANY, hard=st.booleans(), process=PROCESS)
    def delete(self, who: int, which: int, hard: bool, process: int) -> None:
        self.do(self.actions.change(self.model, "delete", self.users[who], which, hard), process)

    @rule(who=WHO, which=ANY, until=MUTES, process=PROCESS)
    def mute(self, who: int, which: int, until: int | None, process: int) -> None:
        self.do(self.actions.change(self.model, "mute", self.users[who], which, until), process)

    @rule(who=WHO, which=ANY, priority=PRIORITIES, process=PROCESS)
    def pin(self, who: int, which: int, priority: int, process: int) -> None:
        self.do(self.actions.change(self.model, "pin", self.users[who], which, priority), process)

    @rule(who=WHO, which=ANY, process=PROCESS)
    def remind(self, who: int, which: int, process: int) -> None:
        self.do(self.actions.change(self.model, "remind", self.users[who], which), process)

    @rule(who=WHO, which=st.lists(ANY, max_size=4), folder=FOLDER, process=PROCESS)
    def assign(self, who: int, which: list[int], folder: str | None, process: int) -> None:
        self.do(self.actions.assign(self.model, self.users[who], which, folder), process)

    @rule(who=WHO, which=ANY, whom=st.lists(WHO, max_size=1), process=PROCESS)
    def invite(self, who: int, which: int, whom: list[int], process: int) -> None:
        self.do(self.actions.group(self.model, "invite", self.users[who], which, whom), process)

    @rule(kind=CHANGES, who=WHO, which=ANY, whom=WHO, more=st.integers(0, 3), process=PROCESS)
    def change_group(self, kind: str, who: int, which: int, whom: int, more: int, process: int) -> None:
        self.do(self.actions.group(self.model, kind, self.users[who], which, [whom], more), process)

    @rule(kind=st.sampled_from(("dismiss", "dissolve")), who=WHO, which=ANY, sure=st.integers(0, 4), process=PROCESS)
    def end_group(self, kind: str, who: int, which: int, sure: int, process: int) -> None:
        """End a group; rarely, because little can happen after it."""
        if sure == 0:
            self.do(self.actions.group(self.model, kind, self.users[who], which, []), process)

    @initialize(names=FIVE_NAMES, members=FOUNDERS, inside=st.booleans(), process=PROCESS)
    def begin(self, names: list[str], members: list[int], inside: bool, process: int) -> None:
        self.meet(names)
        self.found(members, inside, process)

    @rule(members=FOUNDERS, inside=st.booleans(), process=PROCESS)
    def found(self, members: list[int], inside: bool, process: int) -> None:
        if len(self.groups) == 3:
            return
        self.step("found")
        owner, *others = (self.users[number] for number in members)
        sub_biz = SUB_BIZ if inside else None

        async def act() -> None:
            fields = {"name": "Group", "memberIds": others, "subBiz": sub_biz}
            made = await self.processes.apis[process].data(owner, CREATE_GROUP, input=fields)
            group = made["createGroup"]["id"]
            self.groups[group] = f"g_{len(self.groups)}"
            self.model.create_group(group, owner, others, sub_biz)
            await self.processes.quiet()
            await self.checks.check(self.checks.touched(), 1 - process)

        self.processes.run(act())
        self.is_consistent = True

    @rule(
        people=st.lists(WHO, min_size=2, max_size=3),
        kinds=_three_of(BURST) | _three_of(GROUP_BURST),
        which=ANY,
        value=st.integers(0, 3),
        process=PROCESS,
    )
    def burst(self, people: list[int], kinds: list[str], which: int, value: int, process: int) -> None:
        """Run operations concurrently: some order of them has to explain the outcome."""
        pairs = zip(people, kinds, strict=False)
        done = [self.actions.any(self.model, kind, self.users[who], which, value) for who, kind in pairs]
        self.step("burst")
        self.checks.bursts += 1
        for device in self.devices:
            device.received.bursts = True
        note(f"{done}".replace(self.tag, ""))

        async def act() -> None:
            answers = await gather_all(*(self.processes.call(op, (process + n) % 2) for n, op in enumerate(done)))
            models = self.checks.orders(list(zip(done, answers, strict=True)))
            await self.processes.quiet()
            # Senders are shown receipts, which may tell orders apart.
            names = {op.target for op in done}.union(*(op.value or () for op in done if op.kind == "read_many"))
            places = {(op.user, op.target) for op in done if op.target[:2] in ("p_", "g_")}
            places |= {
                (user, name)
                for name in names & self.model.conversations.keys()
                for user in self.model.conversations[name].intervals
            }
            models = await self.reading.models_that_agree(models, sorted(places), process)
            touched = {user for model in models for user, _ in model.changed} | {op.user for op in done}
            await self.checks.check_any(models, touched, process)
            for name in {op.target for op in done} & set(self.model.conversations):
                await self.review(name, done[0].user, process)

        self.processes.run(act())
        self.is_consistent = True

    @rule(who=WHO, which=ANY, bad=st.integers(0, BAD - 1), process=PROCESS)
    def refuse(self, who: int, which: int, bad: int, process: int) -> None:
        user = self.users[who]
        if not self.model.names(user):
            return
        document, variables, expected = self.actions.bad(self.model, user, which, bad)
        self.step("refuse")
        note(f"{variables} {expected}".replace(self.tag, ""))

        async def act() -> None:
            response = await self.processes.apis[process].run(user, document, **variables)
            assert parse_refusal(response["errors"][0]) == expected, response
            await self.processes.quiet()
            await self.checks.check([user], process)

        self.processes.run(act())
        self.is_consistent = True


def test_sessions_equal_what_counting_messages_gives_after_any_operations(
    processes: ClockedDeployment, capsys: pytest.CaptureFixture[str]
) -> None:
    SessionMachine.processes = processes
    run_machine(SessionMachine, processes, capsys, examples=3)
