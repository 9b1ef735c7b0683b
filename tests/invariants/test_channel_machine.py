"""I1, I3, I5 and I9 in channels: random operations on a workspace, compared with a model.

They run on two processes, and on a Redis that loses data. The operations on sessions and groups are in
`test_session_machine`.
"""

from __future__ import annotations

from typing import ClassVar

import pytest
from hypothesis import note
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from resolvers.following import synchronising
from store.workspaces.permissions import EVERYTHING, OF_EVERYONE, Permission
from tests.api.channels.session_calls import ChannelClient
from tests.api.client import parse_refusal
from tests.invariants.machine.channel_checks import ChannelChecks
from tests.invariants.machine.channel_requests import CREATE_ROLE, CREATE_WORKSPACE, SYNC, ChannelRequests
from tests.invariants.machine.deployment import ClockedDeployment
from tests.invariants.machine.running import run_machine
from tests.invariants.machine.walk import PROCESS, STEP_MS, WHO
from tests.invariants.model.channels import EVERYONE, NONE, PRIVATE, PUBLIC, VIEW, ChannelModel
from tests.invariants.model.operation import Op
from tests.invariants.model.reactions import EMOJI
from tests.invariants.model.sessions import Json

WHICH = st.sampled_from((0, 0, 0, 1, 1, 2, 3))
KIND = st.sampled_from((PUBLIC, PRIVATE))
OFTEN_CHANGED = ("VIEW_CHANNEL", "READ_HISTORY", "SEND_MESSAGES")
GRANTED = (
    "MANAGE_CHANNELS",
    "INVITE_MEMBERS",
    "MENTION_EVERYONE",
    "MANAGE_MESSAGES",
    "PIN_MESSAGES",
    "ADD_REACTIONS",
    *OFTEN_CHANGED,
)
ROLES = ("guide", "staff")
WHOSE = st.sampled_from((EVERYONE, EVERYONE, "guide", "staff", 1, 2, 3, 4))
GIVEN = st.frozensets(st.sampled_from(GRANTED), max_size=4)
DENIED = st.frozensets(st.sampled_from((*OFTEN_CHANGED, "ADD_REACTIONS")), max_size=2)
OWNER = 0


