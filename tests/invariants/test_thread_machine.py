"""I1, I3, I4 and I6 in threads: random operations in a private conversation and in groups, compared with a model.

They run on three processes, and on a Redis that loses data.
"""

from __future__ import annotations

from typing import Any, ClassVar

import pytest
from hypothesis import note
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from tests.api.client import Api, Json, Refusal, message_input, parse_refusal
from tests.api.session_calls import DELETE, MARK_READ, MUTE, SET_UNREAD
from tests.api.threads.calls import FOLLOW, LOCK
from tests.invariants.machine.deployment import CREATE_GROUP, DOCUMENTS, ClockedDeployment
from tests.invariants.machine.running import run_machine
from tests.invariants.machine.thread_checks import check_user
from tests.invariants.machine.walk import STEP_MS, WHO
from tests.invariants.model.operation import Op
from tests.invariants.model.threads import ModelReply, ModelThread, ThreadModel
from tests.user_ids import private_id

PROCESS = st.integers(0, 2)
WHICH = st.sampled_from((0, 0, 0, 1, 1, 2, 3))
WHERE = st.sampled_from((0, 0, 0, 1, 1, 2))
"""A group whose new members do not see what was before, one whose members see all, or a private conversation."""

NAMED = st.sampled_from(("parent", "parent", "thread", "thread", "reply"))
OTHERS = st.lists(WHO, max_size=2, unique=True)


