"""Changes of rights race sends on three servers: nothing gets in, or out, after a change was answered.

On each server Bob sends one message after the other, until one that he began after the answer. If the change hides the
channel from him, he also looks at it on each server, Alice mentions him again and again, and slow readers hold events
that he missed.
`CONFAB_TEST_FENCE_ROUNDS` sets the number of changes.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import orjson
import pytest
from pymongo import DeleteOne, InsertOne

from store.base.ids import ConversationId, UserId
from store.base.workspace_ids import workspace_of_channel
from store.conversations.conversation import Member, member_from
from store.mongo.collections import MEMBERS, member_row_id
from store.workspaces.changing.proposed_change import ProposedPolicyChange
from store.workspaces.policy import ChannelKind, Policy
from subscriptions.transport.engine import ConnectionContext, EventStream, GraphQLRequest
from tests.api.channels.channel_subscriber import CHANNELS, live
from tests.api.client import (
    SEND,
    TIMEOUT_SECONDS,
    Api,
    Json,
    Subscriber,
    gather_all,
    make_caller,
    message_input,
)
from tests.api.conftest import OpenApi
from tests.api.events import current_cursor
from tests.api.moderation.calls import KICK, ban, later, time_out, unban
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

ROUNDS = int(os.environ.get("CONFAB_TEST_FENCE_ROUNDS", "10"))
SEED = int(os.environ.get("CONFAB_TEST_SEED", "1"))

MENTIONS = """subscription ($since: Cursor) { messageEvents(since: $since) {
    __typename ... on Mentioned { message { content } } ... on CaughtUp { reset } } }"""

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


class SlowReader:
    """A subscription that reads an event only when it is asked to."""

    def __init__(self, stream: EventStream) -> None:
        self._stream = stream
        self._ready = asyncio.Event()
        stream.on_ready(self._ready.set)

    @classmethod
    async def open(cls, server: Api, user: str, query: str, **variables: Any) -> SlowReader:
        engine, caller, request = server.services.engine, make_caller(user), GraphQLRequest(query, variables)
        prepared = await engine.prepare(request, caller)
        return cls(await engine.subscribe(prepared, request, ConnectionContext(caller, "test")))

    async def next(self) -> Json:
        while (response := self._stream.take()) is None:
            await asyncio.wait_for(self._ready.wait(), TIMEOUT_SECONDS)
            self._ready.clear()
        (value,) = orjson.loads(response)["data"].values()
        assert isinstance(value, dict)
        return value

    async def read_until(self, kind: str) -> list[str]:
        """Return the kinds of all events up to one of a kind, and stop."""
        kinds = [(await self.next())["__typename"]]
        while kinds[-1] != kind:
            kinds.append((await self.next())["__typename"])
        self._stream.close()
        return kinds


class Bystander:
    """Bob's other subscriptions on one server, while a channel is hidden from him."""

    @classmethod
    async def open(cls, scene: Scene, server: Api) -> Bystander:
        """Let Bob miss events, and begin to read them."""
        self = cls()
        bob, channel = scene.bob, scene.channel
        stream, rev = await live(server, bob, channel)
        await stream.stop()
        since = await current_cursor(server, bob)
        for _ in range(3):
            await server.send(scene.alice, channel, "missed", mentions=[bob])
        await server.wait_until_idle()
        positions = [{"id": channel, "rev": rev}]
        self.slow_channel = await SlowReader.open(server, bob, CHANNELS, channels=positions)
        self.slow_mentions = await SlowReader.open(server, bob, MENTIONS, since=since)
        assert (await self.slow_channel.next())["__typename"] == "ChannelMessage"
        assert (await self.slow_mentions.next())["__typename"] == "Mentioned"
        self.device = await server.listen(bob, MENTIONS)
        return self

    async def judge(self, scene: Scene, change: str) -> None:
        """Read everything after the answer. `device` has shown what came before it."""
        kinds = await self.slow_channel.read_until("AccessEnded")
        if "ChannelMessage" in kinds:
            scene.violations.append(f"{change}: a slow reader got a message after the answer")
        kinds = await self.slow_mentions.read_until("CaughtUp")
        if "Mentioned" in kinds:
            scene.violations.append(f"{change}: a slow reader got a mention after the answer")
        if any(event["__typename"] == "Mentioned" for event in self.device.pop_events()):
            scene.violations.append(f"{change}: a mention went out after the answer")
        await self.device.stop()


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
        await unban(self.server, self.alice, self.workspace, self.bob)
        await add_members(self.server, self.workspace, self.bob)
        await time_out(self.server, self.alice, self.workspace, self.bob, None)
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

    async def kick(self) -> None:
        await self.server.data(self.alice, KICK, id=self.workspace, user=self.bob)

    async def ban(self) -> None:
        await ban(self.server, self.alice, self.workspace, self.bob)

    async def time_out(self) -> None:
        await time_out(self.server, self.alice, self.workspace, self.bob, later(days=1))

    async def remove_from_staff(self) -> None:
        await change_staff(self.server, self.staff, self.bob, joins=False)

    async def race(self, change: Callable[[], Awaitable[None]]) -> None:
        """Make a change while Bob sends on all servers, then compare the order of seqs with that of the answers."""
        hides = change in (self.hide_channel, self.leave, self.remove_from_staff, self.kick, self.ban)
        self.channel = self.staff if change == self.remove_from_staff else self.general
        streams = [(await live(server, self.bob, self.channel))[0] for server in self.servers] if hides else []
        bystanders = [await Bystander.open(self, server) for server in self.servers] if hides else []
        answered = asyncio.Event()

        async def mention() -> None:
            while hides and not answered.is_set():
                sent = await self.server.run(
                    self.alice, SEND, input=message_input(self.channel, "alice", mentions=[self.bob])
                )
                self.outcomes["mentions sent" if "errors" not in sent else "mentions refused"] += 1

        async def send(server: Api) -> list[tuple[bool, Json]]:
            sent = []
            begun_late = False
            while not begun_late:
                begun_late = answered.is_set()
                sent.append((begun_late, await server.run(self.bob, SEND, input=message_input(self.channel, "bob"))))
            return sent

        sending = [asyncio.create_task(send(server)) for server in self.servers]
        mentioning = asyncio.create_task(mention())
        for _ in range(self.random.randrange(12)):
            await asyncio.sleep(0)
        await change()
        answered.set()
        await self._forget_mentions(bystanders)
        marker = (await self.server.send(self.alice, self.channel, "marker"))["message"]["seq"]
        name = change.__name__  # type: ignore[attr-defined]
        for begun_late, answer in [outcome for sent in await gather_all(*sending) for outcome in sent]:
            self._judge(name, begun_late, answer, marker)
        await mentioning
        for server in self.servers:
            await server.wait_until_idle()
        for stream in streams:
            await self._judge_stream(name, stream, marker)
        for bystander in bystanders:
            await bystander.judge(self, name)

    async def _forget_mentions(self, bystanders: list[Bystander]) -> None:
        """Forget what devices showed before the answer. They take what their subscriptions have sent."""
        if bystanders:
            for _ in range(20):
                await asyncio.sleep(0)
        for bystander in bystanders:
            self.outcomes["mentions"] += sum(e["__typename"] == "Mentioned" for e in bystander.device.pop_events())

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

    The same between the decision who is notified of a mention and its delivery. Half of the messages wait, up to the
    time that a change takes.
    """
    outbox = server.services.app.store.outbox
    reserve = outbox.reserve_in_channel

    async def reserve_later(*args: Any, **options: Any) -> Any:
        if random_.random() < 0.5:
            await asyncio.sleep(random_.uniform(0, 0.08))
        return await reserve(*args, **options)

    monkeypatch.setattr(outbox, "reserve_in_channel", reserve_later)
    mentions = server.services.app.store.channel_mentions
    find = mentions.find

    async def find_and_wait(*args: Any) -> Any:
        found = await find(*args)
        if random_.random() < 0.5:
            await asyncio.sleep(random_.uniform(0, 0.08))
        return found

    monkeypatch.setattr(mentions, "find", find_and_wait)


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
        scene.kick,
        scene.ban,
        scene.time_out,
        scene.remove_from_staff,
    ]
    for number in range(ROUNDS):
        await scene.race(changes[number % len(changes)])
        await scene.restore()
        if len(scene.violations) > 10:
            break
    print(f"changes {number + 1}, {dict(scene.outcomes)}, violations {len(scene.violations)}")
    assert scene.violations == []
    assert scene.outcomes["mentions"] or len(changes) > ROUNDS
    assert scene.outcomes["sent"] and scene.outcomes["FORBIDDEN"] and scene.outcomes["NOT_FOUND"]
