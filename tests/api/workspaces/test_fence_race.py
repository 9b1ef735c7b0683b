"""Changes of rights race sends on three servers: nothing gets in, or out, after a change was answered.

On each server Bob sends one message after the other, until one that he began after the answer.
`CONFAB_TEST_FENCE_ROUNDS` sets the number of changes.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from pymongo import DeleteOne, InsertOne

from store.base.ids import ConversationId, UserId
from store.base.workspace_ids import workspace_of_channel
from store.conversations.conversation import Member, member_from
from store.mongo.collections import MEMBERS, member_row_id
from store.workspaces.changing.proposed_change import ProposedPolicyChange
from store.workspaces.policy import ChannelKind, Policy
from tests.api.channels.test_channel_events import live
from tests.api.client import SEND, Api, Json, Subscriber, gather_all, message_input
from tests.api.conftest import OpenApi
from tests.api.workspaces.calls import LEAVE, add_members, create_workspace
from tests.api.workspaces.role_calls import (
    DELETE_ROLE,
    UPDATE_ROLE,
    add_channel,
    create_role,
    everyone,
    overwrite,
    set_roles,
)

ROUNDS = int(os.environ.get("CONFAB_TEST_FENCE_ROUNDS", "14"))
SEED = int(os.environ.get("CONFAB_TEST_SEED", "1"))

REFUSED = {"FORBIDDEN", "NOT_FOUND", "NOT_A_MEMBER"}


async def change_staff(server: Api, channel: str, user: str, *, joins: bool) -> None:
    """Begin or end a membership of a PRIVATE channel."""
    store, member, id = server.services.app.store, UserId(user), ConversationId(channel)
    row = {"_id": member_row_id(id, member)}

    async def decide(policy: Policy) -> ProposedPolicyChange | None:
        before = await store.mongo.find_one(MEMBERS, row)
        if joins == (before is not None and member_from(member, before).is_current):
            return None
        writes: list[tuple[str, list[Any]]] = [(MEMBERS, [DeleteOne(row)])]
        if joins:
            fields = Member(member, "MEMBER", ((1, None),), 1).to_fields()
            writes.append((MEMBERS, [InsertOne(row | fields)]))
        return ProposedPolicyChange(policy, channel_members=frozenset({(id, member)}), writes=writes)

    assert await store.policy_changes.change(workspace_of_channel(id), decide) is not None


class Scene:
    """A channel where only writers may write. Bob is a writer, and loses the right again and again."""

    def __init__(self, servers: list[Api], random_: random.Random) -> None:
        self.servers = servers
        self.random = random_
        self.outcomes: Counter[str] = Counter()
        self.violations: list[str] = []
        self.writer = ""

    @property
    def server(self) -> Api:
        """One of the servers."""
        return self.random.choice(self.servers)

    async def create(self) -> Scene:
        self.alice, self.bob = await self.server.create_users("alice", "bob")
        self.workspace = await create_workspace(self.server, self.alice)
        self.channel = self.general = await add_channel(self.server, self.workspace)
        people = [self.alice, self.bob]
        self.staff = await add_channel(self.server, self.workspace, "staff", ChannelKind.PRIVATE, members=people)
        base = {"permissions": ["VIEW_CHANNEL", "READ_HISTORY"]}
        await self.server.data(self.alice, UPDATE_ROLE, id=everyone(self.workspace), input=base)
        await self.restore()
        return self

    async def restore(self) -> None:
        """Make Bob a writer with all rights, whatever he lacks."""
        await add_members(self.server, self.workspace, self.bob)
        if self.writer:
            # It may be gone already.
            await self.server.run(self.alice, DELETE_ROLE, id=self.writer)
        self.writer = await create_role(self.server, self.alice, self.workspace, "writer", "SEND_MESSAGES")
        await set_roles(self.server, self.alice, self.workspace, self.bob, self.writer)
        await overwrite(self.server, self.alice, channel=self.general, user=self.bob)
        await change_staff(self.server, self.staff, self.bob, joins=True)

    # Changes that take a right from Bob

    async def change_role(self) -> None:
        await self.server.data(self.alice, UPDATE_ROLE, id=self.writer, input={"permissions": []})

    async def delete_role(self) -> None:
        await self.server.data(self.alice, DELETE_ROLE, id=self.writer)

    async def take_role(self) -> None:
        await set_roles(self.server, self.alice, self.workspace, self.bob)

    async def deny_role(self) -> None:
        await overwrite(self.server, self.alice, channel=self.channel, role=self.writer, deny=["SEND_MESSAGES"])

    async def hide_channel(self) -> None:
        await overwrite(self.server, self.alice, channel=self.channel, user=self.bob, deny=["VIEW_CHANNEL"])

    async def leave(self) -> None:
        await self.server.data(self.bob, LEAVE, id=self.workspace)

    async def remove_from_staff(self) -> None:
        await change_staff(self.server, self.staff, self.bob, joins=False)

    async def race(self, change: Callable[[], Awaitable[None]]) -> None:
        """Make a change while Bob sends on all servers, then compare the order of seqs with that of the answers."""
        hides = change in (self.hide_channel, self.leave, self.remove_from_staff)
        self.channel = self.staff if change == self.remove_from_staff else self.general
        streams = [(await live(server, self.bob, self.channel))[0] for server in self.servers] if hides else []
        answered = asyncio.Event()

        async def send(server: Api) -> list[tuple[bool, Json]]:
            sent = []
            begun_late = False
            while not begun_late:
                begun_late = answered.is_set()
                sent.append((begun_late, await server.run(self.bob, SEND, input=message_input(self.channel, "bob"))))
            return sent

        sending = [asyncio.create_task(send(server)) for server in self.servers]
        for _ in range(self.random.randrange(12)):
            await asyncio.sleep(0)
        await change()
        answered.set()
        marker = (await self.server.send(self.alice, self.channel, "marker"))["message"]["seq"]
        name = change.__name__  # type: ignore[attr-defined]
        for begun_late, answer in [outcome for sent in await gather_all(*sending) for outcome in sent]:
            self._judge(name, begun_late, answer, marker)
        for server in self.servers:
            await server.wait_until_idle()
        for stream in streams:
            await self._judge_stream(name, stream, marker)

    def _judge(self, change: str, begun_late: bool, answer: Json, marker: int) -> None:
        if "errors" in answer:
            code = answer["errors"][0]["extensions"]["code"]
            self.outcomes[code] += 1
            if code not in REFUSED:
                self.violations.append(f"{change}: {code}")
            return
        self.outcomes["sent"] += 1
        seq = answer["data"]["sendMessage"]["message"]["seq"]
        if begun_late or seq > marker:
            self.violations.append(f"{change}: a message got in at {seq}, after {marker}")

    async def _judge_stream(self, change: str, stream: Subscriber, marker: int) -> None:
        events = stream.pop_events()
        if not events or events[-1]["__typename"] != "AccessEnded":
            self.violations.append(f"{change}: access did not end")
        shown = [event["message"]["seq"] for event in events if event["__typename"] == "ChannelMessage"]
        self.outcomes["events"] += len(shown)
        if any(seq >= marker for seq in shown):
            self.violations.append(f"{change}: an event went out after the answer")
        await stream.stop()


@pytest.fixture
async def servers(open_api: OpenApi) -> AsyncIterator[list[Api]]:
    async with open_api("fence") as one, open_api("fence") as two, open_api("fence") as three:
        yield [one, two, three]


def delay_places(server: Api, random_: random.Random, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let time pass between the decision that a sender may write and the place of the message, as a busy server does.

    Half of the messages wait, up to the time that a change takes.
    """
    outbox = server.services.app.store.outbox
    reserve = outbox.reserve_in_channel

    async def reserve_later(*args: Any, **options: Any) -> Any:
        if random_.random() < 0.5:
            await asyncio.sleep(random_.uniform(0, 0.08))
        return await reserve(*args, **options)

    monkeypatch.setattr(outbox, "reserve_in_channel", reserve_later)


async def test_no_message_is_sent_or_shown_under_rights_that_have_ended(
    servers: list[Api], monkeypatch: pytest.MonkeyPatch
) -> None:
    random_ = random.Random(SEED)
    scene = await Scene(servers, random_).create()
    for server in servers:
        delay_places(server, random_, monkeypatch)
    changes: list[Any] = [
        scene.change_role,
        scene.delete_role,
        scene.take_role,
        scene.deny_role,
        scene.hide_channel,
        scene.leave,
        scene.remove_from_staff,
    ]
    for number in range(ROUNDS):
        await scene.race(changes[number % len(changes)])
        await scene.restore()
        if len(scene.violations) > 10:
            break
    print(f"changes {number + 1}, {dict(scene.outcomes)}, violations {len(scene.violations)}")
    assert scene.violations == []
    assert scene.outcomes["sent"] and scene.outcomes["FORBIDDEN"] and scene.outcomes["NOT_FOUND"]