class ThreadMachine(RuleBasedStateMachine):
    """Operations of five users on threads and on the conversations that they are in."""

    processes: ClassVar[ClockedDeployment]

    def __init__(self) -> None:
        super().__init__()
        self.is_consistent = False
        self.step_number = 0

    @initialize(process=PROCESS)
    def begin(self, process: int) -> None:
        self.processes.run(self.processes.housekeeping())
        self.processes.run(self._begin(self.processes.apis[process]))
        self.is_consistent = True

    async def _begin(self, api: Api) -> None:
        self.users = await api.create_users("olga", "ann", "ben", "cleo", "dan")
        self.tag = self.users[0].rpartition("-")[2]
        self.model = ThreadModel()
        self.model.base.now = self.processes.now
        self.places: list[str] = []
        owner, *others = self.users
        for visibility in ("SINCE_JOIN", "FULL"):
            fields = {"name": "Group", "memberIds": others[:3], "historyVisibility": visibility}
            group = (await api.data(owner, CREATE_GROUP, input=fields))["createGroup"]["id"]
            self.model.base.create_group(group, owner, others[:3], None)
            self.model.base.conversations[group].full = visibility == "FULL"
            self.places.append(group)
        self.places.append(private_id(owner, others[0]))
        for place in self.places:
            await self._call(api, Op("send", owner, place, ([], False, "text", None)))
        await self.processes.quiet()

    # --- doing

    def _step(self, kind: str) -> None:
        assert self.is_consistent
        self.is_consistent = False
        self.step_number += 1
        self.processes.steps[kind] += 1
        self.processes.move_clocks((STEP_MS,) * len(self.processes.clocks))
        self.model.base.now = self.processes.now

    async def _call(self, api: Api, op: Op) -> None:
        """Carry out an operation on a conversation or on a session of one."""
        refused = self.model.base.apply(op)
        answer = await self.processes.call(op, self.processes.apis.index(api))
        assert (answer.code if isinstance(answer, Refusal) else None) == (refused and refused.code), f"{op}: {answer}"
        if op.kind == "send" and refused is None:
            self.processes.ids[op.target, answer["message"]["seq"]] = answer["message"]["id"]

    def _do(self, op: Op, process: int) -> None:
        self._step(op.kind)
        note(f"{op} on {process}".replace(self.tag, ""))
        self._finish(self._call(self.processes.apis[process], op), {op.user}, process)

    def _try(self, kind: str, user: str, errors: set[str], process: int, document: str, **variables: Any) -> None:
        """Run a mutation, which has to be refused with one of these errors, if there are any."""
        note(f"{kind} {user} {variables} {errors} on {process}".replace(self.tag, ""))
        self._finish(self._run(user, errors, process, document, **variables), {user}, process)

    async def _run(self, user: str, errors: set[str], process: int, document: str, **variables: Any) -> Json:
        answer = await self.processes.apis[process].run(user, document, **variables)
        code = parse_refusal(answer["errors"][0]).code if "errors" in answer else None
        assert code in errors if errors else code is None, f"expected {errors}, got {answer}"
        data: Json = answer["data"]
        return data

    def _finish(self, work: Any, users: set[str], process: int) -> None:
        """Wait for the work, and check its users and another one."""

        async def act() -> None:
            await work
            await self.processes.quiet(published=False)
            seen = users | {self.users[self.step_number % len(self.users)]}
            for user in sorted(seen):
                await check_user(self.processes.apis[(process + 1) % 3], self.model, user)

        self.processes.run(act())
        self.is_consistent = True

    # --- conversations

    @rule(who=WHO, where=WHERE, process=PROCESS)
    def send(self, who: int, where: int, process: int) -> None:
        self._do(Op("send", self._in(who, where), self.places[where], ([], False, "text", None)), process)

    @rule(who=WHO, where=WHERE, which=WHICH, process=PROCESS)
    def recall_parent(self, who: int, where: int, which: int, process: int) -> None:
        """Recall a message, at times one that has a thread."""
        seqs = self._seqs(where)
        self._do(Op("recall", self._in(who, where), self.places[where], (seqs[-1 - which % len(seqs)],)), process)

    @rule(
        kind=st.sampled_from(("leave", "remove", "invite", "invite", "role")),
        role=st.sampled_from(("ADMIN", "MEMBER")),
        who=st.integers(1, 4),
        where=st.integers(0, 1),
        process=PROCESS,
    )
    def change_group(self, kind: str, role: str, who: int, where: int, process: int) -> None:
        owner, user, group = self.users[0], self.users[who], self.places[where]
        values: dict[str, object] = {"leave": None, "remove": user, "invite": [user], "role": (user, role)}
        self._do(Op(kind, user if kind == "leave" else owner, group, values[kind]), process)

    def _in(self, who: int, where: int) -> str:
        """Return a user, who is one of the two people if the conversation is private."""
        return self.users[who % 2 if where == 2 else who]

    def _seqs(self, where: int) -> list[int]:
        return sorted(seq for name, seq in self.processes.ids if name == self.places[where])

    # --- threads

    @rule(who=WHO, where=WHERE, which=WHICH, named=NAMED, mentioned=OTHERS, process=PROCESS)
    def reply(self, who: int, where: int, which: int, named: str, mentioned: list[int], process: int) -> None:
        """Reply by the parent message, by a reply, or in the thread."""
        self._step("reply")
        self._reply(who, where, which, named, mentioned, process)

    @rule(people=st.lists(WHO, min_size=2, max_size=4), where=WHERE, which=WHICH, named=NAMED, process=PROCESS)
    def discuss(self, people: list[int], where: int, which: int, named: str, process: int) -> None:
        """Reply one after the other in one thread."""
        for number, who in enumerate(people):
            self._step("reply")
            self._reply(who, where, which, named, [people[number - 1]], (process + number) % 3)

    def _reply(self, who: int, where: int, which: int, named: str, mentioned: list[int], process: int) -> None:
        user, seqs = self._in(who, where), self._seqs(where)
        thread = self.model.thread(self.places[where], seqs[-1 - which % len(seqs)])
        others = frozenset(self._in(each, where) for each in mentioned) - {user}
        to, by = self.processes.ids[thread.conversation, thread.parent_seq], None if named == "parent" else thread.id
        name: str | int | None = by
        if named == "thread":
            to = thread.id
        elif named == "reply":
            name = thread.seq - which % thread.seq if thread.replies else None
            to = thread.replies[name - 1].id if isinstance(name, int) else to
        errors = self.model.reply(user, thread, others, name)
        note(f"reply {user} {named} {to} {sorted(others)} {errors} on {process}".replace(self.tag, ""))

        async def act() -> None:
            fields = message_input(to, "text", mentions=sorted(others))
            data = await self._run(user, errors, process, DOCUMENTS["send"], input=fields)
            if not errors:
                sent = data["sendMessage"]["message"]
                thread.replies[-1].id = sent["id"]
                assert sent["seq"] == thread.seq

        self._finish(act(), {user, *others}, process)

    def _thread(self, where: int) -> ModelThread | None:
        """Return one of the threads that have replies."""
        begun = self.model.begun()
        return begun[-1 - where % len(begun)] if begun else None

    @rule(who=WHO, which=WHICH, number=WHICH, process=PROCESS)
    def recall(self, who: int, which: int, number: int, process: int) -> None:
        thread = self._thread(which)
        if thread is not None and self._may_be_in(who, thread):
            self._step("recall reply")
            reply: ModelReply = thread.replies[-1 - number % thread.seq]
            user = reply.sender if number % 2 else self.users[who]
            errors = self.model.recall(user, thread, reply.seq)
            self._try("recall", user, errors, process, DOCUMENTS["recall"], id=reply.id)

    @rule(who=WHO, which=WHICH, on=st.booleans(), process=PROCESS)
    def follow(self, who: int, which: int, on: bool, process: int) -> None:
        thread, user = self._thread(which), self.users[who]
        if thread is not None and self._may_be_in(who, thread):
            self._step("follow" if on else "unfollow")
            errors = self.model.follow(user, thread, on)
            self._try("follow", user, errors, process, FOLLOW, id=thread.id, on=on)

    @rule(who=WHO, which=WHICH, on=st.sampled_from((True, False, False)), process=PROCESS)
    def lock(self, who: int, which: int, on: bool, process: int) -> None:
        thread, user = self._thread(which), self.users[who]
        if thread is not None and self._may_be_in(who, thread):
            self._step("lock" if on else "unlock")
            errors = self.model.lock(user, thread, on)
            self._try("lock", user, errors, process, LOCK, id=thread.id, on=on)

    def _may_be_in(self, who: int, thread: ModelThread) -> bool:
        return self.users[who] in self.model.parent_of(thread).intervals

    # --- sessions

    @rule(who=WHO, which=WHICH, up_to=st.none() | st.integers(0, 6), process=PROCESS)
    def read(self, who: int, which: int, up_to: int | None, process: int) -> None:
        thread, user = self._present(who, which), self.users[who]
        if thread is not None:
            self._step("read thread")
            self.model.read(user, thread, up_to)
            self._try("read", user, set(), process, MARK_READ, id=thread.id, seq=up_to)

    @rule(who=WHO, which=WHICH, muted=st.booleans(), process=PROCESS)
    def mute(self, who: int, which: int, muted: bool, process: int) -> None:
        thread, user = self._present(who, which), self.users[who]
        if thread is not None and user in thread.sessions:
            self._step("mute thread")
            thread.sessions[user].muted = muted
            thread.sessions[user].reminder = False
            self._try("mute", user, set(), process, MUTE, id=thread.id, muted=muted)

    @rule(who=WHO, which=WHICH, process=PROCESS)
    def remind(self, who: int, which: int, process: int) -> None:
        thread, user = self._present(who, which), self.users[who]
        if thread is not None and self.model.is_listed(user, thread):
            self._step("mark thread as unread")
            thread.sessions[user].reminder = True
            self._try("remind", user, set(), process, SET_UNREAD, id=thread.id)

    @rule(who=WHO, which=WHICH, process=PROCESS)
    def delete(self, who: int, which: int, process: int) -> None:
        thread, user = self._present(who, which), self.users[who]
        if thread is not None and thread.follows(user):
            self._step("delete thread")
            thread.sessions[user].deleted, thread.sessions[user].reminder = thread.seq, False
            self._try("delete", user, set(), process, DELETE, id=thread.id)

    @rule(who=WHO, process=PROCESS)
    def read_inbox(self, who: int, process: int) -> None:
        user = self.users[who]
        listed = [thread for thread in self.model.begun() if self.model.is_listed(user, thread)]
        if listed:
            self._step("read inbox")
            for thread in listed:
                self.model.read(user, thread, None)
            self._try("read", user, set(), process, MARK_READ, id="b_@threads", seq=None)

    def _present(self, who: int, which: int) -> ModelThread | None:
        """Return a thread that a user sees as a member of its conversation."""
        thread, user = self._thread(which), self.users[who]
        if thread is None or not self.model.sees(user, thread) or user not in self.model.parent_of(thread).members:
            return None
        return thread

    # --- time and losses

    @rule(ms=st.sampled_from((1_000, 121_000)), process=PROCESS)
    def pass_time(self, ms: int, process: int) -> None:
        self._step("time")
        self.processes.move_clocks((ms,) * len(self.processes.clocks))
        self._finish(self.processes.housekeeping(), set(), process)

    @rule(seed=st.none() | st.integers(0, 1 << 16), share=st.sampled_from((0.2, 0.5, 1.0)), noticed=st.booleans())
    def lose(self, seed: int | None, share: float, noticed: bool) -> None:
        """Delete keys from Redis. Without a seed all of them."""
        self._step("lose")

        async def act() -> None:
            await self.processes.quiet()
            names = {self.tag: "", **{name: f"p_{n}" for n, name in enumerate(self.places)}}
            note(f"lost {self.processes.lose(share if seed is not None else 1, seed, names)}")
            if noticed:
                await self.processes.housekeeping()

        self.processes.run(act())
        self.is_consistent = True

    def _check_all_users(self, process: int) -> None:
        for user in self.users:
            self.processes.run(check_user(self.processes.apis[process], self.model, user))

    def teardown(self) -> None:
        if self.is_consistent:
            self._check_all_users(0)
            self.processes.run(self.processes.check_derived_data())
        self.processes.lose(1, 0)
        self.processes.ids.clear()


@pytest.mark.parametrize("process_count", [3])
def test_threads_are_what_a_naive_model_counts_after_any_operations(
    processes: ClockedDeployment, capsys: pytest.CaptureFixture[str]
) -> None:
    ThreadMachine.processes = processes
    run_machine(ThreadMachine, processes, capsys, examples=2, steps=30)
