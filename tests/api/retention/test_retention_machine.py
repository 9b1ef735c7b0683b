"""Messages that expire, compared with a naive model: counts, ranges and totals, warm and cold, while users act."""

from __future__ import annotations

import asyncio
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from tests.api.client import Api
from tests.api.conftest import Deployments, OpenApi
from tests.api.retention.calls import advance, expire, remove_expired, send
from tests.checking import find_differences
from tests.clock import DAY_MS, ManualClock

NAME, DAYS = "machine", 30


class _Message:
    """A message of the model."""

    def __init__(self, seq: int, sender: str, at_ms: int, mentions: str | None) -> None:
        self.seq, self.sender, self.at_ms, self.mentions = seq, sender, at_ms, mentions


class _World:
    """The process, a private conversation and a group, and the model of both."""

    def __init__(self, loop: asyncio.AbstractEventLoop, api: Api, clock: ManualClock, deployments: Deployments) -> None:
        self.loop, self.api, self.clock, self.deployments = loop, api, clock, deployments

    def run(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(60)


def _machine(world: _World) -> type[RuleBasedStateMachine]:
    class Machine(RuleBasedStateMachine):
        @initialize()
        def begin(self) -> None:
            self.users = world.run(world.api.create_users("alice", "bob", "carol"))
            alice, bob, carol = self.users
            group = world.run(world.api.create_group(alice, bob, carol))
            first = world.run(send(world.api, alice, bob, "first"))
            private = first["conversationId"]
            self.members = {group: self.users, private: [alice, bob]}
            self.messages: dict[str, list[_Message]] = {
                group: [],
                private: [_Message(first["seq"], alice, world.clock.ms, None)],
            }
            self.read: dict[tuple[str, str], int] = {}
            self.floor = dict.fromkeys(self.members, 0)
            self.read[alice, private] = first["seq"]

        def _pick(self, place: int, person: int) -> tuple[str, str]:
            conversation = list(self.members)[place]
            return conversation, self.members[conversation][person % len(self.members[conversation])]

        @rule(place=st.integers(0, 1), person=st.integers(0, 2), mentioned=st.none() | st.integers(0, 2))
        def write(self, place: int, person: int, mentioned: int | None) -> None:
            conversation, sender = self._pick(place, person)
            other = self._pick(place, mentioned)[1] if mentioned is not None and place == 0 else None
            more = {"mentions": [other]} if other is not None else {}
            message = world.run(send(world.api, sender, conversation, "text", **more))
            self.messages[conversation].append(_Message(message["seq"], sender, world.clock.ms, other))
            self.read[sender, conversation] = message["seq"]

        @rule(place=st.integers(0, 1), person=st.integers(0, 2))
        def mark_read(self, place: int, person: int) -> None:
            conversation, user = self._pick(place, person)
            session = world.run(world.api.mark_read(user, conversation))
            key = user, conversation
            self.read[key] = max(self.read.get(key, 0), session["writeSeq"])

        @rule(days=st.sampled_from([1, 10, 29, 31]))
        def pass_time(self, days: int) -> None:
            world.run(advance([world.api], world.clock, days))
            world.run(expire(world.api))
            for conversation, messages in self.messages.items():
                expired = [m.seq for m in messages if m.at_ms < world.clock.ms - DAYS * DAY_MS]
                self.floor[conversation] = max([self.floor[conversation], *expired])

        @rule()
        def remove(self) -> None:
            world.run(remove_expired([world.api], world.clock))

        @rule()
        def flush(self) -> None:
            world.deployments.flush_redis(NAME)
            world.run(world.api.services.housekeeper.check_redis())

        @invariant()
        def agrees(self) -> None:
            for user in self.users:
                total = 0
                for conversation, messages in self.messages.items():
                    if user not in self.members[conversation]:
                        continue
                    visible = [m for m in messages if m.seq > self.floor[conversation]]
                    history = world.run(world.api.history(user, conversation))
                    assert [m["seq"] for m in history if m["contentType"] == "TEXT"] == [m.seq for m in visible]
                    unread = [m for m in visible if m.seq > self.read.get((user, conversation), 0)]
                    total += len(unread)
                    session = world.run(world.api.session(user, conversation))
                    assert session["unreadCount"] == len(unread)
                    assert session["unreadMentionCount"] == sum(m.mentions == user for m in unread)
                assert world.run(world.api.data(user, "{ totalUnread }"))["totalUnread"] == total

        def teardown(self) -> None:
            assert world.run(find_differences(world.api.services.app.store)) == []

    return Machine


async def test_counts_equal_the_model_while_messages_expire(open_api: OpenApi, deployments: Deployments) -> None:
    clock = ManualClock()
    async with open_api(NAME, clock, retention_days=DAYS) as api:
        machine = _machine(_World(asyncio.get_running_loop(), api, clock, deployments))
        chosen = settings(
            max_examples=15, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
        )
        await asyncio.to_thread(run_state_machine_as_test, machine, settings=chosen)