class ChannelMachine(RuleBasedStateMachine):
    """Operations of the members of a workspace, and of a user who joins it."""

    processes: ClassVar[ClockedDeployment]

    def __init__(self) -> None:
        super().__init__()
        self.is_consistent = False
        self.clients: list[tuple[str, ChannelClient]] = []
        self.step_number = 0

    @initialize(process=PROCESS, has_full_history=st.booleans())
    def begin(self, process: int, has_full_history: bool) -> None:
        self.processes.run(self.processes.housekeeping())
        self.processes.run(self._begin(process, has_full_history))
        self.is_consistent = True

    async def _begin(self, process: int, has_full_history: bool) -> None:
        """Create five users, and a workspace with two roles, a default channel, a PRIVATE one and another."""
        api = self.processes.apis[process]
        self.users = await api.create_users("olga", "ann", "ben", "cleo", "dan")
        self.tag = self.users[0].rpartition("-")[2]
        owner = self.users[OWNER]
        fields: Json = {"name": "Hikers", "isOpen": True}
        workspace = (await api.data(owner, CREATE_WORKSPACE, input=fields))["createWorkspace"]["id"]
        roles = {}
        for name in ROLES:
            fields = {"name": name, "permissions": [], "isMentionable": name == "guide"}
            roles[name] = (await api.data(owner, CREATE_ROLE, id=workspace, input=fields))["createRole"]["id"]
        self.requests = ChannelRequests(workspace, roles)
        self.model = ChannelModel(owner, _names(OF_EVERYONE), _names(EVERYTHING))
        self.model.roles |= dict.fromkeys(ROLES, frozenset())
        self.model.mentionable = {"guide"}
        self.checks = ChannelChecks(self.model, self.requests)
        await self._create(Op("create", owner, "", (PUBLIC, has_full_history, [])), process, is_default=True)
        for user in self.users[1:4]:
            await self._call(Op("join", user), process)
        ann, ben = self.users[1:3]
        await self._create(Op("create", owner, "", (PRIVATE, has_full_history, [ann, ben])), process)
        await self._create(Op("create", owner, "", (PUBLIC, not has_full_history, [ben])), process)
        managing = frozenset({"MANAGE_CHANNELS", "INVITE_MEMBERS"})
        await self._call(Op("permit", owner, "", ("guide", managing)), process)
        await self._call(Op("roles", owner, "", (ann, frozenset({"guide"}))), process)
        await self.processes.quiet()
        for user, page in ((ann, 1), (ben, 100)):
            self.clients.append((user, ChannelClient(api, user, page, SYNC)))
            await self.checks.check_client(api, *self.clients[-1])

    async def _call(self, op: Op, process: int) -> None:
        self.model.now = self.processes.now
        expected = self.model.apply(op)
        document, variables = self.requests.request(op)
        answer = await self.processes.apis[process].run(op.user, document, **variables)
        code = parse_refusal(answer["errors"][0]).code if "errors" in answer else None
        assert code == expected, f"expected {expected}, got {answer}"
        if op.kind == "send" and code is None:
            channel = self.model.channels[op.target]
            self.requests.messages[op.target, channel.write_seq] = answer["data"]["sendMessage"]["message"]["id"]

    async def _create(self, op: Op, process: int, *, is_default: bool = False) -> None:
        document, _ = self.requests.request(op)
        expected = self.model.refuse_create(op)
        fields = self.requests.new_channel(op, is_default=is_default)
        answer = await self.processes.apis[process].run(op.user, document, input=fields)
        code = parse_refusal(answer["errors"][0]).code if "errors" in answer else None
        assert code == expected, f"expected {expected}, got {answer}"
        if code is None:
            self.model.create(op, answer["data"]["createChannel"]["id"], is_default)

    def _step(self, kind: str) -> None:
        assert self.is_consistent
        self.is_consistent = False
        self.step_number += 1
        self.processes.steps[kind] += 1
        self.processes.move_clocks((STEP_MS, STEP_MS))

    def _do(self, op: Op, process: int) -> None:
        self._step(op.kind)
        note(f"{op} on {process}".replace(self.tag, ""))

        async def act() -> None:
            await (self._create if op.kind == "create" else self._call)(op, process)
            await self.processes.quiet()
            # One who asked and, in turn, another one.
            for user in {op.user, self.users[self.step_number % len(self.users)]}:
                await self.checks.check_user(self.processes.apis[1 - process], user)
            if self.step_number % 3 == 0:
                await self.checks.check_client(self.processes.apis[process], *self.clients[self.step_number % 2])

        self.processes.run(act())
        self.is_consistent = True

    def _channel(self, which: int) -> str:
        names = list(self.model.channels)
        return names[which % len(names)]

    # --- the workspace

    @rule(who=WHO, process=PROCESS, kind=KIND, has_full_history=st.booleans(), members=st.lists(WHO, max_size=2))
    def create(self, who: int, process: int, kind: str, has_full_history: bool, members: list[int]) -> None:
        user = self.users[who]
        if len(self.model.channels) < 5 and (who == OWNER or VIEW in self.model.roles[EVERYONE]):
            named = [self.users[member] for member in members]
            self._do(Op("create", user, "", (kind, has_full_history, named)), process)

    @rule(who=WHO, kind=st.sampled_from(("join", "join", "leave")), process=PROCESS)
    def join_or_leave(self, who: int, kind: str, process: int) -> None:
        self._do(Op(kind, self.users[who]), process)

    @rule(role=st.sampled_from(ROLES), given=GIVEN, is_administrator=st.integers(0, 9), process=PROCESS)
    def permit(self, role: str, given: frozenset[str], is_administrator: int, process: int) -> None:
        permissions = given | ({"ADMINISTRATOR"} if not is_administrator else set())
        self._do(Op("permit", self.users[OWNER], "", (role, permissions)), process)

    @rule(denied=DENIED, process=PROCESS)
    def permit_everyone(self, denied: frozenset[str], process: int) -> None:
        permissions = frozenset(_names(OF_EVERYONE)) - denied
        self._do(Op("permit", self.users[OWNER], "", (EVERYONE, permissions)), process)

    @rule(member=st.integers(1, 4), roles=st.frozensets(st.sampled_from(ROLES)), process=PROCESS)
    def set_roles(self, member: int, roles: frozenset[str], process: int) -> None:
        self._do(Op("roles", self.users[OWNER], "", (self.users[member], roles)), process)

    @rule(which=WHICH, whose=WHOSE, allow=GIVEN, deny=DENIED, removes=st.booleans(), process=PROCESS)
    def overwrite(
        self, which: int, whose: str | int, allow: frozenset[str], deny: frozenset[str], removes: bool, process: int
    ) -> None:
        value = NONE if removes else (allow - deny, deny)
        target = self.users[whose] if isinstance(whose, int) else whose
        self._do(Op("overwrite", self.users[OWNER], self._channel(which), (target, value)), process)

    # --- channels

    @rule(who=WHO, which=WHICH, kind=KIND, process=PROCESS)
    def change_kind(self, who: int, which: int, kind: str, process: int) -> None:
        self._do(Op("kind", self.users[who], self._channel(which), kind), process)

    @rule(who=WHO, which=WHICH, archived=st.sampled_from((True, False, False)), process=PROCESS)
    def archive(self, who: int, which: int, archived: bool, process: int) -> None:
        self._do(Op("archive", self.users[who], self._channel(which), archived), process)

    @rule(who=WHO, which=WHICH, kind=st.sampled_from(("follow", "follow", "unfollow")), process=PROCESS)
    def follow(self, who: int, which: int, kind: str, process: int) -> None:
        self._do(Op(kind, self.users[who], self._channel(which)), process)

    @rule(who=WHO, which=WHICH, members=st.lists(WHO, min_size=1, max_size=3), process=PROCESS)
    def add(self, who: int, which: int, members: list[int], process: int) -> None:
        self._do(Op("add", self.users[who], self._channel(which), [self.users[each] for each in members]), process)

    @rule(who=WHO, which=WHICH, member=WHO, process=PROCESS)
    def remove(self, who: int, which: int, member: int, process: int) -> None:
        self._do(Op("remove", self.users[who], self._channel(which), self.users[member]), process)

    # --- messages

    @rule(
        who=WHO,
        which=WHICH,
        named=st.lists(WHO, max_size=2, unique=True),
        roles=st.lists(st.sampled_from(ROLES), max_size=1),
        mentions_all=st.sampled_from((False, False, True)),
        process=PROCESS,
    )
    def send(self, who: int, which: int, named: list[int], roles: list[str], mentions_all: bool, process: int) -> None:
        value = ([self.users[each] for each in named], roles, mentions_all, f"text {self.step_number}")
        self._do(Op("send", self.users[who], self._channel(which), value), process)

    @rule(who=WHO, which=WHICH, process=PROCESS)
    def send_plain(self, who: int, which: int, process: int) -> None:
        value = ([], [], False, f"text {self.step_number}")
        self._do(Op("send", self.users[who], self._channel(which), value), process)

    @rule(who=WHO, which=WHICH, number=st.integers(0, 4), recalls=st.booleans(), process=PROCESS)
    def revise(self, who: int, which: int, number: int, recalls: bool, process: int) -> None:
        channel = self._channel(which)
        seqs = sorted(seq for name, seq in self.requests.messages if name == channel)
        if seqs:
            seq, content = seqs[-1 - number % len(seqs)], f"edited {self.step_number}"
            op = ("recall", seq) if recalls else ("edit", (seq, content))
            self._do(Op(op[0], self.users[who], channel, op[1]), process)

    @rule(
        kind=st.sampled_from(("react", "react", "react", "unreact", "clear")),
        people=st.lists(WHO, min_size=1, max_size=3),
        which=WHICH,
        number=st.integers(0, 3),
        process=PROCESS,
    )
    def react(self, kind: str, people: list[int], which: int, number: int, process: int) -> None:
        """React to one message, one user after the other."""
        channel, seq = self._channel(which), self._known_seq(which, number // 2)
        for who in people if seq else ():
            self._do(Op(kind, self.users[who], channel, (seq, EMOJI[number % 2])), process)

    @rule(
        kind=st.sampled_from(("pin", "pin", "unpin")), who=WHO, which=WHICH, number=st.integers(0, 2), process=PROCESS
    )
    def pin(self, kind: str, who: int, which: int, number: int, process: int) -> None:
        seq = self._known_seq(which, number)
        if seq:
            self._do(Op(kind, self.users[who], self._channel(which), seq), process)

    def _known_seq(self, which: int, number: int) -> int:
        """Return the seq of one of the newest messages that were seen in a channel; 0 if there is none."""
        channel = self._channel(which)
        seqs = sorted(seq for name, seq in self.requests.messages if name == channel)
        return seqs[-1 - number % len(seqs)] if seqs else 0

    # --- sessions

    @rule(who=WHO, which=WHICH, up_to=st.none() | st.integers(0, 9), process=PROCESS)
    def read(self, who: int, which: int, up_to: int | None, process: int) -> None:
        self._do(Op("read", self.users[who], self._channel(which), up_to), process)

    @rule(who=WHO, process=PROCESS)
    def read_all(self, who: int, process: int) -> None:
        self._do(Op("read_all", self.users[who]), process)

    @rule(who=WHO, which=WHICH, muted=st.booleans(), process=PROCESS)
    def mute(self, who: int, which: int, muted: bool, process: int) -> None:
        self._do(Op("mute", self.users[who], self._channel(which), muted), process)

    @rule(who=WHO, which=WHICH, process=PROCESS)
    def mark_unread(self, who: int, which: int, process: int) -> None:
        self._do(Op("mark", self.users[who], self._channel(which)), process)

    # --- time, losses, clients

    @rule(ms=st.sampled_from((1_000, 121_000)))
    def pass_time(self, ms: int) -> None:
        self._step("time")
        self.processes.move_clocks((ms, ms))
        self.processes.run(self.processes.housekeeping())
        self.is_consistent = True

    @rule(seed=st.none() | st.integers(0, 1 << 16), share=st.sampled_from((0.2, 0.5, 1.0)), noticed=st.booleans())
    def lose(self, seed: int | None, share: float, noticed: bool) -> None:
        """Delete keys from Redis. Without a seed all of them."""
        self._step("lose")

        async def act() -> None:
            await self.processes.quiet()
            names = {self.tag: "", self.requests.workspace[2:]: "w"}
            lost = self.processes.lose(share if seed is not None else 1, seed, names)
            note(f"lost {lost}")
            if noticed:
                await self.processes.housekeeping()

        self.processes.run(act())
        self.is_consistent = True

    @rule(who=WHO, page=st.sampled_from((1, 2, 100)), process=PROCESS)
    def begin_to_synchronise(self, who: int, page: int, process: int) -> None:
        if len(self.clients) < 4:
            self._step("begin to synchronise")
            self.clients.append(
                (self.users[who], ChannelClient(self.processes.apis[process], self.users[who], page, SYNC))
            )
            self._synchronise(-1, process)

    @rule(which=st.integers(0, 3), process=PROCESS)
    def synchronise(self, which: int, process: int) -> None:
        if self.clients:
            self._step("synchronise")
            self._synchronise(which % len(self.clients), process)

    def _synchronise(self, which: int, process: int) -> None:
        user, client = self.clients[which]
        note(f"{user} synchronises on {process}".replace(self.tag, ""))
        self.processes.run(self.checks.check_client(self.processes.apis[process], user, client))
        self.is_consistent = True

    @rule(process=PROCESS)
    def check_all_users(self, process: int) -> None:
        self._step("check_all_users")
        for user in self.users:
            self.processes.run(self.checks.check_user(self.processes.apis[process], user))
        self.is_consistent = True

    def teardown(self) -> None:
        if self.is_consistent:
            self.check_all_users(0)
            for number in range(len(self.clients)):
                self._synchronise(number, 1)
            self.processes.run(self.processes.check_derived_data())
        self.processes.lose(1, 0)


def _names(permissions: Permission) -> list[str]:
    return [str(each.name) for each in Permission if each in permissions]


def test_channels_are_what_a_naive_model_computes_after_any_operations(
    processes: ClockedDeployment, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # With the margin, all that happened within the last steps would be returned again.
    monkeypatch.setattr(synchronising, "MARGIN_MS", 0)
    ChannelMachine.processes = processes
    run_machine(ChannelMachine, processes, capsys, examples=2, steps=25)
